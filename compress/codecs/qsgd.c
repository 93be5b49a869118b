/* SPDX-License-Identifier: Apache-2.0 */
/**
 * qsgd: levels of each block's norm, of 2, 4 or 8 bits, rounded up or down at random so that the
 * expectation is the input.
 *
 * Levels that are equally far apart are those of QSGD (arXiv:1610.02132) and of linear dithering,
 * powers of two those of natural dithering (arXiv:1905.10988). Codes have a fixed width: entropy
 * codes are too slow to gain time. Bytes in FORMAT.md, "qsgd".
 */
#include "compress/codec.h"

#include <float.h>
#include <math.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/qsgd.h"
#include "compress/kernels/streaming.h"
#include "compress/noise.h"

#define HEAD 4 /* bytes of a block's step */
#define UNIT_MIN 32
#define TINY 0x1p-100f /* a smaller norm counts as 0: no step is a denormal */

enum {
    PARAM_BITS,
    PARAM_NORM,
    PARAM_PARTITION,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_BITS] = {"bits", "2|4|8", "of a level, its sign included", 1, 0, 2, 1},
    [PARAM_NORM] = {"norm", "max|l2", "what a block's levels are parts of", 0, 0, 1, 1},
    [PARAM_PARTITION] = {"partition", "linear|natural",
                         "levels are equally far apart, or powers of two", 0, 0, 1, 1},
    [PARAM_BLOCK] = {"block", NULL, "elements that share a norm", 256, UNIT_MIN, 65536, 32},
};

/** What follows from the parameters. */
struct plan {
    unsigned bits;
    float levels;   /* s */
    int32_t most;   /* s · 2^16 */
    float keep;     /* 1 / (1 + omega) under error feedback, else 1 */
    float step_max; /* the largest whose s-fold is finite; of powers of two the largest norm */
    bool natural, euclidean;
};

static const struct plan *plan_of(const struct wring_codec *codec)
{
    return codec->own;
}

static const struct wring_qsgd_kernels *kernels_of(const struct wring_codec *codec)
{
    return ((const struct wring_qsgd_tier *)codec->kernels)->kernels;
}

static const struct wring_qsgd_form *form_of(const struct wring_codec *codec)
{
    return &kernels_of(codec)->forms[plan_of(codec)->natural][(int)codec->params[PARAM_BITS]];
}

static uint64_t qsgd_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

/**
 * The variance of a code is at most omega times the square of its block. A level that is drawn
 * between two that lie d apart has at most the variance d² / 4, and at most d |v|.
 */
static double omega_of(const struct plan *plan, double n)
{
    double s = plan->levels;

    if (plan->natural && s > 1) {
        double least = exp2(1 - s); /* an eighth is what powers of two cost */
        return 0.125 + fmin(n * least * least / 4, sqrt(n) * least);
    }
    if (plan->euclidean)
        return fmin(n / (4 * s * s), sqrt(n) / s);
    return fmin((n - 1) / (4 * s * s), sqrt(n - 1) / (2 * s)); /* the largest is a level itself */
}

static enum wring_status qsgd_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    static const float step_max[] = {FLT_MAX, 0x1.249248p125f, 0x1.020406p121f};
    int width = (int)codec->params[PARAM_BITS];
    struct plan *plan = codec->own;

    (void)why, (void)why_bytes;
    plan->bits = 2u << width;
    plan->levels = (float)((1u << (plan->bits - 1)) - 1);
    plan->most = (int32_t)plan->levels * 65536;
    plan->natural = codec->params[PARAM_PARTITION] != 0;
    plan->euclidean = codec->params[PARAM_NORM] != 0;
    plan->step_max = plan->natural ? FLT_MAX : step_max[width];
    plan->keep = 1;
    if (codec->info.flags & WRING_CODEC_FEEDBACK) {
        plan->keep = (float)(1 / (1 + omega_of(plan, codec->params[PARAM_BLOCK])));
        codec->info.flags &= ~(unsigned)WRING_CODEC_UNBIASED;
    }
    wring_codec_take_kernels(codec, wring_qsgd_tiers, sizeof(wring_qsgd_tiers[0]));
    return WRING_OK;
}

static size_t level_bytes(const struct wring_codec *codec, uint64_t n)
{
    return (n * plan_of(codec)->bits + 7) / 8;
}

static size_t qsgd_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = qsgd_unit(codec);
    return elems / unit * (HEAD + level_bytes(codec, unit)) +
           (elems % unit != 0 ? HEAD + level_bytes(codec, elems % unit) : 0);
}

/** As bits; WRING_INF_BITS or more if some value is not finite. */
static uint32_t norm_of(const struct wring_codec *codec, const float *src, const float *residual,
                        uint64_t n)
{
    if (!plan_of(codec)->euclidean)
        return kernels_of(codec)->peak(src, residual, n);
    double squares = kernels_of(codec)->squares(src, residual, n);
    if (!(squares < (double)INFINITY))
        return WRING_NAN_BITS;
    double norm = sqrt(squares);
    return wring_bits_of(norm < (double)FLT_MAX ? (float)norm : FLT_MAX);
}

static struct wring_qsgd_scale scale_of(const struct plan *plan, uint32_t norm_bits)
{
    float norm = wring_float_of(norm_bits);

    if (norm_bits >= WRING_INF_BITS)
        return (struct wring_qsgd_scale){0, wring_float_of(WRING_NAN_BITS), 0};
    if (norm < TINY)
        return (struct wring_qsgd_scale){0, 0, 0};
    if (plan->natural)
        return (struct wring_qsgd_scale){1 / norm, norm * plan->keep, 0};
    float step = norm * plan->keep / plan->levels;
    return (struct wring_qsgd_scale){plan->levels * 0x1p16f / norm,
                                     step < plan->step_max ? step : plan->step_max, plan->most};
}

/** One block, whose step is NaN if a value is not finite. */
static void encode_block(const struct wring_codec *codec, struct wring_noise *noise,
                         uint64_t element, const float *src, float *residual, uint64_t n,
                         uint64_t left, const struct wring_qsgd_scale *scale, unsigned char *code)
{
    wring_put_u32(code, wring_bits_of(scale->step));
    if (!(scale->step < INFINITY)) {
        memset(code + HEAD, 0, level_bytes(codec, n));
        return;
    }
    for (uint64_t i = 0; i < n; i += WRING_NOISE_WINDOW) {
        uint64_t some = wring_codec_unit_length(WRING_NOISE_WINDOW, n - i);
        form_of(codec)->encode(code + HEAD + level_bytes(codec, i), src + i,
                               residual != NULL ? residual + i : NULL, some, scale,
                               wring_noise_of(noise, element + i, some, left - i));
    }
}

/** Whole blocks that a window of noise holds, or one that is longer. */
static uint64_t stretch_of(uint64_t unit)
{
    return unit < WRING_NOISE_WINDOW ? WRING_NOISE_WINDOW / unit * unit : unit;
}

/** All scales first: no block waits for its own. */
static unsigned char *encode_stretch(const struct wring_codec *codec, struct wring_noise *noise,
                                     uint64_t element, const float *src, float *residual,
                                     uint64_t n, uint64_t left, unsigned char *code)
{
    uint64_t unit = codec->info.unit;
    struct wring_qsgd_scale scales[WRING_NOISE_WINDOW / UNIT_MIN];

    for (uint64_t i = 0, block = 0; i < n; i += unit, block++)
        scales[block] =
            scale_of(plan_of(codec), norm_of(codec, src + i, residual != NULL ? residual + i : NULL,
                                             wring_codec_unit_length(unit, n - i)));
    for (uint64_t i = 0, block = 0; i < n; i += unit, block++) {
        uint64_t live = wring_codec_unit_length(unit, n - i);
        encode_block(codec, noise, element + i, src + i, residual != NULL ? residual + i : NULL,
                     live, left - i, &scales[block], code);
        code += HEAD + level_bytes(codec, live);
    }
    return code;
}

static size_t qsgd_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    uint64_t stretch = stretch_of(codec->info.unit);
    unsigned char *at = code;
    struct wring_noise noise;

    (void)scratch;
    wring_noise_begin(&noise, codec, context);
    for (uint64_t done = 0; done < elems; done += stretch) {
        uint64_t n = wring_codec_unit_length(stretch, elems - done);
        if (WRING_IS_LONG(elems))
            wring_streaming_fetch_ahead(src + done, n, residual != NULL);
        at = encode_stretch(codec, &noise, context->element + done, src + done,
                            residual != NULL ? residual + done : NULL, n, elems - done, at);
    }
    return (size_t)(at - (unsigned char *)code);
}

static enum wring_status decode_block(const struct wring_codec *codec, const unsigned char *code,
                                      float *dst, uint64_t n, bool add)
{
    const struct wring_qsgd_form *form = form_of(codec);
    uint32_t step = wring_take_u32(code);

    if (step == WRING_NAN_BITS)
        wring_codec_fill_nan(dst, n);
    else if (step > wring_bits_of(plan_of(codec)->step_max))
        return WRING_ERR_FRAME; /* below zero, not finite, or too large */
    else
        (add ? form->decode_add : form->decode)(dst, code + HEAD, n, wring_float_of(step));
    return WRING_OK;
}

static enum wring_status qsgd_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    (void)context;
    if (code_bytes != qsgd_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch_unit(dst + done, n);
        status = decode_block(codec, at, dst + done, n, add);
        at += HEAD + level_bytes(codec, n);
    }
    return status;
}

const struct wring_codec_ops wring_codec_qsgd = {
    .name = "qsgd",
    .doc = "levels of 2, 4 or 8 bits of each block's norm, rounded at random",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_UNBIASED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct plan),
    .init = qsgd_init,
    .unit = qsgd_unit,
    .bound = qsgd_bound,
    .encode = qsgd_encode,
    .decode = qsgd_decode,
};
