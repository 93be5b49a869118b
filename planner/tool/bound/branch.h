/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Branch and bound over prefixes. A label is a grouping of the tensors before one. For the suffix
 * only the ends of its lanes matter: a label that ends later than another on every lane is dropped.
 * A flow bounds the suffix. The mass that crosses from prefix to suffix on each lane waits for that
 * lane's end, and then takes the least expected length of the suffix. Labels whose bound reaches
 * the limit are dropped.
 *
 * If a prefix has more labels than there is room for, those with the least bounds stay. Among the
 * others, labels that are alike are merged into one, which ends on each lane with the first of
 * them. Its bound holds for all of them: no completion of any takes less.
 *
 * Owner and threads: one. All memory is taken by init.
 */
#ifndef WRING_BOUND_BRANCH_H
#define WRING_BOUND_BRANCH_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/tool/bound/column_generation.h"
#include "planner/tool/bound/groups.h"

struct wring_label {
    double ends[WRING_PLAN_LANES_MAX];
    double bound;    /* no completion takes less */
    uint32_t parent; /* label */
    uint32_t begin;  /* of its last group */
    uint32_t option;
    uint32_t unused;
};

#define WRING_MERGED_MAX 16 /* labels of a prefix that stand for others */

/** A flow's bound of a suffix: the masses that enter it by each lane, and its least expected
 * length.
 */
struct wring_suffix_bound {
    double cross[WRING_PLAN_LANES_MAX];
    double rest;
};

#define WRING_SUFFIX_BOUNDS_MAX 12 /* of a prefix */

/** An option of one group that may lead to less than the limit. */
struct wring_branch_choice {
    uint32_t option;
    double length; /* expected, under the whole flow */
    struct wring_group_cost group;
};

struct wring_branch {
    struct wring_group_table *table;            /* borrowed */
    struct wring_column_generation *generation; /* likewise */
    struct wring_label *labels; /* [(n + 1) × (room + WRING_MERGED_MAX)] a heap per prefix, the
                                   worst on top */
    struct wring_label *merged; /* [(n + 1) × WRING_MERGED_MAX] until the prefix is expanded */
    uint32_t *count, *n_merged; /* [n + 1] */
    uint32_t room;              /* labels per prefix, at most, without those merged */
    struct wring_suffix_bound
        *tails;        /* [(n + 1) × WRING_SUFFIX_BOUNDS_MAX] the first of the whole flow */
    uint32_t *n_tails; /* [n + 1] ever learnt; a ring but for the first */
    struct wring_masses masses; /* of the whole flow */
    double *head;               /* [n + 1] likewise */
    double *arrive; /* [n × WRING_PLAN_LANES_MAX] what the next group takes at least on the lanes
                       before each */
    struct wring_branch_choice *choices; /* [n_options] scratch */
    uint64_t nodes;                      /* labels looked at */
    uint64_t nodes_max;                  /* and no more of them; 0: no limit */
    uint64_t tried;                      /* options, ever */
    uint64_t run_nodes, run_tried;       /* both of them before the run under way */
    uint64_t run_learnt;                 /* effort of tails learnt in it, in nanoseconds */
    double dropped_us;                   /* the least bound of labels dropped for want of time */
    double limit_us;                     /* of the run under way: labels of this and more go */
    bool *full;                          /* [n + 1] no room even after those dominated went */
    uint64_t deadline_ns;
    void *memory;
};

/** Errors: WRING_ERR_NO_MEMORY. @param labels  in all */
enum wring_status wring_branch_init(struct wring_branch *branch, struct wring_group_table *table,
                                    struct wring_column_generation *generation, uint32_t labels);

void wring_branch_finish(struct wring_branch *branch);

/** Before a run: learn what the table's last pricing, which was of this flow, says of suffixes. */
void wring_suffix_bound_learn(struct wring_branch *branch, const struct wring_edges *flow);

/**
 * One run over all prefixes.
 *
 * @param limit_us  only groupings that take less are looked for
 * @param width     labels per prefix, at most; branch->room bounds it
 * @param deadline_ns  ends by then, with the results so far; 0: never
 * @param best      out where found: the best grouping
 * @param bound     out: no grouping of groups alive takes less than this, except for the limit
 * @return whether one was found that takes less than the limit
 */
bool wring_branch_run(struct wring_branch *branch, double limit_us, uint32_t width,
                      uint64_t deadline_ns, struct wring_grouping *best, double *bound);

/* The labels of a prefix: those with the least bounds, as many as there is room for. */

static inline struct wring_label *wring_branch_labels(const struct wring_branch *branch,
                                                      uint32_t prefix)
{
    return branch->labels + (size_t)prefix * (branch->room + WRING_MERGED_MAX);
}

static inline struct wring_label *wring_branch_merged(const struct wring_branch *branch,
                                                      uint32_t prefix)
{
    return branch->merged + (size_t)prefix * WRING_MERGED_MAX;
}

/** A label goes for want of time: the optimum may be as little as its bound. */
static inline void wring_branch_drop(struct wring_branch *branch, double bound)
{
    if (bound < branch->dropped_us)
        branch->dropped_us = bound;
}

/* What flows say of suffixes. */

static inline double wring_suffix_bound_at(const struct wring_suffix_bound *tail,
                                           const double *ends)
{
    return wring_group_dot(ends, tail->cross) + tail->rest;
}

/** No completion of a label with these ends takes less: the largest of the tails' bounds, or one
 * that reaches the limit. */
static inline double wring_branch_bound(const struct wring_branch *branch, uint32_t prefix,
                                        const double *ends, double limit)
{
    const struct wring_suffix_bound *tails =
        branch->tails + (size_t)prefix * WRING_SUFFIX_BOUNDS_MAX;
    uint32_t n = branch->n_tails[prefix] < WRING_SUFFIX_BOUNDS_MAX ? branch->n_tails[prefix]
                                                                   : WRING_SUFFIX_BOUNDS_MAX;
    double bound = 0;

    for (uint32_t i = 0; i < n && bound < limit; i++) {
        double one = wring_suffix_bound_at(&tails[i], ends);
        bound = one > bound ? one : bound;
    }
    return bound;
}

#endif
