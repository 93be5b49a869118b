/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A beam search over the places where groups may end. At each of them, a breakpoint, it keeps as
 * many labels as the beam is wide: paths to get there, of which none is later than another on every
 * lane. A pass forwards keeps heads, one backwards keeps tails; what a label is worth is the time
 * of the whole grouping that it makes together with the best label that the last pass in the other
 * direction left at that breakpoint. A pass in which no label had to be given up has found the best
 * grouping that there is over these breakpoints.
 */
#ifndef WRING_SEARCH_BEAM_H
#define WRING_SEARCH_BEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/problem.h"
#include "planner/core/search/cost_tables.h"

/* The labels that a beam keeps at one of its breakpoints. */

/** How a label came to be. */
struct wring_beam_origin {
    uint32_t breakpoint, label, option;
};

struct wring_beam_breakpoint {
    uint32_t n, width, n_lanes;         /* labels, room for them (even), and their lanes */
    uint32_t beat;                      /* pair of labels that was as good as one, the last time */
    uint32_t worst;                     /* label; where there is no more room */
    double limit;                       /* labels worth no less need not be kept */
    double *lanes;                      /* [n_lanes × width] lane by lane, aligned to 16 bytes */
    double *worth;                      /* [width] the less, the better */
    struct wring_beam_origin *origin;   /* [width] */
    uint32_t best;                      /* label, once all are there */
    double least[WRING_PLAN_LANES_MAX]; /* of all labels, lane by lane, likewise */
};

/* Blocks: labels that go through a task side by side, in pairs. */

#define WRING_BEAM_BLOCK 8 /* labels */
#define WRING_BEAM_PAIRS (WRING_BEAM_BLOCK / 2)

/** A task, and what more chunks of it add. */
struct wring_beam_task {
    struct wring_task task;
    double longest[WRING_PLAN_LANES_MAX][WRING_PLAN_LANES_MAX]; /* where there are any: the longest
                                                     path of the chunks after the first from a lane
                                                     to one that is not before it */
};

struct wring_beam_params {
    const struct wring_cost_tables *tables; /* borrowed, as are `breakpoints` and `choices` */
    const struct wring_choices *choices;    /* [WRING_SIZES] options that are tried */
    const uint32_t *breakpoints;            /* [n_breakpoints + 1] 0, … rising …, n_tensors */
    uint32_t n_breakpoints;
    uint32_t width; /* labels at a breakpoint */
    uint32_t reach; /* groups over so many are tried one by one, longer ones at strides */
    uint64_t deadline_ns;
};

struct wring_beam;

/**
 * @param guide  in: the first pass, backwards, goes by its heads; NULL: by those of computing
 * alone, as if nothing ever waited
 *
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_beam_create(const struct wring_beam_params *params,
                                    const struct wring_grouping *guide, struct wring_beam **out);

/** NULL is fine. */
void wring_beam_destroy(struct wring_beam *beam);

/** The next pass; the first is backwards, then in turn. @return false: the deadline came first */
bool wring_beam_pass(struct wring_beam *beam, struct wring_grouping *out);

/** Was no label given up in the last pass? */
bool wring_beam_complete(const struct wring_beam *beam);

/** How many labels of the last pass came by each option. @param count  in and out, [n_options] */
void wring_beam_count_options(const struct wring_beam *beam, uint32_t *count);

/** Groups put after a head or before a tail, so far. */
uint64_t wring_beam_evaluations(const struct wring_beam *beam);

#endif
