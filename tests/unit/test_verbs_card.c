/* SPDX-License-Identifier: Apache-2.0 */
/** The bytes that verbs peers exchange, against the tables of WIRE.md. */
#include <string.h>

#include "tests/lib/test.h"
#include "transport/providers/verbs/verbs_card.h"

static const struct verbs_card sample = {
    .qpn = 0x010203,
    .psn = 0xFFFFFF,
    .lid = 0x0708,
    .mtu = 5,
    .gid = {0xFE, 0x80, [15] = 0x01},
    .credit_address = 0x1122334455667788,
    .credit_rkey = 0xAABBCCDD,
};

static const uint8_t sample_bytes[VERBS_CARD_BYTES] = {
    0x03, 0x02, 0x01, 0,    0xFF, 0xFF, 0xFF, 0,    0x08, 0x07, 5,    0,    0,    0,    0,
    0,    0xFE, 0x80, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
    0,    0x01, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xDD, 0xCC, 0xBB, 0xAA,
};

static void card_is_these_bytes(void)
{
    uint8_t *packed = wring_test_guarded(VERBS_CARD_BYTES);
    struct verbs_card back;

    wring_verbs_card_pack(&sample, packed);
    CHECK(memcmp(packed, sample_bytes, VERBS_CARD_BYTES) == 0, "other bytes");
    REQUIRE(wring_verbs_card_unpack(packed, &back), "refused");
    CHECK(back.qpn == sample.qpn && back.psn == sample.psn && back.lid == sample.lid &&
              back.mtu == sample.mtu && memcmp(back.gid, sample.gid, VERBS_GID_BYTES) == 0 &&
              back.credit_address == sample.credit_address &&
              back.credit_rkey == sample.credit_rkey,
          "reads otherwise");
}

/** @param at a byte that is given another value */
static void check_refused(unsigned at, uint8_t value)
{
    uint8_t bytes[VERBS_CARD_BYTES];
    struct verbs_card out = {.qpn = 77};

    memcpy(bytes, sample_bytes, sizeof(bytes));
    bytes[at] = value;
    CHECK(!wring_verbs_card_unpack(bytes, &out), "byte %u is %u, and taken", at, value);
    CHECK(out.qpn == 77, "byte %u is %u: refused, but written", at, value);
}

static void other_cards_are_refused(void)
{
    check_refused(3, 1); /* 24 bits are a queue pair's, and a packet's */
    check_refused(7, 0x80);
    check_refused(10, 0);
    check_refused(10, 6);
    check_refused(10, 0xFF);
}

static void key_is_these_bytes(void)
{
    static const uint8_t want[VERBS_KEY_BYTES] = {0, 0x10, 0, 0, 0, 0, 0, 0, 0x88, 0x77,
                                                  0, 0,    0, 0, 0, 0, 4, 3, 2,    1};
    const struct verbs_key key = {0x1000, 0x7788, 0x01020304};
    uint8_t *packed = wring_test_guarded(VERBS_KEY_BYTES);
    struct verbs_key back;

    wring_verbs_key_pack(&key, packed);
    CHECK(memcmp(packed, want, sizeof(want)) == 0, "other bytes");
    REQUIRE(wring_verbs_key_unpack(packed, VERBS_KEY_BYTES, &back), "refused");
    CHECK(back.bytes == key.bytes && back.address == key.address && back.rkey == key.rkey,
          "reads otherwise");
}

static bool is_taken(struct verbs_key key, size_t bytes)
{
    uint8_t packed[VERBS_KEY_BYTES + 1] = {0};
    wring_verbs_key_pack(&key, packed);
    return wring_verbs_key_unpack(packed, bytes, &key);
}

static void other_keys_are_refused(void)
{
    CHECK(is_taken((struct verbs_key){1, UINT64_MAX - 1, 0}, VERBS_KEY_BYTES), "the last bytes");
    CHECK(!is_taken((struct verbs_key){0, 4096, 0}, VERBS_KEY_BYTES), "no memory");
    CHECK(!is_taken((struct verbs_key){2, UINT64_MAX, 0}, VERBS_KEY_BYTES), "it wraps");
    CHECK(!is_taken((struct verbs_key){UINT64_MAX, 2, 0}, VERBS_KEY_BYTES), "it wraps");
    CHECK(!is_taken((struct verbs_key){1, 1, 0}, VERBS_KEY_BYTES - 1), "a short key");
    CHECK(!is_taken((struct verbs_key){1, 1, 0}, VERBS_KEY_BYTES + 1), "a long key");
    CHECK(!wring_verbs_key_unpack(NULL, 0, &(struct verbs_key){0}), "nothing at all");
}

static const struct wring_test_case cases[] = {
    {"card_is_these_bytes", card_is_these_bytes},
    {"other_cards_are_refused", other_cards_are_refused},
    {"key_is_these_bytes", key_is_these_bytes},
    {"other_keys_are_refused", other_keys_are_refused},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
