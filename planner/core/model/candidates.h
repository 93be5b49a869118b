/* SPDX-License-Identifier: Apache-2.0 */
/** Candidates: options with their costs, of which those that no plan needs are dropped at once. */
#ifndef WRING_MODEL_CANDIDATES_H
#define WRING_MODEL_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "planner/core/model/cost_model.h"
#include "planner/core/model/lanes.h"
#include "planner/core/model/option_work.h"
#include "planner/core/problem.h"

/*
 * Dominance: options that no plan needs, because another one takes no longer anywhere.
 *
 * The time of a plan is the length of the longest path through its grid of groups and lanes: from
 * lane to lane within a group, from group to group on a lane (a permutation flow shop). Such a path
 * stays in each group for a range of lanes, first … last, and adds up what the group takes there.
 * So an option can be replaced if for each range the other's sum is no more. Ranges of one lane
 * are among them, and they imply all others: sums compare if their terms do. Nothing weaker than
 * "no more on any lane, at any size" is safe for all groupings, and that is what is used here. For
 * chunks of the same size the same holds, chunk by chunk.
 */

/** Is a no more than b on every lane at every size, rounding (1e-12 of it) aside? */
bool wring_dominates(const struct wring_option_cost *a, const struct wring_option_cost *b,
                     uint32_t n_lanes);

/** A codec's error against the budget. */
enum wring_budget {
    WRING_BUDGET_WITHIN,
    WRING_BUDGET_SOMEWHERE, /* on some tensors */
    WRING_BUDGET_BEYOND,    /* on all of them */
    WRING_BUDGET_UNKNOWN,   /* nobody measured it */
};

/** The same by encodings that follow each other. */
struct wring_budgets {
    enum wring_budget of[WRING_ENCODINGS_MAX + 1][WRING_ENCODINGS_MAX + 1]; /* [in][back] */
};

struct wring_candidate {
    struct wring_cost_option option;
    struct wring_option_cost cost;
    enum wring_known_option known;
    bool baseline;  /* stays whatever happens */
    bool barred;    /* a baseline that no tensor may take: it takes nobody else's place either */
    bool somewhere; /* some tensors may not take it: it takes the place of its own codec's only, of
                       as many encodings or more */
    struct wring_encodings encodings;
};

#define WRING_CANDIDATE_SIZES 3

/** Costs at a few sizes: a candidate that costs more at one of them does not dominate. */
struct wring_candidate_samples {
    float us[WRING_CANDIDATE_SIZES][WRING_PLAN_LANES_MAX];
};

struct wring_candidates {
    struct wring_candidate *list;            /* [n] in the order in which they came */
    struct wring_candidate_samples *samples; /* [n] likewise, apart: most are looked at no closer */
    uint32_t n, room;
    uint32_t last; /* the candidate that dominated the last one; often the next one, too */
    bool keep_dominated;
    uint64_t considered, dominated;
    uint32_t *n_allowed; /* [codecs] of each, those offered that are not barred; borrowed */
};

/** One codec whose options are looked at. */
struct wring_candidates_params {
    struct wring_work_params work; /* in == NULL: the options in which nothing is coded */
    enum wring_timeline timeline;  /* not AUTO */
    uint32_t codec;                /* its index */
    enum wring_dtype dtype;        /* of the tensors that may take them */
    uint32_t sites;
    uint64_t chunk_bytes;
    bool runnable;         /* only what this build's runtime can execute */
    bool flat;             /* no hierarchies */
    bool indivisible;      /* one step between nodes, or all ranks */
    bool baseline, barred; /* of the one option of this codec that is a baseline */
    struct wring_budgets budgets;
};

/** Take one more, unless it is dominated; what it dominates goes. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_candidates_offer(struct wring_candidates *candidates,
                                         const struct wring_candidate *candidate);

/** Walk the tree for one codec. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_candidates_walk(struct wring_candidates *candidates,
                                        const struct wring_candidates_params *params);

/** The cost of one option. @return elements of a piece that travels; 0: nothing is cut */
uint64_t wring_candidate_cost(const struct wring_candidates_params *params,
                              const struct wring_option *option, struct wring_option_cost *out);

/** Elements that travel as one piece: a code or a sum fits into chunk_bytes.
 *  @param codec  NULL: raw, elem_bytes each */
double wring_candidate_piece_elems(const struct wring_profile_codec *codec, uint64_t chunk_bytes,
                                   uint32_t elem_bytes);

void wring_candidates_finish(struct wring_candidates *candidates);

#endif
