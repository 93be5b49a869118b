/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/quant.h"

#include "compress/kernels/bits.h"

/** To nearest even, for magnitudes below 2^22: the sum has no room for a fraction. */
static float round_half_even(float value)
{
    return (value + 0x1.8p23f) - 0x1.8p23f;
}

static uint32_t peak_scalar(const float *src, const float *residual, uint64_t n)
{
    uint32_t peak = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = wring_magnitude(wring_fed(src, residual, i));
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

static void encode_scalar(int8_t *code, const float *src, uint64_t n, float inverse)
{
    for (uint64_t i = 0; i < n; i++)
        code[i] = (int8_t)round_half_even(src[i] * inverse);
}

static void encode_feedback_scalar(int8_t *code, const float *src, float *residual, uint64_t n,
                                   float inverse, float scale)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = src[i] + residual[i];
        code[i] = (int8_t)round_half_even(value * inverse);
        residual[i] = value - (float)code[i] * scale;
    }
}

static void decode_scalar(float *dst, const int8_t *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = (float)code[i] * scale;
}

static void decode_add_scalar(float *dst, const int8_t *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = dst[i] + (float)code[i] * scale;
}

static const struct wring_quant_kernels scalar = {
    peak_scalar, encode_scalar, encode_feedback_scalar, decode_scalar, decode_add_scalar};

const struct wring_quant_tier wring_quant_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
#ifdef WRING_ARCH_X86
    {{"avx2", WRING_CPU_AVX2}, &wring_quant_avx2},
    {{"avx512", WRING_CPU_AVX512}, &wring_quant_avx512},
#endif
    {{NULL, 0}, NULL},
};
