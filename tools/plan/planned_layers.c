/* SPDX-License-Identifier: Apache-2.0 */
/** Without a search: every tensor by itself, and all of them in one way. */
#include <math.h>

#include "base/clock.h"
#include "tools/plan/planning.h"

#define WRING_MODULE "plan"

static bool all_may(const struct wring_problem *problem, uint32_t option)
{
    uint32_t words = wring_problem_words(problem);

    for (uint32_t i = 0; problem->allowed != NULL && i < problem->n_tensors; i++)
        if ((problem->allowed[(size_t)i * words + option / 64] >> option % 64 & 1) == 0)
            return false;
    return true;
}

enum wring_status wring_planned_layers(const struct wring_problem *problem,
                                       const struct wring_log *log, struct wring_found *out)
{
    struct wring_found found = {.time_us = INFINITY};
    uint64_t began_ns = wring_now_ns();
    uint32_t best = 0;
    enum wring_status status = wring_grouping_init(&found.grouping, problem->n_tensors);

    if (status != WRING_OK)
        return status;
    for (uint32_t option = 0; option < problem->n_options; option++) {
        if (!all_may(problem, option))
            continue;
        wring_planned_apart(problem->n_tensors, option, &found.grouping);
        double time_us = wring_problem_time(problem, &found.grouping);
        found.evaluations++;
        if (time_us < found.time_us) {
            found.time_us = time_us;
            best = option;
        }
    }
    if (found.evaluations == 0) {
        wring_error(log, "there is no way that all tensors may take");
        wring_grouping_finish(&found.grouping);
        return WRING_ERR_INVALID;
    }
    wring_planned_apart(problem->n_tensors, best, &found.grouping);
    found.took_ns = wring_now_ns() - began_ns;
    *out = found;
    return WRING_OK;
}
