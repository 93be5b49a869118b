/* SPDX-License-Identifier: Apache-2.0 */
/** wring replay: a model's tensors in one rank, and how they are exchanged. */
#ifndef WRING_TOOLS_REPLAY_SIDE_H
#define WRING_TOOLS_REPLAY_SIDE_H

#include <wring/wring.h>

#include "tools/plan/replay.h"
#include "tools/rank_faults.h"

/** A session of its own, so that several take turns in one process. */
struct wring_replay_side {
    const struct wring_replay_params *params;
    const char *plan;  /* as in the parameters: file, "auto", NULL */
    const char *codec; /* likewise */
    struct wring_session *session;
    struct wring_group *world;
    uint32_t rank, ranks;
    uint32_t n;                    /* tensors */
    const float *numbers;          /* that gradients are made of; the caller's */
    struct wring_bootstrap *way;   /* by which ranks meet, borrowed; NULL: as launched */
    float **data;                  /* [n] one after another in one buffer */
    struct wring_bucket **buckets; /* [n] */
    uint64_t round;                /* iterations so far */
    double *times_us;              /* [iterations] of this rank, then of the slowest */
    double cpu_us;                 /* of all of them, of all the process's threads */
    double wire_bytes;             /* likewise, of this session */
    struct wring_rank_faults faults;
};

/**
 * Join, and register what is to be exchanged. Collective.
 *
 * @param side  params, plan, codec, numbers and way are set; closed by the caller, whatever comes
 * back
 * @return an exit status; said
 */
int wring_replay_side_open(struct wring_replay_side *side);
void wring_replay_side_close(struct wring_replay_side *side);

/** Of all its tensors, from data[0] on. */
size_t wring_replay_side_bytes(const struct wring_replay_side *side);

/** One iteration with fresh gradients, all ranks beginning together. @param us  out, of this rank
 */
enum wring_status wring_replay_side_run(struct wring_replay_side *side, double *us);

/** Raw sums are exact, coded ones the same on all ranks. @param wrong  out: tensors that are not */
enum wring_status wring_replay_side_check(struct wring_replay_side *side, uint64_t *wrong);

#endif
