/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/residual.h"

#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/residual.h"
#include "compress/noise.h"

#define NEAREST 0x7FFFu /* and 1 for odd ones: what rounds to nearest, added */
#define PHASES 2        /* of codes; residuals draw other numbers */

static const struct wring_residual_kernels *kernels_of(const struct wring_codec *codec)
{
    const struct wring_residual_tier *tier =
        wring_kernels_pick(wring_residual_tiers, sizeof(wring_residual_tiers[0]), codec->tier);
    return tier->kernels;
}

static uint16_t to_nearest(float value)
{
    uint32_t bits = wring_bits_of(value), odd = bits >> 16 & 1;
    uint32_t upper = ((bits & WRING_ABS_BITS) + NEAREST + odd) >> 16;
    upper = upper < WRING_RESIDUAL_BF16_TOP ? upper : WRING_RESIDUAL_BF16_TOP;
    return (uint16_t)(upper | bits >> 31 << 15);
}

void wring_residual_read(const struct wring_codec *codec, const float *residual, uint64_t element,
                         uint64_t n, float *out)
{
    const uint16_t *halves = (const uint16_t *)(const void *)residual + element;

    if (!codec->short_residual && n > 0)
        memcpy(out, residual + element, n * sizeof(*out));
    if (codec->short_residual)
        kernels_of(codec)->widen(out, halves, n);
}

void wring_residual_write(const struct wring_codec *codec, float *residual, uint64_t element,
                          uint64_t n, const float *values)
{
    uint16_t *halves = (uint16_t *)(void *)residual + element;

    if (!codec->short_residual && n > 0)
        memcpy(residual + element, values, n * sizeof(*values));
    for (uint64_t i = 0; codec->short_residual && i < n; i++)
        halves[i] = to_nearest(values[i]);
}

void wring_residual_round(const struct wring_codec *codec,
                          const struct wring_codec_context *context, float *residual,
                          const float *values, uint64_t n)
{
    const struct wring_residual_kernels *kernels = kernels_of(codec);
    uint16_t *halves = (uint16_t *)(void *)residual;
    struct wring_codec_context of_residuals = *context;
    struct wring_noise noise;

    of_residuals.phase += PHASES;
    wring_noise_begin(&noise, codec, &of_residuals);
    for (uint64_t done = 0, some; done < n; done += some) {
        some = n - done < WRING_NOISE_WINDOW ? n - done : WRING_NOISE_WINDOW;
        const uint32_t *words = wring_noise_of(&noise, context->element + done, some, n - done);
        kernels->narrow(halves + done, values + done, some, words);
    }
}
