/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_ACTIVE 4
#define FULL_MEMBER 0x8000u /* of a partition; limited members reach full ones only */

/* A port that can be used, and what it is judged by. */
struct candidate {
    size_t row; /* of the table */
    int preference;
    int gid; /* index into the port's */
    uint16_t pkey_index;
    bool routable, bound;
    uint64_t rating;
};

static bool is_v4(const uint8_t *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

static bool is_link_local(const uint8_t *gid)
{
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/** How much a GID is worth, from 1; its being bound is not looked at. */
static int worth_of(const struct verbs_gid *gid)
{
    if (gid->type != VERBS_GID_ROCE_V2)
        return 1;
    if (is_v4(gid->bytes))
        return 4;
    return is_link_local(gid->bytes) ? 2 : 3;
}

static bool is_bound(const struct verbs_gid *gid, const struct verbs_wish *wish)
{
    return wish->bound != NULL && memcmp(gid->bytes, wish->bound, sizeof(gid->bytes)) == 0;
}

/**
 * The best GID of a port, as an index into port->gids: the entry of the port's table that was asked
 * for; else by worth: the address bound to, RoCE v2 over IPv4, RoCE v2 over global IPv6, RoCE v2
 * link-local, RoCE v1.
 *
 * @return -1 where there is none
 */
static int choose_gid(const struct verbs_port *port, const struct verbs_wish *wish)
{
    int best = -1, most = 0;
    for (int i = 0; i < port->n_gids; i++) {
        const struct verbs_gid *gid = &port->gids[i];
        if (wish->gid_index >= 0 && gid->index == wish->gid_index)
            return i;
        int worth = worth_of(gid) + (is_bound(gid, wish) ? 8 : 0);
        if (wish->gid_index < 0 && worth > most) {
            most = worth;
            best = i;
        }
    }
    return best;
}

/** Where the port's table has the partition; full membership first, since it reaches everyone. */
static int find_pkey(const struct verbs_port *port, uint16_t pkey)
{
    int limited = -1;
    for (int i = 0; i < port->n_pkeys; i++) {
        uint16_t entry = port->pkeys[i];
        if (entry == 0 || ((entry ^ pkey) & ~FULL_MEMBER) != 0)
            continue;
        if ((entry & FULL_MEMBER) != 0)
            return i;
        limited = i;
    }
    return limited;
}

/** Can it be a rail? @param why out, where it cannot */
static bool judge_port(const struct verbs_port *port, const struct verbs_wish *wish,
                       struct candidate *out, char *why)
{
    out->preference = wring_verbs_match(wish->devices, port->device, port->number);
    if (out->preference < 0)
        snprintf(why, VERBS_WHY, "WRING_VERBS_DEVICES=%.60s leaves it out", wish->devices);
    else if (port->trouble[0] != '\0')
        snprintf(why, VERBS_WHY, "%s", port->trouble);
    else if (port->link == VERBS_LINK_OTHER)
        snprintf(why, VERBS_WHY, "neither InfiniBand nor RoCE");
    else if (port->state != STATE_ACTIVE)
        snprintf(why, VERBS_WHY, "the port is %s", wring_verbs_state_text(port->state));
    else if ((out->gid = choose_gid(port, wish)) < 0 && wish->gid_index >= 0)
        snprintf(why, VERBS_WHY, "entry %d of its GID table is empty (WRING_VERBS_GID_INDEX)",
                 wish->gid_index);
    else if (out->gid < 0)
        snprintf(why, VERBS_WHY, "it has no address: its GID table is empty");
    else if (find_pkey(port, wish->pkey) < 0)
        snprintf(why, VERBS_WHY, "it is not in partition 0x%04x (WRING_VERBS_PKEY)", wish->pkey);
    else {
        const struct verbs_gid *gid = &port->gids[out->gid];
        out->pkey_index = (uint16_t)find_pkey(port, wish->pkey);
        out->routable = port->link == VERBS_LINK_INFINIBAND || worth_of(gid) > 2;
        out->bound = is_bound(gid, wish);
        out->rating = port->mbit * (port->locality == VERBS_LOCALITY_FAR ? 1ull : 2ull);
        return true;
    }
    return false;
}

/** The first thing in which two differ, and a word for it; NULL where they are alike. */
static const char *compare_candidates(const struct candidate *a, const struct candidate *b,
                                      int *sign)
{
    const struct {
        int64_t a, b;
        const char *word;
    } criteria[] = {
        {-a->preference, -b->preference, "it stands first in WRING_VERBS_DEVICES"},
        {a->routable, b->routable, "its address can be routed"},
        {(int64_t)a->rating, (int64_t)b->rating, "it is the fastest; far ones count half"},
        {a->bound, b->bound, "its address is the one bound to"},
    };
    for (size_t i = 0; i < sizeof(criteria) / sizeof(criteria[0]); i++)
        if (criteria[i].a != criteria[i].b) {
            *sign = criteria[i].a > criteria[i].b ? -1 : 1;
            return criteria[i].word;
        }
    *sign = 0;
    return NULL;
}

static int by_worth(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    int sign;
    if (compare_candidates(left, right, &sign) == NULL)
        sign = left->row < right->row ? -1 : 1;
    return sign;
}

/** Why not together with the first one, when nobody named them? NULL: it may. */
static const char *why_unlike_first(const struct verbs_table *table, const struct candidate *first,
                                    const struct candidate *other)
{
    const struct verbs_port *a = &table->ports[first->row], *b = &table->ports[other->row];
    if (a->link != b->link)
        return "another link layer than the first rail's";
    if (first->routable != other->routable)
        return "its address cannot be routed, the first rail's can";
    if (a->mbit != b->mbit)
        return "another speed than the first rail's";
    if ((a->locality == VERBS_LOCALITY_FAR) != (b->locality == VERBS_LOCALITY_FAR))
        return "far from the cores of this process, unlike the first rail";
    return NULL;
}

static const char *locality_text(enum verbs_locality locality)
{
    switch (locality) {
    case VERBS_LOCALITY_UNKNOWN:
        return "";
    case VERBS_LOCALITY_NEAR:
        return ", near";
    case VERBS_LOCALITY_FAR:
        return ", far";
    }
    return "";
}

static const char *gid_reason(const struct candidate *c, const struct verbs_wish *wish)
{
    if (wish->gid_index >= 0)
        return " (asked for)";
    return c->bound ? " (bound to)" : "";
}

static void explain_choice(const struct verbs_table *table, const struct candidate *c,
                           const struct verbs_wish *wish, const char *reason, char *why)
{
    const struct verbs_port *port = &table->ports[c->row];
    const struct verbs_gid *gid = &port->gids[c->gid];
    char text[VERBS_GID_TEXT];
    snprintf(why, VERBS_WHY, "%s; GID %u: %s %s%s%s", reason, gid->index,
             wring_verbs_gid_type_text((enum verbs_gid_type)gid->type),
             wring_verbs_gid_text(gid->bytes, text), gid_reason(c, wish),
             locality_text(port->locality));
}

static struct verbs_choice choice_of(const struct verbs_port *port, const struct candidate *c,
                                     const struct verbs_wish *wish)
{
    struct verbs_choice choice = {
        .port = port->number,
        .link = port->link,
        .gid = port->gids[c->gid],
        .lid = port->lid,
        .pkey = port->pkeys[c->pkey_index],
        .pkey_index = c->pkey_index,
        .mtu = wish->mtu != 0 && wish->mtu < port->mtu ? wish->mtu : port->mtu,
        .mbit = port->mbit,
        .vendor = port->vendor,
        .numa = port->numa,
    };
    memcpy(choice.device, port->device, sizeof(choice.device));
    return choice;
}

/** All that can be used, best first. @return how many */
static size_t list_candidates(const struct verbs_table *table, const struct verbs_wish *wish,
                              struct candidate *out, char (*why)[VERBS_WHY])
{
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++) {
        out[n] = (struct candidate){.row = i};
        n += judge_port(&table->ports[i], wish, &out[n], why[i]);
    }
    qsort(out, n, sizeof(out[0]), by_worth);
    return n;
}

static const char *why_first(const struct candidate *all, size_t n)
{
    int sign;
    if (n == 1)
        return "the only one that can be used";
    for (size_t i = 1; i < n; i++) {
        const char *word = compare_candidates(&all[0], &all[i], &sign);
        if (word != NULL)
            return word;
    }
    return "as good as the others";
}

size_t wring_verbs_choose(const struct verbs_table *table, const struct verbs_wish *wish,
                          struct verbs_choice *out, char (*why)[VERBS_WHY])
{
    struct candidate *all = calloc(table->n + 1, sizeof(all[0]));
    bool named = wish->devices[0] != '\0' && wish->devices[0] != '^';
    size_t n = 0;

    if (all == NULL)
        return 0;
    size_t usable = list_candidates(table, wish, all, why);
    for (size_t i = 0; i < usable; i++) {
        const char *against = named || i == 0 ? NULL : why_unlike_first(table, &all[0], &all[i]);
        const char *reason = named    ? "WRING_VERBS_DEVICES names it"
                             : i == 0 ? why_first(all, usable)
                                      : "a rail beside the first: alike";
        if (against != NULL) {
            snprintf(why[all[i].row], VERBS_WHY, "%s", against);
        } else if (n == wish->rails) {
            snprintf(why[all[i].row], VERBS_WHY, "WRING_VERBS_RAILS=%u are chosen already",
                     wish->rails);
        } else {
            out[n++] = choice_of(&table->ports[all[i].row], &all[i], wish);
            explain_choice(table, &all[i], wish, reason, why[all[i].row]);
        }
    }
    free(all);
    return n;
}

/* ---- pair ---- */

#define V4_NETWORK_BYTES 15 /* of a mapped address: a /24 */
#define V6_NETWORK_BYTES 8

/** The names of the two sides. */
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

/** Name the difference between two rails that lets no packet pass. @return false: there is none */
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
