/* SPDX-License-Identifier: Apache-2.0 */
/** Handshakes with what is damaged, made up, sent back or recorded. */
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/auth_pair.h"

static void every_flipped_bit_is_refused(void)
{
    size_t total = WRING_AUTH_FIRST_BYTES + WRING_AUTH_SECOND_BYTES + WRING_AUTH_MAC_BYTES;
    for (size_t bit = 0; bit < total * 8; bit++) {
        struct auth_pair pair;
        size_t at = 0, moved;
        auth_pair_init(&pair, auth_key, auth_key);
        do { /* byte by byte, with one bit turned on its way */
            moved = 0;
            for (int side = 0; side < 2; side++) {
                struct wring_auth *from = side == 0 ? &pair.initiator : &pair.acceptor;
                struct wring_auth *to = side == 0 ? &pair.acceptor : &pair.initiator;
                const void *data;
                if (wring_auth_output(from, &data) == 0)
                    continue;
                uint8_t byte = *(const uint8_t *)data;
                if (at++ == bit / 8)
                    byte ^= (uint8_t)(1 << bit % 8);
                moved += wring_auth_input(to, &byte, 1);
                wring_auth_sent(from, 1);
                break;
            }
        } while (moved > 0);
        CHECK(wring_auth_status(&pair.acceptor) != WRING_OK, "acceptor took bit %zu", bit);
        if (at < total)
            CHECK(wring_auth_status(&pair.initiator) != WRING_OK, "initiator took bit %zu", bit);
    }
}

static void truncation_stays_undecided(void)
{
    size_t total = WRING_AUTH_FIRST_BYTES + WRING_AUTH_MAC_BYTES;
    for (size_t cut = 0; cut < total; cut++) { /* bytes that the initiator gets out */
        struct auth_pair pair;
        auth_pair_init(&pair, auth_key, auth_key);
        for (size_t left = cut; left > 0; left--) {
            auth_pair_carry(&pair.initiator, &pair.acceptor, 1);
            auth_pair_carry(&pair.acceptor, &pair.initiator, 1000);
        }
        CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_AGAIN, "decided after %zu", cut);
    }
}

static void garbage_is_refused_at_once(void)
{
    static const char *const openings[] = {"GET / HTTP/1.1\r\n", "SSH-2.0-", "WRN", "\x16\x03\x01"};
    for (size_t i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
        struct wring_auth auth;
        uint8_t line[200];
        const void *data;
        memset(line, 'x', sizeof(line));
        memcpy(line, openings[i], strlen(openings[i]));
        for (int initiator = 0; initiator < 2; initiator++) {
            wring_auth_init(&auth, initiator, WRING_AUTH_TCP, auth_key, NULL, 0);
            if (initiator)
                wring_auth_sent(&auth, wring_auth_output(&auth, &data));
            CHECK(wring_auth_input(&auth, line, sizeof(line)) <= WRING_AUTH_FIRST_BYTES, "greed");
            CHECK(wring_auth_status(&auth) == WRING_ERR_FRAME, "%s", openings[i]);
            CHECK(wring_auth_output(&auth, &data) == 0, "answers garbage");
        }
    }
}

static void random_garbage_is_refused(void)
{
    uint32_t random = 12345;
    for (int turn = 0; turn < 2000; turn++) {
        struct wring_auth auth;
        uint8_t bytes[200];
        const void *data;
        wring_auth_init(&auth, false, WRING_AUTH_TCP, auth_key, NULL, 0);
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)wring_test_random(&random);
        memcpy(bytes, "WRNG\1\0\2\0", (size_t)turn % 9); /* ever further in */
        size_t used = wring_auth_input(&auth, bytes, sizeof(bytes));
        wring_auth_sent(&auth, wring_auth_output(&auth, &data));
        wring_auth_input(&auth, bytes + used, sizeof(bytes) - used);
        CHECK(wring_auth_status(&auth) != WRING_OK && wring_auth_status(&auth) != WRING_ERR_AGAIN,
              "turn %d: %s", turn, wring_status_text(wring_auth_status(&auth)));
    }
}

static void own_messages_sent_back_prove_nothing(void)
{
    struct auth_pair pair;
    uint8_t bytes[WRING_AUTH_TRANSCRIPT_BYTES] = {0};
    const void *data;

    auth_pair_init(&pair, auth_key, auth_key); /* the initiator's first message as the second one */
    size_t n = wring_auth_output(&pair.initiator, &data);
    memcpy(bytes, data, n);
    wring_auth_sent(&pair.initiator, n);
    wring_auth_input(&pair.initiator, bytes, WRING_AUTH_SECOND_BYTES);
    CHECK(wring_auth_status(&pair.initiator) == WRING_ERR_FRAME, "echo");

    auth_pair_init(&pair, auth_key, auth_key); /* the acceptor's own proof as the initiator's */
    auth_pair_carry(&pair.initiator, &pair.acceptor, 1000);
    n = wring_auth_output(&pair.acceptor, &data);
    memcpy(bytes, data, n);
    wring_auth_sent(&pair.acceptor, n);
    wring_auth_input(&pair.acceptor, bytes + n - WRING_AUTH_MAC_BYTES, WRING_AUTH_MAC_BYTES);
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_AUTH, "reflected");
}

static void a_recorded_session_cannot_be_replayed(void)
{
    struct auth_pair pair;
    struct wring_auth fresh;
    uint8_t first[WRING_AUTH_FIRST_BYTES], third[WRING_AUTH_MAC_BYTES];
    const void *data;
    auth_pair_init(&pair, auth_key, auth_key);
    memcpy(first, (wring_auth_output(&pair.initiator, &data), data), sizeof(first));
    auth_pair_carry(&pair.initiator, &pair.acceptor, 1000);
    auth_pair_carry(&pair.acceptor, &pair.initiator, 1000);
    memcpy(third, (wring_auth_output(&pair.initiator, &data), data), sizeof(third));
    auth_pair_carry(&pair.initiator, &pair.acceptor, 1000);
    auth_pair_carry(&pair.acceptor, &pair.initiator, 1000);
    auth_pair_check(&pair, WRING_OK);

    wring_auth_init(&fresh, false, WRING_AUTH_TCP, auth_key, NULL, 0);
    wring_auth_input(&fresh, first, sizeof(first));
    wring_auth_sent(&fresh, wring_auth_output(&fresh, &data));
    wring_auth_input(&fresh, third, sizeof(third));
    CHECK(wring_auth_status(&fresh) == WRING_ERR_AUTH, "replayed");
}

static void another_version_is_named_to_both(void)
{
    struct auth_pair pair;
    uint8_t first[WRING_AUTH_FIRST_BYTES];
    const void *data;
    char text[128];
    auth_pair_init(&pair, auth_key, auth_key);
    size_t n = wring_auth_output(&pair.initiator, &data);
    memcpy(first, data, sizeof(first));
    wring_auth_sent(&pair.initiator, n);
    first[4] = WRING_WIRE_VERSION + 6;
    wring_auth_input(&pair.acceptor, first, sizeof(first));
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_VERSION, "acceptor");
    wring_auth_describe(&pair.acceptor, text, sizeof(text));
    CHECK(strstr(text, "version 7") != NULL, "'%s'", text);
    auth_pair_carry(&pair.acceptor, &pair.initiator, 1000);
    CHECK(wring_auth_status(&pair.initiator) == WRING_ERR_VERSION, "initiator");

    auth_pair_init(&pair, auth_key, auth_key); /* an acceptor of another version */
    wring_auth_sent(&pair.initiator, wring_auth_output(&pair.initiator, &data));
    wring_auth_input(&pair.initiator, "WRNG\x09\0\x00\xA0", 8);
    CHECK(wring_auth_status(&pair.initiator) == WRING_ERR_VERSION, "initiator alone");
    wring_auth_describe(&pair.initiator, text, sizeof(text));
    CHECK(strstr(text, "version 9") != NULL, "'%s'", text);
}

static void another_kind_of_port_is_refused(void)
{
    struct auth_pair pair;
    char text[128];
    auth_pair_init(&pair, auth_key, auth_key);
    wring_auth_init(&pair.initiator, true, WRING_AUTH_SHM, auth_key, NULL, 0);
    auth_pair_run(&pair, 1000);
    auth_pair_check(&pair, WRING_ERR_FRAME);
    wring_auth_describe(&pair.acceptor, text, sizeof(text));
    CHECK(strstr(text, "kind 3") != NULL, "'%s'", text);
    wring_auth_describe(&pair.initiator, text, sizeof(text));
    CHECK(strstr(text, "not of kind 3") != NULL, "'%s'", text);
}

static void long_hello_is_refused(void)
{
    static const struct {
        size_t at;
        uint8_t value;
    } bad[] = {{8, WRING_HELLO_MAX + 1}, {9, 1}, {10, 1}, {11, 0x80}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct auth_pair pair;
        uint8_t first[WRING_AUTH_FIRST_BYTES];
        const void *data;
        auth_pair_init(&pair, auth_key, auth_key);
        memcpy(first, (wring_auth_output(&pair.initiator, &data), data), sizeof(first));
        first[bad[i].at] = bad[i].value;
        wring_auth_input(&pair.acceptor, first, sizeof(first));
        CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_FRAME, "byte %zu", bad[i].at);
    }
}

static void bytes_after_the_handshake_are_left_alone(void)
{
    struct auth_pair pair;
    uint8_t bytes[64];
    const void *data;
    auth_pair_init(&pair, auth_key, auth_key);
    auth_pair_carry(&pair.initiator, &pair.acceptor, 1000);
    auth_pair_carry(&pair.acceptor, &pair.initiator, 1000);
    memset(bytes, 'f', sizeof(bytes));
    memcpy(bytes, (wring_auth_output(&pair.initiator, &data), data), WRING_AUTH_MAC_BYTES);
    size_t used = wring_auth_input(&pair.acceptor, bytes, sizeof(bytes));
    CHECK(used == WRING_AUTH_MAC_BYTES, "took %zu", used);
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_AGAIN, "welcome is not yet sent");
    wring_auth_sent(&pair.acceptor, wring_auth_output(&pair.acceptor, &data));
    CHECK(wring_auth_status(&pair.acceptor) == WRING_OK, "after the welcome");
    CHECK(wring_auth_input(&pair.acceptor, bytes, sizeof(bytes)) == 0, "greed");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_flipped_bit_is_refused", every_flipped_bit_is_refused},
        {"truncation_stays_undecided", truncation_stays_undecided},
        {"garbage_is_refused_at_once", garbage_is_refused_at_once},
        {"random_garbage_is_refused", random_garbage_is_refused},
        {"own_messages_sent_back_prove_nothing", own_messages_sent_back_prove_nothing},
        {"a_recorded_session_cannot_be_replayed", a_recorded_session_cannot_be_replayed},
        {"another_version_is_named_to_both", another_version_is_named_to_both},
        {"another_kind_of_port_is_refused", another_kind_of_port_is_refused},
        {"long_hello_is_refused", long_hello_is_refused},
        {"bytes_after_the_handshake_are_left_alone", bytes_after_the_handshake_are_left_alone},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
