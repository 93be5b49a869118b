/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "transport/auth.h"

#include <string.h>

static const uint8_t key[WRING_SECRET_BYTES] = {1, 2, 3};
static const uint8_t other_key[WRING_SECRET_BYTES] = {1, 2, 4};
static const char hello[] = "rank 3 of 7";

struct pair {
    struct wring_auth initiator, acceptor;
};

static void pair_init(struct pair *pair, const uint8_t *initiator_key, const uint8_t *acceptor_key)
{
    wring_auth_init(&pair->initiator, true, WRING_AUTH_TCP, initiator_key, hello, sizeof(hello));
    wring_auth_init(&pair->acceptor, false, WRING_AUTH_TCP, acceptor_key, NULL, 0);
}

/** Carry at most `piece` bytes from one to the other. @return how many the other took */
static size_t carry(struct wring_auth *from, struct wring_auth *to, size_t piece)
{
    const void *data;
    size_t n = wring_auth_output(from, &data);
    if (n > piece)
        n = piece;
    size_t taken = wring_auth_input(to, data, n);
    wring_auth_sent(from, n);
    return n > 0 ? taken : 0;
}

static void pair_run(struct pair *pair, size_t piece)
{
    size_t moved;
    do {
        moved = carry(&pair->initiator, &pair->acceptor, piece);
        moved += carry(&pair->acceptor, &pair->initiator, piece);
    } while (moved > 0);
}

static void check_pair(const struct pair *pair, enum wring_status want)
{
    enum wring_status a = wring_auth_status(&pair->initiator);
    enum wring_status b = wring_auth_status(&pair->acceptor);
    CHECK(a == want, "initiator: %s", wring_status_text(a));
    CHECK(b == want, "acceptor: %s", wring_status_text(b));
}

static void same_key_agrees_in_pieces_of_any_size(void)
{
    for (size_t piece = 1; piece <= 80; piece++) {
        struct pair pair;
        size_t bytes;
        pair_init(&pair, key, key);
        pair_run(&pair, piece);
        check_pair(&pair, WRING_OK);
        const void *said = wring_auth_hello(&pair.acceptor, &bytes);
        CHECK(bytes == sizeof(hello) && memcmp(said, hello, bytes) == 0, "hello, %zu bytes", bytes);
    }
}

static void hello_may_be_empty_or_full(void)
{
    static const uint8_t full[WRING_HELLO_MAX] = {[0] = 7, [WRING_HELLO_MAX - 1] = 9};
    for (size_t n = 0; n <= sizeof(full); n += sizeof(full)) {
        struct pair pair;
        size_t bytes;
        pair_init(&pair, key, key);
        wring_auth_init(&pair.initiator, true, WRING_AUTH_TCP, key, full, n);
        pair_run(&pair, 1000);
        check_pair(&pair, WRING_OK);
        const void *said = wring_auth_hello(&pair.acceptor, &bytes);
        CHECK(bytes == n && memcmp(said, full, n) == 0, "%zu bytes", bytes);
    }
}

static void wrong_key_is_named_to_both(void)
{
    for (size_t piece = 1; piece <= 80; piece += 79) {
        struct pair pair;
        char text[128];
        pair_init(&pair, key, other_key);
        pair_run(&pair, piece);
        check_pair(&pair, WRING_ERR_AUTH);
        wring_auth_describe(&pair.acceptor, text, sizeof(text));
        CHECK(strstr(text, "key") != NULL, "'%s'", text);
    }
}

/** An initiator with the wrong key that does not look at the acceptor's proof. */
static void acceptor_judges_for_itself(void)
{
    struct pair pair;
    uint8_t guess[WRING_AUTH_MAC_BYTES];
    const void *data;
    pair_init(&pair, key, key);
    carry(&pair.initiator, &pair.acceptor, 1000);
    memset(guess, 0x5A, sizeof(guess));
    CHECK(wring_auth_output(&pair.acceptor, &data) == WRING_AUTH_SECOND_BYTES, "second message");
    wring_auth_sent(&pair.acceptor, WRING_AUTH_SECOND_BYTES);
    wring_auth_input(&pair.acceptor, guess, sizeof(guess));
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_AUTH, "guessed in");
    CHECK(wring_auth_output(&pair.acceptor, &data) == 1, "no last word");
    CHECK(wring_auth_wants(&pair.acceptor) == 0, "still listens");
}

static void every_flipped_bit_is_refused(void)
{
    size_t total = WRING_AUTH_FIRST_BYTES + WRING_AUTH_SECOND_BYTES + WRING_AUTH_MAC_BYTES;
    for (size_t bit = 0; bit < total * 8; bit++) {
        struct pair pair;
        size_t at = 0, moved;
        pair_init(&pair, key, key);
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
        struct pair pair;
        pair_init(&pair, key, key);
        for (size_t left = cut; left > 0; left--) {
            carry(&pair.initiator, &pair.acceptor, 1);
            carry(&pair.acceptor, &pair.initiator, 1000);
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
            wring_auth_init(&auth, initiator, WRING_AUTH_TCP, key, NULL, 0);
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
    for (int round = 0; round < 2000; round++) {
        struct wring_auth auth;
        uint8_t bytes[200];
        const void *data;
        wring_auth_init(&auth, false, WRING_AUTH_TCP, key, NULL, 0);
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)wring_test_random(&random);
        memcpy(bytes, "WRNG\1\0\2\0", (size_t)round % 9); /* ever further in */
        size_t used = wring_auth_input(&auth, bytes, sizeof(bytes));
        wring_auth_sent(&auth, wring_auth_output(&auth, &data));
        wring_auth_input(&auth, bytes + used, sizeof(bytes) - used);
        CHECK(wring_auth_status(&auth) != WRING_OK && wring_auth_status(&auth) != WRING_ERR_AGAIN,
              "round %d: %s", round, wring_status_text(wring_auth_status(&auth)));
    }
}

static void own_messages_sent_back_prove_nothing(void)
{
    struct pair pair;
    uint8_t bytes[WRING_AUTH_TRANSCRIPT_BYTES] = {0};
    const void *data;

    pair_init(&pair, key, key); /* the initiator's first message as the second one */
    size_t n = wring_auth_output(&pair.initiator, &data);
    memcpy(bytes, data, n);
    wring_auth_sent(&pair.initiator, n);
    wring_auth_input(&pair.initiator, bytes, WRING_AUTH_SECOND_BYTES);
    CHECK(wring_auth_status(&pair.initiator) == WRING_ERR_FRAME, "echo");

    pair_init(&pair, key, key); /* the acceptor's own proof as the initiator's */
    carry(&pair.initiator, &pair.acceptor, 1000);
    n = wring_auth_output(&pair.acceptor, &data);
    memcpy(bytes, data, n);
    wring_auth_sent(&pair.acceptor, n);
    wring_auth_input(&pair.acceptor, bytes + n - WRING_AUTH_MAC_BYTES, WRING_AUTH_MAC_BYTES);
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_AUTH, "reflected");
}

static void a_recorded_session_cannot_be_replayed(void)
{
    struct pair pair;
    struct wring_auth fresh;
    uint8_t first[WRING_AUTH_FIRST_BYTES], third[WRING_AUTH_MAC_BYTES];
    const void *data;
    pair_init(&pair, key, key);
    memcpy(first, (wring_auth_output(&pair.initiator, &data), data), sizeof(first));
    carry(&pair.initiator, &pair.acceptor, 1000);
    carry(&pair.acceptor, &pair.initiator, 1000);
    memcpy(third, (wring_auth_output(&pair.initiator, &data), data), sizeof(third));
    carry(&pair.initiator, &pair.acceptor, 1000);
    carry(&pair.acceptor, &pair.initiator, 1000);
    check_pair(&pair, WRING_OK);

    wring_auth_init(&fresh, false, WRING_AUTH_TCP, key, NULL, 0);
    wring_auth_input(&fresh, first, sizeof(first));
    wring_auth_sent(&fresh, wring_auth_output(&fresh, &data));
    wring_auth_input(&fresh, third, sizeof(third));
    CHECK(wring_auth_status(&fresh) == WRING_ERR_AUTH, "replayed");
}

static void another_version_is_named_to_both(void)
{
    struct pair pair;
    uint8_t first[WRING_AUTH_FIRST_BYTES];
    const void *data;
    char text[128];
    pair_init(&pair, key, key);
    size_t n = wring_auth_output(&pair.initiator, &data);
    memcpy(first, data, sizeof(first));
    wring_auth_sent(&pair.initiator, n);
    first[4] = WRING_WIRE_VERSION + 6;
    wring_auth_input(&pair.acceptor, first, sizeof(first));
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_VERSION, "acceptor");
    wring_auth_describe(&pair.acceptor, text, sizeof(text));
    CHECK(strstr(text, "version 7") != NULL, "'%s'", text);
    carry(&pair.acceptor, &pair.initiator, 1000);
    CHECK(wring_auth_status(&pair.initiator) == WRING_ERR_VERSION, "initiator");

    pair_init(&pair, key, key); /* an acceptor of another version */
    wring_auth_sent(&pair.initiator, wring_auth_output(&pair.initiator, &data));
    wring_auth_input(&pair.initiator, "WRNG\x09\0\x00\xA0", 8);
    CHECK(wring_auth_status(&pair.initiator) == WRING_ERR_VERSION, "initiator alone");
    wring_auth_describe(&pair.initiator, text, sizeof(text));
    CHECK(strstr(text, "version 9") != NULL, "'%s'", text);
}

static void another_kind_of_port_is_refused(void)
{
    struct pair pair;
    char text[128];
    pair_init(&pair, key, key);
    wring_auth_init(&pair.initiator, true, WRING_AUTH_SHM, key, NULL, 0);
    pair_run(&pair, 1000);
    check_pair(&pair, WRING_ERR_FRAME);
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
        struct pair pair;
        uint8_t first[WRING_AUTH_FIRST_BYTES];
        const void *data;
        pair_init(&pair, key, key);
        memcpy(first, (wring_auth_output(&pair.initiator, &data), data), sizeof(first));
        first[bad[i].at] = bad[i].value;
        wring_auth_input(&pair.acceptor, first, sizeof(first));
        CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_FRAME, "byte %zu", bad[i].at);
    }
}

static void bytes_after_the_handshake_are_left_alone(void)
{
    struct pair pair;
    uint8_t bytes[64];
    const void *data;
    pair_init(&pair, key, key);
    carry(&pair.initiator, &pair.acceptor, 1000);
    carry(&pair.acceptor, &pair.initiator, 1000);
    memset(bytes, 'f', sizeof(bytes));
    memcpy(bytes, (wring_auth_output(&pair.initiator, &data), data), WRING_AUTH_MAC_BYTES);
    size_t used = wring_auth_input(&pair.acceptor, bytes, sizeof(bytes));
    CHECK(used == WRING_AUTH_MAC_BYTES, "took %zu", used);
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_AGAIN, "welcome is not yet sent");
    wring_auth_sent(&pair.acceptor, wring_auth_output(&pair.acceptor, &data));
    CHECK(wring_auth_status(&pair.acceptor) == WRING_OK, "after the welcome");
    CHECK(wring_auth_input(&pair.acceptor, bytes, sizeof(bytes)) == 0, "greed");
}

/** RFC 5869, test case 1; its output's first 32 bytes. */
static void derived_secrets_match_the_standard(void)
{
    static const uint8_t want[WRING_SECRET_BYTES] = {
        0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a, 0x90, 0x43, 0x4f,
        0x64, 0xd0, 0x36, 0x2f, 0x2a, 0x2d, 0x2d, 0x0a, 0x90, 0xcf, 0x1a,
        0x5a, 0x4c, 0x5d, 0xb0, 0x2d, 0x56, 0xec, 0xc4, 0xc5, 0xbf};
    uint8_t input[22], salt[13], got[WRING_SECRET_BYTES], again[WRING_SECRET_BYTES];
    memset(input, 0x0b, sizeof(input));
    for (size_t i = 0; i < sizeof(salt); i++)
        salt[i] = (uint8_t)i;
    enum wring_status status = wring_secret_derive(
        input, sizeof(input), "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9", salt, sizeof(salt), got);
    CHECK(status == WRING_OK && memcmp(got, want, sizeof(want)) == 0, "differs");

    wring_secret_derive("key", 3, "one use", NULL, 0, got);
    wring_secret_derive("key", 3, "another use", NULL, 0, again);
    CHECK(memcmp(got, again, sizeof(got)) != 0, "label ignored");
}

/** The worked bytes of transport/WIRE.md, "Handshake", which another program computed. */
static void worked_bytes_are_those_of_the_format(void)
{
    static const uint8_t proofs[2][WRING_AUTH_MAC_BYTES] = {
        {0x5f, 0x41, 0xd8, 0x3d, 0x63, 0x30, 0x1c, 0x53, 0x4f, 0xa2, 0xf5,
         0xe7, 0x20, 0x63, 0x24, 0x5e, 0x95, 0x66, 0xeb, 0x84, 0x4a, 0x4b,
         0x58, 0xb9, 0x13, 0x1c, 0x8c, 0x34, 0xb5, 0x32, 0x71, 0xe0},
        {0x95, 0x5e, 0x24, 0x9e, 0x80, 0x03, 0xc5, 0xab, 0x68, 0x06, 0x7b,
         0x9c, 0xbd, 0x3e, 0x0b, 0x50, 0x54, 0x34, 0x36, 0x0d, 0x66, 0xfe,
         0x93, 0xda, 0x80, 0x24, 0x2f, 0x18, 0x1a, 0x3d, 0x89, 0x70}};
    struct wring_auth auth;
    uint8_t secret[WRING_SECRET_BYTES], second[WRING_AUTH_SECOND_BYTES] = "WRNG\1\0\0\xA0";
    const void *data;
    for (size_t i = 0; i < sizeof(secret); i++)
        secret[i] = (uint8_t)i;
    memset(second + 8, 0x22, WRING_AUTH_NONCE_BYTES);
    memcpy(second + 40, proofs[0], sizeof(proofs[0]));

    wring_auth_init(&auth, true, WRING_AUTH_TCP, secret, "me", 2);
    memset(auth.transcript + 12, 0x11, WRING_AUTH_NONCE_BYTES); /* in place of the random one */
    size_t n = wring_auth_output(&auth, &data);
    CHECK(n == WRING_AUTH_FIRST_BYTES && memcmp(data, "WRNG\1\0\2\0\2\0\0\0", 12) == 0, "first");
    wring_auth_sent(&auth, n);
    CHECK(wring_auth_input(&auth, second, sizeof(second)) == sizeof(second), "second");
    CHECK(wring_auth_status(&auth) == WRING_ERR_AGAIN, "the proof is refused");
    n = wring_auth_output(&auth, &data);
    CHECK(n == sizeof(proofs[1]) && memcmp(data, proofs[1], n) == 0, "third");
    wring_auth_sent(&auth, n);
    wring_auth_input(&auth, "\1", 1);
    CHECK(wring_auth_status(&auth) == WRING_OK, "fourth");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"same_key_agrees_in_pieces_of_any_size", same_key_agrees_in_pieces_of_any_size},
        {"hello_may_be_empty_or_full", hello_may_be_empty_or_full},
        {"wrong_key_is_named_to_both", wrong_key_is_named_to_both},
        {"acceptor_judges_for_itself", acceptor_judges_for_itself},
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
        {"worked_bytes_are_those_of_the_format", worked_bytes_are_those_of_the_format},
        {"derived_secrets_match_the_standard", derived_secrets_match_the_standard},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
