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
    return wring_autoplan_meet(iterations->session->autoplan);
}

/** What the session was opened with. */
static void note_leeway(struct wring_autoplan *autoplan)
{
    const struct wring_config *config = &autoplan->session->config;
    struct wring_autoplan_leeway *leeway = &autoplan->leeway;

    *leeway = (struct wring_autoplan_leeway){.chunk_bytes = config->chunk_bytes};
    memcpy(leeway->executor, config->executor, sizeof(leeway->executor));
}

enum wring_status wring_autoplan_open(struct wring_session *session)
{
    struct wring_autoplan *autoplan = calloc(1, sizeof(*autoplan));
    struct wring_collective_bench_codecs unused;

    if (autoplan == NULL)
        return WRING_ERR_NO_MEMORY;
    autoplan->session = session;
    wring_iterations_init(&autoplan->iterations, session, reached);
    session->autoplan = autoplan;
    note_leeway(autoplan);
    return wring_autoplan_codecs(session, autoplan, &unused);
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
    if (out->settled && autoplan->n_candidates > 0) {
        const struct wring_autoplan_way *way = &autoplan->candidates[autoplan->at];
        out->planned = way->plan != NULL;
        out->with_us = autoplan->kept_us;
        out->without_us = autoplan->without_us;
        out->predicted_us = way->predicted_us;
        memcpy(out->name, way->name, sizeof(out->name));
        out->groups = way->plan != NULL ? way->plan->n_groups : autoplan->iterations.n;
    }
    pthread_mutex_unlock(&autoplan->iterations.mutex);
}
