/* SPDX-License-Identifier: Apache-2.0 */
/** Lanes: which workers wait for each other, in each kind of timeline. */
#ifndef WRING_PLANNER_CORE_MODEL_LANES_H
#define WRING_PLANNER_CORE_MODEL_LANES_H

#include "planner/core/model/cost_model.h"
#include "planner/core/model/option_work.h"

/*
 * Collectives lose time to the computing beside them, and struct wring_problem cannot express that.
 * So the model counts time on another clock.
 *
 * While tensor i is computed, collectives stand still for lost[i] us, whatever they do. On a clock
 * that stops meanwhile, collectives take their usual time. Each ready time on it is less by the
 * time lost up to there, and the end of backward by all lost time. Set ahead by all of it from the
 * beginning, the clock shows the true time from the end of backward on.
 *
 * So the time of the first tensor grows by the loss during all others, whose times shrink. Their
 * sum and the time of a whole plan are true; only times before the end of backward are shown too
 * late. wring_interference_true_us() undoes that.
 */

/**
 * Wake-ups take first what collectives leave of the processor, those that wait for a link the most:
 * they lose only what is missing then.
 * @param profile     not present: nothing is lost
 * @param load        part of the processor that collectives keep busy, 0 to 1
 * @param coded       codecs may be taken: collectives lose what those with the busiest one do, if
 *                    that is more
 * @param compute_us  [n] in and out
 * @return us that are lost in all
 */
double wring_interference_shift(const struct wring_profile_computing *profile,
                                enum wring_computing computing, double load, bool coded, uint32_t n,
                                double *compute_us);

/** The true time of one on the model's timeline. */
double wring_interference_true_us(const struct wring_cost_model *model, double us);

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
