/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/search/beam_block.h"

enum {
    PAIRS = WRING_BEAM_PAIRS
};

/* Of a label's worth: the mean lane's. */
static const double blur = 3e-3;

void wring_beam_task_finish(struct wring_beam_task *task, uint32_t n_lanes)
{
    for (uint32_t first = 0; task->task.more > 0 && first < n_lanes; first++) {
        double sum = 0, longest = 0;
        for (uint32_t last = first; last < n_lanes; last++) {
            sum += task->task.each[last];
            longest = wring_later(longest, task->task.each[last]);
            task->way[first][last] = sum + (task->task.more - 1) * longest;
        }
    }
}

static void advance(uint32_t n_lanes, const double *took, const wring_pair *before, uint32_t stride,
                    wring_pair *after)
{
    wring_pair left[PAIRS] = {0};

    for (uint32_t lane = 0; lane < n_lanes; lane++, before += stride, after += PAIRS) {
        wring_pair us = {took[lane], took[lane]};
        for (uint32_t i = 0; i < PAIRS; i++)
            after[i] = left[i] = wring_pair_later(before[i], left[i]) + us;
    }
}

static void retreat(uint32_t n_lanes, const double *took, const wring_pair *after, uint32_t stride,
                    wring_pair *before)
{
    wring_pair left[PAIRS] = {0};

    for (uint32_t lane = n_lanes; lane-- > 0;) {
        wring_pair us = {took[lane], took[lane]};
        for (uint32_t i = 0; i < PAIRS; i++)
            before[lane * PAIRS + i] = left[i] =
                wring_pair_later(after[lane * stride + i], left[i]) + us;
    }
}

/** to = the later of `to` and `from` + us, lane of a block by lane. */
static void join(wring_pair *to, const wring_pair *from, double us)
{
    wring_pair pair = {us, us};

    for (uint32_t i = 0; i < PAIRS; i++)
        to[i] = wring_pair_later(to[i], from[i] + pair);
}

/** Chunks after the first; from the last lane on, whose heads no other lane's need. */
static void advance_more(uint32_t n_lanes, const struct wring_beam_task *task, wring_pair *heads)
{
    for (uint32_t last = n_lanes; last-- > 0;) {
        join(heads + last * PAIRS, heads + last * PAIRS, task->way[last][last]);
        for (uint32_t first = 0; first < last; first++)
            join(heads + last * PAIRS, heads + first * PAIRS, task->way[first][last]);
    }
}

static void retreat_more(uint32_t n_lanes, const struct wring_beam_task *task, wring_pair *tails)
{
    for (uint32_t first = 0; first < n_lanes; first++) {
        join(tails + first * PAIRS, tails + first * PAIRS, task->way[first][first]);
        for (uint32_t last = first + 1; last < n_lanes; last++)
            join(tails + first * PAIRS, tails + last * PAIRS, task->way[first][last]);
    }
}

static void retreat_all(uint32_t n_lanes, const struct wring_beam_task *task,
                        const wring_pair *after, uint32_t stride, wring_pair *before)
{
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        for (uint32_t i = 0; i < PAIRS; i++)
            before[lane * PAIRS + i] = after[lane * stride + i];
    retreat_more(n_lanes, task, before);
    retreat(n_lanes, task->task.took, before, PAIRS, before);
}

void wring_beam_block_step(uint32_t n_lanes, const struct wring_beam_task *task, bool backward,
                           const wring_pair *from, uint32_t stride, wring_pair *to)
{
    if (backward && task->task.more > 0) {
        retreat_all(n_lanes, task, from, stride, to);
    } else if (backward) {
        retreat(n_lanes, task->task.took, from, stride, to);
    } else {
        advance(n_lanes, task->task.took, from, stride, to);
        if (task->task.more > 0)
            advance_more(n_lanes, task, to);
    }
}

wring_pair wring_beam_worth(uint32_t n_lanes, const struct wring_two_times *times)
{
    double mean = blur / n_lanes;

    return times->most + (wring_pair){mean, mean} * times->sum;
}

void wring_beam_block_measure(uint32_t n_lanes, const wring_pair *lanes, const double *other,
                              uint32_t stride, double *worth)
{
    struct wring_two_times times[PAIRS] = {0};

    for (uint32_t lane = 0; lane < n_lanes; lane++, lanes += PAIRS, other += stride) {
        wring_pair left = {*other, *other};
        for (uint32_t i = 0; i < PAIRS; i++) {
            wring_pair time = lanes[i] + left;
            times[i].most = wring_pair_later(times[i].most, time);
            times[i].sum += time;
        }
    }
    for (uint32_t i = 0; i < PAIRS; i++)
        wring_pair_store(worth + 2 * i, wring_beam_worth(n_lanes, &times[i]));
}
