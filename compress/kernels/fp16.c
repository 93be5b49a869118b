/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/fp16.h"

#include "compress/kernels/bits.h"

#define REBIAS 0x38000000u /* the two formats' exponents differ by 112 */
#define HALF_ABS 0x7FFFu
#define HALF_LEAST_NORMAL 0x0400u

/** bits / 2^shift, rounded to nearest even. */
static uint32_t shift_rounded(uint32_t bits, uint32_t shift)
{
    return (bits + (1u << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
}

/** In units of 2^-24, what is below the normal numbers. */
static uint32_t narrow_denormal(uint32_t magnitude)
{
    uint32_t shift = 126 - (magnitude >> 23);
    return shift > 24 ? 0 : shift_rounded((magnitude & 0x7FFFFF) | 0x800000, shift);
}

static uint16_t narrow(float value, uint32_t top)
{
    uint32_t bits = wring_bits_of(value);
    uint32_t magnitude = bits & WRING_ABS_BITS;
    uint32_t capped = magnitude < top ? magnitude : top;
    uint32_t rounded =
        capped < WRING_FP16_LEAST ? narrow_denormal(capped) : shift_rounded(capped - REBIAS, 13);

    return (uint16_t)(magnitude < WRING_INF_BITS ? rounded | (bits >> 16 & 0x8000)
                                                 : WRING_FP16_NAN);
}

static float widen(uint16_t code)
{
    uint32_t magnitude = code & HALF_ABS, sign = (uint32_t)(code & ~HALF_ABS) << 16;

    if (magnitude > WRING_FP16_INF)
        return wring_float_of(WRING_NAN_BITS);
    if (magnitude == WRING_FP16_INF)
        return wring_float_of(WRING_INF_BITS | sign);
    if (magnitude >= HALF_LEAST_NORMAL)
        return wring_float_of(((magnitude << 13) + REBIAS) | sign);
    return wring_float_of(wring_bits_of((float)magnitude * 0x1p-24f) | sign);
}

static void store(void *code, uint64_t i, uint16_t value)
{
    memcpy((char *)code + 2 * i, &value, sizeof(value));
}

static uint16_t load(const void *code, uint64_t i)
{
    uint16_t value;
    memcpy(&value, (const char *)code + 2 * i, sizeof(value));
    return value;
}

static void encode_scalar(void *code, const float *src, uint64_t n, uint32_t top)
{
    for (uint64_t i = 0; i < n; i++)
        store(code, i, narrow(src[i], top));
}

static void encode_feedback_scalar(void *code, const float *src, float *residual, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = src[i] + residual[i];
        uint16_t narrowed = narrow(value, WRING_FP16_SATURATE);
        store(code, i, narrowed);
        if (narrowed != WRING_FP16_NAN)
            residual[i] = value - widen(narrowed);
    }
}

/** What a value becomes: a number that codes have, infinity as 65536, or the one NaN. */
static float round_by(float value, uint32_t noise, uint32_t top)
{
    uint32_t magnitude = wring_magnitude(value), largest = WRING_FP16_SATURATE & WRING_FP16_CUT;
    float base = magnitude < WRING_FP16_LEAST ? wring_float_of(WRING_FP16_LEAST) : 0;

    if (magnitude >= WRING_INF_BITS)
        return wring_float_of(WRING_NAN_BITS);
    uint32_t sum = wring_bits_of(wring_float_of(magnitude) + base) + (noise >> 3);
    uint32_t rounded = wring_bits_of(wring_float_of(sum & WRING_FP16_CUT) - base);
    rounded = magnitude > WRING_FP16_SATURATE ? top & WRING_FP16_CUT
              : rounded < largest             ? rounded
                                              : largest;
    return wring_float_of(rounded | (wring_bits_of(value) & WRING_SIGN_BITS));
}

static void encode_random_scalar(void *code, const float *src, float *residual, uint64_t n,
                                 const uint32_t *noise, uint32_t top, bool far)
{
    (void)far;
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        float sent = round_by(value, wring_noise(noise, i), top);
        store(code, i, narrow(sent, WRING_FP16_OVERFLOW));
        if (residual != NULL && sent == sent)
            residual[i] = value - sent;
    }
}

static void decode_scalar(float *dst, const void *code, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = widen(load(code, i));
}

static void decode_add_scalar(float *dst, const void *code, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = dst[i] + widen(load(code, i));
}

static const struct wring_fp16_kernels scalar = {
    encode_scalar, encode_feedback_scalar, encode_random_scalar, decode_scalar, decode_add_scalar};

const struct wring_fp16_tier wring_fp16_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_fp16){{NULL, 0}, NULL},
};
