/* SPDX-License-Identifier: Apache-2.0 */
/** The bytes that verbs peers exchange, against the tables of WIRE.md. */
#include <string.h>

#include "tests/lib/test.h"
#include "transport/providers/verbs/handshake.h"

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

static const struct verbs_offer offered = {
    .qps = 4,
    .stripe_bytes = 0x10000,
    .n_rails = 2,
    .rails = {{VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, {[10] = 0xFF, 0xFF, 10, 77, 0, 1}, 0xFFFF, 1024},
              {VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, {0xFE, 0x80}, 0x8001, 4096}},
};

static const uint8_t offered_bytes[VERBS_OFFER_HEAD + 2 * VERBS_OFFER_RAIL] = {
    2, 4,    0,    0,    0,  0, 0, 0, 0, 0, 1,    0, 0,  0, 0, 0, /* head */
    2, 2,    0xFF, 0xFF, 0,  4, 0, 0, 0, 0, 0,    0, 0,  0, 0, 0,    0,
    0, 0xFF, 0xFF, 10,   77, 0, 1, 1, 0, 1, 0x80, 0, 16, 0, 0, 0xFE, 0x80,
};

static void offer_is_these_bytes(void)
{
    uint8_t packed[VERBS_OFFER_MAX], again[VERBS_OFFER_MAX];
    struct verbs_offer back;
    size_t n = wring_verbs_offer_pack(&offered, packed);
    CHECK(n == sizeof(offered_bytes) && memcmp(packed, offered_bytes, n) == 0, "other bytes");
    REQUIRE(wring_verbs_offer_unpack(packed, n, &back), "refused");
    CHECK(back.qps == 4 && back.stripe_bytes == 0x10000 && back.n_rails == 2 &&
              back.rails[1].pkey == 0x8001 && back.rails[1].mtu == 4096,
          "reads otherwise");
    CHECK(wring_verbs_offer_pack(&back, again) == n && memcmp(again, packed, n) == 0,
          "is not what it was read from");
}

/** @param at a byte that is given another value */
static void check_offer_refused(unsigned at, uint8_t value)
{
    uint8_t bytes[sizeof(offered_bytes)];
    struct verbs_offer out = {.qps = 77};
    memcpy(bytes, offered_bytes, sizeof(bytes));
    bytes[at] = value;
    CHECK(!wring_verbs_offer_unpack(bytes, sizeof(bytes), &out), "byte %u is %u, and taken", at,
          value);
    CHECK(out.qps == 77, "byte %u is %u: refused, but written", at, value);
}

static void other_offers_are_refused(void)
{
    struct verbs_offer out;
    check_offer_refused(0, 0);
    check_offer_refused(0, 1);
    check_offer_refused(0, 3);
    check_offer_refused(0, 9);
    check_offer_refused(1, 0);
    check_offer_refused(1, 9);
    check_offer_refused(12, 1); /* a threshold of more than 1 GiB */
    check_offer_refused(16, 0); /* no such link */
    check_offer_refused(16, 3);
    check_offer_refused(17, 3);    /* no such kind of GID */
    check_offer_refused(21, 3);    /* an MTU that is no power of two */
    check_offer_refused(21, 0);    /* and of nothing */
    check_offer_refused(21, 0x20); /* and of 8 KiB */
    for (size_t n = 0; n < sizeof(offered_bytes); n++)
        CHECK(!wring_verbs_offer_unpack(offered_bytes, n, &out), "%zu bytes of it", n);
}

static void words_have_headers(void)
{
    uint8_t header[VERBS_WORD_HEADER];
    size_t bytes = 0;
    wring_verbs_word_pack(VERBS_WORD_CARDS, 0x0300, header);
    CHECK(memcmp(header, (uint8_t[]){2, 0, 0, 3}, sizeof(header)) == 0, "other bytes");
    CHECK(wring_verbs_word_unpack(header, &bytes) == VERBS_WORD_CARDS && bytes == 0x0300, "%zu",
          bytes);
    CHECK(wring_verbs_word_unpack((uint8_t[]){0, 0, 0, 0}, &bytes) == 0, "no word");
    CHECK(wring_verbs_word_unpack((uint8_t[]){2, 1, 0, 0}, &bytes) == 0, "a large one");
    CHECK(wring_verbs_word_unpack((uint8_t[]){2, 0, 0x15, 3}, &bytes) == 0, "a long one");
    CHECK(bytes == 0x0300, "refused, but written");
}

static void resync_words_are_read_as_written(void)
{
    uint8_t *packed = wring_test_guarded(VERBS_RESYNC_BYTES);
    struct verbs_resync_word word = {.number = 3, .dead = 0x8001, .renew = 0x8000};
    struct verbs_resync_word back = {.dead = 77};
    for (unsigned i = 0; i < VERBS_PATHS_MAX; i++)
        word.used[i] = 0xFFFFFFF0 + i;
    wring_verbs_resync_pack(&word, packed);
    static const uint8_t first[] = {3,    0, 0, 0,    1,    0x80, 0,    0,   0,
                                    0x80, 0, 0, 0xF0, 0xFF, 0xFF, 0xFF, 0xF1};
    CHECK(memcmp(packed, first, sizeof(first)) == 0, "other bytes");
    REQUIRE(wring_verbs_resync_unpack(packed, VERBS_RESYNC_BYTES, &back), "refused");
    CHECK(memcmp(&back, &word, sizeof(back)) == 0, "reads otherwise");
    CHECK(!wring_verbs_resync_unpack(packed, VERBS_RESYNC_BYTES - 1, &back), "a short one");
    packed[6] = 1;
    CHECK(!wring_verbs_resync_unpack(packed, VERBS_RESYNC_BYTES, &back), "a 17th path");
    packed[6] = 0;
    packed[11] = 1;
    CHECK(!wring_verbs_resync_unpack(packed, VERBS_RESYNC_BYTES, &back), "a new 25th path");
    CHECK(memcmp(&back, &word, sizeof(back)) == 0, "refused, but written");
}

static void resume_words_are_read_as_written(void)
{
    enum {
        BYTES = VERBS_RESUME_BYTES + 2 * VERBS_CARD_BYTES
    };
    const struct verbs_resume_word word = {1, 2, 0x0102030405060708, 5};
    static const uint8_t want[] = {1, 0, 0, 0, 2, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 5, 0, 0, 0};
    uint8_t packed[BYTES] = {0};
    struct verbs_resume_word back = {.my_number = 7};
    wring_verbs_resume_pack(&word, packed);
    CHECK(memcmp(packed, want, sizeof(want)) == 0, "other bytes");
    CHECK(!wring_verbs_resume_unpack(packed, BYTES - 1, &back), "a short card");
    CHECK(!wring_verbs_resume_unpack(packed, VERBS_RESUME_BYTES, &back), "no cards");
    CHECK(!wring_verbs_resume_unpack(packed, VERBS_RESUME_BYTES - 1, &back), "less");
    packed[18] = 1;
    CHECK(!wring_verbs_resume_unpack(packed, BYTES, &back), "a 17th path");
    CHECK(back.my_number == 7, "refused, but written");
    packed[18] = 0;
    CHECK(wring_verbs_resume_unpack(packed, BYTES, &back), "refused");
    CHECK(back.my_number == 1 && back.your_number == 2 && back.delivered == word.delivered &&
              back.renewed == 5,
          "reads otherwise");
}

static void try_words_are_read_as_written(void)
{
    struct verbs_try_word word = {.number = 0x01020304, .path = 15, .card = sample}, back = {0};
    uint8_t packed[VERBS_TRY_BYTES], card[VERBS_CARD_BYTES];
    wring_verbs_try_pack(&word, packed);
    wring_verbs_card_pack(&sample, card);
    CHECK(memcmp(packed, (uint8_t[]){4, 3, 2, 1, 15, 0, 0, 0}, 8) == 0, "other bytes");
    CHECK(memcmp(packed + 8, card, sizeof(card)) == 0, "another card");
    CHECK(!wring_verbs_try_unpack(packed, VERBS_TRY_BYTES - 1, &back), "a short one");
    packed[4] = VERBS_PATHS_MAX;
    CHECK(!wring_verbs_try_unpack(packed, VERBS_TRY_BYTES, &back), "a 17th path");
    packed[4] = 15;
    packed[8 + 10] = 0;
    CHECK(!wring_verbs_try_unpack(packed, VERBS_TRY_BYTES, &back), "a card that is none");
    CHECK(back.number == 0 && back.card.mtu == 0, "refused, but written");
    packed[8 + 10] = sample.mtu;
    REQUIRE(wring_verbs_try_unpack(packed, VERBS_TRY_BYTES, &back), "refused");
    CHECK(back.number == word.number && back.path == 15 && back.card.qpn == sample.qpn,
          "reads otherwise");
}

static const struct wring_test_case cases[] = {
    {"card_is_these_bytes", card_is_these_bytes},
    {"other_cards_are_refused", other_cards_are_refused},
    {"offer_is_these_bytes", offer_is_these_bytes},
    {"other_offers_are_refused", other_offers_are_refused},
    {"words_have_headers", words_have_headers},
    {"resync_words_are_read_as_written", resync_words_are_read_as_written},
    {"resume_words_are_read_as_written", resume_words_are_read_as_written},
    {"try_words_are_read_as_written", try_words_are_read_as_written},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
