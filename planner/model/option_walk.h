/* SPDX-License-Identifier: Apache-2.0 */
/** A tensor's walk through the steps of an option: between the files that work it out. */
#ifndef WRING_PLANNER_OPTION_WALK_H
#define WRING_PLANNER_OPTION_WALK_H

#include "planner/model/option_work.h"

struct wring_walk {
    const struct wring_work_params *params;
    const struct wring_option *option;
    struct wring_work *work;
    enum wring_known_option whole; /* its codec work is known as a whole */
    bool half_intra;               /* raw data inside nodes travel as 16 bits */
    bool both_levels;
    double x, f, codes, active;              /* active: ranks of a node */
    bool second[WRING_PHASE_INTRA_OUT + 1];  /* by phase: the next step there is its second */
    const struct wring_profile_codec *codec; /* that made the codes */
};

static inline void wring_walk_add(struct wring_walk *walk, enum wring_worker worker,
                                  struct wring_cost cost)
{
    walk->work->us[worker] = wring_cost_add(&walk->work->us[worker], &cost);
}

/** A step of communication: what it takes, and what every rank at work holds afterwards. */
void wring_walk_communicate(struct wring_walk *walk, const struct wring_step *step);

#endif
