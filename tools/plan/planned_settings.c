/* SPDX-License-Identifier: Apache-2.0 */
/** A plan for each setting of a session that the profile knows, and the best of them. */
#include <math.h>
#include <stdlib.h>

#include "tools/plan/planning.h"

#define WORTH_A_CORE 1e-9 /* of the time: what is no more than rounding is no reason */

/** What all of them have come to. */
struct course {
    const struct wring_planning *planning;
    const struct wring_planned_want *want;
    struct wring_cost_model_params params;
    uint64_t took_ns, bound_ns, nodes, evaluations; /* so far */
    double bound_us;                                /* the least of all; NaN: there is none */
    double open_us;                                 /* the least that nobody reached */
};

/** An equal part of what is left of a time; 0, which is no limit or no bound, stays. */
static uint64_t share(uint64_t all_ns, uint64_t spent_ns, uint32_t left)
{
    if (all_ns == 0)
        return 0;
    uint64_t part = spent_ns < all_ns ? (all_ns - spent_ns) / left : 0;
    return part > 0 ? part : 1;
}

static enum wring_status plan_one(struct course *course, uint32_t done, uint32_t left,
                                  struct wring_planned *out)
{
    struct wring_planning planning = *course->planning;
    enum wring_status status;

    *out = (struct wring_planned){.espresso_us = NAN, .bound.time_us = NAN};
    planning.budget_ns = share(planning.budget_ns, course->took_ns, left);
    planning.bound_ns = share(planning.bound_ns, course->bound_ns, left);
    if (planning.bound_effort > 0)
        planning.bound_effort = planning.bound_effort / (done + left) + 1;
    if (done > 0)
        planning.log.level = WRING_LOG_ERROR; /* all else was said of the first */
    status = wring_cost_model_create(&course->params, &planning.log, &out->model);
    if (status != WRING_OK)
        return status;
    return wring_planned_find(&planning, course->want, &course->params, out);
}

static void count(struct course *course, const struct wring_planned *one)
{
    course->took_ns += one->found.took_ns;
    course->evaluations += one->found.evaluations;
    course->bound_ns += one->bound.took_ns;
    course->nodes += one->bound.nodes;
    course->bound_us = fmin(course->bound_us, one->bound.time_us); /* a number, if there is one */
    if (!one->bound.exact)
        course->open_us = fmin(course->open_us, one->bound.time_us);
}

/** The better of both, in `best`; the other is freed. */
static void keep_better(struct wring_planned *best, struct wring_planned *one)
{
    struct wring_planned worse = *one;

    if (best->model == NULL || one->found.time_us < best->found.time_us * (1 - WORTH_A_CORE)) {
        worse = *best;
        *best = *one;
    }
    wring_planned_finish(&worse);
}

static void complete(const struct course *course, struct wring_planned *planned)
{
    planned->found.took_ns = course->took_ns;
    planned->found.evaluations = course->evaluations;
    planned->bound.time_us = course->bound_us;
    planned->bound.exact = !isnan(course->bound_us) && course->open_us >= planned->found.time_us;
    planned->bound.nodes = course->nodes;
    planned->bound.took_ns = course->bound_ns;
}

static enum wring_status plan_all(struct course *course, const struct wring_settings *settings,
                                  struct wring_planned *planned)
{
    uint32_t n = settings->n > 0 ? settings->n : 1;

    for (uint32_t i = 0; i < n; i++) {
        struct wring_planned one;
        course->params.setting = settings->n > 0 ? &settings->list[i] : NULL;
        enum wring_status status = plan_one(course, i, n - i, &one);
        if (status != WRING_OK) {
            wring_planned_finish(&one);
            return status;
        }
        count(course, &one);
        keep_better(planned, &one);
    }
    complete(course, planned);
    planned->n_settings = settings->n;
    return WRING_OK;
}

enum wring_status wring_planned_settings(const struct wring_planning *planning,
                                         const struct wring_planned_want *want,
                                         const struct wring_cost_model_params *params,
                                         struct wring_planned *planned)
{
    struct wring_settings *settings = malloc(sizeof(*settings));
    struct course course = {.planning = planning,
                            .want = want,
                            .params = *params,
                            .bound_us = NAN,
                            .open_us = INFINITY};

    *planned = (struct wring_planned){.espresso_us = NAN, .bound.time_us = NAN};
    if (settings == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status =
        wring_settings_list(params, &planning->settings, &planning->log, settings);
    if (status == WRING_OK)
        status = plan_all(&course, settings, planned);
    free(settings);
    return status;
}
