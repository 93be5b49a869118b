/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/bound/suffix_bound.h"

#include <string.h>

#include "planner/tool/bound/branch.h"
#include "planner/tool/bound/proof.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX,
    STEPS = 60, /* of the game for a tail */
};

static void put_tail(struct wring_branch *branch, uint32_t prefix, uint32_t slot,
                     const struct wring_edges *flow)
{
    struct wring_suffix_bound *tail =
        branch->tails + (size_t)prefix * WRING_SUFFIX_BOUNDS_MAX + slot;
    const struct wring_problem *problem = branch->table->problem;

    tail->rest = branch->table->rest[prefix];
    if (prefix < problem->n_tensors) {
        memcpy(tail->cross, flow->along + (size_t)prefix * STRIDE, sizeof(tail->cross));
    } else {
        memset(tail->cross, 0, sizeof(tail->cross));
        tail->cross[problem->n_lanes - 1] = 1;
    }
}

void wring_suffix_bound_learn(struct wring_branch *branch, const struct wring_edges *flow)
{
    uint32_t n = branch->table->problem->n_tensors;

    wring_masses_set(0, n, flow, &branch->masses);
    memcpy(branch->head, branch->table->head, (n + 1) * sizeof(double));
    for (uint32_t prefix = 0; prefix <= n; prefix++) {
        put_tail(branch, prefix, 0, flow);
        branch->n_tails[prefix] += branch->n_tails[prefix] == 0;
    }
}

/** One tail more for a prefix and all beyond it; the oldest goes. */
static void learn_tails(struct wring_branch *branch, uint32_t first, const struct wring_edges *flow)
{
    for (uint32_t prefix = first; prefix < branch->table->problem->n_tensors; prefix++) {
        uint32_t slot = 1 + (branch->n_tails[prefix] - 1) % (WRING_SUFFIX_BOUNDS_MAX - 1);
        put_tail(branch, prefix, slot, flow);
        branch->n_tails[prefix]++;
    }
}

/** Compute the bounds again, after a further tail. Drops labels at the limit; the least bound comes
 *  first. */
static void rebound(struct wring_branch *branch, uint32_t prefix)
{
    struct wring_label *labels = wring_branch_labels(branch, prefix);
    uint32_t kept = 0, least = 0;

    for (uint32_t i = 0; i < branch->count[prefix]; i++) {
        struct wring_label label = labels[i];
        double bound = wring_branch_bound(branch, prefix, label.ends, branch->limit_us);
        label.bound = bound > label.bound ? bound : label.bound;
        if (label.bound >= branch->limit_us)
            continue;
        labels[kept] = label;
        least = label.bound < labels[least].bound ? kept : least;
        kept++;
    }
    branch->count[prefix] = kept;
    if (kept > 0) {
        struct wring_label first = labels[0];
        labels[0] = labels[least];
        labels[least] = first;
    }
}

/** At how many prefixes a tail more is learnt at least: one takes the longer, the more tensors
 * there are. */
static uint32_t tails_every(uint32_t n_tensors)
{
    return 1 + n_tensors / 48 * (n_tensors / 48);
}

/** Give the label of the least bound a flow of its own, from which all labels learn. */
static void cut_tail(struct wring_branch *branch, uint32_t prefix)
{
    struct wring_column_generation *generation = branch->generation;

    if (generation->set->row[prefix] == generation->set->row[prefix + 1])
        return;
    wring_column_generation_enter(generation, prefix, wring_branch_labels(branch, prefix)->ends);
    for (int step = 0; step < STEPS; step++)
        wring_column_generation_step(generation);
    wring_column_generation_rest(generation);
    wring_masses_set(prefix - 1, branch->table->problem->n_tensors, &generation->best,
                     &branch->table->masses);
    if (wring_group_table_price(branch->table, prefix, branch->deadline_ns)) {
        learn_tails(branch, prefix, &generation->best);
        rebound(branch, prefix);
    }
    wring_column_generation_leave(generation);
}

void wring_suffix_bound_learn_behind(struct wring_branch *branch, uint32_t prefix)
{
    uint64_t played = branch->generation->played, priced = branch->table->priced;
    uint64_t expanded = WRING_EFFORT_BRANCHED * (branch->nodes - branch->run_nodes) +
                        WRING_EFFORT_TRIED * (branch->tried - branch->run_tried);

    if (prefix == 0 || branch->count[prefix] == 0)
        return;
    if (prefix % tails_every(branch->table->problem->n_tensors) != 0 &&
        branch->run_learnt > expanded)
        return;
    cut_tail(branch, prefix);
    branch->run_learnt += WRING_EFFORT_PLAYED * (branch->generation->played - played) +
                          WRING_EFFORT_PRICED * (branch->table->priced - priced);
}
