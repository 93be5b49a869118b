/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/codec_states.h"

#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/kernels/reduce.h"
#include "runtime/bucket.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/group/group.h"
#include "runtime/residual.h"
#include "runtime/session/session.h"

float *wring_residual_alloc(const struct wring_bucket *bucket)
{
    struct wring_executor *executor = bucket->queue->executor;
    void *values = NULL;
    enum wring_status status = executor->ops->allocate(
        executor, executor->home, bucket->elems * sizeof(*bucket->residual), &values);
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

static void scale_owned(struct wring_bucket *bucket, float factor)
{
    if (bucket->residual == NULL || bucket->op != WRING_AVG)
        return;
    for (uint32_t owned = 0; owned < wring_residual_count_owned(bucket); owned++)
        for (uint64_t i = bucket->owned[owned].begin; i < bucket->owned[owned].end; i++)
            bucket->residual[i] *= factor;
}

void wring_residual_loosen(struct wring_bucket *bucket)
{
    if (!bucket->loose)
        scale_owned(bucket, (float)bucket->group->members.n);
    bucket->loose = true;
}

void wring_residual_settle(struct wring_bucket *bucket)
{
    if (bucket->loose)
        scale_owned(bucket, 1 / (float)bucket->group->members.n);
    bucket->loose = false;
}

static bool holds_any(const struct wring_bucket *bucket, uint64_t begin, uint64_t end)
{
    while (begin < end && bucket->residual[begin] == 0)
        begin++;
    return begin < end;
}

/** Does it hold anything back of elements that other ranks of the node encode? */
static bool holds_others(const struct wring_bucket *bucket)
{
    uint64_t at = 0;
    bool any = false;

    for (uint32_t i = 0; i < bucket->levels->n; i++) {
        const struct wring_bucket *leg = wring_leg_bucket(bucket, i, WRING_LEG_ACROSS);
        any |= holds_any(bucket, at, leg->first);
        at = leg->first + leg->elems;
    }
    return any || holds_any(bucket, at, bucket->elems);
}

bool wring_residual_is_idle(const struct wring_bucket *bucket)
{
    const struct wring_codec *codec = bucket->collective.work.codec;

    if (bucket->residual == NULL)
        return false;
    if (codec == NULL || (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) == 0)
        return holds_any(bucket, 0, bucket->elems);
    return bucket->levels != NULL && holds_others(bucket);
}

/** Clear the residual: left there, a codec would send it a second time. */
static void forget(struct wring_bucket *bucket)
{
    if (wring_codec_info(bucket->codec)->flags & WRING_CODEC_FEEDBACK) {
        memset(bucket->residual, 0, bucket->elems * sizeof(*bucket->residual));
        return;
    }
    wring_residual_free(bucket);
}

/** To an element of the data, which rounds it to its type. */
static void add_to(const struct wring_bucket *bucket, uint64_t i, float more)
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
    for (uint64_t i = 0; i < bucket->elems; i++)
        if (bucket->residual[i] != 0) /* which would make +0 of -0 */
            add_to(bucket, i, bucket->residual[i]);
    bucket->idle = false;
    forget(bucket);
    wring_residual_settle(bucket);
}

/* ---- codec states ---- */

#define ALIGN 64

uint32_t wring_bucket_id(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}
static struct wring_codec_context context_of(const struct wring_bucket *bucket)
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

static size_t bytes_of(const struct wring_codec_states *states, uint32_t i)
{
    return states->counts[i] * wring_codec_states_elem_bytes(states, i);
}

/** Zeros. @return NULL: there is no memory */
static void *make_array(size_t bytes)
{
    size_t whole = (bytes / ALIGN + 1) * ALIGN;
    void *array = bytes <= SIZE_MAX / 2 ? aligned_alloc(ALIGN, whole) : NULL;
    return array != NULL ? memset(array, 0, whole) : NULL;
}

/** Alike on all ranks, whatever mode the application's thread is in. */
static void fill(const struct wring_codec_state *what, const struct wring_codec *codec,
                 const struct wring_codec_context *context, void *state, uint64_t count)
{
    uint64_t mode = wring_fp_enter();

    what->init(codec, context, state, count);
    wring_fp_leave(mode);
}

static enum wring_status make(const struct wring_bucket *bucket, bool keep,
                              struct wring_codec_states *states)
{
    const struct wring_codec *codec = wring_codec_way(bucket->codec, 0);
    struct wring_codec_context context = context_of(bucket);

    for (uint32_t i = 0; i < states->n; i++) {
        const struct wring_codec_state *what = &states->what[i];
        states->counts[i] = what->count != NULL ? what->count(codec, &context) : bucket->elems;
        if (states->counts[i] > SIZE_MAX / 64)
            return WRING_ERR_NO_MEMORY;
        states->now[i] = make_array(bytes_of(states, i));
        states->kept[i] = keep ? make_array(bytes_of(states, i)) : NULL;
        if (states->now[i] == NULL || (keep && states->kept[i] == NULL))
            return WRING_ERR_NO_MEMORY;
        if (what->init != NULL)
            fill(what, codec, &context, states->now[i], states->counts[i]);
    }
    return WRING_OK;
}

enum wring_status wring_codec_states_create(const struct wring_bucket *bucket, bool keep,
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
    enum wring_status status = make(bucket, keep, states);
    if (status != WRING_OK)
        wring_codec_states_destroy(states);
    else
        *out = states;
    return status;
}

void wring_codec_states_destroy(struct wring_codec_states *states)
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
            memcpy(states->kept[i], states->now[i], bytes_of(states, i));
}

uint64_t wring_codec_states_bytes(const struct wring_codec_states *states)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; states != NULL && i < states->n; i++)
        bytes += bytes_of(states, i) * (states->kept[i] != NULL ? 2 : 1);
    return bytes;
}
