/* SPDX-License-Identifier: Apache-2.0 */
/** One rank of `wring bench allreduce`: the calls, their times, and the check of their results. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wring/codec.h>

#include "base/clock.h"
#include "tools/bench/bench_allreduce.h"
#include "tools/commands.h"

#define SHIFTS 4096          /* inputs of successive calls: the same numbers, shifted so far */
#define PIECE_ELEMS 262144ul /* of rank 0's result, compared at a time */
#define ITERATIONS_MIN 5
#define ITERATIONS_MAX 10000

struct bench {
    const struct wring_allreduce_params *params;
    struct wring_session *session;
    struct wring_group *world;
    uint32_t rank, ranks;
    float *source;                 /* [max_elems + SHIFTS] this rank's numbers */
    float *data;                   /* [max_elems] in and out */
    float *piece;                  /* [PIECE_ELEMS] */
    struct wring_bucket **buckets; /* [n_codecs * n_bytes]; NULL for the immediate call */
    uint64_t max_elems;
    uint64_t round;   /* calls so far */
    atomic_bool said; /* the library has logged an error */
};

/** One codec and size. */
struct bench_case {
    const char *codec;
    uint64_t elems;
    struct wring_bucket *bucket;
    bool raw;
};

/** What a rank tells the others after a case. */
struct findings {
    uint64_t wrong;
    uint64_t wire_bytes;
    double error, power;    /* sums of squares; of the first call, but for raw codecs */
    double lost, lost_back; /* the bucket's error, each way */
    char cores[WRING_ALLREDUCE_CORES];
};
_Static_assert(sizeof(struct findings) % 8 == 0, "they are exchanged as words");

/** Log as the library does by itself, and remember that it did. */
static void log_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct bench *bench = arg;
    fprintf(stderr, "wring: %s: %s\n", module, text);
    if (level == WRING_LOG_ERROR)
        atomic_store(&bench->said, true);
}

/** The last failure in one line, as the library tells it. */
static int fail(const struct bench *bench, const char *what, enum wring_status status)
{
    struct wring_error_detail detail = {.status = status};

    if (bench->session == NULL || wring_session_error(bench->session, &detail) == WRING_OK)
        return wring_fail(bench->params->name, "%s: %s", what, wring_status_text(status));
    return wring_fail(bench->params->name, "rank %u: %s: %s", bench->rank, what, detail.text);
}

static uint64_t shift_of(uint64_t round)
{
    return round * 61 % SHIFTS;
}

static void write_input(struct bench *bench, uint64_t elems)
{
    bench->round++;
    memcpy(bench->data, bench->source + shift_of(bench->round), elems * sizeof(float));
}

static enum wring_status call(struct bench *bench, const struct bench_case *this)
{
    if (this->bucket == NULL)
        return wring_allreduce(bench->world, bench->data, this->elems, WRING_F32, bench->params->op,
                               this->codec, NULL);
    enum wring_status status = wring_bucket_post(this->bucket);
    return status != WRING_OK ? status : wring_bucket_wait(this->bucket, WRING_FOREVER);
}

/** One call with a fresh input, all ranks starting together. @param us out, of this rank */
static enum wring_status timed_call(struct bench *bench, const struct bench_case *this, double *us)
{
    write_input(bench, this->elems);
    enum wring_status status = wring_barrier(bench->world);
    if (status != WRING_OK)
        return status;
    uint64_t begin = wring_now_ns();
    status = call(bench, this);
    *us = (double)(wring_now_ns() - begin) / 1e3;
    return status;
}

/** What element i of the last call's result should be: exact, by the choice of the inputs. */
static double expected(const struct bench *bench, uint64_t i)
{
    double sum = 0;

    for (uint32_t rank = 0; rank < bench->ranks; rank++)
        sum += (double)wring_pattern(rank, i + shift_of(bench->round));
    return bench->params->op == WRING_AVG ? sum / bench->ranks : sum;
}

static void compare_with_exact(const struct bench *bench, const struct bench_case *this,
                               struct findings *findings)
{
    for (uint64_t i = 0; i < this->elems; i++) {
        double want = expected(bench, i), error = (double)bench->data[i] - want;
        findings->error += error * error;
        findings->power += want * want;
        if (this->raw && bench->data[i] != (float)want)
            findings->wrong++;
    }
}

static uint64_t count_different(const float *a, const float *b, size_t n)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0 || !isfinite(a[i]))
            count++;
    return count;
}

/** One number for so many bits, the same where these are and hardly ever elsewhere. */
static uint64_t digest(const float *data, uint64_t n)
{
    uint64_t all = n;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof(bits));
        all = (all ^ bits) * 0x9E3779B97F4A7C15u;
        all ^= all >> 32;
    }
    return all;
}

/** Whether all ranks hold what rank 0 does; on slow links that is known without sending it. */
static enum wring_status ask_all_same(struct bench *bench, const struct bench_case *this,
                                      bool *same)
{
    uint64_t mine = digest(bench->data, this->elems), first = mine;
    enum wring_status status = wring_broadcast(bench->world, &first, sizeof(first), 0, NULL, NULL);
    int64_t differs = mine != first;

    if (status == WRING_OK)
        status = wring_allreduce(bench->world, &differs, 1, WRING_I64, WRING_MAX, NULL, NULL);
    *same = differs == 0;
    return status;
}

/** Count the elements that are not rank 0's. */
static enum wring_status compare_with_rank_0(struct bench *bench, const struct bench_case *this,
                                             struct findings *findings)
{
    for (uint64_t at = 0; at < this->elems; at += PIECE_ELEMS) {
        uint64_t n = this->elems - at < PIECE_ELEMS ? this->elems - at : PIECE_ELEMS;
        memcpy(bench->piece, bench->data + at, n * sizeof(float));
        enum wring_status status =
            wring_broadcast(bench->world, bench->piece, n * sizeof(float), 0, NULL, NULL);
        if (status != WRING_OK)
            return status;
        findings->wrong += count_different(bench->data + at, bench->piece, n);
    }
    return WRING_OK;
}

/** What is not raw has no exact sum, but every rank must hold the same finite numbers. */
static enum wring_status compare_ranks(struct bench *bench, const struct bench_case *this,
                                       struct findings *findings)
{
    bool same = false;
    enum wring_status status = ask_all_same(bench, this, &same);

    if (status == WRING_OK && !same)
        return compare_with_rank_0(bench, this, findings);
    findings->wrong += count_different(bench->data, bench->data, this->elems); /* not finite */
    return status;
}

/** Check the first call's result. */
static enum wring_status verify_first(struct bench *bench, const struct bench_case *this,
                                      struct findings *findings)
{
    compare_with_exact(bench, this, findings);
    return this->raw ? WRING_OK : compare_ranks(bench, this, findings);
}

/** Check the last call's result. What is not raw now holds what error feedback put off, so that
 *  the exact sum says nothing. */
static enum wring_status verify_last(struct bench *bench, const struct bench_case *this,
                                     struct findings *findings)
{
    if (!this->raw)
        return compare_ranks(bench, this, findings);
    compare_with_exact(bench, this, findings);
    return WRING_OK;
}

/** Rank 0 decides how many calls are timed, from the time that the last warm-up took. */
static enum wring_status agree_on_iterations(struct bench *bench, double warm_us, uint64_t *count)
{
    double fit = bench->params->seconds * 1e6 / (warm_us > 1 ? warm_us : 1);

    *count = fit > ITERATIONS_MAX ? ITERATIONS_MAX : (uint64_t)fit;
    if (*count < ITERATIONS_MIN)
        *count = ITERATIONS_MIN;
    if (bench->params->iterations > 0)
        *count = bench->params->iterations;
    return wring_broadcast(bench->world, count, sizeof(*count), 0, NULL, NULL);
}

static enum wring_status time_calls(struct bench *bench, const struct bench_case *this, uint64_t n,
                                    struct findings *findings, struct wring_spread *spread)
{
    struct wring_session_stats before = WRING_SESSION_STATS_INIT, after = before;
    double *times = calloc(n, sizeof(*times));
    enum wring_status status = times != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    wring_session_stats(bench->session, &before);
    for (uint64_t i = 0; i < n && status == WRING_OK; i++)
        status = timed_call(bench, this, &times[i]);
    wring_session_stats(bench->session, &after);
    findings->wire_bytes = after.wire_bytes_sent - before.wire_bytes_sent;
    if (status == WRING_OK) /* the time of each call is that of its slowest rank */
        status = wring_allreduce(bench->world, times, n, WRING_F64, WRING_MAX, NULL, NULL);
    if (status == WRING_OK)
        *spread = wring_spread_of(times, n);
    free(times);
    return status;
}

static enum wring_status combine(struct bench *bench, const struct findings *own,
                                 struct wring_allreduce_result *result)
{
    struct findings all[WRING_PATTERN_RANKS_MAX];
    enum wring_status status = wring_allgather(bench->world, own, all, sizeof(*own) / 8, WRING_I64,
                                               NULL, NULL); /* of whatever 8 bytes they are */

    for (uint32_t rank = 0; rank < bench->ranks && status == WRING_OK; rank++) {
        double nmse = all[rank].power > 0 ? all[rank].error / all[rank].power : all[rank].error;
        result->wrong += all[rank].wrong;
        result->wire_bytes +=
            (double)all[rank].wire_bytes / (double)result->iterations / bench->ranks;
        result->nmse = nmse > result->nmse || isnan(nmse) ? nmse : result->nmse;
        result->error = fmax(result->error, all[rank].lost); /* a number, if any rank has one */
        result->error_back = fmax(result->error_back, all[rank].lost_back);
        memcpy(result->cores[rank], all[rank].cores, sizeof(all[rank].cores));
    }
    return status;
}

/** What really ran, as the bucket tells it. */
static enum wring_status ask_bucket(const struct bench_case *this, struct findings *findings,
                                    struct wring_allreduce_result *result)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    if (this->bucket == NULL)
        return WRING_OK;
    enum wring_status status = wring_bucket_stats(this->bucket, &stats);
    if (status != WRING_OK)
        return status;
    result->has_stats = true;
    snprintf(result->scheme, sizeof(result->scheme), "%s", stats.scheme);
    snprintf(result->ran, sizeof(result->ran), "%s", stats.codec);
    result->with_us = (double)stats.with_codec_ns / 1e3;
    result->without_us = (double)stats.without_codec_ns / 1e3;
    findings->lost = stats.error;
    findings->lost_back = stats.error_back;
    snprintf(findings->cores, sizeof(findings->cores), "%s", stats.cores);
    return WRING_OK;
}

static enum wring_status run_case(struct bench *bench, const struct bench_case *this,
                                  struct wring_allreduce_result *result)
{
    struct findings findings = {0};
    enum wring_status status;
    double warm_us = 0;

    *result = (struct wring_allreduce_result){.codec = this->codec,
                                              .bytes = this->elems * sizeof(float),
                                              .error = NAN,
                                              .error_back = NAN};
    status = timed_call(bench, this, &warm_us);
    if (status == WRING_OK)
        status = verify_first(bench, this, &findings);
    if (status == WRING_OK)
        status = timed_call(bench, this, &warm_us); /* all memory has been touched by now */
    if (status == WRING_OK)
        status = agree_on_iterations(bench, warm_us, &result->iterations);
    if (status == WRING_OK)
        status = time_calls(bench, this, result->iterations, &findings, &result->time_us);
    if (status == WRING_OK)
        status = verify_last(bench, this, &findings);
    if (status == WRING_OK)
        status = ask_bucket(this, &findings, result);
    return status == WRING_OK ? combine(bench, &findings, result) : status;
}

/** Raw codecs send the floats themselves, and must give the exact sum. */
static enum wring_status is_raw(const char *spec, bool *raw)
{
    struct wring_codec *codec;
    enum wring_status status = wring_codec_create(spec, NULL, NULL, 0, &codec);

    if (status != WRING_OK)
        return status;
    *raw = (wring_codec_info(codec)->flags & WRING_CODEC_RAW) != 0;
    wring_codec_destroy(codec);
    return WRING_OK;
}

static int run_cases(struct bench *bench, wring_allreduce_report_fn report, void *arg)
{
    const struct wring_allreduce_params *params = bench->params;

    for (size_t i = 0; i < params->n_codecs * params->n_bytes; i++) {
        struct wring_allreduce_result result;
        struct bench_case this = {
            .codec = params->codecs[i / params->n_bytes],
            .elems = params->bytes[i % params->n_bytes] / sizeof(float),
            .bucket = bench->buckets != NULL ? bench->buckets[i] : NULL,
        };
        enum wring_status status = is_raw(this.codec, &this.raw);
        if (status == WRING_OK)
            status = run_case(bench, &this, &result);
        if (status != WRING_OK)
            return fail(bench, this.codec, status);
        if (bench->rank == 0)
            report(arg, bench->ranks, &result);
    }
    return WRING_EXIT_OK;
}

static enum wring_status register_buckets(struct bench *bench)
{
    const struct wring_allreduce_params *params = bench->params;
    size_t n = params->n_codecs * params->n_bytes;
    enum wring_status status = WRING_OK;

    bench->buckets = calloc(n, sizeof(struct wring_bucket *));
    if (bench->buckets == NULL)
        return WRING_ERR_NO_MEMORY;
    for (size_t i = 0; i < n && status == WRING_OK; i++) {
        char name[WRING_NAME_MAX];
        snprintf(name, sizeof(name), "bench.%zu", i);
        status = wring_bucket_register(
            bench->session,
            &(struct wring_bucket_params){.name = name,
                                          .data = bench->data,
                                          .elems = params->bytes[i % params->n_bytes] / 4,
                                          .op = params->op,
                                          .codec = params->codecs[i / params->n_bytes],
                                          .scheme = params->scheme},
            &bench->buckets[i]);
    }
    return status == WRING_OK ? wring_session_commit(bench->session) : status;
}

static enum wring_status make_memory(struct bench *bench)
{
    size_t bytes = bench->max_elems * sizeof(float);

    bench->source = malloc(bytes + SHIFTS * sizeof(float));
    bench->piece = malloc(PIECE_ELEMS * sizeof(float));
    if (bench->source == NULL || bench->piece == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_pattern_fill(bench->source, bench->max_elems + SHIFTS, bench->rank);
    if (!bench->params->foreign)
        return wring_buffer_alloc(bench->session, bytes > 0 ? bytes : 4, (void **)&bench->data);
    bench->data = malloc(bytes > 0 ? bytes : 4);
    return bench->data != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static int prepare(struct bench *bench)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    char bypass[32];
    const char *const settings[] = {bypass, NULL};

    snprintf(bypass, sizeof(bypass), "WRING_BYPASS=%s", bench->params->bypass);
    params.provider = bench->params->provider;
    params.settings = settings;
    params.log = log_line;
    params.log_arg = bench;
    enum wring_status status = wring_session_open(&params, &bench->session);
    if (status != WRING_OK)
        return atomic_load(&bench->said) ? WRING_EXIT_FAILURE : fail(bench, "cannot join", status);
    bench->world = wring_session_world(bench->session);
    bench->rank = wring_session_rank(bench->session);
    bench->ranks = wring_session_size(bench->session);
    if (bench->ranks > WRING_PATTERN_RANKS_MAX ||
        (bench->params->ranks != 0 && bench->params->ranks != bench->ranks))
        return wring_fail(bench->params->name, "the launcher started %u ranks; asked for were %u",
                          bench->ranks, bench->params->ranks);
    for (size_t i = 0; i < bench->params->n_bytes; i++)
        if (bench->params->bytes[i] / sizeof(float) > bench->max_elems)
            bench->max_elems = bench->params->bytes[i] / sizeof(float);
    status = make_memory(bench);
    if (status == WRING_OK && !bench->params->foreign)
        status = register_buckets(bench);
    return status == WRING_OK ? WRING_EXIT_OK : fail(bench, "cannot prepare", status);
}

int wring_allreduce_rank(const struct wring_allreduce_params *params,
                         wring_allreduce_report_fn report, void *arg)
{
    struct bench bench = {.params = params};
    int code = prepare(&bench);

    if (code == WRING_EXIT_OK)
        code = run_cases(&bench, report, arg);
    if (params->foreign)
        free(bench.data);
    wring_session_close(bench.session);
    free(bench.buckets);
    free(bench.source);
    free(bench.piece);
    return code;
}
