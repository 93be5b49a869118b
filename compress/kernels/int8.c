/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/int8.h"

#include "compress/kernels/bits.h"

/** To nearest even, for magnitudes below 2^22: the sum has no room for a fraction. */
static float round_half_even(float value)
{
    return (value + 0x1.8p23f) - 0x1.8p23f;
}

static void encode_steps(int8_t *step, const float *src, uint64_t n, float inverse)
{
    for (uint64_t i = 0; i < n; i++)
        step[i] = (int8_t)round_half_even(src[i] * inverse);
}

static void encode_feedback(int8_t *step, const float *src, float *residual, uint64_t n,
                            float inverse, float scale)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = src[i] + residual[i];
        step[i] = (int8_t)round_half_even(value * inverse);
        residual[i] = value - (float)step[i] * scale;
    }
}

static float scale_of(float peak)
{
    float scale = peak / WRING_INT8_STEPS;
    return scale < WRING_INT8_SCALE_MAX ? scale : WRING_INT8_SCALE_MAX;
}

static void encode_block(uint8_t *code, const float *src, float *residual, uint64_t n)
{
    uint32_t peak_bits = wring_peak(src, residual, n);
    float peak = wring_float_of(peak_bits);
    int8_t *steps = (int8_t *)(code + WRING_INT8_HEAD);

    if (peak_bits >= WRING_INF_BITS) {
        wring_put_u32(code, WRING_NAN_BITS);
        memset(steps, 0, n);
        return;
    }
    /* A block that counts as 0 takes the same way with inverse 0: all steps are 0. */
    float scale = peak < WRING_INT8_TINY ? 0 : scale_of(peak);
    float inverse = peak < WRING_INT8_TINY ? 0 : WRING_INT8_STEPS / peak;
    wring_put_u32(code, wring_bits_of(scale));
    if (residual != NULL)
        encode_feedback(steps, src, residual, n, inverse, scale);
    else
        encode_steps(steps, src, n, inverse);
}

static void encode_scalar(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    for (uint64_t i = 0; i < n; i += block, code += WRING_INT8_HEAD + block)
        encode_block(code, src + i, residual == NULL ? NULL : residual + i,
                     n - i < block ? n - i : block);
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

static const struct wring_int8_kernels scalar = {encode_scalar, decode_scalar, decode_add_scalar};

const struct wring_int8_tier wring_int8_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_int8){{NULL, 0}, NULL},
};
