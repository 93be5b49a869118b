/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Costs: what a task takes, by its size. Piecewise linear, never falling, so that two options can
 * be compared at their corners alone.
 *
 * Plain values; threads: safe.
 */
#ifndef WRING_PLANNER_COST_H
#define WRING_PLANNER_COST_H

#include <stdbool.h>
#include <stdint.h>

#define WRING_COST_CORNERS 8

/**
 * A line through corners, rising in x; level before the first one, beyond the last on with `slope`.
 * n = 0 costs nothing at any size, slope or not.
 */
struct wring_cost {
    uint32_t n;
    double slope; /* per unit of x beyond the last corner; not negative */
    struct {
        double x; /* elements or bytes, as its owner says */
        double y; /* microseconds or bytes, likewise; not negative, never falling */
    } corners[WRING_COST_CORNERS];
};

/** fixed + slope · x. */
struct wring_cost wring_cost_line(double fixed, double slope);

/** The cost at x ≥ 0. */
static inline double wring_cost_at(const struct wring_cost *cost, double x)
{
    uint32_t n = cost->n, i = 0;

    if (n == 0)
        return 0;
    while (i < n && cost->corners[i].x <= x)
        i++;
    if (i == 0)
        return cost->corners[0].y;
    double over = x - cost->corners[i - 1].x, y = cost->corners[i - 1].y;
    if (i == n)
        return y + over * cost->slope;
    return y + over * (cost->corners[i].y - y) / (cost->corners[i].x - cost->corners[i - 1].x);
}

/** a · cost(b · x): a times the task, b of its owner's size each. a ≥ 0, b > 0. */
struct wring_cost wring_cost_scale(const struct wring_cost *cost, double a, double b);

/**
 * One task after another. Exact while both have WRING_COST_CORNERS different corners or fewer
 * together; else corners go whose loss changes the sum least.
 */
struct wring_cost wring_cost_add(const struct wring_cost *a, const struct wring_cost *b);

/**
 * outer(inner(x)): the time of bytes that are a function of elements. Exact while the corners of
 * both fit, as with wring_cost_add().
 */
struct wring_cost wring_cost_of(const struct wring_cost *outer, const struct wring_cost *inner);

/** `small` as far as x = at, and `large` beyond, where that is more; likewise exact. at ≥ 0; where
 * one of them costs nothing, it is the other. */
struct wring_cost wring_cost_continue(const struct wring_cost *small, double at,
                                      const struct wring_cost *large);

/** Is a ≤ b at every x ≥ 0? */
bool wring_cost_below(const struct wring_cost *a, const struct wring_cost *b);

#endif
