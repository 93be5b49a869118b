/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a level's links take: allgathers of rising size among its ranks, and the other steps of the
 * planner's options, in rounds. All nodes do it at the same time inside; between nodes one rank of
 * each does. calibrate_puts.c has what puts take by themselves.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/fit.h"
#include "tools/calibrate/calibrate.h"

#define SIZES 9 /* latency, and 4 KiB, 16 KiB, ... 64 MiB to pass a link */
#define ROUNDS_MIN 5
#define PUTS_SHARE 0.3 /* of the time */
#define ROUNDS_MAX 60
#define SLOW_NS (WRING_NS_PER_S / 4) /* larger sizes are left out beyond */

/** The steps; those after the first have every other size. */
enum step {
    ALLGATHER,
    ALLREDUCE,
    REDUCE_SCATTER,
    ALLTOALL,
    BROADCAST,
    STEPS
};

static const char *const names[STEPS] = {"allgather", "allreduce", "reduce-scatter", "alltoall",
                                         "broadcast"};

struct bench {
    struct wring_calibration *job;
    struct wring_group *group; /* NULL: this rank looks on */
    uint32_t members, place;
    uint32_t n; /* sizes */
    uint64_t deadline_ns, late_ns;
    float *data, *into; /* placed; what a member gives lies at its place. All of it is 0 */
    double samples[STEPS][SIZES][ROUNDS_MAX]; /* us */
    uint32_t rounds;
};

/** What a member gives, in elements: one for the latency, else what makes so many bytes pass. */
static uint64_t elems_of(const struct bench *bench, uint32_t size)
{
    if (size == 0)
        return 1;
    uint64_t elems = wring_measure_size(size - 1) / (bench->members - 1);
    return elems > 0 ? elems : 1;
}

static double bytes_of(const struct bench *bench, uint32_t size)
{
    return (double)elems_of(bench, size) * sizeof(float) * (bench->members - 1);
}

/** @param elems  that a member gives to an allgather: whatever the step, as many bytes pass */
static enum wring_status run(const struct bench *bench, enum step step, uint64_t elems)
{
    float *own = bench->data + bench->place * elems;
    uint64_t half = elems > 1 ? elems / 2 : 1;

    switch (step) {
    case ALLREDUCE: /* passes the link twice */
        return wring_allreduce(bench->group, bench->data, half * bench->members, WRING_F32,
                               WRING_SUM, NULL, NULL);
    case REDUCE_SCATTER:
        return wring_reduce_scatter(bench->group, bench->data, own, elems, WRING_F32, WRING_SUM,
                                    NULL, NULL);
    case ALLTOALL:
        return wring_alltoall(bench->group, bench->data, bench->into, elems, WRING_F32, NULL, NULL);
    case BROADCAST:
        return wring_broadcast(bench->group, bench->data,
                               elems * (bench->members - 1) * sizeof(float), 0, NULL, NULL);
    case ALLGATHER:
    case STEPS:
        break;
    }
    return wring_allgather(bench->group, own, bench->data, elems, WRING_F32, NULL, NULL);
}

/** One of them, the slowest rank's time. */
static enum wring_status time_one(struct bench *bench, enum step step, uint32_t size, double *us)
{
    enum wring_status status = wring_barrier(bench->job->world);
    uint64_t began = wring_now_ns();

    if (status == WRING_OK && bench->group != NULL)
        status = run(bench, step, elems_of(bench, size));
    *us = (double)(wring_now_ns() - began) / 1e3;
    if (bench->group == NULL)
        *us = 0;
    return status == WRING_OK ? wring_calibration_slowest(bench->job, us, 1) : status;
}

static bool has_size(enum step step, uint32_t size)
{
    return step == ALLGATHER || size == 0 || size % 2 != 0;
}

/** All memory is touched, and sizes that take too long are left out. */
static enum wring_status warm_up(struct bench *bench)
{
    enum wring_status status = WRING_OK;
    uint32_t sizes = bench->n;
    double us = 0;

    bench->n = 0;
    while (bench->n < sizes && status == WRING_OK && us * 4e3 < (double)SLOW_NS) {
        status = time_one(bench, ALLGATHER, bench->n, &us);
        if (status == WRING_OK)
            status = time_one(bench, ALLGATHER, bench->n++, &us);
    }
    for (int step = ALLREDUCE; step < STEPS && status == WRING_OK; step++)
        status = time_one(bench, (enum step)step, bench->n - 1, &us);
    return status;
}

static enum wring_status run_round(struct bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < bench->n; size++)
        for (int step = 0; step < STEPS && status == WRING_OK; step++)
            if (has_size((enum step)step, size))
                status = time_one(bench, (enum step)step, size,
                                  &bench->samples[step][size][bench->rounds]);
    bench->rounds++;
    return status;
}

/** Is a median not known yet? */
static bool is_in_doubt(struct bench *bench)
{
    for (int step = 0; step < STEPS; step++)
        for (uint32_t size = 0; size < bench->n; size++)
            if (has_size((enum step)step, size) &&
                wring_calibrate_is_in_doubt(bench->samples[step][size], bench->rounds))
                return true;
    return false;
}

/** Until the time is over; as long again for what is in doubt. */
static enum wring_status run_rounds(struct bench *bench)
{
    enum wring_status status = warm_up(bench);
    bool more = true;

    while (status == WRING_OK && more && bench->rounds < ROUNDS_MAX) {
        status = run_round(bench);
        uint64_t now = wring_now_ns();
        more = bench->rounds < ROUNDS_MIN || now < bench->deadline_ns ||
               (now < bench->late_ns && is_in_doubt(bench));
        if (status == WRING_OK)
            status = wring_calibration_agree(bench->job, &more);
    }
    return status;
}

/** What is over the latency; begins with nothing. */
static struct wring_cost without(const struct wring_cost *cost, double latency_us)
{
    struct wring_cost rest = {.n = 1, .slope = cost->slope, .corners = {{0, 0}}};
    double y = 0;

    for (uint32_t i = 0; i < cost->n && rest.n < WRING_COST_CORNERS; i++) {
        if (cost->n == WRING_COST_CORNERS && i == 0)
            continue; /* makes room for the corner at nothing */
        y = fmax(y, cost->corners[i].y - latency_us);
        rest.corners[rest.n].x = cost->corners[i].x;
        rest.corners[rest.n++].y = y;
    }
    return rest;
}

/** A step by itself. */
static enum wring_status fit_step(struct bench *bench, enum step step,
                                  struct wring_profile_routine *out,
                                  struct wring_measure_noise *noise)
{
    struct wring_fit_point points[SIZES];
    struct wring_profile_curve curve, least;
    uint32_t n = 0;

    for (uint32_t i = 0; i < bench->n; i++)
        if (has_size(step, i))
            points[n++] = (struct wring_fit_point){bytes_of(bench, i), bench->samples[step][i],
                                                   bench->rounds};
    for (uint32_t i = 0; i < n; i++)
        wring_calibrate_count(&points[i], noise);
    enum wring_status status = wring_fit_curve(points, 1, &least);
    if (status == WRING_OK)
        status = wring_fit_curve(points + 1, n - 1, &curve);
    if (status != WRING_OK)
        return status;
    snprintf(out->name, sizeof(out->name), "%s", names[step]);
    out->latency_us = least.us.corners[0].y;
    out->latency_trust = least.trust;
    out->us = without(&curve.us, out->latency_us);
    out->trust = curve.trust;
    return WRING_OK;
}

static enum wring_status fit(struct bench *bench, struct wring_profile_link *link,
                             struct wring_measure_noise *noise)
{
    struct wring_profile_routine gathering = {0};

    *noise = (struct wring_measure_noise){0};
    enum wring_status status = fit_step(bench, ALLGATHER, &gathering, noise);
    link->present = true;
    link->latency_us = 2 * gathering.latency_us;
    link->latency_trust = gathering.latency_trust;
    link->us = gathering.us;
    link->trust = gathering.trust;
    link->n_routines = 0;
    for (int step = ALLREDUCE; step < STEPS && status == WRING_OK; step++)
        status = fit_step(bench, (enum step)step, &link->routines[link->n_routines++], noise);
    return status;
}

static enum wring_status measure_level(struct wring_calibration *job, enum wring_level level,
                                       double seconds, struct wring_profile_link *link,
                                       struct wring_measure_noise *noise)
{
    struct wring_measure_noise found = {0};
    struct bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (bench == NULL)
        return status;
    bench->job = job;
    bench->group = job->levels[level];
    bench->members = job->level_ranks[level];
    bench->place = job->place[level];
    bench->deadline_ns = wring_deadline_in((uint64_t)(seconds * 1e9));
    bench->late_ns = bench->deadline_ns + (uint64_t)(seconds * 1e9);
    while (bench->n < SIZES && (bench->n < 3 || elems_of(bench, bench->n) <= job->max_elems))
        bench->n++;
    size_t bytes = elems_of(bench, bench->n - 1) * bench->members * sizeof(float);
    status = wring_buffer_alloc(job->session, bytes, (void **)&bench->data);
    if (status == WRING_OK)
        status = wring_buffer_alloc(job->session, bytes, (void **)&bench->into);
    if (status == WRING_OK)
        memset(bench->data, 0, bytes);
    if (status == WRING_OK)
        status =
            wring_calibration_provider(job, bench->group, link->provider, sizeof(link->provider));
    if (status == WRING_OK)
        status = run_rounds(bench);
    if (status == WRING_OK)
        status = fit(bench, link, &found);
    noise->shaky += found.shaky;
    noise->points += found.points;
    wring_buffer_free(job->session, bench->data);
    wring_buffer_free(job->session, bench->into);
    free(bench);
    return status;
}

enum wring_status wring_calibrate_links(struct wring_calibration *job, double share,
                                        struct wring_profile *profile,
                                        struct wring_measure_noise *noise)
{
    struct wring_profile_link unused = {0};
    enum wring_status status = WRING_OK;
    double levels = (job->level_ranks[0] > 1) + (job->level_ranks[1] > 1);

    for (int level = 0; level < WRING_LEVELS && status == WRING_OK; level++) {
        if (job->level_ranks[level] < 2)
            continue;
        struct wring_profile_link *link = profile != NULL ? &profile->links[level] : &unused;
        double seconds = job->params->seconds * share / levels;
        wring_calibration_tell(job, "links: %s", wring_level_name((enum wring_level)level));
        status =
            measure_level(job, (enum wring_level)level, (1 - PUTS_SHARE) * seconds, link, noise);
        if (status == WRING_OK)
            status = wring_calibrate_puts(job, (enum wring_level)level, PUTS_SHARE * seconds, link,
                                          noise);
    }
    return status;
}
