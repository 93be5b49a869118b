/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the profile comes from. Rank 0 has it: of the cache, if a few exchanges still take what it
 * says, else of measuring, in which all ranks take part.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/plan/autoplan_missing.h"

#define WRING_MODULE "plan"
#define ROUNDS_MIN 3
#define STILL 2.0 /* times what a kept profile says, or that part of it */

/** What rank 0 wants all to do. */
enum word {
    NOTHING,
    PROBE,
    MEASURE,
    WORDS
};

struct order {
    enum word word;
    struct wring_autoplan_missing missing; /* to be measured, if anything is */
};

/* ---- the profile ---- */

static struct wring_profile *make_profile(const struct wring_autoplan *autoplan)
{
    struct wring_profile *profile = calloc(1, sizeof(*profile));

    if (profile == NULL)
        return NULL;
    snprintf(profile->name, sizeof(profile->name), "this job's");
    snprintf(profile->machine, sizeof(profile->machine), "%s", autoplan->machine.text);
    snprintf(profile->source, sizeof(profile->source), "WRING_PLAN=auto");
    profile->nodes = autoplan->machine.nodes;
    profile->ranks_per_node = autoplan->machine.ranks_per_node;
    profile->chunked = true;
    return profile;
}

/** Rank 0's word is everybody's. */
static enum wring_status hear(struct wring_session *session, struct order *order)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u32(&writer, (uint32_t)order->word);
    wring_autoplan_write_missing(&order->missing, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    struct wring_reader in = wring_blobs_reader(&blobs, 0);
    uint32_t word = wring_read_u32(&in);
    wring_autoplan_read_missing(&in, &order->missing);
    if (in.failed || word >= WORDS)
        status = WRING_ERR_FRAME;
    order->word = (enum word)word;
    wring_blobs_finish(&blobs);
    return status;
}

static void forget(struct wring_autoplan *autoplan)
{
    wring_profile_destroy(autoplan->profile);
    autoplan->profile = NULL;
}

static bool is_anything(const struct wring_autoplan_missing *missing)
{
    return missing->codecs.n > 0 || missing->larger.n > 0;
}

/** In rank 0, at first: what is kept has to be looked at, if anything is. */
static void decide(struct wring_autoplan *autoplan, const struct wring_measure_codecs *codecs,
                   const struct wring_measure_params *params, struct order *order)
{
    const struct wring_measure_codecs *unknown = &order->missing.codecs;

    if (autoplan->measure)
        forget(autoplan);
    else if (autoplan->profile == NULL)
        autoplan->profile = wring_autoplan_load(autoplan);
    wring_autoplan_find_missing(autoplan, codecs, params, &order->missing);
    bool raw = unknown->n == 0 || strcmp(unknown->specs[0], "none") != 0;
    order->word = autoplan->profile != NULL && raw ? PROBE : MEASURE;
}

/** In rank 0, once it is known what a raw exchange takes: is a kept profile still right? */
static void judge(struct wring_autoplan *autoplan, const struct wring_measure_codecs *codecs,
                  const struct wring_measure_params *params, double elems, double us,
                  struct order *order)
{
    const struct wring_session *session = autoplan->session;
    const struct wring_profile_way *kept =
        wring_profile_way(autoplan->profile, "none", "auto", session->size);
    double times = us / wring_cost_at(&kept->solo.us, elems);

    if (times > STILL || times < 1 / STILL) {
        wring_info(&session->log,
                   "WRING_PLAN=auto: links are not what they were: an exchange of %.0f elements "
                   "takes %.2f times what the kept profile says, so all is measured anew",
                   elems, times);
        forget(autoplan);
        wring_autoplan_find_missing(autoplan, codecs, params, &order->missing);
    }
    order->word = is_anything(&order->missing) ? MEASURE : NOTHING;
}

static enum wring_status probe(struct wring_autoplan *autoplan,
                               const struct wring_measure_codecs *codecs,
                               const struct wring_measure_params *params, struct order *order)
{
    double elems, us;
    enum wring_status status = wring_measure_probe(autoplan->session, params, &elems, &us);

    if (status != WRING_OK)
        return status;
    if (autoplan->session->rank == 0)
        judge(autoplan, codecs, params, elems, us, order);
    return hear(autoplan->session, order);
}

/* ---- measuring ---- */

static void say_measured(const struct wring_autoplan *autoplan,
                         const struct wring_autoplan_missing *missing)
{
    char larger[128] = "";

    if (missing->larger.n > 0)
        snprintf(larger, sizeof(larger),
                 ", and what more than %" PRIu64 " elements take, of %" PRIu32
                 " that the kept profile has",
                 wring_measure_size(missing->first), missing->larger.n);
    wring_info(&autoplan->session->log,
               "WRING_PLAN=auto: exchanges were measured in %.0f ms, of %" PRIu32 " codecs%s",
               (double)autoplan->spent_ns / 1e6, missing->codecs.n, larger);
}

/** Codecs that the profile lacks, then sizes that it does. */
static enum wring_status measure_missing(struct wring_autoplan *autoplan,
                                         const struct wring_measure_params *how,
                                         const struct wring_autoplan_missing *missing)
{
    struct wring_measure_params params = *how;
    enum wring_status status = WRING_OK;

    params.codecs = missing->codecs;
    if (missing->codecs.n > 0)
        status = wring_measure_ways(autoplan->session, &params, autoplan->profile, NULL);
    params.codecs = missing->larger;
    params.first = missing->first;
    params.larger = true;
    if (status == WRING_OK && missing->larger.n > 0)
        status = wring_measure_ways(autoplan->session, &params, autoplan->profile, NULL);
    return status;
}

/** What is missing is added to the profile, which rank 0 has. */
static enum wring_status measure(struct wring_autoplan *autoplan,
                                 const struct wring_measure_params *params,
                                 const struct wring_autoplan_missing *missing)
{
    struct wring_session *session = autoplan->session;
    enum wring_status status = WRING_OK;
    uint64_t began_ns = wring_now_ns();

    if (session->rank == 0 && autoplan->profile == NULL) {
        autoplan->profile = make_profile(autoplan);
        status = autoplan->profile != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
    }
    status = wring_session_agree(session, status, "");
    if (status == WRING_OK)
        status = measure_missing(autoplan, params, missing);
    autoplan->spent_ns = wring_now_ns() - began_ns;
    if (status != WRING_OK || session->rank != 0)
        return status;
    status = wring_profile_rehash(autoplan->profile);
    if (status != WRING_OK)
        return status;
    say_measured(autoplan, missing);
    wring_autoplan_save(autoplan);
    return WRING_OK;
}

/* ---- all of it ---- */

/** What all ranks have memory and time for: the least of each. */
static enum wring_status agree_on_limits(struct wring_session *session, uint32_t n_codecs,
                                         struct wring_measure_params *params)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u64(&writer,
                    wring_measure_fit_memory(params->max_elems, n_codecs, params->ranks_per_node));
    wring_write_u64(&writer, params->budget_ns);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < session->size; i++) {
        struct wring_reader in = wring_blobs_reader(&blobs, i);
        uint64_t max_elems = wring_read_u64(&in), budget_ns = wring_read_u64(&in);
        if (in.failed)
            status = WRING_ERR_FRAME;
        params->max_elems = max_elems < params->max_elems ? max_elems : params->max_elems;
        params->budget_ns = budget_ns < params->budget_ns ? budget_ns : params->budget_ns;
    }
    wring_blobs_finish(&blobs);
    return status;
}

static enum wring_status find_profile(struct wring_autoplan *autoplan)
{
    struct wring_session *session = autoplan->session;
    struct wring_measure_params params = {
        .cores = autoplan->machine.cores,
        .ranks_per_node = autoplan->machine.ranks_per_node,
        .budget_ns = session->config.plan_seconds_ns,
        .rounds_min = ROUNDS_MIN,
        .placed = autoplan->tensors[0].bucket->placed,
    };
    struct wring_measure_codecs codecs;
    struct order order = {.word = NOTHING};
    enum wring_status status =
        wring_session_agree(session, wring_autoplan_codecs(session, autoplan, &codecs), NULL);

    for (uint32_t i = 0; i < autoplan->n; i++) /* up to the first size that is as large as all */
        params.max_elems += 4 * autoplan->tensors[i].bucket->elems;
    params.max_elems--;
    if (status == WRING_OK)
        status = agree_on_limits(session, codecs.n + 1, &params);
    if (status == WRING_OK && session->rank == 0)
        decide(autoplan, &codecs, &params, &order);
    if (status == WRING_OK)
        status = hear(session, &order);
    if (status == WRING_OK && order.word == PROBE)
        status = probe(autoplan, &codecs, &params, &order);
    if (status == WRING_OK && order.word == MEASURE)
        status = measure(autoplan, &params, &order.missing);
    return status;
}

enum wring_status wring_autoplan_prepare(struct wring_session *session)
{
    struct wring_autoplan *autoplan = session->autoplan;

    if (autoplan == NULL || (autoplan->known && !autoplan->measure))
        return WRING_OK;
    if (session->size == 1 || autoplan->n == 0) {
        autoplan->stage = WRING_AUTOPLAN_OFF; /* there is nothing to plan */
        return WRING_OK;
    }
    enum wring_status status = wring_job_machine_find(session, &autoplan->machine, NULL);
    if (status == WRING_OK)
        status = find_profile(autoplan);
    autoplan->known = status == WRING_OK;
    autoplan->measure = false;
    return status;
}
