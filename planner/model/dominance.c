/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/dominance.h"

/* sums that were added up in another order */
#define ROUNDING 1e-12

static bool not_above(double a, double b)
{
    return a <= b + ROUNDING * b;
}

static bool not_above_at(const struct wring_cost *a, const struct wring_cost *b,
                         const struct wring_cost *corners)
{
    for (uint32_t i = 0; i < corners->n; i++) {
        double x = corners->corners[i].x;
        if (!not_above(wring_cost_at(a, x), wring_cost_at(b, x)))
            return false;
    }
    return true;
}

/** Between corners both are straight, so that the corners of both decide, and the last slopes. */
static bool below(const struct wring_cost *a, const struct wring_cost *b)
{
    if (a->n == 0)
        return true;
    if (b->n == 0)
        return wring_cost_below(a, b);
    return not_above(a->slope, b->slope) && not_above_at(a, b, a) && not_above_at(a, b, b);
}

bool wring_dominates(const struct wring_option_cost *a, const struct wring_option_cost *b,
                     uint32_t n_lanes)
{
    if (a->chunk_elems != b->chunk_elems)
        return false;
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        if (!below(&a->each[lane], &b->each[lane]) || !below(&a->once[lane], &b->once[lane]))
            return false;
    return true;
}
