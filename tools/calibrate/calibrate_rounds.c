/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Rounds of steps: each has all sizes, short ones several times. When the time is over, what is in
 * doubt has as long again, by itself.
 */
#include <math.h>

#include "base/clock.h"
#include "tools/calibrate/calibrate_rounds.h"

#define ROUNDS_MIN 5
#define SLOW_NS (WRING_NS_PER_S / 4) /* larger sizes are left out beyond */
#define REPEATS_MAX 8                /* of a size in a round … */
#define REPEATS_SHARE 0.125          /* … that all take no more than this part of the largest */

uint64_t wring_link_elems(const struct wring_link_bench *bench, uint32_t size)
{
    if (size == 0)
        return 1;
    uint64_t elems = wring_measure_size(size - 1) / (bench->members - 1);
    return elems > 0 ? elems : 1;
}

double wring_link_bytes(const struct wring_link_bench *bench, uint32_t size)
{
    return (double)wring_link_elems(bench, size) * sizeof(float) * (bench->members - 1);
}

/** @param elems  that a member gives to an allgather: whatever the step, as many bytes pass */
static enum wring_status run(const struct wring_link_bench *bench, enum wring_link_step step,
                             uint64_t elems)
{
    float *own = bench->data + bench->place * elems;
    uint64_t half = elems > 1 ? elems / 2 : 1;

    switch (step) {
    case WRING_LINK_ALLREDUCE: /* passes the link twice */
        return wring_allreduce(bench->group, bench->data, bench->data, half * bench->members,
                               WRING_F32, WRING_SUM, NULL, NULL);
    case WRING_LINK_REDUCE_SCATTER:
        return wring_reduce_scatter(bench->group, bench->data, own, elems, WRING_F32, WRING_SUM,
                                    NULL, NULL);
    case WRING_LINK_ALLTOALL:
        return wring_alltoall(bench->group, bench->data, bench->into, elems, WRING_F32, NULL, NULL);
    case WRING_LINK_BROADCAST:
        return wring_broadcast(bench->group, bench->data,
                               elems * (bench->members - 1) * sizeof(float), 0, NULL, NULL);
    case WRING_LINK_ALLGATHER:
    case WRING_LINK_STEPS:
        break;
    }
    return wring_allgather(bench->group, own, bench->data, elems, WRING_F32, NULL, NULL);
}

/** One of them, the slowest rank's time. */
static enum wring_status time_one(struct wring_link_bench *bench, enum wring_link_step step,
                                  uint32_t size, double *us)
{
    enum wring_status status = wring_barrier(bench->job->world, NULL, NULL);
    uint64_t began = wring_now_ns();

    if (status == WRING_OK && bench->group != NULL)
        status = run(bench, step, wring_link_elems(bench, size));
    *us = (double)(wring_now_ns() - began) / 1e3;
    if (bench->group == NULL)
        *us = 0;
    return status == WRING_OK ? wring_calibration_slowest(bench->job, us, 1) : status;
}

bool wring_link_has_size(enum wring_link_step step, uint32_t size)
{
    return step == WRING_LINK_ALLGATHER || size == 0 || size % 2 != 0;
}

/** All memory is touched, sizes that take too long are left out, and short ones have repeats. */
static enum wring_status warm_up(struct wring_link_bench *bench)
{
    enum wring_status status = WRING_OK;
    uint32_t sizes = bench->n;
    double us[WRING_LINK_SIZES] = {0};

    bench->n = 0;
    while (bench->n < sizes && status == WRING_OK &&
           (bench->n == 0 || us[bench->n - 1] * 4e3 < (double)SLOW_NS)) {
        status = time_one(bench, WRING_LINK_ALLGATHER, bench->n, &us[bench->n]);
        if (status == WRING_OK)
            status = time_one(bench, WRING_LINK_ALLGATHER, bench->n, &us[bench->n]);
        bench->n++;
    }
    for (uint32_t i = 0; i < bench->n; i++) {
        double fit = REPEATS_SHARE * us[bench->n - 1] / fmax(us[i], 1);
        bench->repeats[i] = fit < 1 ? 1 : fit > REPEATS_MAX ? REPEATS_MAX : (uint32_t)fit;
    }
    for (int step = WRING_LINK_ALLREDUCE; step < WRING_LINK_STEPS && status == WRING_OK; step++)
        status = time_one(bench, (enum wring_link_step)step, bench->n - 1, &us[0]);
    return status;
}

/** Is the median of a step with a size not known yet? */
static bool is_in_doubt(struct wring_link_bench *bench, enum wring_link_step step, uint32_t size)
{
    return wring_link_has_size(step, size) &&
           bench->samples_n[step][size] < WRING_LINK_SAMPLES_MAX &&
           wring_calibrate_is_in_doubt(bench->samples[step][size], bench->samples_n[step][size]);
}

static bool is_any_in_doubt(struct wring_link_bench *bench)
{
    for (int step = 0; step < WRING_LINK_STEPS; step++)
        for (uint32_t size = 0; size < bench->n; size++)
            if (is_in_doubt(bench, (enum wring_link_step)step, size))
                return true;
    return false;
}

static enum wring_status time_some(struct wring_link_bench *bench, enum wring_link_step step,
                                   uint32_t size)
{
    uint32_t *n = &bench->samples_n[step][size];
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0;
         i < bench->repeats[size] && *n < WRING_LINK_SAMPLES_MAX && status == WRING_OK; i++) {
        status = time_one(bench, step, size, &bench->samples[step][size][*n]);
        *n += status == WRING_OK;
    }
    return status;
}

/** @param doubtful  only what is in doubt */
static enum wring_status run_round(struct wring_link_bench *bench, bool doubtful)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < bench->n; size++)
        for (int step = 0; step < WRING_LINK_STEPS && status == WRING_OK; step++)
            if (wring_link_has_size((enum wring_link_step)step, size) &&
                (!doubtful || is_in_doubt(bench, (enum wring_link_step)step, size)))
                status = time_some(bench, (enum wring_link_step)step, size);
    bench->rounds++;
    return status;
}

/** All ranks go on as long as rank 0 has time. */
static enum wring_status agree_on_time(struct wring_link_bench *bench, uint64_t until_ns,
                                       bool *more)
{
    *more = bench->rounds < WRING_LINK_SAMPLES_MAX &&
            (bench->rounds < ROUNDS_MIN || wring_now_ns() < until_ns);
    return wring_calibration_agree(bench->job, more);
}

enum wring_status wring_link_rounds(struct wring_link_bench *bench)
{
    enum wring_status status = warm_up(bench);
    bool more = true;

    while (status == WRING_OK && more) {
        status = run_round(bench, false);
        if (status == WRING_OK)
            status = agree_on_time(bench, bench->deadline_ns, &more);
    }
    more = true;
    while (status == WRING_OK && more && is_any_in_doubt(bench)) {
        status = run_round(bench, true);
        if (status == WRING_OK)
            status = agree_on_time(bench, bench->late_ns, &more);
    }
    return status;
}
