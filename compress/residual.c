/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/residual.h"

#include <string.h>

#include "compress/kernels/bf16.h"
#include "compress/kernels/bits.h"
#include "compress/noise.h"

#define NEAREST 0x7FFFu /* and 1 for odd ones: what rounds to nearest, added */
#define PHASES 2        /* of codes; residuals draw other numbers */

static const struct wring_residual_kernels *kernels_of(const struct wring_codec *codec)
{
    const struct wring_residual_tier *tier =
        wring_kernels_pick(wring_residual_tiers, sizeof(wring_residual_tiers[0]), codec->tier);
    return tier->kernels;
}

/* ---- bf16 ---- */

static const struct wring_bf16_kernels *bf16_of(const struct wring_codec *codec)
{
    const struct wring_bf16_tier *tier =
        wring_kernels_pick(wring_bf16_tiers, sizeof(wring_bf16_tiers[0]), codec->tier);
    return tier->kernels;
}

/** As the codec does, but infinity, as a change of units may make it, is the largest number. */
static uint16_t to_nearest(float value)
{
    uint32_t bits = wring_bits_of(value), odd = bits >> 16 & 1;
    uint32_t upper = ((bits & WRING_ABS_BITS) + NEAREST + odd) >> 16;
    upper = upper < WRING_BF16_LARGEST >> 16 ? upper : WRING_BF16_LARGEST >> 16;
    return (uint16_t)(upper | bits >> 31 << 15);
}

/* ---- int8 ---- */

static unsigned char *block_at(const float *residual, uint64_t element)
{
    return (unsigned char *)(uintptr_t)residual +
           element / WRING_RESIDUAL_BLOCK * WRING_RESIDUAL_BLOCK_BYTES;
}

/** Elements of the block that begins with or before that one, from there on. */
static uint64_t left_of_block(uint64_t element, uint64_t n)
{
    uint64_t left = WRING_RESIDUAL_BLOCK - element % WRING_RESIDUAL_BLOCK;
    return left < n ? left : n;
}

static void unpack(const struct wring_codec *codec, const float *residual, uint64_t element,
                   uint64_t n, float *out)
{
    float values[WRING_RESIDUAL_BLOCK];

    if (element % WRING_RESIDUAL_BLOCK == 0) {
        kernels_of(codec)->unpack(out, block_at(residual, element), n);
        return;
    }
    uint64_t some = left_of_block(element, n);
    kernels_of(codec)->unpack(values, block_at(residual, element), WRING_RESIDUAL_BLOCK);
    memcpy(out, values + element % WRING_RESIDUAL_BLOCK, some * sizeof(*out));
    if (some < n)
        kernels_of(codec)->unpack(out + some, block_at(residual, element + some), n - some);
}

/** To nearest. A block's other elements stay, or come near themselves where its step grows. */
static void pack(const struct wring_codec *codec, float *residual, uint64_t element, uint64_t n,
                 const float *values)
{
    const uint32_t half = 0x8000, both = half << 16 | half;
    uint32_t noise[WRING_NOISE_RUN_WORDS];

    for (int i = 0; i < WRING_NOISE_RUN_WORDS; i++)
        noise[i] = both;
    for (uint64_t done = 0, some; done < n; done += some) {
        float block[WRING_RESIDUAL_BLOCK];
        unsigned char *to = block_at(residual, element + done);
        some = left_of_block(element + done, n - done);
        kernels_of(codec)->unpack(block, to, WRING_RESIDUAL_BLOCK);
        memcpy(block + (element + done) % WRING_RESIDUAL_BLOCK, values + done,
               some * sizeof(*block));
        kernels_of(codec)->pack(to, block, WRING_RESIDUAL_BLOCK, noise);
    }
}

/* ---- all ---- */

void wring_residual_read(const struct wring_codec *codec, const float *residual, uint64_t element,
                         uint64_t n, float *out)
{
    if (n == 0)
        return;
    if (codec->residual_form == WRING_RESIDUAL_F32)
        memcpy(out, residual + element, n * sizeof(*out));
    else if (codec->residual_form == WRING_RESIDUAL_BF16)
        bf16_of(codec)->decode(out, (const uint16_t *)(const void *)residual + element, n);
    else
        unpack(codec, residual, element, n, out);
}

void wring_residual_write(const struct wring_codec *codec, float *residual, uint64_t element,
                          uint64_t n, const float *values)
{
    uint16_t *halves = (uint16_t *)(void *)residual + element;

    if (n == 0)
        return;
    if (codec->residual_form == WRING_RESIDUAL_F32)
        memcpy(residual + element, values, n * sizeof(*values));
    else if (codec->residual_form == WRING_RESIDUAL_INT8)
        pack(codec, residual, element, n, values);
    for (uint64_t i = 0; codec->residual_form == WRING_RESIDUAL_BF16 && i < n; i++)
        halves[i] = to_nearest(values[i]);
}

void wring_residual_round(const struct wring_codec *codec,
                          const struct wring_codec_context *context, float *residual,
                          const float *values, uint64_t n)
{
    struct wring_codec_context of_residuals = *context;
    struct wring_noise noise;

    of_residuals.phase += PHASES;
    wring_noise_begin(&noise, codec, &of_residuals);
    for (uint64_t done = 0, some; done < n; done += some) {
        some = n - done < WRING_NOISE_WINDOW ? n - done : WRING_NOISE_WINDOW;
        const uint32_t *words = wring_noise_of(&noise, context->element + done, some, n - done);
        if (codec->residual_form == WRING_RESIDUAL_BF16)
            bf16_of(codec)->encode_random((uint16_t *)(void *)residual + done, values + done, NULL,
                                          some, words, WRING_BF16_LARGEST, false);
        else
            kernels_of(codec)->pack(block_at(residual, done), values + done, some, words);
    }
}
