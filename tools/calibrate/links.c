/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Times a level's links: allgathers of rising size among its ranks, and the other steps of the
 * planner's options, in turns; and puts by themselves. All nodes measure their inner links at the
 * same time; between nodes one rank of each node measures.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/fit.h"
#include "runtime/commit/commit.h"
#include "runtime/session/session.h"
#include "tools/bench/p2p.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include <wring/provider.h>

#define TURNS_MIN 5
#define SLOW_NS (WRING_NS_PER_S / 4) /* larger sizes are left out beyond */
#define SIZES_MIN 4                  /* the latency, and of each step two sizes: a line */
#define REPEATS_MAX 8                /* of a size in a turn … */
#define REPEATS_SHARE 0.125          /* … that all take no more than this part of the largest */

/** A member's elements in an allgather: one for the latency, else so many that the size's bytes
 * pass the link. */
static uint64_t link_elems(const struct wring_link_bench *bench, uint32_t size)
{
    if (size == 0)
        return 1;
    uint64_t elems = wring_collective_bench_size(size - 1) / (bench->members - 1);
    return elems > 0 ? elems : 1;
}

/** What passes a link. */
static double link_bytes(const struct wring_link_bench *bench, uint32_t size)
{
    return (double)link_elems(bench, size) * sizeof(float) * (bench->members - 1);
}

/** @param elems  that a member gives to an allgather: whatever the step, as many bytes pass */
static enum wring_status run_step(const struct wring_link_bench *bench, enum wring_link_step step,
                                  uint64_t elems)
{
    float *own = bench->data + bench->me * elems;
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
static enum wring_status time_step(struct wring_link_bench *bench, enum wring_link_step step,
                                   uint32_t size, double *us)
{
    enum wring_status status = wring_barrier(bench->job->world, NULL, NULL);
    uint64_t began = wring_now_ns();

    if (status == WRING_OK && bench->group != NULL)
        status = run_step(bench, step, link_elems(bench, size));
    *us = (double)(wring_now_ns() - began) / 1e3;
    if (bench->group == NULL)
        *us = 0;
    return status == WRING_OK ? wring_calibration_slowest(bench->job, us, 1) : status;
}

static bool link_has_size(enum wring_link_step step, uint32_t size)
{
    return step == WRING_LINK_ALLGATHER || size == 0 || size % 2 != 0;
}

/** The better of two times: the first one touches memory, and either may be a busy machine's. */
static enum wring_status time_size(struct wring_link_bench *bench, uint32_t size, double *us)
{
    double first_us = 0, second_us = 0;
    enum wring_status status = time_step(bench, WRING_LINK_ALLGATHER, size, &first_us);

    if (status == WRING_OK)
        status = time_step(bench, WRING_LINK_ALLGATHER, size, &second_us);
    *us = fmin(first_us, second_us);
    return status;
}

/** All memory is touched, sizes that take too long are left out, and short ones have repeats. */
static enum wring_status warm_up(struct wring_link_bench *bench)
{
    enum wring_status status = WRING_OK;
    uint32_t sizes = bench->n;
    double us[WRING_LINK_SIZES] = {0};

    bench->n = 0;
    while (bench->n < sizes && status == WRING_OK &&
           (bench->n < SIZES_MIN || us[bench->n - 1] * 4e3 < (double)SLOW_NS)) {
        status = time_size(bench, bench->n, &us[bench->n]);
        bench->n++;
    }
    for (uint32_t i = 0; i < bench->n; i++) {
        double fit = REPEATS_SHARE * us[bench->n - 1] / fmax(us[i], 1);
        bench->repeats[i] = fit < 1 ? 1 : fit > REPEATS_MAX ? REPEATS_MAX : (uint32_t)fit;
    }
    for (int step = WRING_LINK_ALLREDUCE; step < WRING_LINK_STEPS && status == WRING_OK; step++)
        status = time_step(bench, (enum wring_link_step)step, bench->n - 1, &us[0]);
    return status;
}

/** Is the median of a step with a size not known yet? */
static bool is_in_doubt(struct wring_link_bench *bench, enum wring_link_step step, uint32_t size)
{
    return link_has_size(step, size) && bench->samples_n[step][size] < WRING_LINK_SAMPLES_MAX &&
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

static enum wring_status time_repeats(struct wring_link_bench *bench, enum wring_link_step step,
                                      uint32_t size)
{
    uint32_t *n = &bench->samples_n[step][size];
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0;
         i < bench->repeats[size] && *n < WRING_LINK_SAMPLES_MAX && status == WRING_OK; i++) {
        status = time_step(bench, step, size, &bench->samples[step][size][*n]);
        *n += status == WRING_OK;
    }
    return status;
}

/** @param doubtful  only what is in doubt */
static enum wring_status run_turn(struct wring_link_bench *bench, bool doubtful)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < bench->n; size++)
        for (int step = 0; step < WRING_LINK_STEPS && status == WRING_OK; step++)
            if (link_has_size((enum wring_link_step)step, size) &&
                (!doubtful || is_in_doubt(bench, (enum wring_link_step)step, size)))
                status = time_repeats(bench, (enum wring_link_step)step, size);
    bench->turns++;
    return status;
}

/** All ranks go on as long as rank 0 has time. */
static enum wring_status agree_on_time(struct wring_link_bench *bench, uint64_t until_ns,
                                       bool *more)
{
    *more = bench->turns < WRING_LINK_SAMPLES_MAX &&
            (bench->turns < TURNS_MIN || wring_now_ns() < until_ns);
    return wring_calibration_agree(bench->job, more);
}

/** Fill in samples, of as many sizes as the link allows, which n says then. Collective among all
 *  ranks of the job. Errors: of exchanges. */
static enum wring_status link_turns(struct wring_link_bench *bench)
{
    enum wring_status status = warm_up(bench);
    bool more = true;

    while (status == WRING_OK && more) {
        status = run_turn(bench, false);
        if (status == WRING_OK)
            status = agree_on_time(bench, bench->deadline_ns, &more);
    }
    more = true;
    while (status == WRING_OK && more && is_any_in_doubt(bench)) {
        status = run_turn(bench, true);
        if (status == WRING_OK)
            status = agree_on_time(bench, bench->late_ns, &more);
    }
    return status;
}

/* ---- puts ---- */

/*
 * Times of puts between two ranks of a level, by size. `wring bench p2p` measures both their
 * latency and the time of each with many in flight. The level's first two ranks do it, over its
 * provider, while all others rest.
 */

#define SIZES 6
#define SAMPLES 200 /* of the latency, at most */
#define PUTS 100.0  /* of a size, at least, in round trips and streams */

static const uint64_t sizes[SIZES] = {8, 512, 4096, 65536, 1u << 20, 4u << 20};

struct bench {
    uint32_t n; /* sizes that were measured */
    double latency_us[SIZES][SAMPLES];
    uint32_t samples[SIZES];
    double put_us[SIZES][WRING_P2P_TURNS_MAX];
    uint32_t turns[SIZES];
};

/** Keep as many of the sorted times as there is room for, evenly spread. */
static void on_result(void *arg, const struct wring_p2p_result *result)
{
    struct bench *bench = arg;
    uint64_t n = result->round_trips < SAMPLES ? result->round_trips : SAMPLES;

    for (uint64_t i = 0; i < n; i++)
        bench->latency_us[bench->n][i] = result->trips_us[i * result->round_trips / n];
    bench->samples[bench->n] = (uint32_t)n;
    memcpy(bench->put_us[bench->n], result->put_us, result->turns * sizeof(double));
    bench->turns[bench->n++] = result->turns;
}

/** Take as many sizes as the time allows at the link's speed, two at least. Rank 0 decides. */
static enum wring_status agree_on_sizes(struct wring_calibration *job,
                                        const struct wring_profile_link *link, double seconds,
                                        struct wring_p2p_params *params)
{
    uint64_t n = 0;

    while (n < SIZES &&
           (n < 2 || PUTS * wring_cost_at(&link->us, (double)sizes[n]) < seconds * 1e6))
        n++;
    enum wring_status status = wring_broadcast(job->world, &n, sizeof(n), 0, NULL, NULL);
    params->n_bytes = n < SIZES ? n : SIZES;
    memcpy(params->bytes, sizes, sizeof(sizes));
    params->seconds = seconds / (double)params->n_bytes;
    return status;
}

static enum wring_status fit_put(struct bench *bench, struct wring_profile_put *out)
{
    struct wring_fit_point latency[SIZES], each[SIZES];

    for (uint32_t i = 0; i < bench->n; i++) {
        double bytes = (double)sizes[i];
        latency[i] = (struct wring_fit_point){bytes, bench->latency_us[i], bench->samples[i]};
        each[i] = (struct wring_fit_point){bytes, bench->put_us[i], bench->turns[i]};
    }
    enum wring_status status = wring_fit_curve(latency, bench->n, WRING_FIT_MEDIAN, &out->latency);
    return status == WRING_OK ? wring_fit_curve(each, bench->n, WRING_FIT_MEDIAN, &out->each)
                              : status;
}

/** How a group's members reach each other. Every rank takes part in the commits. @param group NULL:
 *  this rank is in none, and text is left alone */
static enum wring_status ask_provider(struct wring_calibration *job, struct wring_group *group,
                                      char *text, size_t bytes)
{
    float data = 0;
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    enum wring_status status = WRING_OK;

    params.name = "calibrate.link";
    params.data = &data;
    params.elems = 1;
    params.group = group;
    if (group != NULL)
        status = wring_bucket_register(job->session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(job->session);
    if (status == WRING_OK && bucket != NULL)
        status = wring_bucket_stats(bucket, &stats);
    if (status == WRING_OK && bucket != NULL) {
        snprintf(text, bytes, "%.31s", stats.provider);
        status = wring_bucket_drop(bucket);
    }
    return status == WRING_OK ? wring_session_commit(job->session) : status;
}

/** The provider of that name; who looks on may know none. */
static const struct wring_provider_ops *find_provider(const char *name)
{
    const struct wring_provider_ops *ops = wring_provider_find(name);

    return ops != NULL ? ops : wring_provider_list()[0];
}

/** Puts of a level whose link is known. Without a second opening of its provider there are none,
 *  which is said. */
static enum wring_status calibrate_puts(struct wring_calibration *job, enum wring_level level,
                                        double seconds, struct wring_profile_link *link)
{
    struct wring_p2p_params params = {.name = job->params->name,
                                      .config = &job->session->config,
                                      .provider = find_provider(link->provider),
                                      .session = job->session,
                                      .ranks = {job->pairs[level][0], job->pairs[level][1]}};
    struct bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status =
        wring_session_agree(job->session, bench != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");

    if (status == WRING_OK)
        status = agree_on_sizes(job, link, seconds, &params);
    if (status == WRING_OK && wring_p2p_rank(&params, on_result, bench) != WRING_EXIT_OK)
        status = wring_session_error(job->session, NULL); /* else there are no puts, as was said */
    if (status == WRING_OK && bench->n > 0)
        status = fit_put(bench, &link->put);
    free(bench);
    return status;
}

/* ---- links ---- */

#define PUTS_SHARE 0.3 /* of the time */

static const char *const names[WRING_LINK_STEPS] = {"allgather", "allreduce", "reduce-scatter",
                                                    "alltoall", "broadcast"};

/** What is over the latency; begins with nothing. */
static struct wring_cost subtract_latency(const struct wring_cost *cost, double latency_us)
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
                                  struct wring_collective_bench_noise *noise)
{
    struct wring_fit_point points[WRING_LINK_SIZES];
    struct wring_profile_curve curve, least;
    uint32_t n = 0;

    for (uint32_t i = 0; i < bench->n; i++)
        if (link_has_size(step, i))
            points[n++] = (struct wring_fit_point){link_bytes(bench, i), bench->samples[step][i],
                                                   bench->samples_n[step][i]};
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
    out->us = subtract_latency(&curve.us, out->latency_us);
    out->trust = curve.trust;
    return WRING_OK;
}

static enum wring_status fit_link(struct wring_link_bench *bench, struct wring_profile_link *link,
                                  struct wring_collective_bench_noise *noise)
{
    struct wring_profile_routine gathering = {0};

    *noise = (struct wring_collective_bench_noise){0};
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
                                       struct wring_collective_bench_noise *noise)
{
    struct wring_collective_bench_noise found = {0};
    struct wring_link_bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (bench == NULL)
        return status;
    bench->job = job;
    bench->group = job->levels[level];
    bench->members = job->level_ranks[level];
    bench->me = job->me[level];
    bench->deadline_ns = wring_deadline_in((uint64_t)(seconds * 1e9));
    bench->late_ns = bench->deadline_ns + (uint64_t)(seconds * 1e9);
    while (bench->n < WRING_LINK_SIZES &&
           (bench->n < SIZES_MIN || link_elems(bench, bench->n) <= job->max_elems))
        bench->n++;
    size_t bytes = link_elems(bench, bench->n - 1) * bench->members * sizeof(float);
    status = wring_buffer_alloc(job->session, bytes, (void **)&bench->data);
    if (status == WRING_OK)
        status = wring_buffer_alloc(job->session, bytes, (void **)&bench->into);
    if (status == WRING_OK)
        memset(bench->data, 0, bytes);
    if (status == WRING_OK)
        status = ask_provider(job, bench->group, link->provider, sizeof(link->provider));
    if (status == WRING_OK)
        status = link_turns(bench);
    if (status == WRING_OK)
        status = fit_link(bench, link, &found);
    noise->shaky += found.shaky;
    noise->points += found.points;
    wring_buffer_free(job->session, bench->data);
    wring_buffer_free(job->session, bench->into);
    free(bench);
    return status;
}

enum wring_status wring_calibrate_links(struct wring_calibration *job, double share,
                                        struct wring_profile *profile,
                                        struct wring_collective_bench_noise *noise)
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
            status = calibrate_puts(job, (enum wring_level)level, PUTS_SHARE * seconds, link);
    }
    return status;
}

/* ---- collectives ---- */

/* runtime/plan/collective_bench.h times whole collectives of the codecs that the profile lacks. */

#define COLLECTIVE_TURNS_MIN 9

static void tell_turn(void *arg, uint32_t turn, bool noisy)
{
    wring_calibration_tell(arg, "collectives: turn %u%s", turn + 1,
                           noisy ? " of what is noisy" : "");
}

/** What is left of the time; half of the share at least, where other parts took longer. */
static uint64_t budget_of(const struct wring_calibration *job, double share)
{
    double all = job->params->seconds * 1e9;
    double left = all - (double)(wring_now_ns() - job->begin_ns);

    return (uint64_t)(left > share * all / 2 ? left : share * all / 2);
}

enum wring_status wring_calibrate_collectives(struct wring_calibration *job, double share,
                                              struct wring_profile *profile,
                                              struct wring_collective_bench_noise *noise)
{
    const struct wring_collective_bench_params params = {
        .codecs = job->wants.codecs,
        .every_scheme = true,
        .cores = job->machine.cores,
        .ranks_per_node = job->machine.ranks_per_node,
        .max_elems = job->max_elems,
        .budget_ns = budget_of(job, share),
        .turns_min = COLLECTIVE_TURNS_MIN,
        .placed = true,
        .tell = tell_turn,
        .arg = job,
    };

    if (job->wants.codecs.n == 0)
        return WRING_OK;
    enum wring_status status = wring_commit_take_back(job->session);
    return status == WRING_OK ? wring_collective_bench_run(job->session, &params, profile, noise)
                              : status;
}
