/* SPDX-License-Identifier: Apache-2.0 */
/* Registration: what a bucket may be, and what of it lasts until it is freed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/hash.h"
#include "compress/codec.h"
#include "compress/compose.h"
#include "compress/kernels/reduce.h"
#include "runtime/bucket.h"
#include "runtime/buffer.h"
#include "runtime/codec_rules.h"
#include "runtime/codec_states.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/group/group.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/residual.h"
#include "runtime/session/executor.h"
#include "runtime/session/session.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "bucket"

float *wring_residual_alloc(const struct wring_bucket *bucket)
{
    struct wring_executor *executor = bucket->queue->executor;
    void *values = NULL;
    enum wring_status status =
        executor->ops->allocate(executor, executor->home, wring_residual_bytes(bucket), &values);
    return status == WRING_OK ? values : NULL;
}

void wring_residual_free(struct wring_bucket *bucket)
{
    float *const values[] = {bucket->residual, bucket->kept};

    for (size_t i = 0; i < 2; i++)
        if (values[i] != NULL) {
            struct wring_executor *executor = bucket->queue->executor;
            executor->ops->release(executor, executor->home, values[i]);
        }
    bucket->residual = bucket->kept = NULL;
}

enum wring_status wring_residual_make(struct wring_bucket *bucket)
{
    bool wanted = wring_codec_info(bucket->codec)->flags & WRING_CODEC_FEEDBACK;
    bool twice = strcmp(bucket->session->config.rollback, "on") == 0;
    if (!wanted || bucket->elems == 0)
        return WRING_OK;
    bucket->residual = wring_residual_alloc(bucket);
    bucket->kept = twice ? wring_residual_alloc(bucket) : NULL;
    return bucket->residual == NULL || (twice && bucket->kept == NULL) ? WRING_ERR_NO_MEMORY
                                                                       : WRING_OK;
}

uint32_t wring_residual_count_owned(const struct wring_bucket *bucket)
{
    return wring_codec_encodes_own(bucket->codec) ? 0 : bucket->n_owned;
}

void wring_residual_copy(const struct wring_bucket *to, uint64_t to_element,
                         const struct wring_bucket *from, uint64_t from_element, uint64_t n)
{
    float values[WRING_RESIDUAL_PIECE];

    for (uint64_t done = 0, some; done < n; done += some) {
        some = n - done < WRING_RESIDUAL_PIECE ? n - done : WRING_RESIDUAL_PIECE;
        wring_residual_read(from->codec, from->residual, from_element + done, some, values);
        wring_residual_write(to->codec, to->residual, to_element + done, some, values);
    }
}

static void scale_residual(const struct wring_bucket *bucket, struct wring_span span, float factor)
{
    float values[WRING_RESIDUAL_PIECE];

    for (uint64_t at = span.begin, some; at < span.end; at += some) {
        some = span.end - at < WRING_RESIDUAL_PIECE ? span.end - at : WRING_RESIDUAL_PIECE;
        wring_residual_read(bucket->codec, bucket->residual, at, some, values);
        for (uint64_t i = 0; i < some; i++)
            values[i] *= factor;
        wring_residual_write(bucket->codec, bucket->residual, at, some, values);
    }
}

static void scale_owned_residual(struct wring_bucket *bucket, float factor)
{
    if (bucket->residual == NULL || bucket->op != WRING_AVG)
        return;
    for (uint32_t owned = 0; owned < wring_residual_count_owned(bucket); owned++)
        scale_residual(bucket, bucket->owned[owned], factor);
}

/** Of some elements, the residual of their sums is added to that of the rank's own contributions.
 *  @param owed  as the codec of the way back keeps it */
static void own_up_to_span(const struct wring_bucket *bucket, const float *owed,
                           struct wring_span span)
{
    const struct wring_codec *back = wring_codec_way(bucket->codec, 1);
    float factor = bucket->op == WRING_AVG ? (float)bucket->group->members.n : 1;
    float values[WRING_RESIDUAL_PIECE], sums[WRING_RESIDUAL_PIECE];

    for (uint64_t at = span.begin, some; at < span.end; at += some) {
        some = span.end - at < WRING_RESIDUAL_PIECE ? span.end - at : WRING_RESIDUAL_PIECE;
        wring_residual_read(bucket->codec, bucket->residual, at, some, values);
        wring_residual_read(back, owed, at, some, sums);
        for (uint64_t i = 0; i < some; i++)
            values[i] += sums[i] * factor;
        wring_residual_write(bucket->codec, bucket->residual, at, some, values);
    }
}

/** Where sums have a residual of their own, it goes out with the next contribution, as no other
 *  owner would learn of it. */
static void own_up(const struct wring_bucket *bucket)
{
    unsigned owed = wring_codec_way(bucket->codec, 0)->owed;

    if (owed == 0 || bucket->states == NULL || bucket->residual == NULL ||
        wring_compose_restarts(bucket->codec))
        return;
    for (uint32_t i = 0; i < bucket->n_owned; i++)
        own_up_to_span(bucket, bucket->states->now[owed - 1], bucket->owned[i]);
}

void wring_residual_loosen(struct wring_bucket *bucket)
{
    if (!bucket->loose)
        scale_owned_residual(bucket, (float)bucket->group->members.n);
    bucket->loose = true;
}

void wring_residual_settle(struct wring_bucket *bucket)
{
    if (bucket->loose)
        scale_owned_residual(bucket, 1 / (float)bucket->group->members.n);
    bucket->loose = false;
}

static bool has_residual_in(const struct wring_bucket *bucket, uint64_t begin, uint64_t end)
{
    float values[WRING_RESIDUAL_PIECE];
    bool any = false;

    for (uint64_t some; begin < end && !any; begin += some) {
        some = end - begin < WRING_RESIDUAL_PIECE ? end - begin : WRING_RESIDUAL_PIECE;
        wring_residual_read(bucket->codec, bucket->residual, begin, some, values);
        for (uint64_t i = 0; i < some; i++)
            any = any || values[i] != 0;
    }
    return any;
}

/** Does it hold anything back of elements that other ranks of the node encode? */
static bool has_residual_of_others(const struct wring_bucket *bucket)
{
    uint64_t at = 0;
    bool any = false;

    for (uint32_t i = 0; i < bucket->levels->n; i++) {
        const struct wring_bucket *leg = wring_leg_bucket(bucket, i, WRING_LEG_ACROSS);
        any |= has_residual_in(bucket, at, leg->first);
        at = leg->first + leg->elems;
    }
    return any || has_residual_in(bucket, at, bucket->elems);
}

bool wring_residual_is_idle(const struct wring_bucket *bucket)
{
    const struct wring_codec *codec = bucket->collective.work.codec;

    if (bucket->residual == NULL)
        return false;
    if (codec == NULL || (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) == 0)
        return has_residual_in(bucket, 0, bucket->elems);
    return bucket->levels != NULL && has_residual_of_others(bucket);
}

/** Clear the residual: left there, a codec would send it a second time. */
static void clear_residual(struct wring_bucket *bucket)
{
    if (wring_codec_info(bucket->codec)->flags & WRING_CODEC_FEEDBACK) {
        memset(bucket->residual, 0, wring_residual_bytes(bucket));
        return;
    }
    wring_residual_free(bucket);
}

/** To an element of the data, which rounds it to its type. */
static void add_to_element(const struct wring_bucket *bucket, uint64_t i, float more)
{
    const struct wring_reduce_kernels *kernels = wring_reduce_tiers[0].kernels;
    size_t bytes = wring_dtype_bytes(bucket->dtype);
    char *at = (char *)bucket->data + i * bytes;
    float value;

    if (bucket->dtype == WRING_F32) {
        *(float *)(void *)at += more;
        return;
    }
    kernels->widen[bucket->dtype](&value, at, 1);
    value += more;
    kernels->narrow[bucket->dtype](at, &value, 1, 1);
}

void wring_residual_flush(struct wring_bucket *bucket)
{
    wring_residual_loosen(bucket);
    for (uint64_t i = 0; i < bucket->elems; i++) {
        float kept = wring_residual_get(bucket, i);
        if (kept != 0) /* which would make +0 of -0 */
            add_to_element(bucket, i, kept);
    }
    bucket->idle = false;
    clear_residual(bucket);
    wring_residual_settle(bucket);
}

/* ---- states of codecs ---- */

#define ALIGN 64

uint32_t wring_bucket_id(const char *name)
{
    return wring_fnv32(WRING_FNV32, name, strlen(name));
}

static struct wring_codec_context make_codec_context(const struct wring_bucket *bucket)
{
    return (struct wring_codec_context){
        .seed = bucket->session->seed,
        .bucket = wring_bucket_id(bucket->name),
        .rank = bucket->group->members.me,
        .ranks = bucket->group->members.n,
        .elems = bucket->elems,
        .rows = bucket->rows,
        .columns = bucket->columns,
    };
}

static size_t state_array_bytes(const struct wring_codec_states *states, uint32_t i)
{
    return states->counts[i] * wring_codec_states_elem_bytes(states, i);
}

/** Zeros. @return NULL: there is no memory */
static void *alloc_zeros(size_t bytes)
{
    size_t whole = (bytes / ALIGN + 1) * ALIGN;
    void *array = bytes <= SIZE_MAX / 2 ? aligned_alloc(ALIGN, whole) : NULL;
    return array != NULL ? memset(array, 0, whole) : NULL;
}

/** Alike on all ranks, whatever mode the application's thread is in. */
static void init_state_array(const struct wring_codec_state *what, const struct wring_codec *codec,
                             const struct wring_codec_context *context, void *state, uint64_t count)
{
    uint64_t mode = wring_fp_enter();

    what->init(codec, context, state, count);
    wring_fp_leave(mode);
}

static enum wring_status make_state_arrays(const struct wring_bucket *bucket, bool keep,
                                           struct wring_codec_states *states)
{
    const struct wring_codec *codec = wring_codec_way(bucket->codec, 0);
    struct wring_codec_context context = make_codec_context(bucket);

    for (uint32_t i = 0; i < states->n; i++) {
        const struct wring_codec_state *what = &states->what[i];
        states->counts[i] = what->count != NULL ? what->count(codec, &context) : bucket->elems;
        if (states->counts[i] > SIZE_MAX / 64)
            return WRING_ERR_NO_MEMORY;
        states->now[i] = alloc_zeros(state_array_bytes(states, i));
        states->kept[i] = keep ? alloc_zeros(state_array_bytes(states, i)) : NULL;
        if (states->now[i] == NULL || (keep && states->kept[i] == NULL))
            return WRING_ERR_NO_MEMORY;
        if (what->init != NULL)
            init_state_array(what, codec, &context, states->now[i], states->counts[i]);
    }
    return WRING_OK;
}

static void codec_states_destroy(struct wring_codec_states *states);

/** Make and fill the arrays that a bucket's codec asks for; none is fine. Errors: NO_MEMORY.
 *  @param keep  also room to keep them */
static enum wring_status codec_states_create(const struct wring_bucket *bucket, bool keep,
                                             struct wring_codec_states **out)
{
    const struct wring_codec_ops *ops = wring_codec_way(bucket->codec, 0)->ops;

    *out = NULL;
    if (ops->n_states == 0)
        return WRING_OK;
    struct wring_codec_states *states = calloc(1, sizeof(*states));
    if (states == NULL)
        return WRING_ERR_NO_MEMORY;
    states->n = (uint32_t)ops->n_states;
    states->what = ops->states;
    enum wring_status status = make_state_arrays(bucket, keep, states);
    if (status != WRING_OK)
        codec_states_destroy(states);
    else
        *out = states;
    return status;
}

/** NULL is fine. */
static void codec_states_destroy(struct wring_codec_states *states)
{
    if (states == NULL)
        return;
    for (uint32_t i = 0; i < states->n; i++) {
        free(states->now[i]);
        free(states->kept[i]);
    }
    free(states);
}

void wring_codec_states_keep(struct wring_codec_states *states)
{
    for (uint32_t i = 0; i < states->n; i++)
        if (states->kept[i] != NULL)
            memcpy(states->kept[i], states->now[i], state_array_bytes(states, i));
}

uint64_t wring_codec_states_bytes(const struct wring_codec_states *states)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; states != NULL && i < states->n; i++)
        bytes += state_array_bytes(states, i) * (states->kept[i] != NULL ? 2 : 1);
    return bytes;
}

/* ---- registration ---- */

/** Out of place: memory of the result's own. */
static enum wring_status check_result_memory(const struct wring_session *session,
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
    enum wring_status status = check_result_memory(session, params);
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
                                           const struct wring_codec *codec, uint32_t ranks,
                                           enum wring_dtype dtype, enum wring_op op)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    bool type = dtype == WRING_F32 || dtype == WRING_F16 || dtype == WRING_BF16;
    const struct wring_codec *in = wring_codec_way(codec, 0);
    uint32_t most = in->ops->most_ranks != NULL ? in->ops->most_ranks(in) : UINT32_MAX;

    if (ranks > most) {
        wring_error(&session->log,
                    "%s: codec %s adds up codes of at most %" PRIu32 " ranks, and the group has "
                    "%" PRIu32 ": choose wider codes or another codec",
                    what, info->spec, most, ranks);
        return WRING_ERR_UNSUPPORTED;
    }
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
    status = wring_bucket_check_codec(session, what, bucket->codec, bucket->group->members.n,
                                      bucket->dtype, bucket->op);
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
    if (!(info->flags & WRING_CODEC_RAW) && bucket->scheme == WRING_SCHEME_RING) {
        wring_error(&session->log,
                    "bucket '%s': a ring passes on partial sums, which codec %s does not encode: "
                    "leave the scheme or the codec out",
                    bucket->name, info->spec);
        return WRING_ERR_INVALID;
    }
    const struct wring_codec_info *in = wring_codec_info(wring_codec_way(bucket->codec, 0));
    const struct wring_codec_info *back = wring_codec_info(wring_codec_way(bucket->codec, 1));
    if (wring_codec_encodes_own(bucket->codec) && !wring_codec_adds_codes(bucket->codec) &&
        wring_codec_way(bucket->codec, 0)->owed == 0 &&
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
                    "has not; use the divisible scheme%s%s%s",
                    bucket->name, info->spec, in != info ? ", or " : "", in != info ? in->spec : "",
                    in != info ? " alone" : "");
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/** Data of a device can be reached by executors of that one alone. */
static enum wring_status check_data_place(struct wring_session *session,
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
    status = check_data_place(session, bucket, &bucket->place);
    if (status != WRING_OK || bucket->source == NULL || bucket->elems == 0)
        return status;
    struct wring_memory_place source = wring_pointer_place(bucket->source);
    return check_data_place(session, bucket, &source);
}

/** Room to keep what a step in place is given, which it may overwrite before it fails. */
static enum wring_status make_kept_input(struct wring_bucket *bucket)
{
    bool wanted = strcmp(bucket->session->config.rollback, "on") == 0 && bucket->source == NULL &&
                  bucket->place.kind != WRING_MEMORY_DEVICE && bucket->elems > 0;

    if (wanted)
        bucket->kept_input = malloc(wring_bucket_bytes(bucket));
    return wanted && bucket->kept_input == NULL ? WRING_ERR_NO_MEMORY : WRING_OK;
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
        status = make_kept_input(bucket);
    if (status == WRING_OK)
        status = codec_states_create(bucket, strcmp(session->config.rollback, "on") == 0,
                                     &bucket->states);
    if (status != WRING_OK) {
        wring_bucket_free(bucket);
        return status;
    }
    *out = bucket;
    return WRING_OK;
}

/** Its residual as one of the other session's executor, whose memory may be of another kind. */
static enum wring_status move_residual(struct wring_bucket *bucket, struct wring_session *to)
{
    struct wring_executor *from = bucket->queue->executor;
    float *values = bucket->residual, *kept = bucket->kept;

    enum wring_status status =
        wring_session_find_queue(to, bucket->name, bucket->executor, &bucket->queue);
    bucket->residual = bucket->kept = NULL;
    if (status == WRING_OK)
        status = wring_residual_make(bucket);
    if (status == WRING_OK && values != NULL && bucket->residual == NULL)
        bucket->residual = wring_residual_alloc(bucket); /* it goes out with the next step */
    if (status == WRING_OK && values != NULL && bucket->residual == NULL)
        status = WRING_ERR_NO_MEMORY;
    if (status == WRING_OK && values != NULL && !wring_compose_restarts(bucket->codec))
        memcpy(bucket->residual, values, wring_residual_bytes(bucket));
    if (values != NULL)
        from->ops->release(from, from->home, values);
    if (kept != NULL)
        from->ops->release(from, from->home, kept);
    return status;
}

/** Those of a codec that follow the rank, or that all ranks share, unless it restarts. What an
 * owner held of sums does not go to the next one here, and begins anew. */
static enum wring_status renew_states(struct wring_bucket *bucket)
{
    struct wring_codec_states *before = bucket->states;
    enum wring_status status = codec_states_create(
        bucket, strcmp(bucket->session->config.rollback, "on") == 0, &bucket->states);

    for (uint32_t i = 0; status == WRING_OK && before != NULL && i < before->n; i++)
        if (before->what[i].holder != WRING_CODEC_OWNER && !wring_compose_restarts(bucket->codec) &&
            before->counts[i] == bucket->states->counts[i])
            memcpy(bucket->states->now[i], before->now[i], state_array_bytes(before, i));
    codec_states_destroy(before);
    return status;
}

enum wring_status wring_bucket_move(struct wring_bucket *bucket, struct wring_session *to)
{
    own_up(bucket);
    wring_residual_loosen(bucket);
    atomic_fetch_sub(&bucket->group->n_buckets, 1);
    bucket->session = to;
    bucket->group = to->world;
    atomic_fetch_add(&bucket->group->n_buckets, 1);
    bucket->ops = &wring_bucket_alone;
    bucket->posted_as = bucket;
    bucket->watch = NULL;
    bucket->tensor = NULL;
    bucket->n_owned = 0;
    bucket->levels = NULL;
    atomic_store(&bucket->collective.status, WRING_OK);
    enum wring_status status = move_residual(bucket, to);
    return status == WRING_OK ? renew_states(bucket) : status;
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

/** That of WRING_SCHEME; a ring is for buckets without a codec alone. */
static enum wring_scheme default_scheme(const struct wring_session *session, const char *codec)
{
    enum wring_scheme scheme = wring_scheme_find(session->config.scheme);
    bool coded = codec != NULL && strcmp(codec, "none") != 0;

    return coded && scheme == WRING_SCHEME_RING ? WRING_SCHEME_AUTO : scheme;
}

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
    char spec[WRING_CODEC_SPEC_MAX];
    bool ruled = known.codec == NULL && wring_codec_rules_take(known.dtype, known.op);
    if (known.codec == NULL && known.name != NULL)
        known.codec = wring_codec_rules_find(session, &known, spec, sizeof(spec));
    if (known.scheme == WRING_SCHEME_AUTO)
        known.scheme = default_scheme(session, known.codec);
    enum wring_status status = register_bucket(session, &known, out);
    if (status == WRING_OK)
        (*out)->ruled = ruled;
    return wring_session_leave(session, status);
}

void wring_bucket_free(struct wring_bucket *bucket)
{
    if (bucket->group != NULL)
        atomic_fetch_sub(&bucket->group->n_buckets, 1);
    codec_states_destroy(bucket->states);
    if (bucket->whole == NULL)
        wring_codec_destroy(bucket->codec);
    if (bucket->fuses != NULL)
        free(bucket->fuses->members);
    free(bucket->fuses);
    free(bucket->levels);
    wring_residual_free(bucket);
    free(bucket->kept_input);
    free(bucket);
}
