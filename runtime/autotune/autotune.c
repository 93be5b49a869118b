/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the way that is tried next and the one that stays, by measured iteration times. First
 * each way has one look. Unless one wins clearly, those that come near the best have further looks
 * in turn: so other load on the machine slows all alike.
 */
#include "runtime/autotune/autotune.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/core/files/plan.h"

#define WRING_MODULE "plan"
#define NEAR 1.1   /* times as long as the best: is looked at again */
#define CLEAR 0.6  /* of the time without: no machine is so much faster only for a while */
#define WORTH 0.97 /* of the time without, at most: what saves less is not worth a change */

/** A way's time in a look. Way 0, as registered, is favoured: another one must save 3 %. */
static double score_of(const struct wring_autoplan *autoplan, uint32_t way, uint32_t look)
{
    return autoplan->ways[way].measured_us[look] * (way == 0 ? WORTH : 1);
}

/** @return the way that had the least in a look, of those that are in it */
static uint32_t find_best(const struct wring_autoplan *autoplan, uint32_t look)
{
    uint32_t best = autoplan->first;

    for (uint32_t i = best + 1; i < autoplan->n_ways; i++)
        if (autoplan->ways[i].measured > look &&
            score_of(autoplan, i, look) < score_of(autoplan, best, look))
            best = i;
    return best;
}

/** The way's time against that of the first way in turn: the median over the looks of both. */
static double compare(const struct wring_autoplan *autoplan, uint32_t way)
{
    double ratios[WRING_AUTOPLAN_LOOKS];
    uint32_t n = autoplan->ways[way].measured;

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
    while (way < autoplan->n_ways && !is_in_turn(autoplan, way))
        way++;
    return way;
}

/** All ways have had a look: which ones take turns? */
static void begin_turns(struct wring_autoplan *autoplan)
{
    double least_us = autoplan->ways[find_best(autoplan, 0)].measured_us[0];

    autoplan->in_turn = 0;
    for (uint32_t i = 0; i < autoplan->n_ways; i++)
        if (autoplan->ways[i].measured_us[0] <= NEAR * least_us)
            autoplan->in_turn |= 1u << i;
    if (least_us > CLEAR * autoplan->ways[0].measured_us[0])
        autoplan->in_turn |= 1;
    autoplan->first = next_in_turn(autoplan, 0);
}

/** All ways in turn have had as many looks: which one wins? @param agree  out: all looks say so */
static uint32_t find_winner(const struct wring_autoplan *autoplan, bool *agree)
{
    uint32_t winner = autoplan->first, looks = autoplan->ways[winner].measured;

    for (uint32_t i = winner + 1; i < autoplan->n_ways; i++)
        if (is_in_turn(autoplan, i) && compare(autoplan, i) < compare(autoplan, winner))
            winner = i;
    *agree = true;
    for (uint32_t look = 0; look < looks; look++)
        *agree &= find_best(autoplan, look) == winner;
    return winner;
}

bool wring_autoplan_choose(struct wring_autoplan *autoplan, uint32_t *way)
{
    bool agree, first_round = autoplan->ways[autoplan->at].measured == 1;

    *way = first_round ? autoplan->at + 1 : next_in_turn(autoplan, autoplan->at + 1);
    if (*way < autoplan->n_ways)
        return false;
    if (first_round)
        begin_turns(autoplan);
    *way = find_winner(autoplan, &agree);
    if (agree && (!first_round || autoplan->in_turn == 1u << *way))
        return true;
    if (autoplan->ways[*way].measured == WRING_AUTOPLAN_LOOKS)
        return true;
    *way = autoplan->first;
    return false;
}

double wring_autoplan_us(const struct wring_autoplan *autoplan, uint32_t way, double *without_us)
{
    const struct wring_autoplan_way *none = &autoplan->ways[0], *it = &autoplan->ways[way];
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

/* ---- autoplan ---- */

/* A session that plans for itself: its life, and what it says of itself. */

static enum wring_status reached(struct wring_iterations *iterations)
{
    return wring_autoplan_meet(iterations->session->autoplan);
}

enum wring_status wring_autoplan_open(struct wring_session *session)
{
    struct wring_autoplan *autoplan = calloc(1, sizeof(*autoplan));
    struct wring_measure_codecs unused;

    if (autoplan == NULL)
        return WRING_ERR_NO_MEMORY;
    autoplan->session = session;
    wring_iterations_init(&autoplan->iterations, session, reached);
    session->autoplan = autoplan;
    wring_autoplan_note_leeway(autoplan);
    return wring_autoplan_codecs(session, autoplan, &unused);
}

void wring_autoplan_forget_ways(struct wring_autoplan *autoplan)
{
    autoplan->session->plan = NULL;
    for (uint32_t i = 0; i < autoplan->n_ways; i++)
        wring_plan_destroy(autoplan->ways[i].plan);
    autoplan->n_ways = autoplan->at = autoplan->first = autoplan->in_turn = 0;
}

void wring_autoplan_close(struct wring_session *session)
{
    struct wring_autoplan *autoplan = session->autoplan;

    if (autoplan == NULL)
        return;
    wring_autoplan_forget_ways(autoplan);
    wring_iterations_finish(&autoplan->iterations);
    free(autoplan->ready_us);
    wring_autoplan_forget_profile(autoplan);
    free(autoplan);
    session->autoplan = NULL;
}

static enum wring_status list_tensors(struct wring_autoplan *autoplan)
{
    enum wring_status status = wring_iterations_list(&autoplan->iterations);

    free(autoplan->ready_us);
    autoplan->ready_us = calloc(autoplan->iterations.n + 1, sizeof(*autoplan->ready_us));
    return status == WRING_OK && autoplan->ready_us == NULL ? WRING_ERR_NO_MEMORY : status;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static uint64_t hash_tensors(const struct wring_autoplan *autoplan)
{
    const char *codecs = autoplan->session->config.plan_codecs;
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, codecs, strlen(codecs) + 1);

    for (uint32_t i = 0; i < autoplan->iterations.n; i++) {
        const struct wring_bucket *bucket = autoplan->iterations.tensors[i].bucket;
        const char *spec = wring_codec_info(bucket->codec)->spec;
        hash = hash_bytes(hash, bucket->name, strlen(bucket->name) + 1);
        hash = hash_bytes(hash, spec, strlen(spec) + 1);
        hash = hash_bytes(hash, &bucket->elems, sizeof(bucket->elems));
        hash = hash_bytes(hash, &bucket->op, sizeof(bucket->op));
    }
    return hash;
}

enum wring_status wring_autoplan_begin(struct wring_session *session)
{
    struct wring_autoplan *autoplan = session->autoplan;

    if (autoplan == NULL)
        return WRING_OK;
    pthread_mutex_lock(&autoplan->iterations.mutex);
    uint64_t before = autoplan->question;
    enum wring_status status = list_tensors(autoplan);
    autoplan->question = hash_tensors(autoplan);
    bool kept = autoplan->stage == WRING_AUTOPLAN_KEEP && autoplan->question == before;
    if (!kept) {
        wring_autoplan_forget_ways(autoplan);
        autoplan->stage = WRING_AUTOPLAN_RECORD;
        autoplan->iterations.off = false;
        autoplan->measure = false;
        autoplan->known = false;
    }
    wring_iterations_restart(&autoplan->iterations, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    pthread_mutex_unlock(&autoplan->iterations.mutex);
    return status;
}

void wring_autoplan_tell(const struct wring_session *session, struct wring_autoplan_report *out)
{
    struct wring_autoplan *autoplan = session->autoplan;

    *out = (struct wring_autoplan_report){.with_us = NAN, .without_us = NAN, .predicted_us = NAN};
    if (autoplan == NULL)
        return;
    pthread_mutex_lock(&autoplan->iterations.mutex);
    out->settled = autoplan->stage >= WRING_AUTOPLAN_KEEP;
    if (out->settled && autoplan->n_ways > 0) {
        const struct wring_autoplan_way *way = &autoplan->ways[autoplan->at];
        out->planned = way->plan != NULL;
        out->with_us = autoplan->kept_us;
        out->without_us = autoplan->without_us;
        out->predicted_us = way->predicted_us;
        memcpy(out->name, way->name, sizeof(out->name));
        out->groups = way->plan != NULL ? way->plan->n_groups : autoplan->iterations.n;
    }
    pthread_mutex_unlock(&autoplan->iterations.mutex);
}
