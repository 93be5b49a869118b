/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_select.h"

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

int wring_verbs_choose_gid(const struct verbs_port *port, const struct verbs_wish *wish)
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
static bool judge(const struct verbs_port *port, const struct verbs_wish *wish,
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
    else if ((out->gid = wring_verbs_choose_gid(port, wish)) < 0 && wish->gid_index >= 0)
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
        out->rating = port->mbit * (port->place == VERBS_PLACE_FAR ? 1ull : 2ull);
        return true;
    }
    return false;
}

/** The first thing in which two differ, and a word for it; NULL where they are alike. */
static const char *compare(const struct candidate *a, const struct candidate *b, int *sign)
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
    if (compare(left, right, &sign) == NULL)
        sign = left->row < right->row ? -1 : 1;
    return sign;
}

/** Why not together with the first one, when nobody named them? NULL: it may. */
static const char *unlike(const struct verbs_table *table, const struct candidate *first,
                          const struct candidate *other)
{
    const struct verbs_port *a = &table->ports[first->row], *b = &table->ports[other->row];
    if (a->link != b->link)
        return "another link layer than the first rail's";
    if (first->routable != other->routable)
        return "its address cannot be routed, the first rail's can";
    if (a->mbit != b->mbit)
        return "another speed than the first rail's";
    if ((a->place == VERBS_PLACE_FAR) != (b->place == VERBS_PLACE_FAR))
        return "far from the cores of this process, unlike the first rail";
    return NULL;
}

static const char *place_text(enum verbs_place place)
{
    switch (place) {
    case VERBS_PLACE_UNKNOWN:
        return "";
    case VERBS_PLACE_NEAR:
        return ", near";
    case VERBS_PLACE_FAR:
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

static void explain(const struct verbs_table *table, const struct candidate *c,
                    const struct verbs_wish *wish, const char *reason, char *why)
{
    const struct verbs_port *port = &table->ports[c->row];
    const struct verbs_gid *gid = &port->gids[c->gid];
    char text[VERBS_GID_TEXT];
    snprintf(why, VERBS_WHY, "%s; GID %u: %s %s%s%s", reason, gid->index,
             wring_verbs_gid_type_text((enum verbs_gid_type)gid->type),
             wring_verbs_gid_text(gid->bytes, text), gid_reason(c, wish), place_text(port->place));
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
        n += judge(&table->ports[i], wish, &out[n], why[i]);
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
        const char *word = compare(&all[0], &all[i], &sign);
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
        const char *against = named || i == 0 ? NULL : unlike(table, &all[0], &all[i]);
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
            explain(table, &all[i], wish, reason, why[all[i].row]);
        }
    }
    free(all);
    return n;
}
