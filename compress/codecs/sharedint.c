/* SPDX-License-Identifier: Apache-2.0 */
/**
 * sharedint: whole steps of a scale that all ranks share, so that codes add up and a sum is rounded
 * once, by each rank for itself.
 *
 * A round finds each block's largest magnitude of any rank. Steps are as fine as the width allows
 * the sum of all ranks' to be: with 8 bits, 63 levels of either sign for 2 ranks, 15 for 8. Codes
 * of 4 bits have 7 for up to 18 ranks, and their sums 8 bits.
 * Integers that are summed on the way: SwitchML (Sapio and others, arXiv:1903.06701), IntSGD
 * (arXiv:2102.08374). Bytes in FORMAT.md, "sharedint".
 */
#include "compress/codec.h"

#include <math.h>

#include "compress/codecs/shared_steps.h"
#include "compress/kernels/bits.h"
#include "compress/kernels/streaming.h"

#define TINY 0x1p-96f /* a smaller peak counts as 0 */

enum {
    PARAM_WIDTH,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_WIDTH] = {"width", WRING_SHARED_STEPS_WIDTHS, "bits of a code", 1, 0, 2, 1},
    [PARAM_BLOCK] = {"block", NULL, "elements that share a scale", 512, 32, 65536, 32},
};

static const struct wring_shared_steps *steps_of(const struct wring_codec *codec)
{
    return codec->own;
}

static enum wring_status sharedint_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct wring_shared_steps *own = codec->own;

    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_steps_tiers, sizeof(wring_steps_tiers[0]));
    *own = wring_shared_steps_make(codec->params[PARAM_WIDTH], false, codec->tier);
    return WRING_OK;
}

static uint64_t sharedint_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static size_t sharedint_bound(const struct wring_codec *codec, uint64_t elems)
{
    return wring_shared_steps_bytes(steps_of(codec)->code, elems);
}

static size_t sharedint_sum_bound(const struct wring_codec *codec, uint64_t elems)
{
    return wring_shared_steps_bytes(steps_of(codec)->sum, elems);
}

static uint32_t sharedint_most_ranks(const struct wring_codec *codec)
{
    return wring_shared_steps_most_ranks(steps_of(codec));
}

/* ---- the round ---- */

static uint64_t count_units(const struct wring_codec *codec,
                            const struct wring_codec_context *context)
{
    uint64_t unit = sharedint_unit(codec);
    return (context->elems + unit - 1) / unit;
}

/** Of the unit at an element of the bucket, in the statistics. */
static uint64_t unit_at(const struct wring_codec *codec, const struct wring_codec_context *context,
                        uint64_t element)
{
    return (element - context->first) / codec->info.unit;
}

static void find_peaks(const struct wring_codec *codec, const struct wring_codec_context *context,
                       const float *src, uint64_t elems, const float *residual, void *statistics,
                       void *scratch)
{
    const struct wring_steps_kernels *kernels = steps_of(codec)->kernels;
    uint64_t unit = codec->info.unit;
    float *peaks = (float *)statistics + unit_at(codec, context, context->element);

    (void)scratch;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        uint32_t peak = kernels->peak(src + done, residual != NULL ? residual + done : NULL, n);
        *peaks++ = wring_float_of(peak < WRING_INF_BITS ? peak : WRING_NAN_BITS);
    }
}

/** A peak of all ranks becomes the scale: 0 where there is nothing, NaN where it is not finite. */
static float scale_of(float peak, float most)
{
    float scale = peak / most;

    if (!(peak >= 0 && scale < INFINITY))
        return wring_float_of(WRING_NAN_BITS);
    if (peak < TINY)
        return 0;
    return scale * most < INFINITY ? scale : wring_float_of(wring_bits_of(scale) - 1);
}

static void make_scales(const struct wring_codec *codec, const struct wring_codec_context *context,
                        void *statistics, uint64_t count)
{
    float *scales = statistics;
    float most = (float)wring_shared_steps_most(steps_of(codec), context->ranks);

    for (uint64_t i = 0; i < count; i++)
        scales[i] = scale_of(scales[i], most);
}

static const struct wring_codec_round rounds[] = {{.name = "scale",
                                                   .dtype = WRING_F32,
                                                   .op = WRING_MAX,
                                                   .count = count_units,
                                                   .begin = find_peaks,
                                                   .end = make_scales}};

static const float *scales_at(const struct wring_codec *codec,
                              const struct wring_codec_context *context)
{
    return (const float *)context->statistics[0] + unit_at(codec, context, context->element);
}

/* ---- codes ---- */

static size_t sharedint_encode(const struct wring_codec *codec,
                               const struct wring_codec_context *context, const float *src,
                               uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct wring_shared_steps *form = steps_of(codec);
    const struct wring_steps_width *width = wring_shared_steps_width(form, form->code);
    const float *scales = elems > 0 ? scales_at(codec, context) : NULL;
    uint64_t unit = codec->info.unit;
    size_t unit_bytes = wring_shared_steps_bytes(form->code, unit);
    float most = (float)wring_shared_steps_most(form, context->ranks);
    unsigned char *steps = code;

    (void)scratch;
    for (uint64_t done = 0; done < elems; done += unit, scales++, steps += unit_bytes) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (WRING_IS_LONG(elems) && residual == NULL)
            wring_streaming_enter(src + done + n);
        if (*scales >= 0)
            width->encode(steps, src + done, residual != NULL ? residual + done : NULL, n, *scales,
                          *scales > 0 ? 1 / *scales : 0, most);
        else
            memset(steps, 0, wring_shared_steps_bytes(form->code, n));
    }
    return wring_shared_steps_bytes(form->code, elems);
}

static enum wring_status sharedint_decode(const struct wring_codec *codec,
                                          const struct wring_codec_context *context,
                                          const void *code, size_t code_bytes, float *dst,
                                          uint64_t elems, bool add)
{
    const struct wring_shared_steps *form = steps_of(codec);
    unsigned bits = wring_shared_steps_bits(form, context->phase);
    const struct wring_steps_width *width = wring_shared_steps_width(form, bits);
    const float *scales = elems > 0 ? scales_at(codec, context) : NULL;
    uint64_t unit = codec->info.unit;
    size_t unit_bytes = wring_shared_steps_bytes(bits, unit);
    const unsigned char *steps = code;

    if (code_bytes != wring_shared_steps_bytes(bits, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems; done += unit, scales++, steps += unit_bytes) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch_unit(dst + done, n);
        if (*scales >= 0)
            (add ? width->decode_add : width->decode)(dst + done, steps, n, *scales);
        else
            wring_codec_fill_nan(dst + done, n);
    }
    return WRING_OK;
}

static enum wring_status sharedint_sum(const struct wring_codec *codec,
                                       const struct wring_codec_context *context, void *sum,
                                       const void *code, size_t code_bytes, uint64_t elems)
{
    (void)context;
    return wring_shared_steps_add(steps_of(codec), sum, code, code_bytes, elems);
}

const struct wring_codec_ops wring_codec_sharedint = {
    .name = "sharedint",
    .doc = "steps of a scale that all ranks share, whose sums are exact",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_shared_steps),
    .init = sharedint_init,
    .unit = sharedint_unit,
    .bound = sharedint_bound,
    .encode = sharedint_encode,
    .decode = sharedint_decode,
    .rounds = rounds,
    .n_rounds = sizeof(rounds) / sizeof(rounds[0]),
    .code_sum = sharedint_sum,
    .most_ranks = sharedint_most_ranks,
    .sum_bound = sharedint_sum_bound,
};
