/* SPDX-License-Identifier: Apache-2.0 */
/** What a peer may write into rings and send over sockets of shm, and is refused. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/unit/shm_side.h"
#include "transport/providers/shm/shm.h"

#define LONG "more than what travels in the line of an entry" /* "x" does */

/** How far a peer got is asked once it has ended; it may have written anything there. */
static void nonsense_in_the_head_closes(void)
{
    for (unsigned what = 0; what < 2; what++) {
        struct shm_side a, b;
        REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
        REQUIRE(shm_side_join(&a, &b) && shm_side_import(&b, &a), "join: %s", b.text);
        struct shm_inbox *inbox = ((struct shm_conn *)b.conn)->out.inbox;
        CHECK(shm_side_put(&b, 0, "x", 1) == WRING_OK, "put");
        inbox->head += what == 0 ? 1 : SHM_RING_ENTRIES;
        struct shm_conn *conn = (struct shm_conn *)b.conn;
        wring_shm_socket_finish(&conn->sock);
        CHECK(shm_side_await(&a, NULL, WRING_EVENT_CLOSED, 1), "not closed");
        CHECK(a.last.status == WRING_ERR_FRAME, "%u status %d", what, a.last.status);
        shm_side_close(&b);
        shm_side_close(&a);
    }
}

static void another_key_is_refused(void)
{
    struct shm_side a, b;
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 2), "open: %s", shm_side_log);
    REQUIRE(shm_side_begin_join(&a, &b), "connect: %s", shm_side_log);
    CHECK(shm_side_await(&b, &a, WRING_EVENT_CLOSED, 1), "not refused");
    CHECK(b.last.status == WRING_ERR_AUTH, "status %d", b.last.status);
    CHECK(a.count[WRING_EVENT_ACCEPTED] == 0, "accepted");
    shm_side_close(&b);
    shm_side_close(&a);
}

/** Give an entry another kind, as its producer would. */
static void set_kind(struct shm_cell *cell, uint32_t kind)
{
    cell->mark = (cell->mark & ~0xffu) | kind;
}

static void nonsense_closes(unsigned what)
{
    struct shm_side a, b;
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(shm_side_join(&a, &b) && shm_side_import(&b, &a), "join: %s", b.text);
    struct shm_inbox *inbox = ((struct shm_conn *)b.conn)->out.inbox;
    CHECK(shm_side_put(&b, 0, what % 2 == 0 ? "x" : LONG, 1) == WRING_OK, "put");
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
    CHECK(shm_side_await(&a, NULL, WRING_EVENT_CLOSED, 1), "%u not closed", what);
    CHECK(a.last.status == WRING_ERR_FRAME, "%u status %d", what, a.last.status);
    CHECK(a.count[WRING_EVENT_ARRIVED] == 0, "%u arrived", what);
    CHECK(shm_side_await(&b, NULL, WRING_EVENT_CLOSED, 1), "%u: the peer is not told", what);
    shm_side_close(&b);
    shm_side_close(&a);
}

static void nonsense_in_the_ring_closes(void)
{
    for (unsigned what = 0; what < 14; what++)
        nonsense_closes(what);
}

/** A consumer that moves its index beyond what was written. */
static void nonsense_in_the_tail_closes(void)
{
    struct shm_side a, b;
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(shm_side_join(&a, &b) && shm_side_import(&b, &a), "join: %s", b.text);
    ((struct shm_conn *)a.conn)->in.inbox->tail = 12345;
    unsigned sent = 0;
    while (sent < 2 * SHM_RING_ENTRIES && shm_side_put(&b, 0, "x", sent) == WRING_OK)
        sent++;
    CHECK(sent == SHM_RING_ENTRIES, "%u", sent);
    CHECK(shm_side_put(&b, 0, "x", 1) == WRING_ERR_CLOSED, "still open");
    CHECK(shm_side_await(&b, NULL, WRING_EVENT_CLOSED, 1), "not closed");
    shm_side_close(&b);
    shm_side_close(&a);
}

/** Frames beside the ring: a file that could shrink, or is smaller than said, is not mapped. */
static void bad_files_are_refused(void)
{
    for (unsigned what = 0; what < 4; what++) {
        struct shm_side a, b;
        REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
        REQUIRE(shm_side_join(&a, &b), "join: %s", b.text);
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
        CHECK(shm_side_await(&a, &b, WRING_EVENT_CLOSED, 1), "%u not closed", what);
        CHECK(a.last.status == WRING_ERR_FRAME, "%u status %d", what, a.last.status);
        shm_side_close(&b);
        shm_side_close(&a);
    }
}

static void garbage_keys_are_refused(void)
{
    struct shm_side a, b;
    struct wring_remote *remote;
    uint8_t key[WRING_REGION_KEY_MAX];
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(shm_side_join(&a, &b), "join: %s", b.text);
    size_t bytes = OPS->region_export(a.region, key);
    memset(key, 3, sizeof(key)); /* no region's */
    for (size_t n = 0; n <= sizeof(key); n++)
        CHECK(OPS->remote_import(b.conn, key, n, &remote) ==
                  (n == bytes ? WRING_ERR_CLOSED : WRING_ERR_FRAME),
              "%zu", n);
    OPS->region_export(a.region, key);
    key[8]++; /* another size */
    CHECK(OPS->remote_import(b.conn, key, bytes, &remote) == WRING_ERR_FRAME, "size");
    shm_side_close(&b);
    shm_side_close(&a);
}

#define CROWD 300 /* more than may be unproven at a time */

/** Processes of ours that say nothing, from before the peer comes until after it. */
static void those_who_say_nothing_make_room(void)
{
    struct shm_side a, b;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint8_t name[WRING_ADDRESS_MAX];
    int fds[CROWD];
    size_t n;
    REQUIRE(shm_side_open(&a, 1) && shm_side_open(&b, 1), "open: %s", shm_side_log);
    REQUIRE(OPS->listen(a.provider, name, &n) == WRING_OK, "listen");
    memcpy(address.sun_path + 1, name, n);
    for (int i = 0; i < CROWD; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
        CHECK(fds[i] >= 0 && connect(fds[i], (struct sockaddr *)&address, bytes) == 0,
              "only %d come: %s", i, strerror(errno));
        if (i % 16 == 15)
            shm_side_poll(&a);
    }
    REQUIRE(OPS->connect(b.provider, name, n, "hi", 2, &b.conn) == WRING_OK, "connect");
    CHECK(shm_side_await(&b, &a, WRING_EVENT_CONNECTED, 1), "crowded out: %s", b.text);
    CHECK(shm_side_await(&a, &b, WRING_EVENT_ACCEPTED, 1), "crowded out");
    size_t held = ((struct shm_provider *)a.provider)->n_conns;
    CHECK(held <= 130, "%zu connections are held", held);
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    shm_side_close(&b);
    shm_side_close(&a);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"another_key_is_refused", another_key_is_refused},
        {"nonsense_in_the_ring_closes", nonsense_in_the_ring_closes},
        {"nonsense_in_the_head_closes", nonsense_in_the_head_closes},
        {"nonsense_in_the_tail_closes", nonsense_in_the_tail_closes},
        {"bad_files_are_refused", bad_files_are_refused},
        {"garbage_keys_are_refused", garbage_keys_are_refused},
        {"those_who_say_nothing_make_room", those_who_say_nothing_make_room},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
