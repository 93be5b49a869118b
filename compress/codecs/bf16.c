/* SPDX-License-Identifier: Apache-2.0 */
/** bf16: the upper half of each float32, rounded. Bytes in FORMAT.md, "bf16". */
#include "compress/kernels/bf16.h"
#include "compress/codec.h"

static enum wring_status bf16_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
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

    (void)context, (void)scratch;
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
    .init = bf16_init,
    .unit = bf16_unit,
    .bound = bf16_bound,
    .encode = bf16_encode,
    .decode = bf16_decode,
};
