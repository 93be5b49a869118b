/* SPDX-License-Identifier: Apache-2.0 */
/** One training run on this rank. */
#ifndef WRING_TOOLS_DEMO_TRAIN_H
#define WRING_TOOLS_DEMO_TRAIN_H

#include "tools/demo/demo.h"
#include "tools/demo/record.h"
#include "tools/demo/task.h"

/** One run of a configuration. */
struct demo_run {
    const struct demo_options *options;
    const void *data;                 /* the task's */
    const struct demo_config *config; /* NULL: no allreduce, compute only */
    const char *link;                 /* NULL: none emulated */
    struct wring_session *control;    /* in which the ranks agree that a run is over */
    uint32_t rank, ranks;
    uint32_t steps;
    uint64_t seed;
    struct demo_optimizer_choice optimizer;
    double rate;                      /* of learning */
    bool evaluate;                    /* held-out loss at DEMO_EVALS points */
    uint32_t late_step;               /* from which on late_wire_bytes counts; below steps */
    uint32_t hash_step;               /* after which the weights are hashed; 0: never */
    uint32_t warm_steps;              /* not timed */
    struct demo_recording *recording; /* to be filled; NULL: none */
    void (*progress)(void *arg, uint32_t step, uint32_t steps);
    void *progress_arg;
};

struct demo_run_result {
    double step_us;         /* median over blocks of steps */
    double wire_bytes;      /* sent in a step */
    double late_wire_bytes; /* likewise, from the run's late_step on */
    double coded_bytes;     /* likewise of wire_bytes, for buckets that are compressed */
    double late_coded_bytes;
    double cpu_per_s; /* of progress and codecs, per second of wall time */
    double losses[DEMO_EVALS + 1], last_loss;
    uint64_t hash;
    struct demo_timeline timeline; /* of a step of median length */
    struct demo_times times;       /* median of the timed steps, each time by itself */
    uint32_t timed_steps;
};

/** @return 0, or an exit status after a line on standard error */
int demo_train(const struct demo_run *run, struct demo_run_result *out);

#endif
