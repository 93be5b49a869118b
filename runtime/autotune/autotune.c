/* SPDX-License-Identifier: Apache-2.0 */
/* A session that plans for itself: its life, and what it says of itself. */
#include "runtime/autotune/autotune.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/parse.h"
#include "planner/core/files/plan.h"
#include "runtime/autotune/codecs.h"
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

/** Would buckets that change their options now do so under somebody's hands? */
static bool is_any_under_way(const struct wring_autotune *autotune)
{
    struct wring_session *session = autotune->session;
    bool busy = false;

    for (uint32_t i = 0; i < autotune->iterations.n; i++)
        busy |= autotune->iterations.tensors[i].pending; /* somebody may be about to wait for it */
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
static bool may_replan(const struct wring_autotune *autotune)
{
    return wring_now_ns() - autotune->settled_ns > REPLAN_SHARE * autotune->spent_ns;
}

static void write_report(struct wring_autotune *autotune, struct wring_writer *out)
{
    wring_write_u32(out, autotune->stage);
    wring_write_u32(out, autotune->at);
    wring_write_u32(out, is_any_under_way(autotune));
    wring_write_u32(out, autotune->iterations.early);
    wring_write_u32(out, may_replan(autotune));
    write_number(out,
                 wring_iterations_median(autotune->iterations.took_us, WRING_ITERATIONS_TIMED));
    write_number(out,
                 wring_iterations_median(autotune->iterations.compute_us, WRING_ITERATIONS_TIMED));
    wring_write_u32(out, autotune->iterations.n);
    for (uint32_t i = 0; i < autotune->iterations.n; i++)
        write_number(out, wring_iterations_median(autotune->iterations.tensors[i].ready_us,
                                                  WRING_ITERATIONS_TIMED));
}

/** The slowest rank's. @return false: not what it should be */
static bool read_report(struct wring_autotune *autotune, struct wring_reader in, bool is_root,
                        struct wring_autotune_rank_report *all)
{
    uint32_t stage = wring_read_u32(&in), at = wring_read_u32(&in);
    uint32_t busy = wring_read_u32(&in), early = wring_read_u32(&in), may = wring_read_u32(&in);

    all->busy |= busy;
    all->early |= early;
    all->may |= is_root ? may : 0;
    all->us = fmax(all->us, read_number(&in));
    all->compute_us = fmax(all->compute_us, read_number(&in));
    if (wring_read_u32(&in) != autotune->iterations.n)
        return false;
    for (uint32_t i = 0; i < autotune->iterations.n && !in.failed; i++)
        autotune->ready_us[i] = fmax(autotune->ready_us[i], read_number(&in));
    return stage == all->stage && at == all->at && !in.failed;
}

/**
 * Tell the others and hear them; the same comes out on all ranks, and autotune->ready_us with it.
 *
 * Errors: WRING_ERR_MISMATCH (ranks are not at the same place), those of exchanges.
 */
static enum wring_status exchange_reports(struct wring_autotune *autotune,
                                          struct wring_autotune_rank_report *all)
{
    struct wring_session *session = autotune->session;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    *all = (struct wring_autotune_rank_report){.stage = autotune->stage, .at = autotune->at};
    memset(autotune->ready_us, 0, autotune->iterations.n * sizeof(*autotune->ready_us));
    write_report(autotune, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < session->size; i++)
        if (!read_report(autotune, wring_blobs_reader(&blobs, i), i == 0, all))
            status = WRING_ERR_MISMATCH;
    wring_blobs_finish(&blobs);
    return status;
}

/* ---- choose ---- */

/*
 * The candidate that is tried next and the one that stays, by measured iteration times. First each
 * candidate has one look. Unless one wins clearly, those that come near the best have further looks
 * in turn: so other load on the machine slows all alike.
 */

#define NEAR 1.1   /* times as long as the best: is looked at again */
#define CLEAR 0.6  /* of the time without: no machine is so much faster only for a while */
#define WORTH 0.97 /* of the time without, at most: what saves less is not worth a change */

/** A candidate's time in a look. Candidate 0, as registered, is favoured: another one must save 3
 * %. */
static double candidate_score(const struct wring_autotune *autotune, uint32_t candidate,
                              uint32_t look)
{
    return autotune->candidates[candidate].measured_us[look] * (candidate == 0 ? WORTH : 1);
}

/** @return the candidate that had the least in a look, of those that are in it */
static uint32_t find_best(const struct wring_autotune *autotune, uint32_t look)
{
    uint32_t best = autotune->first;

    for (uint32_t i = best + 1; i < autotune->n_candidates; i++)
        if (autotune->candidates[i].measured > look &&
            candidate_score(autotune, i, look) < candidate_score(autotune, best, look))
            best = i;
    return best;
}

/** The candidate's time against that of the first candidate in turn: the median over the looks of
 * both. */
static double median_ratio_to_first(const struct wring_autotune *autotune, uint32_t candidate)
{
    double ratios[WRING_AUTOTUNE_LOOKS];
    uint32_t n = autotune->candidates[candidate].measured;

    for (uint32_t i = 0; i < n; i++)
        ratios[i] =
            candidate_score(autotune, candidate, i) / candidate_score(autotune, autotune->first, i);
    return wring_iterations_median(ratios, n);
}

static bool is_in_turn(const struct wring_autotune *autotune, uint32_t candidate)
{
    return autotune->in_turn >> candidate & 1;
}

/** @return the next candidate in turn, from this one on; n_candidates: there is none */
static uint32_t next_in_turn(const struct wring_autotune *autotune, uint32_t candidate)
{
    while (candidate < autotune->n_candidates && !is_in_turn(autotune, candidate))
        candidate++;
    return candidate;
}

/** All candidates have had a look: which ones take turns? */
static void begin_turns(struct wring_autotune *autotune)
{
    double least_us = autotune->candidates[find_best(autotune, 0)].measured_us[0];

    autotune->in_turn = 0;
    for (uint32_t i = 0; i < autotune->n_candidates; i++)
        if (autotune->candidates[i].measured_us[0] <= NEAR * least_us)
            autotune->in_turn |= 1u << i;
    if (least_us > CLEAR * autotune->candidates[0].measured_us[0])
        autotune->in_turn |= 1;
    autotune->first = next_in_turn(autotune, 0);
}

/** All candidates in turn have had as many looks: which one wins? @param agree  out: all looks say
 * so */
static uint32_t find_winner(const struct wring_autotune *autotune, bool *agree)
{
    uint32_t winner = autotune->first, looks = autotune->candidates[winner].measured;

    for (uint32_t i = winner + 1; i < autotune->n_candidates; i++)
        if (is_in_turn(autotune, i) &&
            median_ratio_to_first(autotune, i) < median_ratio_to_first(autotune, winner))
            winner = i;
    *agree = true;
    for (uint32_t look = 0; look < looks; look++)
        *agree &= find_best(autotune, look) == winner;
    return winner;
}

bool wring_autotune_choose(struct wring_autotune *autotune, uint32_t *candidate)
{
    bool agree, first_turn = autotune->candidates[autotune->at].measured == 1;

    *candidate = first_turn ? autotune->at + 1 : next_in_turn(autotune, autotune->at + 1);
    if (*candidate < autotune->n_candidates)
        return false;
    if (first_turn)
        begin_turns(autotune);
    *candidate = find_winner(autotune, &agree);
    if (agree && (!first_turn || autotune->in_turn == 1u << *candidate))
        return true;
    if (autotune->candidates[*candidate].measured == WRING_AUTOTUNE_LOOKS)
        return true;
    *candidate = autotune->first;
    return false;
}

/** An iteration's time in a candidate, from one look for all. It is the look with the median ratio
 * to the time as registered, or the later one of two. @param without_us  out: the time as
 * registered, then
 */
static double kept_iteration_us(const struct wring_autotune *autotune, uint32_t candidate,
                                double *without_us)
{
    const struct wring_autotune_candidate *none = &autotune->candidates[0],
                                          *it = &autotune->candidates[candidate];
    uint32_t looks = it->measured < none->measured ? it->measured : none->measured;
    uint32_t look = looks - 1;
    double ratios[WRING_AUTOTUNE_LOOKS] = {0};

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

/** Destroy the plans of all candidates. The session has none, and buckets travel as registered. */
static void forget_candidates(struct wring_autotune *autotune)
{
    autotune->session->plan = NULL;
    for (uint32_t i = 0; i < autotune->n_candidates; i++)
        wring_plan_destroy(autotune->candidates[i].plan);
    autotune->n_candidates = autotune->at = autotune->first = autotune->in_turn = 0;
}

/* ---- changing options ---- */

/** Nothing more is tried; buckets travel as they do now. */
static void give_up(struct wring_autotune *autotune, const char *why)
{
    autotune->stage = WRING_AUTOTUNE_OFF;
    autotune->iterations.off = true;
    if (autotune->session->rank == 0)
        wring_warn(&autotune->session->log, "WRING_PLAN=auto gives up: %s", why);
}

static enum wring_status change_to_candidate(struct wring_autotune *autotune, uint32_t candidate)
{
    struct wring_session *session = autotune->session;

    autotune->at = candidate;
    session->plan = autotune->candidates[candidate].plan;
    enum wring_status status = session->recommit(session);
    if (status != WRING_OK && session->plan != NULL && wring_session_check(session) == WRING_OK) {
        give_up(autotune, "a plan cannot be run; buckets travel as registered");
        autotune->at = 0;
        session->plan = NULL;
        status = session->recommit(session);
    }
    wring_iterations_restart(&autotune->iterations, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    return status;
}

/** How many iterations until the next look; the same on all ranks. */
static uint64_t until_next_look(const struct wring_autotune *autotune, double us)
{
    double every_us = (double)autotune->session->config.plan_every_ns / 1e3;
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

static void say_none(const struct wring_autotune *autotune)
{
    double without_us, us = kept_iteration_us(autotune, 1, &without_us);
    const char *name = autotune->candidates[1].name;

    for (uint32_t i = 2; i < autotune->n_candidates; i++) {
        double none_us, so_us = kept_iteration_us(autotune, i, &none_us);
        if (so_us / none_us >= us / without_us)
            continue;
        us = so_us;
        without_us = none_us;
        name = autotune->candidates[i].name;
    }
    wring_warn(&autotune->session->log,
               "WRING_PLAN=auto: no plan is clearly faster: with the best one (%s) an iteration "
               "took %.3f ms, without %.3f ms; buckets travel as registered again",
               name, us / 1e3, without_us / 1e3);
}

static void say_result(const struct wring_autotune *autotune)
{
    const struct wring_autotune_candidate *candidate = &autotune->candidates[autotune->at];
    const struct wring_log *log = &autotune->session->log;
    char tuning[128];

    if (autotune->session->rank != 0)
        return;
    if (autotune->n_candidates == 1) {
        wring_info(log, "WRING_PLAN=auto: there is no plan to try; buckets travel as registered");
        return;
    }
    if (candidate->plan == NULL) {
        say_none(autotune);
        return;
    }
    describe_tuning(candidate->plan, tuning, sizeof(tuning));
    wring_info(log,
               "WRING_PLAN=auto: %s is kept, %" PRIu32 " groups of %" PRIu32
               " buckets%s: an iteration takes %.3f ms with it, %.3f ms without, and %.3f ms were "
               "predicted",
               candidate->name, candidate->plan->n_groups, autotune->iterations.n, tuning,
               autotune->kept_us / 1e3, autotune->without_us / 1e3, candidate->predicted_us / 1e3);
    if (fabs(candidate->predicted_us - autotune->kept_us) > CHANGED * autotune->kept_us)
        wring_warn(log,
                   "WRING_PLAN=auto: the prediction is off by %+.0f %%: the profile does not tell "
                   "what this job's iterations take",
                   (candidate->predicted_us / autotune->kept_us - 1) * 100);
}

static bool write_plan(const struct wring_plan *plan, const char *path)
{
    struct wring_atomic_file draft;

    return wring_atomic_file_open(&draft, path, 0644) &&
           wring_atomic_file_close(&draft, path, wring_plan_save(plan, draft.file) == WRING_OK);
}

/** In rank 0: write the plan that is kept to where WRING_PLAN_SAVE says; says what came of it. */
static void save_plan(const struct wring_autotune *autotune)
{
    const struct wring_plan *plan = autotune->candidates[autotune->at].plan;
    const struct wring_log *log = &autotune->session->log;
    const char *path = autotune->session->config.plan_save;

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
static enum wring_status keep_candidate(struct wring_autotune *autotune, uint32_t candidate)
{
    enum wring_status status =
        candidate != autotune->at ? change_to_candidate(autotune, candidate) : WRING_OK;

    if (autotune->stage == WRING_AUTOTUNE_OFF)
        return status;
    autotune->stage = WRING_AUTOTUNE_KEEP;
    autotune->kept_us = kept_iteration_us(autotune, candidate, &autotune->without_us);
    autotune->kept_compute_us = autotune->candidates[candidate].compute_us;
    autotune->worse = 0;
    autotune->settled_ns = wring_now_ns();
    autotune->iterations.due =
        autotune->iterations.iteration + until_next_look(autotune, autotune->kept_us);
    say_result(autotune);
    if (autotune->session->rank == 0)
        save_plan(autotune);
    return status;
}

/* ---- the stages ---- */

static enum wring_status end_record(struct wring_autotune *autotune,
                                    const struct wring_autotune_rank_report *report)
{
    autotune->n_candidates = 1;
    autotune->candidates[0] = (struct wring_autotune_candidate){.name = "as registered",
                                                                .predicted_us = NAN,
                                                                .measured_us = {report->us},
                                                                .compute_us = report->compute_us,
                                                                .measured = 1};
    enum wring_status status = wring_autotune_find_candidates(autotune, report->early);
    if (status != WRING_OK && wring_session_check(autotune->session) == WRING_OK) {
        give_up(autotune, "no plan could be made");
        return WRING_OK;
    }
    if (status != WRING_OK)
        return status;
    if (autotune->n_candidates == 1)
        return keep_candidate(autotune, 0);
    autotune->stage = WRING_AUTOTUNE_TRY;
    return change_to_candidate(autotune, 1);
}

static void say_tried(const struct wring_autotune *autotune, double us)
{
    const struct wring_autotune_candidate *candidate = &autotune->candidates[autotune->at];
    char predicted[64] = "", tuning[128];

    if (autotune->session->rank != 0)
        return;
    if (isfinite(candidate->predicted_us))
        wring_number_print(predicted, sizeof(predicted), ", and %.3f ms were predicted",
                           candidate->predicted_us / 1e3);
    describe_tuning(candidate->plan, tuning, sizeof(tuning));
    wring_info(&autotune->session->log,
               "WRING_PLAN=auto: %s, %" PRIu32 " groups%s: an iteration takes %.3f ms%s",
               candidate->name,
               candidate->plan != NULL ? candidate->plan->n_groups : autotune->iterations.n, tuning,
               us / 1e3, predicted);
}

static enum wring_status end_look_of_candidate(struct wring_autotune *autotune,
                                               const struct wring_autotune_rank_report *report)
{
    struct wring_autotune_candidate *candidate = &autotune->candidates[autotune->at];
    uint32_t next;

    candidate->measured_us[candidate->measured++] = report->us;
    candidate->compute_us = report->compute_us;
    say_tried(autotune, report->us);
    return wring_autotune_choose(autotune, &next) ? keep_candidate(autotune, next)
                                                  : change_to_candidate(autotune, next);
}

/** Links are not what they were: from the beginning. */
static enum wring_status measure_links_anew(struct wring_autotune *autotune, double us)
{
    if (autotune->session->rank == 0)
        wring_warn(&autotune->session->log,
                   "WRING_PLAN=auto: an iteration takes %.3f ms, and took %.3f ms when the plan "
                   "was chosen: collectives are measured and planned anew",
                   us / 1e3, autotune->kept_us / 1e3);
    forget_candidates(autotune);
    autotune->stage = WRING_AUTOTUNE_RECORD;
    autotune->measure = true;
    enum wring_status status = autotune->session->recommit(autotune->session);
    wring_iterations_restart(&autotune->iterations, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    return status;
}

/** What computing takes longer than before is not the links' fault. */
static enum wring_status judge_look(struct wring_autotune *autotune,
                                    const struct wring_autotune_rank_report *report)
{
    double more_us =
        report->us - autotune->kept_us - (report->compute_us - autotune->kept_compute_us);

    autotune->worse = fabs(more_us) > CHANGED * autotune->kept_us ? autotune->worse + 1 : 0;
    if (autotune->worse >= LOOKS_WORSE && report->may)
        return measure_links_anew(autotune, report->us);
    autotune->iterations.due =
        autotune->iterations.iteration +
        (autotune->worse > 0 ? WRING_ITERATIONS_TIMED : until_next_look(autotune, report->us));
    return WRING_OK;
}

static enum wring_status go_on_by_stage(struct wring_autotune *autotune,
                                        const struct wring_autotune_rank_report *report)
{
    if (report->busy) { /* somewhere: buckets cannot change their options, perhaps later */
        autotune->iterations.due = autotune->iterations.iteration + WRING_ITERATIONS_TIMED;
        if (++autotune->busy == BUSY_MAX)
            give_up(autotune, "something is always under way where an iteration ends");
        return WRING_OK;
    }
    autotune->busy = 0;
    switch (autotune->stage) {
    case WRING_AUTOTUNE_RECORD:
        return end_record(autotune, report);
    case WRING_AUTOTUNE_TRY:
        return end_look_of_candidate(autotune, report);
    case WRING_AUTOTUNE_KEEP:
        return judge_look(autotune, report);
    case WRING_AUTOTUNE_OFF:
        return WRING_OK;
    }
    return WRING_OK;
}

/** Ranks meet at an iteration's end. Under the mutex. */
static enum wring_status reach_consensus(struct wring_autotune *autotune)
{
    struct wring_autotune_rank_report report;
    enum wring_status status = exchange_reports(autotune, &report);

    if (status == WRING_OK)
        return go_on_by_stage(autotune, &report);
    if (status != WRING_ERR_MISMATCH)
        return status;
    give_up(autotune, "ranks do not post their buckets alike");
    return WRING_OK;
}

/* ---- the session's plan ---- */

static enum wring_status on_iterations_due(struct wring_iterations *iterations)
{
    return reach_consensus(iterations->session->autotune);
}

/** What the session was opened with. */
static void note_configured_tuning(struct wring_autotune *autotune)
{
    const struct wring_config *config = &autotune->session->config;
    struct wring_autotune_tunables *tunables = &autotune->tunables;

    *tunables = (struct wring_autotune_tunables){.chunk_bytes = config->chunk_bytes};
    memcpy(tunables->executor, config->executor, sizeof(tunables->executor));
}

enum wring_status wring_autotune_open(struct wring_session *session)
{
    struct wring_autotune *autotune = calloc(1, sizeof(*autotune));
    struct wring_collective_bench_codecs unused;

    if (autotune == NULL)
        return WRING_ERR_NO_MEMORY;
    autotune->session = session;
    wring_iterations_init(&autotune->iterations, session, on_iterations_due);
    session->autotune = autotune;
    note_configured_tuning(autotune);
    return wring_autotune_codecs(session, autotune, &unused);
}

void wring_autotune_close(struct wring_session *session)
{
    struct wring_autotune *autotune = session->autotune;

    if (autotune == NULL)
        return;
    forget_candidates(autotune);
    wring_iterations_finish(&autotune->iterations);
    free(autotune->ready_us);
    wring_autotune_forget_profile(autotune);
    free(autotune);
    session->autotune = NULL;
}

static enum wring_status renew_tensors(struct wring_autotune *autotune)
{
    enum wring_status status = wring_iterations_list(&autotune->iterations, true);

    free(autotune->ready_us);
    autotune->ready_us = calloc(autotune->iterations.n + 1, sizeof(*autotune->ready_us));
    return status == WRING_OK && autotune->ready_us == NULL ? WRING_ERR_NO_MEMORY : status;
}

static uint64_t hash_tensors(const struct wring_autotune *autotune)
{
    const char *codecs = autotune->session->config.plan_codecs;
    uint64_t hash = wring_fnv64(WRING_FNV64, codecs, strlen(codecs) + 1);

    for (uint32_t i = 0; i < autotune->iterations.n; i++) {
        const struct wring_bucket *bucket = autotune->iterations.tensors[i].bucket;
        const char *spec = wring_codec_info(bucket->codec)->spec;
        hash = wring_fnv64(hash, bucket->name, strlen(bucket->name) + 1);
        hash = wring_fnv64(hash, spec, strlen(spec) + 1);
        hash = wring_fnv64(hash, &bucket->elems, sizeof(bucket->elems));
        hash = wring_fnv64(hash, &bucket->op, sizeof(bucket->op));
        hash = wring_fnv64(hash, &bucket->dtype, sizeof(bucket->dtype));
    }
    return hash;
}

enum wring_status wring_autotune_begin(struct wring_session *session)
{
    struct wring_autotune *autotune = session->autotune;

    if (autotune == NULL)
        return WRING_OK;
    pthread_mutex_lock(&autotune->iterations.mutex);
    uint64_t before = autotune->tensors_hash;
    enum wring_status status = renew_tensors(autotune);
    autotune->tensors_hash = hash_tensors(autotune);
    bool kept = autotune->stage == WRING_AUTOTUNE_KEEP && autotune->tensors_hash == before;
    if (!kept) {
        forget_candidates(autotune);
        autotune->stage = WRING_AUTOTUNE_RECORD;
        autotune->iterations.off = false;
        autotune->measure = false;
        autotune->known = false;
    }
    wring_iterations_restart(&autotune->iterations, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    pthread_mutex_unlock(&autotune->iterations.mutex);
    return status;
}

void wring_autotune_tell(const struct wring_session *session, struct wring_autotune_report *out)
{
    struct wring_autotune *autotune = session->autotune;

    *out = (struct wring_autotune_report){.with_us = NAN, .without_us = NAN, .predicted_us = NAN};
    if (autotune == NULL)
        return;
    pthread_mutex_lock(&autotune->iterations.mutex);
    out->settled = autotune->stage >= WRING_AUTOTUNE_KEEP;
    if (out->settled && autotune->n_candidates > 0) {
        const struct wring_autotune_candidate *candidate = &autotune->candidates[autotune->at];
        out->planned = candidate->plan != NULL;
        out->with_us = autotune->kept_us;
        out->without_us = autotune->without_us;
        out->predicted_us = candidate->predicted_us;
        memcpy(out->name, candidate->name, sizeof(out->name));
        out->groups = candidate->plan != NULL ? candidate->plan->n_groups : autotune->iterations.n;
    }
    pthread_mutex_unlock(&autotune->iterations.mutex);
}
