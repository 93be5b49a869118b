/* SPDX-License-Identifier: Apache-2.0 */
/** One rank of `wring replay`: computing is slept or spun away, what is exchanged is real. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <wring/wring.h>

#include "runtime/session/session.h"
#include "tools/commands.h"
#include "tools/plan/replay_side.h"

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

static enum wring_status run_some(struct wring_replay_side *side, uint32_t iterations)
{
    enum wring_status status = WRING_OK;
    double unused;

    for (uint32_t i = 0; i < iterations && status == WRING_OK; i++)
        status = wring_replay_side_run(side, &unused);
    return status;
}

/** Until a way is chosen, which is in the same iteration on all ranks. */
static enum wring_status let_settle(struct wring_replay_side *side,
                                    struct wring_autoplan_report *report)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < SETTLE_MAX && status == WRING_OK && !report->settled; i++) {
        status = run_some(side, 1);
        wring_autoplan_tell(side->session, report);
    }
    return status == WRING_OK ? run_some(side, WARM_UP) : status;
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
        status = run_some(&replay->sides[i], WARM_UP);
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
            status = wring_replay_side_run(side, &side->times_us[turn]);
        }
    for (uint32_t i = 0; i < replay->n; i++)
        replay->sides[i].wire_bytes += sent_by(&replay->sides[i]);
    return status;
}

/** An iteration takes as long as on its slowest rank. */
static enum wring_status gather(struct replay *replay)
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

static void sum_up(struct replay *replay, struct wring_replay_result *out)
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

static enum wring_status measure(struct replay *replay, struct wring_replay_result *out)
{
    const struct wring_replay_side *first = replay->sides;
    double n = replay->params->iterations;
    enum wring_status status = warm_up(replay, out);

    if (status == WRING_OK)
        status = take_turns(replay);
    if (status == WRING_OK)
        status = gather(replay);
    double means[2] = {first->wire_bytes / n, first->cpu_us / n}; /* of an iteration */
    if (status == WRING_OK)
        status = wring_allreduce(first->world, means, means, 2, WRING_F64, WRING_AVG, NULL, NULL);
    for (uint32_t i = 0; i < replay->n && status == WRING_OK; i++)
        status = wring_replay_side_check(&replay->sides[i], &out->wrong);
    if (status != WRING_OK)
        return status;
    sum_up(replay, out);
    out->wire_bytes = means[0];
    out->cpu_us = means[1];
    return WRING_OK;
}

/** Memory that a process is given early and late may differ in speed by a tenth, by what the host
 *  backs it with: so no side has all of its pages before another. */
static void touch_in_turns(const struct replay *replay)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = wring_replay_side_bytes(replay->sides);

    for (size_t at = 0; at < bytes; at += page)
        for (uint32_t i = 0; i < replay->n; i++)
            ((volatile char *)replay->sides[i].data[0])[at] = 0;
}

/** Sessions of their own. Who has met the other ranks once has a way to: exchanges come in the same
 *  order on all of them, as sides take turns. */
static int open_sides(struct replay *replay, const float *numbers)
{
    const struct wring_replay_params *params = replay->params;
    int code = WRING_EXIT_OK;

    for (uint32_t i = 0; i <= params->n_beside && code == WRING_EXIT_OK; i++) {
        struct wring_replay_side *side = &replay->sides[replay->n++];
        side->params = params;
        side->numbers = numbers;
        side->way = i == 0 ? NULL : replay->sides->session->bootstrap;
        side->plan = i == 0 ? params->plan : NULL;
        side->codec = i == 0 ? params->codec : params->beside[i - 1];
        code = wring_replay_side_open(side);
    }
    if (code == WRING_EXIT_OK)
        touch_in_turns(replay);
    return code;
}

/** The library may have said why, of any side. */
static int fail(const struct replay *replay, enum wring_status status)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    const struct wring_replay_side *side = replay->sides;

    for (uint32_t i = 0; i < replay->n; i++)
        if (wring_session_error(replay->sides[i].session, &detail) != WRING_OK)
            side = &replay->sides[i];
    return wring_rank_fail(&side->faults, "cannot go on", status);
}

/**
 * A process that trains has parameters and activations before it has gradients. What a system hands
 * out first are odd pages that others have left, and exchanges in those take up to a sixth longer.
 * @return as many bytes as parameters have, and some at least, in memory; to be freed; NULL without
 */
static char *hold_parameters(const struct wring_replay_params *params)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 0;
    size_t least = (size_t)sysconf(_SC_AVPHYS_PAGES) * page / HELD_OF_FREE;

    for (uint32_t i = 0; i < params->trace->n; i++)
        bytes += params->trace->tensors[i].elems * sizeof(float);
    least = least < HELD_BYTES ? least : HELD_BYTES;
    bytes = bytes > least ? bytes : least;
    char *held = malloc(bytes + 1);
    for (size_t at = 0; held != NULL && at < bytes; at += page)
        ((volatile char *)held)[at] = 1;
    return held;
}

static int run(struct replay *replay, const float *numbers, struct wring_replay_result *out)
{
    int code = open_sides(replay, numbers);

    if (code != WRING_EXIT_OK)
        return code;
    *out = (struct wring_replay_result){.rank = replay->sides->rank, .ranks = replay->sides->ranks};
    enum wring_status status = measure(replay, out);
    return status == WRING_OK ? WRING_EXIT_OK : fail(replay, status);
}

int wring_replay_rank(const struct wring_replay_params *params, struct wring_replay_result *out)
{
    struct replay replay = {.params = params};
    float *numbers = wring_replay_numbers();
    char *parameters = hold_parameters(params);
    int code = WRING_EXIT_FAILURE;

    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end as soon as the system can */
    replay.ratios = calloc(params->iterations, sizeof(*replay.ratios));
    if (numbers == NULL || replay.ratios == NULL || parameters == NULL)
        wring_fail(params->name, "out of memory");
    else
        code = run(&replay, numbers, out);
    while (replay.n > 0) /* the first one's bootstrap serves the others */
        wring_replay_side_close(&replay.sides[--replay.n]);
    free(replay.ratios);
    free(parameters);
    free(numbers);
    return code;
}
