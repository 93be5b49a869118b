/* SPDX-License-Identifier: Apache-2.0 */
/** One training run on this rank. */
#ifndef WRING_TOOLS_DEMO_TRAIN_H
#define WRING_TOOLS_DEMO_TRAIN_H

#include "planner/tool/gradients.h"
#include "tools/demo/corpus.h"
#include "tools/demo/demo.h"
#include "tools/demo/model.h"

/* What codecs are given in a training of the demo's, for calibration. */

#define DEMO_RECORDED_STEPS 8 /* that follow each other, twice */

/** Of one rank in one run. */
struct demo_recording {
    struct wring_gradients gradients;
    struct wring_gradients_tensor tensors[DEMO_TENSORS];
    uint64_t steps[2 * DEMO_RECORDED_STEPS];
};

/**
 * Choose the steps, from a quarter and from three quarters of the training on, and make room. Free
 * it with demo_recording_finish().
 *
 * @param elems  [DEMO_TENSORS] of the gradients
 * @param steps  of the run, 4 × DEMO_RECORDED_STEPS or more
 * @return -1 without memory
 */
int demo_recording_init(struct demo_recording *recording, const uint64_t *elems, uint32_t steps);

/**
 * Write them as wring-gradients.
 * @param config  with which they were trained
 * @return false with a line on standard error
 */
bool demo_recording_write(struct demo_recording *recording, const struct demo_options *options,
                          const struct demo_config *config);

void demo_recording_finish(struct demo_recording *recording);

/* A training of the demo's as a trace for the planner. */

/** Write results->times as a wring-trace. @return false with a line on standard error */
bool demo_training_trace_write(const struct demo_results *results, const char *path);

/* Which tensors of the model travel together, as a framework would fuse them. */

#define DEMO_BUCKET_TENSORS 3

/** Tensors side by side in memory, in the order in which backward completes them. */
struct demo_bucket {
    const char *name;
    bool compressed; /* biases are not: they are small, and every element counts */
    uint32_t n;
    enum demo_tensor tensors[DEMO_BUCKET_TENSORS];
};

/** In the order in which backward completes them. */
extern const struct demo_bucket demo_buckets[DEMO_BUCKETS];

struct demo_run {
    const struct demo_options *options;
    const struct demo_corpus *corpus;
    const struct demo_config *config; /* NULL: no allreduce, compute only */
    const char *link;                 /* NULL: none emulated */
    struct wring_session *control;    /* in which the ranks agree that a run is over */
    uint32_t rank, ranks;
    uint32_t steps;
    bool evaluate;                    /* held-out loss at DEMO_EVALS points */
    uint32_t hash_step;               /* after which the weights are hashed; 0: never */
    uint32_t warm_steps;              /* not timed */
    struct demo_recording *recording; /* to be filled; NULL: none */
    void (*progress)(void *arg, uint32_t step, uint32_t steps);
    void *progress_arg;
};

struct demo_run_result {
    double step_us;    /* median over blocks of steps */
    double wire_bytes; /* sent in a step */
    double cpu_per_s;  /* of progress and codecs, per second of wall time */
    double losses[DEMO_EVALS + 1];
    uint64_t hash;
    struct demo_timeline timeline; /* of a step of median length */
    struct demo_times times;       /* median of the timed steps, each time by itself */
    uint32_t timed_steps;
};

/** @return 0, or an exit status after a line on standard error */
int demo_train(const struct demo_run *run, struct demo_run_result *out);

#endif
