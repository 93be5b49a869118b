/* SPDX-License-Identifier: Apache-2.0 */
/**
 * bf16: the upper half of each float32, rounded to nearest, or at random (arXiv:1502.02551).
 * Bytes in FORMAT.md, "bf16".
 */
#include "compress/kernels/bf16.h"
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

static enum wring_status bf16_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    if (is_random(codec) && !(codec->info.flags & WRING_CODEC_FEEDBACK))
        codec->info.flags |= WRING_CODEC_UNBIASED;
    wring_codec_take_kernels(codec, wring_bf16_tiers, sizeof(wring_bf16_tiers[0]));
    return WRING_OK;
}

static uint64_t bf16_unit(const struct wring_codec *codec)
{
    (void)codec;
    return 1;
}

static size_t bf16_bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * 2;
}

static size_t bf16_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct wring_bf16_tier *tier = codec->kernels;

    (void)scratch;
    if (is_random(codec))
        return wring_cast_random(codec, context, tier->kernels->encode_random, WRING_BF16_LARGEST,
                                 src, elems, residual, code);
    if (residual != NULL)
        tier->kernels->encode_feedback(code, src, residual, elems);
    else
        tier->kernels->encode(code, src, elems);
    return elems * 2;
}

static enum wring_status bf16_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const struct wring_bf16_tier *tier = codec->kernels;

    (void)context;
    if (code_bytes != elems * 2)
        return WRING_ERR_FRAME;
    (add ? tier->kernels->decode_add : tier->kernels->decode)(dst, code, elems);
    return WRING_OK;
}

const struct wring_codec_ops wring_codec_bf16 = {
    .name = "bf16",
    .doc = "float32 rounded to its upper 16 bits",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = bf16_init,
    .unit = bf16_unit,
    .bound = bf16_bound,
    .encode = bf16_encode,
    .decode = bf16_decode,
};
