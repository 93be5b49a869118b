/* SPDX-License-Identifier: Apache-2.0 */
/** wring replay: between its command line and each rank's part. */
#ifndef WRING_TOOLS_PLAN_REPLAY_H
#define WRING_TOOLS_PLAN_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/files/tensor_trace.h"
#include "planner/core/fit.h"
#include "runtime/autotune/autotune.h"
#include "tools/bench/bench.h"
#include "tools/plan/replay_numbers.h"
#include "tools/rank_faults.h"
#include <wring/wring.h>

#define WRING_REPLAY_AUTO "auto" /* in the place of a plan's file */
#define WRING_REPLAY_BESIDE_MAX 4

enum wring_replay_compute {
    WRING_REPLAY_SLEEP, /* as a device computes: the processor is free meanwhile */
    WRING_REPLAY_SPIN,  /* as the processor computes */
};

struct wring_replay_params {
    const char *name;                       /* of the command, before messages */
    const struct wring_tensor_trace *trace; /* to scale already */
    double scale;                           /* what that was, to be said */
    const char *plan;     /* file, or "auto"; NULL: each tensor by itself, by `codec` */
    bool automatic;       /* it is "auto" */
    const char *codec;    /* then a list of those that may be taken */
    const char *provider; /* NULL: as configured */
    uint32_t ranks;       /* 0: not said */
    uint32_t iterations;
    enum wring_replay_compute compute;
    char *beside[WRING_REPLAY_BESIDE_MAX]; /* codecs that take turns with the plan */
    uint32_t n_beside;
};

/** The plan's iterations beside those of each tensor by itself in one codec; both took turns. */
struct wring_replay_beside {
    double median_us;                /* of the codec's */
    double ratio;                    /* the plan's to the codec's: median of the turns' */
    struct wring_fit_interval where; /* that median is */
};

/** How a tensor's sum was checked. All are compared between the ranks. */
enum wring_replay_check {
    WRING_REPLAY_EXACT,   /* with the exact sum, rounded once to its type: every bit */
    WRING_REPLAY_ROUNDED, /* with the exact sum, within what two roundings to its type may do */
    WRING_REPLAY_ALIKE,   /* between the ranks alone: it was coded */
};

/** What came out; the same on every rank. */
struct wring_replay_result {
    uint32_t rank, ranks;
    struct wring_spread
        time_us; /* of an iteration's slowest rank, backward and what is left then */
    double p10_us, p90_us;
    enum wring_replay_check *checks; /* [tensors] of the first side; the caller's to free */
    uint64_t wrong;    /* tensors, of all sides, that are not the sum, or not the same everywhere */
    double wire_bytes; /* an iteration, mean over the ranks */
    double cpu_us;     /* likewise, of all processors */
    struct wring_autotune_report automatic; /* what was chosen, if anything was */
    struct wring_replay_beside beside[WRING_REPLAY_BESIDE_MAX];
};

/** Be one rank of the replay. @return an exit status; failures are said. Whatever it is,
 * `out->checks` is to be freed. */
int wring_replay_rank(const struct wring_replay_params *params, struct wring_replay_result *out);

/* wring replay: a model's tensors in one rank, and how they are exchanged. */

/** A session of its own, so that several take turns in one process. */
struct wring_replay_side {
    const struct wring_replay_params *params;
    const char *plan;  /* as in the parameters: file, "auto", NULL */
    const char *codec; /* likewise */
    struct wring_session *session;
    struct wring_group *world;
    uint32_t rank, ranks;
    uint32_t n;                                 /* tensors */
    const struct wring_replay_numbers *numbers; /* that gradients are made of; the caller's */
    struct wring_bootstrap *bootstrap; /* by which ranks meet, borrowed; NULL: as launched */
    void **data;                       /* [n] one after another in one buffer */
    struct wring_bucket **buckets;     /* [n] */
    uint64_t iteration;                /* iterations so far */
    double *times_us;                  /* [iterations] of this rank, then of the slowest */
    double cpu_us;                     /* of all of them, of all the process's threads */
    double wire_bytes;                 /* likewise, of this session */
    struct wring_rank_faults faults;
};

#endif
