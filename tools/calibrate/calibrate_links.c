/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a level's links take: allgathers of rising size among its ranks, and the other steps of the
 * planner's options, in rounds (calibrate_rounds.c). All nodes do it at the same time inside;
 * between nodes one rank of each does. calibrate_puts.c has what puts take by themselves.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/fit.h"
#include "tools/calibrate/calibrate_rounds.h"

#define PUTS_SHARE 0.3 /* of the time */

static const char *const names[WRING_LINK_STEPS] = {"allgather", "allreduce", "reduce-scatter",
                                                    "alltoall", "broadcast"};

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

/** A step by itself. @param noise  counts its points; NULL: nothing needs it */
static enum wring_status fit_step(struct wring_link_bench *bench, enum wring_link_step step,
                                  struct wring_profile_routine *out,
                                  struct wring_measure_noise *noise)
{
    struct wring_fit_point points[WRING_LINK_SIZES];
    struct wring_profile_curve curve, least;
    uint32_t n = 0;

    for (uint32_t i = 0; i < bench->n; i++)
        if (wring_link_has_size(step, i))
            points[n++] = (struct wring_fit_point){
                wring_link_bytes(bench, i), bench->samples[step][i], bench->samples_n[step][i]};
    for (uint32_t i = 0; i < n && noise != NULL; i++)
        wring_calibrate_count(&points[i], noise);
    enum wring_status status = wring_fit_curve(points, 1, WRING_FIT_MEDIAN, &least);
    if (status == WRING_OK)
        status = wring_fit_curve(points + 1, n - 1, WRING_FIT_MEDIAN, &curve);
    if (status != WRING_OK)
        return status;
    snprintf(out->name, sizeof(out->name), "%s", names[step]);
    out->latency_us = least.us.corners[0].y;
    out->latency_trust = least.trust;
    out->us = without(&curve.us, out->latency_us);
    out->trust = curve.trust;
    return WRING_OK;
}

static enum wring_status fit(struct wring_link_bench *bench, struct wring_profile_link *link,
                             struct wring_measure_noise *noise)
{
    struct wring_profile_routine gathering = {0};

    *noise = (struct wring_measure_noise){0};
    enum wring_status status = fit_step(bench, WRING_LINK_ALLGATHER, &gathering, noise);
    link->present = true;
    link->latency_us = 2 * gathering.latency_us;
    link->latency_trust = gathering.latency_trust;
    link->us = gathering.us;
    link->trust = gathering.trust;
    link->n_routines = 0;
    for (int step = WRING_LINK_ALLREDUCE; step < WRING_LINK_STEPS && status == WRING_OK; step++)
        status =
            fit_step(bench, (enum wring_link_step)step, &link->routines[link->n_routines++], NULL);
    return status;
}

static enum wring_status measure_level(struct wring_calibration *job, enum wring_level level,
                                       double seconds, struct wring_profile_link *link,
                                       struct wring_measure_noise *noise)
{
    struct wring_measure_noise found = {0};
    struct wring_link_bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (bench == NULL)
        return status;
    bench->job = job;
    bench->group = job->levels[level];
    bench->members = job->level_ranks[level];
    bench->place = job->place[level];
    bench->deadline_ns = wring_deadline_in((uint64_t)(seconds * 1e9));
    bench->late_ns = bench->deadline_ns + (uint64_t)(seconds * 1e9);
    while (bench->n < WRING_LINK_SIZES &&
           (bench->n < 3 || wring_link_elems(bench, bench->n) <= job->max_elems))
        bench->n++;
    size_t bytes = wring_link_elems(bench, bench->n - 1) * bench->members * sizeof(float);
    status = wring_buffer_alloc(job->session, bytes, (void **)&bench->data);
    if (status == WRING_OK)
        status = wring_buffer_alloc(job->session, bytes, (void **)&bench->into);
    if (status == WRING_OK)
        memset(bench->data, 0, bytes);
    if (status == WRING_OK)
        status =
            wring_calibration_provider(job, bench->group, link->provider, sizeof(link->provider));
    if (status == WRING_OK)
        status = wring_link_rounds(bench);
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
            status = wring_calibrate_puts(job, (enum wring_level)level, PUTS_SHARE * seconds, link);
    }
    return status;
}
