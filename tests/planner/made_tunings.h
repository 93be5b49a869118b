/* SPDX-License-Identifier: Apache-2.0 */
/** A cluster with one codec, that was measured by cores and sizes of pieces. */
#ifndef WRING_TESTS_PLANNER_MADE_TUNINGS_H
#define WRING_TESTS_PLANNER_MADE_TUNINGS_H

#include "planner/core/model/tunings.h"
#include "tests/planner/made_trace.h"

#define KIB 1024
#define COLLECTIVES_MAX 16

struct made_tunings {
    struct wring_profile profile;
    struct wring_profile_codec codec;
    struct wring_measured_collective collectives[COLLECTIVES_MAX];
    struct wring_made_trace trace;
    struct wring_cost_model_params params;
};

struct wring_profile_curve made_curve(double fixed, double slope);

/** Codec "byte", two tensors of 2^20 elements; coders inline and on 1, 2 and 4 cores. */
void made_tunings_set_up(struct made_tunings *made, uint32_t nodes, uint32_t ranks_per_node);

/** @param slope  us per element of a bucket among others */
void made_tunings_add_collective(struct made_tunings *made, const char *codec, const char *run_as,
                                 double slope, const struct wring_tuning *tuning);

void made_tunings_add_collectives(struct made_tunings *made, double factor,
                                  const struct wring_tuning *tuning);

/** What a further bucket of 2^20 elements takes with the codec. */
double made_tunings_busy_us(struct made_tunings *made, const struct wring_tuning *tuning);

/** The tunings that are listed, as "cores:KiB cores:KiB"; or a part of what is said against them.
 */
void made_tunings_check_list(const struct made_tunings *made,
                             const struct wring_tunings_wanted *wanted, const char *want);

/** The last line of a log. */
struct made_line {
    char text[512];
};

void made_tunings_take_line(void *arg, enum wring_log_level level, const char *module,
                            const char *text);

#endif
