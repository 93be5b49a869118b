/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/measure_ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/fit.h"
#include "runtime/plan/measure_bench.h"

#define WRING_MODULE "plan"
#define SHORT_US 1000.0
#define RARE_SIZE 6        /* from this on a size has its turn in every other round */
#define ROUNDS_IN_BUDGET 6 /* of the longest ones */
#define NOISY_SHARE 0.1    /* of the time is for what is noisy */
#define RAW_SPENT 1.25     /* of it may be spent where raw exchanges are */
#define SHOWN 3            /* samples by which a size can be beaten */
#define PROBE_FIRST 2      /* 16 Ki and 64 Ki elements, if buckets are as large */
#define PROBE_ROUNDS 5

double wring_measure_limit_us(uint64_t budget_ns)
{
    return (double)budget_ns / 1e3 / ROUNDS_IN_BUDGET;
}

/** How many of a size its share of a round is enough for: a backlog of two says what a further
 *  bucket adds, too, and where a link takes that long it is by the bytes. */
static uint32_t fit_batch(const struct wring_measure_bench *bench, uint32_t size, double solo_us)
{
    uint32_t most = wring_measure_batch(size);
    double share = bench->limit_us / 4 / solo_us;

    if (bench->alone)
        return 1;
    return share >= most ? most : share <= 2 ? 2 : (uint32_t)share;
}

/** What a round may take with that size in it: the least number of rounds fits into the time, where
 *  each has all sizes. */
static double round_limit_us(const struct wring_measure_bench *bench, uint32_t size)
{
    double rounds = size < RARE_SIZE ? bench->params->rounds_min : 0;

    return bench->limit_us * ROUNDS_IN_BUDGET / fmax(rounds, ROUNDS_IN_BUDGET);
}

/** May a way have its next size? Time goes on by the bytes, and rounds must be short enough. */
static bool may_grow(const struct wring_measure_bench *bench, const struct wring_measure_way *way,
                     uint32_t size)
{
    if (size < bench->first + 2)
        return true;
    if (way->n != size)
        return false;
    double batches = (1.0 + wring_measure_batch(size)) / (1.0 + way->batch[size - 1]);
    return bench->round_us + 4 * fmin(batches, 1) * way->took_us[size - 1] <=
           round_limit_us(bench, size);
}

/** A size's first time: all memory is touched. */
static enum wring_status begin_size(struct wring_measure_bench *bench,
                                    struct wring_measure_way *way, uint32_t size)
{
    double solo_us;

    way->batch[size] = 1;
    enum wring_status status = wring_measure_sample(bench, way, size, &solo_us);
    if (status != WRING_OK)
        return status;
    way->batch[size] = fit_batch(bench, size, solo_us);
    status = wring_measure_sample(bench, way, size, &way->took_us[size]);
    way->samples[size] = 0;
    way->n++;
    bench->round_us += way->took_us[size];
    return status;
}

/** How large buckets can be is found out: the small ones first. */
static enum wring_status warm_up(struct wring_measure_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = bench->first; size < bench->sizes; size++)
        for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
            if (may_grow(bench, &bench->ways[w], size))
                status = begin_size(bench, &bench->ways[w], size);
    return status;
}

/** One sample of each way that has that size. @param all  or only what is noisy, or in doubt */
static enum wring_status run_size(struct wring_measure_bench *bench, uint32_t size, bool all,
                                  double *took_us)
{
    enum wring_status status = WRING_OK;
    double us;

    *took_us = 0;
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++) {
        struct wring_measure_way *way = &bench->ways[w];
        if (size >= way->n || !(all ? !way->beaten[size] : way->again[size]))
            continue;
        status = wring_measure_sample(bench, way, size, &us);
        *took_us += us;
        if (way->samples[size] == SHOWN)
            way->beaten[size] = wring_measure_is_beaten(bench, way, size);
    }
    return status;
}

/**
 * Sizes rise, and after each that takes long the short ones have another turn. Never twice in a
 * row: what the caches hold of a bucket is then as little as between two iterations of training.
 */
static enum wring_status run_round(struct wring_measure_bench *bench, uint32_t round, bool all)
{
    uint32_t sizes = bench->sizes > RARE_SIZE && round % 2 != 0 ? RARE_SIZE : bench->sizes;
    enum wring_status status = WRING_OK;
    uint32_t end_short = bench->first;
    double took_us, unused;

    for (uint32_t size = bench->first; size < sizes && status == WRING_OK; size++) {
        status = run_size(bench, size, all, &took_us);
        if (took_us < bench->n * SHORT_US && end_short == size)
            end_short++;
        for (uint32_t i = bench->first; i < end_short && end_short <= size && status == WRING_OK;
             i++)
            status = run_size(bench, i, all, &unused);
    }
    return status;
}

/** @param share  of the budget that is over then */
static enum wring_status run_rounds(struct wring_measure_bench *bench, uint32_t min, uint32_t max,
                                    double share)
{
    const struct wring_measure_params *params = bench->params;
    enum wring_status status = WRING_OK;

    for (uint32_t round = 0; round < max && status == WRING_OK; round++) {
        if (round >= min && bench->elapsed_us >= share * (double)bench->budget_ns / 1e3)
            break;
        if (params->tell != NULL)
            params->tell(params->arg, round, false);
        status = run_round(bench, round, true);
    }
    return status;
}

static bool any_again(const struct wring_measure_bench *bench)
{
    bool any = false;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->ways[w].n; size++)
            any = any || bench->ways[w].again[size];
    return any;
}

/** Nothing but raw exchanges is measured again. */
static void leave_coded(struct wring_measure_bench *bench)
{
    for (uint32_t w = 0; w < bench->n; w++)
        if (!wring_measure_is_raw(bench, &bench->ways[w]))
            memset(bench->ways[w].again, 0, sizeof(bench->ways[w].again));
}

/** What is noisy or in doubt, by itself, until it is not or the time is over. Without raw exchanges
 *  a profile is nothing, so these have some more. */
static enum wring_status run_again(struct wring_measure_bench *bench,
                                   struct wring_measure_noise *noise)
{
    const struct wring_measure_params *params = bench->params;
    enum wring_status status = WRING_OK;

    for (uint32_t round = 0; round < WRING_MEASURE_AGAIN_MAX && any_again(bench); round++) {
        double spent = bench->elapsed_us * 1e3 / (double)bench->budget_ns;
        if (round > 0 && spent >= 1)
            leave_coded(bench);
        if (spent >= RAW_SPENT || !any_again(bench))
            break;
        if (params->tell != NULL)
            params->tell(params->arg, round, true);
        status = run_round(bench, round, false);
        if (status != WRING_OK)
            break;
        *noise = wring_measure_look(bench);
    }
    return status;
}

static enum wring_status measure(struct wring_measure_bench *bench,
                                 struct wring_measure_noise *noise)
{
    enum wring_status status = wring_measure_prepare(bench);

    if (status != WRING_OK)
        return status;
    bench->limit_us = wring_measure_limit_us(bench->budget_ns);
    wring_measure_fit_cold(bench);
    status = warm_up(bench);
    if (status == WRING_OK)
        status =
            run_rounds(bench, bench->params->rounds_min, WRING_MEASURE_ROUNDS_MAX, 1 - NOISY_SHARE);
    if (status != WRING_OK)
        return status;
    *noise = wring_measure_look(bench);
    status = run_again(bench, noise);
    return status == WRING_OK ? wring_measure_count(bench) : status;
}

/** The session's own buckets are put aside. Collective. */
static enum wring_status begin(struct wring_session *session,
                               const struct wring_measure_params *params,
                               struct wring_measure_bench **out)
{
    struct wring_measure_bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status =
        wring_session_agree(session, bench != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");

    if (status != WRING_OK) {
        free(bench);
        return status;
    }
    bench->session = session;
    bench->params = params;
    bench->first = params->first;
    bench->real = session->buckets;
    bench->began_ns = wring_now_ns();
    session->buckets = NULL;
    *out = bench;
    return WRING_OK;
}

enum wring_status wring_measure_ways(struct wring_session *session,
                                     const struct wring_measure_params *params,
                                     struct wring_profile *profile,
                                     struct wring_measure_noise *noise)
{
    struct wring_measure_bench *bench;
    struct wring_measure_noise unused;
    enum wring_status status = begin(session, params, &bench);

    if (status != WRING_OK)
        return status;
    status = measure(bench, noise != NULL ? noise : &unused);
    wring_measure_clear(bench);
    wring_debug(&session->log, "%u ways of exchange were measured in %.1f ms", bench->n,
                (double)(wring_now_ns() - bench->began_ns) / 1e6);
    if (status == WRING_OK && profile != NULL)
        status = wring_measured_put(bench, profile);
    free(bench);
    return wring_session_agree(session, status, "");
}

static enum wring_status probe(struct wring_measure_bench *bench)
{
    enum wring_status status = wring_measure_prepare(bench);

    if (status == WRING_OK)
        status = warm_up(bench);
    return status == WRING_OK ? run_rounds(bench, PROBE_ROUNDS, PROBE_ROUNDS, 1) : status;
}

enum wring_status wring_measure_probe(struct wring_session *session,
                                      const struct wring_measure_params *params,
                                      struct wring_measure_glance *out)
{
    struct wring_measure_params few = *params;
    struct wring_measure_bench *bench;

    few.codecs = (struct wring_measure_codecs){.n = 1, .specs = {"none"}};
    few.every_scheme = false;
    enum wring_status status = begin(session, &few, &bench);
    if (status != WRING_OK)
        return status;
    bench->alone = true;
    bench->first = params->max_elems >= wring_measure_size(PROBE_FIRST + 1) ? PROBE_FIRST : 0;
    few.max_elems = wring_measure_size(bench->first + 1);
    status = probe(bench);
    wring_measure_clear(bench);
    status = wring_session_agree(session, status, "");
    if (status == WRING_OK) {
        struct wring_measure_way *way = &bench->ways[0];
        double *us = way->us[WRING_MEASURE_SOLO][way->n - 1];
        struct wring_fit_point point = {0, us, way->samples[way->n - 1]};
        out->elems = (double)wring_measure_size(way->n - 1);
        out->median_us = wring_fit_look(&point).median; /* which sorts them */
        out->least_us = us[0];
    }
    free(bench);
    return status;
}
