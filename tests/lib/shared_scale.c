/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/shared_scale.h"

#include <math.h>
#include <string.h>

#define UNIT SHARED_UNIT

static uint64_t unit(const struct wring_codec *codec)
{
    (void)codec;
    return UNIT;
}

/* ---- the round: per unit, the largest magnitude of any rank ---- */

static uint64_t units_of(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    (void)codec;
    return (context->elems + UNIT - 1) / UNIT;
}

/** Of a unit in the statistics of the round. */
static uint64_t unit_of(const struct wring_codec_context *context, uint64_t i)
{
    return (context->element + i - context->first) / UNIT;
}

static void find_largest(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, uint64_t elems, const float *residual, void *statistics,
                         void *scratch)
{
    float *largest = statistics;

    (void)codec, (void)scratch;
    for (uint64_t i = 0; i < elems; i++) {
        float x = residual != NULL ? src[i] + residual[i] : src[i];
        float *of = &largest[unit_of(context, i)];
        if (!isfinite(x) || isnan(*of))
            *of = NAN; /* stays through the maximum */
        else
            *of = fmaxf(*of, fabsf(x));
    }
}

static const struct wring_codec_round round_of_scale = {
    .name = "largest",
    .dtype = WRING_F32,
    .op = WRING_MAX,
    .count = units_of,
    .begin = find_largest,
};

static float largest_of(const struct wring_codec_context *context, uint64_t i)
{
    const float *largest = context->statistics[0];
    return largest[unit_of(context, i)];
}

/* ---- shared8 ---- */

static size_t bound8(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems;
}

/** A sum has at most as many times the largest. What steps stand for is never infinite: it is less,
 *  or NaN where the sum may be. */
static float scale8(const struct wring_codec_context *context, uint64_t i)
{
    float times = context->phase == 0 ? 1 : (float)context->ranks;
    float scale = times * largest_of(context, i) / 127;
    if (isinf(scale))
        return NAN;
    return isinf(scale * 127) ? nextafterf(scale, 0) : scale;
}

static size_t encode8(const struct wring_codec *codec, const struct wring_codec_context *context,
                      const float *src, uint64_t elems, float *residual, void *code, void *scratch)
{
    int8_t *steps = code;

    (void)codec, (void)scratch;
    for (uint64_t i = 0; i < elems; i++) {
        float scale = scale8(context, i), x = residual != NULL ? src[i] + residual[i] : src[i];
        float step = scale > 0 ? fminf(fmaxf(nearbyintf(x / scale), -127), 127) : 0;
        steps[i] = (int8_t)step;
        if (residual != NULL && !isnan(scale))
            residual[i] = x - step * scale;
    }
    return elems;
}

static enum wring_status decode8(const struct wring_codec *codec,
                                 const struct wring_codec_context *context, const void *code,
                                 size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const int8_t *steps = code;

    (void)codec;
    if (code_bytes != elems)
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i++)
        dst[i] = (add ? dst[i] : 0) + (float)steps[i] * scale8(context, i);
    return WRING_OK;
}

const struct wring_codec_ops shared8 = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "shared8",
    .doc = "8-bit steps of the largest magnitude that any rank has in the unit",
    .flags = WRING_CODEC_FIXED,
    .unit = unit,
    .bound = bound8,
    .encode = encode8,
    .decode = decode8,
    .rounds = &round_of_scale,
    .n_rounds = 1,
};

/* ---- shared16 ---- */

static size_t bound16(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * sizeof(int16_t);
}

float shared16_scale(float largest, uint32_t ranks)
{
    return largest / (float)(INT16_MAX / ranks);
}

static size_t encode16(const struct wring_codec *codec, const struct wring_codec_context *context,
                       const float *src, uint64_t elems, float *residual, void *code, void *scratch)
{
    float most = (float)(INT16_MAX / context->ranks);

    (void)codec, (void)scratch;
    for (uint64_t i = 0; i < elems; i++) {
        float scale = shared16_scale(largest_of(context, i), context->ranks);
        float x = residual != NULL ? src[i] + residual[i] : src[i];
        float rounded = scale > 0 ? fminf(fmaxf(nearbyintf(x / scale), -most), most) : 0;
        int16_t step = (int16_t)rounded;
        memcpy((char *)code + i * sizeof(step), &step, sizeof(step));
        if (residual != NULL && !isnan(scale))
            residual[i] = x - rounded * scale;
    }
    return elems * sizeof(int16_t);
}

static int16_t step_of(const void *code, uint64_t i)
{
    int16_t step;
    memcpy(&step, (const char *)code + i * sizeof(step), sizeof(step));
    return step;
}

static enum wring_status decode16(const struct wring_codec *codec,
                                  const struct wring_codec_context *context, const void *code,
                                  size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    (void)codec;
    if (code_bytes != elems * sizeof(int16_t))
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i++) {
        float scale = shared16_scale(largest_of(context, i), context->ranks);
        dst[i] = (add ? dst[i] : 0) + (float)step_of(code, i) * scale;
    }
    return WRING_OK;
}

static enum wring_status sum16(const struct wring_codec *codec,
                               const struct wring_codec_context *context, void *code,
                               const void *other, size_t code_bytes, uint64_t elems)
{
    (void)codec, (void)context;
    if (code_bytes != elems * sizeof(int16_t))
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i++) {
        int sum = step_of(code, i) + step_of(other, i);
        int16_t step = (int16_t)sum;
        if (sum != step)
            return WRING_ERR_FRAME; /* no rank that keeps to the scale sends that */
        memcpy((char *)code + i * sizeof(step), &step, sizeof(step));
    }
    return WRING_OK;
}

const struct wring_codec_ops shared16 = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "shared16",
    .doc = "16-bit steps of the largest magnitude that any rank has in the unit, which add up",
    .flags = WRING_CODEC_FIXED,
    .unit = unit,
    .bound = bound16,
    .encode = encode16,
    .decode = decode16,
    .rounds = &round_of_scale,
    .n_rounds = 1,
    .code_sum = sum16,
};

const struct wring_codec_ops *const shared_codecs[] = {&shared8, &shared16, NULL};
