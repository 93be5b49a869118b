/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/bound/flow.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

void wring_edges_copy(uint32_t n_tensors, const struct wring_edges *from,
                      const struct wring_edges *to)
{
    memcpy(to->down, from->down, (size_t)n_tensors * STRIDE * sizeof(double));
    memcpy(to->along, from->along, (size_t)n_tensors * STRIDE * sizeof(double));
}

void wring_edges_zero(uint32_t n_tensors, const struct wring_edges *edges)
{
    memset(edges->down, 0, (size_t)n_tensors * STRIDE * sizeof(double));
    memset(edges->along, 0, (size_t)n_tensors * STRIDE * sizeof(double));
}

/* ---- reverse ---- */

static void reverse_option(const struct wring_option_cost *from, uint32_t n_lanes,
                           struct wring_option_cost *to)
{
    *to = (struct wring_option_cost){.chunk_elems = from->chunk_elems};
    for (uint32_t lane = 0; lane < n_lanes; lane++) {
        to->once[lane] = from->once[n_lanes - 1 - lane];
        to->each[lane] = from->each[n_lanes - 1 - lane];
    }
}

static void reverse_tensors(const struct wring_problem *problem, double *compute_us,
                            uint64_t *elems, uint64_t *allowed)
{
    uint32_t n = problem->n_tensors, words = wring_problem_words(problem);

    for (uint32_t i = 0; i < n; i++) {
        compute_us[i] = problem->compute_us[n - 1 - i];
        if (problem->allowed != NULL)
            memcpy(allowed + (size_t)i * words, problem->allowed + (size_t)(n - 1 - i) * words,
                   words * sizeof(*allowed));
    }
    for (uint32_t i = 0; i <= n; i++)
        elems[i] = problem->elems[n] - problem->elems[n - i];
}

enum wring_status wring_reversed_init(struct wring_reversed *reversed,
                                      const struct wring_problem *problem)
{
    size_t n = problem->n_tensors,
           words = problem->allowed == NULL ? 0 : wring_problem_words(problem);
    struct wring_option_cost *options =
        calloc(1, problem->n_options * sizeof(*options) + n * sizeof(double) +
                      (n + 1 + n * words) * sizeof(uint64_t));

    *reversed = (struct wring_reversed){.problem = *problem, .memory = options};
    if (options == NULL)
        return WRING_ERR_NO_MEMORY;
    double *compute_us = (double *)(options + problem->n_options);
    uint64_t *elems = (uint64_t *)(compute_us + n), *allowed = elems + n + 1;

    for (uint32_t option = 0; option < problem->n_options; option++)
        reverse_option(&problem->options[option], problem->n_lanes, &options[option]);
    reverse_tensors(problem, compute_us, elems, allowed);
    reversed->problem.options = options;
    reversed->problem.compute_us = compute_us;
    reversed->problem.elems = elems;
    reversed->problem.allowed = problem->allowed == NULL ? NULL : allowed;
    reversed->problem.backwards = !problem->backwards;
    return WRING_OK;
}

void wring_reversed_finish(struct wring_reversed *reversed)
{
    free(reversed->memory);
    reversed->memory = NULL;
}

void wring_grouping_reverse(struct wring_grouping *grouping)
{
    uint32_t n = grouping->n, *end = grouping->end, *option = grouping->option;

    if (n == 0)
        return;
    uint32_t n_tensors = end[n - 1];
    for (uint32_t low = 0, high = n - 1; low < high; low++, high--) {
        uint32_t keep = option[low];
        option[low] = option[high];
        option[high] = keep;
    }
    for (uint32_t low = 0, high = n - 2; n > 1 && low <= high && high < n; low++, high--) {
        uint32_t keep = end[low];
        end[low] = n_tensors - end[high];
        end[high] = n_tensors - keep;
    }
}
