/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "transport/providers/verbs/verbs_pair.h"

#define V4_NETWORK_BYTES 15 /* of a mapped address: a /24 */
#define V6_NETWORK_BYTES 8
#define FULL_MEMBER 0x8000u

static bool is_v4(const uint8_t *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

static bool is_same_network(const uint8_t *a, const uint8_t *b)
{
    return is_v4(a) == is_v4(b) &&
           memcmp(a, b, is_v4(a) ? V4_NETWORK_BYTES : V6_NETWORK_BYTES) == 0;
}

static bool do_partitions_meet(uint16_t a, uint16_t b)
{
    return ((a ^ b) & ~FULL_MEMBER) == 0 && ((a | b) & FULL_MEMBER) != 0;
}

/** Say in what two rails differ so that no packet passes between them. @return false: in nothing */
static bool name_difference(const struct verbs_end *ours, const struct verbs_end *theirs, char *why,
                            size_t bytes)
{
    char mine[VERBS_GID_TEXT], other[VERBS_GID_TEXT];
    wring_verbs_gid_text(ours->gid, mine);
    wring_verbs_gid_text(theirs->gid, other);
    bool roce = ours->link == VERBS_LINK_ROCE;

    if (ours->link != theirs->link)
        snprintf(why, bytes, "ours is %s, the peer's %s", wring_verbs_link_text(ours->link),
                 wring_verbs_link_text(theirs->link));
    else if (ours->gid_type != theirs->gid_type)
        snprintf(why, bytes, "ours speaks %s, the peer's %s: see WRING_VERBS_GID_INDEX",
                 wring_verbs_gid_type_text(ours->gid_type),
                 wring_verbs_gid_type_text(theirs->gid_type));
    else if (roce && is_v4(ours->gid) != is_v4(theirs->gid))
        snprintf(why, bytes, "ours has the IPv%d address %s, the peer's the IPv%d address %s",
                 is_v4(ours->gid) ? 4 : 6, mine, is_v4(theirs->gid) ? 4 : 6, other);
    else if (!roce && memcmp(ours->gid, theirs->gid, V6_NETWORK_BYTES) != 0)
        snprintf(why, bytes, "ours is in another InfiniBand subnet (GID %s) than the peer's (%s)",
                 mine, other);
    else if (!do_partitions_meet(ours->pkey, theirs->pkey))
        snprintf(why, bytes, "ours has partition key 0x%04x, the peer's 0x%04x (WRING_VERBS_PKEY)",
                 ours->pkey, theirs->pkey);
    else
        return false;
    return true;
}

struct verbs_end wring_verbs_end_of(const struct verbs_choice *choice)
{
    struct verbs_end end = {
        .link = choice->link,
        .gid_type = (enum verbs_gid_type)choice->gid.type,
        .pkey = choice->pkey,
        .mtu = choice->mtu,
    };
    memcpy(end.gid, choice->gid.bytes, sizeof(end.gid));
    return end;
}

size_t wring_verbs_pair(const struct verbs_end *dialing, size_t n_dialing,
                        const struct verbs_end *accepting, size_t n_accepting, bool we_dial,
                        struct verbs_pair *out, char *why, size_t bytes)
{
    bool dialing_used[VERBS_RAILS_MAX] = {false}, accepting_used[VERBS_RAILS_MAX] = {false};
    char difference[VERBS_WHY] = "a side has no rail";
    size_t n = 0;

    for (int near = 1; near >= 0; near--) /* first within a network, then across */
        for (size_t i = 0; i < n_dialing; i++)
            for (size_t j = 0; j < n_accepting && !dialing_used[i]; j++) {
                const struct verbs_end *a = &dialing[i], *b = &accepting[j];
                if (accepting_used[j] || (near && !is_same_network(a->gid, b->gid)))
                    continue;
                if (name_difference(we_dial ? a : b, we_dial ? b : a, difference,
                                    sizeof(difference)))
                    continue;
                dialing_used[i] = accepting_used[j] = true;
                out[n++] = (struct verbs_pair){.dialing = (uint8_t)i,
                                               .accepting = (uint8_t)j,
                                               .mtu = a->mtu < b->mtu ? a->mtu : b->mtu};
            }
    if (n == 0)
        snprintf(why, bytes, "%s", difference);
    return n;
}
