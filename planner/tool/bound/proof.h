/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a proof under way holds: the table of all groups, the game that finds flows, branch and
 * bound, and the best grouping and bound so far. It ends when both meet, by the clock, or after an
 * effort.
 *
 * Owner and threads: one. All memory is taken by init.
 */
#ifndef WRING_BOUND_PROOF_H
#define WRING_BOUND_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/problem.h"
#include "planner/tool/bound/branch.h"
#include "planner/tool/bound/column_generation.h"
#include "planner/tool/bound/flow.h"
#include "planner/tool/bound/groups.h"
#include <wring/status.h>

/* What looking takes, in nanoseconds of a core that others use, too: counted, so that it is the
 *  same on every machine. */

enum {
    WRING_EFFORT_PLAYED = 20,    /* at a column or an edge, by the game */
    WRING_EFFORT_PRICED = 500,   /* at a group of the table */
    WRING_EFFORT_BRANCHED = 100, /* at a label, by branch and bound */
    WRING_EFFORT_TRIED = 10,     /* at an option of a group, likewise */
};

/** What rounding may add to a bound, relative: some 1e-13 of sums of that many terms, and spare. */
#define WRING_PROOF_MARGIN 1e-10

struct wring_proof {
    const struct wring_problem *problem; /* borrowed */
    struct wring_group_table table;
    struct wring_columns columns;
    struct wring_column_generation generation;
    struct wring_branch branch;
    uint32_t width;                 /* of the next branching run */
    struct wring_edges flow;        /* the one that proved the most */
    struct wring_grouping *best;    /* the caller's */
    struct wring_grouping proposal; /* scratch */
    double best_us, bound_us;
    double proven_us;     /* of bound_us, by `flow` */
    uint64_t deadline_ns; /* wring_now_ns(); 0: none */
    uint64_t effort;      /* that may be spent; 0: no limit */
    void *memory;
};

/** Is it over: the bound is the best time, or no time or effort is left? */
bool wring_proof_over(const struct wring_proof *proof);

/** Take proof->proposal where it is better than the best. */
void wring_proof_propose(struct wring_proof *proof);

/**
 * Price the whole table for a flow.
 * @param bound_us  out: what that proves, which is raised to
 * @return false: no time, and nothing is proved
 */
bool wring_proof_price(struct wring_proof *proof, const struct wring_edges *flow, double *bound_us);

/** The game begins with the best known grouping, and each tensor by itself. */
void wring_proof_start_generation(struct wring_proof *proof);

/**
 * Play until `patience` iterations together gain less than a fiftieth of the gap, and the columns
 * are worth about as much as the whole table: else they lack some, and iterations bring them.
 */
void wring_proof_generate(struct wring_proof *proof, uint32_t patience);

#endif
