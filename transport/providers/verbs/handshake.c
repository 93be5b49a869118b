/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/handshake.h"

#include <string.h>

#include "base/bytes.h"
#include "transport/providers/tcp/tcp.h"

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

static void pack_end(const struct verbs_end *end, uint8_t *to)
{
    to[0] = (uint8_t)end->link;
    to[1] = (uint8_t)end->gid_type;
    memcpy(to + 2, &end->pkey, sizeof(end->pkey));
    wring_put_u32(to + 4, end->mtu);
    memcpy(to + 8, end->gid, sizeof(end->gid));
}

static bool unpack_end(const uint8_t *from, struct verbs_end *end)
{
    if ((from[0] != VERBS_LINK_INFINIBAND && from[0] != VERBS_LINK_ROCE) ||
        from[1] > VERBS_GID_ROCE_V2)
        return false;
    *end = (struct verbs_end){.link = (enum verbs_link)from[0],
                              .gid_type = (enum verbs_gid_type)from[1],
                              .mtu = wring_get_u32(from + 4)};
    memcpy(&end->pkey, from + 2, sizeof(end->pkey));
    memcpy(end->gid, from + 8, sizeof(end->gid));
    bool power = (end->mtu & (end->mtu - 1)) == 0;
    return power && end->mtu >= 256 && end->mtu <= 4096;
}

size_t wring_verbs_offer_pack(const struct verbs_offer *offer, uint8_t to[VERBS_OFFER_MAX])
{
    memset(to, 0, VERBS_OFFER_HEAD);
    to[0] = (uint8_t)offer->n_rails;
    to[1] = (uint8_t)offer->qps;
    wring_put_u64(to + 8, offer->stripe_bytes);
    for (unsigned i = 0; i < offer->n_rails; i++)
        pack_end(&offer->rails[i], to + VERBS_OFFER_HEAD + i * VERBS_OFFER_RAIL);
    return VERBS_OFFER_HEAD + offer->n_rails * (size_t)VERBS_OFFER_RAIL;
}

bool wring_verbs_offer_unpack(const uint8_t *from, size_t bytes, struct verbs_offer *out)
{
    if (bytes < VERBS_OFFER_HEAD)
        return false;
    struct verbs_offer offer = {
        .n_rails = from[0], .qps = from[1], .stripe_bytes = wring_get_u64(from + 8)};
    if (offer.n_rails == 0 || offer.n_rails > VERBS_RAILS_MAX || offer.qps == 0 ||
        offer.qps > VERBS_QPS_MAX || offer.stripe_bytes > VERBS_STRIPE_BYTES_MAX ||
        bytes != VERBS_OFFER_HEAD + offer.n_rails * (size_t)VERBS_OFFER_RAIL)
        return false;
    for (unsigned i = 0; i < offer.n_rails; i++)
        if (!unpack_end(from + VERBS_OFFER_HEAD + i * VERBS_OFFER_RAIL, &offer.rails[i]))
            return false;
    *out = offer;
    return true;
}

void wring_verbs_resync_pack(const struct verbs_resync_word *word, uint8_t to[VERBS_RESYNC_BYTES])
{
    wring_put_u32(to, word->number);
    wring_put_u32(to + 4, word->dead);
    wring_put_u32(to + 8, word->renew);
    for (unsigned i = 0; i < VERBS_PATHS_MAX; i++)
        wring_put_u32(to + 12 + 4 * i, word->used[i]);
}

bool wring_verbs_resync_unpack(const uint8_t *from, size_t bytes, struct verbs_resync_word *out)
{
    if (bytes != VERBS_RESYNC_BYTES)
        return false;
    struct verbs_resync_word word = {
        wring_get_u32(from), wring_get_u32(from + 4), wring_get_u32(from + 8), {0}};
    if ((word.dead | word.renew) >> VERBS_PATHS_MAX != 0)
        return false;
    for (unsigned i = 0; i < VERBS_PATHS_MAX; i++)
        word.used[i] = wring_get_u32(from + 12 + 4 * i);
    *out = word;
    return true;
}

void wring_verbs_resume_pack(const struct verbs_resume_word *word, uint8_t to[VERBS_RESUME_BYTES])
{
    wring_put_u32(to, word->my_number);
    wring_put_u32(to + 4, word->your_number);
    wring_put_u64(to + 8, word->delivered);
    wring_put_u32(to + 16, word->renewed);
}

bool wring_verbs_resume_unpack(const uint8_t *from, size_t bytes, struct verbs_resume_word *out)
{
    if (bytes < VERBS_RESUME_BYTES)
        return false;
    struct verbs_resume_word word = {wring_get_u32(from), wring_get_u32(from + 4),
                                     wring_get_u64(from + 8), wring_get_u32(from + 16)};
    size_t cards = (size_t)__builtin_popcount(word.renewed);
    if (word.renewed >> VERBS_PATHS_MAX != 0 ||
        bytes != VERBS_RESUME_BYTES + cards * VERBS_CARD_BYTES)
        return false;
    *out = word;
    return true;
}

void wring_verbs_try_pack(const struct verbs_try_word *word, uint8_t to[VERBS_TRY_BYTES])
{
    wring_put_u32(to, word->number);
    wring_put_u32(to + 4, word->path);
    wring_verbs_card_pack(&word->card, to + 8);
}

bool wring_verbs_try_unpack(const uint8_t *from, size_t bytes, struct verbs_try_word *out)
{
    if (bytes != VERBS_TRY_BYTES || wring_get_u32(from + 4) >= VERBS_PATHS_MAX ||
        !wring_verbs_card_unpack(from + 8, &out->card))
        return false;
    out->number = wring_get_u32(from);
    out->path = wring_get_u32(from + 4);
    return true;
}

void wring_verbs_word_pack(enum verbs_word word, size_t bytes, uint8_t to[VERBS_WORD_HEADER])
{
    wring_put_u32(to, (uint32_t)word | (uint32_t)bytes << 16);
}

unsigned wring_verbs_word_unpack(const uint8_t from[VERBS_WORD_HEADER], size_t *bytes)
{
    uint32_t header = wring_get_u32(from);
    uint32_t word = header & 0xffff, length = header >> 16;
    if (word < VERBS_WORD_OFFER || word > VERBS_WORD_TRY || length > VERBS_WORD_MAX)
        return 0;
    *bytes = length;
    return word;
}

/* ---- address ---- */

#define SOCKET_V4_BYTES 8
#define SOCKET_V6_BYTES 20
#define IS_V4 0x80u /* beside the kind of GID */
#define V4_AT 12    /* in a GID */
#define NETWORK_BYTES 8

_Static_assert(SOCKET_V6_BYTES + 1 + VERBS_RAILS_MAX * VERBS_KIND_BYTES <= WRING_ADDRESS_MAX,
               "the kinds of all rails fit");

static void pack_kind(const struct verbs_end *rail, uint8_t to[VERBS_KIND_BYTES])
{
    bool v4 = wring_verbs_is_v4(rail->gid);
    memset(to, 0, VERBS_KIND_BYTES);
    to[0] = (uint8_t)rail->link;
    to[1] = (uint8_t)(rail->gid_type | (v4 ? IS_V4 : 0));
    memcpy(to + 2, &rail->pkey, sizeof(rail->pkey));
    memcpy(to + 4, rail->gid + (v4 ? V4_AT : 0), v4 ? 4 : NETWORK_BYTES);
}

static bool unpack_kind(const uint8_t from[VERBS_KIND_BYTES], struct verbs_end *out)
{
    bool v4 = (from[1] & IS_V4) != 0;
    uint8_t type = from[1] & ~IS_V4;
    if ((from[0] != VERBS_LINK_INFINIBAND && from[0] != VERBS_LINK_ROCE) ||
        type > VERBS_GID_ROCE_V2)
        return false;
    *out =
        (struct verbs_end){.link = (enum verbs_link)from[0], .gid_type = (enum verbs_gid_type)type};
    memcpy(&out->pkey, from + 2, sizeof(out->pkey));
    memcpy(out->gid + (v4 ? V4_AT : 0), from + 4, v4 ? 4 : NETWORK_BYTES);
    if (v4)
        memset(out->gid + V4_AT - 2, 0xff, 2);
    return true;
}

size_t wring_verbs_address_pack(const struct sockaddr_storage *socket,
                                const struct verbs_end *rails, size_t n, uint8_t *blob)
{
    size_t bytes = wring_tcp_address_pack(socket, blob);
    uint8_t *count = blob + bytes++;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++)
            is_new = !wring_verbs_pairs_alike(&rails[k], &rails[i]);
        if (!is_new)
            continue;
        pack_kind(&rails[i], blob + bytes);
        bytes += VERBS_KIND_BYTES;
        ++*count;
    }
    return bytes;
}

enum wring_status wring_verbs_address_unpack(const uint8_t *blob, size_t bytes,
                                             struct verbs_address *out)
{
    size_t at = bytes > 0 && blob[0] == 6 ? SOCKET_V6_BYTES : SOCKET_V4_BYTES;
    if (bytes <= at || wring_tcp_address_unpack(blob, at, &out->socket, &out->socket_bytes))
        return WRING_ERR_FRAME;
    out->n_kinds = blob[at++];
    if (out->n_kinds == 0 || out->n_kinds > VERBS_RAILS_MAX ||
        bytes != at + out->n_kinds * (size_t)VERBS_KIND_BYTES)
        return WRING_ERR_FRAME;
    for (unsigned i = 0; i < out->n_kinds; i++)
        if (!unpack_kind(blob + at + i * (size_t)VERBS_KIND_BYTES, &out->kinds[i]))
            return WRING_ERR_FRAME;
    return WRING_OK;
}

size_t wring_verbs_reach_kind(struct wring_provider *provider, const void *address, size_t bytes,
                              const void **kind)
{
    const uint8_t *blob = address;
    size_t at = bytes > 0 && blob[0] == 6 ? SOCKET_V6_BYTES : SOCKET_V4_BYTES;
    (void)provider;
    *kind = blob + (bytes > at ? at : 0);
    return bytes > at ? bytes - at : bytes; /* a malformed one is of its own kind */
}

enum wring_status wring_verbs_reaches(struct wring_provider *provider, const void *one,
                                      size_t one_bytes, const void *other, size_t other_bytes,
                                      char *reason, size_t bytes)
{
    struct verbs_address a, b;
    (void)provider;
    if (wring_verbs_address_unpack(one, one_bytes, &a) != WRING_OK ||
        wring_verbs_address_unpack(other, other_bytes, &b) != WRING_OK)
        return WRING_ERR_FRAME;
    return wring_verbs_may_pair(a.kinds, a.n_kinds, b.kinds, b.n_kinds, reason, bytes)
               ? WRING_OK
               : WRING_ERR_UNSUPPORTED;
}
