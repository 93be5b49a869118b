/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/rotate.h"

#include "compress/kernels/bits.h"

#define POWER_LANES 32

static double power_scalar(const float *src, const float *residual, uint64_t n)
{
    double lanes[POWER_LANES] = {0};

    for (uint64_t i = 0; i < n; i++) {
        double value = (double)wring_fed(src, residual, i);
        lanes[i % POWER_LANES] += value * value;
    }
    for (unsigned half = POWER_LANES / 2; half > 0; half /= 2)
        for (unsigned j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

static float flipped(const uint32_t *signs, uint64_t i, float value)
{
    return wring_float_of(wring_bits_of(value) ^ (signs[i / 32] >> i % 32 & 1) << 31);
}

static void hadamard(float *x, uint64_t m)
{
    for (uint64_t h = 1; h < m; h *= 2)
        for (uint64_t i = 0; i < m; i += 2 * h)
            for (uint64_t j = i; j < i + h; j++) {
                float a = x[j], b = x[j + h];
                x[j] = a + b;
                x[j + h] = a - b;
            }
}

static void forward_scalar(float *out, const float *src, const float *residual, uint64_t n,
                           const uint32_t *signs, uint64_t m)
{
    for (uint64_t i = 0; i < m; i++)
        out[i] = flipped(signs, i, i < n ? wring_fed(src, residual, i) : 0);
    hadamard(out, m);
}

static void back_scalar(float *dst, float *x, uint64_t n, const uint32_t *signs, uint64_t m)
{
    hadamard(x, m);
    for (uint64_t i = 0; i < n; i++)
        dst[i] = flipped(signs, i, x[i]);
}

static void back_add_scalar(float *dst, float *x, uint64_t n, const uint32_t *signs, uint64_t m)
{
    hadamard(x, m);
    for (uint64_t i = 0; i < n; i++)
        dst[i] = dst[i] + flipped(signs, i, x[i]);
}

static const struct wring_rotate_kernels scalar = {power_scalar, forward_scalar, back_scalar,
                                                   back_add_scalar};

const struct wring_rotate_tier wring_rotate_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_rotate){{NULL, 0}, NULL},
};
