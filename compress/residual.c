/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/residual.h"

#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/noise.h"

#define LARGEST 0x7F7Fu /* bf16 */
#define NEAREST 0x7FFFu /* and 1 for odd ones: what rounds to nearest, added */
#define PHASES 2        /* of codes; residuals draw other numbers */

static float widen(uint16_t half)
{
    return wring_float_of((uint32_t)half << 16);
}

/** Cut off behind 16 bits, after `more` has been added. */
static uint16_t narrow(float value, uint32_t more)
{
    uint32_t bits = wring_bits_of(value), upper = ((bits & WRING_ABS_BITS) + more) >> 16;
    return (uint16_t)((upper > LARGEST ? LARGEST : upper) | (bits >> 31 << 15));
}

static uint32_t to_nearest(float value)
{
    return NEAREST + (wring_bits_of(value) >> 16 & 1);
}

void wring_residual_read(const struct wring_codec *codec, const float *residual, uint64_t element,
                         uint64_t n, float *out)
{
    const uint16_t *halves = (const uint16_t *)(const void *)residual + element;

    if (!codec->short_residual && n > 0)
        memcpy(out, residual + element, n * sizeof(*out));
    for (uint64_t i = 0; codec->short_residual && i < n; i++)
        out[i] = widen(halves[i]);
}

void wring_residual_write(const struct wring_codec *codec, float *residual, uint64_t element,
                          uint64_t n, const float *values)
{
    uint16_t *halves = (uint16_t *)(void *)residual + element;

    if (!codec->short_residual && n > 0)
        memcpy(residual + element, values, n * sizeof(*values));
    for (uint64_t i = 0; codec->short_residual && i < n; i++)
        halves[i] = narrow(values[i], to_nearest(values[i]));
}

void wring_residual_round(const struct wring_codec *codec,
                          const struct wring_codec_context *context, float *residual,
                          const float *values, uint64_t n)
{
    uint16_t *halves = (uint16_t *)(void *)residual;
    struct wring_codec_context of_residuals = *context;
    struct wring_noise noise;

    of_residuals.phase += PHASES;
    wring_noise_begin(&noise, codec, &of_residuals);
    for (uint64_t done = 0, some; done < n; done += some) {
        some = n - done < WRING_NOISE_WINDOW ? n - done : WRING_NOISE_WINDOW;
        const uint32_t *words = wring_noise_of(&noise, context->element + done, some, n - done);
        for (uint64_t i = 0; i < some; i++)
            halves[done + i] = narrow(values[done + i], wring_noise(words, i));
    }
}
