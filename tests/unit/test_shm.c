/* SPDX-License-Identifier: Apache-2.0 */
/** What is particular to shm; what it shares with all providers is in tests/provider. */
#include "base/clock.h"
#include "base/config.h"
#include "tests/lib/test.h"
#include "transport/memory.h"
#include "transport/providers/providers.h"
#include "transport/providers/shm/shm.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPS (&wring_provider_shm)
#define LIMIT_NS (20 * WRING_NS_PER_S)
#define LONG "more than what travels in the line of an entry" /* "x" does */

struct side {
    struct wring_provider *provider;
    struct wring_conn *conn;
    struct wring_memory memory;
    struct wring_region *region;
    struct wring_remote *remote;
    struct wring_event last;
    char text[256]; /* of the last CLOSED */
    uint8_t data[WRING_SEND_MAX];
    unsigned count[WRING_EVENT_CLOSED + 1];
};

static struct wring_config config;
static char log_line[512];

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(log_line, sizeof(log_line), "%s", text);
}

static const struct wring_log quiet = {keep_line, NULL, WRING_LOG_DEBUG};

static bool side_open(struct side *side, uint8_t key)
{
    struct wring_provider_params params = {.log = &quiet, .config = &config, .secret = {key}};
    *side = (struct side){0};
    return wring_config_load(&config, &quiet) == WRING_OK &&
           OPS->open(&params, &side->provider) == WRING_OK &&
           wring_memory_alloc(1 << 20, &side->memory) == WRING_OK &&
           OPS->region_create(side->provider, &side->memory, &side->region) == WRING_OK;
}

static void side_close(struct side *side)
{
    OPS->remote_release(side->remote);
    OPS->close(side->provider);
    wring_memory_free(&side->memory);
}

static size_t side_poll(struct side *side)
{
    struct wring_event events[8];
    size_t n = OPS->poll(side->provider, events, 8);
    for (size_t i = 0; i < n; i++) {
        side->count[events[i].kind]++;
        side->last = events[i];
        if (events[i].kind == WRING_EVENT_CONNECTED || events[i].kind == WRING_EVENT_ACCEPTED)
            side->conn = events[i].conn;
        if (events[i].kind == WRING_EVENT_MESSAGE)
            memcpy(side->data, events[i].data, events[i].bytes);
        if (events[i].kind == WRING_EVENT_CLOSED)
            snprintf(side->text, sizeof(side->text), "%s", events[i].text);
    }
    return n;
}

/** Poll both until a has seen `count` events of the kind; false after a while. b may be NULL. */
static bool poll_until(struct side *a, struct side *b, enum wring_event_kind kind, unsigned count)
{
    uint64_t deadline = wring_deadline_in(LIMIT_NS);
    while (a->count[kind] < count && wring_now_ns() < deadline) {
        side_poll(a);
        if (b != NULL)
            side_poll(b);
    }
    return a->count[kind] >= count;
}

static bool import(struct side *to, struct side *from)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t bytes = OPS->region_export(from->region, key);
    return OPS->remote_import(to->conn, key, bytes, &to->remote) == WRING_OK;
}

static bool begin_join(struct side *a, struct side *b)
{
    char address[WRING_ADDRESS_MAX];
    size_t bytes;
    struct wring_conn *conn;
    return OPS->listen(a->provider, address, &bytes) == WRING_OK &&
           OPS->connect(b->provider, address, bytes, "hello", 5, &conn) == WRING_OK;
}

static bool join(struct side *a, struct side *b)
{
    return begin_join(a, b) && poll_until(a, b, WRING_EVENT_ACCEPTED, 1) &&
           poll_until(b, a, WRING_EVENT_CONNECTED, 1);
}

static enum wring_status put(struct side *side, size_t offset, const char *text, uint32_t imm)
{
    return OPS->put(side->conn, 0, NULL, text, side->remote, offset, strlen(text), imm, imm);
}

static void puts_and_messages(void)
{
    struct side a, b;
    REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
    REQUIRE(join(&a, &b), "join: %s", b.text);
    REQUIRE(import(&b, &a), "import");
    CHECK(put(&b, 100, "gradient", 7) == WRING_OK, "put");
    CHECK(OPS->send(b.conn, "word", 4) == WRING_OK, "send");
    CHECK(poll_until(&a, &b, WRING_EVENT_MESSAGE, 1), "no message");
    CHECK(memcmp(a.data, "word", 4) == 0, "the message is another");
    CHECK(a.count[WRING_EVENT_ARRIVED] == 1, "%u arrived", a.count[WRING_EVENT_ARRIVED]);
    CHECK(memcmp((char *)a.memory.base + 100, "gradient", 8) == 0, "not where it belongs");
    CHECK(poll_until(&b, &a, WRING_EVENT_PUT_DONE, 1), "not done");
    CHECK(put(&b, (1 << 20) - 2, "beyond", 7) == WRING_ERR_INVALID, "beyond the end");

    void *direct;
    CHECK(OPS->remote_map(b.remote, &direct) == WRING_OK, "map");
    CHECK(memcmp((char *)direct + 100, "gradient", 8) == 0, "another memory");
    side_close(&b);
    CHECK(poll_until(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    CHECK(strstr(a.text, "disconnected") != NULL, "'%s'", a.text);
    side_close(&a);
}

static void what_was_put_before_the_end_arrives(void)
{
    struct side a, b;
    REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
    REQUIRE(join(&a, &b) && import(&b, &a), "join: %s", b.text);
    unsigned sent = 0;
    while (put(&b, 8 * sent, "gradient", sent) == WRING_OK)
        sent++;
    CHECK(sent == SHM_RING_ENTRIES, "%u fit", sent);
    side_close(&b);
    CHECK(poll_until(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    CHECK(a.count[WRING_EVENT_ARRIVED] == sent, "%u of %u", a.count[WRING_EVENT_ARRIVED], sent);
    side_close(&a);
}

/** How far a peer got is asked once it has ended; it may have written anything there. */
static void nonsense_in_the_head_closes(void)
{
    for (unsigned what = 0; what < 2; what++) {
        struct side a, b;
        REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
        REQUIRE(join(&a, &b) && import(&b, &a), "join: %s", b.text);
        struct shm_inbox *inbox = ((struct shm_conn *)b.conn)->out.inbox;
        CHECK(put(&b, 0, "x", 1) == WRING_OK, "put");
        inbox->head += what == 0 ? 1 : SHM_RING_ENTRIES;
        struct shm_conn *conn = (struct shm_conn *)b.conn;
        wring_shm_socket_finish(&conn->sock);
        CHECK(poll_until(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
        CHECK(a.last.status == WRING_ERR_FRAME, "%u status %d", what, a.last.status);
        side_close(&b);
        side_close(&a);
    }
}

/** Puts that want no word of it, and those that do. */
static void a_put_may_go_without_a_word(void)
{
    struct side a, b;
    struct wring_provider_caps caps;
    REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
    REQUIRE(join(&a, &b) && import(&b, &a), "join: %s", b.text);
    OPS->capabilities(b.provider, &caps);
    CHECK(caps.put_copies, "no such promise");
    for (unsigned i = 0; i < 3 * SHM_RING_ENTRIES; i++) {
        char text[SHM_INSIDE_MAX + 8];
        size_t bytes = i % sizeof(text);
        memset(text, (int)i, sizeof(text));
        CHECK(OPS->put(b.conn, 0, NULL, text, b.remote, 64 * (i % 7), bytes, i,
                       WRING_NO_PUT_DONE) == WRING_OK,
              "put %u", i);
        memset(text, 0, sizeof(text)); /* ours again */
        CHECK(poll_until(&a, &b, WRING_EVENT_ARRIVED, i + 1), "%u does not arrive", i);
        memset(text, (int)i, sizeof(text));
        CHECK(a.last.imm == i && a.last.bytes == bytes, "%u: another one", i);
        CHECK(memcmp((char *)a.memory.base + 64 * (i % 7), text, bytes) == 0, "%u: bytes", i);
    }
    CHECK(b.count[WRING_EVENT_PUT_DONE] == 0, "%u were told", b.count[WRING_EVENT_PUT_DONE]);
    side_close(&b);
    side_close(&a);
}

static void another_key_is_refused(void)
{
    struct side a, b;
    REQUIRE(side_open(&a, 1) && side_open(&b, 2), "open: %s", log_line);
    REQUIRE(begin_join(&a, &b), "connect: %s", log_line);
    CHECK(poll_until(&b, &a, WRING_EVENT_CLOSED, 1), "not refused");
    CHECK(b.last.status == WRING_ERR_AUTH, "status %d", b.last.status);
    CHECK(a.count[WRING_EVENT_ACCEPTED] == 0, "accepted");
    side_close(&b);
    side_close(&a);
}

/** Give an entry another kind, as its producer would. */
static void set_kind(struct shm_cell *cell, uint32_t kind)
{
    cell->mark = (cell->mark & ~0xffu) | kind;
}

static void nonsense_closes(unsigned what)
{
    struct side a, b;
    REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
    REQUIRE(join(&a, &b) && import(&b, &a), "join: %s", b.text);
    struct shm_inbox *inbox = ((struct shm_conn *)b.conn)->out.inbox;
    CHECK(put(&b, 0, what % 2 == 0 ? "x" : LONG, 1) == WRING_OK, "put");
    struct shm_cell *cell = &inbox->cells[0];
    switch (what / 2) {
    case 0:
        set_kind(cell, 77);
        break;
    case 1:
        cell->bytes = UINT64_MAX;
        break;
    case 2:
        cell->region ^= 1ull << 32;
        break;
    case 3:
        cell->region = UINT32_MAX;
        break;
    case 4:
        set_kind(cell, SHM_MESSAGE);
        cell->bytes = WRING_SEND_MAX + 1;
        break;
    case 5:
        set_kind(cell, SHM_INSIDE);
        cell->bytes = SHM_INSIDE_MAX + 1;
        break;
    case 6:
        cell->offset = (1 << 20) - (what % 2 == 0 ? 0 : 1);
        break;
    }
    CHECK(poll_until(&a, NULL, WRING_EVENT_CLOSED, 1), "%u not closed", what);
    CHECK(a.last.status == WRING_ERR_FRAME, "%u status %d", what, a.last.status);
    CHECK(a.count[WRING_EVENT_ARRIVED] == 0, "%u arrived", what);
    CHECK(poll_until(&b, NULL, WRING_EVENT_CLOSED, 1), "%u: the peer is not told", what);
    side_close(&b);
    side_close(&a);
}

static void nonsense_in_the_ring_closes(void)
{
    for (unsigned what = 0; what < 14; what++)
        nonsense_closes(what);
}

/** A consumer that moves its index beyond what was written. */
static void nonsense_in_the_tail_closes(void)
{
    struct side a, b;
    REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
    REQUIRE(join(&a, &b) && import(&b, &a), "join: %s", b.text);
    ((struct shm_conn *)a.conn)->in.inbox->tail = 12345;
    unsigned sent = 0;
    while (sent < 2 * SHM_RING_ENTRIES && put(&b, 0, "x", sent) == WRING_OK)
        sent++;
    CHECK(sent == SHM_RING_ENTRIES, "%u", sent);
    CHECK(put(&b, 0, "x", 1) == WRING_ERR_CLOSED, "still open");
    CHECK(poll_until(&b, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    side_close(&b);
    side_close(&a);
}

/** Frames beside the ring: a file that could shrink, or is smaller than said, is not mapped. */
static void bad_files_are_refused(void)
{
    for (unsigned what = 0; what < 4; what++) {
        struct side a, b;
        REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
        REQUIRE(join(&a, &b), "join: %s", b.text);
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        REQUIRE(fd >= 0 && ftruncate(fd, 8192) == 0, "memfd");
        if (what != 0)
            CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal");
        struct shm_frame frame = {.kind = SHM_FRAME_REGION, .id = 99, .bytes = 8192};
        if (what == 1)
            frame.bytes = 8193;
        if (what == 2)
            frame.offset = UINT64_MAX - 4095;
        if (what == 3)
            frame.kind = SHM_FRAME_WAKE;
        wring_shm_conn_say((struct shm_conn *)b.conn, &frame, fd);
        close(fd);
        CHECK(poll_until(&a, &b, WRING_EVENT_CLOSED, 1), "%u not closed", what);
        CHECK(a.last.status == WRING_ERR_FRAME, "%u status %d", what, a.last.status);
        side_close(&b);
        side_close(&a);
    }
}

static void garbage_keys_are_refused(void)
{
    struct side a, b;
    struct wring_remote *remote;
    uint8_t key[WRING_REGION_KEY_MAX] = {1, 2, 3};
    REQUIRE(side_open(&a, 1) && side_open(&b, 1), "open: %s", log_line);
    REQUIRE(join(&a, &b), "join: %s", b.text);
    for (size_t bytes = 0; bytes <= sizeof(key); bytes++)
        CHECK(OPS->remote_import(b.conn, key, bytes, &remote) == WRING_ERR_FRAME, "%zu", bytes);
    size_t bytes = OPS->region_export(a.region, key);
    key[8]++; /* another size */
    CHECK(OPS->remote_import(b.conn, key, bytes, &remote) == WRING_ERR_FRAME, "size");
    side_close(&b);
    side_close(&a);
}

/** Sleep as a caller would: arm, poll, ppoll. @return false if nothing woke it for long */
static bool sleep_once(struct side *side)
{
    struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
    OPS->arm(side->provider, &set);
    if (side_poll(side) > 0 || set.busy)
        return true;
    return poll(set.fds, set.n, (int)(LIMIT_NS / WRING_NS_PER_MS)) > 0;
}

/** The child: answers every put with one, asleep in between; `rounds` times, then waits. */
static void echo(int address_fd, unsigned rounds)
{
    struct side side;
    char address[WRING_ADDRESS_MAX];
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t bytes;
    alarm(60);
    if (!side_open(&side, 1) || OPS->listen(side.provider, address, &bytes) != WRING_OK ||
        write(address_fd, address, bytes) != (ssize_t)bytes ||
        !poll_until(&side, NULL, WRING_EVENT_MESSAGE, 1) ||
        OPS->remote_import(side.conn, side.data, side.last.bytes, &side.remote) != WRING_OK)
        _exit(1);
    bytes = OPS->region_export(side.region, key);
    if (OPS->send(side.conn, key, bytes) != WRING_OK)
        _exit(2);
    for (unsigned i = 0; i < rounds; i++) {
        while (side.count[WRING_EVENT_ARRIVED] <= i) {
            if (!sleep_once(&side))
                _exit(3);
            side_poll(&side);
        }
        if (put(&side, 0, "back", i) != WRING_OK)
            _exit(4);
    }
    pause();
    _exit(5);
}

static pid_t start_echo(struct side *side, unsigned rounds)
{
    struct wring_conn *conn;
    char address[WRING_ADDRESS_MAX];
    uint8_t key[WRING_REGION_KEY_MAX];
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0)
        echo(ends[1], rounds);
    ssize_t n = read(ends[0], address, sizeof(address));
    close(ends[0]);
    close(ends[1]);
    if (n <= 0 || !side_open(side, 1) ||
        OPS->connect(side->provider, address, (size_t)n, NULL, 0, &conn) != WRING_OK ||
        !poll_until(side, NULL, WRING_EVENT_CONNECTED, 1))
        return -1;
    size_t bytes = OPS->region_export(side->region, key);
    if (OPS->send(side->conn, key, bytes) != WRING_OK ||
        !poll_until(side, NULL, WRING_EVENT_MESSAGE, 1) ||
        OPS->remote_import(side->conn, side->data, side->last.bytes, &side->remote) != WRING_OK)
        return -1;
    return child;
}

static void sleepers_are_woken_and_death_is_seen(void)
{
    struct side a;
    unsigned rounds = 200, i;
    pid_t child = start_echo(&a, rounds);
    REQUIRE(child > 0, "no child: %s %s", log_line, a.text);
    for (i = 0; i < rounds; i++) {
        CHECK(put(&a, 0, "there", i) == WRING_OK, "put %u", i);
        while (a.count[WRING_EVENT_ARRIVED] <= i && a.count[WRING_EVENT_CLOSED] == 0) {
            REQUIRE(sleep_once(&a), "not woken in round %u", i);
            side_poll(&a);
        }
    }
    CHECK(a.count[WRING_EVENT_ARRIVED] == rounds, "%u: %s", a.count[WRING_EVENT_ARRIVED], a.text);

    char want[32];
    snprintf(want, sizeof(want), "process %d died", (int)child);
    kill(child, SIGKILL);
    while (a.count[WRING_EVENT_CLOSED] == 0) {
        REQUIRE(sleep_once(&a), "its death does not wake");
        side_poll(&a);
    }
    CHECK(strstr(a.text, want) != NULL, "'%s'", a.text);
    waitpid(child, NULL, 0);
    side_close(&a);
}

static void stopped_peers_do_not_block(void)
{
    struct side a;
    pid_t child = start_echo(&a, 100000);
    REQUIRE(child > 0, "no child: %s %s", log_line, a.text);
    kill(child, SIGSTOP);
    enum wring_status status = WRING_OK;
    for (unsigned i = 0; i < 100000 && status == WRING_OK; i++) {
        status = put(&a, 0, "there", i);
        side_poll(&a);
    }
    CHECK(status == WRING_ERR_AGAIN, "status %d", status);
    for (unsigned i = 0; i < 2000; i++) { /* more frames than a socket holds */
        struct wring_region *region;
        REQUIRE(OPS->region_create(a.provider, &a.memory, &region) == WRING_OK, "%s", log_line);
        OPS->region_destroy(region);
    }
    kill(child, SIGKILL);
    CHECK(poll_until(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    waitpid(child, NULL, 0);
    side_close(&a);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"puts_and_messages", puts_and_messages},
        {"what_was_put_before_the_end_arrives", what_was_put_before_the_end_arrives},
        {"another_key_is_refused", another_key_is_refused},
        {"nonsense_in_the_ring_closes", nonsense_in_the_ring_closes},
        {"nonsense_in_the_head_closes", nonsense_in_the_head_closes},
        {"a_put_may_go_without_a_word", a_put_may_go_without_a_word},
        {"nonsense_in_the_tail_closes", nonsense_in_the_tail_closes},
        {"bad_files_are_refused", bad_files_are_refused},
        {"garbage_keys_are_refused", garbage_keys_are_refused},
        {"sleepers_are_woken_and_death_is_seen", sleepers_are_woken_and_death_is_seen},
        {"stopped_peers_do_not_block", stopped_peers_do_not_block},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
