/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/replay_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compress/kernels/far.h"
#include "tools/commands.h"

#define WAIT_NS (600 * WRING_NS_PER_S)

static uint64_t elems_of(const struct wring_replay_side *side, uint32_t tensor)
{
    return side->params->trace->tensors[tensor].elems;
}

size_t wring_replay_side_bytes(const struct wring_replay_side *side)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < side->n; i++)
        bytes += elems_of(side, i) * sizeof(float);
    return bytes;
}

/** One buffer that has all of them. */
static enum wring_status make_tensors(struct wring_replay_side *side)
{
    float *all;
    enum wring_status status =
        wring_buffer_alloc(side->session, wring_replay_side_bytes(side), (void **)&all);
    for (uint32_t i = 0; i < side->n && status == WRING_OK; i++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = side->params->trace->tensors[i].name;
        params.data = side->data[i] = all;
        params.elems = elems_of(side, i);
        params.codec = side->plan == NULL ? side->codec : "none";
        params.priority = (int32_t)i;
        all += params.elems;
        status = wring_bucket_register(side->session, &params, &side->buckets[i]);
    }
    return status == WRING_OK ? wring_session_commit(side->session) : status;
}

static void write_gradients(struct wring_replay_side *side)
{
    side->round++;
    for (uint32_t t = 0; t < side->n; t++)
        wring_replay_fill(side->data[t], elems_of(side, t), side->numbers, side->rank, side->round);
    wring_far_settle();
}

/** Compute up to a time. */
static void compute_until(const struct wring_replay_side *side, uint64_t at_ns)
{
    if (side->params->compute == WRING_REPLAY_SLEEP && wring_now_ns() < at_ns)
        wring_sleep_until(at_ns); /* which gives a turn of the core away, even if it is over */
    while (wring_now_ns() < at_ns)
        ;
}

static enum wring_status run_backward(struct wring_replay_side *side, uint64_t begin_ns)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < side->n && status == WRING_OK; i++) {
        double ready_us = side->params->trace->tensors[i].ready_us;
        compute_until(side, begin_ns + (uint64_t)(ready_us * 1e3));
        status = wring_bucket_post(side->buckets[i]);
    }
    for (uint32_t i = 0; i < side->n && status == WRING_OK; i++)
        status = wring_bucket_wait(side->buckets[i], WAIT_NS, NULL);
    return status;
}

/** The optimizer's step, by all gradients. */
static void run_optimizer(const struct wring_replay_side *side)
{
    double us = side->params->trace->optimizer_us;

    if (us > 0)
        compute_until(side, wring_now_ns() + (uint64_t)(us * 1e3));
}

enum wring_status wring_replay_side_run(struct wring_replay_side *side, double *us)
{
    /* who shares a core with another writes nothing while that one is still at its last one */
    enum wring_status status = wring_barrier(side->world, NULL, NULL);
    if (status == WRING_OK) {
        write_gradients(side);
        status = wring_barrier(side->world, NULL, NULL);
    }
    if (status != WRING_OK)
        return status;
    uint64_t cpu_ns = wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID), begin_ns = wring_now_ns();
    status = run_backward(side, begin_ns);
    run_optimizer(side);
    *us = (double)(wring_now_ns() - begin_ns) / 1e3;
    side->cpu_us += (double)(wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / 1e3;
    return status;
}

enum wring_status wring_replay_side_check(struct wring_replay_side *side, uint64_t *wrong)
{
    int64_t *least = calloc(3 * (size_t)side->n, sizeof(*least));
    int64_t *most = least + side->n, *bad = most + side->n;
    enum wring_status status = least != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    for (uint32_t i = 0; i < side->n && status == WRING_OK; i++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        status = wring_bucket_stats(side->buckets[i], &stats);
        least[i] = most[i] = wring_replay_digest(side->data[i], elems_of(side, i));
        bad[i] = status == WRING_OK && strcmp(stats.codec, "none") == 0 &&
                 !wring_replay_is_sum(side->data[i], elems_of(side, i), side->numbers, side->ranks,
                                      side->round);
    }
    if (status == WRING_OK)
        status =
            wring_allreduce(side->world, least, least, side->n, WRING_I64, WRING_MIN, NULL, NULL);
    if (status == WRING_OK)
        status = wring_allreduce(side->world, most, most, 2 * (uint64_t)side->n, WRING_I64,
                                 WRING_MAX, NULL, NULL);
    for (uint32_t i = 0; i < side->n && status == WRING_OK; i++)
        *wrong += bad[i] != 0 || least[i] != most[i];
    free(least);
    return status;
}

static int join(struct wring_replay_side *side)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    char plan[WRING_CONFIG_TEXT + 16], codecs[WRING_CONFIG_TEXT + 32];
    const char *const settings[] = {plan, codecs, "WRING_BYPASS=never", NULL};
    bool automatic = side->plan != NULL && strcmp(side->plan, WRING_REPLAY_AUTO) == 0;

    snprintf(plan, sizeof(plan), "WRING_PLAN=%s", side->plan != NULL ? side->plan : "");
    snprintf(codecs, sizeof(codecs), "WRING_PLAN_CODECS=%s", automatic ? side->codec : "");
    params.provider = side->params->provider;
    params.bootstrap = side->way;
    params.settings = settings;
    int code = wring_rank_open(&side->faults, &params, side->params->ranks);
    side->session = side->faults.session;
    if (code != WRING_EXIT_OK)
        return code;
    side->world = wring_session_world(side->session);
    side->rank = wring_session_rank(side->session);
    side->ranks = wring_session_size(side->session);
    enum wring_status status = make_tensors(side);
    return status == WRING_OK ? WRING_EXIT_OK
                              : wring_rank_fail(&side->faults, "cannot prepare", status);
}

int wring_replay_side_open(struct wring_replay_side *side)
{
    side->n = side->params->trace->n;
    side->faults.command = side->params->name;
    side->data = calloc(side->n, sizeof(*side->data));
    side->buckets = calloc(side->n, sizeof(struct wring_bucket *));
    side->times_us = calloc(side->params->iterations, sizeof(*side->times_us));
    if (side->data == NULL || side->buckets == NULL || side->times_us == NULL)
        return wring_fail(side->params->name, "out of memory");
    return join(side);
}

void wring_replay_side_close(struct wring_replay_side *side)
{
    wring_session_close(side->session);
    free(side->data);
    free(side->buckets);
    free(side->times_us);
}
