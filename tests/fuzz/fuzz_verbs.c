/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a verbs peer says of its queue pair and of its rails: refused with nothing written, or read
 * so that it packs into the same bytes; what is let through can be handed to a device.
 *
 * Input: kind (1 byte: 0 a card, else an offer), then the bytes.
 */
#include "tests/fuzz/fuzz.h"
#include "transport/providers/verbs/verbs_card.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 0)
        check_card(data + 1, size - 1);
    else
        check_offer(data + 1, size - 1);
    return 0;
}
