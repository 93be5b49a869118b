/* SPDX-License-Identifier: Apache-2.0 */
/** fp16: each float32 as IEEE binary16. Bytes in FORMAT.md, "fp16". */
#include "compress/kernels/fp16.h"
#include "compress/codec.h"

static enum wring_status fp16_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
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
    .init = fp16_init,
    .unit = fp16_unit,
    .bound = fp16_bound,
    .encode = fp16_encode,
    .decode = fp16_decode,
};
