/* SPDX-License-Identifier: Apache-2.0 */
/** A sweep: what is swept, and the points that come out. */
#ifndef WRING_TOOLS_PLAN_SWEEP_H
#define WRING_TOOLS_PLAN_SWEEP_H

#include <stdio.h>

#include "tools/plan/planning.h"

#define WRING_SWEEP_MAX 64 /* values on each axis */

struct wring_sweep {
    struct wring_planning planning;
    uint32_t nodes[WRING_SWEEP_MAX];
    double link_gbit[WRING_SWEEP_MAX];
    uint32_t local_steps[WRING_SWEEP_MAX];
    double
        link_jitter[WRING_SWEEP_MAX]; /* sigma of the logarithm of a link's time, each collective */
    uint32_t n_nodes, n_links, n_local_steps, n_link_jitters; /* 0: the profile's; none */
    bool links_given;        /* or else link_gbit is the profile's */
    bool each;               /* each codec by itself, too */
    uint32_t rack;           /* nodes of a rack; 0: one network for all */
    double oversubscription; /* of the links out of a rack */
    double jitter;           /* sigma of the logarithm of a node's computing time, each iteration */
    double straggler;        /* how much longer one node computes; 1: no longer */
    double link_straggler;   /* the same of one link between nodes */
    uint32_t iterations;     /* that are drawn, with jitter */
    uint64_t seed;
};

/** One simulated set-up. Times in us, of an iteration without forward unless said. */
struct wring_point {
    uint32_t nodes, ranks, local_steps; /* local_steps: 1 where every step is exchanged */
    double link_gbit;                   /* NaN: the profile knows no link between nodes */
    double link_jitter;
    const char *costs; /* where times come from, as wring_cost_source_name() has it */
    const char *codec; /* borrowed: of the sweep; "all" for a choice among all of them */
    double forward_us; /* counted where speeds are compared */
    double last_ready_us;
    double iteration_us, p90_us; /* median, and 9 of 10 take no longer */
    double fp32_us, fp16_us;     /* medians; in the best groups or tensor by tensor, the better */
    double scaling_factor;       /* training speed of a rank against one that is alone */
    double speedup_fp32, speedup_fp16; /* in training speed, forward included */
};

/** Called with each point as it is known. @return false to end the sweep */
typedef bool (*wring_point_fn)(void *arg, const struct wring_point *point);

/** Points that a sweep has. */
uint64_t wring_sweep_count(const struct wring_sweep *sweep);

/** Work them all out, link by link and node by node. Faults are logged in one line. */
enum wring_status wring_sweep_run(struct wring_sweep *sweep, wring_point_fn each, void *arg);

#endif
