/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/search/beam_stop.h"

#include <float.h>

#include "planner/two_doubles.h"

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

/**
 * Which of two labels that stand side by side are later than `lanes` on some lane? Most are on the
 * first or the second.
 * @param at, stride  the labels, and pairs from one lane to the next
 */
static int which_later(const wring_pair *at, uint32_t stride, const wring_pair *lanes,
                       const wring_pair *end)
{
    int later = wring_pair_above(*at, *lanes);

    while (later != 3 && ++lanes < end)
        later |= wring_pair_above(*(at += stride), *lanes);
    return later;
}

static int which_earlier(const wring_pair *at, uint32_t stride, const wring_pair *lanes,
                         const wring_pair *end)
{
    int earlier = wring_pair_above(*lanes, *at);

    while (earlier != 3 && ++lanes < end)
        earlier |= wring_pair_above(*lanes, *(at += stride));
    return earlier;
}

/** Is some label no later than `lanes`, on any lane? */
static bool is_beaten(struct wring_beam_stop *stop, const wring_pair *lanes)
{
    const wring_pair *first = (const wring_pair *)stop->lanes, *end = lanes + stop->n_lanes;
    uint32_t stride = stop->width / 2, pairs = stop->n / 2;

    if (stop->beat < pairs && which_later(first + stop->beat, stride, lanes, end) != 3)
        return true;
    for (uint32_t i = 0; i < pairs; i++)
        if (which_later(first + i, stride, lanes, end) != 3) {
            stop->beat = i;
            return true;
        }
    return stop->n % 2 != 0 && (which_later(first + pairs, stride, lanes, end) & 1) == 0;
}

static void move_label(struct wring_beam_stop *stop, uint32_t from, uint32_t to)
{
    for (uint32_t lane = 0; lane < stop->n_lanes; lane++)
        stop->lanes[lane * stop->width + to] = stop->lanes[lane * stop->width + from];
    stop->worth[to] = stop->worth[from];
    stop->origin[to] = stop->origin[from];
}

/** Drop labels that are no earlier than `lanes`, on any lane; the last of all takes their place. */
static void drop_beaten(struct wring_beam_stop *stop, const wring_pair *lanes)
{
    const wring_pair *first = (const wring_pair *)stop->lanes, *end = lanes + stop->n_lanes;
    uint32_t stride = stop->width / 2, pair = stop->n / 2;

    if (stop->n % 2 != 0 && (which_earlier(first + pair, stride, lanes, end) & 1) == 0)
        stop->n--;
    while (pair-- > 0) {
        int earlier = which_earlier(first + pair, stride, lanes, end);
        if ((earlier & 2) == 0)
            move_label(stop, --stop->n, 2 * pair + 1);
        if ((earlier & 1) == 0)
            move_label(stop, --stop->n, 2 * pair);
    }
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
    wring_pair twice[WRING_PLAN_LANES_MAX];

    for (uint32_t lane = 0; lane < stop->n_lanes; lane++)
        twice[lane] = (wring_pair){lanes[lane], lanes[lane]};
    if (is_beaten(stop, twice))
        return false;
    drop_beaten(stop, twice);
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
