/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session.h"
#include "runtime/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define WRING_MODULE "bucket"
#define TESTS_ALONE 64 /* of a small step, before the engine is to look after it */

uint32_t wring_bucket_id(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

struct wring_bucket *wring_bucket_find(const struct wring_session *session, const char *name)
{
    struct wring_bucket *at = session->buckets;
    while (at != NULL && (at->dropped || strcmp(at->name, name) != 0))
        at = at->next;
    return at;
}

static bool under_way(const struct wring_bucket *bucket)
{
    return bucket->committed && atomic_load_explicit(&bucket->collective.status,
                                                     memory_order_acquire) == WRING_ERR_AGAIN;
}

/** The same, once what is here already has been seen to: by whoever may wait for it. */
static bool is_left(struct wring_bucket *bucket)
{
    if (bucket->committed && bucket->collective.mapped != NULL)
        return !wring_mapped_end(&bucket->collective);
    return under_way(bucket);
}

static enum wring_status check_params(struct wring_session *session,
                                      const struct wring_bucket_params *params)
{
    if (params->name == NULL || params->name[0] == '\0' || strlen(params->name) >= WRING_NAME_MAX) {
        wring_error(&session->log, "a bucket needs a name of 1 to %d bytes", WRING_NAME_MAX - 1);
        return WRING_ERR_INVALID;
    }
    size_t elem_bytes = wring_dtype_bytes(params->dtype);
    if (elem_bytes == 0 || (unsigned)params->op >= WRING_OPS ||
        params->scheme > WRING_SCHEME_INDIVISIBLE) {
        wring_error(&session->log, "bucket '%s': unknown dtype, op or scheme", params->name);
        return WRING_ERR_INVALID;
    }
    if (params->elems > 0 && (params->data == NULL || (uintptr_t)params->data % elem_bytes != 0 ||
                              params->elems > UINT64_MAX / 64)) {
        wring_error(&session->log, "bucket '%s': data must be %zu-byte aligned and not NULL",
                    params->name, elem_bytes);
        return WRING_ERR_INVALID;
    }
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        if (!at->dropped && strcmp(at->name, params->name) == 0) {
            wring_error(&session->log, "two buckets are called '%s'", params->name);
            return WRING_ERR_INVALID;
        }
        if (under_way(at))
            return WRING_ERR_BUSY;
    }
    return WRING_OK;
}

enum wring_status wring_bucket_check_codec(const struct wring_session *session, const char *what,
                                           const struct wring_codec *codec, enum wring_dtype dtype,
                                           enum wring_op op)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    if (info->flags & WRING_CODEC_RAW ||
        (dtype == WRING_F32 && (op == WRING_SUM || op == WRING_AVG)))
        return WRING_OK;
    wring_error(&session->log,
                "%s: codec %s encodes sums and averages of f32, not %s of %s: use codec none", what,
                info->spec, wring_op_name(op), wring_dtype_name(dtype));
    return WRING_ERR_UNSUPPORTED;
}

static float *zeros(uint64_t elems)
{
    size_t bytes = (elems * sizeof(float) + 63) / 64 * 64;
    float *values = aligned_alloc(64, bytes);
    return values != NULL ? memset(values, 0, bytes) : NULL;
}

static enum wring_status make_residual(struct wring_bucket *bucket)
{
    bool wanted = wring_codec_info(bucket->codec)->flags & WRING_CODEC_FEEDBACK;
    bool twice = strcmp(bucket->session->config.rollback, "on") == 0;
    if (!wanted || bucket->elems == 0)
        return WRING_OK;
    bucket->residual = zeros(bucket->elems);
    bucket->kept = twice ? zeros(bucket->elems) : NULL;
    return bucket->residual == NULL || (twice && bucket->kept == NULL) ? WRING_ERR_NO_MEMORY
                                                                       : WRING_OK;
}

static enum wring_status set_codec(struct wring_session *session, struct wring_bucket *bucket,
                                   const char *spec)
{
    char why[WRING_TEXT_MAX], what[WRING_NAME_MAX + 16];
    enum wring_status status = wring_codec_create(spec != NULL ? spec : "none", session->config.cpu,
                                                  why, sizeof(why), &bucket->codec);
    if (status != WRING_OK) {
        wring_error(&session->log, "bucket '%s': %s", bucket->name, why);
        return status;
    }
    snprintf(what, sizeof(what), "bucket '%s'", bucket->name);
    status = wring_bucket_check_codec(session, what, bucket->codec, bucket->dtype, bucket->op);
    if (status != WRING_OK)
        return status;
    const struct wring_codec_info *info = wring_codec_info(bucket->codec);
    if (info->unit == 0 && bucket->scheme == WRING_SCHEME_DIVISIBLE) {
        wring_error(&session->log,
                    "bucket '%s': codec %s works on the whole bucket, which the "
                    "divisible scheme would cut",
                    bucket->name, info->spec);
        return WRING_ERR_INVALID;
    }
    if (info->flags & WRING_CODEC_TWO_WAYS && bucket->scheme == WRING_SCHEME_INDIVISIBLE) {
        wring_error(&session->log,
                    "bucket '%s': codec %s has a way back, which the indivisible scheme "
                    "has not; use the divisible scheme, or %s alone",
                    bucket->name, info->spec,
                    wring_codec_info(wring_codec_way(bucket->codec, 0))->spec);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

static enum wring_status register_bucket(struct wring_session *session,
                                         const struct wring_bucket_params *params,
                                         struct wring_bucket **out)
{
    enum wring_status status = check_params(session, params);
    if (status != WRING_OK)
        return status;
    struct wring_bucket *bucket = calloc(1, sizeof(*bucket));
    if (bucket == NULL)
        return WRING_ERR_NO_MEMORY;
    bucket->session = session;
    strcpy(bucket->name, params->name); /* its length was checked */
    bucket->data = params->data;
    bucket->elems = params->elems;
    bucket->dtype = params->dtype;
    bucket->op = params->op;
    bucket->scheme = params->scheme;
    bucket->priority = params->priority;
    bucket->group = params->group != NULL ? params->group : session->world;
    status = set_codec(session, bucket, params->codec);
    if (status == WRING_OK)
        status = make_residual(bucket);
    if (status != WRING_OK) {
        wring_bucket_free(bucket);
        return status;
    }
    struct wring_bucket **at = &session->buckets;
    while (*at != NULL)
        at = &(*at)->next;
    *at = bucket;
    *out = bucket;
    return WRING_OK;
}

static const struct wring_sized params_sized = {
    "struct wring_bucket_params",
    sizeof(struct wring_bucket_params),
    sizeof(struct wring_bucket_params),
};

enum wring_status wring_bucket_register(struct wring_session *session,
                                        const struct wring_bucket_params *params,
                                        struct wring_bucket **out)
{
    struct wring_bucket_params known;
    if (!wring_sized_read(&params_sized, params, &known))
        return wring_sized_refuse(&params_sized, params, &session->log);
    return register_bucket(session, &known, out);
}

enum wring_status wring_bucket_post(struct wring_bucket *bucket)
{
    struct wring_session *session = bucket->session;
    enum wring_status failed = wring_session_check(session);
    if (failed != WRING_OK)
        return failed;
    if (!bucket->committed) {
        wring_error(&session->log, "bucket '%s' is posted before wring_session_commit()",
                    bucket->name);
        return WRING_ERR_INVALID;
    }
    if (is_left(bucket))
        return WRING_ERR_BUSY;
    if (bucket->kept != NULL && !bucket->choice.bypass) {
        memcpy(bucket->kept, bucket->residual, bucket->elems * sizeof(*bucket->kept));
        bucket->kept_step = bucket->collective.step;
    }
    if (bucket->collective.mapped != NULL && wring_mapped_begin(&bucket->collective)) {
        wring_progress_attend(session->progress);
        return WRING_OK;
    }
    wring_progress_post(session->progress, &bucket->collective,
                        wring_bucket_bytes(bucket) <= session->config.flat_bytes);
    return WRING_OK;
}

enum wring_status wring_bucket_test(struct wring_bucket *bucket)
{
    struct wring_progress *progress = bucket->session->progress;
    struct wring_collective *collective = &bucket->collective;

    if (!bucket->committed)
        return WRING_ERR_INVALID;
    if (is_left(bucket)) {
        if (collective->mapped != NULL && wring_mapped_give(collective, TESTS_ALONE))
            wring_progress_post(progress, collective, true);
        wring_progress_nudge(progress);
    }
    return (enum wring_status)atomic_load_explicit(&collective->status, memory_order_acquire);
}

enum wring_status wring_bucket_wait(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    if (!bucket->committed)
        return WRING_ERR_INVALID;
    if (bucket->collective.mapped != NULL &&
        wring_progress_wait_alone(bucket->session->progress, &bucket->collective))
        return (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                       memory_order_acquire);
    uint64_t began_ns = bucket->session->trace != NULL ? wring_now_ns() : 0;
    enum wring_status status = wring_progress_wait(
        bucket->session->progress, &bucket->collective.status, wring_deadline_in(timeout_ns));
    wring_collective_trace_wait(&bucket->collective, began_ns);
    return status == WRING_ERR_AGAIN ? WRING_ERR_TIMEOUT : status;
}

/** Several buckets of which one is waited for. */
struct any {
    struct wring_bucket *const *buckets;
    size_t n;
};

/** The first that is done; n: none is. */
static size_t find_done(const struct any *any)
{
    size_t i = 0;
    while (i < any->n && (any->buckets[i] == NULL || is_left(any->buckets[i])))
        i++;
    return i;
}

/** What nobody has to see to so far is the engine's from now on. */
static void give_all(const struct any *any)
{
    for (size_t i = 0; i < any->n; i++)
        if (any->buckets[i] != NULL && any->buckets[i]->collective.mapped != NULL)
            wring_mapped_wait(&any->buckets[i]->collective, 0);
}

static bool any_is_done(const void *arg)
{
    const struct any *any = arg;
    return find_done(any) < any->n;
}

enum wring_status wring_wait_any(struct wring_bucket *const *buckets, size_t n, uint64_t timeout_ns,
                                 size_t *index)
{
    const struct any any = {buckets, n};
    struct wring_session *session = NULL;

    *index = n;
    for (size_t i = 0; i < n; i++) {
        if (buckets[i] == NULL)
            continue;
        session = session == NULL ? buckets[i]->session : session;
        if (!buckets[i]->committed || buckets[i]->session != session)
            return WRING_ERR_INVALID;
    }
    if (session == NULL)
        return WRING_OK;
    if (find_done(&any) == n)
        give_all(&any);
    if (!wring_progress_drive(session->progress, (struct wring_goal){any_is_done, &any},
                              wring_deadline_in(timeout_ns)))
        return WRING_ERR_TIMEOUT;
    *index = find_done(&any);
    return (enum wring_status)atomic_load_explicit(&buckets[*index]->collective.status,
                                                   memory_order_acquire);
}

enum wring_status wring_bucket_drop(struct wring_bucket *bucket)
{
    if (is_left(bucket))
        return WRING_ERR_BUSY;
    bucket->dropped = true; /* peers may still send it credits: the next commit frees it */
    return WRING_OK;
}

void wring_bucket_free(struct wring_bucket *bucket)
{
    wring_codec_destroy(bucket->codec);
    free(bucket->residual);
    free(bucket->kept);
    free(bucket);
}
