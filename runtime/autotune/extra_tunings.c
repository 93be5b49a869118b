/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/autotune/extra_tunings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "planner/core/files/profile.h"
#include "planner/core/model/measured_collective.h"
#include "runtime/autotune/codecs.h"
#include "runtime/autotune/profile_gaps.h"
#include "runtime/session/executor.h"

#define WRING_MODULE "plan"
#define PIECES 4      /* of the largest bucket as configured, at least */
#define PIECE_TIMES 4 /* as large as the configured ones, or that part of it */
#define SHARE 8       /* of the configured one's time, for each tuning */
#define CORES_MOST 4  /* that are tried beside one */
#define TURNS_MIN 3

/** What is asked while tunings are looked for. */
struct asking {
    const struct wring_autotune *autotune;
    const struct wring_collective_bench_codecs *codecs;
    const struct wring_collective_bench_params *params;
    struct wring_autotune_extra_tunings *out;
};

/* ---- what is worth it ---- */

static uint32_t size_of_several_pieces(const struct wring_autotune *autotune)
{
    uint64_t bytes = PIECES * autotune->tunables.tuning.chunk_bytes;
    uint32_t size = 0;

    while (size + 1 < WRING_COLLECTIVE_BENCH_SIZES &&
           wring_collective_bench_size(size) * sizeof(float) < bytes)
        size++;
    return size;
}

uint64_t wring_autotune_extra_elems(const struct wring_autotune *autotune)
{
    return wring_collective_bench_size(size_of_several_pieces(autotune));
}

static bool lacks_collective(const struct wring_autotune *autotune, const char *spec,
                             const struct wring_tuning *tuning)
{
    const struct wring_profile *profile = autotune->profile;
    uint32_t ranks = autotune->session->size;

    if (strcmp(spec, "none") == 0)
        return wring_profile_collective_at(profile, spec, "auto", ranks, tuning) == NULL;
    return wring_profile_collective_at(profile, spec, "divisible", ranks, tuning) == NULL &&
           wring_profile_collective_at(profile, spec, "indivisible", ranks, tuning) == NULL;
}

static void list_lacking_codecs(const struct asking *asking, const struct wring_tuning *tuning,
                                struct wring_collective_bench_codecs *out)
{
    out->n = 0;
    if (lacks_collective(asking->autotune, "none", tuning))
        memcpy(out->specs[out->n++], "none", sizeof("none"));
    for (uint32_t i = 0; i < asking->codecs->n; i++)
        if (lacks_collective(asking->autotune, asking->codecs->specs[i], tuning))
            memcpy(out->specs[out->n++], asking->codecs->specs[i], WRING_CODEC_SPEC_MAX);
}

static bool is_configured(const struct wring_autotune *autotune,
                          const struct wring_measured_collective *collective)
{
    const struct wring_tuning tuning = wring_profile_collective_tuning(collective);

    return collective->ranks == autotune->session->size &&
           tuning.cores == autotune->tunables.tuning.cores &&
           tuning.chunk_bytes == autotune->tunables.tuning.chunk_bytes;
}

/** What a turn takes as configured, of all sizes up to the last, two buckets in each backlog. */
static double predict_turn_us(const struct asking *asking,
                              const struct wring_collective_bench_codecs *codecs, uint32_t last)
{
    const struct wring_profile *profile = asking->autotune->profile;
    double us = 0;

    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        const struct wring_measured_collective *collective = &profile->collectives[i];
        if (!is_configured(asking->autotune, collective) ||
            !wring_collective_bench_has(codecs, collective->codec))
            continue;
        for (uint32_t size = 0; size <= last; size++) {
            double elems = (double)wring_collective_bench_size(size);
            us += 2 * wring_cost_at(&collective->solo.us, elems) +
                  wring_cost_at(&collective->busy.us, elems);
        }
    }
    return us;
}

/** Does a collective with a codec keep its processor at work? */
static bool keeps_codec_core_busy(const struct asking *asking)
{
    const struct wring_profile *profile = asking->autotune->profile;
    bool any = false;

    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        const struct wring_measured_collective *collective = &profile->collectives[i];
        double elems = (double)collective->max_elems;
        any = any || (is_configured(asking->autotune, collective) &&
                      wring_collective_bench_has(asking->codecs, collective->codec) &&
                      wring_cost_at(&collective->cpu.us, elems) >=
                          WRING_AT_WORK * wring_cost_at(&collective->busy.us, elems));
    }
    return any;
}

/** Why it is not worth measuring; NULL: it is. */
static const char *find_objection(const struct asking *asking,
                                  const struct wring_autotune_extra_tuning *extra)
{
    const struct wring_collective_bench_params *params = asking->params;
    uint32_t last = size_of_several_pieces(asking->autotune);

    if (extra->tuning.cores > 0 && asking->codecs->n == 0)
        return "no codec may be used";
    if (extra->tuning.cores > 0 && !keeps_codec_core_busy(asking))
        return "collectives with codecs wait for their links";
    if (wring_collective_bench_size(last) > params->max_elems)
        return "all buckets together have too few of them";
    if (predict_turn_us(asking, &extra->codecs, last) >
        wring_collective_bench_limit_us(params->budget_ns / SHARE))
        return "it would take too long for WRING_PLAN_SECONDS";
    return NULL;
}

static void offer_tuning(const struct asking *asking, uint32_t cores, uint64_t chunk_bytes)
{
    struct wring_autotune_extra_tuning *extra = &asking->out->list[asking->out->n];
    const char *objection;

    *extra = (struct wring_autotune_extra_tuning){.tuning = {cores, chunk_bytes}};
    list_lacking_codecs(asking, &extra->tuning, &extra->codecs);
    if (extra->codecs.n == 0)
        return;
    objection = find_objection(asking, extra);
    if (objection == NULL)
        asking->out->n++;
    else
        wring_info(&asking->autotune->session->log,
                   "WRING_PLAN=auto: pieces of %" PRIu64 " bytes with %" PRIu32
                   " pinned cores are not measured: %s",
                   chunk_bytes, cores, objection);
}

void wring_autotune_find_extra_tunings(const struct wring_autotune *autotune,
                                       const struct wring_collective_bench_codecs *codecs,
                                       const struct wring_collective_bench_params *params,
                                       struct wring_autotune_extra_tunings *out)
{
    const struct wring_autotune_tunables *tunables = &autotune->tunables;
    const struct wring_tuning *tuning = &tunables->tuning;
    const struct asking asking = {autotune, codecs, params, out};

    out->n = 0;
    if (tunables->pieces) {
        offer_tuning(&asking, tuning->cores, tuning->chunk_bytes / PIECE_TIMES);
        offer_tuning(&asking, tuning->cores, tuning->chunk_bytes * PIECE_TIMES);
    }
    if (tunables->cores > 0)
        offer_tuning(&asking, 1, tuning->chunk_bytes);
    if (tunables->cores > 1)
        offer_tuning(&asking, tunables->cores < CORES_MOST ? tunables->cores : CORES_MOST,
                     tuning->chunk_bytes);
}

/* ---- measuring ---- */

/** Rank 0's list is everybody's. */
static enum wring_status exchange_tunings(struct wring_session *session,
                                          struct wring_autotune_extra_tunings *list)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u32(&writer, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        wring_write_u32(&writer, list->list[i].tuning.cores);
        wring_write_u64(&writer, list->list[i].tuning.chunk_bytes);
        wring_autotune_write_codecs(&list->list[i].codecs, &writer);
    }
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    struct wring_reader in = wring_blobs_reader(&blobs, 0);
    list->n = wring_read_u32(&in);
    for (uint32_t i = 0; i < list->n && i < WRING_AUTOTUNE_EXTRA_TUNINGS_MAX; i++) {
        list->list[i].tuning.cores = wring_read_u32(&in);
        list->list[i].tuning.chunk_bytes = wring_read_u64(&in);
        wring_autotune_read_codecs(&in, &list->list[i].codecs);
    }
    if (in.failed || list->n > WRING_AUTOTUNE_EXTRA_TUNINGS_MAX)
        status = WRING_ERR_FRAME;
    wring_blobs_finish(&blobs);
    return status;
}

/** The session is set so. Errors: those of wring_session_settle(). */
static enum wring_status set_session_tuning(struct wring_autotune *autotune,
                                            const struct wring_tuning *tuning)
{
    const struct wring_autotune_tunables *tunables = &autotune->tunables;
    char executor[WRING_CONFIG_TEXT];

    if (tuning->cores == tunables->tuning.cores)
        snprintf(executor, sizeof(executor), "%s", tunables->executor);
    else if (tuning->cores > 0)
        snprintf(executor, sizeof(executor), "pool:%" PRIu32, tuning->cores);
    else
        snprintf(executor, sizeof(executor), "inline");
    return wring_session_settle(autotune->session, executor, tuning->chunk_bytes);
}

/** The session is set so, and the profile has that tuning's collectives alone; then both have all
 * again.
 */
static enum wring_status measure_with_tuning(struct wring_autotune *autotune,
                                             const struct wring_collective_bench_params *how,
                                             const struct wring_autotune_extra_tuning *extra)
{
    struct wring_session *session = autotune->session;
    struct wring_collective_bench_params params = *how;
    struct wring_profile_aside aside = {0};
    enum wring_status status = set_session_tuning(autotune, &extra->tuning);

    params.codecs = extra->codecs;
    params.max_elems = wring_autotune_extra_elems(autotune);
    params.budget_ns = how->budget_ns / SHARE;
    params.turns_min = TURNS_MIN;
    if (session->rank == 0 && status == WRING_OK)
        status = wring_profile_set_aside(autotune->profile, &extra->tuning, &aside);
    status = wring_session_agree(session, status, "");
    if (status == WRING_OK)
        status = wring_collective_bench_run(session, &params, autotune->profile, NULL);
    if (aside.collectives == NULL)
        return status;
    enum wring_status back = wring_profile_bring_back(autotune->profile, &extra->tuning, &aside);
    free(aside.collectives);
    return status == WRING_OK ? back : status;
}

static void say_why_as_configured(const struct wring_autotune *autotune)
{
    const struct wring_autotune_tunables *tunables = &autotune->tunables;
    const struct wring_log *log = &autotune->session->log;

    if (tunables->cores_why != NULL)
        wring_info(log, "WRING_PLAN=auto: pinned cores are as configured: %s", tunables->cores_why);
    if (tunables->pieces_why != NULL)
        wring_info(log, "WRING_PLAN=auto: pieces are as large as configured: %s",
                   tunables->pieces_why);
}

enum wring_status wring_autotune_measure_extra_tunings(
    struct wring_autotune *autotune, const struct wring_collective_bench_codecs *codecs,
    const struct wring_collective_bench_params *params, uint32_t *out)
{
    struct wring_session *session = autotune->session;
    struct wring_autotune_extra_tunings list = {.n = 0};
    uint32_t measured = 0;

    if (session->rank == 0) {
        wring_autotune_find_extra_tunings(autotune, codecs, params, &list);
        say_why_as_configured(autotune);
    }
    enum wring_status status = exchange_tunings(session, &list);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < list.n && status == WRING_OK; i++) {
        status =
            wring_session_agree(session, measure_with_tuning(autotune, params, &list.list[i]), "");
        measured += status == WRING_OK;
    }
    if (wring_session_check(session) != WRING_OK)
        return wring_session_check(session);
    if (status != WRING_OK && session->rank == 0)
        wring_warn(&session->log, "WRING_PLAN=auto: pinned cores and pieces of other sizes cannot "
                                  "be measured here, so both are as configured");
    status = wring_session_agree(session, wring_autotune_settle(session), "");
    if (status == WRING_OK)
        *out = measured;
    return status;
}
