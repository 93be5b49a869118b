/* SPDX-License-Identifier: Apache-2.0 */
/** One rank of `wring replay`: computing is slept or spun away, what is exchanged is real. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <wring/wring.h>

#include "base/clock.h"
#include "compress/kernels/far.h"
#include "tools/commands.h"
#include "tools/plan/replay.h"
#include "tools/rank_faults.h"

#define WARM_UP 2      /* iterations that are not counted */
#define SETTLE_MAX 400 /* until a session that plans for itself has chosen */
#define WAIT_NS (600 * WRING_NS_PER_S)

struct replay {
    const struct wring_replay_params *params;
    struct wring_session *session;
    struct wring_group *world;
    uint32_t rank, ranks;
    uint32_t n;                    /* tensors */
    float *numbers;                /* that gradients are made of */
    float **data;                  /* [n] one after another in one buffer */
    struct wring_bucket **buckets; /* [n] */
    uint64_t round;                /* iterations so far */
    double *times_us;              /* [iterations] of this rank, then of the slowest */
    double cpu_us;                 /* of all of them, of all the process's threads */
    struct wring_rank_faults faults;
};

static uint64_t elems_of(const struct replay *replay, uint32_t tensor)
{
    return replay->params->trace->tensors[tensor].elems;
}

static enum wring_status make_tensors(struct replay *replay)
{
    uint64_t total = 0;
    float *all;

    for (uint32_t i = 0; i < replay->n; i++)
        total += elems_of(replay, i);
    enum wring_status status =
        wring_buffer_alloc(replay->session, total * sizeof(float), (void **)&all);
    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = replay->params->trace->tensors[i].name;
        params.data = replay->data[i] = all;
        params.elems = elems_of(replay, i);
        params.codec = replay->params->plan == NULL ? replay->params->codec : "none";
        params.priority = (int32_t)i;
        all += params.elems;
        status = wring_bucket_register(replay->session, &params, &replay->buckets[i]);
    }
    return status == WRING_OK ? wring_session_commit(replay->session) : status;
}

static void write_gradients(struct replay *replay)
{
    replay->round++;
    for (uint32_t t = 0; t < replay->n; t++)
        wring_replay_fill(replay->data[t], elems_of(replay, t), replay->numbers, replay->rank,
                          replay->round);
    wring_far_settle();
}

/** Compute up to a time. */
static void compute_until(const struct replay *replay, uint64_t at_ns)
{
    if (replay->params->compute == WRING_REPLAY_SLEEP && wring_now_ns() < at_ns)
        wring_sleep_until(at_ns); /* which gives a turn of the core away, even if it is over */
    while (wring_now_ns() < at_ns)
        ;
}

static enum wring_status run_backward(struct replay *replay, uint64_t begin_ns)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++) {
        double ready_us = replay->params->trace->tensors[i].ready_us;
        compute_until(replay, begin_ns + (uint64_t)(ready_us * 1e3));
        status = wring_bucket_post(replay->buckets[i]);
    }
    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++)
        status = wring_bucket_wait(replay->buckets[i], WAIT_NS);
    return status;
}

/** The optimizer's step, by all gradients. */
static void run_optimizer(const struct replay *replay)
{
    double us = replay->params->trace->optimizer_us;

    if (us > 0)
        compute_until(replay, wring_now_ns() + (uint64_t)(us * 1e3));
}

/** One iteration with fresh gradients, all ranks beginning together. */
static enum wring_status run_iteration(struct replay *replay, double *us)
{
    write_gradients(replay);
    enum wring_status status = wring_barrier(replay->world);
    if (status != WRING_OK)
        return status;
    uint64_t cpu_ns = wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID), begin_ns = wring_now_ns();
    status = run_backward(replay, begin_ns);
    run_optimizer(replay);
    *us = (double)(wring_now_ns() - begin_ns) / 1e3;
    replay->cpu_us += (double)(wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / 1e3;
    return status;
}

/** Raw sums are exact, coded ones the same on all ranks. @param wrong  out: tensors that are not */
static enum wring_status check(struct replay *replay, uint64_t *wrong)
{
    int64_t *least = calloc(3 * (size_t)replay->n, sizeof(*least));
    int64_t *most = least + replay->n, *bad = most + replay->n;
    enum wring_status status = least != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        status = wring_bucket_stats(replay->buckets[i], &stats);
        least[i] = most[i] = wring_replay_digest(replay->data[i], elems_of(replay, i));
        bad[i] = status == WRING_OK && strcmp(stats.codec, "none") == 0 &&
                 !wring_replay_is_sum(replay->data[i], elems_of(replay, i), replay->numbers,
                                      replay->ranks, replay->round);
    }
    if (status == WRING_OK)
        status = wring_allreduce(replay->world, least, replay->n, WRING_I64, WRING_MIN, NULL, NULL);
    if (status == WRING_OK)
        status = wring_allreduce(replay->world, most, 2 * (uint64_t)replay->n, WRING_I64, WRING_MAX,
                                 NULL, NULL);
    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++)
        *wrong += bad[i] != 0 || least[i] != most[i];
    free(least);
    return status;
}

static double quantile(const double *sorted, uint32_t n, double part)
{
    return sorted[(uint32_t)(part * (n - 1) + 0.5)];
}

/** Until a way is chosen, which is in the same iteration on all ranks. */
static enum wring_status let_settle(struct replay *replay, struct wring_autoplan_report *report)
{
    enum wring_status status = WRING_OK;
    double unused;

    for (uint32_t i = 0; i < SETTLE_MAX && status == WRING_OK && !report->settled; i++) {
        status = run_iteration(replay, &unused);
        wring_autoplan_tell(replay->session, report);
    }
    for (uint32_t i = 0; i < WARM_UP && status == WRING_OK; i++)
        status = run_iteration(replay, &unused);
    return status;
}

static enum wring_status measure(struct replay *replay, struct wring_replay_result *out)
{
    uint32_t n = replay->params->iterations;
    struct wring_session_stats before = WRING_SESSION_STATS_INIT, after = before;
    double unused, means[2]; /* of an iteration: bytes sent, processor time */
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < WARM_UP && status == WRING_OK; i++)
        status = run_iteration(replay, &unused);
    if (replay->params->automatic && status == WRING_OK)
        status = let_settle(replay, &out->automatic);
    wring_session_stats(replay->session, &before);
    replay->cpu_us = 0;
    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        status = run_iteration(replay, &replay->times_us[i]);
    wring_session_stats(replay->session, &after);
    means[0] = (double)(after.wire_bytes_sent - before.wire_bytes_sent) / n;
    means[1] = replay->cpu_us / n;
    if (status == WRING_OK) /* the time of an iteration is that of its slowest rank */
        status =
            wring_allreduce(replay->world, replay->times_us, n, WRING_F64, WRING_MAX, NULL, NULL);
    if (status == WRING_OK)
        status = wring_allreduce(replay->world, means, 2, WRING_F64, WRING_AVG, NULL, NULL);
    if (status != WRING_OK)
        return status;
    out->time_us = wring_spread_of(replay->times_us, n);
    out->p10_us = quantile(replay->times_us, n, 0.1);
    out->p90_us = quantile(replay->times_us, n, 0.9);
    out->wire_bytes = means[0];
    out->cpu_us = means[1];
    return check(replay, &out->wrong);
}

static int join(struct replay *replay)
{
    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end as soon as the system can */
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    char plan[WRING_CONFIG_TEXT + 16], codecs[WRING_CONFIG_TEXT + 32];
    const char *const settings[] = {plan, codecs, "WRING_BYPASS=never", NULL};

    snprintf(plan, sizeof(plan), "WRING_PLAN=%s",
             replay->params->plan != NULL ? replay->params->plan : "");
    snprintf(codecs, sizeof(codecs), "WRING_PLAN_CODECS=%s",
             replay->params->automatic ? replay->params->codec : "");
    params.provider = replay->params->provider;
    params.settings = settings;
    int code = wring_rank_open(&replay->faults, &params, replay->params->ranks);
    replay->session = replay->faults.session;
    if (code != WRING_EXIT_OK)
        return code;
    replay->world = wring_session_world(replay->session);
    replay->rank = wring_session_rank(replay->session);
    replay->ranks = wring_session_size(replay->session);
    enum wring_status status = make_tensors(replay);
    return status == WRING_OK ? WRING_EXIT_OK
                              : wring_rank_fail(&replay->faults, "cannot prepare", status);
}

int wring_replay_rank(const struct wring_replay_params *params, struct wring_replay_result *out)
{
    struct replay replay = {
        .params = params, .n = params->trace->n, .faults.command = params->name};
    int code = WRING_EXIT_FAILURE;

    replay.numbers = wring_replay_numbers();
    replay.data = calloc(replay.n, sizeof(*replay.data));
    replay.buckets = calloc(replay.n, sizeof(struct wring_bucket *));
    replay.times_us = calloc(params->iterations, sizeof(*replay.times_us));
    if (replay.numbers == NULL || replay.data == NULL || replay.buckets == NULL ||
        replay.times_us == NULL)
        wring_fail(params->name, "out of memory");
    else
        code = join(&replay);
    if (code == WRING_EXIT_OK) {
        *out = (struct wring_replay_result){.rank = replay.rank, .ranks = replay.ranks};
        enum wring_status status = measure(&replay, out);
        code = status == WRING_OK ? WRING_EXIT_OK
                                  : wring_rank_fail(&replay.faults, "cannot go on", status);
    }
    wring_session_close(replay.session);
    free(replay.numbers);
    free(replay.data);
    free(replay.buckets);
    free(replay.times_us);
    return code;
}
