/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/measure_ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/commit/commit.h"
#include "runtime/plan/measured_profile.h"

#define WRING_MODULE "plan"
#define BATCH_LARGE 2 /* of sizes beyond 1 Mi elements */
#define ROUNDS_MIN 3
#define ROUNDS_PROBE 5
#define PROBE_FROM 2 /* 16 Ki and 64 Ki elements, if buckets are as large */

/** What ranks tell each other after each sample: the slowest one's. */
enum {
    SOLO,
    ALL,
    ELAPSED,
    WORDS
};

struct bench {
    struct wring_session *session;
    const struct wring_measure_params *params;
    struct wring_bucket *real; /* the session's own buckets, put aside */
    struct wring_measured_way ways[WRING_MEASURED_WAYS_MAX];
    uint32_t n, sizes;
    struct wring_bucket *words_bucket, *mean_bucket;
    double words[WORDS], mean;
    float *source, *data[WRING_MEASURED_BATCH];
    uint64_t began_ns;
    double elapsed_us, round_us; /* the same on all ranks */
};

static uint32_t batch_of(uint32_t size)
{
    return wring_measured_size(size) <= 1u << 20 ? WRING_MEASURED_BATCH : BATCH_LARGE;
}

/* ---- buckets ---- */

static void add_way(struct bench *bench, const char *spec, enum wring_scheme scheme)
{
    struct wring_measured_way *way = &bench->ways[bench->n++];

    snprintf(way->codec, sizeof(way->codec), "%s", spec);
    way->scheme = scheme;
}

/** The schemes that there are for a codec. */
static enum wring_status add_codec(struct bench *bench, const char *spec)
{
    struct wring_codec *codec;
    enum wring_status status =
        wring_codec_create(spec, bench->session->config.cpu, NULL, 0, &codec);

    if (status != WRING_OK)
        return status;
    const struct wring_codec_info *info = wring_codec_info(codec);
    if (info->unit != 0)
        add_way(bench, spec, WRING_SCHEME_DIVISIBLE);
    if ((info->flags & WRING_CODEC_TWO_WAYS) == 0)
        add_way(bench, spec, WRING_SCHEME_INDIVISIBLE);
    wring_codec_destroy(codec);
    return WRING_OK;
}

static enum wring_status add_ways(struct bench *bench)
{
    const struct wring_measure_params *params = bench->params;
    enum wring_status status = WRING_OK;

    add_way(bench, "none", WRING_SCHEME_AUTO);
    for (uint32_t i = 0; i < params->n_codecs && !params->probe && status == WRING_OK; i++)
        status = add_codec(bench, params->codecs[i]);
    while (bench->sizes < WRING_MEASURED_SIZES &&
           (bench->sizes < 2 || wring_measured_size(bench->sizes - 1) < params->max_elems))
        bench->sizes++;
    return status;
}

static enum wring_status make_memory(struct bench *bench)
{
    uint64_t elems = wring_measured_size(bench->sizes - 1);
    enum wring_status status = WRING_OK;
    uint32_t random = 1 + bench->session->rank;

    bench->source = malloc(elems * sizeof(float));
    if (bench->source == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < elems; i++) {
        random = random * 1664525 + 1013904223; /* any numbers but equal ones */
        bench->source[i] = (float)(int32_t)random * 0x1p-31f;
    }
    for (uint32_t k = 0; k < WRING_MEASURED_BATCH && status == WRING_OK; k++) {
        if (k >= BATCH_LARGE && elems > 1u << 20)
            elems = 1u << 20;
        if (bench->params->placed)
            status =
                wring_buffer_alloc(bench->session, elems * sizeof(float), (void **)&bench->data[k]);
        else if ((bench->data[k] = malloc(elems * sizeof(float))) == NULL)
            status = WRING_ERR_NO_MEMORY;
    }
    return status;
}

static void free_memory(struct bench *bench)
{
    for (uint32_t k = 0; k < WRING_MEASURED_BATCH; k++)
        if (bench->params->placed)
            wring_buffer_free(bench->session, bench->data[k]);
        else
            free(bench->data[k]);
    free(bench->source);
}

static enum wring_status register_numbers(struct bench *bench)
{
    struct wring_bucket_params params = {.name = "measure.slowest",
                                         .data = bench->words,
                                         .elems = WORDS,
                                         .dtype = WRING_F64,
                                         .op = WRING_MAX};
    enum wring_status status = wring_bucket_register(bench->session, &params, &bench->words_bucket);

    if (status != WRING_OK)
        return status;
    params = (struct wring_bucket_params){.name = "measure.mean",
                                          .data = &bench->mean,
                                          .elems = 1,
                                          .dtype = WRING_F64,
                                          .op = WRING_AVG};
    return wring_bucket_register(bench->session, &params, &bench->mean_bucket);
}

static enum wring_status register_way(struct bench *bench, uint32_t w)
{
    struct wring_measured_way *way = &bench->ways[w];
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX];

    for (uint32_t size = 0; size < bench->sizes; size++)
        for (uint32_t k = 0; k < batch_of(size) && status == WRING_OK; k++) {
            struct wring_bucket_params params = {.name = name,
                                                 .data = bench->data[k],
                                                 .elems = wring_measured_size(size),
                                                 .codec = way->codec,
                                                 .scheme = way->scheme};
            snprintf(name, sizeof(name), "measure.%u.%u.%u", w, size, k);
            status = wring_bucket_register(bench->session, &params, &way->buckets[size][k]);
        }
    return status;
}

/** Each of it on all ranks or on none. */
static enum wring_status prepare(struct bench *bench)
{
    enum wring_status status = add_ways(bench);

    if (status == WRING_OK)
        status = make_memory(bench);
    if (status == WRING_OK)
        status = register_numbers(bench);
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
        status = register_way(bench, w);
    return wring_commit_passing(bench->session, status);
}

/* ---- samples ---- */

static enum wring_status step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post(bucket);

    return status == WRING_OK ? wring_bucket_wait(bucket, WRING_FOREVER) : status;
}

struct taken {
    double us, cpu_us; /* of the whole process: threads of wring and the one that waits */
};

/** The first k buckets of a size at once, all ranks beginning together. */
static enum wring_status exchange(struct bench *bench, struct wring_measured_way *way,
                                  uint32_t size, uint32_t k, struct taken *out)
{
    for (uint32_t i = 0; i < k; i++)
        memcpy(bench->data[i], bench->source, wring_measured_size(size) * sizeof(float));
    enum wring_status status = step(bench->mean_bucket); /* a barrier */
    uint64_t cpu = wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID), began = wring_now_ns();
    for (uint32_t i = 0; i < k && status == WRING_OK; i++)
        status = wring_bucket_post(way->buckets[size][i]);
    for (uint32_t i = 0; i < k && status == WRING_OK; i++)
        status = wring_bucket_wait(way->buckets[size][i], WRING_FOREVER);
    out->us = (double)(wring_now_ns() - began) / 1e3;
    out->cpu_us = (double)(wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e3;
    return status;
}

/** One sample of each kind. @param keep  or only see how long it takes */
static enum wring_status sample(struct bench *bench, struct wring_measured_way *way, uint32_t size,
                                bool keep, double *took_us)
{
    uint32_t k = batch_of(size), at = way->samples[size];
    struct taken solo = {0}, all = {0};
    enum wring_status status = exchange(bench, way, size, 1, &solo);

    if (status == WRING_OK)
        status = exchange(bench, way, size, k, &all);
    bench->words[SOLO] = solo.us;
    bench->words[ALL] = all.us;
    bench->words[ELAPSED] = (double)(wring_now_ns() - bench->began_ns) / 1e3;
    bench->mean = all.cpu_us / k;
    if (status == WRING_OK)
        status = step(bench->words_bucket);
    if (status == WRING_OK)
        status = step(bench->mean_bucket);
    *took_us = bench->words[SOLO] + bench->words[ALL];
    bench->elapsed_us = bench->words[ELAPSED];
    if (!keep || status != WRING_OK)
        return status;
    way->us[WRING_MEASURED_SOLO][size][at] = bench->words[SOLO];
    way->us[WRING_MEASURED_BUSY][size][at] =
        fmax(bench->words[ALL] - bench->words[SOLO], 1e-3) / (k - 1);
    way->us[WRING_MEASURED_CPU][size][at] = fmax(bench->mean, 1e-3);
    way->samples[size]++;
    return WRING_OK;
}

static bool may_grow(const struct bench *bench, const struct wring_measured_way *way, uint32_t size,
                     double last_us)
{
    double budget_us = (double)bench->params->budget_ns / 1e3;

    return size < 2 || (way->n == size && bench->round_us + 4 * last_us < budget_us / 4);
}

/** All memory is touched, and how large buckets can be is found out. */
static enum wring_status warm_up(struct bench *bench)
{
    double last_us[WRING_MEASURED_WAYS_MAX] = {0};
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < bench->sizes; size++)
        for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++) {
            struct wring_measured_way *way = &bench->ways[w];
            if (!may_grow(bench, way, size, last_us[w]))
                continue;
            status = sample(bench, way, size, false, &last_us[w]);
            bench->round_us += last_us[w];
            way->n++;
        }
    return status;
}

/** Sizes rise: never the same twice in a row, so that caches hold no more of it than in training.
 */
static enum wring_status run_round(struct bench *bench)
{
    enum wring_status status = WRING_OK;
    uint32_t from = 0;
    double unused;

    if (bench->params->probe && bench->ways[0].n > PROBE_FROM + 1)
        from = PROBE_FROM;
    for (uint32_t size = from; size < bench->sizes; size++)
        for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
            if (size < bench->ways[w].n && (!bench->params->probe || size < from + 2))
                status = sample(bench, &bench->ways[w], size, true, &unused);
    return status;
}

static enum wring_status run_rounds(struct bench *bench)
{
    double budget_us = (double)bench->params->budget_ns / 1e3;
    uint32_t most = bench->params->probe ? ROUNDS_PROBE : WRING_MEASURED_ROUNDS;
    enum wring_status status = WRING_OK;

    for (uint32_t round = 0; round < most && status == WRING_OK; round++) {
        if (round >= ROUNDS_MIN && bench->elapsed_us > budget_us)
            break;
        status = run_round(bench);
    }
    return status;
}

/** Bytes, and codec work, as the buckets count them. */
static enum wring_status count_costs(struct bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = 0; size < bench->ways[w].n && status == WRING_OK; size++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            struct wring_measured_way *way = &bench->ways[w];
            status = wring_bucket_stats(way->buckets[size][0], &stats);
            double steps = stats.steps > 0 ? (double)stats.steps : 1;
            bench->mean = (double)stats.wire_bytes_sent / steps;
            if (status == WRING_OK)
                status = step(bench->mean_bucket);
            way->wire_bytes[size] = bench->mean;
            bench->mean = (double)stats.codec_ns / steps / 1e3;
            if (status == WRING_OK)
                status = step(bench->mean_bucket);
            way->codec_us[size] = fmax(bench->mean, 1e-3);
        }
    return status;
}

static enum wring_status measure(struct bench *bench)
{
    enum wring_status status = prepare(bench);

    if (status != WRING_OK)
        return status;
    status = warm_up(bench);
    if (status == WRING_OK)
        status = run_rounds(bench);
    if (status == WRING_OK)
        status = count_costs(bench);
    return wring_session_agree(bench->session, status, "");
}

/** The session is as it was before. */
static void clear_away(struct bench *bench)
{
    wring_commit_forget_passing(bench->session, bench->real);
    free_memory(bench);
}

enum wring_status wring_measure_ways(struct wring_session *session,
                                     const struct wring_measure_params *params,
                                     struct wring_profile *profile)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status =
        wring_session_agree(session, bench != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");

    if (status != WRING_OK) {
        free(bench);
        return status;
    }
    bench->session = session;
    bench->params = params;
    bench->real = session->buckets;
    bench->began_ns = wring_now_ns();
    session->buckets = NULL;
    status = measure(bench);
    clear_away(bench);
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
        status = wring_measured_put(&bench->ways[w], session->size, params->cores, profile);
    if (status == WRING_OK)
        status = wring_measured_links(profile);
    wring_debug(&session->log, "%u ways of exchange were measured in %.1f ms", bench->n,
                (double)(wring_now_ns() - bench->began_ns) / 1e6);
    free(bench);
    return wring_session_agree(session, status, "");
}
