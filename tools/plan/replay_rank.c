/* SPDX-License-Identifier: Apache-2.0 */
/** One rank of `wring replay`: computing is slept or spun away, what is exchanged is real. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "compress/kernels/streaming.h"
#include "runtime/session/session.h"
#include "tools/commands.h"
#include "tools/plan/replay.h"
#include "tools/plan/replay_numbers.h"
#include <wring/wring.h>

/* ---- replay side ---- */

#define WAIT_NS (600 * WRING_NS_PER_S)
#define LINE 64 /* bytes: where tensors of another type begin */

static uint64_t elems_of(const struct wring_replay_side *side, uint32_t tensor)
{
    return side->params->trace->tensors[tensor].elems;
}

static enum wring_dtype dtype_of(const struct wring_replay_side *side, uint32_t tensor)
{
    return wring_tensor_trace_dtype(side->params->trace, tensor);
}

/** Tensors lie one after another, and only those of one type can travel as one: the first after
 * others begins a line. @param end  in and out: of the bytes so far @return where it begins */
static size_t place_tensor(const struct wring_replay_side *side, uint32_t tensor, size_t *end)
{
    size_t begin = *end;

    if (tensor > 0 && dtype_of(side, tensor) != dtype_of(side, tensor - 1))
        begin = (begin + LINE - 1) / LINE * LINE;
    *end = begin + elems_of(side, tensor) * wring_dtype_bytes(dtype_of(side, tensor));
    return begin;
}

/** Bytes of all the side's tensors, from data[0] on. */
static size_t replay_side_bytes(const struct wring_replay_side *side)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < side->n; i++)
        place_tensor(side, i, &bytes);
    return bytes;
}

/** One buffer that has all of them. */
static enum wring_status make_tensors(struct wring_replay_side *side)
{
    size_t end = 0;
    char *all;
    enum wring_status status =
        wring_buffer_alloc(side->session, replay_side_bytes(side), (void **)&all);
    for (uint32_t i = 0; i < side->n && status == WRING_OK; i++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = side->params->trace->tensors[i].name;
        params.data = side->data[i] = all + place_tensor(side, i, &end);
        params.elems = elems_of(side, i);
        params.dtype = dtype_of(side, i);
        params.codec = side->plan == NULL ? side->codec : "none";
        params.priority = (int32_t)i;
        status = wring_bucket_register(side->session, &params, &side->buckets[i]);
    }
    return status == WRING_OK ? wring_session_commit(side->session) : status;
}

/** The iteration's gradients of a tensor. */
static struct wring_replay_turn turn_of(const struct wring_replay_side *side, uint32_t tensor)
{
    return (struct wring_replay_turn){side->numbers, dtype_of(side, tensor), side->ranks,
                                      side->iteration};
}

static void write_gradients(struct wring_replay_side *side)
{
    side->iteration++;
    for (uint32_t t = 0; t < side->n; t++) {
        const struct wring_replay_turn turn = turn_of(side, t);
        wring_replay_fill(&turn, side->rank, side->data[t], elems_of(side, t));
    }
    wring_streaming_settle();
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

/** One iteration with fresh gradients, all ranks beginning together. @param us  out, of this rank
 */
static enum wring_status replay_side_run(struct wring_replay_side *side, double *us)
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

/** How a sum can be checked that travelled so. */
static enum wring_replay_check choose_check(const struct wring_bucket_stats *stats,
                                            enum wring_dtype dtype)
{
    if (strcmp(stats->codec, "none") != 0)
        return WRING_REPLAY_ALIKE;
    return dtype != WRING_F32 && strcmp(stats->order, "nodes") == 0 ? WRING_REPLAY_ROUNDED
                                                                    : WRING_REPLAY_EXACT;
}

/** Of this rank alone. */
static bool is_right(const struct wring_replay_side *side, uint32_t tensor,
                     enum wring_replay_check check)
{
    const struct wring_replay_turn turn = turn_of(side, tensor);

    switch (check) {
    case WRING_REPLAY_EXACT:
        return wring_replay_is_sum(&turn, side->data[tensor], elems_of(side, tensor));
    case WRING_REPLAY_ROUNDED:
        return wring_replay_is_near_sum(&turn, side->data[tensor], elems_of(side, tensor));
    case WRING_REPLAY_ALIKE:
        return true;
    }
    return false;
}

/** Raw sums are exact, or as exact as their type, and all are the same on all ranks.
 * @param checks  out, [tensors] of the first side; NULL: of another one
 * @param wrong   out: tensors that are not */
static enum wring_status replay_side_check(struct wring_replay_side *side,
                                           enum wring_replay_check *checks, uint64_t *wrong)
{
    int64_t *least = calloc(3 * (size_t)side->n, sizeof(*least));
    int64_t *most = least + side->n, *bad = most + side->n;
    enum wring_status status = least != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    for (uint32_t i = 0; i < side->n && status == WRING_OK; i++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        status = wring_bucket_stats(side->buckets[i], &stats);
        if (status != WRING_OK)
            break;
        enum wring_replay_check check = choose_check(&stats, dtype_of(side, i));
        if (checks != NULL)
            checks[i] = check;
        least[i] = most[i] =
            wring_replay_digest(dtype_of(side, i), side->data[i], elems_of(side, i));
        bad[i] = !is_right(side, i, check);
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

static int open_side_session(struct wring_replay_side *side)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    char plan[WRING_CONFIG_TEXT + 16], codecs[WRING_CONFIG_TEXT + 32];
    const char *const settings[] = {plan, codecs, "WRING_BYPASS=never", NULL};
    bool automatic = side->plan != NULL && strcmp(side->plan, WRING_REPLAY_AUTO) == 0;

    snprintf(plan, sizeof(plan), "WRING_PLAN=%s", side->plan != NULL ? side->plan : "");
    snprintf(codecs, sizeof(codecs), "WRING_PLAN_CODECS=%s", automatic ? side->codec : "");
    params.provider = side->params->provider;
    params.bootstrap = side->bootstrap;
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

static int replay_side_open(struct wring_replay_side *side)
{
    side->n = side->params->trace->n;
    side->faults.command = side->params->name;
    side->data = calloc(side->n, sizeof(*side->data));
    side->buckets = calloc(side->n, sizeof(struct wring_bucket *));
    side->times_us = calloc(side->params->iterations, sizeof(*side->times_us));
    if (side->data == NULL || side->buckets == NULL || side->times_us == NULL)
        return wring_fail(side->params->name, "out of memory");
    return open_side_session(side);
}

/**
 * Join, and register what is to be exchanged. Collective.
 *
 * @param side  params, plan, codec, numbers and bootstrap are set; closed by the caller, whatever
 * comes back
 * @return an exit status; said
 */
static void replay_side_close(struct wring_replay_side *side)
{
    wring_session_close(side->session);
    free(side->data);
    free(side->buckets);
    free(side->times_us);
}

/* ---- replay rank ---- */

#define WARM_UP 2               /* iterations that are not counted */
#define SETTLE_MAX 400          /* until a session that plans for itself has chosen */
#define HELD_BYTES (256u << 20) /* beside gradients, … */
#define HELD_OF_FREE 16         /* … but for no more than such a part of the free memory */
#define SIDES_MAX (1 + WRING_REPLAY_BESIDE_MAX)

/** Sides that take turns; the first is what was asked for, others are beside it. */
struct replay {
    const struct wring_replay_params *params;
    struct wring_replay_side sides[SIDES_MAX];
    uint32_t n;
    double *ratios; /* [iterations] */
};

static enum wring_status run_iterations(struct wring_replay_side *side, uint32_t iterations)
{
    enum wring_status status = WRING_OK;
    double unused;

    for (uint32_t i = 0; i < iterations && status == WRING_OK; i++)
        status = replay_side_run(side, &unused);
    return status;
}

/** Until a candidate is chosen, which is in the same iteration on all ranks. */
static enum wring_status let_settle(struct wring_replay_side *side,
                                    struct wring_autotune_report *report)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < SETTLE_MAX && status == WRING_OK && !report->settled; i++) {
        status = run_iterations(side, 1);
        wring_autotune_tell(side->session, report);
    }
    return status == WRING_OK ? run_iterations(side, WARM_UP) : status;
}

static double sent_by(const struct wring_replay_side *side)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;

    wring_session_stats(side->session, &stats);
    return (double)stats.wire_bytes_sent;
}

/** All sides are warm, and what they count begins. */
static enum wring_status warm_up(struct replay *replay, struct wring_replay_result *out)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++)
        status = run_iterations(&replay->sides[i], WARM_UP);
    if (replay->params->automatic && status == WRING_OK)
        status = let_settle(replay->sides, &out->automatic);
    for (uint32_t i = 0; i < replay->n; i++) {
        replay->sides[i].cpu_us = 0;
        replay->sides[i].wire_bytes = -sent_by(&replay->sides[i]);
    }
    return status;
}

/** One iteration of each side in turn; who begins changes. */
static enum wring_status take_turns(struct replay *replay)
{
    enum wring_status status = WRING_OK;

    for (uint32_t turn = 0; turn < replay->params->iterations; turn++)
        for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++) {
            struct wring_replay_side *side = &replay->sides[(turn + i) % replay->n];
            status = replay_side_run(side, &side->times_us[turn]);
        }
    for (uint32_t i = 0; i < replay->n; i++)
        replay->sides[i].wire_bytes += sent_by(&replay->sides[i]);
    return status;
}

/** An iteration takes as long as on its slowest rank. */
static enum wring_status gather_slowest(struct replay *replay)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++)
        status = wring_allreduce(replay->sides[i].world, replay->sides[i].times_us,
                                 replay->sides[i].times_us, replay->params->iterations, WRING_F64,
                                 WRING_MAX, NULL, NULL);
    return status;
}

/** Before any side's times are sorted. */
static struct wring_replay_beside compare_with(struct replay *replay,
                                               const struct wring_replay_side *other)
{
    uint32_t n = replay->params->iterations;
    struct wring_replay_beside beside = {0};

    for (uint32_t turn = 0; turn < n; turn++)
        replay->ratios[turn] = replay->sides->times_us[turn] / other->times_us[turn];
    beside.ratio = wring_spread_of(replay->ratios, n).median; /* which sorts them */
    beside.where = wring_fit_interval(replay->ratios, n);
    return beside;
}

static void sum_up_times(struct replay *replay, struct wring_replay_result *out)
{
    uint32_t n = replay->params->iterations;
    double *times_us = replay->sides->times_us;

    for (uint32_t i = 1; i < replay->n; i++)
        out->beside[i - 1] = compare_with(replay, &replay->sides[i]);
    for (uint32_t i = 1; i < replay->n; i++)
        out->beside[i - 1].median_us = wring_spread_of(replay->sides[i].times_us, n).median;
    out->time_us = wring_spread_of(times_us, n);
    out->p10_us = wring_fit_quantile(times_us, n, 0.1);
    out->p90_us = wring_fit_quantile(times_us, n, 0.9);
}

static enum wring_status measure_sides(struct replay *replay, struct wring_replay_result *out)
{
    const struct wring_replay_side *first = replay->sides;
    double n = replay->params->iterations;
    enum wring_status status = warm_up(replay, out);

    if (status == WRING_OK)
        status = take_turns(replay);
    if (status == WRING_OK)
        status = gather_slowest(replay);
    double means[2] = {first->wire_bytes / n, first->cpu_us / n}; /* of an iteration */
    if (status == WRING_OK)
        status = wring_allreduce(first->world, means, means, 2, WRING_F64, WRING_AVG, NULL, NULL);
    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++)
        status = replay_side_check(&replay->sides[i], i == 0 ? out->checks : NULL, &out->wrong);
    if (status != WRING_OK)
        return status;
    sum_up_times(replay, out);
    out->wire_bytes = means[0];
    out->cpu_us = means[1];
    return WRING_OK;
}

/** Pages that a process gets early and late may differ in speed by a tenth, by the host's memory
 *  behind them. So the sides touch their pages in turns, and none has all of them before another.
 */
static void touch_in_turns(const struct replay *replay)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = replay_side_bytes(replay->sides);

    for (size_t at = 0; at < bytes; at += page)
        for (uint32_t i = 0; i < replay->n; i++)
            ((volatile char *)replay->sides[i].data[0])[at] = 0;
}

/** Each side opens its own session. The later ones use the first session's bootstrap: its
 * collectives come in the same order on all ranks, since sides take turns. */
static int open_sides(struct replay *replay, const struct wring_replay_numbers *numbers)
{
    const struct wring_replay_params *params = replay->params;
    int code = WRING_EXIT_OK;

    for (uint32_t i = 0; i <= params->n_beside && code == WRING_EXIT_OK; i++) {
        struct wring_replay_side *side = &replay->sides[replay->n++];
        side->params = params;
        side->numbers = numbers;
        side->bootstrap = i == 0 ? NULL : replay->sides->session->bootstrap;
        side->plan = i == 0 ? params->plan : NULL;
        side->codec = i == 0 ? params->codec : params->beside[i - 1];
        code = replay_side_open(side);
    }
    if (code == WRING_EXIT_OK)
        touch_in_turns(replay);
    return code;
}

/** The library may have said why, of any side. */
static int fail_replay(const struct replay *replay, enum wring_status status)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    const struct wring_replay_side *side = replay->sides;

    for (uint32_t i = 0; i < replay->n; i++)
        if (wring_session_error(replay->sides[i].session, &detail) != WRING_OK)
            side = &replay->sides[i];
    return wring_rank_fail(&side->faults, "cannot go on", status);
}

/**
 * A process that trains has parameters and activations before it has gradients. The system first
 * hands out odd pages that other processes have left, and collectives in those take up to a sixth
 * longer.
 * @return as many bytes as parameters have, and some at least, in memory; to be freed; NULL without
 */
static char *hold_parameters(const struct wring_replay_params *params)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = wring_tensor_trace_bytes(params->trace);
    size_t least = (size_t)sysconf(_SC_AVPHYS_PAGES) * page / HELD_OF_FREE;

    least = least < HELD_BYTES ? least : HELD_BYTES;
    bytes = bytes > least ? bytes : least;
    char *held = malloc(bytes + 1);
    for (size_t at = 0; held != NULL && at < bytes; at += page)
        ((volatile char *)held)[at] = 1;
    return held;
}

static int run_replay(struct replay *replay, const struct wring_replay_numbers *numbers,
                      struct wring_replay_result *out)
{
    int code = open_sides(replay, numbers);

    if (code != WRING_EXIT_OK)
        return code;
    out->rank = replay->sides->rank;
    out->ranks = replay->sides->ranks;
    enum wring_status status = measure_sides(replay, out);
    return status == WRING_OK ? WRING_EXIT_OK : fail_replay(replay, status);
}

int wring_replay_rank(const struct wring_replay_params *params, struct wring_replay_result *out)
{
    struct replay replay = {.params = params};
    struct wring_replay_numbers numbers;
    enum wring_status status = wring_replay_numbers_init(&numbers, params->trace);
    char *parameters = hold_parameters(params);
    int code = WRING_EXIT_FAILURE;

    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end as soon as the system can */
    replay.ratios = calloc(params->iterations, sizeof(*replay.ratios));
    *out = (struct wring_replay_result){.checks = calloc(params->trace->n, sizeof(*out->checks))};
    if (status != WRING_OK || replay.ratios == NULL || parameters == NULL || out->checks == NULL)
        wring_fail(params->name, "out of memory");
    else
        code = run_replay(&replay, &numbers, out);
    while (replay.n > 0) /* the first one's bootstrap serves the others */
        replay_side_close(&replay.sides[--replay.n]);
    free(replay.ratios);
    free(parameters);
    wring_replay_numbers_finish(&numbers);
    return code;
}
