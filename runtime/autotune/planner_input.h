/* SPDX-License-Identifier: Apache-2.0 */
/** What a job that plans for itself asks the planner, in rank 0. */
#ifndef WRING_RUNTIME_AUTOTUNE_PLANNER_INPUT_H
#define WRING_RUNTIME_AUTOTUNE_PLANNER_INPUT_H

#include "planner/core/model/settings.h"
#include "runtime/autotune/autotune.h"

/** What was recorded, as the planner has it, and what may be chosen. */
struct wring_autoplan_question {
    const struct wring_autoplan *autoplan;
    bool early;                                  /* buckets cannot be merged */
    struct wring_tensor_trace trace;             /* by when tensors are ready */
    uint32_t *order;                             /* [trace.n] the session's tensors likewise */
    struct wring_measure_codecs codecs, listed;  /* of any bucket; that all may take */
    const char *specs[WRING_MEASURE_CODECS_MAX]; /* the former */
    struct wring_profile profile; /* the session's, but for the ways: a copy, in which those of
                                     other settings are carried on */
};

/** The planner's model with one setting; which options a tensor may take is the job's affair. */
struct wring_autoplan_model {
    struct wring_cost_model *model;
    uint64_t *allowed; /* its problem's, in the place of its own */
};

/** Errors: WRING_ERR_NO_MEMORY, INVALID (WRING_PLAN_CODECS; logged). It is to be finished then,
 *  too. */
enum wring_status wring_autoplan_question_init(struct wring_autoplan_question *question,
                                               const struct wring_autoplan *autoplan, bool early);
void wring_autoplan_question_finish(struct wring_autoplan_question *question);

/** Settings that a plan may choose among, the configured one first. None: nothing is told apart,
 *  and all is as configured. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_autoplan_list_settings(const struct wring_autoplan_question *question,
                                               struct wring_settings *out);

/** @param setting  NULL: as configured. Errors: those of a model; it is to be finished then, too.
 */
enum wring_status wring_autoplan_model_init(const struct wring_autoplan_question *question,
                                            const struct wring_setting *setting,
                                            struct wring_autoplan_model *out);
void wring_autoplan_model_finish(struct wring_autoplan_model *made);

/** May tensor i of the trace take that option? */
bool wring_autoplan_may_take(const struct wring_autoplan_model *made, uint32_t i, uint32_t option);

/** An option's codec. */
static inline const char *wring_autoplan_spec_of(const struct wring_autoplan_model *made,
                                                 uint32_t option)
{
    return made->model->codecs[made->model->options[option].codec].spec;
}

#endif
