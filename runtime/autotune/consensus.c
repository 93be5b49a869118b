/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say of their last iterations when they meet. */
#include "runtime/autotune/consensus.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/parse.h"
#include "planner/core/files/plan.h"
#include "runtime/plan/bucket_fusion.h"

#define WRING_MODULE "plan"
#define ITERATION_MAX_US 1e12
#define REPLAN_SHARE 20 /* times as long as planning took must pass until the next */

static void write_number(struct wring_writer *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    wring_write_u64(out, bits);
}

static double read_number(struct wring_reader *in)
{
    uint64_t bits = wring_read_u64(in);
    double value;

    memcpy(&value, &bits, sizeof(value));
    if (!(value >= 0 && value <= ITERATION_MAX_US))
        in->failed = true;
    return value;
}

/** Would buckets that change their ways now do so under somebody's hands? */
static bool is_busy(const struct wring_autoplan *autoplan)
{
    struct wring_session *session = autoplan->session;
    bool busy = false;

    for (uint32_t i = 0; i < autoplan->iterations.n; i++)
        busy |= autoplan->iterations.tensors[i].pending; /* somebody may be about to wait for it */
    if (busy)
        return true;
    wring_progress_lock(session->progress);
    busy = !wring_engine_idle(session->engine);
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        busy |= !at->committed || at->dropped || wring_bucket_under_way(at);
    for (const struct wring_bucket *at = session->fused; at != NULL; at = at->next)
        busy |= at->dropped || wring_bucket_under_way(at);
    wring_progress_unlock(session->progress);
    return busy;
}

/** Has rank 0 the time for planning anew? */
static bool may_replan(const struct wring_autoplan *autoplan)
{
    return wring_now_ns() - autoplan->settled_ns > REPLAN_SHARE * autoplan->spent_ns;
}

static void write_report(struct wring_autoplan *autoplan, struct wring_writer *out)
{
    wring_write_u32(out, autoplan->stage);
    wring_write_u32(out, autoplan->at);
    wring_write_u32(out, is_busy(autoplan));
    wring_write_u32(out, autoplan->iterations.early);
    wring_write_u32(out, may_replan(autoplan));
    write_number(out,
                 wring_iterations_median(autoplan->iterations.took_us, WRING_ITERATIONS_TIMED));
    write_number(out,
                 wring_iterations_median(autoplan->iterations.compute_us, WRING_ITERATIONS_TIMED));
    wring_write_u32(out, autoplan->iterations.n);
    for (uint32_t i = 0; i < autoplan->iterations.n; i++)
        write_number(out, wring_iterations_median(autoplan->iterations.tensors[i].ready_us,
                                                  WRING_ITERATIONS_TIMED));
}

/** The slowest rank's. @return false: not what it should be */
static bool read_report(struct wring_autoplan *autoplan, struct wring_reader in, bool is_root,
                        struct wring_autoplan_said *all)
{
    uint32_t stage = wring_read_u32(&in), at = wring_read_u32(&in);
    uint32_t busy = wring_read_u32(&in), early = wring_read_u32(&in), may = wring_read_u32(&in);

    all->busy |= busy;
    all->early |= early;
    all->may |= is_root ? may : 0;
    all->us = fmax(all->us, read_number(&in));
    all->compute_us = fmax(all->compute_us, read_number(&in));
    if (wring_read_u32(&in) != autoplan->iterations.n)
        return false;
    for (uint32_t i = 0; i < autoplan->iterations.n && !in.failed; i++)
        autoplan->ready_us[i] = fmax(autoplan->ready_us[i], read_number(&in));
    return stage == all->stage && at == all->at && !in.failed;
}

/**
 * Tell the others and hear them; the same comes out on all ranks, and autoplan->ready_us with it.
 *
 * Errors: WRING_ERR_MISMATCH (ranks are not at the same place), those of exchanges.
 */
static enum wring_status autoplan_hear(struct wring_autoplan *autoplan,
                                       struct wring_autoplan_said *all)
{
    struct wring_session *session = autoplan->session;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    *all = (struct wring_autoplan_said){.stage = autoplan->stage, .at = autoplan->at};
    memset(autoplan->ready_us, 0, autoplan->iterations.n * sizeof(*autoplan->ready_us));
    write_report(autoplan, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < session->size; i++)
        if (!read_report(autoplan, wring_blobs_reader(&blobs, i), i == 0, all))
            status = WRING_ERR_MISMATCH;
    wring_blobs_finish(&blobs);
    return status;
}

/* ---- choose ---- */

/*
 * The way that is tried next and the one that stays, by measured iteration times. First each way
 * has one look. Unless one wins clearly, those that come near the best have further looks in turn:
 * so other load on the machine slows all alike.
 */

#define NEAR 1.1   /* times as long as the best: is looked at again */
#define CLEAR 0.6  /* of the time without: no machine is so much faster only for a while */
#define WORTH 0.97 /* of the time without, at most: what saves less is not worth a change */

/** A way's time in a look. Way 0, as registered, is favoured: another one must save 3 %. */
static double score_of(const struct wring_autoplan *autoplan, uint32_t way, uint32_t look)
{
    return autoplan->candidates[way].measured_us[look] * (way == 0 ? WORTH : 1);
}

/** @return the way that had the least in a look, of those that are in it */
static uint32_t find_best(const struct wring_autoplan *autoplan, uint32_t look)
{
    uint32_t best = autoplan->first;

    for (uint32_t i = best + 1; i < autoplan->n_candidates; i++)
        if (autoplan->candidates[i].measured > look &&
            score_of(autoplan, i, look) < score_of(autoplan, best, look))
            best = i;
    return best;
}

/** The way's time against that of the first way in turn: the median over the looks of both. */
static double compare(const struct wring_autoplan *autoplan, uint32_t way)
{
    double ratios[WRING_AUTOPLAN_LOOKS];
    uint32_t n = autoplan->candidates[way].measured;

    for (uint32_t i = 0; i < n; i++)
        ratios[i] = score_of(autoplan, way, i) / score_of(autoplan, autoplan->first, i);
    return wring_iterations_median(ratios, n);
}

static bool is_in_turn(const struct wring_autoplan *autoplan, uint32_t way)
{
    return autoplan->in_turn >> way & 1;
}

/** @return the next way in turn, from this one on; n_ways: there is none */
static uint32_t next_in_turn(const struct wring_autoplan *autoplan, uint32_t way)
{
    while (way < autoplan->n_candidates && !is_in_turn(autoplan, way))
        way++;
    return way;
}

/** All ways have had a look: which ones take turns? */
static void begin_turns(struct wring_autoplan *autoplan)
{
    double least_us = autoplan->candidates[find_best(autoplan, 0)].measured_us[0];

    autoplan->in_turn = 0;
    for (uint32_t i = 0; i < autoplan->n_candidates; i++)
        if (autoplan->candidates[i].measured_us[0] <= NEAR * least_us)
            autoplan->in_turn |= 1u << i;
    if (least_us > CLEAR * autoplan->candidates[0].measured_us[0])
        autoplan->in_turn |= 1;
    autoplan->first = next_in_turn(autoplan, 0);
}

/** All ways in turn have had as many looks: which one wins? @param agree  out: all looks say so */
static uint32_t find_winner(const struct wring_autoplan *autoplan, bool *agree)
{
    uint32_t winner = autoplan->first, looks = autoplan->candidates[winner].measured;

    for (uint32_t i = winner + 1; i < autoplan->n_candidates; i++)
        if (is_in_turn(autoplan, i) && compare(autoplan, i) < compare(autoplan, winner))
            winner = i;
    *agree = true;
    for (uint32_t look = 0; look < looks; look++)
        *agree &= find_best(autoplan, look) == winner;
    return winner;
}

bool wring_autoplan_choose(struct wring_autoplan *autoplan, uint32_t *way)
{
    bool agree, first_round = autoplan->candidates[autoplan->at].measured == 1;

    *way = first_round ? autoplan->at + 1 : next_in_turn(autoplan, autoplan->at + 1);
    if (*way < autoplan->n_candidates)
        return false;
    if (first_round)
        begin_turns(autoplan);
    *way = find_winner(autoplan, &agree);
    if (agree && (!first_round || autoplan->in_turn == 1u << *way))
        return true;
    if (autoplan->candidates[*way].measured == WRING_AUTOPLAN_LOOKS)
        return true;
    *way = autoplan->first;
    return false;
}

/** An iteration's time in a way, from one look for all. It is the look with the median ratio to the
 * time as registered, or the later one of two. @param without_us  out: the time as registered, then
 */
static double iteration_us(const struct wring_autoplan *autoplan, uint32_t way, double *without_us)
{
    const struct wring_autoplan_way *none = &autoplan->candidates[0],
                                    *it = &autoplan->candidates[way];
    uint32_t looks = it->measured < none->measured ? it->measured : none->measured;
    uint32_t look = looks - 1;
    double ratios[WRING_AUTOPLAN_LOOKS] = {0};

    for (uint32_t i = 0; i < looks; i++)
        ratios[i] = it->measured_us[i] / none->measured_us[i];
    double middle = wring_iterations_median(ratios, looks); /* of two: neither */
    for (uint32_t i = 0; i < looks; i++)
        if (ratios[i] == middle)
            look = i;
    *without_us = none->measured_us[look];
    return it->measured_us[look];
}

/* ---- meet ---- */

/*
 * Ranks meet after as many iterations, and tell each other what these took. All of them hear the
 * same and so go on alike.
 */

#define BUSY_MAX 20  /* meetings in a row in which nothing can be changed */
#define CHANGED 0.25 /* of an iteration's time, more or less than before */
#define LOOKS_WORSE 2

void wring_autoplan_forget_ways(struct wring_autoplan *autoplan)
{
    autoplan->session->plan = NULL;
    for (uint32_t i = 0; i < autoplan->n_candidates; i++)
        wring_plan_destroy(autoplan->candidates[i].plan);
    autoplan->n_candidates = autoplan->at = autoplan->first = autoplan->in_turn = 0;
}

/* ---- changing ways ---- */

/** Nothing more is tried; buckets travel as they do now. */
static void give_up(struct wring_autoplan *autoplan, const char *why)
{
    autoplan->stage = WRING_AUTOPLAN_OFF;
    autoplan->iterations.off = true;
    if (autoplan->session->rank == 0)
        wring_warn(&autoplan->session->log, "WRING_PLAN=auto gives up: %s", why);
}

static enum wring_status change_to(struct wring_autoplan *autoplan, uint32_t way)
{
    struct wring_session *session = autoplan->session;

    autoplan->at = way;
    session->plan = autoplan->candidates[way].plan;
    enum wring_status status = session->recommit(session);
    if (status != WRING_OK && session->plan != NULL && wring_session_check(session) == WRING_OK) {
        give_up(autoplan, "a plan cannot be run; buckets travel as registered");
        autoplan->at = 0;
        session->plan = NULL;
        status = session->recommit(session);
    }
    wring_iterations_restart(&autoplan->iterations, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    return status;
}

/** How many iterations until the next look; the same on all ranks. */
static uint64_t until_next_look(const struct wring_autoplan *autoplan, double us)
{
    double every_us = (double)autoplan->session->config.plan_every_ns / 1e3;
    uint64_t least = WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED;
    double iterations = us > 0 ? every_us / us : 0;

    return iterations > 1e6 ? 1000000 : iterations > (double)least ? (uint64_t)iterations : least;
}

/** How the session is set for a plan; "" where it is as configured anyway. @param text out, [bytes]
 */
static void describe_tuning(const struct wring_plan *plan, char *text, size_t bytes)
{
    text[0] = '\0';
    if (plan != NULL && plan->chunk_bytes != 0)
        snprintf(text, bytes, ", executor %s, pieces of %" PRIu64 " bytes", plan->executor,
                 plan->chunk_bytes);
}

static void say_none(const struct wring_autoplan *autoplan)
{
    double without_us, us = iteration_us(autoplan, 1, &without_us);
    const char *name = autoplan->candidates[1].name;

    for (uint32_t i = 2; i < autoplan->n_candidates; i++) {
        double none_us, so_us = iteration_us(autoplan, i, &none_us);
        if (so_us / none_us >= us / without_us)
            continue;
        us = so_us;
        without_us = none_us;
        name = autoplan->candidates[i].name;
    }
    wring_warn(&autoplan->session->log,
               "WRING_PLAN=auto: no plan is clearly faster: with the best one (%s) an iteration "
               "took %.3f ms, without %.3f ms; buckets travel as registered again",
               name, us / 1e3, without_us / 1e3);
}

static void say_result(const struct wring_autoplan *autoplan)
{
    const struct wring_autoplan_way *way = &autoplan->candidates[autoplan->at];
    const struct wring_log *log = &autoplan->session->log;
    char tuning[128];

    if (autoplan->session->rank != 0)
        return;
    if (autoplan->n_candidates == 1) {
        wring_info(log, "WRING_PLAN=auto: there is no plan to try; buckets travel as registered");
        return;
    }
    if (way->plan == NULL) {
        say_none(autoplan);
        return;
    }
    describe_tuning(way->plan, tuning, sizeof(tuning));
    wring_info(log,
               "WRING_PLAN=auto: %s is kept, %" PRIu32 " groups of %" PRIu32
               " buckets%s: an iteration takes %.3f ms with it, %.3f ms without, and %.3f ms were "
               "predicted",
               way->name, way->plan->n_groups, autoplan->iterations.n, tuning,
               autoplan->kept_us / 1e3, autoplan->without_us / 1e3, way->predicted_us / 1e3);
    if (fabs(way->predicted_us - autoplan->kept_us) > CHANGED * autoplan->kept_us)
        wring_warn(log,
                   "WRING_PLAN=auto: the prediction is off by %+.0f %%: the profile does not tell "
                   "what this job's iterations take",
                   (way->predicted_us / autoplan->kept_us - 1) * 100);
}

static bool write_plan(const struct wring_plan *plan, const char *path)
{
    struct wring_atomic_file draft;

    return wring_atomic_file_open(&draft, path, 0644) &&
           wring_atomic_file_close(&draft, path, wring_plan_save(plan, draft.file) == WRING_OK);
}

/** In rank 0: write the plan that is kept to where WRING_PLAN_SAVE says; says what came of it. */
static void save_plan(const struct wring_autoplan *autoplan)
{
    const struct wring_plan *plan = autoplan->candidates[autoplan->at].plan;
    const struct wring_log *log = &autoplan->session->log;
    const char *path = autoplan->session->config.plan_save;

    if (path[0] == '\0')
        return;
    if (plan == NULL)
        wring_warn(log, "WRING_PLAN_SAVE=%s: no plan is kept, so none is written", path);
    else if (!write_plan(plan, path))
        wring_warn(log, "WRING_PLAN_SAVE=%s: the plan cannot be written: %s", path,
                   strerror(errno));
    else
        wring_info(log, "WRING_PLAN_SAVE=%s: the plan is written", path);
}

/** The question is answered. */
static enum wring_status settle(struct wring_autoplan *autoplan, uint32_t way)
{
    enum wring_status status = way != autoplan->at ? change_to(autoplan, way) : WRING_OK;

    if (autoplan->stage == WRING_AUTOPLAN_OFF)
        return status;
    autoplan->stage = WRING_AUTOPLAN_KEEP;
    autoplan->kept_us = iteration_us(autoplan, way, &autoplan->without_us);
    autoplan->kept_compute_us = autoplan->candidates[way].compute_us;
    autoplan->worse = 0;
    autoplan->settled_ns = wring_now_ns();
    autoplan->iterations.due =
        autoplan->iterations.iteration + until_next_look(autoplan, autoplan->kept_us);
    say_result(autoplan);
    if (autoplan->session->rank == 0)
        save_plan(autoplan);
    return status;
}

/* ---- the stages ---- */

static enum wring_status end_record(struct wring_autoplan *autoplan,
                                    const struct wring_autoplan_said *report)
{
    autoplan->n_candidates = 1;
    autoplan->candidates[0] = (struct wring_autoplan_way){.name = "as registered",
                                                          .predicted_us = NAN,
                                                          .measured_us = {report->us},
                                                          .compute_us = report->compute_us,
                                                          .measured = 1};
    enum wring_status status = wring_autoplan_find_ways(autoplan, report->early);
    if (status != WRING_OK && wring_session_check(autoplan->session) == WRING_OK) {
        give_up(autoplan, "no plan could be made");
        return WRING_OK;
    }
    if (status != WRING_OK)
        return status;
    if (autoplan->n_candidates == 1)
        return settle(autoplan, 0);
    autoplan->stage = WRING_AUTOPLAN_TRY;
    return change_to(autoplan, 1);
}

static void say_tried(const struct wring_autoplan *autoplan, double us)
{
    const struct wring_autoplan_way *way = &autoplan->candidates[autoplan->at];
    char predicted[64] = "", tuning[128];

    if (autoplan->session->rank != 0)
        return;
    if (isfinite(way->predicted_us))
        wring_number_print(predicted, sizeof(predicted), ", and %.3f ms were predicted",
                           way->predicted_us / 1e3);
    describe_tuning(way->plan, tuning, sizeof(tuning));
    wring_info(&autoplan->session->log,
               "WRING_PLAN=auto: %s, %" PRIu32 " groups%s: an iteration takes %.3f ms%s", way->name,
               way->plan != NULL ? way->plan->n_groups : autoplan->iterations.n, tuning, us / 1e3,
               predicted);
}

static enum wring_status end_try(struct wring_autoplan *autoplan,
                                 const struct wring_autoplan_said *report)
{
    struct wring_autoplan_way *way = &autoplan->candidates[autoplan->at];
    uint32_t next;

    way->measured_us[way->measured++] = report->us;
    way->compute_us = report->compute_us;
    say_tried(autoplan, report->us);
    return wring_autoplan_choose(autoplan, &next) ? settle(autoplan, next)
                                                  : change_to(autoplan, next);
}

/** Links are not what they were: from the beginning. */
static enum wring_status begin_anew(struct wring_autoplan *autoplan, double us)
{
    if (autoplan->session->rank == 0)
        wring_warn(&autoplan->session->log,
                   "WRING_PLAN=auto: an iteration takes %.3f ms, and took %.3f ms when the plan "
                   "was chosen: exchanges are measured and planned anew",
                   us / 1e3, autoplan->kept_us / 1e3);
    wring_autoplan_forget_ways(autoplan);
    autoplan->stage = WRING_AUTOPLAN_RECORD;
    autoplan->measure = true;
    enum wring_status status = autoplan->session->recommit(autoplan->session);
    wring_iterations_restart(&autoplan->iterations, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    return status;
}

/** What computing takes longer than before is not the links' fault. */
static enum wring_status look(struct wring_autoplan *autoplan,
                              const struct wring_autoplan_said *report)
{
    double more_us =
        report->us - autoplan->kept_us - (report->compute_us - autoplan->kept_compute_us);

    autoplan->worse = fabs(more_us) > CHANGED * autoplan->kept_us ? autoplan->worse + 1 : 0;
    if (autoplan->worse >= LOOKS_WORSE && report->may)
        return begin_anew(autoplan, report->us);
    autoplan->iterations.due =
        autoplan->iterations.iteration +
        (autoplan->worse > 0 ? WRING_ITERATIONS_TIMED : until_next_look(autoplan, report->us));
    return WRING_OK;
}

static enum wring_status go_on(struct wring_autoplan *autoplan,
                               const struct wring_autoplan_said *report)
{
    if (report->busy) { /* somewhere: buckets cannot change their ways, perhaps later */
        autoplan->iterations.due = autoplan->iterations.iteration + WRING_ITERATIONS_TIMED;
        if (++autoplan->busy == BUSY_MAX)
            give_up(autoplan, "something is always under way where an iteration ends");
        return WRING_OK;
    }
    autoplan->busy = 0;
    switch (autoplan->stage) {
    case WRING_AUTOPLAN_RECORD:
        return end_record(autoplan, report);
    case WRING_AUTOPLAN_TRY:
        return end_try(autoplan, report);
    case WRING_AUTOPLAN_KEEP:
        return look(autoplan, report);
    case WRING_AUTOPLAN_OFF:
        return WRING_OK;
    }
    return WRING_OK;
}

enum wring_status wring_autoplan_meet(struct wring_autoplan *autoplan)
{
    struct wring_autoplan_said report;
    enum wring_status status = autoplan_hear(autoplan, &report);

    if (status == WRING_OK)
        return go_on(autoplan, &report);
    if (status != WRING_ERR_MISMATCH)
        return status;
    give_up(autoplan, "ranks do not post their buckets alike");
    return WRING_OK;
}
