/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound/bound_flow.h"

#include <float.h>
#include <string.h>

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

/** The two ways on: their blurred maximum. @param share  out: how much of the flow takes `down` */
static inline double soft_max(double down, double along, double blur, double *share)
{
    double apart = down - along;

    if (apart >= blur || apart <= -blur) {
        *share = apart > 0;
        return apart > 0 ? down : along;
    }
    *share = 0.5 + apart / (2 * blur);
    return 0.5 * (down + along) + 0.25 * (apart * apart / blur + blur);
}

/** Values of all cells, last to first. @param share  out, per cell: what goes down from it */
static double values(uint32_t n, uint32_t lanes, const struct wring_edges *length, double blur,
                     double *share)
{
    double after[STRIDE] = {0}, value = 0;

    for (uint32_t i = n; i-- > 0;) {
        const double *down = length->down + (size_t)i * STRIDE;
        const double *along = length->along + ((size_t)i + 1) * STRIDE;
        for (uint32_t lane = lanes; lane-- > 0;) {
            double *part = &share[(size_t)i * STRIDE + lane];
            if (lane + 1 == lanes) {
                *part = 0;
                value = i + 1 < n ? along[lane] + after[lane] : 0;
            } else if (i + 1 == n) {
                *part = 1;
                value = down[lane + 1] + value;
            } else {
                value = soft_max(down[lane + 1] + value, along[lane] + after[lane], blur, part);
            }
            after[lane] = value;
        }
    }
    return value + length->along[0];
}

/** Masses of all edges, first to last. */
static void masses(uint32_t n, uint32_t lanes, const double *share, const struct wring_edges *flow)
{
    wring_edges_zero(n, flow);
    flow->along[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        double *down = flow->down + (size_t)i * STRIDE, *along = flow->along + (size_t)i * STRIDE;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            double here = down[lane] + along[lane];
            double goes_down = here * share[(size_t)i * STRIDE + lane];
            if (lane + 1 < lanes)
                down[lane + 1] = goes_down;
            if (i + 1 < n)
                along[STRIDE + lane] = here - goes_down;
        }
    }
}

double wring_flow_soft(uint32_t n_tensors, uint32_t n_lanes, const struct wring_edges *length,
                       double blur, const struct wring_edges *flow, double *room)
{
    double value = values(n_tensors, n_lanes, length, blur > 0 ? blur : DBL_MIN, room);

    if (flow != NULL)
        masses(n_tensors, n_lanes, room, flow);
    return value;
}

double wring_flow_length(uint32_t n_tensors, const struct wring_edges *flow,
                         const struct wring_edges *length)
{
    double sums[STRIDE] = {0}, sum = 0;

    for (uint32_t i = 0; i < n_tensors; i++)
        for (size_t lane = 0, at = (size_t)i * STRIDE; lane < STRIDE; lane++, at++)
            sums[lane] += flow->down[at] * length->down[at] + flow->along[at] * length->along[at];
    for (uint32_t lane = 0; lane < STRIDE; lane++)
        sum += sums[lane];
    return sum;
}

void wring_edges_blend(uint32_t n_tensors, const struct wring_edges *to, double step,
                       const struct wring_edges *from)
{
    for (size_t at = 0; at < (size_t)n_tensors * STRIDE; at++) {
        from->down[at] += step * (to->down[at] - from->down[at]);
        from->along[at] += step * (to->along[at] - from->along[at]);
    }
}

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
