/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The few groups that matter: those that were cheap under some flow. The best response among them
 * takes microseconds, so that the bound is sought with them, and proven with the whole table.
 *
 * Arcs are added at the end; wring_arc_set_settle() puts them where they begin, after which they
 * can be priced and played with.
 *
 * A set has one owner and one thread. All memory is taken by init.
 */
#ifndef WRING_BOUND_COLUMNS_H
#define WRING_BOUND_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/tool/bound/groups.h"

#define WRING_ARC_NONE UINT32_MAX

struct wring_arc {
    double regret; /* the game's, at its last rest */
    uint32_t begin, end, option;
    uint32_t next; /* with the same begin */
    struct wring_group_took group;
};

struct wring_arc_set {
    const struct wring_group_table *table; /* borrowed */
    struct wring_arc *arcs;                /* [max] by begin, but for those added since */
    struct wring_arc *spare;               /* [max] */
    uint32_t n, max;
    uint32_t *row;   /* [n_tensors + 1] where the arcs of each tensor begin */
    uint32_t *first; /* [n_tensors] */
    uint32_t *best;  /* [n_tensors] after a pricing: with which arc it goes on best */
    double *rest;    /* [n_tensors + 1] */
    void *memory;
};

/** Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_arc_set_init(struct wring_arc_set *set,
                                     const struct wring_group_table *table, uint32_t max);

void wring_arc_set_finish(struct wring_arc_set *set);

/**
 * Add an arc, with nothing regretted; one that is in the set already is fine.
 * @return false where there is no room
 */
bool wring_arc_set_add(struct wring_arc_set *set, uint32_t begin, uint32_t end, uint32_t option);

/**
 * Add what the table found cheap: a cheapest group from each tensor and one to each tensor.
 * @return how many were new
 */
uint32_t wring_arc_set_gather(struct wring_arc_set *set);

/** Put the arcs in their order. Those go that the table has buried, or that lead nowhere. */
void wring_arc_set_settle(struct wring_arc_set *set);

/** Of settled arcs: the least expected length of groupings of the tensors from `first` on. */
double wring_arc_set_price(struct wring_arc_set *set, uint32_t first,
                           const struct wring_masses *masses);

/** The best grouping of the last pricing, from tensor 0 on. @param out  room for n groups */
void wring_arc_set_best(const struct wring_arc_set *set, struct wring_grouping *out);

/** What wring_arc_lengths() says of an arc in several chunks: that part of which a flow makes most.
 *  @param lanes  out, [WRING_PLAN_LANES_MAX] */
void wring_arc_chunks_lengths(const struct wring_arc *arc, const struct wring_masses *masses,
                              double *lanes);

/**
 * How long an arc is per lane that a path touches.
 * @param room  scratch, [WRING_PLAN_LANES_MAX]
 * @return [WRING_PLAN_LANES_MAX] the arc's own, or `room`
 */
static inline const double *wring_arc_lengths(const struct wring_arc *arc,
                                              const struct wring_masses *masses, double *room)
{
    if (!arc->group.chunked)
        return arc->group.took;
    wring_arc_chunks_lengths(arc, masses, room);
    return room;
}

#endif
