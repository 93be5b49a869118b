/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a level's links take: allgathers of rising size among its ranks, in rounds. All nodes do it
 * at the same time inside; between nodes one rank of each does.
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
#define ROUNDS_MAX 60
#define SLOW_NS (WRING_NS_PER_S / 4) /* larger sizes are left out beyond */

struct bench {
    struct wring_calibration *job;
    struct wring_group *group; /* NULL: this rank looks on */
    uint32_t members, place;
    uint32_t n; /* sizes */
    uint64_t deadline_ns;
    float *data;                       /* placed; what a member gives lies at its place */
    double samples[SIZES][ROUNDS_MAX]; /* us */
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

/** One allgather, the slowest rank's time. */
static enum wring_status time_one(struct bench *bench, uint32_t size, double *us)
{
    uint64_t elems = elems_of(bench, size);
    enum wring_status status = wring_barrier(bench->job->world);
    uint64_t began = wring_now_ns();

    if (status == WRING_OK && bench->group != NULL)
        status = wring_allgather(bench->group, bench->data + bench->place * elems, bench->data,
                                 elems, WRING_F32, NULL, NULL);
    *us = (double)(wring_now_ns() - began) / 1e3;
    if (bench->group == NULL)
        *us = 0;
    return status == WRING_OK ? wring_calibration_slowest(bench->job, us, 1) : status;
}

/** All memory is touched, and sizes that take too long are left out. */
static enum wring_status warm_up(struct bench *bench)
{
    enum wring_status status = WRING_OK;
    uint32_t sizes = bench->n;
    double us = 0;

    bench->n = 0;
    while (bench->n < sizes && status == WRING_OK && us * 4e3 < (double)SLOW_NS) {
        status = time_one(bench, bench->n, &us);
        if (status == WRING_OK)
            status = time_one(bench, bench->n++, &us);
    }
    return status;
}

static enum wring_status run_rounds(struct bench *bench)
{
    enum wring_status status = warm_up(bench);
    bool more = true;

    while (status == WRING_OK && more && bench->rounds < ROUNDS_MAX) {
        for (uint32_t size = 0; size < bench->n && status == WRING_OK; size++)
            status = time_one(bench, size, &bench->samples[size][bench->rounds]);
        bench->rounds++;
        more = bench->rounds < ROUNDS_MIN || wring_now_ns() < bench->deadline_ns;
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

static enum wring_status fit(struct bench *bench, struct wring_profile_link *link,
                             struct wring_measure_noise *noise)
{
    struct wring_fit_point points[SIZES];
    struct wring_profile_curve curve;

    *noise = (struct wring_measure_noise){0};
    for (uint32_t i = 0; i < bench->n; i++)
        points[i] = (struct wring_fit_point){bytes_of(bench, i), bench->samples[i], bench->rounds};
    double step_us = wring_fit_look(&points[0]).median;
    enum wring_status status = wring_fit_curve(points + 1, bench->n - 1, &curve);
    if (status != WRING_OK)
        return status;
    link->present = true;
    link->latency_us = 2 * step_us;
    link->us = without(&curve.us, step_us);
    link->trust = curve.trust;
    for (uint32_t i = 0; i < bench->n; i++)
        wring_calibrate_count(&points[i], noise);
    return WRING_OK;
}

/** How this group's members reach each other; every rank takes part in the commits. */
static enum wring_status find_provider(struct bench *bench, char *text, size_t bytes)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    enum wring_status status = WRING_OK;

    params.name = "calibrate.link";
    params.data = bench->data;
    params.elems = 1;
    params.group = bench->group;
    if (bench->group != NULL)
        status = wring_bucket_register(bench->job->session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(bench->job->session);
    if (status == WRING_OK && bucket != NULL)
        status = wring_bucket_stats(bucket, &stats);
    if (status == WRING_OK && bucket != NULL) {
        snprintf(text, bytes, "%.31s", stats.provider);
        status = wring_bucket_drop(bucket);
    }
    return status == WRING_OK ? wring_session_commit(bench->job->session) : status;
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
    while (bench->n < SIZES && (bench->n < 3 || elems_of(bench, bench->n) <= job->max_elems))
        bench->n++;
    status = wring_buffer_alloc(job->session,
                                elems_of(bench, bench->n - 1) * bench->members * sizeof(float),
                                (void **)&bench->data);
    if (status == WRING_OK)
        status = find_provider(bench, link->provider, sizeof(link->provider));
    if (status == WRING_OK)
        status = run_rounds(bench);
    if (status == WRING_OK)
        status = fit(bench, link, &found);
    noise->shaky += found.shaky;
    noise->points += found.points;
    wring_buffer_free(job->session, bench->data);
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
        wring_calibration_tell(job, "links: %s", wring_level_name((enum wring_level)level));
        status = measure_level(job, (enum wring_level)level, job->params->seconds * share / levels,
                               profile != NULL ? &profile->links[level] : &unused, noise);
    }
    return status;
}
