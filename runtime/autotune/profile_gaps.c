/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/autotune/profile_gaps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/autotune/codecs.h"
#include "runtime/autotune/extra_tunings.h"

#define WRING_MODULE "plan"

static void add(struct wring_collective_bench_codecs *codecs, const char *spec)
{
    memcpy(codecs->specs[codecs->n++], spec, WRING_CODEC_SPEC_MAX);
}

/** The largest size that is measured of buckets with so many elements. */
static uint32_t size_of(uint64_t elems)
{
    uint32_t size = 0;

    while (size + 1 < WRING_COLLECTIVE_BENCH_SIZES &&
           wring_collective_bench_size(size + 1) <= elems)
        size++;
    return size;
}

/** Whole codecs that the profile has nothing of. */
static void find_unknown(const struct wring_autoplan *autoplan,
                         const struct wring_collective_bench_codecs *codecs,
                         struct wring_collective_bench_codecs *out)
{
    const struct wring_profile *profile = autoplan->profile;
    uint32_t ranks = autoplan->session->size;
    bool all = profile == NULL || wring_collective_profile_lacks(profile, "none", ranks, false);

    if (all)
        add(out, (const char[WRING_CODEC_SPEC_MAX]){"none"});
    for (uint32_t i = 0; i < codecs->n; i++)
        if (all || wring_collective_profile_lacks(profile, codecs->specs[i], ranks, false))
            add(out, codecs->specs[i]);
}

/** A codec that is known up to a size below the wanted one goes on the list. */
static void look_at_sizes(const struct wring_autoplan *autoplan, const char *spec, uint32_t wanted,
                          struct wring_autoplan_missing *out)
{
    uint64_t known;

    if (wring_collective_bench_has(&out->codecs, spec))
        return;
    wring_collective_profile_round_us(autoplan->profile, spec, autoplan->session->size, 0, &known);
    uint32_t last = size_of(known);
    if (last >= wanted)
        return;
    out->first = out->larger.n == 0 || last < out->first ? last : out->first;
    add(&out->larger, spec);
}

/** Is a round of the listed codecs short enough, from the largest size that all of them know? */
static bool is_affordable(const struct wring_autoplan *autoplan,
                          const struct wring_collective_bench_params *params,
                          const struct wring_autoplan_missing *missing)
{
    double us = 0;
    uint64_t unused;

    for (uint32_t i = 0; i < missing->larger.n; i++)
        us += wring_collective_profile_round_us(autoplan->profile, missing->larger.specs[i],
                                                autoplan->session->size, missing->first, &unused);
    return us <= wring_collective_bench_limit_us(params->budget_ns);
}

void wring_autoplan_find_missing(const struct wring_autoplan *autoplan,
                                 const struct wring_collective_bench_codecs *codecs,
                                 const struct wring_collective_bench_params *params,
                                 struct wring_autoplan_missing *out)
{
    uint32_t wanted = size_of(params->max_elems);

    out->codecs.n = out->larger.n = out->first = 0;
    find_unknown(autoplan, codecs, &out->codecs);
    if (autoplan->profile == NULL)
        return;
    look_at_sizes(autoplan, (const char[WRING_CODEC_SPEC_MAX]){"none"}, wanted, out);
    for (uint32_t i = 0; i < codecs->n; i++)
        look_at_sizes(autoplan, codecs->specs[i], wanted, out);
    if (!is_affordable(autoplan, params, out))
        out->larger.n = 0;
}

/* ---- between ranks ---- */

void wring_autoplan_write_missing(const struct wring_autoplan_missing *missing,
                                  struct wring_writer *out)
{
    wring_autoplan_write_codecs(&missing->codecs, out);
    wring_autoplan_write_codecs(&missing->larger, out);
    wring_write_u32(out, missing->first);
}

void wring_autoplan_read_missing(struct wring_reader *in, struct wring_autoplan_missing *out)
{
    wring_autoplan_read_codecs(in, &out->codecs);
    wring_autoplan_read_codecs(in, &out->larger);
    out->first = wring_read_u32(in);
    if (out->first + 1 >= WRING_COLLECTIVE_BENCH_SIZES)
        in->failed = true;
}

/* ---- measure ---- */

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

/** @param further  tunings that were measured besides */
static void say_measured(const struct wring_autoplan *autoplan,
                         const struct wring_autoplan_missing *missing, uint32_t further)
{
    char larger[128] = "", tunings[64] = "";

    if (missing->larger.n > 0)
        snprintf(larger, sizeof(larger),
                 ", and what more than %" PRIu64 " elements take, of %" PRIu32
                 " that the kept profile has",
                 wring_collective_bench_size(missing->first), missing->larger.n);
    if (further > 0)
        snprintf(tunings, sizeof(tunings), ", and those with %" PRIu32 " further settings",
                 further);
    wring_info(&autoplan->session->log,
               "WRING_PLAN=auto: exchanges were measured in %.0f ms, of %" PRIu32 " codecs%s%s",
               (double)autoplan->spent_ns / 1e6, missing->codecs.n, larger, tunings);
}

/** Codecs that the profile lacks, then sizes that it does. */
static enum wring_status measure_missing(struct wring_autoplan *autoplan,
                                         const struct wring_collective_bench_params *how,
                                         const struct wring_autoplan_missing *missing)
{
    struct wring_collective_bench_params params = *how;
    enum wring_status status = WRING_OK;

    params.codecs = missing->codecs;
    if (missing->codecs.n > 0)
        status = wring_collective_bench_run(autoplan->session, &params, autoplan->profile, NULL);
    params.codecs = missing->larger;
    params.first = missing->first;
    params.larger = true;
    if (status == WRING_OK && missing->larger.n > 0)
        status = wring_collective_bench_run(autoplan->session, &params, autoplan->profile, NULL);
    return status;
}

/** Measure what is missing and add it to rank 0's profile. */
static enum wring_status measure(struct wring_autoplan *autoplan,
                                 const struct wring_collective_bench_params *params,
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

/** In rank 0: the profile has all its collectives again. */
static enum wring_status bring_back(struct wring_autoplan *autoplan)
{
    if (autoplan->session->rank != 0)
        return WRING_OK;
    return wring_profile_bring_back(autoplan->profile, &autoplan->leeway.tuning, &autoplan->aside);
}

/** In rank 0: the profile is whole. */
static enum wring_status end_profile(struct wring_autoplan *autoplan,
                                     const struct wring_autoplan_missing *missing, uint32_t further)
{
    enum wring_status status = wring_profile_rehash(autoplan->profile);

    if (status != WRING_OK)
        return status;
    say_measured(autoplan, missing, further);
    return WRING_OK;
}

enum wring_status wring_autoplan_measure(struct wring_autoplan *autoplan,
                                         const struct wring_collective_bench_codecs *codecs,
                                         const struct wring_collective_bench_params *params,
                                         const struct wring_autoplan_missing *missing,
                                         bool *measured)
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
    status = session->rank == 0 ? end_profile(autoplan, missing, further) : WRING_OK;
    if (status == WRING_OK)
        *measured = true;
    return status;
}
