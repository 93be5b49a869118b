/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/momentum.h"

#include <string.h>

#define UNIT 32

enum {
    PARAM_FACTOR
};

static const struct wring_codec_param params[] = {
    [PARAM_FACTOR] = {"factor", NULL, "of what was before", 0.5, 0, 1, 0},
};

static uint64_t unit(const struct wring_codec *codec)
{
    (void)codec;
    return UNIT;
}

static size_t bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * sizeof(float);
}

static size_t send(const float *values, uint64_t elems, void *code)
{
    memcpy(code, values, elems * sizeof(*values));
    return elems * sizeof(*values);
}

/** m = factor m + x, and that is sent. */
static size_t send_momentum(const struct wring_codec *codec,
                            const struct wring_codec_context *context, const float *src,
                            uint64_t elems, void *code)
{
    float factor = (float)wring_codec_param(codec, PARAM_FACTOR);
    float *momentum = (float *)context->states[0] + context->element;

    for (uint64_t i = 0; i < elems; i++)
        momentum[i] = factor * momentum[i] + src[i];
    return send(momentum, elems, code);
}

static enum wring_status decode(const struct wring_codec *codec,
                                const struct wring_codec_context *context, const void *code,
                                size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const unsigned char *at = code;

    (void)codec, (void)context;
    if (code_bytes != elems * sizeof(float))
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i++, at += sizeof(float)) {
        float x;
        memcpy(&x, at, sizeof(x));
        dst[i] = add ? dst[i] + x : x;
    }
    return WRING_OK;
}

static size_t mom_encode(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, uint64_t elems, float *residual, void *code,
                         void *scratch)
{
    (void)residual, (void)scratch;
    return context->phase == 0 ? send_momentum(codec, context, src, elems, code)
                               : send(src, elems, code);
}

static size_t ownmom_encode(const struct wring_codec *codec,
                            const struct wring_codec_context *context, const float *src,
                            uint64_t elems, float *residual, void *code, void *scratch)
{
    (void)residual, (void)scratch;
    return context->phase == 1 ? send_momentum(codec, context, src, elems, code)
                               : send(src, elems, code);
}

static const struct wring_codec_state mom_state = {
    .name = "mom",
    .doc = "momentum of the rank's contributions",
    .holder = WRING_CODEC_PRIVATE,
    .dtype = WRING_F32,
};

static const struct wring_codec_ops mom = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "mom",
    .doc = "momentum before the sum",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_EXACT | WRING_CODEC_ALTERS,
    .params = params,
    .n_params = 1,
    .unit = unit,
    .bound = bound,
    .encode = mom_encode,
    .decode = decode,
    .states = &mom_state,
    .n_states = 1,
};

static const struct wring_codec_state ownmom_state = {
    .name = "sums",
    .doc = "momentum of the sums that the rank owns",
    .holder = WRING_CODEC_OWNER,
    .dtype = WRING_F32,
};

static const struct wring_codec_ops ownmom = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "ownmom",
    .doc = "momentum after the sum",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_EXACT | WRING_CODEC_ALTERS,
    .params = params,
    .n_params = 1,
    .unit = unit,
    .bound = bound,
    .encode = ownmom_encode,
    .decode = decode,
    .states = &ownmom_state,
    .n_states = 1,
};

/* ---- warm: a table that a round changes, on all ranks alike ---- */

static uint64_t one(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    (void)codec, (void)context;
    return 1;
}

static void fill_table(const struct wring_codec *codec, const struct wring_codec_context *context,
                       void *state, uint64_t count)
{
    (void)codec, (void)context;
    for (uint64_t i = 0; i < count; i++)
        ((int64_t *)state)[i] = 10;
}

static void say_nothing(const struct wring_codec *codec, const struct wring_codec_context *context,
                        const float *src, uint64_t elems, const float *residual, void *statistics,
                        void *scratch)
{
    (void)codec, (void)context, (void)src, (void)elems, (void)residual, (void)statistics;
    (void)scratch;
}

static void count_down(const struct wring_codec *codec, const struct wring_codec_context *context,
                       void *statistics, uint64_t count)
{
    int64_t *table = context->states[0];
    (void)codec, (void)statistics, (void)count;
    table[0]--;
}

static const struct wring_codec_round warm_round = {
    .name = "step",
    .dtype = WRING_F32,
    .op = WRING_SUM,
    .count = one,
    .begin = say_nothing,
    .end = count_down,
};

static const struct wring_codec_state warm_state = {
    .name = "table",
    .doc = "steps that are left",
    .holder = WRING_CODEC_SHARED,
    .dtype = WRING_I64,
    .count = one,
    .init = fill_table,
};

static size_t warm_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    const int64_t *table = context->states[0];
    float times = context->phase == 0 ? (float)table[0] : 1;

    (void)codec, (void)residual, (void)scratch;
    for (uint64_t i = 0; i < elems; i++) {
        float x = src[i] * times;
        memcpy((char *)code + i * sizeof(x), &x, sizeof(x));
    }
    return elems * sizeof(float);
}

static const struct wring_codec_ops warm = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "warm",
    .doc = "each step by another factor",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_EXACT | WRING_CODEC_ALTERS,
    .unit = unit,
    .bound = bound,
    .encode = warm_encode,
    .decode = decode,
    .rounds = &warm_round,
    .n_rounds = 1,
    .states = &warm_state,
    .n_states = 1,
};

const struct wring_codec_ops *const momentum_codecs[] = {&mom, &ownmom, &warm, NULL};
