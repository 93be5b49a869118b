/* SPDX-License-Identifier: Apache-2.0 */
/* Which collectives there are to measure, and the buckets that it takes. */
#include "runtime/plan/collective_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "compress/kernels/streaming.h"
#include "compress/reduce.h"
#include "planner/core/fit.h"
#include "runtime/commit/commit.h"
#include "runtime/group/group.h"
#include "runtime/plan/collective_bench_inside.h"

#define WRING_MODULE "plan"

uint32_t wring_collective_bench_batch(uint32_t size)
{
    static const uint32_t batches[WRING_COLLECTIVE_BENCH_SIZES] = {16, 16, 16, 16, 8, 4, 3, 2};
    return batches[size];
}

/* ---- what is measured ---- */

static void add_case(struct wring_collective_bench *bench, uint32_t codec, enum wring_scheme scheme)
{
    struct wring_collective_bench_case *collective = &bench->collectives[bench->n++];

    collective->codec = codec;
    collective->scheme = scheme;
    collective->n = bench->first;
}

/** Are there nodes that hierarchical schemes are made for, and is that wanted? */
static bool has_nodes_to_measure(const struct wring_collective_bench *bench)
{
    struct wring_group_nodes nodes = bench->session->world->nodes;
    return !bench->params->flat && wring_group_nodes_fit(&nodes);
}

/** Of a codec: the flat schemes that it can be in; the hierarchical ones follow. */
static void add_schemes(struct wring_collective_bench *bench, uint32_t codec,
                        const struct wring_codec_info *info)
{
    bool divisible = info->unit != 0, indivisible = (info->flags & WRING_CODEC_TWO_WAYS) == 0;
    bool in_nodes = has_nodes_to_measure(bench) && (info->flags & WRING_CODEC_VOTES) == 0;
    uint32_t hierarchical = in_nodes ? WRING_SCHEME_HIERARCHICAL : 0;

    for (uint32_t base = 0; base <= hierarchical; base += WRING_SCHEME_HIERARCHICAL) {
        if (divisible)
            add_case(bench, codec, (enum wring_scheme)(base + WRING_SCHEME_DIVISIBLE));
        if (indivisible)
            add_case(bench, codec, (enum wring_scheme)(base + WRING_SCHEME_INDIVISIBLE));
    }
}

/** Of none: between nodes it chooses for itself, whatever it does between all ranks. Many ranks may
 *  exchange sums two by two, which is neither of the flat schemes that can be named. */
static void add_raw(struct wring_collective_bench *bench, uint32_t codec)
{
    if (bench->params->every_scheme) {
        add_case(bench, codec, WRING_SCHEME_DIVISIBLE);
        add_case(bench, codec, WRING_SCHEME_INDIVISIBLE);
    }
    if (!bench->params->every_scheme || bench->session->size > WRING_ORDER_FOLDED)
        add_case(bench, codec, WRING_SCHEME_AUTO);
    if (has_nodes_to_measure(bench))
        add_case(bench, codec, WRING_SCHEME_HIERARCHICAL);
}

/** The schemes that there are for a codec. */
static enum wring_status add_cases(struct wring_collective_bench *bench, uint32_t codec)
{
    const struct wring_collective_bench_params *params = bench->params;
    struct wring_codec *made;
    enum wring_status status =
        wring_codec_create(params->codecs.specs[codec], bench->session->config.cpu,
                           bench->session->codecs, NULL, 0, &made);

    if (status != WRING_OK)
        return status;
    const struct wring_codec_info *info = wring_codec_info(made);
    if (info->flags & WRING_CODEC_RAW)
        add_raw(bench, codec);
    else
        add_schemes(bench, codec, info);
    wring_codec_destroy(made);
    return WRING_OK;
}

uint64_t wring_collective_bench_fit_memory(uint64_t max_elems, uint32_t n_codecs,
                                           uint32_t ranks_per_node)
{
    uint64_t room = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    uint64_t per_elem = (3 + 2 * 3 * (uint64_t)n_codecs) * sizeof(float);
    uint64_t largest = wring_collective_bench_size(WRING_COLLECTIVE_BENCH_SIZES - 1);

    max_elems = max_elems < largest ? max_elems : largest;
    while (max_elems > 1024 && max_elems * per_elem > room / ranks_per_node)
        max_elems /= 4;
    return max_elems;
}

static void choose_sizes(struct wring_collective_bench *bench)
{
    const struct wring_collective_bench_params *params = bench->params;
    uint64_t most = wring_collective_bench_fit_memory(params->max_elems, params->codecs.n,
                                                      params->ranks_per_node);

    bench->sizes = bench->first + 2;
    while (bench->sizes < WRING_COLLECTIVE_BENCH_SIZES &&
           wring_collective_bench_size(bench->sizes) <= most)
        bench->sizes++;
}

/** Agree on sizes and budget: the least of all ranks counts. */
static enum wring_status agree_on_limits(struct wring_collective_bench *bench)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    bench->budget_ns = bench->params->budget_ns;
    wring_write_u32(&writer, bench->sizes);
    wring_write_u64(&writer, bench->budget_ns);
    enum wring_status status = wring_session_exchange_writer(bench->session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < bench->session->size; i++) {
        struct wring_reader in = wring_blobs_reader(&blobs, i);
        uint32_t sizes = wring_read_u32(&in);
        uint64_t budget_ns = wring_read_u64(&in);
        if (in.failed || sizes <= bench->first)
            status = WRING_ERR_FRAME;
        bench->sizes = sizes < bench->sizes ? sizes : bench->sizes;
        bench->budget_ns = budget_ns < bench->budget_ns ? budget_ns : bench->budget_ns;
    }
    wring_blobs_finish(&blobs);
    return status;
}

/* ---- memory and buckets ---- */

/** Bell-shaped, as gradients are: the sum of four dice. */
static void fill_like_gradients(float *data, uint64_t elems, uint32_t rank)
{
    uint64_t random = rank + 1;

    for (uint64_t i = 0; i < elems; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t dice = (random >> 16 & 0xfff) + (random >> 28 & 0xfff) + (random >> 40 & 0xfff) +
                        (random >> 52 & 0xfff);
        data[i] = (float)((int)dice - 2 * 0xfff) * 0x1p-13f;
    }
}

/** The ranks of a node fill a last cache together. */
static size_t cold_bytes(const struct wring_collective_bench *bench)
{
    size_t bytes = WRING_COLLECTIVE_BENCH_LAST_BYTES / bench->params->ranks_per_node;

    return bytes > WRING_COLLECTIVE_BENCH_OWN_BYTES ? bytes : WRING_COLLECTIVE_BENCH_OWN_BYTES;
}

static enum wring_status make_memory(struct wring_collective_bench *bench)
{
    uint64_t elems = wring_collective_bench_size(bench->sizes - 1), all = 0;

    for (uint32_t size = bench->first; size < bench->sizes; size++)
        if (all < wring_collective_bench_batch(size) * wring_collective_bench_size(size))
            all = wring_collective_bench_batch(size) * wring_collective_bench_size(size);
    bench->source = malloc(elems * sizeof(float));
    bench->cold_words = cold_bytes(bench) / sizeof(*bench->cold);
    bench->cold = calloc(bench->cold_words, sizeof(*bench->cold));
    if (bench->source == NULL || bench->cold == NULL)
        return WRING_ERR_NO_MEMORY;
    fill_like_gradients(bench->source, elems, bench->session->rank);
    if (bench->params->placed)
        return wring_buffer_alloc(bench->session, all * sizeof(float), (void **)&bench->data);
    bench->data = malloc(all * sizeof(float));
    return bench->data != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static enum wring_status register_shared_numbers(struct wring_collective_bench *bench)
{
    struct wring_bucket_params params = {.name = "measure.slowest",
                                         .data = bench->words,
                                         .elems = WRING_COLLECTIVE_BENCH_WORDS,
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

/** @param what  begins its name */
static enum wring_status register_bucket(struct wring_collective_bench *bench, const char *what,
                                         uint32_t codec, enum wring_scheme scheme, uint32_t size,
                                         uint32_t k, struct wring_bucket **out)
{
    char name[WRING_NAME_MAX];
    const struct wring_bucket_params params = {.name = name,
                                               .data = bench->data +
                                                       k * wring_collective_bench_size(size),
                                               .elems = wring_collective_bench_size(size),
                                               .codec = bench->params->codecs.specs[codec],
                                               .scheme = scheme};

    snprintf(name, sizeof(name), "%s.%u.%d.%u.%u", what, codec, scheme, size, k);
    return wring_bucket_register(bench->session, &params, out);
}

static enum wring_status register_case(struct wring_collective_bench *bench,
                                       struct wring_collective_bench_case *collective)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = bench->first; size < bench->sizes; size++)
        for (uint32_t k = 0; k < wring_collective_bench_batch(size) && status == WRING_OK; k++)
            status = register_bucket(bench, "measure", collective->codec, collective->scheme, size,
                                     k, &collective->buckets[size][k]);
    return status;
}

/** Buckets that are asked what "auto" is of them. */
static enum wring_status register_auto_buckets(struct wring_collective_bench *bench, uint32_t codec)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = bench->first; size < bench->sizes && status == WRING_OK; size++)
        status = register_bucket(bench, "measure.asked", codec, WRING_SCHEME_AUTO, size, 0,
                                 &bench->asked[codec][size]);
    return status;
}

/** The scheme that can be named and takes those times; auto: none does. */
static enum wring_scheme scheme_that_ran(const char *name)
{
    if (strcmp(name, "indivisible") == 0)
        return WRING_SCHEME_INDIVISIBLE;
    return strcmp(name, "doubling") == 0 || strcmp(name, "halving") == 0 ? WRING_SCHEME_AUTO
                                                                         : WRING_SCHEME_DIVISIBLE;
}

static enum wring_status ask_auto_schemes(struct wring_collective_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t codec = 0; codec < bench->params->codecs.n; codec++)
        for (uint32_t size = bench->first; size < bench->sizes && status == WRING_OK; size++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            status = wring_bucket_stats(bench->asked[codec][size], &stats);
            if (status == WRING_OK)
                bench->auto_is[codec][size] = scheme_that_ran(stats.scheme);
        }
    return status;
}

static enum wring_status register_all(struct wring_collective_bench *bench)
{
    const struct wring_collective_bench_params *params = bench->params;
    enum wring_status status = make_memory(bench);

    if (status == WRING_OK)
        status = register_shared_numbers(bench);
    for (uint32_t i = 0; i < params->codecs.n && status == WRING_OK; i++) {
        status = add_cases(bench, i);
        if (status == WRING_OK && params->every_scheme)
            status = register_auto_buckets(bench, i);
    }
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
        status = register_case(bench, &bench->collectives[w]);
    return status;
}

/** Agree with the other ranks on sizes and limits, register the collectives' buckets and connect
 * them. Collective. Errors: those of a commit. */
static enum wring_status measure_prepare(struct wring_collective_bench *bench)
{
    choose_sizes(bench);
    enum wring_status status = agree_on_limits(bench);
    if (status == WRING_OK) /* each of it on all ranks or on none */
        status = wring_commit_passing(bench->session, register_all(bench));
    return status == WRING_OK && bench->params->every_scheme ? ask_auto_schemes(bench) : status;
}

/** The session is as it was before. NULL members are fine. */
static void measure_clear(struct wring_collective_bench *bench)
{
    wring_commit_forget_passing(bench->session, bench->real);
    if (bench->params->placed)
        wring_buffer_free(bench->session, bench->data);
    else
        free(bench->data);
    free(bench->source);
    free(bench->cold);
}

/* ---- measure sample ---- */

/* One sample of a collective, and what is looked up of all of them. */

#define BEATEN 1.3      /* times as long as the other scheme */
#define LINE_WORDS 8    /* of 8 bytes */
#define SAMPLES 4.0     /* of one at a size, in a turn: one and many, small ones again */
#define COLD_SHARE 0.25 /* of the time may go into making caches cold */

/** What one collective took this rank. */
struct taken {
    double us, cpu_us; /* of all the process's threads: those of wring, and this one, which waits */
};

static enum wring_status run_step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post_inside(bucket);

    return status == WRING_OK ? wring_bucket_wait_inside(bucket, WRING_FOREVER) : status;
}

/** The first k at once. Where one cannot be posted, those before it end all the same: their memory
 *  is the bench's. */
static enum wring_status run_steps_at_once(struct wring_bucket *const *buckets, uint32_t k)
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
 * Else a collective that fits in there leaves its sums for others to write back.
 */
static void cool_down(const struct wring_collective_bench *bench)
{
    for (size_t word = 0; word < bench->cold_words; word += LINE_WORDS)
        ++*(volatile uint64_t *)&bench->cold[word];
}

/** Before each collective as much is written as a last cache holds, or less where a turn has no
 * time for that. Once limit_us is known. */
static void fit_cold_bytes(struct wring_collective_bench *bench)
{
    double samples = SAMPLES * bench->n * (double)(bench->sizes - bench->first);

    cool_down(bench); /* its pages are there from now on */
    uint64_t began = wring_now_ns();
    cool_down(bench);
    double us = (double)(wring_now_ns() - began) / 1e3;
    size_t own = WRING_COLLECTIVE_BENCH_OWN_BYTES / sizeof(*bench->cold);
    for (; us > bench->limit_us * COLD_SHARE / samples && bench->cold_words > own; us /= 2)
        bench->cold_words /= 2;
}

/**
 * The first k buckets of a size at once, all ranks beginning together. Their data are in memory
 * alone, where the processor has stores past its caches: of a model's gradients caches hold little,
 * and never those that travel first.
 */
static enum wring_status run_sample(struct wring_collective_bench *bench,
                                    struct wring_collective_bench_case *collective, uint32_t size,
                                    uint32_t k, struct taken *out)
{
    for (uint32_t i = 0; i < k; i++)
        wring_streaming_copy(bench->data + i * wring_collective_bench_size(size), bench->source,
                             wring_collective_bench_size(size) * sizeof(float));
    cool_down(bench);
    enum wring_status status = run_step(bench->mean_bucket); /* a barrier */
    uint64_t cpu = wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID), began = wring_now_ns();
    if (status == WRING_OK)
        status = run_steps_at_once(collective->buckets[size], k);
    out->us = (double)(wring_now_ns() - began) / 1e3;
    out->cpu_us = (double)(wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e3;
    /* ranks that share a core write nothing while another one is still measured */
    return status == WRING_OK ? run_step(bench->mean_bucket) : status;
}

/** The largest of all ranks' words, and the mean of their means. */
static enum wring_status agree_on_sample(struct wring_collective_bench *bench,
                                         const struct taken *solo, const struct taken *all,
                                         double cpu_us)
{
    bench->words[WRING_COLLECTIVE_BENCH_WORD_SOLO] = solo->us;
    bench->words[WRING_COLLECTIVE_BENCH_WORD_ALL] = all->us;
    bench->words[WRING_COLLECTIVE_BENCH_WORD_ELAPSED] =
        (double)(wring_now_ns() - bench->began_ns) / 1e3;
    bench->mean = cpu_us;
    enum wring_status status = run_step(bench->words_bucket);
    return status == WRING_OK ? run_step(bench->mean_bucket) : status;
}

/** One sample of each kind: times of the slowest rank, processor time as the mean of all.
 *  @param took_us  out: of all of it, the same on all ranks */
static enum wring_status measure_sample(struct wring_collective_bench *bench,
                                        struct wring_collective_bench_case *collective,
                                        uint32_t size, double *took_us)
{
    uint32_t k = collective->batch[size], at = collective->samples[size];
    struct taken solo = {0}, all = {0};
    enum wring_status status = run_sample(bench, collective, size, 1, &solo);

    if (status == WRING_OK && k > 1)
        status = run_sample(bench, collective, size, k, &all);
    if (status == WRING_OK)
        status = agree_on_sample(bench, &solo, &all, (k > 1 ? all.cpu_us : solo.cpu_us) / k);
    if (status != WRING_OK)
        return status;
    double solo_us = bench->words[WRING_COLLECTIVE_BENCH_WORD_SOLO];
    double all_us = bench->words[WRING_COLLECTIVE_BENCH_WORD_ALL];
    bench->elapsed_us = bench->words[WRING_COLLECTIVE_BENCH_WORD_ELAPSED];
    collective->us[WRING_COLLECTIVE_BENCH_SOLO][size][at] = solo_us;
    collective->us[WRING_COLLECTIVE_BENCH_BUSY][size][at] =
        k > 1 ? fmax(all_us - solo_us, WRING_COLLECTIVE_BENCH_LEAST_US) / (k - 1) : solo_us;
    collective->all_us[size][at] = k > 1 ? all_us : solo_us;
    collective->us[WRING_COLLECTIVE_BENCH_CPU][size][at] =
        fmax(bench->mean, WRING_COLLECTIVE_BENCH_LEAST_US);
    collective->samples[size]++;
    *took_us = solo_us + all_us;
    return WRING_OK;
}

/** @param value  ours. @param out  the mean of all ranks' */
static enum wring_status agree_on_mean(struct wring_collective_bench *bench, double value,
                                       double *out)
{
    bench->mean = value;
    enum wring_status status = run_step(bench->mean_bucket);
    *out = bench->mean;
    return status;
}

/** Bytes, and codec work, as the buckets count them: the mean of all ranks. */
static enum wring_status measure_count(struct wring_collective_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->collectives[w].n && status == WRING_OK;
             size++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            struct wring_collective_bench_case *collective = &bench->collectives[w];
            status = wring_bucket_stats(collective->buckets[size][0], &stats);
            double steps = stats.steps > 0 ? (double)stats.steps : 1;
            if (status == WRING_OK)
                status = agree_on_mean(bench, (double)stats.wire_bytes_sent / steps,
                                       &collective->wire_bytes[size]);
            if (status == WRING_OK)
                status = agree_on_mean(bench, (double)stats.codec_ns / steps / 1e3,
                                       &collective->codec_us[size]);
        }
    return status;
}

/** Whether the codec's other scheme is so much faster, alone and in a backlog, that more samples of
 *  this one would say nothing more; the same on all ranks. Sorts samples. */
static bool is_beaten(struct wring_collective_bench *bench,
                      struct wring_collective_bench_case *collective, uint32_t size)
{
    bool beaten = false;

    for (uint32_t w = 0; w < bench->n; w++) {
        struct wring_collective_bench_case *other = &bench->collectives[w];
        if (other == collective || other->codec != collective->codec || size >= other->n ||
            other->samples[size] == 0)
            continue;
        beaten |=
            wring_collective_bench_median(collective, WRING_COLLECTIVE_BENCH_SOLO, size) >
                BEATEN * wring_collective_bench_median(other, WRING_COLLECTIVE_BENCH_SOLO, size) &&
            wring_collective_bench_median(collective, WRING_COLLECTIVE_BENCH_BUSY, size) >
                BEATEN * wring_collective_bench_median(other, WRING_COLLECTIVE_BENCH_BUSY, size);
    }
    return beaten;
}

/** Is any of its medians in doubt? Sorts the samples. */
static bool is_in_doubt(struct wring_collective_bench_case *collective, uint32_t size)
{
    bool doubtful = false;

    for (int kind = 0; kind < WRING_COLLECTIVE_BENCH_KINDS; kind++) {
        struct wring_fit_point point = {0, collective->us[kind][size], collective->samples[size]};
        doubtful |= wring_fit_look(&point).doubt > WRING_PROFILE_NOISE;
    }
    return doubtful;
}

/** Count the points that are not beaten, and those whose median is in doubt. Mark points to be
 *  measured again: those that are in doubt in any kind, beaten ones as well, and those that are
 *  noisy. Sorts samples. */
static struct wring_collective_bench_noise look_for_noise(struct wring_collective_bench *bench)
{
    struct wring_collective_bench_noise noise = {0};

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->collectives[w].n; size++) {
            struct wring_collective_bench_case *collective = &bench->collectives[w];
            collective->again[size] = is_in_doubt(collective, size);
            if (collective->beaten[size])
                continue;
            struct wring_fit_point point = {0, collective->us[WRING_COLLECTIVE_BENCH_SOLO][size],
                                            collective->samples[size]};
            struct wring_fit_look look = wring_fit_look(&point);
            noise.points++;
            noise.shaky += look.doubt > WRING_PROFILE_NOISE;
            collective->again[size] |= look.spread > WRING_PROFILE_NOISE;
        }
    return noise;
}

/* ---- measure collectives ---- */

#define SHORT_US 1000.0
#define RARE_SIZE 6       /* from this on a size has its turn in every other turn */
#define TURNS_IN_BUDGET 6 /* of the longest ones */
#define NOISY_SHARE 0.1   /* of the time is for noisy points */
#define RAW_SPENT 1.25    /* of it may be spent where raw collectives are */
#define SHOWN 3           /* samples by which a size can be beaten */
#define PROBE_FIRST 2     /* 16 Ki and 64 Ki elements, if buckets are as large */
#define PROBE_TURNS 5

double wring_collective_bench_limit_us(uint64_t budget_ns)
{
    return (double)budget_ns / 1e3 / TURNS_IN_BUDGET;
}

/** How many of a size its share of a turn is enough for: a backlog of two says what a further
 *  bucket adds, too, and where a link takes that long it is by the bytes. */
static uint32_t fit_backlog(const struct wring_collective_bench *bench, uint32_t size,
                            double solo_us)
{
    uint32_t most = wring_collective_bench_batch(size);
    double share = bench->limit_us / 4 / solo_us;

    if (bench->alone)
        return 1;
    return share >= most ? most : share <= 2 ? 2 : (uint32_t)share;
}

/** The longest turn with that size in it: the least number of turns with all sizes must fit into
 *  the time. */
static double turn_limit_us(const struct wring_collective_bench *bench, uint32_t size)
{
    double turns = size < RARE_SIZE ? bench->params->turns_min : 0;

    return bench->limit_us * TURNS_IN_BUDGET / fmax(turns, TURNS_IN_BUDGET);
}

/** May a collective have its next size? Time goes on by the bytes, and turns must be short enough.
 */
static bool may_have_next_size(const struct wring_collective_bench *bench,
                               const struct wring_collective_bench_case *collective, uint32_t size)
{
    if (size < bench->first + 2)
        return true;
    if (collective->n != size)
        return false;
    double batches =
        (1.0 + wring_collective_bench_batch(size)) / (1.0 + collective->batch[size - 1]);
    return bench->turn_us + 4 * fmin(batches, 1) * collective->took_us[size - 1] <=
           turn_limit_us(bench, size);
}

/** A size's first time: all memory is touched. */
static enum wring_status begin_size(struct wring_collective_bench *bench,
                                    struct wring_collective_bench_case *collective, uint32_t size)
{
    double solo_us;

    collective->batch[size] = 1;
    enum wring_status status = measure_sample(bench, collective, size, &solo_us);
    if (status != WRING_OK)
        return status;
    collective->batch[size] = fit_backlog(bench, size, solo_us);
    status = measure_sample(bench, collective, size, &collective->took_us[size]);
    collective->samples[size] = 0;
    collective->n++;
    bench->turn_us += collective->took_us[size];
    return status;
}

/** How large buckets can be is found out: the small ones first. */
static enum wring_status warm_up(struct wring_collective_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = bench->first; size < bench->sizes; size++)
        for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
            if (may_have_next_size(bench, &bench->collectives[w], size))
                status = begin_size(bench, &bench->collectives[w], size);
    return status;
}

/** One sample of each collective that has that size. @param all  or only what is noisy, or in doubt
 */
static enum wring_status run_size(struct wring_collective_bench *bench, uint32_t size, bool all,
                                  double *took_us)
{
    enum wring_status status = WRING_OK;
    double us;

    *took_us = 0;
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++) {
        struct wring_collective_bench_case *collective = &bench->collectives[w];
        if (size >= collective->n || !(all ? !collective->beaten[size] : collective->again[size]))
            continue;
        status = measure_sample(bench, collective, size, &us);
        *took_us += us;
        if (collective->samples[size] == SHOWN)
            collective->beaten[size] = is_beaten(bench, collective, size);
    }
    return status;
}

/**
 * Sizes rise, and after each that takes long the short ones have another turn. Never twice in a
 * row: what the caches hold of a bucket is then as little as between two iterations of training.
 */
static enum wring_status run_turn(struct wring_collective_bench *bench, uint32_t turn, bool all)
{
    uint32_t sizes = bench->sizes > RARE_SIZE && turn % 2 != 0 ? RARE_SIZE : bench->sizes;
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
static enum wring_status run_turns(struct wring_collective_bench *bench, uint32_t min, uint32_t max,
                                   double share)
{
    const struct wring_collective_bench_params *params = bench->params;
    enum wring_status status = WRING_OK;

    for (uint32_t turn = 0; turn < max && status == WRING_OK; turn++) {
        if (turn >= min && bench->elapsed_us >= share * (double)bench->budget_ns / 1e3)
            break;
        if (params->tell != NULL)
            params->tell(params->arg, turn, false);
        status = run_turn(bench, turn, true);
    }
    return status;
}

static bool is_any_measured_again(const struct wring_collective_bench *bench)
{
    bool any = false;

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->collectives[w].n; size++)
            any = any || bench->collectives[w].again[size];
    return any;
}

/** Nothing but raw collectives is measured again. */
static void skip_coded_points(struct wring_collective_bench *bench)
{
    for (uint32_t w = 0; w < bench->n; w++)
        if (!wring_collective_bench_is_raw(bench, &bench->collectives[w]))
            memset(bench->collectives[w].again, 0, sizeof(bench->collectives[w].again));
}

/** Measure points that are noisy or in doubt again, until none are or the time is over. A profile
 *  needs its raw collectives, so these have some more time. */
static enum wring_status measure_noisy_again(struct wring_collective_bench *bench,
                                             struct wring_collective_bench_noise *noise)
{
    const struct wring_collective_bench_params *params = bench->params;
    enum wring_status status = WRING_OK;

    for (uint32_t turn = 0; turn < WRING_COLLECTIVE_BENCH_AGAIN_MAX && is_any_measured_again(bench);
         turn++) {
        double spent = bench->elapsed_us * 1e3 / (double)bench->budget_ns;
        if (turn > 0 && spent >= 1)
            skip_coded_points(bench);
        if (spent >= RAW_SPENT || !is_any_measured_again(bench))
            break;
        if (params->tell != NULL)
            params->tell(params->arg, turn, true);
        status = run_turn(bench, turn, false);
        if (status != WRING_OK)
            break;
        *noise = look_for_noise(bench);
    }
    return status;
}

static enum wring_status measure_all(struct wring_collective_bench *bench,
                                     struct wring_collective_bench_noise *noise)
{
    enum wring_status status = measure_prepare(bench);

    if (status != WRING_OK)
        return status;
    bench->limit_us = wring_collective_bench_limit_us(bench->budget_ns);
    fit_cold_bytes(bench);
    status = warm_up(bench);
    if (status == WRING_OK)
        status = run_turns(bench, bench->params->turns_min, WRING_COLLECTIVE_BENCH_TURNS_MAX,
                           1 - NOISY_SHARE);
    if (status != WRING_OK)
        return status;
    *noise = look_for_noise(bench);
    status = measure_noisy_again(bench, noise);
    return status == WRING_OK ? measure_count(bench) : status;
}

/** The session's own buckets are put aside. Collective. */
static enum wring_status begin_bench(struct wring_session *session,
                                     const struct wring_collective_bench_params *params,
                                     struct wring_collective_bench **out)
{
    struct wring_collective_bench *bench = calloc(1, sizeof(*bench));
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

enum wring_status wring_collective_bench_run(struct wring_session *session,
                                             const struct wring_collective_bench_params *params,
                                             struct wring_profile *profile,
                                             struct wring_collective_bench_noise *noise)
{
    struct wring_collective_bench *bench;
    struct wring_collective_bench_noise unused;
    enum wring_status status = begin_bench(session, params, &bench);

    if (status != WRING_OK)
        return status;
    status = measure_all(bench, noise != NULL ? noise : &unused);
    measure_clear(bench);
    wring_debug(&session->log, "%u collectives were measured in %.1f ms", bench->n,
                (double)(wring_now_ns() - bench->began_ns) / 1e6);
    if (status == WRING_OK && profile != NULL)
        status = wring_collective_profile_put(bench, profile);
    free(bench);
    return wring_session_agree(session, status, "");
}

static enum wring_status run_probe(struct wring_collective_bench *bench)
{
    enum wring_status status = measure_prepare(bench);

    if (status == WRING_OK)
        status = warm_up(bench);
    return status == WRING_OK ? run_turns(bench, PROBE_TURNS, PROBE_TURNS, 1) : status;
}

enum wring_status wring_collective_bench_probe(struct wring_session *session,
                                               const struct wring_collective_bench_params *params,
                                               struct wring_collective_bench_glance *out)
{
    struct wring_collective_bench_params few = *params;
    struct wring_collective_bench *bench;

    few.codecs = (struct wring_collective_bench_codecs){.n = 1, .specs = {"none"}};
    few.every_scheme = false;
    enum wring_status status = begin_bench(session, &few, &bench);
    if (status != WRING_OK)
        return status;
    bench->alone = true;
    bench->first =
        params->max_elems >= wring_collective_bench_size(PROBE_FIRST + 1) ? PROBE_FIRST : 0;
    few.max_elems = wring_collective_bench_size(bench->first + 1);
    status = run_probe(bench);
    measure_clear(bench);
    status = wring_session_agree(session, status, "");
    if (status == WRING_OK) {
        struct wring_collective_bench_case *collective = &bench->collectives[0];
        double *us = collective->us[WRING_COLLECTIVE_BENCH_SOLO][collective->n - 1];
        struct wring_fit_point point = {0, us, collective->samples[collective->n - 1]};
        out->elems = (double)wring_collective_bench_size(collective->n - 1);
        out->median_us = wring_fit_look(&point).median; /* which sorts them */
        out->least_us = us[0];
    }
    free(bench);
    return status;
}
