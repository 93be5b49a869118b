/* SPDX-License-Identifier: Apache-2.0 */
/** What strangers, who do not have the key, can do to a tcp port: nothing but be refused. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/provider/rig_hostile.h"

/** A stranger sends this and waits for the end. */
static void stranger(struct rig *rig, const char *what, const void *data, size_t bytes)
{
    rig->logged[0] = '\0';
    int fd = rig_dial(rig);
    REQUIRE(fd >= 0, "%s: dial", what);
    rig_send(rig, fd, data, bytes); /* it may be cut off before the last byte */
    CHECK(rig_wait_closed(rig, fd), "%s: still open", what);
    close(fd);
    CHECK(strstr(rig->logged, "refused") != NULL, "%s: '%s' is logged", what, rig->logged);
    CHECK(rig->evil_accepted == 0, "%s: let in", what);
    rig_check_friend(rig, what);
}

static void garbage_is_refused(void)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct rig rig;
    uint8_t bytes[4000];
    uint32_t random = 4711;
    REQUIRE(rig_open(&rig), "no rig");
    memset(bytes, 0, sizeof(bytes));
    stranger(&rig, "zeros", bytes, sizeof(bytes));
    memset(bytes, 0xFF, sizeof(bytes));
    stranger(&rig, "ones", bytes, sizeof(bytes));
    stranger(&rig, "http", http, sizeof(http) - 1);
    stranger(&rig, "one byte", "X", 1);
    for (unsigned turn = 0; turn < 30; turn++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(wring_test_random(&random) >> 11);
        stranger(&rig, "noise", bytes, 1 + wring_test_random(&random) % sizeof(bytes));
    }
    rig_close(&rig);
}

/** A first message as WIRE.md lays it out. */
static void first_message(uint8_t out[WRING_AUTH_FIRST_BYTES])
{
    memset(out, 0, WRING_AUTH_FIRST_BYTES);
    memcpy(out, "WRNG", 4);
    out[4] = WRING_WIRE_VERSION;
    out[6] = WRING_AUTH_TCP;
    memset(out + 12, 0x11, 32);
}

static void malformed_handshakes_are_refused(void)
{
    static const struct {
        const char *what;
        unsigned at;
        uint8_t value;
    } changes[] = {
        {"magic begins wrong", 0, 'X'},
        {"magic ends wrong", 3, 'H'},
        {"version 0", 4, 0},
        {"version 2", 4, 2},
        {"version 257", 5, 1},
        {"another purpose", 6, WRING_AUTH_SHM},
        {"no purpose", 6, 0},
        {"purpose 258", 7, 1},
        {"hello of 33", 8, 33},
        {"hello of 255", 8, 255},
        {"hello of 256", 9, 1},
        {"hello of 2^31", 11, 0x80},
    };
    struct rig rig;
    uint8_t message[WRING_AUTH_FIRST_BYTES];
    REQUIRE(rig_open(&rig), "no rig");
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        first_message(message);
        message[changes[i].at] = changes[i].value;
        stranger(&rig, changes[i].what, message, sizeof(message));
    }
    rig_close(&rig);
}

/** All is well but the proof. */
static void guesses_are_refused(void)
{
    struct rig rig;
    uint8_t messages[WRING_AUTH_FIRST_BYTES + WRING_AUTH_MAC_BYTES];
    REQUIRE(rig_open(&rig), "no rig");
    first_message(messages);
    memset(messages + WRING_AUTH_FIRST_BYTES, 0, WRING_AUTH_MAC_BYTES);
    stranger(&rig, "a proof of zeros", messages, sizeof(messages));
    memset(messages + WRING_AUTH_FIRST_BYTES, 0x42, WRING_AUTH_MAC_BYTES);
    stranger(&rig, "a guess", messages, sizeof(messages));
    CHECK(rig_dial_proven(&rig, 2) < 0, "another secret is good enough");
    rig_check_friend(&rig, "another secret");
    rig_close(&rig);
}

/** Half a handshake, of every length that matters, then nothing: the deadline ends them all. */
static void silence_has_a_deadline(void)
{
    static const size_t cuts[] = {0, 1, 4, 8, 75, 76, 77, 76 + 31};
    enum {
        CUTS = sizeof(cuts) / sizeof(cuts[0])
    };
    uint8_t messages[WRING_AUTH_FIRST_BYTES + WRING_AUTH_MAC_BYTES];
    struct rig rig;
    int fds[CUTS];
    REQUIRE(rig_open(&rig), "no rig");
    first_message(messages);
    memset(messages + WRING_AUTH_FIRST_BYTES, 0x42, WRING_AUTH_MAC_BYTES);
    for (unsigned i = 0; i < CUTS; i++) {
        fds[i] = rig_dial(&rig);
        CHECK(fds[i] >= 0 && rig_send(&rig, fds[i], messages, cuts[i]), "dial %u", i);
    }
    for (unsigned i = 0; i < CUTS; i++) {
        CHECK(rig_wait_closed(&rig, fds[i]), "silence after %zu bytes goes on", cuts[i]);
        close(fds[i]);
    }
    CHECK(strstr(rig.logged, "did not finish the handshake") != NULL, "'%s'", rig.logged);
    CHECK(rig.evil_accepted == 0, "let in");
    rig_check_friend(&rig, "silence");
    rig_close(&rig);
}

#define CROWD 300 /* more than may be unproven at a time */

static unsigned gather_crowd(struct rig *rig, int fds[CROWD])
{
    unsigned n = 0;
    while (n < CROWD && (fds[n] = rig_dial(rig)) >= 0) {
        n++;
        if (n % 16 == 0)
            rig_turn(rig);
    }
    return n;
}

/** Connections that say nothing neither crowd out friends who come later nor stay for ever. */
static void crowds_do_not_block_friends(void)
{
    struct rig rig;
    struct end late;
    int fds[CROWD];
    const struct rlimit room = {4096, 4096};
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    if (old.rlim_cur < CROWD * 3)
        setrlimit(RLIMIT_NOFILE, &room);
    REQUIRE(rig_open(&rig), "no rig");
    unsigned n = gather_crowd(&rig, fds);
    CHECK(n == CROWD, "only %u connections", n);
    rig_check_friend(&rig, "a crowd came");
    REQUIRE(end_open(&late, 1, RIG_BYTES, 16), "open");
    CHECK(end_connect(&late, rig.address, rig.address_bytes, "evil"), "connect");
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (late.connected + late.closed == 0 && wring_now_ns() < limit) {
        rig_turn(&rig);
        end_turn(&late);
    }
    CHECK(late.connected == 1, "crowded out: '%s'", late.text);
    RIG_UNTIL(&rig, rig.evil_accepted == 1);
    for (unsigned i = 0; i < n; i++) {
        CHECK(rig_wait_closed(&rig, fds[i]), "number %u is still there", i);
        close(fds[i]);
    }
    rig_check_friend(&rig, "a crowd went");
    end_close(&late);
    RIG_UNTIL(&rig, rig.evil_closed == 1);
    rig_close(&rig);
}

/** Connect and go, again and again; some with a reset. */
static void visits_leave_nothing_behind(void)
{
    struct rig rig;
    const struct linger reset = {1, 0};
    uint8_t message[WRING_AUTH_FIRST_BYTES];
    REQUIRE(rig_open(&rig), "no rig");
    first_message(message);
    int probe = dup(0);
    for (unsigned i = 0; i < 400; i++) {
        int fd = rig_dial(&rig);
        REQUIRE(fd >= 0, "dial %u", i);
        if (i % 3 == 1)
            rig_send(&rig, fd, message, i % sizeof(message));
        if (i % 2 == 1)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
        rig_turn(&rig);
    }
    rig_check_friend(&rig, "visits");
    /* that they have gone the system may tell later */
    uint64_t limit = wring_deadline_in(WAIT_NS);
    int after = -1;
    while (after != probe + 1 && wring_now_ns() < limit) {
        rig_turn(&rig);
        after = dup(0);
        close(after);
    }
    CHECK(after == probe + 1, "descriptors are left: %d, was %d", after, probe);
    close(probe);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"garbage_is_refused", garbage_is_refused},
        {"malformed_handshakes_are_refused", malformed_handshakes_are_refused},
        {"guesses_are_refused", guesses_are_refused},
        {"silence_has_a_deadline", silence_has_a_deadline},
        {"crowds_do_not_block_friends", crowds_do_not_block_friends},
        {"visits_leave_nothing_behind", visits_leave_nothing_behind},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
