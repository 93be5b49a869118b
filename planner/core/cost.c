/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/cost.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

struct wring_cost wring_cost_line(double fixed, double slope)
{
    return (struct wring_cost){.n = 1, .slope = slope, .corners = {{0, fixed}}};
}

struct wring_cost wring_cost_scale(const struct wring_cost *cost, double a, double b)
{
    struct wring_cost scaled = *cost;

    scaled.slope = a * b * cost->slope;
    for (uint32_t i = 0; i < cost->n; i++) {
        scaled.corners[i].x = cost->corners[i].x / b;
        scaled.corners[i].y = a * cost->corners[i].y;
    }
    return scaled;
}

/** All x of both, rising, each once. @return how many */
static uint32_t merge_corners(const struct wring_cost *a, const struct wring_cost *b, double *x)
{
    uint32_t n = 0, i = 0, j = 0;

    while (i < a->n || j < b->n) {
        double next_a = i < a->n ? a->corners[i].x : DBL_MAX;
        double next_b = j < b->n ? b->corners[j].x : DBL_MAX;
        x[n++] = next_a < next_b ? next_a : next_b;
        i += next_a <= next_b;
        j += next_b <= next_a;
    }
    return n;
}

/** How far a corner lies from the line through its neighbours. */
static double measure_bend(const double *x, const double *y, uint32_t i)
{
    double line = y[i - 1] + (y[i + 1] - y[i - 1]) * (x[i] - x[i - 1]) / (x[i + 1] - x[i - 1]);
    return line < y[i] ? y[i] - line : line - y[i];
}

/** Drop the inner corner that bends least. @return how many are left */
static uint32_t drop_corner(double *x, double *y, uint32_t n)
{
    uint32_t least = 1;

    for (uint32_t i = 2; i + 1 < n; i++)
        if (measure_bend(x, y, i) < measure_bend(x, y, least))
            least = i;
    memmove(x + least, x + least + 1, (n - least - 1) * sizeof(*x));
    memmove(y + least, y + least + 1, (n - least - 1) * sizeof(*y));
    return n - 1;
}

/** A cost through n points, rising in x; as many corners as there may be. */
static struct wring_cost make_cost_through(double *x, double *y, uint32_t n, double slope)
{
    struct wring_cost cost = {.slope = slope};

    while (n > WRING_COST_CORNERS)
        n = drop_corner(x, y, n);
    cost.n = n;
    for (uint32_t i = 0; i < n; i++) {
        cost.corners[i].x = x[i];
        cost.corners[i].y = y[i];
    }
    return cost;
}

struct wring_cost wring_cost_add(const struct wring_cost *a, const struct wring_cost *b)
{
    double x[2 * WRING_COST_CORNERS], y[2 * WRING_COST_CORNERS];
    uint32_t n = merge_corners(a, b, x);

    for (uint32_t i = 0; i < n; i++)
        y[i] = wring_cost_at(a, x[i]) + wring_cost_at(b, x[i]);
    return make_cost_through(x, y, n, (a->n ? a->slope : 0) + (b->n ? b->slope : 0));
}

/** The x at which a cost that begins below y reaches it; DBL_MAX where it never does. */
static double find_x_reaching(const struct wring_cost *cost, double y)
{
    for (uint32_t i = 1; i < cost->n; i++)
        if (cost->corners[i].y >= y) {
            double x = cost->corners[i - 1].x, rise = cost->corners[i].y - cost->corners[i - 1].y;
            return x + (y - cost->corners[i - 1].y) * (cost->corners[i].x - x) / rise;
        }
    if (!(cost->slope > 0))
        return DBL_MAX;
    return cost->corners[cost->n - 1].x + (y - cost->corners[cost->n - 1].y) / cost->slope;
}

struct wring_cost wring_cost_of(const struct wring_cost *outer, const struct wring_cost *inner)
{
    struct wring_cost bends = {.slope = 0}; /* where inner reaches a corner of outer */
    double x[2 * WRING_COST_CORNERS], y[2 * WRING_COST_CORNERS];

    if (outer->n == 0 || inner->n == 0)
        return (struct wring_cost){.n = 0};
    for (uint32_t i = 0; i < outer->n; i++) {
        if (outer->corners[i].x <= inner->corners[0].y)
            continue;
        double at = find_x_reaching(inner, outer->corners[i].x);
        if (at < DBL_MAX)
            bends.corners[bends.n++].x = at;
    }
    uint32_t n = merge_corners(inner, &bends, x);
    for (uint32_t i = 0; i < n; i++)
        y[i] = wring_cost_at(outer, wring_cost_at(inner, x[i]));
    return make_cost_through(x, y, n, outer->slope * inner->slope);
}

struct wring_cost wring_cost_continue(const struct wring_cost *small, double at,
                                      const struct wring_cost *large)
{
    double x[2 * WRING_COST_CORNERS + 1], y[2 * WRING_COST_CORNERS + 1];
    uint32_t n = 0;

    if (small->n == 0 || large->n == 0)
        return small->n == 0 ? *large : *small;
    for (uint32_t i = 0; i < small->n && small->corners[i].x < at; i++) {
        x[n] = small->corners[i].x;
        y[n++] = small->corners[i].y;
    }
    x[n] = at;
    y[n++] = wring_cost_at(small, at);
    for (uint32_t i = 0; i < large->n; i++) {
        if (large->corners[i].x <= at)
            continue;
        x[n] = large->corners[i].x;
        y[n] = large->corners[i].y > y[n - 1] ? large->corners[i].y : y[n - 1];
        n++;
    }
    return make_cost_through(x, y, n, large->slope);
}

bool wring_cost_below(const struct wring_cost *a, const struct wring_cost *b)
{
    double x[2 * WRING_COST_CORNERS];
    uint32_t n = merge_corners(a, b, x);

    for (uint32_t i = 0; i < n; i++)
        if (wring_cost_at(a, x[i]) > wring_cost_at(b, x[i]))
            return false;
    return (a->n ? a->slope : 0) <= (b->n ? b->slope : 0);
}
