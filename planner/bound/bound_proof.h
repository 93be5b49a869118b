/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a proof under way holds: the table of all groups, the game that finds flows, branch and
 * bound, and the best grouping and bound so far. It ends when both meet, by the clock, or after an
 * effort.
 *
 * Owner and threads: one. All memory is taken by init.
 */
#ifndef WRING_PLANNER_BOUND_PROOF_H
#define WRING_PLANNER_BOUND_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/bound/bound_arcs.h"
#include "planner/bound/bound_branch.h"
#include "planner/bound/bound_flow.h"
#include "planner/bound/bound_game.h"
#include "planner/bound/bound_groups.h"
#include "planner/problem.h"
#include <wring/status.h>

/** What rounding may add to a bound, relative: some 1e-13 of sums of that many terms, and spare. */
#define WRING_PROOF_MARGIN 1e-10

struct wring_proof {
    const struct wring_problem *problem; /* borrowed */
    struct wring_group_table table;
    struct wring_arc_set arcs;
    struct wring_game game;
    struct wring_branch branch;
    uint32_t width;                 /* of the next branching run */
    struct wring_edges flow;        /* the one that proved the most */
    struct wring_grouping *best;    /* the caller's */
    struct wring_grouping proposal; /* scratch */
    double best_us, bound_us;
    double proven_us;     /* of bound_us, by `flow` */
    uint64_t deadline_ns; /* wring_now_ns(); 0: none */
    uint64_t effort;      /* that may be spent, see bound_effort.h; 0: no limit */
    void *memory;
};

/**
 * Take the memory that proof->problem asks for. The caller has set it, the best grouping and its
 * time, the bound, and the limits. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_INVALID (some tensor may
 * take no option); finish it then, too.
 */
enum wring_status wring_proof_init(struct wring_proof *proof);

void wring_proof_finish(struct wring_proof *proof);

/** Of all that was looked at, in nanoseconds of bound_effort.h. */
uint64_t wring_proof_effort(const struct wring_proof *proof);

/** Is it over: the bound is the best time, or no time or effort is left? */
bool wring_proof_over(const struct wring_proof *proof);

/** Is the best grouping the optimum, but for rounding? */
bool wring_proof_closed(const struct wring_proof *proof);

/** Take proof->proposal where it is better than the best. */
void wring_proof_propose(struct wring_proof *proof);

/** No grouping that is still looked for takes less than this. */
void wring_proof_raise(struct wring_proof *proof, double bound_us);

/**
 * Price the whole table for a flow.
 * @param bound_us  out: what that proves, which is raised to
 * @return false: no time, and nothing is proved
 */
bool wring_proof_price(struct wring_proof *proof, const struct wring_edges *flow, double *bound_us);

/** The game begins with the best known grouping, and each tensor by itself. */
void wring_proof_start_game(struct wring_proof *proof);

/**
 * Play until `patience` rounds together gain less than a fiftieth of the gap, and the arcs are
 * worth about as much as the whole table: else they lack some, and rounds bring them.
 */
void wring_proof_play(struct wring_proof *proof, uint32_t patience);

#endif
