/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What whole exchanges take as the runtime does them. Each codec and scheme has buckets of every
 * size, several of each; in a round each size of each has its turn: one bucket alone, then all of
 * its size at once. Rounds go on until the time is over; then sizes whose samples lie far apart
 * have a few more.
 *
 * What "auto" does is one of the other schemes, at each size: it is asked of a bucket, and has that
 * one's samples.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/fit.h"
#include "tools/bench/bench.h"
#include "tools/calibrate/calibrate_ways.h"

#define ROUNDS_MIN 9
#define ROUNDS_MAX 40
#define AGAIN_MAX 40 /* rounds of what is noisy */
#define SHORT_US 1000.0
#define RARE_SIZE 6 /* from this on a size has its turn in every other round */
#define COLD_BYTES                                                                 \
    (2u << 20) /* read before each exchange: what a core's own caches hold is that \
                */
#define WAIT_NS (120 * WRING_NS_PER_S)

_Static_assert(WRING_CALIBRATE_SIZES *(ROUNDS_MAX + AGAIN_MAX) <= WRING_WAY_SAMPLES_MAX,
               "room for all");

/** How many of a size are posted at once: as many as come together in a backlog of a model's
 *  tensors, which is more of the small ones; all of a size in 128 MiB. */
static uint32_t batch_of(uint32_t size)
{
    static const uint32_t batches[WRING_CALIBRATE_SIZES] = {16, 16, 16, 16, 8, 4, 3, 2};
    return batches[size];
}

/* ---- buckets ---- */

static enum wring_status register_bucket(struct wring_ways_bench *bench, const char *codec,
                                         enum wring_scheme scheme, uint32_t size, uint32_t k,
                                         const char *name, struct wring_bucket **out)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    params.name = name;
    params.data = bench->data + k * wring_calibrate_size(size);
    params.elems = wring_calibrate_size(size);
    params.codec = codec;
    params.scheme = scheme;
    return wring_bucket_register(bench->job->session, &params, out);
}

static enum wring_status register_way(struct wring_ways_bench *bench, uint32_t w)
{
    struct wring_way_bench *way = &bench->ways[w];
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX];

    for (uint32_t size = 0; size < bench->sizes; size++)
        for (uint32_t k = 0; k < batch_of(size) && status == WRING_OK; k++) {
            snprintf(name, sizeof(name), "calibrate.%u.%u.%u", w, size, k);
            status = register_bucket(bench, way->codec, way->scheme, size, k, name,
                                     &way->buckets[size][k]);
        }
    return status;
}

/** Buckets that are never posted, only asked. */
static enum wring_status register_auto(struct wring_ways_bench *bench, uint32_t codec)
{
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX];

    for (uint32_t size = 0; size < bench->sizes && status == WRING_OK; size++) {
        snprintf(name, sizeof(name), "calibrate.auto.%u.%u", codec, size);
        status = register_bucket(bench, bench->job->wants.codecs[codec], WRING_SCHEME_AUTO, size, 0,
                                 name, &bench->auto_of[codec][size]);
    }
    return status;
}

/** Which schemes there are for a codec. */
static enum wring_status add_ways(struct wring_ways_bench *bench, uint32_t codec)
{
    const char *spec = bench->job->wants.codecs[codec];
    struct wring_codec *made;
    enum wring_status status = wring_codec_create(spec, NULL, NULL, 0, &made);

    if (status != WRING_OK)
        return status;
    const struct wring_codec_info *info = wring_codec_info(made);
    bool raw = (info->flags & WRING_CODEC_RAW) != 0;
    if (raw || info->unit != 0)
        bench->ways[bench->n++] =
            (struct wring_way_bench){.codec = spec, .scheme = WRING_SCHEME_DIVISIBLE};
    if (raw || !(info->flags & WRING_CODEC_TWO_WAYS))
        bench->ways[bench->n++] =
            (struct wring_way_bench){.codec = spec, .scheme = WRING_SCHEME_INDIVISIBLE};
    wring_codec_destroy(made);
    return WRING_OK;
}

static enum wring_status ask_auto(struct wring_ways_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = 0; size < bench->sizes && status == WRING_OK; size++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            uint32_t codec = 0;
            while (bench->job->wants.codecs[codec] != bench->ways[w].codec)
                codec++;
            status = wring_bucket_stats(bench->auto_of[codec][size], &stats);
            if (status == WRING_OK)
                bench->ways[w].auto_is[size] = strcmp(stats.scheme, "indivisible") == 0
                                                   ? WRING_SCHEME_INDIVISIBLE
                                                   : WRING_SCHEME_DIVISIBLE;
        }
    return status;
}

static enum wring_status make_memory(struct wring_ways_bench *bench)
{
    uint64_t elems = wring_calibrate_size(bench->sizes - 1), all = 0;

    for (uint32_t size = 0; size < bench->sizes; size++)
        if (all < batch_of(size) * wring_calibrate_size(size))
            all = batch_of(size) * wring_calibrate_size(size);
    bench->source = malloc(elems * sizeof(float));
    bench->cold = calloc(1, COLD_BYTES);
    if (bench->source == NULL || bench->cold == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_pattern_fill(bench->source, elems, bench->job->rank);
    memset(bench->cold, 1, COLD_BYTES);
    return wring_buffer_alloc(bench->job->session, all * sizeof(float), (void **)&bench->data);
}

static enum wring_status prepare(struct wring_ways_bench *bench)
{
    const struct wring_calibrate_wants *wants = &bench->job->wants;
    enum wring_status status = WRING_OK;

    while (bench->sizes < WRING_CALIBRATE_SIZES &&
           (bench->sizes < 2 || wring_calibrate_size(bench->sizes) <= bench->job->max_elems))
        bench->sizes++;
    status = make_memory(bench);
    for (uint32_t i = 0; i < wants->n_codecs && status == WRING_OK; i++) {
        status = add_ways(bench, i);
        if (status == WRING_OK)
            status = register_auto(bench, i);
    }
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
        status = register_way(bench, w);
    if (status == WRING_OK)
        status = wring_session_commit(bench->job->session);
    return status == WRING_OK ? ask_auto(bench) : status;
}

/* ---- samples ---- */

/** What one exchange took this rank. */
struct taken {
    double us, cpu_us; /* of all the process's threads: those of wring, and this one, which waits */
};

/** As between two iterations, other data have passed through the core's caches since. */
static uint64_t cool_down(const struct wring_ways_bench *bench)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < COLD_BYTES / sizeof(uint64_t); i += 8)
        sum += *(volatile const uint64_t *)&bench->cold[i];
    return sum;
}

/** The first k buckets of a size at once, all ranks beginning together. */
static enum wring_status exchange(struct wring_ways_bench *bench, struct wring_way_bench *way,
                                  uint32_t size, uint32_t k, struct taken *out)
{
    for (uint32_t i = 0; i < k; i++)
        memcpy(bench->data + i * wring_calibrate_size(size), bench->source,
               wring_calibrate_size(size) * sizeof(float));
    cool_down(bench);
    enum wring_status status = wring_barrier(bench->job->world);
    uint64_t cpu = wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID), began = wring_now_ns();
    for (uint32_t i = 0; i < k && status == WRING_OK; i++)
        status = wring_bucket_post(way->buckets[size][i]);
    for (uint32_t i = 0; i < k && status == WRING_OK; i++)
        status = wring_bucket_wait(way->buckets[size][i], WAIT_NS);
    out->us = (double)(wring_now_ns() - began) / 1e3;
    out->cpu_us = (double)(wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e3;
    return status;
}

/** One sample of each kind: times of the slowest rank, processor time as the mean of all.
 *  @param took_us  out: of all of it, the same on all ranks */
static enum wring_status sample(struct wring_ways_bench *bench, struct wring_way_bench *way,
                                uint32_t size, double *took_us)
{
    uint32_t at = way->samples[size]++, k = batch_of(size);
    struct taken solo = {0}, all = {0};
    enum wring_status status = exchange(bench, way, size, 1, &solo);

    if (status == WRING_OK)
        status = exchange(bench, way, size, k, &all);
    double times[2] = {solo.us, all.us}, cpu_us = all.cpu_us / k;
    if (status == WRING_OK)
        status = wring_calibration_slowest(bench->job, times, 2);
    if (status == WRING_OK)
        status = wring_allreduce(bench->job->world, &cpu_us, 1, WRING_F64, WRING_AVG, NULL, NULL);
    way->us[WRING_WAY_SOLO][size][at] = times[0];
    way->us[WRING_WAY_BUSY][size][at] = fmax(times[1] - times[0], 0) / (k - 1);
    way->us[WRING_WAY_CPU][size][at] = cpu_us;
    *took_us = times[0] + times[1];
    return status;
}

/** What a rank put for one bucket, the mean of all, as the buckets count it. */
static enum wring_status count_bytes(struct wring_ways_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = 0; size < bench->ways[w].n && status == WRING_OK; size++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            double *bytes = &bench->ways[w].wire_bytes[size];
            status = wring_bucket_stats(bench->ways[w].buckets[size][0], &stats);
            *bytes = stats.steps > 0 ? (double)stats.wire_bytes_sent / (double)stats.steps : 0;
            if (status == WRING_OK)
                status =
                    wring_allreduce(bench->job->world, bytes, 1, WRING_F64, WRING_AVG, NULL, NULL);
        }
    return status;
}

/** May a way have its next size? Time goes on by the bytes, and rounds must be short enough. */
static bool may_grow(const struct wring_ways_bench *bench, const struct wring_way_bench *way,
                     uint32_t size)
{
    if (size < 2)
        return true;
    double batches = (1.0 + batch_of(size)) / (1.0 + batch_of(size - 1));
    return way->n == size &&
           bench->round_us + 4 * batches * way->took_us[size - 1] <= bench->limit_us;
}

/** All memory is touched, and how large buckets can be is found out: the small ones first. */
static enum wring_status warm_up(struct wring_ways_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < bench->sizes; size++)
        for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++) {
            struct wring_way_bench *way = &bench->ways[w];
            if (!may_grow(bench, way, size))
                continue;
            status = sample(bench, way, size, &way->took_us[size]);
            way->samples[size] = 0;
            way->n++;
            bench->round_us += way->took_us[size];
        }
    return status;
}

/** One sample of each way that has that size. @param all  or only what is noisy */
static enum wring_status run_size(struct wring_ways_bench *bench, uint32_t size, bool all,
                                  double *took_us)
{
    enum wring_status status = WRING_OK;
    double us;

    *took_us = 0;
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++) {
        struct wring_way_bench *way = &bench->ways[w];
        if (size >= way->n || !(all || way->again[size]))
            continue;
        status = sample(bench, way, size, &us);
        *took_us += us;
    }
    return status;
}

/**
 * Sizes rise, and after each that takes long the short ones have another turn. Never twice in a
 * row: what the caches hold of a bucket is then as little as between two iterations of training.
 */
static enum wring_status run_round(struct wring_ways_bench *bench, uint32_t round, bool all)
{
    uint32_t sizes = bench->sizes > RARE_SIZE && round % 2 != 0 ? RARE_SIZE : bench->sizes;
    enum wring_status status = WRING_OK;
    uint32_t n_short = 0;
    double took_us, unused;

    for (uint32_t size = 0; size < sizes && status == WRING_OK; size++) {
        status = run_size(bench, size, all, &took_us);
        if (took_us < bench->n * SHORT_US && n_short == size)
            n_short++;
        for (uint32_t i = 0; i < n_short && n_short <= size && status == WRING_OK; i++)
            status = run_size(bench, i, all, &unused);
    }
    return status;
}

static enum wring_status run_rounds(struct wring_ways_bench *bench, bool all, uint32_t min,
                                    uint32_t max)
{
    enum wring_status status = WRING_OK;
    bool more = true;

    for (uint32_t round = 0; more && round < max && status == WRING_OK; round++) {
        wring_calibration_tell(bench->job, "exchanges: round %u%s", round + 1,
                               all ? "" : " of what is noisy");
        status = run_round(bench, round, all);
        more = round + 1 < min || wring_now_ns() < bench->deadline_ns;
        if (status == WRING_OK)
            status = wring_calibration_agree(bench->job, &more);
    }
    return status;
}

/** The same on all ranks, as their samples are. @return how many */
static uint32_t find_noisy(struct wring_ways_bench *bench)
{
    uint32_t noisy = 0;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = 0; size < bench->ways[w].n; size++) {
            struct wring_way_bench *way = &bench->ways[w];
            struct wring_fit_point point = {0, way->us[WRING_WAY_SOLO][size], way->samples[size]};
            way->again[size] = wring_fit_look(&point).spread > WRING_PROFILE_NOISE;
            noisy += way->again[size];
        }
    return noisy;
}

static enum wring_status measure(struct wring_ways_bench *bench, double seconds)
{
    enum wring_status status = prepare(bench);

    bench->limit_us = seconds * 1e6 / (ROUNDS_MIN / 2 + 2);
    if (status == WRING_OK)
        status = warm_up(bench);
    bench->deadline_ns = bench->job->begin_ns + (uint64_t)(0.9 * bench->job->params->seconds * 1e9);
    if (status == WRING_OK)
        status = run_rounds(bench, true, ROUNDS_MIN, ROUNDS_MAX);
    bench->deadline_ns = bench->job->begin_ns + (uint64_t)(bench->job->params->seconds * 1e9);
    if (status == WRING_OK && find_noisy(bench) > 0)
        status = run_rounds(bench, false, 1, AGAIN_MAX);
    return status == WRING_OK ? count_bytes(bench) : status;
}

enum wring_status wring_calibrate_ways(struct wring_calibration *job, double share,
                                       struct wring_profile *profile,
                                       struct wring_calibrate_noise *noise)
{
    struct wring_ways_bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status = bench != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    if (job->wants.n_codecs == 0 || bench == NULL)
        goto free_bench;
    bench->job = job;
    status = measure(bench, job->params->seconds * share);
    if (status == WRING_OK)
        *noise = wring_ways_noise(bench);
    if (status == WRING_OK && profile != NULL)
        status = wring_ways_fit(bench, profile);
    free(bench->source);
    free(bench->cold);
free_bench:
    free(bench);
    return status;
}
