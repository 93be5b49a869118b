/* SPDX-License-Identifier: Apache-2.0 */
/** One rank of `wring bench allreduce`: its session, and the cases one after another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/bench/allreduce.h"
#include "tools/commands.h"
#include <wring/codec.h>

/** What element i of the last call's result should be: exact, by the choice of the inputs. */
static double expected_element(const struct wring_allreduce_bench *bench, uint64_t i)
{
    double sum = 0;

    for (uint32_t rank = 0; rank < bench->ranks; rank++)
        sum += (double)wring_pattern(rank, i + wring_allreduce_shift(bench->calls));
    return bench->params->op == WRING_AVG ? sum / bench->ranks : sum;
}

static void compare_with_exact(const struct wring_allreduce_bench *bench,
                               const struct wring_allreduce_case *this,
                               struct wring_allreduce_findings *findings)
{
    for (uint64_t i = 0; i < this->elems; i++) {
        double want = expected_element(bench, i), error = (double)bench->data[i] - want;
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
static uint64_t digest_bits(const float *data, uint64_t n)
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
static enum wring_status ask_all_same(struct wring_allreduce_bench *bench,
                                      const struct wring_allreduce_case *this, bool *same)
{
    uint64_t mine = digest_bits(bench->data, this->elems), first = mine;
    enum wring_status status = wring_broadcast(bench->world, &first, sizeof(first), 0, NULL, NULL);
    int64_t differs = mine != first;

    if (status == WRING_OK)
        status =
            wring_allreduce(bench->world, &differs, &differs, 1, WRING_I64, WRING_MAX, NULL, NULL);
    *same = differs == 0;
    return status;
}

/** Count the elements that are not rank 0's. */
static enum wring_status compare_with_rank_0(struct wring_allreduce_bench *bench,
                                             const struct wring_allreduce_case *this,
                                             struct wring_allreduce_findings *findings)
{
    for (uint64_t at = 0; at < this->elems; at += WRING_ALLREDUCE_PIECE) {
        uint64_t n =
            this->elems - at < WRING_ALLREDUCE_PIECE ? this->elems - at : WRING_ALLREDUCE_PIECE;
        memcpy(bench->piece, bench->data + at, n * sizeof(float));
        enum wring_status status =
            wring_broadcast(bench->world, bench->piece, n * sizeof(float), 0, NULL, NULL);
        if (status != WRING_OK)
            return status;
        findings->wrong += count_different(bench->data + at, bench->piece, n);
    }
    return WRING_OK;
}

/** A coded result is no exact sum, but every rank must hold the same finite numbers. */
static enum wring_status compare_ranks(struct wring_allreduce_bench *bench,
                                       const struct wring_allreduce_case *this,
                                       struct wring_allreduce_findings *findings)
{
    bool same = false;
    enum wring_status status = ask_all_same(bench, this, &same);

    if (status == WRING_OK && !same)
        return compare_with_rank_0(bench, this, findings);
    findings->wrong += count_different(bench->data, bench->data, this->elems); /* not finite */
    return status;
}

/** Check the first call's result. Collective; errors: those of the calls that compare ranks. */
static enum wring_status allreduce_verify_first(struct wring_allreduce_bench *bench,
                                                const struct wring_allreduce_case *this,
                                                struct wring_allreduce_findings *findings)
{
    compare_with_exact(bench, this, findings);
    return this->raw ? WRING_OK : compare_ranks(bench, this, findings);
}

/** Check the last call's result. If it was coded it includes residuals of earlier steps, so it is
 * not compared with the exact sum. Collective, as above. */
static enum wring_status allreduce_verify_last(struct wring_allreduce_bench *bench,
                                               const struct wring_allreduce_case *this,
                                               struct wring_allreduce_findings *findings)
{
    if (!this->raw)
        return compare_ranks(bench, this, findings);
    compare_with_exact(bench, this, findings);
    return WRING_OK;
}

/* ---- allreduce case ---- */

/* One codec and size of `wring bench allreduce`: the calls and their times. */

#define WARM_ELEMS 262144
#define WARM_CALLS 5
#define ITERATIONS_MIN 5
#define ITERATIONS_MAX 10000

static void write_input(struct wring_allreduce_bench *bench, uint64_t elems)
{
    bench->calls++;
    memcpy(bench->data, bench->source + wring_allreduce_shift(bench->calls), elems * sizeof(float));
}

static enum wring_status call_allreduce(struct wring_allreduce_bench *bench,
                                        const struct wring_allreduce_case *this)
{
    if (this->bucket == NULL)
        return wring_allreduce(bench->world, bench->data, bench->data, this->elems, WRING_F32,
                               bench->params->op, &(struct wring_call){.codec = this->codec}, NULL);
    enum wring_status status = wring_bucket_post(this->bucket);
    return status != WRING_OK ? status : wring_bucket_wait(this->bucket, WRING_FOREVER, NULL);
}

/** One call with a fresh input, all ranks starting together. @param us out, of this rank */
static enum wring_status timed_call(struct wring_allreduce_bench *bench,
                                    const struct wring_allreduce_case *this, double *us)
{
    write_input(bench, this->elems);
    enum wring_status status = wring_barrier(bench->world, NULL, NULL);
    if (status != WRING_OK)
        return status;
    uint64_t begin = wring_now_ns();
    status = call_allreduce(bench, this);
    *us = (double)(wring_now_ns() - begin) / 1e3;
    return status;
}

/** How many calls a turn has, from the time that the last warm-up took on its slowest rank: on a
 *  long way the last to leave a barrier finds all others' pieces there. */
static enum wring_status agree_on_calls(struct wring_allreduce_bench *bench, double warm_us,
                                        uint64_t *count)
{
    const struct wring_allreduce_params *params = bench->params;
    enum wring_status status =
        wring_allreduce(bench->world, &warm_us, &warm_us, 1, WRING_F64, WRING_MAX, NULL, NULL);
    double fit = params->seconds * 1e6 / (warm_us > 1 ? warm_us : 1);
    uint64_t all = fit > ITERATIONS_MAX ? ITERATIONS_MAX : (uint64_t)fit;

    if (all < ITERATIONS_MIN)
        all = ITERATIONS_MIN;
    if (params->iterations > 0)
        all = params->iterations;
    *count = (all + params->turns - 1) / params->turns;
    return status;
}

/** One turn of a case. */
static enum wring_status time_calls(struct wring_allreduce_bench *bench,
                                    struct wring_allreduce_case *this)
{
    struct wring_session_stats before = WRING_SESSION_STATS_INIT, after = before;
    enum wring_status status = WRING_OK;

    wring_session_stats(bench->session, &before);
    for (uint64_t i = 0; i < this->in_turn && status == WRING_OK; i++)
        status = timed_call(bench, this, &this->times[this->timed++]);
    wring_session_stats(bench->session, &after);
    this->findings.wire_bytes += after.wire_bytes_sent - before.wire_bytes_sent;
    return status;
}

/** The time of each call is that of its slowest rank. */
static enum wring_status sum_up_times(struct wring_allreduce_bench *bench,
                                      struct wring_allreduce_case *this)
{
    struct wring_allreduce_result *result = &this->result;
    enum wring_status status = wring_allreduce(bench->world, this->times, this->times, this->timed,
                                               WRING_F64, WRING_MAX, NULL, NULL);

    if (status != WRING_OK)
        return status;
    result->iterations = this->timed;
    result->turns = bench->params->turns;
    for (uint32_t turn = 0; turn < result->turns; turn++)
        result->turn_us[turn] =
            wring_spread_of(this->times + turn * this->in_turn, this->in_turn).median;
    result->time_us = wring_spread_of(this->times, this->timed);
    return status;
}

static enum wring_status combine_findings(struct wring_allreduce_bench *bench,
                                          const struct wring_allreduce_findings *own,
                                          struct wring_allreduce_result *result)
{
    struct wring_allreduce_findings all[WRING_PATTERN_RANKS_MAX];
    /* by rank 0: an allgather would connect each two ranks */
    enum wring_status status = wring_gather(bench->world, own, all, sizeof(*own) / 8, WRING_I64, 0,
                                            NULL, NULL); /* copied as words of 8 bytes */
    if (status == WRING_OK)
        status = wring_broadcast(bench->world, all, bench->ranks * sizeof(*own), 0, NULL, NULL);

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
static enum wring_status ask_bucket(const struct wring_allreduce_case *this,
                                    struct wring_allreduce_findings *findings,
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

/** How long a call takes: the least of several where they are short, as ranks that begin together
 *  on few cores get in each other's way. */
static enum wring_status warm_up(struct wring_allreduce_bench *bench,
                                 const struct wring_allreduce_case *this, double *us)
{
    int calls = this->elems <= WARM_ELEMS ? WARM_CALLS : 1;
    enum wring_status status = WRING_OK;
    double call_us;

    *us = INFINITY;
    for (int i = 0; i < calls && status == WRING_OK; i++) {
        status = timed_call(bench, this, &call_us);
        *us = status == WRING_OK ? fmin(*us, call_us) : *us;
    }
    return status;
}

/** A case until its first turn. Collective, like the next two; errors: those of the calls. */
static enum wring_status allreduce_begin_case(struct wring_allreduce_bench *bench,
                                              struct wring_allreduce_case *this)
{
    double warm_us = 0;
    enum wring_status status = timed_call(bench, this, &warm_us);

    if (status == WRING_OK)
        status = allreduce_verify_first(bench, this, &this->findings);
    if (status == WRING_OK)
        status = warm_up(bench, this, &warm_us); /* all memory has been touched by now */
    if (status == WRING_OK)
        status = agree_on_calls(bench, warm_us, &this->in_turn);
    if (status != WRING_OK)
        return status;
    this->times = calloc(this->in_turn * bench->params->turns, sizeof(*this->times));
    return this->times != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

/** A turn; after the last one the result is still there to be checked. */
static enum wring_status allreduce_take_turn(struct wring_allreduce_bench *bench,
                                             struct wring_allreduce_case *this)
{
    enum wring_status status = time_calls(bench, this);

    if (status == WRING_OK && this->timed == this->in_turn * bench->params->turns)
        status = allreduce_verify_last(bench, this, &this->findings);
    return status;
}

/** What came of it on all ranks goes into its result. */
static enum wring_status allreduce_finish_case(struct wring_allreduce_bench *bench,
                                               struct wring_allreduce_case *this)
{
    enum wring_status status = sum_up_times(bench, this);

    if (status == WRING_OK)
        status = ask_bucket(this, &this->findings, &this->result);
    return status == WRING_OK ? combine_findings(bench, &this->findings, &this->result) : status;
}

/* ---- allreduce rank ---- */

/**
 * The cases take turns. Each turn begins with another case, since the first one may be slower.
 * @param last  out, the case that ran last; after an error, the one that failed
 */
static enum wring_status run_together(struct wring_allreduce_bench *bench,
                                      struct wring_allreduce_case *cases, size_t n,
                                      struct wring_allreduce_case **last)
{
    const size_t all = bench->params->turns * n;
    enum wring_status status = WRING_OK;

    for (size_t i = 0; i < n && status == WRING_OK; i++)
        status = allreduce_begin_case(bench, *last = &cases[i]);
    for (size_t i = 0; i < all && status == WRING_OK; i++)
        status = allreduce_take_turn(bench, *last = &cases[(i / n + i) % n]);
    for (size_t i = 0; i < n && status == WRING_OK; i++)
        status = allreduce_finish_case(bench, *last = &cases[i]);
    return status;
}

/** Raw codecs send the floats themselves, and must give the exact sum. */
static enum wring_status find_if_raw(const char *spec, bool *raw)
{
    struct wring_codec *codec;
    enum wring_status status = wring_codec_create(spec, NULL, NULL, NULL, 0, &codec);

    if (status != WRING_OK)
        return status;
    *raw = (wring_codec_info(codec)->flags & WRING_CODEC_RAW) != 0;
    wring_codec_destroy(codec);
    return WRING_OK;
}

static enum wring_status make_case(const struct wring_allreduce_bench *bench, size_t codec,
                                   size_t size, struct wring_allreduce_case *this)
{
    const struct wring_allreduce_params *params = bench->params;
    struct wring_bucket **buckets = bench->buckets;

    *this = (struct wring_allreduce_case){
        .codec = params->codecs[codec],
        .elems = params->bytes[size] / sizeof(float),
        .bucket = buckets != NULL ? buckets[codec * params->n_bytes + size] : NULL,
        .result = {.codec = params->codecs[codec],
                   .bytes = params->bytes[size] / sizeof(float) * sizeof(float),
                   .error = NAN,
                   .error_back = NAN},
    };
    return find_if_raw(this->codec, &this->raw);
}

/** Case `at`: by size and then codec where codecs take turns, else the other way round. */
static enum wring_status make_case_at(const struct wring_allreduce_bench *bench, size_t at,
                                      struct wring_allreduce_case *this)
{
    const struct wring_allreduce_params *params = bench->params;

    return params->turns > 1 ? make_case(bench, at % params->n_codecs, at / params->n_codecs, this)
                             : make_case(bench, at / params->n_bytes, at % params->n_bytes, this);
}

/** Cases first to first + n. */
static int run_case_range(struct wring_allreduce_bench *bench, size_t first, size_t n,
                          wring_allreduce_report_fn report, void *arg)
{
    struct wring_allreduce_case *cases = calloc(n, sizeof(*cases)), *last = cases;
    enum wring_status status = cases != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    for (size_t i = 0; i < n && status == WRING_OK; i++) {
        last = &cases[i];
        status = make_case_at(bench, first + i, last);
    }
    if (status == WRING_OK)
        status = run_together(bench, cases, n, &last);
    int code =
        status == WRING_OK
            ? WRING_EXIT_OK
            : wring_rank_say(&bench->faults, last != NULL ? last->codec : "cannot measure", status);
    for (size_t i = 0; i < n && cases != NULL; i++) {
        free(cases[i].times);
        if (status == WRING_OK && bench->rank == 0)
            report(arg, bench->ranks, &cases[i].result);
    }
    free(cases);
    return code;
}

static int run_cases(struct wring_allreduce_bench *bench, wring_allreduce_report_fn report,
                     void *arg)
{
    const struct wring_allreduce_params *params = bench->params;
    size_t together = params->turns > 1 ? params->n_codecs : 1;
    int code = WRING_EXIT_OK;

    for (size_t i = 0; i < params->n_codecs * params->n_bytes && code == WRING_EXIT_OK;
         i += together)
        code = run_case_range(bench, i, together, report, arg);
    return code;
}

static enum wring_status register_buckets(struct wring_allreduce_bench *bench)
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

static enum wring_status make_memory(struct wring_allreduce_bench *bench)
{
    size_t bytes = bench->max_elems * sizeof(float);

    bench->source = malloc(bytes + WRING_ALLREDUCE_SHIFTS * sizeof(float));
    bench->piece = malloc(WRING_ALLREDUCE_PIECE * sizeof(float));
    if (bench->source == NULL || bench->piece == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_pattern_fill(bench->source, bench->max_elems + WRING_ALLREDUCE_SHIFTS, bench->rank);
    if (!bench->params->foreign)
        return wring_buffer_alloc(bench->session, bytes > 0 ? bytes : 4, (void **)&bench->data);
    bench->data = malloc(bytes > 0 ? bytes : 4);
    return bench->data != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static int prepare_rank(struct wring_allreduce_bench *bench)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    char bypass[32];
    const char *const settings[] = {bypass, NULL};

    snprintf(bypass, sizeof(bypass), "WRING_BYPASS=%s", bench->params->bypass);
    params.provider = bench->params->provider;
    params.settings = settings;
    int code = wring_rank_open(&bench->faults, &params, bench->params->ranks);
    bench->session = bench->faults.session;
    if (code != WRING_EXIT_OK)
        return code;
    bench->world = wring_session_world(bench->session);
    bench->rank = wring_session_rank(bench->session);
    bench->ranks = wring_session_size(bench->session);
    if (bench->ranks > WRING_PATTERN_RANKS_MAX)
        return wring_fail(bench->params->name, "%u ranks; sums of %d at most can be checked",
                          bench->ranks, WRING_PATTERN_RANKS_MAX);
    for (size_t i = 0; i < bench->params->n_bytes; i++)
        if (bench->params->bytes[i] / sizeof(float) > bench->max_elems)
            bench->max_elems = bench->params->bytes[i] / sizeof(float);
    enum wring_status status = make_memory(bench);
    if (status == WRING_OK && !bench->params->foreign)
        status = register_buckets(bench);
    return status == WRING_OK ? WRING_EXIT_OK
                              : wring_rank_say(&bench->faults, "cannot prepare", status);
}

int wring_allreduce_rank(const struct wring_allreduce_params *params,
                         wring_allreduce_report_fn report, void *arg)
{
    struct wring_allreduce_bench bench = {.params = params, .faults.command = params->name};
    int code = prepare_rank(&bench);

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
