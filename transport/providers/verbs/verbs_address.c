/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_address.h"

#include <string.h>

#include "transport/providers/tcp/tcp.h"

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
