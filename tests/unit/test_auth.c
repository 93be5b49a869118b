/* SPDX-License-Identifier: Apache-2.0 */
/** Handshakes between honest ends, and bytes that others can check. */
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/auth_pair.h"

static void same_key_agrees_in_pieces_of_any_size(void)
{
    for (size_t piece = 1; piece <= 80; piece++) {
        struct auth_pair pair;
        size_t bytes;
        auth_pair_init(&pair, auth_key, auth_key);
        auth_pair_run(&pair, piece);
        auth_pair_check(&pair, WRING_OK);
        const void *said = wring_auth_hello(&pair.acceptor, &bytes);
        CHECK(bytes == sizeof(AUTH_HELLO) && memcmp(said, AUTH_HELLO, bytes) == 0,
              "hello, %zu bytes", bytes);
    }
}

static void hello_may_be_empty_or_full(void)
{
    static const uint8_t full[WRING_HELLO_MAX] = {[0] = 7, [WRING_HELLO_MAX - 1] = 9};
    for (size_t n = 0; n <= sizeof(full); n += sizeof(full)) {
        struct auth_pair pair;
        size_t bytes;
        auth_pair_init(&pair, auth_key, auth_key);
        wring_auth_init(&pair.initiator, true, WRING_AUTH_TCP, auth_key, full, n);
        auth_pair_run(&pair, 1000);
        auth_pair_check(&pair, WRING_OK);
        const void *said = wring_auth_hello(&pair.acceptor, &bytes);
        CHECK(bytes == n && memcmp(said, full, n) == 0, "%zu bytes", bytes);
    }
}

static void wrong_key_is_named_to_both(void)
{
    for (size_t piece = 1; piece <= 80; piece += 79) {
        struct auth_pair pair;
        char text[128];
        auth_pair_init(&pair, auth_key, auth_other_key);
        auth_pair_run(&pair, piece);
        auth_pair_check(&pair, WRING_ERR_AUTH);
        wring_auth_describe(&pair.acceptor, text, sizeof(text));
        CHECK(strstr(text, "key") != NULL, "'%s'", text);
    }
}

/** An initiator with the wrong key that does not look at the acceptor's proof. */
static void acceptor_judges_for_itself(void)
{
    struct auth_pair pair;
    uint8_t guess[WRING_AUTH_MAC_BYTES];
    const void *data;
    auth_pair_init(&pair, auth_key, auth_key);
    auth_pair_carry(&pair.initiator, &pair.acceptor, 1000);
    memset(guess, 0x5A, sizeof(guess));
    CHECK(wring_auth_output(&pair.acceptor, &data) == WRING_AUTH_SECOND_BYTES, "second message");
    wring_auth_sent(&pair.acceptor, WRING_AUTH_SECOND_BYTES);
    wring_auth_input(&pair.acceptor, guess, sizeof(guess));
    CHECK(wring_auth_status(&pair.acceptor) == WRING_ERR_AUTH, "guessed in");
    CHECK(wring_auth_output(&pair.acceptor, &data) == 1, "no last word");
    CHECK(wring_auth_wants(&pair.acceptor) == 0, "still listens");
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
        {"worked_bytes_are_those_of_the_format", worked_bytes_are_those_of_the_format},
        {"derived_secrets_match_the_standard", derived_secrets_match_the_standard},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
