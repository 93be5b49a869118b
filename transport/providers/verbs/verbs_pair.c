/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "transport/providers/verbs/verbs_pair.h"

#define V4_NETWORK_BYTES 15 /* of a mapped address: a /24 */
#define V6_NETWORK_BYTES 8
#define FULL_MEMBER 0x8000u

/** What the two sides are called. */
struct names {
    const char *one, *other;
};

bool wring_verbs_is_v4(const uint8_t *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

static bool is_same_network(const uint8_t *a, const uint8_t *b)
{
    return wring_verbs_is_v4(a) == wring_verbs_is_v4(b) &&
           memcmp(a, b, wring_verbs_is_v4(a) ? V4_NETWORK_BYTES : V6_NETWORK_BYTES) == 0;
}

static bool do_partitions_meet(uint16_t a, uint16_t b)
{
    return ((a ^ b) & ~FULL_MEMBER) == 0 && ((a | b) & FULL_MEMBER) != 0;
}

/** Say in what two rails differ so that no packet passes between them. @return false: in nothing */
static bool name_difference(const struct verbs_end *one, const struct verbs_end *other,
                            struct names names, char *why, size_t bytes)
{
    char mine[VERBS_GID_TEXT], its[VERBS_GID_TEXT];
    wring_verbs_gid_text(one->gid, mine);
    wring_verbs_gid_text(other->gid, its);
    bool roce = one->link == VERBS_LINK_ROCE;
    bool v4 = wring_verbs_is_v4(one->gid), other_v4 = wring_verbs_is_v4(other->gid);

    if (one->link != other->link)
        snprintf(why, bytes, "%s is %s, %s %s", names.one, wring_verbs_link_text(one->link),
                 names.other, wring_verbs_link_text(other->link));
    else if (one->gid_type != other->gid_type)
        snprintf(why, bytes, "%s speaks %s, %s %s: see WRING_VERBS_GID_INDEX", names.one,
                 wring_verbs_gid_type_text(one->gid_type), names.other,
                 wring_verbs_gid_type_text(other->gid_type));
    else if (roce && v4 != other_v4)
        snprintf(why, bytes, "%s is in an IPv%d network (%s), %s in an IPv%d one (%s)", names.one,
                 v4 ? 4 : 6, mine, names.other, other_v4 ? 4 : 6, its);
    else if (!roce && memcmp(one->gid, other->gid, V6_NETWORK_BYTES) != 0)
        snprintf(why, bytes, "%s is in another InfiniBand subnet (GID %s) than %s (%s)", names.one,
                 mine, names.other, its);
    else if (!do_partitions_meet(one->pkey, other->pkey))
        snprintf(why, bytes, "%s has partition key 0x%04x, %s 0x%04x (WRING_VERBS_PKEY)", names.one,
                 one->pkey, names.other, other->pkey);
    else
        return false;
    return true;
}

bool wring_verbs_pairs_alike(const struct verbs_end *a, const struct verbs_end *b)
{
    return a->link == b->link && a->gid_type == b->gid_type && a->pkey == b->pkey &&
           wring_verbs_is_v4(a->gid) == wring_verbs_is_v4(b->gid) &&
           (a->link == VERBS_LINK_ROCE || memcmp(a->gid, b->gid, V6_NETWORK_BYTES) == 0);
}

bool wring_verbs_may_pair(const struct verbs_end *one, size_t n_one, const struct verbs_end *other,
                          size_t n_other, char *why, size_t bytes)
{
    static const struct names names = {"one", "the other"};
    for (size_t i = 0; i < n_one; i++)
        for (size_t j = 0; j < n_other; j++)
            if (!name_difference(&one[i], &other[j], names, why, bytes))
                return true;
    return false;
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
    static const struct names names = {"ours", "the peer's"};
    char difference[VERBS_WHY] = "a side has no rail";
    size_t n = 0;

    for (int near = 1; near >= 0; near--) /* first within a network, then across */
        for (size_t i = 0; i < n_dialing; i++)
            for (size_t j = 0; j < n_accepting && !dialing_used[i]; j++) {
                const struct verbs_end *a = &dialing[i], *b = &accepting[j];
                if (accepting_used[j] || (near && !is_same_network(a->gid, b->gid)))
                    continue;
                if (name_difference(we_dial ? a : b, we_dial ? b : a, names, difference,
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
