/* SPDX-License-Identifier: Apache-2.0 */
/** What is particular to shm; what it shares with all providers is in tests/provider. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/unit/shm_side.h"
#include "transport/providers/shm/shm.h"

static void puts_and_messages(void)
{
    struct shm_side a, b;
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(shm_side_join(&a, &b), "join: %s", b.text);
    REQUIRE(shm_side_import(&b, &a), "import");
    CHECK(shm_side_put(&b, 100, "gradient", 7) == WRING_OK, "put");
    CHECK(OPS->send(b.conn, "word", 4) == WRING_OK, "send");
    CHECK(shm_side_await(&a, &b, WRING_EVENT_MESSAGE, 1), "no message");
    CHECK(memcmp(a.data, "word", 4) == 0, "the message is another");
    CHECK(a.count[WRING_EVENT_ARRIVED] == 1, "%u arrived", a.count[WRING_EVENT_ARRIVED]);
    CHECK(memcmp((char *)a.memory.base + 100, "gradient", 8) == 0, "not where it belongs");
    CHECK(shm_side_await(&b, &a, WRING_EVENT_PUT_DONE, 1), "not done");
    CHECK(shm_side_put(&b, (1 << 20) - 2, "beyond", 7) == WRING_ERR_INVALID, "beyond the end");

    void *direct;
    CHECK(OPS->remote_map(b.remote, &direct) == WRING_OK, "map");
    CHECK(memcmp((char *)direct + 100, "gradient", 8) == 0, "another memory");
    shm_side_close(&b);
    CHECK(shm_side_await(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    CHECK(strstr(a.text, "disconnected") != NULL, "'%s'", a.text);
    shm_side_close(&a);
}

static void what_was_put_before_the_end_arrives(void)
{
    struct shm_side a, b;
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(shm_side_join(&a, &b) && shm_side_import(&b, &a), "join: %s", b.text);
    unsigned sent = 0;
    while (shm_side_put(&b, 8 * sent, "gradient", sent) == WRING_OK)
        sent++;
    CHECK(sent == SHM_RING_ENTRIES, "%u fit", sent);
    shm_side_close(&b);
    CHECK(shm_side_await(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    CHECK(a.count[WRING_EVENT_ARRIVED] == sent, "%u of %u", a.count[WRING_EVENT_ARRIVED], sent);
    shm_side_close(&a);
}

/** Puts that want no word of it, and those that do. */
static void a_put_may_go_without_a_word(void)
{
    struct shm_side a, b;
    struct wring_provider_caps caps;
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(shm_side_join(&a, &b) && shm_side_import(&b, &a), "join: %s", b.text);
    OPS->capabilities(b.provider, &caps);
    CHECK(caps.put_copies, "no such promise");
    for (unsigned i = 0; i < 3 * SHM_RING_ENTRIES; i++) {
        char text[SHM_INSIDE_MAX + 8];
        size_t bytes = i % sizeof(text);
        memset(text, (int)i, sizeof(text));
        CHECK(OPS->put(b.conn, NULL, text, b.remote, 64 * (i % 7), bytes, i, WRING_NO_PUT_DONE) ==
                  WRING_OK,
              "put %u", i);
        memset(text, 0, sizeof(text)); /* ours again */
        CHECK(shm_side_await(&a, &b, WRING_EVENT_ARRIVED, i + 1), "%u does not arrive", i);
        memset(text, (int)i, sizeof(text));
        CHECK(a.last.imm == i && a.last.bytes == bytes, "%u: another one", i);
        CHECK(memcmp((char *)a.memory.base + 64 * (i % 7), text, bytes) == 0, "%u: bytes", i);
    }
    CHECK(b.count[WRING_EVENT_PUT_DONE] == 0, "%u were told", b.count[WRING_EVENT_PUT_DONE]);
    shm_side_close(&b);
    shm_side_close(&a);
}

/** Sleep as a caller would: arm, poll, ppoll. @return false if nothing woke it for long */
static bool sleep_once(struct shm_side *side)
{
    struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
    OPS->arm(side->provider, &set);
    if (shm_side_poll(side) > 0 || set.busy)
        return true;
    return poll(set.fds, set.n, (int)(LIMIT_NS / WRING_NS_PER_MS)) > 0;
}

/** The child: answers every put with one, asleep in between; `turns` times, then waits. */
static void echo(int address_fd, unsigned turns)
{
    struct shm_side side;
    char address[WRING_ADDRESS_MAX];
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t bytes;
    alarm(60);
    if (!shm_side_open(&side, 1) || OPS->listen(side.provider, address, &bytes) != WRING_OK ||
        write(address_fd, address, bytes) != (ssize_t)bytes ||
        !shm_side_await(&side, NULL, WRING_EVENT_MESSAGE, 1) ||
        OPS->remote_import(side.conn, side.data, side.last.bytes, &side.remote) != WRING_OK)
        _exit(1);
    bytes = OPS->region_export(side.region, key);
    if (OPS->send(side.conn, key, bytes) != WRING_OK)
        _exit(2);
    for (unsigned i = 0; i < turns; i++) {
        while (side.count[WRING_EVENT_ARRIVED] <= i) {
            if (!sleep_once(&side))
                _exit(3);
            shm_side_poll(&side);
        }
        if (shm_side_put(&side, 0, "back", i) != WRING_OK)
            _exit(4);
    }
    pause();
    _exit(5);
}

static pid_t start_echo(struct shm_side *side, unsigned turns)
{
    struct wring_conn *conn;
    char address[WRING_ADDRESS_MAX];
    uint8_t key[WRING_REGION_KEY_MAX];
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0)
        echo(ends[1], turns);
    ssize_t n = read(ends[0], address, sizeof(address));
    close(ends[0]);
    close(ends[1]);
    if (n <= 0 || !shm_side_open(side, 1) ||
        OPS->connect(side->provider, address, (size_t)n, NULL, 0, &conn) != WRING_OK ||
        !shm_side_await(side, NULL, WRING_EVENT_CONNECTED, 1))
        return -1;
    size_t bytes = OPS->region_export(side->region, key);
    if (OPS->send(side->conn, key, bytes) != WRING_OK ||
        !shm_side_await(side, NULL, WRING_EVENT_MESSAGE, 1) ||
        OPS->remote_import(side->conn, side->data, side->last.bytes, &side->remote) != WRING_OK)
        return -1;
    return child;
}

/** A message may name any region that was made before it, however many there are. */
static void a_message_comes_after_word_of_regions(void)
{
    enum {
        REGIONS = 600
    };
    struct shm_side a, b;
    struct wring_region *regions[REGIONS] = {NULL};
    uint8_t key[WRING_REGION_KEY_MAX];
    struct wring_remote *remote = NULL;
    unsigned n = 0;

    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(shm_side_join(&a, &b), "join: %s", b.text);
    while (n < REGIONS && OPS->region_create(a.provider, &a.memory, &regions[n]) == WRING_OK)
        n++;
    CHECK(n == REGIONS, "%u regions", n);
    size_t bytes = OPS->region_export(regions[n - 1], key);
    enum wring_status status = OPS->send(a.conn, key, bytes);
    CHECK(status == WRING_ERR_AGAIN, "the socket holds word of %u regions", n);
    uint64_t until_ns = wring_deadline_in(LIMIT_NS);
    while (status == WRING_ERR_AGAIN && wring_now_ns() < until_ns) {
        shm_side_poll(&b);
        shm_side_poll(&a);
        status = OPS->send(a.conn, key, bytes);
    }
    REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
    REQUIRE(shm_side_await(&b, &a, WRING_EVENT_MESSAGE, 1), "no message");
    status = OPS->remote_import(b.conn, b.data, b.last.bytes, &remote);
    CHECK(status == WRING_OK, "import: %s", wring_status_text(status));
    OPS->remote_release(remote);
    for (unsigned i = 0; i < n; i++)
        OPS->region_destroy(regions[i]);
    shm_side_close(&b);
    shm_side_close(&a);
}

static void sleepers_are_woken_and_death_is_seen(void)
{
    struct shm_side a;
    unsigned turns = 200, i;
    pid_t child = start_echo(&a, turns);
    REQUIRE(child > 0, "no child: %s %s", shm_side_log, a.text);
    for (i = 0; i < turns; i++) {
        CHECK(shm_side_put(&a, 0, "there", i) == WRING_OK, "put %u", i);
        while (a.count[WRING_EVENT_ARRIVED] <= i && a.count[WRING_EVENT_CLOSED] == 0) {
            REQUIRE(sleep_once(&a), "not woken in turn %u", i);
            shm_side_poll(&a);
        }
    }
    CHECK(a.count[WRING_EVENT_ARRIVED] == turns, "%u: %s", a.count[WRING_EVENT_ARRIVED], a.text);

    char want[32];
    snprintf(want, sizeof(want), "process %d died", (int)child);
    kill(child, SIGKILL);
    while (a.count[WRING_EVENT_CLOSED] == 0) {
        REQUIRE(sleep_once(&a), "its death does not wake");
        shm_side_poll(&a);
    }
    CHECK(strstr(a.text, want) != NULL, "'%s'", a.text);
    waitpid(child, NULL, 0);
    shm_side_close(&a);
}

static void stopped_peers_do_not_block(void)
{
    struct shm_side a;
    pid_t child = start_echo(&a, 100000);
    REQUIRE(child > 0, "no child: %s %s", shm_side_log, a.text);
    kill(child, SIGSTOP);
    enum wring_status status = WRING_OK;
    for (unsigned i = 0; i < 100000 && status == WRING_OK; i++) {
        status = shm_side_put(&a, 0, "there", i);
        shm_side_poll(&a);
    }
    CHECK(status == WRING_ERR_AGAIN, "status %d", status);
    for (unsigned i = 0; i < 2000; i++) { /* more frames than a socket holds */
        struct wring_region *region;
        REQUIRE(OPS->region_create(a.provider, &a.memory, &region) == WRING_OK, "%s", shm_side_log);
        OPS->region_destroy(region);
    }
    kill(child, SIGKILL);
    CHECK(shm_side_await(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    waitpid(child, NULL, 0);
    shm_side_close(&a);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"puts_and_messages", puts_and_messages},
        {"what_was_put_before_the_end_arrives", what_was_put_before_the_end_arrives},
        {"a_put_may_go_without_a_word", a_put_may_go_without_a_word},
        {"a_message_comes_after_word_of_regions", a_message_comes_after_word_of_regions},
        {"sleepers_are_woken_and_death_is_seen", sleepers_are_woken_and_death_is_seen},
        {"stopped_peers_do_not_block", stopped_peers_do_not_block},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
