/* SPDX-License-Identifier: Apache-2.0 */
/** What a peer that has the key can do with a tcp connection of several sockets. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/provider/rig_hostile.h"

#define PAYLOAD 64

/** A connection of two sockets, as an attacker holds it. */
struct two {
    uint8_t nonce[WRING_AUTH_NONCE_BYTES]; /* the first one's */
    int fds[2];
};

/** One more socket of a connection. */
static int dial_next(struct rig *rig, const uint8_t *nonce, unsigned index, unsigned n)
{
    uint8_t hello[TCP_NEXT_HELLO_BYTES];

    memcpy(hello, nonce, 16);
    hello[16] = (uint8_t)index;
    hello[17] = (uint8_t)n;
    return rig_dial_for(rig, 1, WRING_AUTH_TCP_NEXT, hello, sizeof(hello), NULL);
}

static int dial_first(struct rig *rig, uint8_t nonce[WRING_AUTH_NONCE_BYTES])
{
    int fd = rig_dial_for(rig, 1, WRING_AUTH_TCP_FIRST, "evil", 4, nonce);
    CHECK(fd >= 0, "the first socket is not let in");
    return fd;
}

static bool open_two(struct rig *rig, struct two *two)
{
    unsigned accepted = rig->evil_accepted;

    two->fds[0] = dial_first(rig, two->nonce);
    CHECK(rig->evil_accepted == accepted, "accepted with one socket of two");
    two->fds[1] = dial_next(rig, two->nonce, 1, 2);
    if (two->fds[0] < 0 || two->fds[1] < 0)
        return false;
    RIG_UNTIL(rig, rig->evil_accepted == accepted + 1);
    return rig->evil != NULL;
}

static void close_two(const struct two *two)
{
    close(two->fds[0]);
    close(two->fds[1]);
}

/** Send a part, which writes its number to its own place. */
static void send_part(struct rig *rig, int fd, uint32_t number, bool more)
{
    const struct tcp_region *region = (const struct tcp_region *)rig->victim.region;
    const struct tcp_frame frame = {
        .kind = TCP_FRAME_PART,
        .region = region->index,
        .generation = region->generation,
        .offset = number % 64 * PAYLOAD,
        .bytes = PAYLOAD,
        .imm = number,
        .part = number,
        .more = more,
    };
    uint8_t bytes[TCP_HEADER_MAX + PAYLOAD];

    size_t header = wring_tcp_frame_pack(&frame, NULL, bytes);
    memset(bytes + header, (int)(number % 251 + 1), PAYLOAD);
    CHECK(rig_send(rig, fd, bytes, header + PAYLOAD), "part %u cannot be sent", number);
}

static void check_part(const struct rig *rig, uint32_t number)
{
    CHECK(is_all(rig->victim.base + number % 64 * PAYLOAD, PAYLOAD, (uint8_t)(number % 251 + 1)),
          "part %u is not there", number);
}

/** The victim has read all that was sent, as far as it reads: many turns say so. */
static void turn_often(struct rig *rig)
{
    for (int i = 0; i < 100; i++)
        rig_turn(rig);
}

static void expect_closed(struct rig *rig, const char *what, enum wring_status why,
                          const char *text)
{
    RIG_UNTIL(rig, rig->evil_closed == 1);
    CHECK(rig->evil_why == why && strstr(rig->evil_text, text) != NULL, "%s: %s, '%s'", what,
          wring_status_text(rig->evil_why), rig->evil_text);
    rig->evil_closed = 0;
    rig_check_friend(rig, what);
}

static void sockets_that_nobody_waits_for_are_refused(void)
{
    static const struct {
        const char *what;
        unsigned index, n;
        bool other;
    } bad[] = {
        {"another connection", 1, 2, true}, {"the first once more", 0, 2, false},
        {"beyond the last", 2, 2, false},   {"of one", 1, 1, false},
        {"of none", 1, 0, false},           {"of too many", 1, TCP_SOCKETS_MAX + 1, false},
        {"of 255", 254, 255, false},
    };
    struct rig rig;
    uint8_t nonce[WRING_AUTH_NONCE_BYTES], other[WRING_AUTH_NONCE_BYTES];
    REQUIRE(rig_open(&rig), "no rig");
    int first = dial_first(&rig, nonce);
    memcpy(other, nonce, sizeof(other));
    other[15] ^= 1;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int fd = dial_next(&rig, bad[i].other ? other : nonce, bad[i].index, bad[i].n);
        CHECK(fd < 0 || rig_wait_closed(&rig, fd), "%s: it is open", bad[i].what);
        if (fd >= 0)
            close(fd);
    }
    int named = rig_dial_for(&rig, 1, WRING_AUTH_TCP_NEXT, nonce, 16, NULL);
    CHECK(named < 0 || rig_wait_closed(&rig, named), "a short name: it is open");
    if (named >= 0)
        close(named);
    rig_check_friend(&rig, "sockets of nobody");

    int next = dial_next(&rig, nonce, 1, 2);
    RIG_UNTIL(&rig, rig.evil_accepted == 1);
    int late = dial_next(&rig, nonce, 1, 2);
    CHECK(late < 0 || rig_wait_closed(&rig, late), "one more of a connection that stands");
    close(next);
    close(first);
    if (late >= 0)
        close(late);
    expect_closed(&rig, "it was honest", WRING_ERR_PEER, "closed");
    rig_close(&rig);
}

static void each_socket_has_one_place(void)
{
    struct rig rig;
    uint8_t nonce[WRING_AUTH_NONCE_BYTES];
    REQUIRE(rig_open(&rig), "no rig");
    int first = dial_first(&rig, nonce), next = dial_next(&rig, nonce, 1, 3);
    int again = dial_next(&rig, nonce, 1, 3), more = dial_next(&rig, nonce, 2, 4);
    CHECK(again < 0 || rig_wait_closed(&rig, again), "the same place");
    CHECK(more < 0 || rig_wait_closed(&rig, more), "another number of them");
    CHECK(rig.evil_accepted == 0, "two of three are accepted");
    close(first); /* before they are all there: nobody hears of it */
    CHECK(rig_wait_closed(&rig, next), "the second one stays open");
    CHECK(rig.evil_accepted == 0 && rig.evil_closed == 0, "told of it");
    close(next);
    close(again);
    close(more);
    rig_check_friend(&rig, "one left early");
    rig_close(&rig);
}

/** Nothing follows the first socket: it goes after its time. */
static void a_first_socket_alone_is_dropped(void)
{
    struct rig rig;
    uint8_t nonce[WRING_AUTH_NONCE_BYTES];
    REQUIRE(rig_open(&rig), "no rig");
    int first = dial_first(&rig, nonce);
    CHECK(rig_wait_closed(&rig, first), "it waits for ever");
    CHECK(rig.evil_accepted == 0 && rig.evil_closed == 0, "told of it");
    close(first);
    rig_check_friend(&rig, "a first one alone");
    rig_close(&rig);
}

static void parts_have_their_turn(void)
{
    struct rig rig;
    struct two two;
    REQUIRE(rig_open(&rig) && open_two(&rig, &two), "no rig");
    send_part(&rig, two.fds[1], 2, false);
    send_part(&rig, two.fds[1], 3, true);
    send_part(&rig, two.fds[0], 1, true);
    turn_often(&rig);
    CHECK(rig.evil_arrived == 0, "%u arrive before the first", rig.evil_arrived);
    send_part(&rig, two.fds[0], 0, true);
    RIG_UNTIL(&rig, rig.evil_arrived == 1); /* parts 0 to 2 */
    CHECK(rig.evil_imm == 2 && rig.evil_bytes == 3 * PAYLOAD, "imm %u, %zu bytes", rig.evil_imm,
          rig.evil_bytes);
    for (uint32_t i = 0; i < 3; i++)
        check_part(&rig, i);
    send_part(&rig, two.fds[1], 4, false);
    RIG_UNTIL(&rig, rig.evil_arrived == 2);
    CHECK(rig.evil_imm == 4 && rig.evil_bytes == 2 * PAYLOAD, "imm %u, %zu bytes", rig.evil_imm,
          rig.evil_bytes);
    close_two(&two);
    expect_closed(&rig, "parts in any order", WRING_ERR_PEER, "closed");
    memset(rig.victim.base, 0, RIG_BYTES);
    rig_close(&rig);
}

/** More than can wait: the socket does, and nothing is lost. */
static void parts_far_ahead_wait(void)
{
    struct rig rig;
    struct two two;
    const uint32_t ahead = 3 * TCP_PARTS_AHEAD;
    REQUIRE(rig_open(&rig) && open_two(&rig, &two), "no rig");
    for (uint32_t i = 1; i <= ahead; i++)
        send_part(&rig, two.fds[1], i, false);
    turn_often(&rig);
    CHECK(rig.evil_arrived == 0, "%u arrive before the first", rig.evil_arrived);
    send_part(&rig, two.fds[0], 0, false);
    RIG_UNTIL(&rig, rig.evil_arrived == ahead + 1);
    CHECK(rig.evil_imm == ahead, "imm %u", rig.evil_imm);
    close_two(&two);
    expect_closed(&rig, "parts far ahead", WRING_ERR_PEER, "closed");
    memset(rig.victim.base, 0, RIG_BYTES);
    rig_close(&rig);
}

static void parts_that_break_a_rule_end_it(void)
{
    static const struct {
        const char *what;
        uint32_t parts[3];
        unsigned n, told;
    } bad[] = {
        {"one that waits already", {5, 5}, 2, 0},
        {"one that has had its turn", {0, 0}, 2, 1},
        {"one before the first", {UINT32_MAX}, 1, 0},
        {"half around", {0x80000000u}, 1, 0},
    };
    struct rig rig;
    REQUIRE(rig_open(&rig), "no rig");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct two two;
        unsigned told = rig.evil_arrived;
        REQUIRE(open_two(&rig, &two), "not let in");
        for (unsigned j = 0; j < bad[i].n; j++)
            send_part(&rig, two.fds[j % 2], bad[i].parts[j], false);
        expect_closed(&rig, bad[i].what, WRING_ERR_FRAME, "twice");
        CHECK(rig.evil_arrived == told + bad[i].told, "%s: told", bad[i].what);
        CHECK(rig_wait_closed(&rig, two.fds[0]) && rig_wait_closed(&rig, two.fds[1]),
              "%s: a socket is open", bad[i].what);
        close_two(&two);
    }
    memset(rig.victim.base, 0, RIG_BYTES);
    rig_close(&rig);
}

static void send_frame(struct rig *rig, int fd, uint8_t kind)
{
    const struct tcp_region *region = (const struct tcp_region *)rig->victim.region;
    struct tcp_frame frame = {.kind = kind, .bytes = PAYLOAD};
    uint8_t bytes[TCP_HEADER_MAX + PAYLOAD] = {0};

    if (kind != TCP_FRAME_MESSAGE) {
        frame.region = region->index;
        frame.generation = region->generation;
    }
    size_t header = wring_tcp_frame_pack(&frame, NULL, bytes);
    CHECK(rig_send(rig, fd, bytes, header + PAYLOAD), "kind %d", kind);
}

static void frames_on_the_wrong_socket_end_it(void)
{
    struct rig rig;
    struct two two;
    REQUIRE(rig_open(&rig) && open_two(&rig, &two), "no rig");
    send_frame(&rig, two.fds[0], TCP_FRAME_MESSAGE);
    RIG_UNTIL(&rig, rig.evil_messages == 1);
    send_frame(&rig, two.fds[1], TCP_FRAME_MESSAGE);
    expect_closed(&rig, "a message on the second", WRING_ERR_FRAME, "no place");
    close_two(&two);
    for (int i = 0; i < 2; i++) {
        REQUIRE(open_two(&rig, &two), "not let in");
        send_frame(&rig, two.fds[i], TCP_FRAME_PUT);
        expect_closed(&rig, "a whole put", WRING_ERR_FRAME, "no place");
        close_two(&two);
    }
    int alone = rig_dial_proven(&rig, 1);
    REQUIRE(alone >= 0, "not let in");
    send_part(&rig, alone, 0, false);
    expect_closed(&rig, "a part where one socket is all", WRING_ERR_FRAME, "no place");
    close(alone);
    CHECK(rig.evil_arrived == 0 && rig.evil_messages == 1, "told");
    rig_close(&rig);
}

/** The other socket brings what is under way, and nothing more goes out. */
static void the_end_of_one_socket_is_the_end(void)
{
    struct rig rig;
    struct two two;
    uint8_t byte;
    REQUIRE(rig_open(&rig), "no rig");
    for (int gone = 0; gone < 2; gone++) {
        REQUIRE(open_two(&rig, &two), "not let in");
        rig.evil_arrived = 0;
        int left = two.fds[1 - gone];
        close(two.fds[gone]);
        RIG_UNTIL(&rig, recv(left, &byte, 1, MSG_DONTWAIT) == 0);
        CHECK(rig.evil_closed == 0, "it is over before the other socket ends");
        CHECK(rig.evil->provider->ops->send(rig.evil, "x", 1) == WRING_ERR_CLOSED, "it sends");
        send_part(&rig, left, 0, false);
        RIG_UNTIL(&rig, rig.evil_arrived == 1);
        if (gone == 0)
            close(left);
        expect_closed(&rig, "one socket", WRING_ERR_PEER, "closed"); /* or by its deadline */
        if (gone == 1)
            close(left);
    }
    memset(rig.victim.base, 0, RIG_BYTES);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sockets_that_nobody_waits_for_are_refused", sockets_that_nobody_waits_for_are_refused},
        {"each_socket_has_one_place", each_socket_has_one_place},
        {"a_first_socket_alone_is_dropped", a_first_socket_alone_is_dropped},
        {"parts_have_their_turn", parts_have_their_turn},
        {"parts_far_ahead_wait", parts_far_ahead_wait},
        {"parts_that_break_a_rule_end_it", parts_that_break_a_rule_end_it},
        {"frames_on_the_wrong_socket_end_it", frames_on_the_wrong_socket_end_it},
        {"the_end_of_one_socket_is_the_end", the_end_of_one_socket_is_the_end},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
