/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/suite.h"

#include <dirent.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/lib/test.h"
#include "transport/memory.h"

#define WAIT_NS (20 * WRING_NS_PER_S) /* longer than any loaded machine needs */

static const struct wring_provider_driver *driver;

/** One end: an instance, its region and what it has seen. */
struct end {
    struct wring_provider *provider;
    struct wring_conn *conn;
    struct wring_memory memory;
    struct wring_region *region;
    struct wring_remote *remote; /* the other end's region */
    size_t batch;                /* events per poll */
    unsigned accepted, connected, closed, done, arrived, messages;
    uint32_t next_imm; /* checked to rise by one */
    size_t arrived_bytes, message_bytes;
    uint8_t message[WRING_SEND_MAX], hello[WRING_HELLO_MAX];
    size_t hello_bytes;
    enum wring_status why;
    char text[256];
};

static void see(struct end *end, const struct wring_event *event)
{
    switch (event->kind) {
    case WRING_EVENT_CONNECTED:
        end->connected++;
        break;
    case WRING_EVENT_ACCEPTED:
        end->accepted++;
        end->conn = event->conn;
        end->hello_bytes = event->bytes;
        memcpy(end->hello, event->data, event->bytes);
        break;
    case WRING_EVENT_PUT_DONE:
        CHECK(event->cookie == end->done, "cookie %llu", (unsigned long long)event->cookie);
        end->done++;
        break;
    case WRING_EVENT_ARRIVED:
        CHECK(event->imm == end->next_imm, "imm %u, not %u", event->imm, end->next_imm);
        end->next_imm++;
        end->arrived++;
        end->arrived_bytes += event->bytes;
        break;
    case WRING_EVENT_MESSAGE:
        end->messages++;
        end->message_bytes = event->bytes;
        memcpy(end->message, event->data, event->bytes);
        break;
    case WRING_EVENT_CLOSED:
        end->closed++;
        end->why = event->status;
        snprintf(end->text, sizeof(end->text), "%s", event->text);
        break;
    }
}

static void turn(struct end *end)
{
    struct wring_event events[16];
    size_t n = end->provider->ops->poll(end->provider, events, end->batch);
    CHECK(n <= end->batch, "%zu events", n);
    for (size_t i = 0; i < n; i++)
        see(end, &events[i]);
}

/** Poll both ends until the condition holds; a failed check after WAIT_NS. */
#define UNTIL(a, b, condition)                              \
    do {                                                    \
        uint64_t limit = wring_deadline_in(WAIT_NS);        \
        while (!(condition) && wring_now_ns() < limit) {    \
            turn(a);                                        \
            turn(b);                                        \
        }                                                   \
        CHECK(condition, "did not come: %s", driver->name); \
    } while (0)

static bool end_open(struct end *end, uint8_t secret, size_t bytes, size_t batch)
{
    static const struct wring_log quiet = {NULL, NULL, WRING_LOG_WARN};
    const struct wring_provider_params params = {.log = &quiet, .secret = {secret}};
    memset(end, 0, sizeof(*end));
    end->batch = batch;
    if (driver->open(&params, &end->provider) != WRING_OK ||
        wring_memory_alloc(bytes, &end->memory) != WRING_OK)
        return false;
    return end->provider->ops->region_create(end->provider, &end->memory, &end->region) == WRING_OK;
}

static void end_close(struct end *end)
{
    const struct wring_provider_ops *ops = end->provider->ops;
    ops->remote_release(end->remote);
    ops->disconnect(end->conn);
    ops->region_destroy(end->region);
    ops->close(end->provider);
    wring_memory_free(&end->memory);
}

static void import(struct end *end, const struct end *other)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t n = other->provider->ops->region_export(other->region, key);
    CHECK(end->provider->ops->remote_import(end->conn, key, n, &end->remote) == WRING_OK, "import");
}

/** b connects to a. */
static void join(struct end *a, struct end *b)
{
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(a->provider->ops->listen(a->provider, address, &n) == WRING_OK, "listen");
    REQUIRE(b->provider->ops->connect(b->provider, address, n, "me", 2, &b->conn) == WRING_OK,
            "connect");
    UNTIL(a, b, (a->accepted && b->connected) || b->closed);
}

static bool pair_open(struct end *a, struct end *b, size_t bytes, size_t batch)
{
    if (!end_open(a, 1, bytes, batch) || !end_open(b, 1, bytes, batch))
        return false;
    join(a, b);
    if (a->accepted != 1 || b->connected != 1)
        return false;
    import(a, b);
    import(b, a);
    return true;
}

static enum wring_status put(struct end *from, const void *local, uint64_t offset, size_t bytes,
                             uint32_t imm, uint64_t cookie)
{
    return from->provider->ops->put(from->conn, 0, from->region, local, from->remote, offset, bytes,
                                    imm, cookie);
}

static unsigned descriptors(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static void hello_arrives_and_nothing_leaks(void)
{
    unsigned before = descriptors();
    struct end a, b;
    REQUIRE(pair_open(&a, &b, 4096, 16), "no pair");
    CHECK(a.hello_bytes == 2 && memcmp(a.hello, "me", 2) == 0, "hello");
    end_close(&a);
    end_close(&b);
    CHECK(descriptors() == before, "%u descriptors, were %u", descriptors(), before);
}

static void wrong_secret_is_refused(void)
{
    struct end a, b;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 2, 4096, 16), "open");
    join(&a, &b);
    CHECK(b.closed == 1 && b.why == WRING_ERR_AUTH, "%s", wring_status_text(b.why));
    CHECK(a.accepted == 0 && b.connected == 0, "let in");
    end_close(&a);
    end_close(&b);
}

/** Sizes and offsets of all kinds, one way, checked with what lies around them. */
static void bytes_land_where_they_belong(void)
{
    static const size_t sizes[] = {0, 1, 7, 8, 4095, 8192, 8193, 65536, 262144, 1 << 20};
    size_t space = 2 << 20;
    struct end a, b;
    REQUIRE(pair_open(&a, &b, space, 16), "no pair");
    uint8_t *from = b.memory.base, *to = a.memory.base;
    for (size_t i = 0; i < space; i++)
        from[i] = (uint8_t)(i * 7 + i / 251);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i], source = 13 * i + 3, offset = 17 * i + 1;
        memset(to, 0xEE, space);
        CHECK(put(&b, from + source, offset, n, i, i) == WRING_OK, "put %zu", n);
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i + 1);
        CHECK(memcmp(to + offset, from + source, n) == 0, "%zu bytes differ", n);
        CHECK(to[offset - 1] == 0xEE && to[offset + n] == 0xEE, "%zu: neighbours", n);
    }
    end_close(&a);
    end_close(&b);
}

/** Both ways at once, until AGAIN and on, with room for `batch` events. */
static void flood(size_t batch, size_t bytes, unsigned total)
{
    struct end ends[2];
    unsigned posted[2] = {0, 0};
    uint64_t limit = wring_deadline_in(WAIT_NS);
    REQUIRE(pair_open(&ends[0], &ends[1], bytes * 4, batch), "no pair");
    while ((ends[0].arrived < total || ends[1].arrived < total || ends[0].done < total ||
            ends[1].done < total) &&
           wring_now_ns() < limit)
        for (int i = 0; i < 2; i++) {
            enum wring_status status = WRING_OK;
            while (posted[i] < total && status == WRING_OK) {
                status = put(&ends[i], ends[i].memory.base, bytes * (posted[i] % 4), bytes,
                             posted[i], posted[i]);
                posted[i] += status == WRING_OK;
            }
            CHECK(status == WRING_OK || status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
            turn(&ends[i]);
        }
    for (int i = 0; i < 2; i++)
        CHECK(ends[i].arrived == total && ends[i].done == total &&
                  ends[i].arrived_bytes == total * bytes,
              "end %d: %u arrived, %u done of %u", i, ends[i].arrived, ends[i].done, total);
    end_close(&ends[0]);
    end_close(&ends[1]);
}

static void floods_recover(void)
{
    flood(16, 8, 5000);
    flood(1, 8, 2000);
    flood(1, 100000, 300);
    flood(16, 3 << 20, 20);
}

static void messages_of_every_size(void)
{
    struct end a, b;
    uint8_t text[WRING_SEND_MAX];
    REQUIRE(pair_open(&a, &b, 4096, 1), "no pair");
    for (unsigned n = 1; n <= WRING_SEND_MAX; n++) {
        memset(text, (int)n, n);
        CHECK(b.provider->ops->send(b.conn, text, n) == WRING_OK, "send %u", n);
        UNTIL(&a, &b, a.messages == n);
        CHECK(a.message_bytes == n && memcmp(a.message, text, n) == 0, "%u bytes", n);
    }
    end_close(&a);
    end_close(&b);
}

static void bad_puts_are_invalid(void)
{
    struct end a, b;
    REQUIRE(pair_open(&a, &b, 4096, 16), "no pair");
    CHECK(put(&b, b.memory.base, 4096, 1, 0, 0) == WRING_ERR_INVALID, "past the end");
    CHECK(put(&b, b.memory.base, UINT64_MAX, 2, 0, 0) == WRING_ERR_INVALID, "wraps");
    CHECK(put(&b, (char *)b.memory.base + 1, 0, 4096, 0, 0) == WRING_ERR_INVALID, "local");
    end_close(&a);
    end_close(&b);
}

static void leaving_is_noticed(void)
{
    struct end a, b;
    REQUIRE(pair_open(&a, &b, 4096, 16), "no pair");
    b.provider->ops->disconnect(b.conn);
    b.conn = NULL;
    UNTIL(&a, &b, a.closed == 1);
    CHECK(a.why == WRING_ERR_PEER && a.text[0] != '\0', "%s", a.text);
    CHECK(put(&a, a.memory.base, 0, 1, 0, 0) == WRING_ERR_CLOSED, "put after the end");
    end_close(&a);
    end_close(&b);
}

static void stale_keys_are_refused(void)
{
    struct end a, b;
    REQUIRE(pair_open(&a, &b, 4096, 16), "no pair");
    const struct wring_provider_ops *ops = a.provider->ops;
    ops->region_destroy(a.region);
    a.region = NULL;
    REQUIRE(ops->region_create(a.provider, &a.memory, &a.region) == WRING_OK, "again");
    memset(b.memory.base, 0x77, 64);
    put(&b, b.memory.base, 0, 64, 0, 0);
    UNTIL(&a, &b, a.closed == 1);
    CHECK(a.arrived == 0 && *(uint8_t *)a.memory.base == 0, "written through a stale key");
    end_close(&a);
    end_close(&b);
}

int wring_provider_suite(int argc, char **argv, const struct wring_provider_driver *which)
{
    static const struct wring_test_case cases[] = {
        {"hello_arrives_and_nothing_leaks", hello_arrives_and_nothing_leaks},
        {"wrong_secret_is_refused", wrong_secret_is_refused},
        {"bytes_land_where_they_belong", bytes_land_where_they_belong},
        {"floods_recover", floods_recover},
        {"messages_of_every_size", messages_of_every_size},
        {"bad_puts_are_invalid", bad_puts_are_invalid},
        {"leaving_is_noticed", leaving_is_noticed},
        {"stale_keys_are_refused", stale_keys_are_refused},
        {NULL, NULL},
    };
    driver = which;
    return wring_test_main(argc, argv, cases);
}
