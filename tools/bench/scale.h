/* SPDX-License-Identifier: Apache-2.0 */
/** Between the parts of `wring bench scale`: one job of simulated ranks, and what it took. */
#ifndef WRING_TOOLS_BENCH_SCALE_H
#define WRING_TOOLS_BENCH_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/providers/sim/sim.h"

#define WRING_SCALE_SIZES_MAX 8
#define WRING_SCALE_STEPS_MAX 16

struct wring_scale_size {
    uint64_t bytes;
    double first_us, us;                 /* until the last rank is done; first: connecting, too */
    double predicted_us;                 /* NAN: nobody knows */
    uint64_t puts, messages, sent_bytes; /* of the rank that sends the most, in a later step */
    uint32_t wrong;                      /* ranks whose sums were */
};

struct wring_scale_job {
    /* what is asked */
    struct wring_sim_params network;
    bool death;     /* a rank is to be killed in the end */
    uint32_t steps; /* of each size, 1..WRING_SCALE_STEPS_MAX */
    uint32_t n_sizes;
    struct wring_scale_size sizes[WRING_SCALE_SIZES_MAX]; /* their bytes are given */

    /* what came out */
    uint32_t unopened;    /* sessions that did not open */
    uint32_t failed;      /* ranks whose calls did not succeed */
    double open_us;       /* connecting the control tree */
    double death_us;      /* until the last rank had heard of it */
    uint32_t deaf;        /* ranks that did not hear of it, or another story */
    uint64_t connections; /* of the rank that has the most */
    double memory_bytes;  /* of the process, a rank */
    double cpu_s;         /* of this computer */
};

/** Run it in this process. @return false: said why not */
bool wring_scale_run(struct wring_scale_job *job, const char *command);

#endif
