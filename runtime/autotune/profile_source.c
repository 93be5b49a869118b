/* SPDX-License-Identifier: Apache-2.0 */
/* The profile of a job: from the cache, which has one for each machine, way of starting and
 * version, else measured. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "planner/core/files/plan.h"
#include "runtime/autotune/autotune.h"
#include "runtime/autotune/codecs.h"
#include "runtime/autotune/extra_tunings.h"
#include "runtime/autotune/profile_gaps.h"

#define WRING_MODULE "plan"

static void add_codec_spec(struct wring_collective_bench_codecs *codecs, const char *spec)
{
    memcpy(codecs->specs[codecs->n++], spec, WRING_CODEC_SPEC_MAX);
}

/** The largest size that is measured of buckets with so many elements. */
static uint32_t largest_size_index(uint64_t elems)
{
    uint32_t size = 0;

    while (size + 1 < WRING_COLLECTIVE_BENCH_SIZES &&
           wring_collective_bench_size(size + 1) <= elems)
        size++;
    return size;
}

/** Whole codecs that the profile has nothing of. */
static void find_unknown_codecs(const struct wring_autotune *autotune,
                                const struct wring_collective_bench_codecs *codecs,
                                struct wring_collective_bench_codecs *out)
{
    const struct wring_profile *profile = autotune->profile;
    uint32_t ranks = autotune->session->size;
    bool all = profile == NULL || wring_collective_profile_lacks(profile, "none", ranks, false);

    if (all)
        add_codec_spec(out, (const char[WRING_CODEC_SPEC_MAX]){"none"});
    for (uint32_t i = 0; i < codecs->n; i++)
        if (all || wring_collective_profile_lacks(profile, codecs->specs[i], ranks, false))
            add_codec_spec(out, codecs->specs[i]);
}

/** A codec that is known up to a size below the wanted one goes on the list. */
static void add_lacking_sizes(const struct wring_autotune *autotune, const char *spec,
                              uint32_t wanted, struct wring_autotune_profile_gaps *out)
{
    uint64_t known;

    if (wring_collective_bench_has(&out->codecs, spec))
        return;
    wring_collective_profile_turn_us(autotune->profile, spec, autotune->session->size, 0, &known);
    uint32_t last = largest_size_index(known);
    if (last >= wanted)
        return;
    out->first = out->larger.n == 0 || last < out->first ? last : out->first;
    add_codec_spec(&out->larger, spec);
}

/** Is a turn of the listed codecs short enough, from the largest size that all of them know? */
static bool is_affordable(const struct wring_autotune *autotune,
                          const struct wring_collective_bench_params *params,
                          const struct wring_autotune_profile_gaps *gaps)
{
    double us = 0;
    uint64_t unused;

    for (uint32_t i = 0; i < gaps->larger.n; i++)
        us += wring_collective_profile_turn_us(autotune->profile, gaps->larger.specs[i],
                                               autotune->session->size, gaps->first, &unused);
    return us <= wring_collective_bench_limit_us(params->budget_ns);
}

/**
 * Find it, in rank 0, whose profile has nothing but collectives of the configured tuning.
 *
 * Larger buckets are worth measuring as far as groups of this job may have so many elements, and
 * where a turn of them takes no longer than measuring lets one take: what was left out for its
 * time is not missing.
 *
 * @param codecs  that may be used beside none
 * @param params  how it would be measured: max_elems, budget_ns
 * @param out     no codec, where nothing is missing; without a profile all codecs, and none
 */
static void find_profile_gaps(const struct wring_autotune *autotune,
                              const struct wring_collective_bench_codecs *codecs,
                              const struct wring_collective_bench_params *params,
                              struct wring_autotune_profile_gaps *out)
{
    uint32_t wanted = largest_size_index(params->max_elems);

    out->codecs.n = out->larger.n = out->first = 0;
    find_unknown_codecs(autotune, codecs, &out->codecs);
    if (autotune->profile == NULL)
        return;
    add_lacking_sizes(autotune, (const char[WRING_CODEC_SPEC_MAX]){"none"}, wanted, out);
    for (uint32_t i = 0; i < codecs->n; i++)
        add_lacking_sizes(autotune, codecs->specs[i], wanted, out);
    if (!is_affordable(autotune, params, out))
        out->larger.n = 0;
}

/* ---- between ranks ---- */

static void write_profile_gaps(const struct wring_autotune_profile_gaps *gaps,
                               struct wring_writer *out)
{
    wring_autotune_write_codecs(&gaps->codecs, out);
    wring_autotune_write_codecs(&gaps->larger, out);
    wring_write_u32(out, gaps->first);
}

/** Say it to the other ranks, or hear it. Errors: as reading fails, in->failed. */
static void read_profile_gaps(struct wring_reader *in, struct wring_autotune_profile_gaps *out)
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
        snprintf(tunings, sizeof(tunings), ", and those with %" PRIu32 " further tunings", extra);
    wring_info(&autotune->session->log,
               "WRING_PLAN=auto: collectives were measured in %.0f ms, of %" PRIu32 " codecs%s%s",
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
static enum wring_status measure_into_profile(struct wring_autotune *autotune,
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
static enum wring_status restore_collectives(struct wring_autotune *autotune)
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

/**
 * Measure what is missing with the session as configured, and then other tunings that are worth
 * it. All of it is added to rank 0's profile. Collective. Before it the profile has collectives of
 * the configured tuning alone, and afterwards all.
 *
 * @param codecs   that may be used beside none
 * @param missing  nothing, where the profile lacks nothing of the configured tuning; without a
 *                 profile there is one then
 * @param measured out, true if anything was, and the profile is another one than before
 * Errors: those of measuring, and WRING_ERR_NO_MEMORY.
 */
static enum wring_status autotune_measure(struct wring_autotune *autotune,
                                          const struct wring_collective_bench_codecs *codecs,
                                          const struct wring_collective_bench_params *params,
                                          const struct wring_autotune_profile_gaps *gaps,
                                          bool *measured)
{
    struct wring_session *session = autotune->session;
    bool any = gaps->codecs.n > 0 || gaps->larger.n > 0;
    uint64_t began_ns = wring_now_ns();
    uint32_t extra = 0;
    enum wring_status status = any ? measure_into_profile(autotune, params, gaps) : WRING_OK;

    if (status == WRING_OK)
        status = wring_session_agree(session, restore_collectives(autotune), "");
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

/* ---- where the profile comes from ---- */

#define PATH_BYTES 4096

/** The folder. @return false: nothing is kept */
static bool name_cache_folder(const struct wring_config *config, char *path, size_t bytes)
{
    const char *xdg = wring_config_foreign("XDG_CACHE_HOME"), *home = wring_config_foreign("HOME");

    if (strcmp(config->cache, "off") == 0)
        return false;
    if (config->cache[0] != '\0')
        return (size_t)snprintf(path, bytes, "%s", config->cache) < bytes;
    if (xdg != NULL && xdg[0] == '/')
        return (size_t)snprintf(path, bytes, "%s/wring", xdg) < bytes;
    return home != NULL && home[0] == '/' &&
           (size_t)snprintf(path, bytes, "%s/.cache/wring", home) < bytes;
}

/** A file's name tells machines apart, and how codecs run and pieces are cut as configured; what is
 *  in it is compared again. */
static bool name_cache_file(const struct wring_autotune *autotune, char *path, size_t bytes)
{
    const struct wring_autotune_tunables *tunables = &autotune->tunables;
    char folder[PATH_BYTES], text[sizeof(autotune->machine.text) + WRING_CONFIG_TEXT + 32];

    snprintf(text, sizeof(text), "%s, %s, %" PRIu64, autotune->machine.text, tunables->executor,
             tunables->chunk_bytes);
    uint64_t hash = wring_fnv64(WRING_FNV64, text, strlen(text));
    return name_cache_folder(&autotune->session->config, folder, sizeof(folder)) &&
           (size_t)snprintf(path, bytes, "%s/profile-%016" PRIx64 ".json", folder, hash) < bytes;
}

/** The cache's profile of this machine; NULL: there is none that can be used. */
static struct wring_profile *load_profile(const struct wring_autotune *autotune)
{
    const struct wring_log *log = &autotune->session->log;
    struct wring_log heard = *log;
    struct wring_profile *profile = NULL;
    char path[PATH_BYTES + 64];

    if (!name_cache_file(autotune, path, sizeof(path)) || access(path, F_OK) != 0)
        return NULL;
    enum wring_status status = wring_profile_load(path, &heard, &profile);
    if (status == WRING_OK)
        status = wring_profile_check_machine(profile, autotune->machine.text, &heard);
    if (status == WRING_OK) {
        wring_profile_label_collectives(profile,
                                        &autotune->tunables.tuning); /* older files do not say it */
        return profile;
    }
    wring_warn(log, "WRING_PLAN=auto: %s cannot be used: collectives are measured anew", path);
    wring_profile_destroy(profile);
    return NULL;
}

/** All folders of a path. */
static bool make_folders(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!there)
            return false;
    }
    return true;
}

static bool write_profile(const struct wring_profile *profile, const char *path)
{
    struct wring_atomic_file draft;

    return wring_atomic_file_open(&draft, path, 0600) &&
           wring_atomic_file_close(&draft, path,
                                   wring_profile_save(profile, draft.file) == WRING_OK);
}

/** Put the profile into the cache; what goes wrong is warned of. */
static void save_profile(const struct wring_autotune *autotune)
{
    char path[PATH_BYTES + 64];

    if (!name_cache_file(autotune, path, sizeof(path)))
        return;
    if (!make_folders(path) || !write_profile(autotune->profile, path))
        wring_warn(&autotune->session->log,
                   "WRING_PLAN=auto: %s cannot be written (%s): the next job measures again", path,
                   strerror(errno));
}

/* ---- prepare ---- */

/*
 * Where the profile comes from. Rank 0 has it: of the cache, if a few collectives still take what
 * it says, else of measuring, in which all ranks take part.
 */

#define TURNS_MIN 3
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
    struct wring_autotune_profile_gaps gaps; /* to be measured, if anything is */
};

/* ---- what rank 0 says ---- */

/** Rank 0's word is everybody's. */
static enum wring_status exchange_order(struct wring_session *session, struct order *order)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u32(&writer, (uint32_t)order->word);
    write_profile_gaps(&order->gaps, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    struct wring_reader in = wring_blobs_reader(&blobs, 0);
    uint32_t word = wring_read_u32(&in);
    read_profile_gaps(&in, &order->gaps);
    if (in.failed || word >= WORDS)
        status = WRING_ERR_FRAME;
    order->word = (enum word)word;
    wring_blobs_finish(&blobs);
    return status;
}

void wring_autotune_forget_profile(struct wring_autotune *autotune)
{
    wring_profile_destroy(autotune->profile);
    free(autotune->aside.collectives);
    autotune->profile = NULL;
    autotune->aside = (struct wring_profile_aside){0};
}

static bool has_any_gaps(const struct wring_autotune_profile_gaps *gaps)
{
    return gaps->codecs.n > 0 || gaps->larger.n > 0;
}

/** In rank 0, at first: what is kept has to be looked at, if anything is: what it says of the
 *  configured tuning. */
static enum wring_status decide_from_cache(struct wring_autotune *autotune,
                                           const struct wring_collective_bench_codecs *codecs,
                                           const struct wring_collective_bench_params *params,
                                           struct order *order)
{
    const struct wring_collective_bench_codecs *unknown = &order->gaps.codecs;
    enum wring_status status = WRING_OK;

    if (autotune->measure)
        wring_autotune_forget_profile(autotune);
    else if (autotune->profile == NULL)
        autotune->profile = load_profile(autotune);
    if (autotune->profile != NULL)
        status = wring_profile_set_aside(autotune->profile, &autotune->tunables.tuning,
                                         &autotune->aside);
    if (status != WRING_OK)
        return status;
    find_profile_gaps(autotune, codecs, params, &order->gaps);
    bool raw = unknown->n == 0 || strcmp(unknown->specs[0], "none") != 0;
    order->word = autotune->profile != NULL && raw ? PROBE : MEASURE;
    return WRING_OK;
}

/** In rank 0, after a raw collective was timed: is a kept profile still right? Other load on the
 *  machine makes most collectives slower, but a slower link makes all of them slower. */
static void judge_kept_profile(struct wring_autotune *autotune,
                               const struct wring_collective_bench_codecs *codecs,
                               const struct wring_collective_bench_params *params,
                               const struct wring_collective_bench_glance *seen,
                               struct order *order)
{
    const struct wring_session *session = autotune->session;
    const struct wring_measured_collective *kept =
        wring_profile_find_collective(autotune->profile, "none", "auto", session->size);
    double kept_us = wring_cost_at(&kept->solo.us, seen->elems);

    if (seen->least_us > kept_us * STILL || seen->median_us < kept_us / STILL) {
        wring_info(&session->log,
                   "WRING_PLAN=auto: links are not what they were: a collective of %.0f elements "
                   "takes %.2f times what the kept profile says (%.2f at least), so all is "
                   "measured anew",
                   seen->elems, seen->median_us / kept_us, seen->least_us / kept_us);
        wring_autotune_forget_profile(autotune);
        find_profile_gaps(autotune, codecs, params, &order->gaps);
    }
    order->word = has_any_gaps(&order->gaps) ? MEASURE : NOTHING;
}

static enum wring_status probe_links(struct wring_autotune *autotune,
                                     const struct wring_collective_bench_codecs *codecs,
                                     const struct wring_collective_bench_params *params,
                                     struct order *order)
{
    struct wring_collective_bench_glance seen;
    enum wring_status status = wring_collective_bench_probe(autotune->session, params, &seen);

    if (status != WRING_OK)
        return status;
    if (autotune->session->rank == 0)
        judge_kept_profile(autotune, codecs, params, &seen, order);
    return exchange_order(autotune->session, order);
}

/* ---- all of it ---- */

/** Agree on the sizes and the time that all ranks can afford: the least of each. */
static enum wring_status agree_on_limits(struct wring_session *session, uint32_t n_codecs,
                                         struct wring_collective_bench_params *params)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u64(&writer, wring_collective_bench_fit_memory(params->max_elems, n_codecs,
                                                               params->ranks_per_node));
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

static enum wring_status find_profile(struct wring_autotune *autotune)
{
    struct wring_session *session = autotune->session;
    struct wring_collective_bench_params params = {
        .cores = autotune->machine.cores,
        .ranks_per_node = autotune->machine.ranks_per_node,
        .budget_ns = session->config.plan_seconds_ns,
        .turns_min = TURNS_MIN,
        .flat = true,
        .placed = autotune->iterations.tensors[0].bucket->placed,
    };
    struct wring_collective_bench_codecs codecs;
    struct order order = {.word = NOTHING};
    bool measured = false;
    enum wring_status status =
        wring_session_agree(session, wring_autotune_codecs(session, autotune, &codecs), NULL);

    for (uint32_t i = 0; i < autotune->iterations.n;
         i++) /* up to the first size that is as large as all */
        params.max_elems += 4 * autotune->iterations.tensors[i].bucket->elems;
    params.max_elems--;
    if (status == WRING_OK)
        status = agree_on_limits(session, codecs.n + 1, &params);
    if (status == WRING_OK) {
        if (session->rank == 0)
            status = decide_from_cache(autotune, &codecs, &params, &order);
        status = wring_session_agree(session, status, "");
    }
    if (status == WRING_OK)
        status = exchange_order(session, &order);
    if (status == WRING_OK && order.word == PROBE)
        status = probe_links(autotune, &codecs, &params, &order);
    if (status == WRING_OK)
        status = autotune_measure(autotune, &codecs, &params, &order.gaps, &measured);
    if (measured && session->rank == 0)
        save_profile(autotune);
    return status;
}

enum wring_status wring_autotune_prepare(struct wring_session *session)
{
    struct wring_autotune *autotune = session->autotune;

    if (autotune == NULL || (autotune->known && !autotune->measure))
        return WRING_OK;
    if (session->size == 1 || autotune->iterations.n == 0) {
        autotune->stage = WRING_AUTOTUNE_OFF; /* there is nothing to plan */
        autotune->iterations.off = true;
        return WRING_OK;
    }
    enum wring_status status = wring_job_machine_find(session, &autotune->machine, NULL);
    if (status == WRING_OK)
        status = wring_autotune_agree_on_tunables(autotune);
    if (status == WRING_OK)
        status = find_profile(autotune);
    if (status != WRING_OK)
        wring_autotune_forget_profile(autotune);
    autotune->known = status == WRING_OK;
    autotune->measure = false;
    return status;
}
