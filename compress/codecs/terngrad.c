/* SPDX-License-Identifier: Apache-2.0 */
/**
 * terngrad: -1, 0 or 1 of a scale that all ranks share, drawn at random so that the expectation of
 * a code is its clipped input.
 *
 * A round finds each block's scale: the largest of all ranks' largest magnitudes, each of which is
 * clipped to some times the block's own standard deviation about 0. Where TernGrad takes a layer,
 * this takes a block, whose scale is nearer to its values.
 *
 * Source: TernGrad (Wen and others, arXiv:1705.07878). Bytes in FORMAT.md, "terngrad".
 */
#include "compress/codec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/qsgd.h"
#include "compress/kernels/streaming.h"
#include "compress/noise.h"

#define TINY 0x1p-100f /* a smaller scale counts as 0 */
#define INT8_BLOCK 512 /* that needs no parameter */
#define LOOK 256       /* elements among which a larger one than is needed is looked for */

enum {
    PARAM_BITS,
    PARAM_CLIP,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_BITS] = {"bits", "2|4|8", "of a level; with 4 or 8 the codes of 7 or 127 ranks add up",
                    0, 0, 2, 1},
    [PARAM_CLIP] = {"clip", NULL, "standard deviations above which values are cut off", 2.5, 1,
                    1000, 0},
    [PARAM_BLOCK] = {"block", NULL, "elements that share a scale", 1024, 32, 65536, 32},
};

static const struct wring_qsgd_kernels *kernels_of(const struct wring_codec *codec)
{
    return ((const struct wring_qsgd_tier *)codec->kernels)->kernels;
}

static const struct wring_qsgd_form *form_of(const struct wring_codec *codec)
{
    return &kernels_of(codec)->forms[WRING_QSGD_LINEAR][(int)codec->params[PARAM_BITS]];
}

static uint64_t terngrad_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static unsigned bits_of(const struct wring_codec *codec)
{
    return 2u << (int)codec->params[PARAM_BITS];
}

static const struct wring_codec_ops adding; /* of wider levels */

static enum wring_status terngrad_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    if (bits_of(codec) > 2)
        codec->ops = &adding;
    wring_codec_take_kernels(codec, wring_qsgd_tiers, sizeof(wring_qsgd_tiers[0]));
    return WRING_OK;
}

static size_t terngrad_bound(const struct wring_codec *codec, uint64_t elems)
{
    return (elems * bits_of(codec) + 7) / 8;
}

static void terngrad_way_back(const struct wring_codec *codec, char *spec)
{
    const char *ef = codec->info.flags & WRING_CODEC_FEEDBACK ? "+ef" : "";
    unsigned block = (unsigned)codec->params[PARAM_BLOCK];

    if (block % INT8_BLOCK == 0)
        snprintf(spec, WRING_CODEC_SPEC_MAX, "int8%s", ef);
    else
        snprintf(spec, WRING_CODEC_SPEC_MAX, "int8:block=%u%s", block, ef);
}

/** As large as a level of so many bits. */
static uint32_t terngrad_most_ranks(const struct wring_codec *codec)
{
    return (1u << (bits_of(codec) - 1)) - 1;
}

/* ---- the round ---- */

static uint64_t count_units(const struct wring_codec *codec,
                            const struct wring_codec_context *context)
{
    uint64_t unit = terngrad_unit(codec);
    return (context->elems + unit - 1) / unit;
}

/** Of the unit with which a run begins, in the statistics. */
static uint64_t unit_of(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    return (context->element - context->first) / codec->info.unit;
}

/** The largest magnitude of all; or one above `most`, which is found among the first ones mostly.
 */
static float peak_up_to(const struct wring_codec *codec, const float *src, const float *residual,
                        uint64_t n, double most)
{
    uint32_t peak = 0;

    for (uint64_t i = 0; i < n && (double)wring_float_of(peak) <= most; i += LOOK) {
        uint32_t some = kernels_of(codec)->peak(src + i, residual != NULL ? residual + i : NULL,
                                                wring_codec_unit_length(LOOK, n - i));
        peak = some > peak ? some : peak;
    }
    return wring_float_of(peak);
}

/** NaN where a value is not finite: it stays through the maximum. */
static float own_scale(const struct wring_codec *codec, const float *src, const float *residual,
                       uint64_t n)
{
    double squares = kernels_of(codec)->squares(src, residual, n);
    if (!(squares < (double)INFINITY))
        return wring_float_of(WRING_NAN_BITS);
    double most = codec->params[PARAM_CLIP] * sqrt(squares / (double)n);
    float peak = peak_up_to(codec, src, residual, n, most);
    return most < (double)peak ? (float)most : peak;
}

static void find_scales(const struct wring_codec *codec, const struct wring_codec_context *context,
                        const float *src, uint64_t elems, const float *residual, void *statistics,
                        void *scratch)
{
    uint64_t unit = codec->info.unit;
    float *scales = (float *)statistics + unit_of(codec, context);

    (void)scratch;
    for (uint64_t done = 0; done < elems; done += unit)
        *scales++ = own_scale(codec, src + done, residual != NULL ? residual + done : NULL,
                              wring_codec_unit_length(unit, elems - done));
}

/** The largest scale of which a sum of all ranks' levels is finite. */
static float scale_max(const struct wring_codec *codec, uint32_t ranks)
{
    float most = FLT_MAX / (float)ranks;

    if (codec->ops->code_sum == NULL)
        return FLT_MAX;
    return most * (float)ranks < INFINITY ? most : wring_float_of(wring_bits_of(most) - 1);
}

static void settle_scales(const struct wring_codec *codec,
                          const struct wring_codec_context *context, void *statistics,
                          uint64_t count)
{
    float *scales = statistics, most = scale_max(codec, context->ranks);

    for (uint64_t i = 0; i < count; i++) {
        if (!(scales[i] >= 0 && scales[i] < INFINITY)) /* and where nobody had anything */
            scales[i] = wring_float_of(WRING_NAN_BITS);
        else if (scales[i] < TINY)
            scales[i] = 0;
        else if (scales[i] > most)
            scales[i] = most;
    }
}

static const struct wring_codec_round rounds[] = {{.name = "scale",
                                                   .dtype = WRING_F32,
                                                   .op = WRING_MAX,
                                                   .count = count_units,
                                                   .begin = find_scales,
                                                   .end = settle_scales}};

static const float *scales_of(const struct wring_codec *codec,
                              const struct wring_codec_context *context)
{
    return (const float *)context->statistics[0] + unit_of(codec, context);
}

/* ---- codes ---- */

/**
 * The variance of a code is at most clip - 1 times the square of its block, if that has the largest
 * scale: the sum of scale · |v| is at most clip · n · deviation². So codes under feedback are 1 /
 * clip of the scale.
 */
static float step_of(const struct wring_codec *codec, float scale)
{
    bool fed = codec->info.flags & WRING_CODEC_FEEDBACK;
    return fed ? scale * (float)(1 / codec->params[PARAM_CLIP]) : scale;
}

static void encode_unit(const struct wring_codec *codec, struct wring_noise *noise,
                        uint64_t element, const float *src, float *residual, uint64_t n,
                        uint64_t left, float scale, unsigned char *code)
{
    if (!(scale >= 0)) {
        memset(code, 0, terngrad_bound(codec, n));
        return;
    }
    const struct wring_qsgd_scale steps = {scale > 0 ? 0x1p16f / scale : 0, step_of(codec, scale),
                                           1 << 16};
    for (uint64_t i = 0; i < n; i += WRING_NOISE_WINDOW) {
        uint64_t some = wring_codec_unit_length(WRING_NOISE_WINDOW, n - i);
        form_of(codec)->encode(code + terngrad_bound(codec, i), src + i,
                               residual != NULL ? residual + i : NULL, some, &steps,
                               wring_noise_of(noise, element + i, some, left - i));
    }
}

static size_t terngrad_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code, void *scratch)
{
    uint64_t unit = codec->info.unit;
    const float *scales = elems > 0 ? scales_of(codec, context) : NULL;
    struct wring_noise noise;

    (void)scratch;
    wring_noise_begin(&noise, codec, context);
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (WRING_IS_LONG(elems))
            wring_streaming_fetch_unit(src + done, n);
        encode_unit(codec, &noise, context->element + done, src + done,
                    residual != NULL ? residual + done : NULL, n, elems - done, *scales++,
                    (unsigned char *)code + terngrad_bound(codec, done));
    }
    return terngrad_bound(codec, elems);
}

static enum wring_status terngrad_decode(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const void *code, size_t code_bytes, float *dst,
                                         uint64_t elems, bool add)
{
    const struct wring_qsgd_form *form = form_of(codec);
    const float *scales = elems > 0 ? scales_of(codec, context) : NULL;
    uint64_t unit = codec->info.unit;

    if (code_bytes != terngrad_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems; done += unit, scales++) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        const unsigned char *at = (const unsigned char *)code + terngrad_bound(codec, done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch_unit(dst + done, n);
        if (*scales >= 0)
            (add ? form->decode_add : form->decode)(dst + done, at, n, step_of(codec, *scales));
        else
            wring_codec_fill_nan(dst + done, n);
    }
    return WRING_OK;
}

/** Add the levels of a word, each by itself. @return the sign bits of those that overflow */
static uint64_t add_levels(uint64_t *levels, uint64_t others, uint64_t signs)
{
    uint64_t a = *levels, sum = ((a & ~signs) + (others & ~signs)) ^ ((a ^ others) & signs);

    *levels = sum;
    return (a ^ sum) & (others ^ sum) & signs;
}

static enum wring_status terngrad_sum(const struct wring_codec *codec,
                                      const struct wring_codec_context *context, void *code,
                                      const void *other, size_t code_bytes, uint64_t elems)
{
    const uint64_t signs = bits_of(codec) == 4 ? 0x8888888888888888u : 0x8080808080808080u;
    uint64_t over = 0;

    (void)context;
    if (code_bytes != terngrad_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (size_t at = 0; at < code_bytes; at += sizeof(uint64_t)) {
        uint64_t levels = 0, others = 0;
        size_t some = code_bytes - at < sizeof(levels) ? code_bytes - at : sizeof(levels);
        memcpy(&levels, (char *)code + at, some);
        memcpy(&others, (const char *)other + at, some);
        over |= add_levels(&levels, others, signs);
        memcpy((char *)code + at, &levels, some);
    }
    return over == 0 ? WRING_OK : WRING_ERR_FRAME;
}

/* What both tables have in common. */
#define TERNGRAD                                                                                  \
    .name = "terngrad", .doc = "-1, 0 or 1 of a scale that all ranks share, drawn at random",     \
    .flags = WRING_CODEC_FIXED, .params = params, .n_params = sizeof(params) / sizeof(params[0]), \
    .init = terngrad_init, .unit = terngrad_unit, .bound = terngrad_bound,                        \
    .encode = terngrad_encode, .decode = terngrad_decode, .rounds = rounds,                       \
    .n_rounds = sizeof(rounds) / sizeof(rounds[0])

static const struct wring_codec_ops adding = {
    TERNGRAD,
    .code_sum = terngrad_sum,
    .most_ranks = terngrad_most_ranks,
};

const struct wring_codec_ops wring_codec_terngrad = {
    TERNGRAD,
    .way_back = terngrad_way_back,
};
