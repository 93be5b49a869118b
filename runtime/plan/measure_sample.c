/* SPDX-License-Identifier: Apache-2.0 */
/* One sample of an exchange, and what is looked up of all of them. */
#include <math.h>

#include "base/clock.h"
#include "compress/kernels/streaming.h"
#include "planner/fit.h"
#include "runtime/plan/measure_bench.h"

#define BEATEN 1.3      /* times as long as the other scheme */
#define LINE_WORDS 8    /* of 8 bytes */
#define EXCHANGES 4.0   /* of a way and size, in a round: one and many, small sizes once more */
#define COLD_SHARE 0.25 /* of the time may go into making caches cold */

/** What one exchange took this rank. */
struct taken {
    double us, cpu_us; /* of all the process's threads: those of wring, and this one, which waits */
};

static enum wring_status step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post_inside(bucket);

    return status == WRING_OK ? wring_bucket_wait_inside(bucket, WRING_FOREVER) : status;
}

/** The first k at once. Where one cannot be posted, those before it end all the same: their memory
 *  is the bench's. */
static enum wring_status step_all(struct wring_bucket *const *buckets, uint32_t k)
{
    enum wring_status status = WRING_OK;
    uint32_t posted = 0;

    while (posted < k && (status = wring_bucket_post_inside(buckets[posted])) == WRING_OK)
        posted++;
    for (uint32_t i = 0; i < posted; i++) {
        enum wring_status ended = wring_bucket_wait_inside(buckets[i], WRING_FOREVER);
        status = status == WRING_OK ? ended : status;
    }
    return status;
}

/**
 * As in a backlog that is longer than any cache: other data, on other pages, have passed through
 * the core's own caches, and the last one holds what has been written and is still to go to memory.
 * Else an exchange that fits in there leaves its sums for others to write back.
 */
static void cool_down(const struct wring_measure_bench *bench)
{
    for (size_t word = 0; word < bench->cold_words; word += LINE_WORDS)
        ++*(volatile uint64_t *)&bench->cold[word];
}

void wring_measure_fit_cold(struct wring_measure_bench *bench)
{
    double samples = EXCHANGES * bench->n * (double)(bench->sizes - bench->first);

    cool_down(bench); /* its pages are there from now on */
    uint64_t began = wring_now_ns();
    cool_down(bench);
    double us = (double)(wring_now_ns() - began) / 1e3;
    size_t own = WRING_MEASURE_OWN_BYTES / sizeof(*bench->cold);
    for (; us > bench->limit_us * COLD_SHARE / samples && bench->cold_words > own; us /= 2)
        bench->cold_words /= 2;
}

/**
 * The first k buckets of a size at once, all ranks beginning together. Their data are in memory
 * alone, where the processor has stores past its caches: of a model's gradients caches hold little,
 * and never those that travel first.
 */
static enum wring_status exchange(struct wring_measure_bench *bench, struct wring_measure_way *way,
                                  uint32_t size, uint32_t k, struct taken *out)
{
    for (uint32_t i = 0; i < k; i++)
        wring_streaming_copy(bench->data + i * wring_measure_size(size), bench->source,
                             wring_measure_size(size) * sizeof(float));
    cool_down(bench);
    enum wring_status status = step(bench->mean_bucket); /* a barrier */
    uint64_t cpu = wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID), began = wring_now_ns();
    if (status == WRING_OK)
        status = step_all(way->buckets[size], k);
    out->us = (double)(wring_now_ns() - began) / 1e3;
    out->cpu_us = (double)(wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e3;
    /* who shares a core with another writes nothing while that one is still at it */
    return status == WRING_OK ? step(bench->mean_bucket) : status;
}

/** The largest of all ranks' words, and the mean of their means. */
static enum wring_status tell(struct wring_measure_bench *bench, const struct taken *solo,
                              const struct taken *all, double cpu_us)
{
    bench->words[WRING_MEASURE_WORD_SOLO] = solo->us;
    bench->words[WRING_MEASURE_WORD_ALL] = all->us;
    bench->words[WRING_MEASURE_WORD_ELAPSED] = (double)(wring_now_ns() - bench->began_ns) / 1e3;
    bench->mean = cpu_us;
    enum wring_status status = step(bench->words_bucket);
    return status == WRING_OK ? step(bench->mean_bucket) : status;
}

enum wring_status wring_measure_sample(struct wring_measure_bench *bench,
                                       struct wring_measure_way *way, uint32_t size,
                                       double *took_us)
{
    uint32_t k = way->batch[size], at = way->samples[size];
    struct taken solo = {0}, all = {0};
    enum wring_status status = exchange(bench, way, size, 1, &solo);

    if (status == WRING_OK && k > 1)
        status = exchange(bench, way, size, k, &all);
    if (status == WRING_OK)
        status = tell(bench, &solo, &all, (k > 1 ? all.cpu_us : solo.cpu_us) / k);
    if (status != WRING_OK)
        return status;
    double solo_us = bench->words[WRING_MEASURE_WORD_SOLO];
    double all_us = bench->words[WRING_MEASURE_WORD_ALL];
    bench->elapsed_us = bench->words[WRING_MEASURE_WORD_ELAPSED];
    way->us[WRING_MEASURE_SOLO][size][at] = solo_us;
    way->us[WRING_MEASURE_BUSY][size][at] =
        k > 1 ? fmax(all_us - solo_us, WRING_MEASURE_LEAST_US) / (k - 1) : solo_us;
    way->all_us[size][at] = k > 1 ? all_us : solo_us;
    way->us[WRING_MEASURE_CPU][size][at] = fmax(bench->mean, WRING_MEASURE_LEAST_US);
    way->samples[size]++;
    *took_us = solo_us + all_us;
    return WRING_OK;
}

/** @param value  ours. @param out  the mean of all ranks' */
static enum wring_status find_mean(struct wring_measure_bench *bench, double value, double *out)
{
    bench->mean = value;
    enum wring_status status = step(bench->mean_bucket);
    *out = bench->mean;
    return status;
}

enum wring_status wring_measure_count(struct wring_measure_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->ways[w].n && status == WRING_OK; size++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            struct wring_measure_way *way = &bench->ways[w];
            status = wring_bucket_stats(way->buckets[size][0], &stats);
            double steps = stats.steps > 0 ? (double)stats.steps : 1;
            if (status == WRING_OK)
                status =
                    find_mean(bench, (double)stats.wire_bytes_sent / steps, &way->wire_bytes[size]);
            if (status == WRING_OK)
                status =
                    find_mean(bench, (double)stats.codec_ns / steps / 1e3, &way->codec_us[size]);
        }
    return status;
}

double wring_measure_median(struct wring_measure_way *way, enum wring_measure_kind kind,
                            uint32_t size)
{
    struct wring_fit_point point = {0, way->us[kind][size], way->samples[size]};
    return wring_fit_look(&point).median;
}

bool wring_measure_is_beaten(struct wring_measure_bench *bench, struct wring_measure_way *way,
                             uint32_t size)
{
    bool beaten = false;

    for (uint32_t w = 0; w < bench->n; w++) {
        struct wring_measure_way *other = &bench->ways[w];
        if (other == way || other->codec != way->codec || size >= other->n ||
            other->samples[size] == 0)
            continue;
        beaten |= wring_measure_median(way, WRING_MEASURE_SOLO, size) >
                      BEATEN * wring_measure_median(other, WRING_MEASURE_SOLO, size) &&
                  wring_measure_median(way, WRING_MEASURE_BUSY, size) >
                      BEATEN * wring_measure_median(other, WRING_MEASURE_BUSY, size);
    }
    return beaten;
}

/** Is any of its medians in doubt? Sorts the samples. */
static bool is_in_doubt(struct wring_measure_way *way, uint32_t size)
{
    bool doubtful = false;

    for (int kind = 0; kind < WRING_MEASURE_KINDS; kind++) {
        struct wring_fit_point point = {0, way->us[kind][size], way->samples[size]};
        doubtful |= wring_fit_look(&point).doubt > WRING_PROFILE_NOISE;
    }
    return doubtful;
}

struct wring_measure_noise wring_measure_look(struct wring_measure_bench *bench)
{
    struct wring_measure_noise noise = {0};

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->ways[w].n; size++) {
            struct wring_measure_way *way = &bench->ways[w];
            way->again[size] = is_in_doubt(way, size);
            if (way->beaten[size])
                continue;
            struct wring_fit_point point = {0, way->us[WRING_MEASURE_SOLO][size],
                                            way->samples[size]};
            struct wring_fit_look look = wring_fit_look(&point);
            noise.points++;
            noise.shaky += look.doubt > WRING_PROFILE_NOISE;
            way->again[size] |= look.spread > WRING_PROFILE_NOISE;
        }
    return noise;
}
