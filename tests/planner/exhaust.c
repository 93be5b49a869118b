/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/exhaust.h"

#include <float.h>
#include <string.h>

static bool may_be(const struct wring_problem *problem, uint32_t begin, uint32_t end,
                   uint32_t option)
{
    uint32_t words = wring_problem_words(problem);

    for (uint32_t i = begin; problem->allowed != NULL && i < end; i++)
        if ((problem->allowed[i * words + option / 64] >> (option % 64) & 1) == 0)
            return false;
    return problem->max_group_elems == 0 || end == begin + 1 ||
           problem->elems[end] - problem->elems[begin] <= problem->max_group_elems;
}

/** All that can follow; `ends` is when lanes are done with the tensors before `begin`. */
static void go_on(const struct wring_problem *problem, uint32_t begin, const double *ends,
                  double *best)
{
    double next[WRING_PLAN_LANES_MAX], once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX];
    double time = ends[problem->n_lanes - 1];

    if (time >= *best)
        return;
    if (begin == problem->n_tensors)
        *best = time;
    for (uint32_t end = begin + 1; end <= problem->n_tensors; end++)
        for (uint32_t option = 0; option < problem->n_options; option++) {
            if (!may_be(problem, begin, end, option))
                continue;
            memcpy(next, ends, sizeof(next));
            uint64_t chunks = wring_problem_group(problem, begin, end, option, once, each);
            wring_problem_advance(problem, chunks, once, each, next);
            go_on(problem, end, next, best);
        }
}

double wring_exhaust(const struct wring_problem *problem)
{
    double ends[WRING_PLAN_LANES_MAX] = {0}, best = DBL_MAX;

    go_on(problem, 0, ends, &best);
    return best;
}

bool wring_exhaust_valid(const struct wring_problem *problem, const struct wring_grouping *grouping)
{
    uint32_t begin = 0;

    for (uint32_t i = 0; i < grouping->n; begin = grouping->end[i++])
        if (grouping->end[i] <= begin || grouping->end[i] > problem->n_tensors ||
            grouping->option[i] >= problem->n_options ||
            !may_be(problem, begin, grouping->end[i], grouping->option[i]))
            return false;
    return begin == problem->n_tensors;
}
