/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the profile comes from. Rank 0 has it: of the cache, if a few exchanges still take what it
 * says, else of measuring, in which all ranks take part.
 */
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/host.h"
#include "planner/files/machine.h"
#include "runtime/plan/autoplan.h"

#define WRING_MODULE "plan"
#define STILL 2.0 /* times what a kept profile says, or that part of it */

/** What rank 0 wants all to do. */
enum word {
    NOTHING,
    PROBE,
    MEASURE,
    WORDS
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

static bool has_way(const struct wring_autoplan *autoplan, const char *spec, const char *run_as,
                    uint64_t elems)
{
    const struct wring_profile_way *way =
        wring_profile_way(autoplan->profile, spec, run_as, autoplan->session->size);

    return way != NULL && way->max_elems >= elems;
}

/** All that a plan for these buckets asks? What took too long for larger sizes did so then, too. */
static bool is_complete(const struct wring_autoplan *autoplan,
                        const struct wring_measure_params *params)
{
    if (!has_way(autoplan, "none", "auto", 1))
        return false;
    for (uint32_t i = 0; i < params->n_codecs; i++)
        if (!has_way(autoplan, params->codecs[i], "divisible", 1) &&
            !has_way(autoplan, params->codecs[i], "indivisible", 1))
            return false;
    return true;
}

static enum word decide(struct wring_autoplan *autoplan, const struct wring_measure_params *params)
{
    if (autoplan->session->rank != 0)
        return NOTHING;
    if (autoplan->profile == NULL && !autoplan->measure)
        autoplan->profile = wring_autoplan_load(autoplan);
    bool kept = autoplan->profile != NULL && !autoplan->measure && is_complete(autoplan, params);
    return kept ? PROBE : MEASURE;
}

/** Rank 0's word is everybody's. */
static enum wring_status hear(struct wring_session *session, enum word *word)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u32(&writer, (uint32_t)*word);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    struct wring_reader in = wring_blobs_reader(&blobs, 0);
    uint32_t said = wring_read_u32(&in);
    if (in.failed || said >= WORDS)
        status = WRING_ERR_FRAME;
    else
        *word = (enum word)said;
    wring_blobs_finish(&blobs);
    return status;
}

/** Is a kept profile still right? @param word  out: MEASURE if it is not */
static enum wring_status probe(struct wring_autoplan *autoplan,
                               const struct wring_measure_params *params, enum word *word)
{
    struct wring_session *session = autoplan->session;
    struct wring_measure_params few = *params;
    struct wring_profile *now = make_profile(autoplan);
    double worst = 1;

    few.probe = true;
    enum wring_status status =
        wring_session_agree(session, now != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");
    if (status == WRING_OK)
        status = wring_measure_ways(session, &few, now);
    if (status != WRING_OK)
        goto destroy;
    *word = NOTHING;
    if (session->rank == 0) {
        const struct wring_profile_way *kept =
            wring_profile_way(autoplan->profile, "none", "auto", session->size);
        double elems = (double)now->ways[0].max_elems;
        worst = wring_cost_at(&now->ways[0].solo.us, elems) / wring_cost_at(&kept->solo.us, elems);
        *word = worst > STILL || worst < 1 / STILL ? MEASURE : NOTHING;
        if (*word == MEASURE)
            wring_info(
                &session->log,
                "WRING_PLAN=auto: links are not what they were: an exchange of %.0f elements "
                "takes %.2f times what the kept profile says, so all is measured anew",
                elems, worst);
    }
    status = hear(session, word);
destroy:
    wring_profile_destroy(now);
    return status;
}

static enum wring_status measure(struct wring_autoplan *autoplan,
                                 const struct wring_measure_params *params)
{
    struct wring_session *session = autoplan->session;
    uint64_t began_ns = wring_now_ns();

    wring_profile_destroy(autoplan->profile);
    autoplan->profile = make_profile(autoplan);
    enum wring_status status = wring_session_agree(
        session, autoplan->profile != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");
    if (status == WRING_OK)
        status = wring_measure_ways(session, params, autoplan->profile);
    autoplan->spent_ns = wring_now_ns() - began_ns;
    if (status != WRING_OK || session->rank != 0)
        return status;
    wring_info(&session->log, "WRING_PLAN=auto: exchanges were measured in %.0f ms",
               (double)autoplan->spent_ns / 1e6);
    wring_autoplan_save(autoplan);
    return WRING_OK;
}

static enum wring_status find_profile(struct wring_autoplan *autoplan)
{
    struct wring_session *session = autoplan->session;
    struct wring_measure_params params = {
        .cores = autoplan->machine.cores,
        .budget_ns = session->config.plan_seconds_ns,
        .placed = autoplan->tensors[0].bucket->placed,
    };
    enum wring_status status = wring_autoplan_codecs(session, autoplan, &params);

    for (uint32_t i = 0; i < autoplan->n; i++)
        params.max_elems += autoplan->tensors[i].bucket->elems;
    enum word word = decide(autoplan, &params);
    if (status == WRING_OK)
        status = hear(session, &word);
    if (status == WRING_OK && word == PROBE)
        status = probe(autoplan, &params, &word);
    if (status == WRING_OK && word == MEASURE)
        status = measure(autoplan, &params);
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
    enum wring_status status = wring_job_machine_find(session, &autoplan->machine);
    if (status == WRING_OK)
        status = find_profile(autoplan);
    autoplan->known = status == WRING_OK;
    autoplan->measure = false;
    return status;
}
