/* SPDX-License-Identifier: Apache-2.0 */
/** wring demo: what its files share. Every rank is a process that does all of this in step. */
#ifndef WRING_TOOLS_DEMO_DEMO_H
#define WRING_TOOLS_DEMO_DEMO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/wring.h>

#define DEMO_EVALS 20  /* points of a loss curve */
#define DEMO_TENSORS 7 /* in the order in which backward makes them */
#define DEMO_BUCKETS 4
#define DEMO_CONFIGS 6
#define DEMO_TEXTS_MAX 64

struct demo_options {
    const struct demo_blas *blas;
    const char *texts[DEMO_TEXTS_MAX]; /* files of the user's; none: the system's documentation */
    uint32_t n_texts;
    uint32_t ranks, steps, batch, hidden, timed_steps;
    uint64_t seed;
    const char *link;             /* "1gbit" */
    const char *report;           /* path; "" for none */
    const char *record;           /* likewise, of a trace for the planner */
    const char *record_gradients; /* likewise, of gradients for calibration */
    const char *only;             /* names of configurations joined by ','; NULL: all */
    bool json, losses_only;
};

/** A way to exchange the gradients. */
struct demo_config {
    const char *name, *label;
    const char *codec;
    enum wring_scheme scheme;
    const char *note; /* for the report */
};

extern const struct demo_config demo_configs[DEMO_CONFIGS];

/** What one bucket did in the step that is shown, in µs from the step's beginning. */
struct demo_span {
    double ready_us, done_us;
};

struct demo_timeline {
    double forward_us, backward_us, step_us;
    struct demo_span buckets[DEMO_BUCKETS];
};

/** Of a step, in µs. */
struct demo_times {
    double forward_us;
    double optimizer_us;           /* of updating all parameters */
    double ready_us[DEMO_TENSORS]; /* each gradient, since backward began */
};

struct demo_measure {
    const struct demo_config *config;
    double compute_us, step_us;
    double wire_bytes;             /* a rank sends in a step */
    double cores;                  /* progress and codecs of all ranks, while a step runs */
    double losses[DEMO_EVALS + 1]; /* held out, nats per byte, at steps * i / DEMO_EVALS */
    double time_to_target_s;       /* NAN: not reached */
    double bf16_loss_then;         /* bf16's loss when this one's steps had all been made */
    bool same_bits;                /* link and no link, and all ranks, gave the same parameters */
    struct demo_timeline timeline;
};

struct demo_results {
    const struct demo_options *options;
    struct demo_measure measures[DEMO_CONFIGS];
    uint32_t n;
    uint64_t text_files, text_bytes, dropped_files, held_out_bytes, parameters;
    uint64_t elems[DEMO_TENSORS];
    struct demo_times
        times;            /* of rank 0 where nothing is exchanged; zeros where nothing is timed */
    uint32_t times_steps; /* of so many steps the median */
    double target_loss;   /* bf16's last one; NAN where bf16 did not run */
};

/** The one of that name, or NULL. */
const struct demo_measure *demo_measure_find(const struct demo_results *results, const char *name);

void demo_print_table(const struct demo_results *results);
int demo_print_json(const struct demo_results *results);

/** Write the report. @return false with a line on standard error */
bool demo_report_write(const struct demo_results *results, const char *path);

/* Sessions of the demo, and what is said when one fails. */

/**
 * Open a session like those of the runs. Rank 0 keeps the launcher's socket for further ones: each
 * takes a copy of it.
 * @param settled  while true, the session's error lines are dropped; outlives the session
 * @return NULL after a line on standard error
 */
struct wring_session *demo_session_open(const char *provider, const char *link,
                                        atomic_bool *settled);

/** Say why something failed on this rank, unless another rank says the same. @return 1 */
int demo_fail(struct wring_session *session, uint32_t rank, const char *what,
              enum wring_status status);

#endif
