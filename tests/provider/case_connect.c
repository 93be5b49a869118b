/* SPDX-License-Identifier: Apache-2.0 */
/** How two ends meet, or do not. */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/provider/ends.h"

static void hello_arrives_and_nothing_leaks(void)
{
    unsigned before = wring_test_descriptors();
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    CHECK(a.hello_bytes == 2 && memcmp(a.hello, "me", 2) == 0, "hello");
    ends_close(&a, &b);
    CHECK(wring_test_descriptors() == before, "%u descriptors, were %u", wring_test_descriptors(),
          before);
}

/** The last ones to know of a connection and a region need not clean up after themselves. */
static void close_drops_everything(void)
{
    unsigned before = wring_test_descriptors();
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    a.provider->ops->remote_release(a.remote);
    b.provider->ops->remote_release(b.remote);
    a.remote = b.remote = NULL;
    a.conn = b.conn = NULL;
    a.region = b.region = NULL;
    ends_close(&a, &b);
    CHECK(wring_test_descriptors() == before, "%u descriptors, were %u", wring_test_descriptors(),
          before);
}

static void null_is_fine(void)
{
    struct end a;
    REQUIRE(end_open(&a, 1, 4096, 16), "open");
    const struct wring_provider_ops *ops = a.provider->ops;
    ops->close(NULL);
    ops->disconnect(NULL);
    ops->region_destroy(NULL);
    ops->remote_release(NULL);
    end_close(&a);
}

static void capabilities_make_sense(void)
{
    struct end a;
    struct wring_provider_caps caps = {0};
    REQUIRE(end_open(&a, 1, 4096, 16), "open");
    a.provider->ops->capabilities(a.provider, &caps);
    CHECK(caps.put_max_bytes >= 1 << 20, "puts of %zu bytes", caps.put_max_bytes);
    CHECK(caps.put_depth >= 1, "no puts");
    end_close(&a);
}

static void hello_of(size_t bytes)
{
    struct end a, b;
    uint8_t address[WRING_ADDRESS_MAX], hello[WRING_HELLO_MAX];
    size_t n;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    fill_pattern(hello, sizeof(hello), 9);
    REQUIRE(b.provider->ops->connect(b.provider, address, n, hello, bytes, &b.conn) == WRING_OK,
            "connect");
    UNTIL(&a, &b, (a.accepted && b.connected) || b.closed);
    CHECK(a.hello_bytes == bytes && memcmp(a.hello, hello, bytes) == 0, "hello of %zu", bytes);
    ends_close(&a, &b);
}

static void hellos_of_every_size(void)
{
    struct end a;
    uint8_t address[WRING_ADDRESS_MAX], hello[WRING_HELLO_MAX + 1] = {0};
    size_t n;
    hello_of(0);
    hello_of(1);
    hello_of(WRING_HELLO_MAX);
    REQUIRE(end_open(&a, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    CHECK(a.provider->ops->connect(a.provider, address, n, hello, sizeof(hello), &a.conn) ==
              WRING_ERR_INVALID,
          "too long");
    end_close(&a);
}

static void wrong_secret_is_refused(void)
{
    struct end a, b;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 2, 4096, 16), "open");
    CHECK(!ends_join(&a, &b), "they meet");
    CHECK(b.closed == 1 && b.why == WRING_ERR_AUTH, "%s", wring_status_text(b.why));
    CHECK(b.text[0] != '\0', "without a word");
    CHECK(a.accepted == 0 && b.connected == 0, "let in");
    ends_close(&a, &b);
}

/** After a stranger was refused, friends are still let in. */
static void a_refusal_harms_no_one_else(void)
{
    struct end a, b, c;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(end_open(&a, 1, 4096, 1) && end_open(&b, 2, 4096, 1) && end_open(&c, 1, 4096, 1),
            "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    REQUIRE(end_connect(&b, address, n, "b") && end_connect(&c, address, n, "c"), "connect");
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while ((!b.closed || !c.connected || !a.accepted) && wring_now_ns() < limit) {
        end_turn(&a);
        end_turn(&b);
        end_turn(&c);
    }
    CHECK(b.closed == 1 && c.connected == 1 && a.accepted == 1, "%u %u %u", b.closed, c.connected,
          a.accepted);
    CHECK(a.hello_bytes == 1 && a.hello[0] == 'c', "another one");
    ends_close(&a, &b);
    end_close(&c);
}

static void malformed_addresses_are_refused(void)
{
    struct end a, b;
    uint8_t address[WRING_ADDRESS_MAX], bad[WRING_ADDRESS_MAX];
    struct wring_conn *conn = NULL;
    size_t n;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    const struct wring_provider_ops *ops = b.provider->ops;
    for (size_t bytes = 0; bytes < n; bytes++)
        CHECK(ops->connect(b.provider, address, bytes, "", 0, &conn) == WRING_ERR_FRAME,
              "%zu of %zu bytes", bytes, n);
    memset(bad, 0xFF, sizeof(bad));
    CHECK(ops->connect(b.provider, bad, n, "", 0, &conn) == WRING_ERR_FRAME, "ones");
    CHECK(ops->connect(b.provider, bad, sizeof(bad), "", 0, &conn) == WRING_ERR_FRAME, "long");
    ends_close(&a, &b);
}

/** A second time is refused, and the first one stays as it was. */
/** Asked of any two addresses, in any order; whoever answers reads past no end of them. */
static void listeners_reach_each_other(void)
{
    struct end a, b;
    uint8_t addresses[2][WRING_ADDRESS_MAX];
    size_t bytes[2];
    char why[256] = "";
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, addresses[0], &bytes[0]) && end_listen(&b, addresses[1], &bytes[1]),
            "listen");
    for (int one = 0; one < 2; one++)
        for (int other = 0; other < 2; other++) {
            enum wring_status status =
                a.provider->ops->reaches(b.provider, addresses[one], bytes[one], addresses[other],
                                         bytes[other], why, sizeof(why));
            CHECK(status == WRING_OK, "%d to %d: %s", one, other, why);
        }
    for (size_t n = 0; n < bytes[0]; n++) {
        uint8_t *part = wring_test_guarded(n);
        memcpy(part, addresses[0], n);
        enum wring_status status =
            a.provider->ops->reaches(a.provider, part, n, addresses[1], bytes[1], why, sizeof(why));
        CHECK(status == WRING_OK || status == WRING_ERR_FRAME, "%zu bytes: %s", n,
              wring_status_text(status));
        wring_test_free_guarded();
    }
    end_close(&a);
    end_close(&b);
}

static void listening_twice_is_refused(void)
{
    struct end a, b;
    uint8_t address[WRING_ADDRESS_MAX], other[WRING_ADDRESS_MAX];
    size_t n, m = 7;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    memset(other, 0xEE, sizeof(other));
    enum wring_status status = a.provider->ops->listen(a.provider, other, &m);
    CHECK(status == WRING_ERR_BUSY, "%s", wring_status_text(status));
    CHECK(m == 7 && is_all(other, sizeof(other), 0xEE), "an address nevertheless");
    REQUIRE(end_connect(&b, address, n, "me"), "connect");
    UNTIL(&a, &b, (a.accepted && b.connected) || b.closed);
    CHECK(a.accepted == 1 && b.connected == 1, "nobody listens any more: %s", b.text);
    ends_close(&a, &b);
}

static void expect_refused(struct end *end, const void *key, size_t key_bytes,
                           enum wring_status want)
{
    const struct wring_provider_ops *ops = end->provider->ops;
    struct wring_remote *remote = NULL;
    enum wring_status status = ops->send(end->conn, "early", 5);
    CHECK(status == want, "send: %s", wring_status_text(status));
    if (want == WRING_ERR_AGAIN) {
        status = ops->remote_import(end->conn, key, key_bytes, &remote);
        CHECK(status == want && remote == NULL, "import: %s", wring_status_text(status));
    }
}

/** From connect to CONNECTED the answer is: poll first. Nothing of it reaches the peer. */
static void nothing_goes_before_it_stands(void)
{
    struct end a, b;
    uint8_t address[WRING_ADDRESS_MAX], key[WRING_REGION_KEY_MAX];
    size_t n;
    REQUIRE(end_open(&a, 1, 4096, 1) && end_open(&b, 1, 4096, 1), "open");
    REQUIRE(end_listen(&a, address, &n) && end_connect(&b, address, n, "me"), "connect");
    n = a.provider->ops->region_export(a.region, key);
    for (uint64_t limit = wring_deadline_in(WAIT_NS);
         b.connected == 0 && b.closed == 0 && wring_now_ns() < limit;) {
        expect_refused(&b, key, n, WRING_ERR_AGAIN);
        end_turn(&a);
        end_turn(&b);
    }
    CHECK(b.connected == 1, "%s", b.text);
    UNTIL(&a, &b, a.accepted == 1);
    end_import(&b, &a);
    CHECK(b.provider->ops->send(b.conn, "in time", 7) == WRING_OK, "send");
    CHECK(end_put(&b, b.base, 0, 4096, 0, 0) == WRING_OK, "put");
    UNTIL(&a, &b, a.arrived == 1 && a.messages == 1);
    CHECK(memcmp(a.message, "in time", 7) == 0, "another message");
    ends_close(&a, &b);
}

/** Nobody listens there any more. */
static void connecting_to_nobody_ends(void)
{
    struct end a, b;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    end_close(&a);
    REQUIRE(end_connect(&b, address, n, "me"), "connect");
    UNTIL(&b, &b, b.closed == 1);
    CHECK(b.why == WRING_ERR_ADDRESS && b.text[0] != '\0', "%s", wring_status_text(b.why));
    CHECK(b.connected == 0, "connected");
    expect_refused(&b, NULL, 0, WRING_ERR_CLOSED);
    end_close(&b);
}

/** Who gives up in the middle of meeting leaves nothing behind. */
static void giving_up_is_quiet(void)
{
    for (unsigned turns = 0; turns < 8; turns++) {
        struct end a, b;
        uint8_t address[WRING_ADDRESS_MAX];
        size_t n;
        REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
        REQUIRE(end_listen(&a, address, &n) && end_connect(&b, address, n, "me"), "connect");
        for (unsigned i = 0; i < turns; i++) {
            end_turn(&b);
            end_turn(&a);
        }
        b.provider->ops->disconnect(b.conn);
        b.conn = NULL;
        CHECK(end_turn(&b) == 0, "an event after disconnect");
        if (a.accepted > 0)
            UNTIL(&a, &b, a.closed == 1);
        ends_close(&a, &b);
    }
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/** Nobody can be accepted for a while: that is no reason to spin, nor to forget who waits. */
static void a_lack_of_descriptors_is_slept_through(void)
{
    struct end a, b;
    struct rlimit old, none;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    const double lack_s = 0.8;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, address, &n) && end_connect(&b, address, n, "me"), "connect");
    REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0, "getrlimit");
    none = (struct rlimit){(rlim_t)dup(0), old.rlim_max};
    close((int)none.rlim_cur);
    setrlimit(RLIMIT_NOFILE, &none);
    for (int i = 0; i < 8; i++)
        end_turn(&b); /* it is at the door by now */
    double cpu = cpu_seconds();
    uint64_t limit = wring_deadline_in((uint64_t)(lack_s * 1e9));
    while (wring_now_ns() < limit)
        end_sleep(&a, limit);
    cpu = cpu_seconds() - cpu;
    setrlimit(RLIMIT_NOFILE, &old);
    CHECK(a.accepted == 0, "accepted without a descriptor");
    CHECK(cpu < lack_s / 2, "computed for %.3f s of %.3f", cpu, lack_s);
    UNTIL(&a, &b, (a.accepted && b.connected) || b.closed);
    CHECK(a.accepted == 1 && b.connected == 1, "forgotten: %s", b.text);
    ends_close(&a, &b);
}

const struct wring_test_case suite_cases_connect[] = {
    {"hello_arrives_and_nothing_leaks", hello_arrives_and_nothing_leaks},
    {"close_drops_everything", close_drops_everything},
    {"null_is_fine", null_is_fine},
    {"capabilities_make_sense", capabilities_make_sense},
    {"hellos_of_every_size", hellos_of_every_size},
    {"wrong_secret_is_refused", wrong_secret_is_refused},
    {"a_refusal_harms_no_one_else", a_refusal_harms_no_one_else},
    {"malformed_addresses_are_refused", malformed_addresses_are_refused},
    {"listeners_reach_each_other", listeners_reach_each_other},
    {"listening_twice_is_refused", listening_twice_is_refused},
    {"nothing_goes_before_it_stands", nothing_goes_before_it_stands},
    {"connecting_to_nobody_ends", connecting_to_nobody_ends},
    {"giving_up_is_quiet", giving_up_is_quiet},
    {"a_lack_of_descriptors_is_slept_through", a_lack_of_descriptors_is_slept_through},
    {NULL, NULL},
};
