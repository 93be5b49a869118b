/* SPDX-License-Identifier: Apache-2.0 */
/** wring replay: between its command line and each rank's part. */
#ifndef WRING_TOOLS_REPLAY_H
#define WRING_TOOLS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/files/tensor_trace.h"
#include "planner/fit.h"
#include "runtime/plan/autoplan.h"
#include "tools/bench/bench.h"

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

/** What came out; the same on every rank. */
struct wring_replay_result {
    uint32_t rank, ranks;
    struct wring_spread
        time_us; /* of an iteration's slowest rank, backward and what is left then */
    double p10_us, p90_us;
    uint64_t wrong;    /* tensors, of all sides, that are not the sum, or not the same everywhere */
    double wire_bytes; /* an iteration, mean over the ranks */
    double cpu_us;     /* likewise, of all processors */
    struct wring_autoplan_report automatic; /* what was chosen, if anything was */
    struct wring_replay_beside beside[WRING_REPLAY_BESIDE_MAX];
};

/**
 * What gradients are made of: four dice together, as codecs depend on how gradients are shaped, and
 * whole numbers below 2^13, so that the sums of 1024 ranks are exact. Thrown once; each rank and
 * iteration begins at another one, as writing gradients anew shall take no longer than memory does.
 * @return to be freed; NULL without memory
 */
float *wring_replay_numbers(void);

/** One tensor's gradient, of a rank in an iteration. Past the caches: of a model's gradients they
 * hold little, and never what travels first. Others may see it after wring_far_settle(). */
void wring_replay_fill(float *data, uint64_t elems, const float *numbers, uint32_t rank,
                       uint64_t round);

/** Is it the sum of all ranks'? Whole numbers: every bit of it. */
bool wring_replay_is_sum(const float *data, uint64_t elems, const float *numbers, uint32_t ranks,
                         uint64_t round);

/** FNV-1a of its bits, in words. */
int64_t wring_replay_digest(const float *data, uint64_t elems);

/** Be one rank of the replay. @return an exit status; failures are said */
int wring_replay_rank(const struct wring_replay_params *params, struct wring_replay_result *out);

/** What came out, as text or as one JSON object. @param predicted_us  by the plan; NaN: nothing
 * was.
 *  @return an exit status; said */
void wring_replay_print(const struct wring_replay_params *params,
                        const struct wring_replay_result *result, double predicted_us);
int wring_replay_print_json(const struct wring_replay_params *params,
                            const struct wring_replay_result *result, double predicted_us);

#endif
