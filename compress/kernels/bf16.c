/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/bf16.h"

#include "compress/kernels/bits.h"

static uint16_t narrow(float value)
{
    uint32_t bits = wring_bits_of(value);
    uint32_t magnitude = bits & WRING_ABS_BITS;
    uint32_t capped = magnitude < WRING_BF16_TOP ? magnitude : WRING_BF16_TOP;
    uint32_t rounded = (capped + 0x7FFF + (capped >> 16 & 1)) >> 16;

    return (uint16_t)(magnitude < WRING_INF_BITS ? rounded | (bits >> 16 & 0x8000)
                                                 : WRING_BF16_NAN);
}

static float widen(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    return wring_float_of((bits & WRING_ABS_BITS) < WRING_INF_BITS ? bits : WRING_NAN_BITS);
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

static void encode_scalar(void *code, const float *src, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        store(code, i, narrow(src[i]));
}

static void encode_feedback_scalar(void *code, const float *src, float *residual, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = src[i] + residual[i];
        uint16_t narrowed = narrow(value);
        store(code, i, narrowed);
        if (narrowed != WRING_BF16_NAN)
            residual[i] = value - widen(narrowed);
    }
}

/** What a value becomes: a number that codes have, or the one NaN. */
static float round_by(float value, uint32_t noise, uint32_t top)
{
    uint32_t magnitude = wring_magnitude(value), sum = magnitude + noise;

    if (magnitude >= WRING_INF_BITS)
        return wring_float_of(WRING_NAN_BITS);
    sum = sum & 0xFFFF0000;
    return wring_float_of((sum < top ? sum : top) | (wring_bits_of(value) & WRING_SIGN_BITS));
}

static void encode_random_scalar(void *code, const float *src, float *residual, uint64_t n,
                                 const uint32_t *noise, uint32_t top, bool far)
{
    (void)far;
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        float sent = round_by(value, wring_noise(noise, i), top);
        store(code, i, (uint16_t)(wring_bits_of(sent) >> 16));
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

static const struct wring_bf16_kernels scalar = {
    encode_scalar, encode_feedback_scalar, encode_random_scalar, decode_scalar, decode_add_scalar};

const struct wring_bf16_tier wring_bf16_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_bf16){{NULL, 0}, NULL},
};
