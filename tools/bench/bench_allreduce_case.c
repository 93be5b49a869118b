/* SPDX-License-Identifier: Apache-2.0 */
/** One codec and size of `wring bench allreduce`: the calls and their times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/bench/bench_allreduce_inside.h"

#define WARM_ELEMS 262144
#define WARM_CALLS 5
#define ITERATIONS_MIN 5
#define ITERATIONS_MAX 10000

static void write_input(struct wring_allreduce_bench *bench, uint64_t elems)
{
    bench->round++;
    memcpy(bench->data, bench->source + wring_allreduce_shift(bench->round), elems * sizeof(float));
}

static enum wring_status call(struct wring_allreduce_bench *bench,
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
    status = call(bench, this);
    *us = (double)(wring_now_ns() - begin) / 1e3;
    return status;
}

/** Rank 0 decides how many calls a turn has, from the time that the last warm-up took. */
static enum wring_status agree_on_calls(struct wring_allreduce_bench *bench, double warm_us,
                                        uint64_t *count)
{
    const struct wring_allreduce_params *params = bench->params;
    double fit = params->seconds * 1e6 / (warm_us > 1 ? warm_us : 1);
    uint64_t all = fit > ITERATIONS_MAX ? ITERATIONS_MAX : (uint64_t)fit;

    if (all < ITERATIONS_MIN)
        all = ITERATIONS_MIN;
    if (params->iterations > 0)
        all = params->iterations;
    *count = (all + params->turns - 1) / params->turns;
    return wring_broadcast(bench->world, count, sizeof(*count), 0, NULL, NULL);
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
static enum wring_status sum_up(struct wring_allreduce_bench *bench,
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

static enum wring_status combine(struct wring_allreduce_bench *bench,
                                 const struct wring_allreduce_findings *own,
                                 struct wring_allreduce_result *result)
{
    struct wring_allreduce_findings all[WRING_PATTERN_RANKS_MAX];
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

enum wring_status wring_allreduce_begin_case(struct wring_allreduce_bench *bench,
                                             struct wring_allreduce_case *this)
{
    double warm_us = 0;
    enum wring_status status = timed_call(bench, this, &warm_us);

    if (status == WRING_OK)
        status = wring_allreduce_verify_first(bench, this, &this->findings);
    if (status == WRING_OK)
        status = warm_up(bench, this, &warm_us); /* all memory has been touched by now */
    if (status == WRING_OK)
        status = agree_on_calls(bench, warm_us, &this->in_turn);
    if (status != WRING_OK)
        return status;
    this->times = calloc(this->in_turn * bench->params->turns, sizeof(*this->times));
    return this->times != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

enum wring_status wring_allreduce_take_turn(struct wring_allreduce_bench *bench,
                                            struct wring_allreduce_case *this)
{
    enum wring_status status = time_calls(bench, this);

    if (status == WRING_OK && this->timed == this->in_turn * bench->params->turns)
        status = wring_allreduce_verify_last(bench, this, &this->findings);
    return status;
}

enum wring_status wring_allreduce_finish_case(struct wring_allreduce_bench *bench,
                                              struct wring_allreduce_case *this)
{
    enum wring_status status = sum_up(bench, this);

    if (status == WRING_OK)
        status = ask_bucket(this, &this->findings, &this->result);
    return status == WRING_OK ? combine(bench, &this->findings, &this->result) : status;
}
