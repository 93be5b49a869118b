/* SPDX-License-Identifier: Apache-2.0 */
/** What a group takes, and how much of a flow touches it. */
#include <math.h>
#include <string.h>

#include "planner/bound/bound_groups.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

double wring_group_chunks_length(const struct wring_group_took *group, const double *mass,
                                 uint32_t *lane)
{
    double passed = 0, most = -INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 0; i < STRIDE; i++) {
        uint32_t at = group->backwards ? STRIDE - 1 - i : i;
        passed += group->once[at] * mass[at];
        double length = passed + group->more[at] * mass[at];
        if (length > most) {
            most = length;
            best = at;
        }
    }
    if (lane != NULL)
        *lane = best;
    return most;
}

void wring_group_take(const struct wring_group_table *table, uint32_t begin, uint32_t end,
                      uint32_t option, struct wring_group_took *out)
{
    const struct wring_problem *problem = table->problem;
    const struct wring_option_cost *cost = &problem->options[option];
    uint64_t elems = problem->elems[end] - problem->elems[begin];
    uint64_t chunks =
        cost->chunk_elems == 0 ? 1 : (elems + cost->chunk_elems - 1) / cost->chunk_elems;
    double size = (double)elems, chunk = size / (double)chunks;

    *out = (struct wring_group_took){.chunked = chunks > 1, .backwards = problem->backwards};
    for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
        double each = wring_cost_at(&cost->each[lane], chunk);
        double once = wring_cost_at(&cost->once[lane], size);
        out->took[lane] = chunks == 1 ? once + each : each;
        out->once[lane] = chunks == 1 ? 0 : once;
        out->more[lane] = (double)(chunks - 1) * each;
    }
    out->took[wring_problem_computes(problem)] += table->computed[end] - table->computed[begin];
}

void wring_masses_set(uint32_t first, uint32_t n_tensors, const struct wring_edges *flow,
                      const struct wring_masses *masses)
{
    double sum[STRIDE] = {0};

    for (size_t i = first; i < n_tensors; i++)
        for (size_t lane = 0, at = i * STRIDE; lane < STRIDE; lane++, at++) {
            masses->base[at] = flow->along[at] - sum[lane];
            masses->sum[at] = sum[lane];
            sum[lane] += flow->down[at];
        }
    memcpy(masses->sum + (size_t)n_tensors * STRIDE, sum, sizeof(sum));
}
