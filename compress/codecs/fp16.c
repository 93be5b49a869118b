/* SPDX-License-Identifier: Apache-2.0 */
/**
 * fp16: each float32 as IEEE binary16, rounded to nearest, or at random (arXiv:1502.02551).
 * Bytes in FORMAT.md, "fp16".
 */
#include "compress/kernels/fp16.h"
#include "compress/codecs/casts.h"

enum {
    PARAM_ROUND
};

static const struct wring_codec_param params[] = {
    [PARAM_ROUND] = {"round", "nearest|random", "to the nearest code, or up or down at random", 0,
                     0, 1, 1},
};

static bool is_random(const struct wring_codec *codec)
{
    return codec->params[PARAM_ROUND] != 0;
}

static enum wring_status fp16_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    if (is_random(codec) && !(codec->info.flags & WRING_CODEC_FEEDBACK))
        codec->info.flags |= WRING_CODEC_UNBIASED;
    wring_codec_take_kernels(codec, wring_fp16_tiers, sizeof(wring_fp16_tiers[0]));
    return WRING_OK;
}

static uint64_t fp16_unit(const struct wring_codec *codec)
{
    (void)codec;
    return 1;
}

static size_t fp16_bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * 2;
}

/**
 * A value that is too large goes on as infinity, so that loss scaling sees it, except where a
 * residual keeps the excess, and in a sum of values that each were in range.
 */
static size_t fp16_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct wring_fp16_tier *tier = codec->kernels;
    (void)scratch;
    uint32_t top = context->phase == 0 ? WRING_FP16_OVERFLOW : WRING_FP16_SATURATE;

    if (is_random(codec))
        return wring_cast_random(codec, context, tier->kernels->encode_random,
                                 residual != NULL ? WRING_FP16_SATURATE : top, src, elems, residual,
                                 code);
    if (residual != NULL)
        tier->kernels->encode_feedback(code, src, residual, elems);
    else
        tier->kernels->encode(code, src, elems, top);
    return elems * 2;
}

static enum wring_status fp16_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const struct wring_fp16_tier *tier = codec->kernels;

    (void)context;
    if (code_bytes != elems * 2)
        return WRING_ERR_FRAME;
    (add ? tier->kernels->decode_add : tier->kernels->decode)(dst, code, elems);
    return WRING_OK;
}

const struct wring_codec_ops wring_codec_fp16 = {
    .name = "fp16",
    .doc = "float32 rounded to IEEE binary16",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = fp16_init,
    .unit = fp16_unit,
    .bound = fp16_bound,
    .encode = fp16_encode,
    .decode = fp16_decode,
};
