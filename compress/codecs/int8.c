/* SPDX-License-Identifier: Apache-2.0 */
/** int8: blocks of 8-bit steps of the block's largest magnitude, or of its range, which ints.c
 * does. Bytes in FORMAT.md, "int8". */
#include "compress/codecs/ints.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/int8.h"
#include "compress/kernels/streaming.h"

enum {
    PARAM_BLOCK,
    PARAM_RANGE
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share a scale", 512, 32, 65536, 32},
    [PARAM_RANGE] = {"range", "absmax|minmax", "of steps: around 0, or from least to largest", 0, 0,
                     1, 1},
};

static uint64_t int8_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

/** From least to largest. */
static bool has_range(const struct wring_codec *codec)
{
    return codec->params[PARAM_RANGE] != 0;
}

static enum wring_status int8_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    if (has_range(codec))
        wring_ints_init(codec, 8, true);
    else
        wring_codec_take_kernels(codec, wring_int8_tiers, sizeof(wring_int8_tiers[0]));
    return WRING_OK;
}

static size_t int8_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = int8_unit(codec);

    if (has_range(codec))
        return wring_ints_bound(codec, elems);
    return elems / unit * (WRING_INT8_HEAD + unit) +
           (elems % unit != 0 ? WRING_INT8_HEAD + elems % unit : 0);
}

static size_t int8_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct wring_int8_tier *tier = codec->kernels;

    if (has_range(codec))
        return wring_ints_encode(codec, context, src, elems, residual, code, scratch);
    tier->kernels->encode(code, src, residual, elems, codec->info.unit);
    return int8_bound(codec, elems);
}

static enum wring_status decode_block(const struct wring_int8_kernels *kernels,
                                      const unsigned char *code, float *dst, uint64_t n, bool add)
{
    uint32_t scale_bits = wring_take_u32(code);
    const int8_t *steps = (const int8_t *)(code + WRING_INT8_HEAD);
    float scale = wring_float_of(scale_bits);

    if (scale_bits == WRING_NAN_BITS)
        wring_codec_fill_nan(dst, n);
    else if (scale_bits > wring_bits_of(WRING_INT8_SCALE_MAX))
        return WRING_ERR_FRAME; /* negative, infinite, another NaN, or too large */
    else
        (add ? kernels->decode_add : kernels->decode)(dst, steps, n, scale);
    return WRING_OK;
}

/** Whole units of about a page, or one that is longer: what a long call works on at a time. */
static uint64_t stretch_of(uint64_t unit)
{
    return unit < WRING_PAGE ? WRING_PAGE / unit * unit : unit;
}

static enum wring_status decode_stretch(const struct wring_codec *codec, const unsigned char *code,
                                        float *dst, uint64_t n, bool add)
{
    const struct wring_int8_tier *tier = codec->kernels;
    enum wring_status status = WRING_OK;

    for (uint64_t done = 0; done < n && status == WRING_OK; done += codec->info.unit) {
        uint64_t live = wring_codec_unit_length(codec->info.unit, n - done);
        status = decode_block(tier->kernels, code, dst + done, live, add);
        code += WRING_INT8_HEAD + live;
    }
    return status;
}

static enum wring_status int8_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t stretch = stretch_of(codec->info.unit);
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    if (has_range(codec))
        return wring_ints_decode(codec, context, code, code_bytes, dst, elems, add);
    if (code_bytes != int8_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += stretch) {
        uint64_t n = wring_codec_unit_length(stretch, elems - done);
        size_t bytes = int8_bound(codec, n);
        if (add && WRING_IS_LONG(elems)) {
            wring_streaming_fetch(at, bytes);
            wring_streaming_fetch(dst + done, n * sizeof(*dst));
        }
        status = decode_stretch(codec, at, dst + done, n, add);
        at += bytes;
    }
    return status;
}

const struct wring_codec_ops wring_codec_int8 = {
    .name = "int8",
    .doc = "8-bit steps of each block's largest magnitude, or of its range",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_ints_plan),
    .init = int8_init,
    .unit = int8_unit,
    .bound = int8_bound,
    .encode = int8_encode,
    .decode = int8_decode,
};
