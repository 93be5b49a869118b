/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/solo.h"

#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include <wring/executor.h>

#define ALIGN 64

static uint64_t count_state(const struct wring_codec *codec, size_t state,
                            const struct wring_codec_context *context)
{
    const struct wring_codec_state *what = &codec->ops->states[state];
    return what->count != NULL ? what->count(codec, context) : context->elems;
}

size_t wring_solo_state_bytes(const struct wring_codec *codec, size_t state,
                              const struct wring_codec_context *context)
{
    return count_state(codec, state, context) * wring_dtype_bytes(codec->ops->states[state].dtype);
}

size_t wring_solo_statistics_bytes(const struct wring_codec *codec, size_t round,
                                   const struct wring_codec_context *context)
{
    const struct wring_codec_round *what = &codec->ops->rounds[round];
    return what->count(codec, context) * wring_dtype_bytes(what->dtype);
}

uint64_t wring_solo_round_bytes(const struct wring_codec *codec,
                                const struct wring_codec_context *context)
{
    uint64_t bytes = 0;

    for (size_t r = 0; r < codec->ops->n_rounds; r++)
        bytes += wring_solo_statistics_bytes(codec, r, context);
    return bytes;
}

static void *allocate(size_t bytes)
{
    return aligned_alloc(ALIGN, bytes / ALIGN * ALIGN + ALIGN);
}

static bool allocate_all(struct wring_solo *solo, const struct wring_codec_context *context)
{
    const struct wring_codec_ops *ops = solo->codec->ops;
    bool made = true;

    for (size_t s = 0; s < ops->n_states; s++) {
        solo->states[s] = allocate(wring_solo_state_bytes(solo->codec, s, context));
        made = made && solo->states[s] != NULL;
    }
    for (size_t r = 0; r < ops->n_rounds; r++) {
        solo->statistics[r] = allocate(wring_solo_statistics_bytes(solo->codec, r, context));
        made = made && solo->statistics[r] != NULL;
    }
    if (ops->n_rounds > 0)
        solo->scratch = allocate(wring_job_scratch_bytes(0));
    return made && (ops->n_rounds == 0 || solo->scratch != NULL);
}

void wring_solo_restart(struct wring_solo *solo, const struct wring_codec_context *context)
{
    const struct wring_codec *codec = solo->codec;

    for (size_t s = 0; s < codec->ops->n_states; s++) {
        memset(solo->states[s], 0, wring_solo_state_bytes(codec, s, context));
        if (codec->ops->states[s].init != NULL)
            codec->ops->states[s].init(codec, context, solo->states[s],
                                       count_state(codec, s, context));
    }
}

static void run_round(struct wring_solo *solo, const struct wring_codec_context *context,
                      uint32_t round, enum wring_job_kind kind, const float *src,
                      const float *residual)
{
    struct wring_job job = {.kind = kind,
                            .elems = context->elems,
                            .context = *context,
                            .codec_out = solo->codec,
                            .round = round,
                            .src = src,
                            .residual = (float *)residual, /* a round only reads it */
                            .dst = solo->statistics[round],
                            .untimed = true};

    job.context.element = context->first;
    wring_job_run(&job, solo->scratch);
}

void wring_solo_rounds(struct wring_solo *solo, const struct wring_codec_context *context,
                       const float *src, const float *residual)
{
    for (uint32_t r = 0; r < solo->codec->ops->n_rounds; r++) {
        run_round(solo, context, r, WRING_JOB_ROUND_BEGIN, src, residual);
        run_round(solo, context, r, WRING_JOB_ROUND_END, NULL, NULL);
    }
}

enum wring_status wring_solo_init(struct wring_solo *solo, const struct wring_codec *codec,
                                  struct wring_codec_context *context)
{
    *solo = (struct wring_solo){.codec = wring_codec_way(codec, 0)};
    const struct wring_codec_ops *ops = solo->codec->ops;

    if (!allocate_all(solo, context)) {
        wring_solo_finish(solo);
        return WRING_ERR_NO_MEMORY;
    }
    if (ops->n_states > 0)
        context->states = solo->states;
    if (ops->n_rounds > 0)
        context->statistics = (const void *const *)solo->statistics;
    wring_solo_restart(solo, context);
    for (size_t r = 0; r < ops->n_rounds; r++)
        memset(solo->statistics[r], 0, wring_solo_statistics_bytes(solo->codec, r, context));
    return WRING_OK;
}

void wring_solo_finish(struct wring_solo *solo)
{
    for (size_t s = 0; s < WRING_CODEC_STATES_MAX; s++)
        free(solo->states[s]);
    for (size_t r = 0; r < WRING_CODEC_ROUNDS_MAX; r++)
        free(solo->statistics[r]);
    free(solo->scratch);
    *solo = (struct wring_solo){0};
}

/** What sum_end leaves of a sum: its length does not depend on the codes that were added. */
static enum wring_status end_sum(const struct wring_codec *codec, uint64_t elems, size_t bytes,
                                 size_t *out)
{
    struct wring_codec_context context = {
        .seed = 1, .ranks = 2, .phase = 1, .elems = elems, .rows = 1, .columns = elems};
    struct wring_solo solo;
    uint64_t cut = 0;
    void *sum = calloc(1, bytes + 1);

    if (sum == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_solo_init(&solo, codec, &context);
    if (status == WRING_OK) {
        *out = codec->ops->sum_end(codec, &context, sum, elems, &cut);
        wring_solo_finish(&solo);
    }
    free(sum);
    return status;
}

enum wring_status wring_solo_sum_bytes(const struct wring_codec *codec, uint64_t elems, size_t *out)
{
    const struct wring_codec_ops *ops = codec->ops;
    size_t bytes =
        ops->sum_bound != NULL ? ops->sum_bound(codec, elems) : wring_codec_bound(codec, elems);

    if (ops->sum_end != NULL)
        return end_sum(codec, elems, bytes, out);
    *out = bytes;
    return WRING_OK;
}
