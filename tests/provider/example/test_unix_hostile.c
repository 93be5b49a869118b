/* SPDX-License-Identifier: Apache-2.0 */
/** What the suite cannot know: rubbish in the example's own frames, and strangers at its door. */
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "tests/provider/ends.h"
#include "tests/provider/example/unix.h"
#include "transport/providers/handshake.h"

#define BYTES 4096

struct door {
    struct end victim;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t address_bytes;
};

static bool door_open(struct door *door)
{
    return end_open(&door->victim, 1, BYTES, 16) &&
           end_listen(&door->victim, door->address, &door->address_bytes);
}

/** A plain socket to the victim. */
static int dial(const struct door *door)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path + 1, door->address, door->address_bytes);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + door->address_bytes);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&to, bytes) == 0, "connect: %s", strerrordesc_np(errno));
    return fd;
}

/** One that knows the secret: an insider. */
static int dial_proven(struct door *door)
{
    static const uint8_t secret[WRING_SECRET_BYTES] = {1};
    struct wring_auth auth;
    char why[128];
    int fd = dial(door);
    wring_auth_init(&auth, true, UNIX_PURPOSE, secret, "evil", 4);
    while (wring_handshake_step(&auth, fd, why, sizeof(why)) == WRING_ERR_AGAIN)
        end_turn(&door->victim);
    UNTIL(&door->victim, &door->victim, door->victim.accepted == 1);
    return fd;
}

/** Wait, asleep where the victim sleeps, until it closes the stream. */
static bool is_closed(struct door *door, int fd)
{
    uint8_t rest[256];
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (wring_now_ns() < limit) {
        ssize_t n = recv(fd, rest, sizeof(rest), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        end_sleep(&door->victim, wring_deadline_in(WRING_NS_PER_S));
    }
    return false;
}

/** The victim is as well as before: the next one who connects can put. */
static void check_friend(struct door *door)
{
    struct end *victim = &door->victim, friend;
    victim->provider->ops->disconnect(victim->conn);
    victim->conn = NULL;
    victim->closed = victim->accepted = 0;
    REQUIRE(end_open(&friend, 1, BYTES, 16), "open");
    REQUIRE(end_connect(&friend, door->address, door->address_bytes, "friend"), "connect");
    UNTIL(victim, &friend, victim->accepted == 1 && friend.connected == 1);
    end_import(&friend, victim);
    memset(friend.base, 0x44, BYTES);
    CHECK(end_put(&friend, friend.base, 0, BYTES, 0, 0) == WRING_OK, "put");
    UNTIL(victim, &friend, victim->arrived == 1 && friend.done == 1);
    CHECK(is_all(victim->base, BYTES, 0x44), "bytes");
    end_close(&friend);
}

/** Send a header and some bytes after it; nothing may be written, and the connection ends. */
static void attack(const char *name, struct unix_frame frame, bool own_region)
{
    struct door door;
    uint8_t key[WRING_REGION_KEY_MAX], bytes[sizeof(frame) + 512];
    REQUIRE(door_open(&door), "open");
    struct end *victim = &door.victim;
    victim->provider->ops->region_export(victim->region, key);
    frame.region += own_region ? wring_get_u64(key) : 0;
    memset(bytes, 0x66, sizeof(bytes));
    memcpy(bytes, &frame, sizeof(frame));

    int fd = dial_proven(&door);
    CHECK(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes), "send");
    UNTIL(victim, victim, victim->closed == 1);
    CHECK(victim->why == WRING_ERR_FRAME && victim->text[0] != '\0', "%s: %s", name,
          wring_status_text(victim->why));
    CHECK(victim->arrived + victim->messages == 0, "%s: an event", name);
    CHECK(is_all(victim->base, BYTES, 0), "%s: written", name);
    check_friend(&door);
    close(fd);
    end_close(victim);
}

static void malformed_frames_end_the_connection(void)
{
    attack("no kind", (struct unix_frame){.kind = 0, .bytes = 8}, true);
    attack("a kind of its own", (struct unix_frame){.kind = 3, .bytes = 8}, true);
    attack("an empty message", (struct unix_frame){.kind = UNIX_MESSAGE}, false);
    attack("a long message", (struct unix_frame){.kind = UNIX_MESSAGE, .bytes = 257}, false);
    attack("an endless message", (struct unix_frame){.kind = 2, .bytes = UINT64_MAX}, false);
}

static void puts_that_lead_nowhere_end_the_connection(void)
{
    const struct unix_frame elsewhere = {.kind = UNIX_PUT, .region = 1, .bytes = 8};
    attack("the next region", elsewhere, true);
    attack("region 1", elsewhere, false);
    attack("over the end", (struct unix_frame){UNIX_PUT, 0, 0, BYTES - 7, 8}, true);
    attack("past the end", (struct unix_frame){UNIX_PUT, 0, 0, BYTES + 1, 0}, true);
    attack("offset wraps", (struct unix_frame){UNIX_PUT, 0, 0, UINT64_MAX, 2}, true);
    attack("size wraps", (struct unix_frame){UNIX_PUT, 0, 0, 1, UINT64_MAX}, true);
}

/** The stream ends after n bytes of a put that is well so far. */
static void streams_may_end_anywhere(void)
{
    for (size_t n = 0; n < sizeof(struct unix_frame) + 16; n++) {
        struct door door;
        uint8_t key[WRING_REGION_KEY_MAX], bytes[sizeof(struct unix_frame) + 16] = {0};
        REQUIRE(door_open(&door), "open");
        door.victim.provider->ops->region_export(door.victim.region, key);
        const struct unix_frame frame = {UNIX_PUT, 0, wring_get_u64(key), 0, 16};
        memcpy(bytes, &frame, sizeof(frame));
        int fd = dial_proven(&door);
        CHECK(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n, "send");
        close(fd);
        UNTIL(&door.victim, &door.victim, door.victim.closed == 1);
        CHECK(door.victim.why == WRING_ERR_PEER && door.victim.arrived == 0, "after %zu", n);
        end_close(&door.victim);
    }
}

/** One that takes no more bytes, but does not leave, is lost; its puts do not hang. */
static void the_deaf_are_lost(void)
{
    struct door door;
    REQUIRE(door_open(&door), "open");
    int fd = dial_proven(&door);
    CHECK(shutdown(fd, SHUT_RD) == 0, "shutdown");
    CHECK(door.victim.provider->ops->send(door.victim.conn, "hear me", 7) == WRING_OK, "send");
    UNTIL(&door.victim, &door.victim, door.victim.closed == 1);
    CHECK(door.victim.why == WRING_ERR_PEER, "%s", wring_status_text(door.victim.why));
    check_friend(&door);
    close(fd);
    end_close(&door.victim);
}

/** More of them than there are places, silent or babbling: all are turned out, friends get in. */
static void strangers_are_turned_out(void)
{
    enum {
        STRANGERS = 80
    };
    struct door door;
    int fds[STRANGERS];
    REQUIRE(door_open(&door), "open");
    for (unsigned i = 0; i < STRANGERS; i++) {
        fds[i] = dial(&door);
        if (i % 2 == 0)
            CHECK(send(fds[i], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18, "send");
    }
    unsigned out = 0;
    while (out < STRANGERS && is_closed(&door, fds[out]))
        out++;
    CHECK(out == STRANGERS, "stranger %u stays", out);
    for (unsigned i = 0; i < STRANGERS; i++)
        close(fds[i]);
    CHECK(door.victim.accepted == 0, "let in");
    check_friend(&door);
    end_close(&door.victim);
}

static const struct wring_test_case cases[] = {
    {"malformed_frames_end_the_connection", malformed_frames_end_the_connection},
    {"puts_that_lead_nowhere_end_the_connection", puts_that_lead_nowhere_end_the_connection},
    {"streams_may_end_anywhere", streams_may_end_anywhere},
    {"the_deaf_are_lost", the_deaf_are_lost},
    {"strangers_are_turned_out", strangers_are_turned_out},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    const struct wring_provider_driver driver = {"unix", wring_provider_unix.open};
    ends_use(&driver);
    return wring_test_main(argc, argv, cases);
}
