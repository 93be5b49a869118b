/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a verbs peer says on its stream, and in its address before: refused with nothing written, or
 * read so that it packs into the same bytes; what is let through can be handed to a device.
 *
 * Input: kind (1 byte, mod 7: a card, an offer, a header, RESYNC, RESUME, TRY, an address), then
 * the bytes.
 */
#include "tests/fuzz/fuzz.h"
#include "transport/providers/verbs/handshake.h"

static void check_card(const uint8_t *data, size_t size)
{
    static const uint8_t reserved[][2] = {{11, 16}, {44, 48}}; /* not looked at */
    uint8_t bytes[VERBS_CARD_BYTES] = {0}, packed[VERBS_CARD_BYTES];
    struct verbs_card card, untouched;

    memset(&card, 0xA5, sizeof(card));
    untouched = card;
    if (size > 0)
        memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    if (!wring_verbs_card_unpack(bytes, &card)) {
        FUZZ_CHECK(memcmp(&card, &untouched, sizeof(card)) == 0, "refused, but written");
        return;
    }
    FUZZ_CHECK(card.qpn >> 24 == 0 && card.psn >> 24 == 0 && card.mtu >= 1 && card.mtu <= 5,
               "queue pair %u, packet %u, MTU %u", card.qpn, card.psn, card.mtu);
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        memset(bytes + reserved[i][0], 0, reserved[i][1] - reserved[i][0]);
    wring_verbs_card_pack(&card, packed);
    FUZZ_CHECK(memcmp(packed, bytes, sizeof(packed)) == 0, "a card that has two forms");
}

static void check_offer(const uint8_t *data, size_t size)
{
    uint8_t packed[VERBS_OFFER_MAX], copy[VERBS_OFFER_MAX];
    struct verbs_offer offer, untouched;

    memset(&offer, 0xA5, sizeof(offer));
    untouched = offer;
    if (!wring_verbs_offer_unpack(data, size, &offer)) {
        FUZZ_CHECK(memcmp(&offer, &untouched, sizeof(offer)) == 0, "refused, but written");
        return;
    }
    FUZZ_CHECK(offer.n_rails >= 1 && offer.n_rails <= VERBS_RAILS_MAX && offer.qps >= 1 &&
                   offer.qps <= VERBS_QPS_MAX,
               "%u rails, %u queue pairs", offer.n_rails, offer.qps);
    memcpy(copy, data, size);
    memset(copy + 2, 0, 6); /* not looked at */
    FUZZ_CHECK(wring_verbs_offer_pack(&offer, packed) == size, "an offer of %zu bytes", size);
    FUZZ_CHECK(memcmp(packed, copy, size) == 0, "an offer that has two forms");
}

static void check_word(const uint8_t *data, size_t size)
{
    size_t bytes = 77;
    uint8_t header[VERBS_WORD_HEADER] = {0}, packed[VERBS_WORD_HEADER];
    memcpy(header, data, size < sizeof(header) ? size : sizeof(header));
    unsigned word = wring_verbs_word_unpack(header, &bytes);
    if (word == 0) {
        FUZZ_CHECK(bytes == 77, "refused, but written");
        return;
    }
    FUZZ_CHECK(bytes <= VERBS_WORD_MAX, "%zu bytes", bytes);
    wring_verbs_word_pack((enum verbs_word)word, bytes, packed);
    FUZZ_CHECK(memcmp(packed, header, sizeof(packed)) == 0, "a word that has two forms");
}

static void check_resync(const uint8_t *data, size_t size)
{
    uint8_t packed[VERBS_RESYNC_BYTES];
    struct verbs_resync_word word;
    if (!wring_verbs_resync_unpack(data, size, &word))
        return;
    FUZZ_CHECK((word.dead | word.renew) >> VERBS_PATHS_MAX == 0, "paths that nobody has");
    wring_verbs_resync_pack(&word, packed);
    FUZZ_CHECK(size == sizeof(packed) && memcmp(packed, data, size) == 0, "it has two forms");
}

static void check_resume(const uint8_t *data, size_t size)
{
    uint8_t packed[VERBS_RESUME_BYTES];
    struct verbs_resume_word word;
    if (!wring_verbs_resume_unpack(data, size, &word))
        return;
    size_t cards = (size_t)__builtin_popcount(word.renewed);
    FUZZ_CHECK(size == VERBS_RESUME_BYTES + cards * VERBS_CARD_BYTES, "cards that are not there");
    wring_verbs_resume_pack(&word, packed);
    FUZZ_CHECK(memcmp(packed, data, sizeof(packed)) == 0, "it has two forms");
}

static void check_try(const uint8_t *data, size_t size)
{
    struct verbs_try_word word;
    if (!wring_verbs_try_unpack(data, size, &word))
        return;
    FUZZ_CHECK(size == VERBS_TRY_BYTES && word.path < VERBS_PATHS_MAX, "path %u", word.path);
    check_card(data + 8, size - 8);
}

/** What is taken is bounded, and answers about itself are the same both ways round. */
static void check_address(const uint8_t *data, size_t size)
{
    struct verbs_address address;
    char reason[VERBS_WHY] = "", back[VERBS_WHY] = "";
    static const uint8_t other[] = {4,    0,    1,  0, 127, 0, 0, 1, 1, 2, 0x82,
                                    0xff, 0xff, 10, 0, 0,   1, 0, 0, 0, 0};
    enum wring_status there =
        wring_verbs_reaches(NULL, data, size, other, sizeof(other), reason, sizeof(reason));
    enum wring_status again =
        wring_verbs_reaches(NULL, other, sizeof(other), data, size, back, sizeof(back));
    FUZZ_CHECK(there == again, "%d one way, %d the other", there, again);
    if (wring_verbs_address_unpack(data, size, &address) != WRING_OK) {
        FUZZ_CHECK(there == WRING_ERR_FRAME, "malformed, and %d", there);
        return;
    }
    FUZZ_CHECK(there == WRING_OK || (there == WRING_ERR_UNSUPPORTED && reason[0] != '\0'),
               "%d without a reason", there);
    FUZZ_CHECK(size <= WRING_ADDRESS_MAX && address.n_kinds >= 1 &&
                   address.n_kinds <= VERBS_RAILS_MAX,
               "%zu bytes, %u kinds", size, address.n_kinds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(const uint8_t *, size_t) = {
        check_card, check_offer, check_word, check_resync, check_resume, check_try, check_address};
    if (size > 0)
        checks[data[0] % (sizeof(checks) / sizeof(checks[0]))](data + 1, size - 1);
    return 0;
}
