/* SPDX-License-Identifier: Apache-2.0 */
/* Registration: what a bucket may be, and what of it lasts until it is freed. */
#include "compress/codec.h"
#include "runtime/buffer.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/residual.h"
#include "runtime/session/executor.h"
#include "runtime/versioned_struct.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WRING_MODULE "bucket"

/** Out of place: memory of the result's own. */
static enum wring_status check_out(const struct wring_session *session,
                                   const struct wring_bucket_params *params)
{
    uintptr_t data = (uintptr_t)params->data, out = (uintptr_t)params->out;
    size_t align = wring_dtype_align(params->dtype);
    size_t bytes = (size_t)params->elems * wring_dtype_bytes(params->dtype);

    if (params->out == NULL || params->out == params->data || params->elems == 0)
        return WRING_OK;
    if (out % align != 0)
        wring_error(&session->log, "bucket '%s': out must be %zu-byte aligned", params->name,
                    align);
    else if (out < data + bytes && data < out + bytes)
        wring_error(&session->log,
                    "bucket '%s': data and out overlap: give memory apart, or NULL to reduce in "
                    "place",
                    params->name);
    else
        return WRING_OK;
    return WRING_ERR_INVALID;
}

static enum wring_status check_params(struct wring_session *session,
                                      const struct wring_bucket_params *params)
{
    if (params->name == NULL || params->name[0] == '\0') {
        wring_error(&session->log, "a bucket needs a name of 1 to %d bytes", WRING_NAME_MAX - 1);
        return WRING_ERR_INVALID;
    }
    if (strlen(params->name) >= WRING_NAME_MAX) {
        char name[WRING_TEXT_SHORT];
        wring_error(&session->log, "bucket '%s': its name has %zu bytes, at most %d may be",
                    wring_text_short(params->name, name), strlen(params->name), WRING_NAME_MAX - 1);
        return WRING_ERR_INVALID;
    }
    size_t elem_bytes = wring_dtype_bytes(params->dtype);
    if (elem_bytes == 0 || (unsigned)params->op >= WRING_OPS ||
        (unsigned)params->scheme >= WRING_SCHEMES) {
        wring_error(&session->log, "bucket '%s': unknown dtype, op or scheme", params->name);
        return WRING_ERR_INVALID;
    }
    if (!wring_op_takes(params->op, params->dtype)) {
        wring_error(&session->log, "bucket '%s': there is no %s of %s: wring/types.h lists what is",
                    params->name, wring_op_name(params->op), wring_dtype_name(params->dtype));
        return WRING_ERR_INVALID;
    }
    if (params->op != WRING_PREMUL_SUM && params->factor != 0) {
        wring_error(&session->log, "bucket '%s': a factor is for premul_sum alone: leave it 0",
                    params->name);
        return WRING_ERR_INVALID;
    }
    if (params->elems > UINT64_MAX / 64) {
        wring_error(&session->log,
                    "bucket '%s': %" PRIu64 " elements of %zu bytes are more than memory can hold",
                    params->name, params->elems, elem_bytes);
        return WRING_ERR_INVALID;
    }
    if (params->elems > 0 &&
        (params->data == NULL || (uintptr_t)params->data % wring_dtype_align(params->dtype) != 0)) {
        wring_error(&session->log, "bucket '%s': data must be %zu-byte aligned and not NULL",
                    params->name, wring_dtype_align(params->dtype));
        return WRING_ERR_INVALID;
    }
    enum wring_status status = check_out(session, params);
    if (status != WRING_OK)
        return status;
    uint64_t rows = params->shape.rows, columns = params->shape.columns;
    if ((rows != 0 || columns != 0) &&
        (rows == 0 || params->elems / rows != columns || params->elems % rows != 0)) {
        wring_error(&session->log,
                    "bucket '%s': a shape of %" PRIu64 " x %" PRIu64 " has not its %" PRIu64
                    " elements: give rows and columns of all of it, or zeros",
                    params->name, rows, columns, params->elems);
        return WRING_ERR_INVALID;
    }
    if (params->group != NULL && atomic_load(&params->group->aborted_by) != 0)
        return WRING_ERR_CANCELLED;
    if (wring_bucket_find(session, params->name) != NULL) {
        wring_error(&session->log, "two buckets are called '%s'", params->name);
        return WRING_ERR_INVALID;
    }
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (wring_bucket_under_way(at))
            return WRING_ERR_BUSY;
    return WRING_OK;
}

enum wring_status wring_bucket_check_codec(const struct wring_session *session, const char *what,
                                           const struct wring_codec *codec, enum wring_dtype dtype,
                                           enum wring_op op)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    bool type = dtype == WRING_F32 || dtype == WRING_F16 || dtype == WRING_BF16;
    if (info->flags & WRING_CODEC_RAW || (type && (op == WRING_SUM || op == WRING_AVG)))
        return WRING_OK;
    wring_error(
        &session->log,
        "%s: codec %s encodes sums and averages of f32, f16 and bf16, not %s of %s: use codec none",
        what, info->spec, wring_op_name(op), wring_dtype_name(dtype));
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status set_codec(struct wring_session *session, struct wring_bucket *bucket,
                                   const char *spec)
{
    char why[WRING_TEXT_MAX], what[WRING_NAME_MAX + 16];
    enum wring_status status =
        wring_codec_create(spec != NULL ? spec : "none", session->config.cpu, session->codecs, why,
                           sizeof(why), &bucket->codec);
    if (status != WRING_OK) {
        wring_error(&session->log, "bucket '%s': %s", bucket->name, why);
        return status;
    }
    snprintf(what, sizeof(what), "bucket '%s'", bucket->name);
    status = wring_bucket_check_codec(session, what, bucket->codec, bucket->dtype, bucket->op);
    if (status != WRING_OK)
        return status;
    const struct wring_codec_info *info = wring_codec_info(bucket->codec);
    enum wring_scheme scheme = wring_scheme_across(bucket->scheme);
    if (info->unit == 0 && scheme == WRING_SCHEME_DIVISIBLE) {
        wring_error(&session->log,
                    "bucket '%s': codec %s works on the whole bucket, which the "
                    "divisible scheme would cut",
                    bucket->name, info->spec);
        return WRING_ERR_INVALID;
    }
    const struct wring_codec_info *in = wring_codec_info(wring_codec_way(bucket->codec, 0));
    const struct wring_codec_info *back = wring_codec_info(wring_codec_way(bucket->codec, 1));
    if (in->flags & WRING_CODEC_ALTERS && !wring_codec_adds_codes(bucket->codec) &&
        in->flags & back->flags & WRING_CODEC_FEEDBACK) {
        wring_error(&session->log,
                    "bucket '%s': %s feeds back what is lost of a contribution, all of which %s "
                    "encodes, and of the sum: name a way back without +ef, as in %s>none",
                    bucket->name, info->spec, in->name, in->spec);
        return WRING_ERR_INVALID;
    }
    if (info->flags & WRING_CODEC_TWO_WAYS && scheme == WRING_SCHEME_INDIVISIBLE) {
        wring_error(&session->log,
                    "bucket '%s': codec %s has a way back, which the indivisible scheme "
                    "has not; use the divisible scheme, or %s alone",
                    bucket->name, info->spec,
                    wring_codec_info(wring_codec_way(bucket->codec, 0))->spec);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/** Data of a device can be reached by executors of that one alone. */
static enum wring_status check_place(struct wring_session *session,
                                     const struct wring_bucket *bucket,
                                     const struct wring_memory_place *place)
{
    const struct wring_executor *executor = bucket->queue->executor;
    const struct wring_memory_place *home = &executor->home;
    char name[WRING_TEXT_SHORT];

    if (place->kind != WRING_MEMORY_DEVICE ||
        (home->kind == place->kind && home->ordinal == place->ordinal))
        return WRING_OK;
    wring_error(&session->log,
                "bucket '%s': its data is memory of device %" PRId32
                ", which executor %s cannot reach: give it memory of the host, and copy to that",
                wring_text_short(bucket->name, name), place->ordinal, executor->ops->name);
    return WRING_ERR_UNSUPPORTED;
}

/** Who runs its jobs, and whether that one reaches its data. */
static enum wring_status set_executor(struct wring_session *session, struct wring_bucket *bucket,
                                      const char *text)
{
    enum wring_status status =
        wring_session_find_queue(session, bucket->name, text, &bucket->queue);
    if (status != WRING_OK)
        return status;
    snprintf(bucket->executor, sizeof(bucket->executor), "%s", text != NULL ? text : "");
    if (bucket->elems > 0)
        bucket->place = wring_pointer_place(bucket->data);
    status = check_place(session, bucket, &bucket->place);
    if (status != WRING_OK || bucket->source == NULL || bucket->elems == 0)
        return status;
    struct wring_memory_place source = wring_pointer_place(bucket->source);
    return check_place(session, bucket, &source);
}

enum wring_status wring_bucket_make(struct wring_session *session,
                                    const struct wring_bucket_params *params,
                                    struct wring_bucket **out)
{
    struct wring_bucket *bucket = calloc(1, sizeof(*bucket));
    if (bucket == NULL)
        return WRING_ERR_NO_MEMORY;
    bucket->session = session;
    bucket->ops = &wring_bucket_alone;
    bucket->posted_as = bucket;
    snprintf(bucket->name, sizeof(bucket->name), "%s", params->name);
    bucket->multiplies = params->op == WRING_PREMUL_SUM;
    bucket->factor = params->factor;
    bucket->data = params->out != NULL ? params->out : params->data;
    bucket->source = bucket->data != params->data || bucket->multiplies ? params->data : NULL;
    bucket->elems = params->elems;
    bucket->rows = params->shape.rows;
    bucket->columns = params->shape.columns;
    bucket->dtype = params->dtype;
    bucket->op = bucket->multiplies ? WRING_SUM : params->op;
    bucket->scheme = params->scheme;
    bucket->priority = params->priority;
    bucket->group = params->group != NULL ? params->group : session->world;
    atomic_fetch_add(&bucket->group->n_buckets, 1);
    bucket->completion =
        (struct wring_completion){.done = params->done, .done_arg = params->done_arg};
    enum wring_status status = set_executor(session, bucket, params->executor);
    if (status == WRING_OK)
        status = set_codec(session, bucket, params->codec);
    if (status == WRING_OK)
        status = wring_residual_make(bucket);
    if (status == WRING_OK)
        status = wring_codec_states_create(bucket, strcmp(session->config.rollback, "on") == 0,
                                           &bucket->states);
    if (status != WRING_OK) {
        wring_bucket_free(bucket);
        return status;
    }
    *out = bucket;
    return WRING_OK;
}

static enum wring_status register_bucket(struct wring_session *session,
                                         const struct wring_bucket_params *params,
                                         struct wring_bucket **out)
{
    struct wring_bucket *bucket;
    enum wring_status status = check_params(session, params);
    if (status == WRING_OK)
        status = wring_bucket_make(session, params, &bucket);
    if (status != WRING_OK)
        return status;
    struct wring_bucket **at = &session->buckets;
    while (*at != NULL)
        at = &(*at)->next;
    *at = bucket;
    *out = bucket;
    return WRING_OK;
}

static const struct wring_versioned_struct params_sized = {
    "struct wring_bucket_params",
    sizeof(struct wring_bucket_params),
    sizeof(struct wring_bucket_params),
};

enum wring_status wring_bucket_register(struct wring_session *session,
                                        const struct wring_bucket_params *params,
                                        struct wring_bucket **out)
{
    struct wring_bucket_params known;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    if (!wring_versioned_struct_read(&params_sized, params, &known))
        return wring_session_leave(
            session, wring_versioned_struct_refuse(&params_sized, params, &session->log));
    if (known.scheme == WRING_SCHEME_AUTO)
        known.scheme = wring_scheme_find(session->config.scheme);
    return wring_session_leave(session, register_bucket(session, &known, out));
}

void wring_bucket_free(struct wring_bucket *bucket)
{
    if (bucket->group != NULL)
        atomic_fetch_sub(&bucket->group->n_buckets, 1);
    wring_codec_states_destroy(bucket->states);
    if (bucket->whole == NULL)
        wring_codec_destroy(bucket->codec);
    if (bucket->fuses != NULL)
        free(bucket->fuses->members);
    free(bucket->fuses);
    free(bucket->levels);
    wring_residual_free(bucket);
    free(bucket);
}
