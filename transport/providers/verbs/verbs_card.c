/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_card.h"

#include <string.h>

#include "base/bytes.h"

#define NUMBER_END (1u << 24) /* of queue pairs and packets */
#define MTU_MIN 1
#define MTU_MAX 5

void wring_verbs_card_pack(const struct verbs_card *card, uint8_t to[VERBS_CARD_BYTES])
{
    memset(to, 0, VERBS_CARD_BYTES);
    wring_put_u32(to, card->qpn);
    wring_put_u32(to + 4, card->psn);
    memcpy(to + 8, &card->lid, sizeof(card->lid));
    to[10] = card->mtu;
    memcpy(to + 16, card->gid, VERBS_GID_BYTES);
    wring_put_u64(to + 32, card->credit_address);
    wring_put_u32(to + 40, card->credit_rkey);
}

bool wring_verbs_card_unpack(const uint8_t from[VERBS_CARD_BYTES], struct verbs_card *out)
{
    struct verbs_card card = {
        .qpn = wring_get_u32(from),
        .psn = wring_get_u32(from + 4),
        .mtu = from[10],
        .credit_address = wring_get_u64(from + 32),
        .credit_rkey = wring_get_u32(from + 40),
    };
    memcpy(&card.lid, from + 8, sizeof(card.lid));
    memcpy(card.gid, from + 16, VERBS_GID_BYTES);
    if (card.qpn >= NUMBER_END || card.psn >= NUMBER_END || card.mtu < MTU_MIN ||
        card.mtu > MTU_MAX)
        return false;
    *out = card;
    return true;
}

void wring_verbs_key_pack(const struct verbs_key *key, uint8_t to[VERBS_KEY_BYTES])
{
    wring_put_u64(to, key->bytes);
    wring_put_u64(to + 8, key->address);
    wring_put_u32(to + 16, key->rkey);
}

bool wring_verbs_key_unpack(const uint8_t *from, size_t bytes, struct verbs_key *out)
{
    if (bytes != VERBS_KEY_BYTES)
        return false;
    struct verbs_key key = {wring_get_u64(from), wring_get_u64(from + 8), wring_get_u32(from + 16)};
    if (key.bytes == 0 || key.address + key.bytes < key.address)
        return false;
    *out = key;
    return true;
}
