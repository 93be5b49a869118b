/* SPDX-License-Identifier: Apache-2.0 */
/** int8: blocks of 8-bit steps of the block's largest magnitude. Bytes in FORMAT.md, "int8". */
#include "compress/codec.h"

#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/quant.h"

#define STEPS 127
#define TINY_PEAK 0x1p-119f        /* below, the scale would be denormal: the block counts as 0 */
#define SCALE_MAX 0x1.020406p+121f /* the largest whose 127-fold is finite */
#define HEAD 4                     /* bytes of the scale */

enum {
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share a scale", 512, 32, 65536, 32},
};

static uint64_t int8_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status int8_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_quant_tiers, sizeof(wring_quant_tiers[0]));
    return WRING_OK;
}

static size_t int8_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = int8_unit(codec);
    return elems / unit * (HEAD + unit) + (elems % unit != 0 ? HEAD + elems % unit : 0);
}

static float scale_of(float peak)
{
    float scale = peak / STEPS;
    return scale < SCALE_MAX ? scale : SCALE_MAX;
}

static void encode_block(const struct wring_quant_kernels *kernels, const float *src, uint64_t n,
                         float *residual, unsigned char *code)
{
    uint32_t peak_bits = kernels->peak(src, residual, n);
    float peak = wring_float_of(peak_bits);
    int8_t *steps = (int8_t *)(code + HEAD);

    if (peak_bits >= WRING_INF_BITS) {
        wring_put_u32(code, WRING_NAN_BITS);
        memset(steps, 0, n);
        return;
    }
    /* A block that counts as 0 takes the same way with inverse 0: all codes are 0. */
    float scale = peak < TINY_PEAK ? 0 : scale_of(peak);
    float inverse = peak < TINY_PEAK ? 0 : STEPS / peak;
    wring_put_u32(code, wring_bits_of(scale));
    if (residual != NULL)
        kernels->encode_feedback(steps, src, residual, n, inverse, scale);
    else
        kernels->encode(steps, src, n, inverse);
}

static size_t int8_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code)
{
    const struct wring_quant_tier *tier = codec->kernels;
    uint64_t unit = codec->info.unit;
    unsigned char *at = code;

    (void)context;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        encode_block(tier->kernels, src + done, n, residual != NULL ? residual + done : NULL, at);
        at += HEAD + n;
    }
    return (size_t)(at - (unsigned char *)code);
}

static enum wring_status decode_block(const struct wring_quant_kernels *kernels,
                                      const unsigned char *code, float *dst, uint64_t n, bool add)
{
    uint32_t scale_bits = wring_take_u32(code);
    const int8_t *steps = (const int8_t *)(code + HEAD);
    float scale = wring_float_of(scale_bits);

    if (scale_bits == WRING_NAN_BITS)
        wring_codec_fill_nan(dst, n);
    else if (scale_bits > wring_bits_of(SCALE_MAX))
        return WRING_ERR_FRAME; /* negative, infinite, another NaN, or too large */
    else
        (add ? kernels->decode_add : kernels->decode)(dst, steps, n, scale);
    return WRING_OK;
}

static enum wring_status int8_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const struct wring_quant_tier *tier = codec->kernels;
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    (void)context;
    if (code_bytes != int8_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        status = decode_block(tier->kernels, at, dst + done, n, add);
        at += HEAD + n;
    }
    return status;
}

const struct wring_codec_ops wring_codec_int8 = {
    .name = "int8",
    .doc = "8-bit steps of each block's largest magnitude",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = int8_init,
    .unit = int8_unit,
    .bound = int8_bound,
    .encode = int8_encode,
    .decode = int8_decode,
};
