/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a bucket's coding takes by executor: inline with the kernels of each tier, and pools of
 * pinned cores with the best ones. Buckets are coded piece by piece, as the runtime does it, in
 * rank 0 while all else rests.
 */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compress/codec.h"
#include "compress/solo.h"
#include "offload/pool.h"
#include "planner/core/fit.h"
#include "tools/bench/bench.h"
#include "tools/bench/codec.h"
#include "tools/calibrate/calibrate.h"

#define SIZES 3
#define TURNS_MIN 5
#define TURNS_MAX 60
#define PIECE (256u << 10) /* elements: their code fills about WRING_CHUNK_BYTES */
#define PIECES_MAX 64
#define SAMPLE_NS 30000.0 /* shorter ones are repeated to take about so long */

static const uint64_t sizes[SIZES] = {16384, 262144, 4194304};

#define MANY_CODES 9 /* of a sum: eight more than of one contribution */

/** What is timed of a bucket; codes are there when they are decoded. Sums are of codes that add up:
 *  of one, which is copied and decoded, and of many, which differs from it by the additions. */
enum task {
    ENCODE,
    DECODE,
    DECODE_ADD,
    SUM_ONE,
    SUM_MANY,
    TASKS
};

/** How a codec's jobs are run on this machine: by cores, and by kernels. */
struct variant {
    uint32_t cores; /* 0: inline */
    const char *tier;
};

struct bench {
    struct wring_codec *codec;
    struct wring_executor *executor;
    float *src, *residual, *dst; /* [largest size] */
    uint32_t n_sizes;
    struct wring_codec_context contexts[SIZES];
    struct wring_solo solos[SIZES]; /* of which the contexts are */
    char *code;
    size_t stride;                 /* of a piece's code */
    size_t code_bytes[PIECES_MAX]; /* of the codes that were made last */
    struct wring_job jobs[PIECES_MAX], *list[PIECES_MAX], *done[PIECES_MAX];
    struct wring_source sources[PIECES_MAX][2];
    char *zeros, *sums; /* codes of MANY_CODES ranks, for a piece; sums of the pieces. NULL: codes
                           do not add up */
    size_t sum_stride;
    struct wring_source summed[PIECES_MAX][MANY_CODES];
    uint64_t piece;
    enum wring_status status;
    double samples[TASKS][SIZES][TURNS_MAX]; /* us */
    uint32_t turns;
};

/** All pieces given, and all of them back. */
static void run_jobs(struct bench *bench, size_t n)
{
    const struct wring_executor_ops *ops = bench->executor->ops;
    size_t done = 0;

    ops->submit(bench->executor, bench->list, n);
    while (done < n) {
        size_t more = ops->poll(bench->executor, bench->done, PIECES_MAX);
        if (more == 0)
            sched_yield();
        done += more;
    }
    for (size_t i = 0; i < n; i++) {
        if (bench->jobs[i].result.status != WRING_OK)
            bench->status = bench->jobs[i].result.status;
        if (bench->jobs[i].kind == WRING_JOB_ENCODE)
            bench->code_bytes[i] = bench->jobs[i].result.code_bytes;
    }
}

static uint64_t elems_of(const struct bench *bench, uint64_t elems, size_t i)
{
    uint64_t left = elems - i * bench->piece;
    return left < bench->piece ? left : bench->piece;
}

static bool is_sum(enum task task)
{
    return task == SUM_ONE || task == SUM_MANY;
}

static bool is_timed(const struct bench *bench, enum task task)
{
    return !is_sum(task) || bench->zeros != NULL;
}

/** As an owner adds the codes of a piece, and decodes the sum for itself. */
static void make_sum(struct bench *bench, size_t piece, uint32_t n, struct wring_job *job)
{
    for (uint32_t i = 0; i < n; i++)
        bench->summed[piece][i] =
            (struct wring_source){.data = bench->zeros + i * bench->stride,
                                  .bytes = wring_codec_bound(bench->codec, job->elems),
                                  .codec = bench->codec};
    job->sources = bench->summed[piece];
    job->n_sources = n;
    job->sum_codes = true;
    job->codec_out = bench->codec;
    job->code = bench->sums + piece * bench->sum_stride;
    job->context.phase = 1;
    job->context.rank = 0;
}

static size_t make_jobs(struct bench *bench, uint32_t size, enum task task)
{
    static const enum wring_job_kind kinds[TASKS] = {
        WRING_JOB_ENCODE, WRING_JOB_DECODE, WRING_JOB_REDUCE, WRING_JOB_REDUCE, WRING_JOB_REDUCE};
    bool encode = task == ENCODE, adds = task == DECODE_ADD;
    uint64_t elems = sizes[size];
    size_t n = 0;

    for (; n * bench->piece < elems; n++) {
        uint64_t at = n * bench->piece;
        struct wring_job *job = &bench->jobs[n];
        bench->sources[n][0] = (struct wring_source){
            .data = bench->dst + at, .bytes = elems_of(bench, elems, n) * sizeof(float)};
        bench->sources[n][1] = (struct wring_source){.data = bench->code + n * bench->stride,
                                                     .bytes = bench->code_bytes[n],
                                                     .codec = bench->codec};
        *job = (struct wring_job){
            .kind = kinds[task],
            .dtype = WRING_F32,
            .op = WRING_SUM,
            .elems = elems_of(bench, elems, n),
            .context = bench->contexts[size],
            .src = bench->src + at,
            .sources = adds ? bench->sources[n] : &bench->sources[n][1],
            .n_sources = adds ? 2 : 1,
            .divisor = 1,
            .codec_out = encode ? bench->codec : NULL,
            .residual = encode && bench->residual != NULL ? bench->residual + at : NULL,
            .code = bench->code + n * bench->stride,
            .dst = bench->dst + at};
        job->context.element = at;
        if (is_sum(task))
            make_sum(bench, n, task == SUM_ONE ? 1 : MANY_CODES, job);
        bench->list[n] = job;
    }
    return n;
}

static double time_task(struct bench *bench, uint32_t size, enum task task, uint32_t times)
{
    uint64_t took = 0;

    for (uint32_t i = 0; i < times; i++) {
        size_t n = make_jobs(bench, size, task);
        uint64_t began = wring_now_ns();
        run_jobs(bench, n);
        took += wring_now_ns() - began;
    }
    return (double)took / times;
}

static void run_turn(struct bench *bench, uint32_t (*times)[TASKS])
{
    for (uint32_t size = 0; size < bench->n_sizes; size++)
        for (enum task task = 0; task < TASKS; task++)
            if (is_timed(bench, task))
                bench->samples[task][size][bench->turns] =
                    time_task(bench, size, task, times[size][task]) / 1e3;
    bench->turns++;
}

/** Is a median not known yet? */
static bool is_in_doubt(struct bench *bench)
{
    for (uint32_t size = 0; size < bench->n_sizes; size++)
        for (enum task task = 0; task < SUM_ONE; task++)
            if (wring_calibrate_is_in_doubt(bench->samples[task][size], bench->turns))
                return true;
    return false;
}

/** Measure until deadline_ns; until late_ns while a median is in doubt. */
static void run_turns(struct bench *bench, uint64_t deadline_ns, uint64_t late_ns)
{
    uint32_t times[SIZES][TASKS];

    for (uint32_t size = 0; size < bench->n_sizes; size++)
        for (enum task task = 0; task < TASKS; task++) {
            if (!is_timed(bench, task))
                continue;
            time_task(bench, size, task, 1);
            double ns = fmax(time_task(bench, size, task, 1), 1);
            times[size][task] = (uint32_t)fmin(ceil(SAMPLE_NS / ns), 1000);
        }
    while (bench->turns < TURNS_MAX && bench->status == WRING_OK &&
           (bench->turns < TURNS_MIN || wring_now_ns() < deadline_ns ||
            (wring_now_ns() < late_ns && is_in_doubt(bench))))
        run_turn(bench, times);
}

/** @param noise  counts its points; NULL: nothing needs them */
static enum wring_status fit_task(struct bench *bench, enum task task,
                                  struct wring_profile_curve *out,
                                  struct wring_collective_bench_noise *noise)
{
    struct wring_fit_point points[SIZES];

    for (uint32_t i = 0; i < bench->n_sizes; i++) {
        points[i] =
            (struct wring_fit_point){(double)sizes[i], bench->samples[task][i], bench->turns};
        if (noise != NULL)
            wring_calibrate_count(&points[i], noise);
    }
    return wring_fit_curve(points, bench->n_sizes, WRING_FIT_MEDIAN, out);
}

/** The time of adding a code: a sum of many codes takes longer than one of one by MANY_CODES - 1 of
 *  them. */
static void take_additions(struct bench *bench)
{
    for (uint32_t size = 0; size < bench->n_sizes; size++)
        for (uint32_t turn = 0; turn < bench->turns; turn++) {
            double more_us =
                bench->samples[SUM_MANY][size][turn] - bench->samples[SUM_ONE][size][turn];
            bench->samples[SUM_MANY][size][turn] = fmax(more_us, 0) / (MANY_CODES - 1);
        }
}

/** Rounds and state of each size: a codec may have one unit, the whole bucket. */
static enum wring_status make_solos(struct bench *bench)
{
    for (uint32_t size = 0; size < bench->n_sizes; size++) {
        struct wring_codec_context *context = &bench->contexts[size];
        uint64_t rows = wring_codec_matrix_rows(sizes[size]);
        *context = (struct wring_codec_context){.seed = 1,
                                                .rank = 1,
                                                .ranks = 2,
                                                .elems = sizes[size],
                                                .rows = rows,
                                                .columns = sizes[size] / rows};
        enum wring_status status = wring_solo_init(&bench->solos[size], bench->codec, context);
        if (status != WRING_OK)
            return status;
        wring_solo_rounds(&bench->solos[size], context, bench->src, bench->residual);
    }
    return WRING_OK;
}

static bool make_sum_memory(struct bench *bench, uint64_t elems)
{
    const struct wring_codec_ops *ops = bench->codec->ops;
    size_t bytes = bench->stride;

    if (ops->sum_bound != NULL)
        bytes = ops->sum_bound(bench->codec, bench->piece);
    bench->sum_stride = (bytes + 63) / 64 * 64;
    bench->zeros = calloc(MANY_CODES, bench->stride);
    bench->sums = calloc((elems + bench->piece - 1) / bench->piece, bench->sum_stride);
    return bench->zeros != NULL && bench->sums != NULL;
}

static enum wring_status make_memory(struct bench *bench, uint64_t elems)
{
    const struct wring_codec_info *info = wring_codec_info(bench->codec);
    uint64_t unit = info->unit > 0 ? info->unit : elems;

    bench->piece = unit < PIECE ? PIECE / unit * unit : unit;
    if (bench->piece > elems)
        bench->piece = elems;
    if (bench->piece * PIECES_MAX < elems)
        return WRING_ERR_INVALID; /* no unit is so odd */
    bench->stride = (wring_codec_bound(bench->codec, bench->piece) + 63) / 64 * 64;
    bench->src = calloc(elems, sizeof(float));
    bench->dst = calloc(elems, sizeof(float));
    bench->code = calloc((elems + bench->piece - 1) / bench->piece, bench->stride);
    bool feeds = (info->flags & WRING_CODEC_FEEDBACK) != 0;
    bench->residual = feeds ? calloc(elems, sizeof(float)) : NULL;
    if (wring_codec_adds_codes(bench->codec) && !make_sum_memory(bench, elems))
        return WRING_ERR_NO_MEMORY;
    if (bench->src == NULL || bench->dst == NULL || bench->code == NULL ||
        (feeds && bench->residual == NULL))
        return WRING_ERR_NO_MEMORY;
    wring_pattern_fill(bench->src, elems, 0);
    if (make_solos(bench) != WRING_OK)
        return WRING_ERR_NO_MEMORY;
    return bench->executor->ops->reserve(bench->executor, bench->piece);
}

static enum wring_status create_executor(uint32_t cores, struct wring_executor **out)
{
    char text[16];
    struct wring_pool_params params = {.cores = text};

    if (cores == 0)
        return wring_executor_inline_create(out);
    snprintf(text, sizeof(text), "%u", cores);
    return wring_executor_pool_create(&params, out);
}

static void destroy_bench(struct bench *bench)
{
    if (bench->executor != NULL)
        bench->executor->ops->destroy(bench->executor);
    for (uint32_t size = 0; size < SIZES; size++)
        wring_solo_finish(&bench->solos[size]);
    wring_codec_destroy(bench->codec);
    free(bench->src);
    free(bench->dst);
    free(bench->code);
    free(bench->residual);
    free(bench->zeros);
    free(bench->sums);
    free(bench);
}

static enum wring_status measure_variant(const struct wring_calibration *job, const char *spec,
                                         const struct variant *variant, double seconds,
                                         struct wring_profile_coder *out,
                                         struct wring_collective_bench_noise *noise)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL)
        return WRING_ERR_NO_MEMORY;
    bench->n_sizes = 2;
    while (bench->n_sizes < SIZES && sizes[bench->n_sizes] <= job->max_elems)
        bench->n_sizes++;
    enum wring_status status =
        wring_codec_create(spec, variant->tier, NULL, NULL, 0, &bench->codec);
    if (status == WRING_OK)
        status = create_executor(variant->cores, &bench->executor);
    if (status == WRING_OK)
        status = make_memory(bench, sizes[bench->n_sizes - 1]);
    if (status == WRING_OK) {
        run_turns(bench, wring_deadline_in((uint64_t)(seconds * 1e9)), job->late_ns);
        status = bench->status;
    }
    if (status == WRING_OK)
        status = fit_task(bench, ENCODE, &out->encode, noise);
    if (status == WRING_OK)
        status = fit_task(bench, DECODE, &out->decode, noise);
    if (status == WRING_OK)
        status = fit_task(bench, DECODE_ADD, &out->decode_add, noise);
    if (status == WRING_OK && is_timed(bench, SUM_MANY)) {
        take_additions(bench);
        status = fit_task(bench, SUM_MANY, &out->sum, NULL); /* a small difference of two times */
    }
    if (status == WRING_OK) {
        out->cores = variant->cores;
        snprintf(out->tier, sizeof(out->tier), "%s", wring_codec_info(bench->codec)->tier);
    }
    destroy_bench(bench);
    return status;
}

/* ---- variants ---- */

#define TIERS 6 /* what there may be, and the best of them */

/** Which kernels a codec has at most with that ceiling; "" without the codec. */
static void name_tier(const char *spec, const char *ceiling, char *text, size_t bytes)
{
    struct wring_codec *codec;

    text[0] = '\0';
    if (wring_codec_create(spec, ceiling, NULL, NULL, 0, &codec) != WRING_OK)
        return;
    snprintf(text, bytes, "%s", wring_codec_info(codec)->tier);
    wring_codec_destroy(codec);
}

/** The best kernels inline and on 1, 2, 4, … cores, then the others inline. @return how many */
static uint32_t list_variants(const char *spec, struct variant out[WRING_PROFILE_CODERS_MAX])
{
    static const char *const ceilings[TIERS - 1] = {"vbmi2", "avx512", "avx2", "neon", "scalar"};
    cpu_set_t cpus;
    uint32_t cores =
        sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : 1;
    char known[TIERS][16], tier[16];
    uint32_t n = 0, n_known = 1;

    out[n++] = (struct variant){0, NULL};
    for (uint32_t pinned = 1; pinned <= cores && n < WRING_PROFILE_CODERS_MAX - TIERS; pinned *= 2)
        out[n++] = (struct variant){pinned, NULL};
    name_tier(spec, NULL, known[0], sizeof(known[0]));
    for (size_t i = 0; i < TIERS - 1; i++) {
        uint32_t same = 0;
        name_tier(spec, ceilings[i], tier, sizeof(tier));
        while (same < n_known && strcmp(known[same], tier) != 0)
            same++;
        if (tier[0] == '\0' || same < n_known)
            continue;
        memcpy(known[n_known++], tier, sizeof(tier));
        out[n++] = (struct variant){0, ceilings[i]};
    }
    return n;
}

/* ---- coders ---- */

enum wring_status wring_calibrate_coders(const struct wring_calibration *job, double seconds,
                                         struct wring_profile_codec *codec,
                                         struct wring_collective_bench_noise *noise)
{
    struct variant variants[WRING_PROFILE_CODERS_MAX];
    uint32_t n = list_variants(codec->spec, variants);
    enum wring_status status = WRING_OK;

    codec->n_coders = 0;
    for (uint32_t i = 0; i < n && status == WRING_OK; i++) {
        status = measure_variant(job, codec->spec, &variants[i], seconds / n,
                                 &codec->coders[codec->n_coders], noise);
        codec->n_coders += status == WRING_OK;
    }
    return status;
}
