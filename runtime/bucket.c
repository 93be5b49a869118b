/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define WRING_MODULE "bucket"

uint32_t wring_bucket_id(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static bool under_way(const struct wring_bucket *bucket)
{
    return bucket->committed && atomic_load_explicit(&bucket->collective.status,
                                                     memory_order_acquire) == WRING_ERR_AGAIN;
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
        if (strcmp(at->name, params->name) == 0) {
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
    if (info->flags & WRING_CODEC_FEEDBACK && bucket->elems > 0) {
        bucket->residual = aligned_alloc(64, (bucket->elems * sizeof(float) + 63) / 64 * 64);
        if (bucket->residual == NULL)
            return WRING_ERR_NO_MEMORY;
        memset(bucket->residual, 0, bucket->elems * sizeof(float));
    }
    return WRING_OK;
}

enum wring_status wring_bucket_register(struct wring_session *session,
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
    if (status != WRING_OK) {
        wring_codec_destroy(bucket->codec);
        free(bucket);
        return status;
    }
    struct wring_bucket **at = &session->buckets;
    while (*at != NULL)
        at = &(*at)->next;
    *at = bucket;
    *out = bucket;
    return WRING_OK;
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
    if (under_way(bucket))
        return WRING_ERR_BUSY;
    wring_engine_post(session->engine, &bucket->collective);
    wring_progress_posted(session->progress,
                          wring_bucket_bytes(bucket) <= session->config.flat_bytes);
    return WRING_OK;
}

enum wring_status wring_bucket_test(struct wring_bucket *bucket)
{
    if (!bucket->committed)
        return WRING_ERR_INVALID;
    if (under_way(bucket))
        wring_progress_nudge(bucket->session->progress);
    return (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                   memory_order_acquire);
}

enum wring_status wring_bucket_wait(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    if (!bucket->committed)
        return WRING_ERR_INVALID;
    enum wring_status status = wring_progress_wait(
        bucket->session->progress, &bucket->collective.status, wring_deadline_in(timeout_ns));
    return status == WRING_ERR_AGAIN ? WRING_ERR_TIMEOUT : status;
}
