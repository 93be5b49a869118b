/* SPDX-License-Identifier: Apache-2.0 */
/** One rank of `wring bench allreduce`: its session, and the cases one after another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <wring/codec.h>

#include "tools/bench/bench_allreduce_inside.h"
#include "tools/commands.h"

/**
 * Cases that take turns, each turn beginning with another one, as who comes first may fare worse.
 * @param last  out, the case that was run last: the one that failed
 */
static enum wring_status run_together(struct wring_allreduce_bench *bench,
                                      struct wring_allreduce_case *cases, size_t n,
                                      struct wring_allreduce_case **last)
{
    const size_t all = bench->params->turns * n;
    enum wring_status status = WRING_OK;

    for (size_t i = 0; i < n && status == WRING_OK; i++)
        status = wring_allreduce_begin_case(bench, *last = &cases[i]);
    for (size_t i = 0; i < all && status == WRING_OK; i++)
        status = wring_allreduce_take_turn(bench, *last = &cases[(i / n + i) % n]);
    for (size_t i = 0; i < n && status == WRING_OK; i++)
        status = wring_allreduce_finish_case(bench, *last = &cases[i]);
    return status;
}

/** Raw codecs send the floats themselves, and must give the exact sum. */
static enum wring_status is_raw(const char *spec, bool *raw)
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
    return is_raw(this->codec, &this->raw);
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
static int run_some(struct wring_allreduce_bench *bench, size_t first, size_t n,
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
        code = run_some(bench, i, together, report, arg);
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

static int prepare(struct wring_allreduce_bench *bench)
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
