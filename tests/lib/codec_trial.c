/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/codec_trial.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/job.h"
#include "tests/lib/odd_mode.h"
#include "tests/lib/test.h"

#define ALIGN 64
#define TAIL 0xA5 /* behind an array of state, up to the next multiple of ALIGN */

void codec_trial_fail(struct codec_trial *trial, const char *format, ...)
{
    const struct wring_codec_info *info = wring_codec_info(trial->codec);
    char text[200];
    va_list args;

    trial->call = NULL;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(trial->why, trial->why_bytes,
             "%s: %s: %s; %" PRIu64 " elements, phase %" PRIu32 ", tier %s, seed %" PRIu32,
             info->spec, trial->rule, text, trial->elems, trial->ranks[TRIAL_ME].context.phase,
             info->tier, trial->limits->seed);
    siglongjmp(trial->failed, 1);
}

bool codec_trial_has(const struct codec_trial *trial, unsigned flag)
{
    return (wring_codec_info(trial->codec)->flags & flag) != 0;
}

uint64_t codec_trial_unit(const struct codec_trial *trial)
{
    uint64_t unit = wring_codec_info(trial->codec)->unit;
    return unit > 0 ? unit : trial->elems + 1;
}

void *codec_trial_copy(const void *data, size_t bytes)
{
    void *copy = wring_test_guarded(bytes);
    return bytes > 0 ? memcpy(copy, data, bytes) : copy;
}

bool codec_trial_same(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

/* ---- calls ---- */

static void add_buffer(struct codec_trial *trial, const char *name, const void *data, size_t bytes)
{
    trial->buffers[trial->n_buffers].name = name;
    trial->buffers[trial->n_buffers].data = data;
    trial->buffers[trial->n_buffers].bytes = bytes;
    trial->n_buffers++;
}

/** Buffers are added next. */
static void begin_call(struct codec_trial *trial, const char *call)
{
    trial->n_buffers = 0;
    trial->mode = wring_test_mode();
    trial->call = call;
}

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void check_tails(struct codec_trial *trial, const struct codec_trial_rank *rank,
                        const char *call)
{
    for (size_t s = 0; s < trial->codec->ops->n_states; s++) {
        size_t bytes = codec_trial_state_bytes(trial, s);
        const unsigned char *state = rank->states[s];
        for (size_t i = bytes; i < round_up(bytes); i++)
            if (state[i] != TAIL) {
                trial->rule = "stray";
                codec_trial_fail(trial, "%s writes past the end of state %s", call,
                                 trial->codec->ops->states[s].name);
            }
    }
}

static void end_call(struct codec_trial *trial, uint32_t rank)
{
    const char *call = trial->call;

    trial->call = NULL;
    if (wring_test_mode() != trial->mode) {
        trial->rule = "mode";
        codec_trial_fail(trial, "%s leaves another floating-point mode", call);
    }
    check_tails(trial, &trial->ranks[rank], call);
}

static struct wring_codec_context context_at(const struct codec_trial *trial, uint32_t rank,
                                             uint64_t at)
{
    struct wring_codec_context context = trial->ranks[rank].context;
    context.element += at;
    return context;
}

unsigned char *codec_trial_encode(struct codec_trial *trial, uint32_t rank, const float *src,
                                  uint64_t at, uint64_t n, float *residual, size_t *bytes)
{
    struct wring_codec_context context = context_at(trial, rank, at);
    size_t bound = wring_codec_bound(trial->codec, n);
    unsigned char *code = wring_test_guarded(bound);

    begin_call(trial, "encode");
    add_buffer(trial, "input", src, n * sizeof(*src));
    add_buffer(trial, "code", code, bound);
    add_buffer(trial, "residual", residual, residual != NULL ? n * sizeof(*residual) : 0);
    *bytes = wring_codec_encode(trial->codec, &context, src, n, residual, code);
    end_call(trial, rank);
    if (codec_trial_has(trial, WRING_CODEC_FIXED) ? *bytes != bound : *bytes > bound) {
        trial->rule = "bound";
        codec_trial_fail(trial, "%zu bytes of %" PRIu64 " elements, bound is %zu", *bytes, n,
                         bound);
    }
    return codec_trial_copy(code, *bytes);
}

enum wring_status codec_trial_decode(struct codec_trial *trial, uint32_t rank, const void *code,
                                     size_t bytes, uint64_t at, uint64_t n, float *dst, bool add)
{
    struct wring_codec_context context = context_at(trial, rank, at);

    begin_call(trial, "decode");
    add_buffer(trial, "code", code, bytes);
    add_buffer(trial, "output", dst, n * sizeof(*dst));
    enum wring_status status = wring_codec_decode(trial->codec, &context, code, bytes, dst, n, add);
    end_call(trial, rank);
    HOLD(trial, status == WRING_OK || status == WRING_ERR_FRAME, "decode ends with: %s",
         wring_status_text(status));
    return status;
}

float *codec_trial_decoded(struct codec_trial *trial, uint32_t rank, const void *code, size_t bytes,
                           uint64_t at, uint64_t n)
{
    float *out = wring_test_guarded(n * sizeof(*out));
    HOLD(trial, codec_trial_decode(trial, rank, code, bytes, at, n, out, false) == WRING_OK,
         "what encode made of elements %" PRIu64 " to %" PRIu64 " is refused", at, at + n);
    return out;
}

size_t codec_trial_sum_bytes(const struct codec_trial *trial, uint64_t n)
{
    const struct wring_codec *codec = trial->codec;
    return codec->ops->sum_bound != NULL ? codec->ops->sum_bound(codec, n)
                                         : wring_codec_bound(codec, n);
}

enum wring_status codec_trial_sum(struct codec_trial *trial, void *sum, const void *code,
                                  size_t bytes, uint64_t at, uint64_t n)
{
    bool apart = trial->codec->ops->sum_bound != NULL;
    struct wring_codec_context context = context_at(trial, TRIAL_ME, at);

    context.phase = 1;
    begin_call(trial, "code_sum");
    add_buffer(trial, "sum", sum, apart ? codec_trial_sum_bytes(trial, n) : bytes);
    add_buffer(trial, "added code", code, bytes);
    enum wring_status status =
        trial->codec->ops->code_sum(trial->codec, &context, sum, code, bytes, n);
    end_call(trial, TRIAL_ME);
    HOLD(trial, status == WRING_OK || status == WRING_ERR_FRAME, "code_sum ends with: %s",
         wring_status_text(status));
    return status;
}

unsigned char *codec_trial_sum_of_one(struct codec_trial *trial, const void *code, size_t bytes,
                                      uint64_t at, uint64_t n)
{
    if (trial->codec->ops->sum_bound == NULL)
        return codec_trial_copy(code, bytes);
    size_t sum_bytes = codec_trial_sum_bytes(trial, n);
    unsigned char *sum = wring_test_guarded(sum_bytes);
    if (sum_bytes > 0)
        memset(sum, 0, sum_bytes);
    HOLD(trial, codec_trial_sum(trial, sum, code, bytes, at, n) == WRING_OK,
         "a code cannot be added to nothing");
    return sum;
}

size_t codec_trial_sum_end(struct codec_trial *trial, void *sum, uint64_t at, uint64_t n,
                           uint64_t *cut)
{
    struct wring_codec_context context = context_at(trial, TRIAL_ME, at);
    size_t bytes = codec_trial_sum_bytes(trial, n), back = bytes;

    *cut = 0;
    if (trial->codec->ops->sum_end == NULL)
        return bytes;
    context.phase = 1;
    begin_call(trial, "sum_end");
    add_buffer(trial, "sum", sum, bytes);
    back = trial->codec->ops->sum_end(trial->codec, &context, sum, n, cut);
    end_call(trial, TRIAL_ME);
    HOLD(trial, back <= bytes, "sum_end makes %zu bytes of %zu", back, bytes);
    return back;
}

void codec_trial_job(struct codec_trial *trial, uint32_t rank, struct wring_job *job,
                     const char *out_name, size_t out_bytes)
{
    void *scratch =
        wring_test_guarded(round_up(wring_job_scratch_bytes(wring_job_scratch_elems(job))));

    begin_call(trial, "a job");
    add_buffer(trial, "input", job->src, job->elems * wring_dtype_bytes(job->dtype));
    add_buffer(trial, out_name, job->dst != NULL ? job->dst : job->code, out_bytes);
    wring_job_run(job, scratch);
    end_call(trial, rank);
    HOLD(trial, job->result.status == WRING_OK, "a job ends with: %s",
         wring_status_text(job->result.status));
}

void codec_trial_fold(struct codec_trial *trial, uint32_t rank, const struct wring_job *job,
                      size_t bytes)
{
    void *scratch = wring_test_guarded(round_up(trial->codec->ops->scratch_bytes));

    begin_call(trial, "begin of a round");
    add_buffer(trial, "input", job->src, job->elems * sizeof(float));
    add_buffer(trial, "statistics", job->dst, bytes);
    wring_round_fold(job, scratch);
    end_call(trial, rank);
}

/* ---- states ---- */

static uint64_t state_count(const struct codec_trial *trial, size_t state)
{
    const struct wring_codec_state *what = &trial->codec->ops->states[state];
    return what->count != NULL ? what->count(trial->codec, &trial->ranks[TRIAL_ME].context)
                               : trial->elems;
}

size_t codec_trial_state_bytes(const struct codec_trial *trial, size_t state)
{
    return state_count(trial, state) * wring_dtype_bytes(trial->codec->ops->states[state].dtype);
}

void *codec_trial_state(const void *from, size_t bytes)
{
    unsigned char *state = wring_test_guarded(round_up(bytes));

    memset(state + bytes, TAIL, round_up(bytes) - bytes);
    if (from == NULL)
        memset(state, 0, bytes);
    else if (bytes > 0)
        memcpy(state, from, bytes);
    return state;
}

static void make_states(struct codec_trial *trial, uint32_t index)
{
    const struct wring_codec_ops *ops = trial->codec->ops;
    struct codec_trial_rank *rank = &trial->ranks[index];

    for (size_t s = 0; s < ops->n_states; s++) {
        size_t bytes = codec_trial_state_bytes(trial, s);
        rank->states[s] = codec_trial_state(NULL, bytes);
        if (ops->states[s].init == NULL)
            continue;
        begin_call(trial, "init of state");
        add_buffer(trial, ops->states[s].name, rank->states[s], bytes);
        ops->states[s].init(trial->codec, &rank->context, rank->states[s], state_count(trial, s));
        trial->call = NULL;
    }
    if (ops->n_states > 0) {
        rank->context.states = rank->states;
        check_tails(trial, rank, "init of state");
    }
}

void codec_trial_rewind(struct codec_trial *trial)
{
    for (size_t s = 0; s < trial->codec->ops->n_states; s++)
        memcpy(trial->ranks[TRIAL_ME].states[s], trial->ready[s],
               codec_trial_state_bytes(trial, s));
}

/* ---- the group ---- */

void codec_trial_set_up(struct codec_trial *trial, uint64_t elems, uint64_t step, bool everyone)
{
    bool fed = !codec_trial_has(trial, WRING_CODEC_EXACT), matrix = elems > 0 && elems % 2 == 0;
    uint64_t rows = elems % 32 == 0 ? 32 : 2;
    uint32_t seed = trial->limits->seed;

    trial->elems = elems;
    for (uint32_t r = 0; r < TRIAL_RANKS; r++)
        trial->ranks[r] =
            (struct codec_trial_rank){.context = {.seed = seed,
                                                  .bucket = 7,
                                                  .rank = r,
                                                  .ranks = TRIAL_RANKS,
                                                  .step = step,
                                                  .elems = elems,
                                                  .rows = matrix ? rows : 0,
                                                  .columns = matrix ? elems / rows : 0}};
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        struct codec_trial_rank *rank = &trial->ranks[r];
        make_states(trial, r);
        if (r != TRIAL_ME && !everyone && trial->codec->ops->n_rounds == 0)
            continue;
        rank->src = wring_test_gradient(elems, seed + 1 + r + 100 * (uint32_t)step);
        rank->residual = fed ? wring_test_gradient(elems, seed + 51 + r) : NULL;
    }
}

size_t codec_trial_statistics_bytes(const struct codec_trial *trial, uint32_t rank, size_t round)
{
    const struct wring_codec_round *what = &trial->codec->ops->rounds[round];
    return what->count(trial->codec, &trial->ranks[rank].context) * wring_dtype_bytes(what->dtype);
}

/** The sum, minimum or maximum of what ranks have, to each of them. */
static void reduce_statistics(struct codec_trial *trial, size_t round)
{
    const struct wring_codec_round *what = &trial->codec->ops->rounds[round];
    struct wring_source sources[TRIAL_RANKS];
    size_t bytes = codec_trial_statistics_bytes(trial, TRIAL_ME, round);

    for (uint32_t r = 0; r < TRIAL_RANKS; r++)
        sources[r] =
            (struct wring_source){.data = trial->ranks[r].statistics[round], .bytes = bytes};
    struct wring_job job = {.kind = WRING_JOB_REDUCE,
                            .dtype = what->dtype,
                            .op = what->op,
                            .elems = bytes / wring_dtype_bytes(what->dtype),
                            .sources = sources,
                            .n_sources = TRIAL_RANKS,
                            .divisor = 1,
                            .dst = wring_test_guarded(bytes)};
    codec_trial_job(trial, TRIAL_ME, &job, "statistics", bytes);
    for (uint32_t r = 0; r < TRIAL_RANKS && bytes > 0; r++)
        memcpy(trial->ranks[r].statistics[round], job.dst, bytes);
}

static void run_round(struct codec_trial *trial, size_t round)
{
    struct wring_job job = {
        .kind = WRING_JOB_ROUND_BEGIN, .codec_out = trial->codec, .round = (uint32_t)round};

    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        struct codec_trial_rank *rank = &trial->ranks[r];
        size_t bytes = codec_trial_statistics_bytes(trial, r, round);
        rank->statistics[round] = wring_test_guarded(bytes);
        job.src = rank->src, job.residual = rank->residual, job.elems = trial->elems;
        job.context = rank->context, job.dst = rank->statistics[round];
        codec_trial_job(trial, r, &job, "statistics", bytes);
    }
    reduce_statistics(trial, round);
    job.kind = WRING_JOB_ROUND_END;
    job.src = job.residual = NULL;
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        job.context = trial->ranks[r].context, job.dst = trial->ranks[r].statistics[round];
        codec_trial_job(trial, r, &job, "statistics",
                        codec_trial_statistics_bytes(trial, r, round));
    }
}

void codec_trial_rounds(struct codec_trial *trial)
{
    const struct wring_codec_ops *ops = trial->codec->ops;

    for (uint32_t r = 0; r < TRIAL_RANKS && ops->n_rounds > 0; r++)
        trial->ranks[r].context.statistics = (const void *const *)trial->ranks[r].statistics;
    for (size_t round = 0; round < ops->n_rounds; round++)
        run_round(trial, round);
    for (size_t s = 0; s < ops->n_states; s++)
        trial->ready[s] =
            codec_trial_copy(trial->ranks[TRIAL_ME].states[s], codec_trial_state_bytes(trial, s));
}
