/* SPDX-License-Identifier: Apache-2.0 */
/* A session that plans for itself: its life, and what it says of itself. */
#include "runtime/autotune/autotune.h"

#include <math.h>
#include <stdlib.h>

#include "planner/core/files/plan.h"
#include "runtime/autotune/codecs.h"

#define WRING_MODULE "plan"

static enum wring_status reached(struct wring_iterations *iterations)
{
    return wring_autotune_reach_consensus(iterations->session->autotune);
}

/** What the session was opened with. */
static void note_leeway(struct wring_autotune *autotune)
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
    wring_iterations_init(&autotune->iterations, session, reached);
    session->autotune = autotune;
    note_leeway(autotune);
    return wring_autotune_codecs(session, autotune, &unused);
}

void wring_autotune_close(struct wring_session *session)
{
    struct wring_autotune *autotune = session->autotune;

    if (autotune == NULL)
        return;
    wring_autotune_forget_candidates(autotune);
    wring_iterations_finish(&autotune->iterations);
    free(autotune->ready_us);
    wring_autotune_forget_profile(autotune);
    free(autotune);
    session->autotune = NULL;
}

static enum wring_status list_tensors(struct wring_autotune *autotune)
{
    enum wring_status status = wring_iterations_list(&autotune->iterations);

    free(autotune->ready_us);
    autotune->ready_us = calloc(autotune->iterations.n + 1, sizeof(*autotune->ready_us));
    return status == WRING_OK && autotune->ready_us == NULL ? WRING_ERR_NO_MEMORY : status;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static uint64_t hash_tensors(const struct wring_autotune *autotune)
{
    const char *codecs = autotune->session->config.plan_codecs;
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, codecs, strlen(codecs) + 1);

    for (uint32_t i = 0; i < autotune->iterations.n; i++) {
        const struct wring_bucket *bucket = autotune->iterations.tensors[i].bucket;
        const char *spec = wring_codec_info(bucket->codec)->spec;
        hash = hash_bytes(hash, bucket->name, strlen(bucket->name) + 1);
        hash = hash_bytes(hash, spec, strlen(spec) + 1);
        hash = hash_bytes(hash, &bucket->elems, sizeof(bucket->elems));
        hash = hash_bytes(hash, &bucket->op, sizeof(bucket->op));
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
    enum wring_status status = list_tensors(autotune);
    autotune->tensors_hash = hash_tensors(autotune);
    bool kept = autotune->stage == WRING_AUTOTUNE_KEEP && autotune->tensors_hash == before;
    if (!kept) {
        wring_autotune_forget_candidates(autotune);
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
