/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a verbs peer says of its queue pair and of a region: refused with nothing written, or read
 * so that it packs into the same bytes; what is let through can be handed to a device.
 *
 * Input: kind (1 byte: 0 a card, else a key), then the bytes.
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

static void check_key(const uint8_t *data, size_t size)
{
    uint8_t packed[VERBS_KEY_BYTES];
    struct verbs_key key, untouched;

    memset(&key, 0xA5, sizeof(key));
    untouched = key;
    if (!wring_verbs_key_unpack(data, size, &key)) {
        FUZZ_CHECK(memcmp(&key, &untouched, sizeof(key)) == 0, "refused, but written");
        return;
    }
    FUZZ_CHECK(size == sizeof(packed), "a key of %zu bytes", size);
    FUZZ_CHECK(key.bytes > 0 && key.bytes - 1 <= UINT64_MAX - key.address, "memory that wraps");
    wring_verbs_key_pack(&key, packed);
    FUZZ_CHECK(memcmp(packed, data, sizeof(packed)) == 0, "a key that has two forms");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 0)
        check_card(data + 1, size - 1);
    else
        check_key(data + 1, size - 1);
    return 0;
}
