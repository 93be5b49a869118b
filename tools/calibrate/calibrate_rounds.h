/* SPDX-License-Identifier: Apache-2.0 */
/** Steps of exchanges among the ranks of a level, timed in rounds: between calibrate_links.c and
 *  calibrate_rounds.c. */
#ifndef WRING_TOOLS_CALIBRATE_ROUNDS_H
#define WRING_TOOLS_CALIBRATE_ROUNDS_H

#include "tools/calibrate/calibrate.h"

#define WRING_LINK_SIZES 9 /* latency, and 4 KiB, 16 KiB, ... 64 MiB to pass a link */
#define WRING_LINK_SAMPLES_MAX 120

/** The steps; those after the first have every other size. */
enum wring_link_step {
    WRING_LINK_ALLGATHER,
    WRING_LINK_ALLREDUCE,
    WRING_LINK_REDUCE_SCATTER,
    WRING_LINK_ALLTOALL,
    WRING_LINK_BROADCAST,
    WRING_LINK_STEPS
};

struct wring_link_bench {
    struct wring_calibration *job;
    struct wring_group *group; /* NULL: this rank looks on */
    uint32_t members, place;
    uint32_t n; /* sizes */
    uint64_t deadline_ns, late_ns;
    float *data, *into; /* placed; what a member gives lies at its place. All of it is 0 */
    uint32_t repeats[WRING_LINK_SIZES]; /* in a round */
    double samples[WRING_LINK_STEPS][WRING_LINK_SIZES]
                  [WRING_LINK_SAMPLES_MAX]; /* us; the same on all ranks */
    uint32_t samples_n[WRING_LINK_STEPS][WRING_LINK_SIZES];
    uint32_t rounds;
};

/** What a member gives, in elements: one for the latency, else what makes so many bytes pass. */
uint64_t wring_link_elems(const struct wring_link_bench *bench, uint32_t size);

/** What passes a link. */
double wring_link_bytes(const struct wring_link_bench *bench, uint32_t size);

bool wring_link_has_size(enum wring_link_step step, uint32_t size);

/** Fill in samples, of as many sizes as the link allows, which n says then. Collective among all
 *  ranks of the job. Errors: of exchanges. */
enum wring_status wring_link_rounds(struct wring_link_bench *bench);

#endif
