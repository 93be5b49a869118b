/* SPDX-License-Identifier: Apache-2.0 */
/** wring demo: what its files share. Every rank is a process that does all of this in step. */
#ifndef WRING_TOOLS_DEMO_DEMO_H
#define WRING_TOOLS_DEMO_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/wring.h>

#include "tools/demo/network.h"
#include "tools/demo/optimizer.h"

#define DEMO_EVALS 20 /* points of a loss curve */
#define DEMO_CONFIGS_MAX 64
#define DEMO_SEEDS_MAX 16
#define DEMO_TEXTS_MAX 64

/** A way to exchange the gradients. */
struct demo_config {
    const char *name, *label;
    const char *codec;
    enum wring_scheme scheme;
    const char *note;   /* for the report */
    double rate_factor; /* of the optimizer's learning rate, that suits it */
    bool momentum;      /* its codec has one of its own, so the worker has none */
};

struct demo_options {
    const struct demo_blas *blas;
    const struct demo_task *task;
    const char *texts[DEMO_TEXTS_MAX]; /* files of the user's; none: the system's documentation */
    uint32_t n_texts;
    const char *images; /* file of digits; NULL: Debian's */
    struct demo_optimizer_choice optimizer;
    const char *optimizer_text;
    double rate; /* of learning */
    uint32_t ranks, steps, batch, hidden, timed_steps;
    uint64_t seed; /* the first */
    uint32_t seeds;
    uint32_t tuning_seeds;        /* 0: rates are not searched */
    double target_loss;           /* NAN: that of bf16 */
    const char *link;             /* "1gbit" */
    const char *report;           /* path; "" for none */
    const char *results;          /* likewise, where finished trainings are kept */
    const char *table;            /* likewise, of a page in Markdown, with a picture beside it */
    const char *record;           /* likewise, of a trace for the planner */
    const char *record_gradients; /* likewise, of gradients for calibration */
    uint32_t record_ranks;        /* whose gradients: the first so many */
    struct demo_config configs[DEMO_CONFIGS_MAX];
    uint32_t n_configs;
    bool json, losses_only;
};

/** What one bucket did in the step that is shown, in µs from the step's beginning. */
struct demo_span {
    double ready_us, done_us;
};

struct demo_timeline {
    double forward_us, backward_us, step_us;
    struct demo_span buckets[DEMO_BUCKETS_MAX];
};

/** Of a step, in µs. */
struct demo_times {
    double forward_us;
    double optimizer_us;               /* of updating all parameters */
    double ready_us[DEMO_TENSORS_MAX]; /* each gradient, since backward began */
};

/** One training from beginning to end, without the link. */
struct demo_training {
    double losses[DEMO_EVALS + 1]; /* held out, at steps * i / DEMO_EVALS */
    double last_loss;              /* likewise of all held-out samples, after all steps */
    double wire_bytes;             /* a rank sends in a step, on average */
    double late_wire_bytes;  /* likewise after the warm-up, or in the last tenth of the steps */
    double coded_bytes;      /* the part of wire_bytes for buckets that are compressed; NAN:
                                an earlier release kept the training */
    double late_coded_bytes; /* likewise of late_wire_bytes */
    uint64_t hash;           /* of the parameters, early on */
};

struct demo_measure {
    const struct demo_config *config;
    double rate;     /* of learning */
    uint32_t warmup; /* steps in which its codec or optimizer sends more; 0: none */
    double compute_us, step_us;
    double wire_bytes; /* a rank sends in a step on the link */
    double cores;      /* progress and codecs of all ranks, while a step runs */
    struct demo_training trainings[DEMO_SEEDS_MAX]; /* of the options' seeds, in order */
    double losses[DEMO_EVALS + 1];                  /* their means */
    double time_to_target_s;                        /* NAN: not reached */
    double bf16_loss_then; /* bf16's loss when this one's steps had all been made */
    bool same_bits;        /* link and no link, and all ranks, gave the same parameters */
    struct demo_timeline timeline;
};

struct demo_results {
    const struct demo_options *options;
    struct demo_measure measures[DEMO_CONFIGS_MAX];
    uint32_t n;
    char data[256];                    /* a line on it */
    uint64_t data_hash;                /* of its content, for rank 0's store; else 0 */
    uint64_t parameters, coded_values; /* elements of all buckets, and of those compressed */
    struct demo_tensor tensors[DEMO_TENSORS_MAX];
    struct demo_times
        times;            /* of rank 0 where nothing is exchanged; zeros where nothing is timed */
    uint32_t times_steps; /* of so many steps the median */
    double target_loss;   /* DEMO_SLACK times bf16's last one, or the user's; NAN: there is none */
};

/** The one of that name, or NULL. */
const struct demo_measure *demo_measure_find(const struct demo_results *results, const char *name);

void demo_print_table(const struct demo_results *results);
int demo_print_json(const struct demo_results *results);

/** Write the report. @return false with a line on standard error */
bool demo_report_write(const struct demo_results *results, const char *path);

#endif
