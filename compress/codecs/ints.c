/* SPDX-License-Identifier: Apache-2.0 */
/**
 * int4, int2: blocks of 4- or 2-bit steps of the block's largest magnitude, or of its range.
 *
 * Block-wise absmax is that of arXiv:2110.02861; a block's minimum and range are those of bucketed
 * quantisation in arXiv:1610.02132 and of affine integers in arXiv:1712.05877. Codes have a fixed
 * width. Bytes in FORMAT.md, "int4 and int2".
 */
#include "compress/codecs/ints.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/streaming.h"

enum {
    PARAM_BLOCK,
    PARAM_RANGE
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share a scale", 128, 32, 65536, 32},
    [PARAM_RANGE] = {"range", "absmax|minmax", "of steps: around 0, or from least to largest", 0, 0,
                     1, 1},
};

static const struct wring_ints_plan *plan_of(const struct wring_codec *codec)
{
    return codec->own;
}

void wring_ints_init(struct wring_codec *codec, unsigned bits, bool minmax)
{
    struct wring_ints_plan *plan = codec->own;
    unsigned width = bits / 4; /* place of 2, 4 and 8 */

    wring_codec_take_kernels(codec, wring_ints_tiers, sizeof(wring_ints_tiers[0]));
    const struct wring_ints_kernels *kernels =
        ((const struct wring_ints_tier *)codec->kernels)->kernels;
    plan->bits = bits;
    plan->minmax = minmax;
    plan->head = minmax ? 2 * WRING_INTS_HEAD : WRING_INTS_HEAD;
    plan->form = minmax ? &kernels->minmax[width] : &kernels->absmax[width];
    if (minmax)
        plan->scale_max = WRING_INTS_MINMAX((float)((1u << bits) - 1));
    else
        plan->scale_max = bits == 4 ? WRING_INTS_ABSMAX_4 : WRING_INTS_ABSMAX_2;
}

static size_t block_bytes(const struct wring_ints_plan *plan, uint64_t n)
{
    return plan->head + (n * plan->bits + 7) / 8;
}

size_t wring_ints_bound(const struct wring_codec *codec, uint64_t elems)
{
    const struct wring_ints_plan *plan = plan_of(codec);
    uint64_t unit = codec->ops->unit(codec);

    return elems / unit * block_bytes(plan, unit) +
           (elems % unit != 0 ? block_bytes(plan, elems % unit) : 0);
}

/** Whole units of about a page, or one that is longer: what a long call works on at a time. */
static uint64_t stretch_of(uint64_t unit)
{
    return unit < WRING_PAGE ? WRING_PAGE / unit * unit : unit;
}

size_t wring_ints_encode(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, uint64_t elems, float *residual, void *code,
                         void *scratch)
{
    uint64_t unit = codec->info.unit, stretch = stretch_of(unit);
    unsigned char *at = code;

    (void)context, (void)scratch;
    for (uint64_t done = 0; done < elems; done += stretch) {
        uint64_t n = wring_codec_unit_length(stretch, elems - done);
        if (WRING_IS_LONG(elems))
            wring_streaming_fetch_ahead(src + done, n, residual != NULL);
        plan_of(codec)->form->encode(at, src + done, residual != NULL ? residual + done : NULL, n,
                                     unit);
        at += wring_ints_bound(codec, n);
    }
    return (size_t)(at - (unsigned char *)code);
}

static enum wring_status decode_block(const struct wring_ints_plan *plan, const unsigned char *code,
                                      float *dst, uint64_t n, bool add)
{
    uint32_t scale = wring_take_u32(code);
    uint32_t low = plan->minmax ? wring_take_u32(code + WRING_INTS_HEAD) : 0;

    if (scale == WRING_NAN_BITS) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (scale > wring_bits_of(plan->scale_max)) /* below zero, not finite, or too large */
        return WRING_ERR_FRAME;
    if ((low & WRING_ABS_BITS) > wring_bits_of(WRING_INTS_LIMIT))
        return WRING_ERR_FRAME;
    (add ? plan->form->decode_add : plan->form->decode)(
        dst, code + plan->head, n,
        (struct wring_ints_scale){wring_float_of(scale), wring_float_of(low)});
    return WRING_OK;
}

static enum wring_status decode_stretch(const struct wring_codec *codec, const unsigned char *code,
                                        float *dst, uint64_t n, bool add)
{
    uint64_t unit = codec->info.unit;
    enum wring_status status = WRING_OK;

    for (uint64_t done = 0; done < n && status == WRING_OK; done += unit) {
        uint64_t live = wring_codec_unit_length(unit, n - done);
        status = decode_block(plan_of(codec), code, dst + done, live, add);
        code += block_bytes(plan_of(codec), live);
    }
    return status;
}

enum wring_status wring_ints_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context, const void *code,
                                    size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t stretch = stretch_of(codec->info.unit);
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    (void)context;
    if (code_bytes != wring_ints_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += stretch) {
        uint64_t n = wring_codec_unit_length(stretch, elems - done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch(dst + done, n * sizeof(*dst));
        status = decode_stretch(codec, at, dst + done, n, add);
        at += wring_ints_bound(codec, n);
    }
    return status;
}

static uint64_t ints_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status init_of(struct wring_codec *codec, unsigned bits)
{
    wring_ints_init(codec, bits, codec->params[PARAM_RANGE] != 0);
    return WRING_OK;
}

static enum wring_status int4_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    return init_of(codec, 4);
}

static enum wring_status int2_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    return init_of(codec, 2);
}

const struct wring_codec_ops wring_codec_int4 = {
    .name = "int4",
    .doc = "4-bit steps of each block's largest magnitude, or of its range",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_ints_plan),
    .init = int4_init,
    .unit = ints_unit,
    .bound = wring_ints_bound,
    .encode = wring_ints_encode,
    .decode = wring_ints_decode,
};

const struct wring_codec_ops wring_codec_int2 = {
    .name = "int2",
    .doc = "2-bit steps of each block's largest magnitude, or of its range",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_ints_plan),
    .init = int2_init,
    .unit = ints_unit,
    .bound = wring_ints_bound,
    .encode = wring_ints_encode,
    .decode = wring_ints_decode,
};
