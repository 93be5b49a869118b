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
static void find_unknown(const struct wring_autotune *autotune,
                         const struct wring_collective_bench_codecs *codecs,
                         struct wring_collective_bench_codecs *out)
{
    const struct wring_profile *profile = autotune->profile;
    uint32_t ranks = autotune->session->size;
    bool all = profile == NULL || wring_collective_profile_lacks(profile, "none", ranks, false);

    if (all)
        add(out, (const char[WRING_CODEC_SPEC_MAX]){"none"});
    for (uint32_t i = 0; i < codecs->n; i++)
        if (all || wring_collective_profile_lacks(profile, codecs->specs[i], ranks, false))
            add(out, codecs->specs[i]);
}

/** A codec that is known up to a size below the wanted one goes on the list. */
static void look_at_sizes(const struct wring_autotune *autotune, const char *spec, uint32_t wanted,
                          struct wring_autotune_profile_gaps *out)
{
    uint64_t known;

    if (wring_collective_bench_has(&out->codecs, spec))
        return;
    wring_collective_profile_round_us(autotune->profile, spec, autotune->session->size, 0, &known);
    uint32_t last = size_of(known);
    if (last >= wanted)
        return;
    out->first = out->larger.n == 0 || last < out->first ? last : out->first;
    add(&out->larger, spec);
}

/** Is a round of the listed codecs short enough, from the largest size that all of them know? */
static bool is_affordable(const struct wring_autotune *autotune,
                          const struct wring_collective_bench_params *params,
                          const struct wring_autotune_profile_gaps *gaps)
{
    double us = 0;
    uint64_t unused;

    for (uint32_t i = 0; i < gaps->larger.n; i++)
        us += wring_collective_profile_round_us(autotune->profile, gaps->larger.specs[i],
                                                autotune->session->size, gaps->first, &unused);
    return us <= wring_collective_bench_limit_us(params->budget_ns);
}

void wring_autotune_find_profile_gaps(const struct wring_autotune *autotune,
                                      const struct wring_collective_bench_codecs *codecs,
                                      const struct wring_collective_bench_params *params,
                                      struct wring_autotune_profile_gaps *out)
{
    uint32_t wanted = size_of(params->max_elems);

    out->codecs.n = out->larger.n = out->first = 0;
    find_unknown(autotune, codecs, &out->codecs);
    if (autotune->profile == NULL)
        return;
    look_at_sizes(autotune, (const char[WRING_CODEC_SPEC_MAX]){"none"}, wanted, out);
    for (uint32_t i = 0; i < codecs->n; i++)
        look_at_sizes(autotune, codecs->specs[i], wanted, out);
    if (!is_affordable(autotune, params, out))
        out->larger.n = 0;
}

/* ---- between ranks ---- */

void wring_autotune_write_profile_gaps(const struct wring_autotune_profile_gaps *gaps,
                                       struct wring_writer *out)
{
    wring_autotune_write_codecs(&gaps->codecs, out);
    wring_autotune_write_codecs(&gaps->larger, out);
    wring_write_u32(out, gaps->first);
}

void wring_autotune_read_profile_gaps(struct wring_reader *in,
                                      struct wring_autotune_profile_gaps *out)
{
    wring_autotune_read_codecs(in, &out->codecs);
    wring_autotune_read_codecs(in, &out->larger);
    out->first = wring_read_u32(in);
    if (out->first + 1 >= WRING_COLLECTIVE_BENCH_SIZES)
        in->failed = true;
}

/* ---- measure ---- */

static struct wring_profile *make_profile(const struct wring_autotune *autotune)
{
    struct wring_profile *profile = calloc(1, sizeof(*profile));

    if (profile == NULL)
        return NULL;
    snprintf(profile->name, sizeof(profile->name), "this job's");
    snprintf(profile->machine, sizeof(profile->machine), "%s", autotune->machine.text);
    snprintf(profile->source, sizeof(profile->source), "WRING_PLAN=auto");
    profile->nodes = autotune->machine.nodes;
    profile->ranks_per_node = autotune->machine.ranks_per_node;
    profile->chunked = true;
    return profile;
}

/** @param further  tunings that were measured besides */
static void say_measured(const struct wring_autotune *autotune,
                         const struct wring_autotune_profile_gaps *gaps, uint32_t extra)
{
    char larger[128] = "", tunings[64] = "";

    if (gaps->larger.n > 0)
        snprintf(larger, sizeof(larger),
                 ", and what more than %" PRIu64 " elements take, of %" PRIu32
                 " that the kept profile has",
                 wring_collective_bench_size(gaps->first), gaps->larger.n);
    if (extra > 0)
        snprintf(tunings, sizeof(tunings), ", and those with %" PRIu32 " further settings", extra);
    wring_info(&autotune->session->log,
               "WRING_PLAN=auto: exchanges were measured in %.0f ms, of %" PRIu32 " codecs%s%s",
               (double)autotune->spent_ns / 1e6, gaps->codecs.n, larger, tunings);
}

/** Codecs that the profile lacks, then sizes that it does. */
static enum wring_status measure_gaps(struct wring_autotune *autotune,
                                      const struct wring_collective_bench_params *how,
                                      const struct wring_autotune_profile_gaps *gaps)
{
    struct wring_collective_bench_params params = *how;
    enum wring_status status = WRING_OK;

    params.codecs = gaps->codecs;
    if (gaps->codecs.n > 0)
        status = wring_collective_bench_run(autotune->session, &params, autotune->profile, NULL);
    params.codecs = gaps->larger;
    params.first = gaps->first;
    params.larger = true;
    if (status == WRING_OK && gaps->larger.n > 0)
        status = wring_collective_bench_run(autotune->session, &params, autotune->profile, NULL);
    return status;
}

/** Measure what is missing and add it to rank 0's profile. */
static enum wring_status measure(struct wring_autotune *autotune,
                                 const struct wring_collective_bench_params *params,
                                 const struct wring_autotune_profile_gaps *gaps)
{
    struct wring_session *session = autotune->session;
    enum wring_status status = WRING_OK;

    if (session->rank == 0 && autotune->profile == NULL) {
        autotune->profile = make_profile(autotune);
        status = autotune->profile != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
    }
    status = wring_session_agree(session, status, "");
    return status == WRING_OK ? measure_gaps(autotune, params, gaps) : status;
}

/** In rank 0: the profile has all its collectives again. */
static enum wring_status bring_back(struct wring_autotune *autotune)
{
    if (autotune->session->rank != 0)
        return WRING_OK;
    return wring_profile_bring_back(autotune->profile, &autotune->tunables.tuning,
                                    &autotune->aside);
}

/** In rank 0: the profile is whole. */
static enum wring_status end_profile(struct wring_autotune *autotune,
                                     const struct wring_autotune_profile_gaps *gaps, uint32_t extra)
{
    enum wring_status status = wring_profile_rehash(autotune->profile);

    if (status != WRING_OK)
        return status;
    say_measured(autotune, gaps, extra);
    return WRING_OK;
}

enum wring_status wring_autotune_measure(struct wring_autotune *autotune,
                                         const struct wring_collective_bench_codecs *codecs,
                                         const struct wring_collective_bench_params *params,
                                         const struct wring_autotune_profile_gaps *gaps,
                                         bool *measured)
{
    struct wring_session *session = autotune->session;
    bool any = gaps->codecs.n > 0 || gaps->larger.n > 0;
    uint64_t began_ns = wring_now_ns();
    uint32_t extra = 0;
    enum wring_status status = any ? measure(autotune, params, gaps) : WRING_OK;

    if (status == WRING_OK)
        status = wring_session_agree(session, bring_back(autotune), "");
    if (status == WRING_OK)
        status = wring_autotune_measure_extra_tunings(autotune, codecs, params, &extra);
    if (status != WRING_OK || (!any && extra == 0))
        return status;
    autotune->spent_ns = wring_now_ns() - began_ns;
    status = session->rank == 0 ? end_profile(autotune, gaps, extra) : WRING_OK;
    if (status == WRING_OK)
        *measured = true;
    return status;
}
