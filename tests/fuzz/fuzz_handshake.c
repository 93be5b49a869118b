/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The handshake of all providers. A peer that does not know the secret is never believed, whatever
 * it says; one that knows it is, unless a byte is changed on the way; neither reads past its end.
 *
 * Input: mode (1 byte), size of the pieces (1), then
 * mode 0, 1: what a stranger says to an acceptor, to an initiator;
 * else: changes to what two sides that share the secret say: (place, difference), 1 byte each.
 */
#include "tests/fuzz/fuzz.h"
#include "transport/auth.h"

static const uint8_t secret[WRING_SECRET_BYTES] = {1, 2, 3};

static bool is_final(enum wring_status status)
{
    return status == WRING_ERR_AUTH || status == WRING_ERR_VERSION || status == WRING_ERR_FRAME;
}

static void check_words(const struct wring_auth *auth)
{
    char text[200];
    wring_auth_describe(auth, text, sizeof(text));
    FUZZ_CHECK(text[0] != '\0', "nothing to say");
}

static void stranger(struct fuzz_input input, bool initiator, size_t piece)
{
    struct wring_auth auth;
    const void *said;

    wring_auth_init(&auth, initiator, WRING_AUTH_TCP, secret, "hello", initiator ? 5 : 0);
    while (input.left > 0 && wring_auth_status(&auth) == WRING_ERR_AGAIN) {
        size_t out = wring_auth_output(&auth, &said);
        if (out > 0) {
            wring_auth_sent(&auth, out);
            continue;
        }
        size_t n = input.left < piece ? input.left : piece;
        size_t wants = wring_auth_wants(&auth), taken = wring_auth_input(&auth, input.data, n);
        FUZZ_CHECK(taken <= n && taken <= wants && taken > 0, "%zu of %zu bytes taken, %zu wanted",
                   taken, n, wants);
        input.data += taken;
        input.left -= taken;
    }
    enum wring_status status = wring_auth_status(&auth);
    FUZZ_CHECK(status == WRING_ERR_AGAIN || is_final(status), "a stranger got status %d", status);
    check_words(&auth);
}

/** The transcript as it is said, with what is changed in it. */
struct wire {
    uint8_t changes[WRING_AUTH_TRANSCRIPT_BYTES];
    size_t at;
    bool changed; /* a byte that was said */
};

static void carry(struct wring_auth *from, struct wring_auth *to, struct wire *wire, size_t piece)
{
    uint8_t said[WRING_AUTH_TRANSCRIPT_BYTES];
    const void *data;
    size_t n = wring_auth_output(from, &data);

    n = n < piece ? n : piece;
    for (size_t i = 0; i < n; i++) {
        uint8_t change = wire->changes[wire->at++ % sizeof(wire->changes)];
        said[i] = ((const uint8_t *)data)[i] ^ change;
        wire->changed |= change != 0;
    }
    wring_auth_sent(from, n);
    wring_auth_input(to, said, n);
}

static bool has_output(struct wring_auth *auth)
{
    const void *data;
    return wring_auth_output(auth, &data) > 0;
}

static void tampered(struct fuzz_input input, size_t piece)
{
    struct wire wire = {.at = 0};
    struct wring_auth sides[2];

    while (input.left >= 2) {
        uint32_t position = fuzz_take(&input, 1), change = fuzz_take(&input, 1);
        wire.changes[position % sizeof(wire.changes)] ^= (uint8_t)change;
    }
    wring_auth_init(&sides[0], true, WRING_AUTH_SHM, secret, "abc", 3);
    wring_auth_init(&sides[1], false, WRING_AUTH_SHM, secret, NULL, 0);
    while (has_output(&sides[0]) || has_output(&sides[1]))
        for (int i = 0; i < 2; i++)
            if (has_output(&sides[i]))
                carry(&sides[i], &sides[1 - i], &wire, piece);

    enum wring_status first = wring_auth_status(&sides[0]), second = wring_auth_status(&sides[1]);
    bool both = first == WRING_OK && second == WRING_OK;
    FUZZ_CHECK(both == !wire.changed, "changed %d, but %d and %d", wire.changed, first, second);
    check_words(&sides[0]);
    check_words(&sides[1]);
    size_t bytes;
    if (both)
        FUZZ_CHECK(memcmp(wring_auth_hello(&sides[1], &bytes), "abc", 3) == 0 && bytes == 3,
                   "another hello");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint32_t mode = fuzz_take(&input, 1);
    size_t piece = 1 + fuzz_take(&input, 1);

    if (mode < 2)
        stranger(input, mode == 1, piece);
    else
        tampered(input, piece);
    return 0;
}
