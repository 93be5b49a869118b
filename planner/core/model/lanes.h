/* SPDX-License-Identifier: Apache-2.0 */
/** Lanes: who of those that can be busy waits for whom, as each kind of timeline sees it. */
#ifndef WRING_PLANNER_CORE_MODEL_LANES_H
#define WRING_PLANNER_CORE_MODEL_LANES_H

#include "planner/core/model/cost_model.h"
#include "planner/core/model/option_work.h"

/*
 * Exchanges that lose time to the computing beside them, in a problem that knows of no such thing.
 *
 * While tensor i is computed, exchanges stand still for lost[i] us, whatever it is that they do.
 * A clock that stops meanwhile has counted less at every ready time, by what was lost up to there;
 * by it, exchanges take what they always take, and when backward is over it is late by all that
 * was lost. Set ahead by as much from the beginning, it shows the true time from then on. So the
 * time of the first tensor grows by what is lost during all others, whose times shrink: their sum
 * and the time of a whole plan are true, and only what lies before the end of backward is shown
 * too late. wring_computing_true_us() undoes that.
 */

/**
 * Wake-ups take first what exchanges leave of the processor, those that wait for a link the most:
 * they lose only what is missing then.
 * @param profile     not present: nothing is lost
 * @param load        part of the processor that exchanges keep busy, 0 to 1
 * @param coded       codecs may be taken: exchanges lose what those with the busiest one do, if
 *                    that is more
 * @param compute_us  [n] in and out
 * @return us that are lost in all
 */
double wring_computing_shift(const struct wring_profile_computing *profile,
                             enum wring_computing computing, double load, bool coded, uint32_t n,
                             double *compute_us);

/** The true time of one on the model's timeline. */
double wring_computing_true_us(const struct wring_cost_model *model, double us);

struct wring_lanes {
    uint32_t n;
    const char *names[WRING_PLAN_LANES_MAX]; /* static */
};

/** The lanes of a kind of timeline, other than AUTO, in the order in which groups pass them. */
struct wring_lanes wring_lanes_of(enum wring_timeline timeline);

/**
 * An option's work put on the lanes.
 *
 * @param chunk_elems  0: no chunks; else every chunk takes what its size takes, and the group its
 *                     latencies once
 */
void wring_lanes_cost(enum wring_timeline timeline, const struct wring_work *work,
                      uint64_t chunk_elems, struct wring_option_cost *out);

#endif
