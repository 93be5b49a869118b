/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/problem.h"

uint64_t wring_problem_group(const struct wring_problem *problem, uint32_t begin, uint32_t end,
                             uint32_t option, double *once, double *each)
{
    const struct wring_option_cost *cost = &problem->options[option];
    uint64_t elems = problem->elems[end] - problem->elems[begin];
    uint64_t chunks =
        cost->chunk_elems == 0 ? 1 : (elems + cost->chunk_elems - 1) / cost->chunk_elems;
    double chunk_elems = (double)elems / (double)chunks;

    for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
        once[lane] = wring_cost_at(&cost->once[lane], (double)elems);
        each[lane] = wring_cost_at(&cost->each[lane], chunk_elems);
    }
    for (uint32_t i = begin; i < end; i++)
        once[wring_problem_computes(problem)] += problem->compute_us[i];
    return chunks;
}

/** More equal chunks, after the first. */
static void advance_chunks(uint32_t n_lanes, double chunks, const double *each, double *ends)
{
    double before[WRING_PLAN_LANES_MAX];

    for (uint32_t lane = 0; lane < n_lanes; lane++)
        before[lane] = ends[lane];
    for (uint32_t last = 0; last < n_lanes; last++) {
        double sum = 0, longest = 0;
        for (uint32_t first = last + 1; first-- > 0;) {
            sum += each[first];
            longest = each[first] > longest ? each[first] : longest;
            double end = before[first] + sum + (chunks - 1) * longest;
            ends[last] = end > ends[last] ? end : ends[last];
        }
    }
}

void wring_problem_advance(const struct wring_problem *problem, uint64_t chunks, const double *once,
                           const double *each, double *ends)
{
    double left = 0; /* when the lane before is done */

    if (chunks > 1 && problem->backwards)
        advance_chunks(problem->n_lanes, (double)(chunks - 1), each, ends);
    for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
        double begin = ends[lane] > left ? ends[lane] : left;
        left = ends[lane] = begin + once[lane] + each[lane];
    }
    if (chunks > 1 && !problem->backwards)
        advance_chunks(problem->n_lanes, (double)(chunks - 1), each, ends);
}

double wring_problem_time(const struct wring_problem *problem,
                          const struct wring_grouping *grouping)
{
    double ends[WRING_PLAN_LANES_MAX] = {0}, once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX];
    uint32_t begin = 0;

    for (uint32_t group = 0; group < grouping->n; group++) {
        uint64_t chunks = wring_problem_group(problem, begin, grouping->end[group],
                                              grouping->option[group], once, each);
        wring_problem_advance(problem, chunks, once, each, ends);
        begin = grouping->end[group];
    }
    return ends[problem->n_lanes - 1];
}
