/* SPDX-License-Identifier: Apache-2.0 */
/**
 * thc: each block is rotated at random, then sent in whole steps of a scale that all ranks share.
 *
 * Tensor homomorphic compression (Li and others, arXiv:2302.08545): a randomised Hadamard transform
 * makes a block's numbers bell-shaped, whatever they were, so a clip at a few deviations wastes no
 * steps on outliers. A round agrees on the largest norm of any rank, codes add up as integers in a
 * width that holds the sum, and only the sum is rotated back. Or sums saturate: they go back in the
 * width of a code, and all ranks have all of its steps. Bytes in FORMAT.md, "thc".
 */
#include "compress/codec.h"

#include <stdio.h>

#include "compress/codecs/shared_steps.h"
#include "compress/kernels/bits.h"
#include "compress/kernels/rotate.h"
#include "compress/kernels/streaming.h"
#include "compress/root.h"

#define NORM_MIN 0x1p-96 /* a smaller norm counts as 0 */
#define NORM_MAX 0x1p104 /* one above it as not finite: what is decoded could overflow */
#define SIGN_WORDS (WRING_ROTATE_MAX / 32)

enum {
    PARAM_WIDTH,
    PARAM_BLOCK,
    PARAM_CLIP,
    PARAM_ROTATE,
    PARAM_SUMS
};

static const struct wring_codec_param params[] = {
    [PARAM_WIDTH] = {"width", WRING_SHARED_STEPS_WIDTHS, "bits of a code", 1, 0, 2, 1},
    [PARAM_BLOCK] = {"block", NULL, "elements that share a scale, a power of two", 1024,
                     WRING_ROTATE_MIN, WRING_ROTATE_MAX, 32},
    [PARAM_CLIP] = {"clip", NULL, "largest rotated number, in deviations", 3.5, 1, 64, 0},
    [PARAM_ROTATE] = {"rotate", NULL,
                      "elements that are rotated together, a power of two; 0: a whole block", 0, 0,
                      WRING_ROTATE_MAX, 32},
    [PARAM_SUMS] = {"sums", "exact|saturate", "what becomes of sums beyond the width of a code", 0,
                    0, 1, 1},
};

struct own {
    const struct wring_rotate_kernels *rotate;
    struct wring_shared_steps steps;
};

static const struct wring_shared_steps *steps_of(const struct wring_codec *codec)
{
    const struct own *own = codec->own;
    return &own->steps;
}

static enum wring_status thc_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct own *own = codec->own;
    uint32_t block = (uint32_t)codec->params[PARAM_BLOCK];
    uint32_t rotate = (uint32_t)codec->params[PARAM_ROTATE];
    bool saturates = codec->params[PARAM_SUMS] == 1;

    if ((block & (block - 1)) != 0) {
        snprintf(why, why_bytes, "thc:block=%u: needs a power of two from %d to %d", block,
                 WRING_ROTATE_MIN, WRING_ROTATE_MAX);
        return WRING_ERR_INVALID;
    }
    if (rotate > block || (rotate & (rotate - 1)) != 0) {
        snprintf(why, why_bytes,
                 "thc:rotate=%u: needs 0 or a power of two from %d to the block's %u", rotate,
                 WRING_ROTATE_MIN, block);
        return WRING_ERR_INVALID;
    }
    own->steps = wring_shared_steps_make(codec->params[PARAM_WIDTH], saturates, codec->tier);
    if (saturates && own->steps.code == 16) {
        snprintf(why, why_bytes, "thc:width=16:sums=saturate: only sums of 4 and 8 bits saturate");
        return WRING_ERR_INVALID;
    }
    wring_codec_take_kernels(codec, wring_rotate_tiers, sizeof(wring_rotate_tiers[0]));
    own->rotate = ((const struct wring_rotate_tier *)codec->kernels)->kernels;
    return WRING_OK;
}

static uint64_t thc_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

/** The steps of n elements, up to a unit: behind them are zeros. */
static uint64_t order_of(uint64_t n)
{
    uint64_t m = WRING_ROTATE_MIN;
    while (m < n)
        m *= 2;
    return m;
}

/** How many of m steps are rotated together. */
static uint64_t part_of(const struct wring_codec *codec, uint64_t m)
{
    uint64_t rotate = (uint64_t)codec->params[PARAM_ROTATE];
    return rotate > 0 && rotate < m ? rotate : m;
}

/** Steps of a run of units. */
static uint64_t count_steps(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = thc_unit(codec), rest = elems % unit;
    return elems - rest + (rest > 0 ? order_of(rest) : 0);
}

static size_t thc_bound(const struct wring_codec *codec, uint64_t elems)
{
    return wring_shared_steps_bytes(steps_of(codec)->code, count_steps(codec, elems));
}

static size_t thc_sum_bound(const struct wring_codec *codec, uint64_t elems)
{
    return wring_shared_steps_bytes(steps_of(codec)->sum, count_steps(codec, elems));
}

static uint32_t thc_most_ranks(const struct wring_codec *codec)
{
    return wring_shared_steps_most_ranks(steps_of(codec));
}

/* ---- the round ---- */

static uint64_t count_units(const struct wring_codec *codec,
                            const struct wring_codec_context *context)
{
    uint64_t unit = thc_unit(codec);
    return (context->elems + unit - 1) / unit;
}

static uint64_t unit_at(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    return (context->element - context->first) / codec->info.unit;
}

static void find_powers(const struct wring_codec *codec, const struct wring_codec_context *context,
                        const float *src, uint64_t elems, const float *residual, void *statistics,
                        void *scratch)
{
    const struct own *own = codec->own;
    uint64_t unit = codec->info.unit;
    double *powers = (double *)statistics + unit_at(codec, context);

    (void)scratch;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        double power = own->rotate->power(src + done, residual != NULL ? residual + done : NULL, n);
        *powers++ = power <= NORM_MAX * NORM_MAX ? power : (double)wring_float_of(WRING_NAN_BITS);
    }
}

/** @param part  of the unit, that are rotated together: their squares are so much of its power */
static double scale_of(const struct wring_codec *codec, double power, double part, uint32_t most)
{
    if (!(power >= 0 && power <= NORM_MAX * NORM_MAX) || most == 0)
        return (double)wring_float_of(WRING_NAN_BITS);
    if (power < NORM_MIN * NORM_MIN)
        return 0;
    return (double)((float)codec->params[PARAM_CLIP] * wring_root_below(power * part) /
                    (float)most);
}

static void make_scales(const struct wring_codec *codec, const struct wring_codec_context *context,
                        void *statistics, uint64_t count)
{
    double *scales = statistics;
    uint32_t most = wring_shared_steps_most(steps_of(codec), context->ranks);
    uint64_t unit = thc_unit(codec);

    for (uint64_t i = 0; i < count; i++) {
        uint64_t m = order_of(wring_codec_unit_length(unit, context->elems - i * unit));
        scales[i] = scale_of(codec, scales[i], (double)part_of(codec, m) / (double)m, most);
    }
}

static const struct wring_codec_round rounds[] = {{.name = "norm",
                                                   .dtype = WRING_F64,
                                                   .op = WRING_MAX,
                                                   .count = count_units,
                                                   .begin = find_powers,
                                                   .end = make_scales}};

/* ---- codes ---- */

/** A run's place: all units of a step are flipped alike. */
struct run {
    const double *scales;
    unsigned bits; /* of a step */
    uint32_t signs[SIGN_WORDS];
};

static void find_run(const struct wring_codec *codec, const struct wring_codec_context *context,
                     uint64_t elems, struct run *run)
{
    struct wring_codec_context in = *context;

    in.phase = 0; /* a sum is flipped as its codes are */
    wring_codec_random(&in, WRING_DRAW_SHARED, 0, run->signs, codec->info.unit / 32);
    run->scales =
        elems > 0 ? (const double *)context->statistics[0] + unit_at(codec, context) : NULL;
}

/** x = the rotated v of a unit, part by part. @param x  [m] */
static void rotate_unit(const struct wring_codec *codec, const struct run *run, const float *src,
                        const float *residual, uint64_t n, float *x, uint64_t m)
{
    const struct own *own = codec->own;
    uint64_t part = part_of(codec, m);

    for (uint64_t i = 0; i < m; i += part) {
        uint64_t at = i < n ? i : n;
        own->rotate->forward(x + i, src + at, residual != NULL ? residual + at : NULL,
                             wring_codec_unit_length(part, n - at), run->signs + i / 32, part);
    }
}

/** dst = what the steps of a unit stand for, or dst += that. @param x  [order_of(n)], worked in */
static void take_steps(const struct wring_codec *codec, const struct run *run, const void *steps,
                       float scale, float *x, float *dst, uint64_t n, bool add)
{
    const struct wring_rotate_kernels *rotate = ((const struct own *)codec->own)->rotate;
    uint64_t m = order_of(n), part = part_of(codec, m);

    wring_shared_steps_width(steps_of(codec), run->bits)->decode(x, steps, m, scale / (float)part);
    for (uint64_t i = 0; i < n; i += part)
        (add ? rotate->back_add : rotate->back)(
            dst + i, x + i, wring_codec_unit_length(part, n - i), run->signs + i / 32, part);
}

/** residual = v - decoded. @param x, decoded  [order_of(n)] */
static void keep_rest(const struct wring_codec *codec, const struct run *run, const void *steps,
                      const float *src, float *residual, uint64_t n, float scale, float *x,
                      float *decoded)
{
    take_steps(codec, run, steps, scale, x, decoded, n, false);
    for (uint64_t i = 0; i < n; i++)
        residual[i] = src[i] + residual[i] - decoded[i];
}

static void encode_unit(const struct wring_codec *codec, const struct run *run, float scale,
                        const float *src, uint64_t n, float *residual, void *steps, float *scratch,
                        float most)
{
    uint64_t m = order_of(n);

    if (!(scale > 0)) {
        memset(steps, 0, wring_shared_steps_bytes(run->bits, m));
        for (uint64_t i = 0; i < n && residual != NULL && scale == 0; i++)
            residual[i] = src[i] + residual[i];
        return;
    }
    rotate_unit(codec, run, src, residual, n, scratch, m);
    wring_shared_steps_width(steps_of(codec), run->bits)
        ->encode(steps, scratch, NULL, m, scale, 1 / scale, most);
    if (residual != NULL)
        keep_rest(codec, run, steps, src, residual, n, scale, scratch, scratch + WRING_ROTATE_MAX);
}

static size_t thc_encode(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, uint64_t elems, float *residual, void *code,
                         void *scratch)
{
    uint64_t unit = codec->info.unit;
    float most = (float)wring_shared_steps_most(steps_of(codec), context->ranks);
    struct run run;

    find_run(codec, context, elems, &run);
    run.bits = steps_of(codec)->code;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (WRING_IS_LONG(elems) && residual == NULL)
            wring_streaming_enter(src + done + n);
        encode_unit(codec, &run, (float)*run.scales++, src + done, n,
                    residual != NULL ? residual + done : NULL,
                    (unsigned char *)code + wring_shared_steps_bytes(run.bits, done), scratch,
                    most);
    }
    return thc_bound(codec, elems);
}

static void decode_unit(const struct wring_codec *codec, const struct run *run, float scale,
                        const void *steps, float *dst, uint64_t n, bool add)
{
    _Alignas(64) float x[WRING_ROTATE_MAX];

    take_steps(codec, run, steps, scale, x, dst, n, add);
}

static enum wring_status thc_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context, const void *code,
                                    size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit;
    struct run run;

    find_run(codec, context, elems, &run);
    run.bits = wring_shared_steps_bits(steps_of(codec), context->phase);
    if (code_bytes != wring_shared_steps_bytes(run.bits, count_steps(codec, elems)))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        float scale = (float)*run.scales++;
        if (scale > 0)
            decode_unit(codec, &run, scale,
                        (const unsigned char *)code + wring_shared_steps_bytes(run.bits, done),
                        dst + done, n, add);
        else if (!(scale == 0))
            wring_codec_fill_nan(dst + done, n);
        else
            for (uint64_t i = done; i < done + n; i++)
                dst[i] = add ? dst[i] + 0.0f : 0;
    }
    return WRING_OK;
}

static enum wring_status thc_sum(const struct wring_codec *codec,
                                 const struct wring_codec_context *context, void *sum,
                                 const void *code, size_t code_bytes, uint64_t elems)
{
    (void)context;
    return wring_shared_steps_add(steps_of(codec), sum, code, code_bytes,
                                  count_steps(codec, elems));
}

static size_t thc_sum_end(const struct wring_codec *codec,
                          const struct wring_codec_context *context, void *sum, uint64_t elems,
                          uint64_t *cut)
{
    (void)context;
    return wring_shared_steps_end(steps_of(codec), sum, count_steps(codec, elems), cut);
}

const struct wring_codec_ops wring_codec_thc = {
    .name = "thc",
    .doc = "blocks rotated at random, in steps of a scale that all ranks share",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .scratch_bytes = 2 * WRING_ROTATE_MAX * sizeof(float),
    .own_bytes = sizeof(struct own),
    .init = thc_init,
    .unit = thc_unit,
    .bound = thc_bound,
    .encode = thc_encode,
    .decode = thc_decode,
    .rounds = rounds,
    .n_rounds = sizeof(rounds) / sizeof(rounds[0]),
    .code_sum = thc_sum,
    .most_ranks = thc_most_ranks,
    .sum_bound = thc_sum_bound,
    .sum_end = thc_sum_end,
};
