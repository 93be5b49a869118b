/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/autoplan_measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/plan/autoplan_further.h"

#define WRING_MODULE "plan"

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

/** @param further  settings that were measured besides */
static void say_measured(const struct wring_autoplan *autoplan,
                         const struct wring_autoplan_missing *missing, uint32_t further)
{
    char larger[128] = "", settings[64] = "";

    if (missing->larger.n > 0)
        snprintf(larger, sizeof(larger),
                 ", and what more than %" PRIu64 " elements take, of %" PRIu32
                 " that the kept profile has",
                 wring_measure_size(missing->first), missing->larger.n);
    if (further > 0)
        snprintf(settings, sizeof(settings), ", and those with %" PRIu32 " further settings",
                 further);
    wring_info(&autoplan->session->log,
               "WRING_PLAN=auto: exchanges were measured in %.0f ms, of %" PRIu32 " codecs%s%s",
               (double)autoplan->spent_ns / 1e6, missing->codecs.n, larger, settings);
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

    if (session->rank == 0 && autoplan->profile == NULL) {
        autoplan->profile = make_profile(autoplan);
        status = autoplan->profile != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
    }
    status = wring_session_agree(session, status, "");
    return status == WRING_OK ? measure_missing(autoplan, params, missing) : status;
}

/** In rank 0: the profile has all its ways again. */
static enum wring_status bring_back(struct wring_autoplan *autoplan)
{
    if (autoplan->session->rank != 0)
        return WRING_OK;
    return wring_profile_bring_back(autoplan->profile, &autoplan->leeway.setting, &autoplan->aside);
}

/** In rank 0: for this job, and for others. */
static enum wring_status keep(struct wring_autoplan *autoplan,
                              const struct wring_autoplan_missing *missing, uint32_t further)
{
    enum wring_status status = wring_profile_rehash(autoplan->profile);

    if (status != WRING_OK)
        return status;
    say_measured(autoplan, missing, further);
    wring_autoplan_save(autoplan);
    return WRING_OK;
}

enum wring_status wring_autoplan_measure(struct wring_autoplan *autoplan,
                                         const struct wring_measure_codecs *codecs,
                                         const struct wring_measure_params *params,
                                         const struct wring_autoplan_missing *missing)
{
    struct wring_session *session = autoplan->session;
    bool any = missing->codecs.n > 0 || missing->larger.n > 0;
    uint64_t began_ns = wring_now_ns();
    uint32_t further = 0;
    enum wring_status status = any ? measure(autoplan, params, missing) : WRING_OK;

    if (status == WRING_OK)
        status = wring_session_agree(session, bring_back(autoplan), "");
    if (status == WRING_OK)
        status = wring_autoplan_measure_further(autoplan, codecs, params, &further);
    if (status != WRING_OK || (!any && further == 0))
        return status;
    autoplan->spent_ns = wring_now_ns() - began_ns;
    return session->rank == 0 ? keep(autoplan, missing, further) : WRING_OK;
}
