/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The best response to a flow: the groups and options of least expected length, over all groups
 * that there can be. The length of a flow through a grouping is a sum over its groups, so the
 * least one is a shortest path over the tensors at which groups end.
 *
 * A table has one owner and one thread. All memory is taken by init.
 */
#ifndef WRING_BOUND_GROUPS_H
#define WRING_BOUND_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "planner/core/problem.h"
#include "planner/core/two_doubles.h"
#include "planner/tool/bound/flow.h"
#include <wring/status.h>

/**
 * What a group takes on each lane; lanes beyond the last 0.
 *
 * Chunks make a grid of their own inside a group: a path that goes down to a lane with the first
 * chunk passes what `once` adds on the lanes above, waits there for the other chunks, and goes down
 * with the last one. So for any one lane this is a part of the longest path over the lanes that a
 * path touches: `took` on all of them, `once` down to that lane, `more` on it.
 */
struct wring_group_cost {
    double
        took[WRING_PLAN_LANES_MAX]; /* with its computing; of one chunk, with all that comes once */
    double once[WRING_PLAN_LANES_MAX]; /* of several chunks: what comes once */
    double more[WRING_PLAN_LANES_MAX]; /* likewise: the chunks beyond the first */
    bool chunked;                      /* once and more may not be 0 */
    bool backwards; /* the last chunk passes what `once` adds, on the lanes below */
};

/** Masses of a flow, such that of a group's lane is at hand: base[begin] + sum[end]. */
struct wring_masses {
    double *base; /* [n × WRING_PLAN_LANES_MAX] */
    double *sum;  /* [(n + 1) × WRING_PLAN_LANES_MAX] */
};

/** A group that may still be part of a grouping better than the best known. */
struct wring_group_pair {
    uint32_t end;
    uint32_t option; /* the cheapest under the flow of the last pricing */
    double cost;     /* its expected length */
    double least;    /* no grouping with this group takes less, by all flows so far */
};

/** One option that cuts nothing, between two corners: fixed + slope · elems on each lane. */
struct wring_group_piece {
    double until; /* elems; the last piece's is infinite */
    double fixed[WRING_PLAN_LANES_MAX], slope[WRING_PLAN_LANES_MAX];
};

struct wring_group_table {
    const struct wring_problem *problem; /* borrowed */
    double *computed;                    /* [n + 1] computing of all tensors before */
    struct wring_masses masses;
    struct wring_group_piece *pieces;
    uint32_t *first_piece;          /* [n_options + 1] */
    struct wring_group_pair *pairs; /* those that begin at b: from row[b] on, alive[b] of them */
    size_t *row;                    /* [n + 1] */
    uint32_t *alive;                /* [n] */
    uint32_t *active, *at_piece;    /* [n_options] scratch */
    double *at_least;               /* likewise: no larger group of the row takes less */
    uint64_t priced;                /* groups, ever */
    double *head, *rest;            /* [n + 1] least expected length before, and from a tensor on */
    void *memory;
};

/** Groups that a table holds at most: those of some 4000 tensors without a limit of size. */
#define WRING_GROUP_PAIRS_MAX ((size_t)8 << 20)

/** Does a problem have no more groups than that? */
bool wring_group_table_fits(const struct wring_problem *problem);

/**
 * For a problem that fits. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_INVALID (some tensor may take no
 * option).
 */
enum wring_status wring_group_table_init(struct wring_group_table *table,
                                         const struct wring_problem *problem);

/** NULL inside is fine. */
void wring_group_table_finish(struct wring_group_table *table);

/** May a tensor take an option? */
static inline bool wring_problem_allows(const struct wring_problem *problem, uint32_t tensor,
                                        uint32_t option)
{
    uint32_t words = wring_problem_words(problem);

    return problem->allowed == NULL ||
           (problem->allowed[(size_t)tensor * words + option / 64] >> option % 64 & 1) != 0;
}

/** What the tensors [begin, end) take as one group. */
void wring_group_cost_of(const struct wring_group_table *table, uint32_t begin, uint32_t end,
                         uint32_t option, struct wring_group_cost *out);

/** Masses of a flow through the tensors from `first` on. */
void wring_masses_set(uint32_t first, uint32_t n_tensors, const struct wring_edges *flow,
                      const struct wring_masses *masses);

/** The mass that touches each lane of the tensors [begin, end). */
static inline void wring_masses_of(const struct wring_masses *masses, uint32_t begin, uint32_t end,
                                   double *mass)
{
    const double *base = masses->base + (size_t)begin * WRING_PLAN_LANES_MAX;
    const double *sum = masses->sum + (size_t)end * WRING_PLAN_LANES_MAX;

    for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane += 2)
        wring_pair_store(mass + lane, wring_pair_load(base + lane) + wring_pair_load(sum + lane));
}

static inline double wring_group_dot(const double *a, const double *b)
{
    wring_pair even =
        wring_pair_load(a) * wring_pair_load(b) + wring_pair_load(a + 4) * wring_pair_load(b + 4);
    wring_pair odd = wring_pair_load(a + 2) * wring_pair_load(b + 2) +
                     wring_pair_load(a + 6) * wring_pair_load(b + 6);
    wring_pair sum = even + odd;

    return sum[0] + sum[1];
}

/**
 * What several chunks add to a group's expected length, with the lane that makes the most of it.
 * @param lane  out; NULL: not wanted
 */
double wring_group_chunks_length(const struct wring_group_cost *group, const double *mass,
                                 uint32_t *lane);

/** The options that the groups of a row may take: those that begin at one tensor, by rising size.
 */
struct wring_group_row {
    uint32_t begin, next; /* tensors before `next` are looked at */
    uint32_t n;           /* options, of table->active */
};

/** Begin a row; one at a time. */
void wring_group_row_start(const struct wring_group_table *table, uint32_t begin,
                           struct wring_group_row *row);

/** Go on to a larger group. @return how many options it may take, of table->active */
uint32_t wring_group_row_reach(const struct wring_group_table *table, uint32_t end,
                               struct wring_group_row *row);

/** Expected length of an option of the group that a row has reached, without its computing. */
double wring_group_row_length(const struct wring_group_table *table,
                              const struct wring_group_row *row, uint32_t option,
                              const double *mass);

/** Expected length of a group. */
static inline double wring_group_length(const struct wring_group_cost *group, const double *mass)
{
    double length = wring_group_dot(group->took, mass);

    return group->chunked ? length + wring_group_chunks_length(group, mass, NULL) : length;
}

/**
 * Price the groups alive under table->masses: fills pairs and rest; from tensor 0 on also head.
 *
 * @param first        groups that begin before this tensor are left alone
 * @param deadline_ns  gives up at it (wring_now_ns()); 0: never
 * @return false where it gave up
 */
bool wring_group_table_price(struct wring_group_table *table, uint32_t first, uint64_t deadline_ns);

/** After a pricing from tensor 0 on: bury the groups with which nothing takes less than time_us. */
void wring_group_table_bury(struct wring_group_table *table, double time_us);

/** Read off the least grouping of the last pricing. @param out  room for n groups */
void wring_group_table_best(const struct wring_group_table *table, struct wring_grouping *out);

#endif
