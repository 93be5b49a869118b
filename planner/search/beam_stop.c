/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/search/beam_stop.h"

#include <float.h>

void wring_beam_stop_clear(struct wring_beam_stop *stop)
{
    stop->n = 0;
    stop->limit = DBL_MAX;
}

static void put_lanes(struct wring_beam_stop *stop, uint32_t at, const double *lanes)
{
    for (uint32_t lane = 0; lane < stop->n_lanes; lane++)
        stop->lanes[lane * stop->width + at] = lanes[lane];
}

void wring_beam_stop_leave(struct wring_beam_stop *stop, const double *lanes)
{
    if (stop->n == stop->width)
        return;
    put_lanes(stop, stop->n, lanes);
    stop->worth[stop->n] = 0;
    stop->origin[stop->n] = (struct wring_beam_origin){0};
    stop->n++;
}

/** Is label i no later than `lanes`, on any lane? */
static bool no_later(const struct wring_beam_stop *stop, uint32_t i, const double *lanes)
{
    for (uint32_t lane = 0; lane < stop->n_lanes; lane++)
        if (stop->lanes[lane * stop->width + i] > lanes[lane])
            return false;
    return true;
}

static bool no_earlier(const struct wring_beam_stop *stop, uint32_t i, const double *lanes)
{
    for (uint32_t lane = 0; lane < stop->n_lanes; lane++)
        if (stop->lanes[lane * stop->width + i] < lanes[lane])
            return false;
    return true;
}

static void move_label(struct wring_beam_stop *stop, uint32_t from, uint32_t to)
{
    for (uint32_t lane = 0; lane < stop->n_lanes; lane++)
        stop->lanes[lane * stop->width + to] = stop->lanes[lane * stop->width + from];
    stop->worth[to] = stop->worth[from];
    stop->origin[to] = stop->origin[from];
}

static void find_worst(struct wring_beam_stop *stop)
{
    stop->worst = 0;
    for (uint32_t i = 1; i < stop->n; i++)
        if (stop->worth[i] > stop->worth[stop->worst])
            stop->worst = i;
    stop->limit = stop->worth[stop->worst];
}

bool wring_beam_stop_keep(struct wring_beam_stop *stop, const double *lanes, double worth,
                          struct wring_beam_origin origin)
{
    for (uint32_t i = 0; i < stop->n; i++)
        if (no_later(stop, i, lanes))
            return false;
    for (uint32_t i = stop->n; i-- > 0;)
        if (no_earlier(stop, i, lanes))
            move_label(stop, --stop->n, i);
    bool full = stop->n == stop->width;
    uint32_t at = full ? stop->worst : stop->n++;
    put_lanes(stop, at, lanes);
    stop->worth[at] = worth;
    stop->origin[at] = origin;
    stop->limit = DBL_MAX;
    if (stop->n == stop->width)
        find_worst(stop);
    return full;
}

void wring_beam_stop_finish(struct wring_beam_stop *stop)
{
    stop->best = 0;
    for (uint32_t i = 1; i < stop->n; i++)
        if (stop->worth[i] < stop->worth[stop->best])
            stop->best = i;
    for (uint32_t lane = 0; lane < stop->n_lanes; lane++) {
        const double *lanes = stop->lanes + lane * stop->width;
        stop->least[lane] = lanes[0];
        for (uint32_t i = 1; i < stop->n; i++)
            stop->least[lane] = lanes[i] < stop->least[lane] ? lanes[i] : stop->least[lane];
    }
}
