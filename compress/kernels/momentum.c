/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/momentum.h"

#include "compress/kernels/bits.h"

#define LARGEST (WRING_INF_BITS - 1)

/** Sums of finite numbers are never NaN. */
static float within_range(float value)
{
    uint32_t bits = wring_bits_of(value), magnitude = bits & WRING_ABS_BITS;
    return magnitude > LARGEST ? wring_float_of((bits & ~WRING_ABS_BITS) | LARGEST) : value;
}

static void advance_scalar(float *momentum, const float *src, uint64_t n, float beta)
{
    for (uint64_t i = 0; i < n; i++)
        momentum[i] = within_range(beta * momentum[i] + src[i]);
}

static void look_ahead_scalar(float *momentum, const float *src, uint64_t n, float beta)
{
    for (uint64_t i = 0; i < n; i++)
        momentum[i] = within_range(beta * momentum[i] + beta * src[i] + src[i]);
}

static void step_back_scalar(float *momentum, const float *src, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        momentum[i] = within_range(momentum[i] - src[i]);
}

static const struct wring_momentum_kernels scalar = {
    advance_scalar,
    look_ahead_scalar,
    step_back_scalar,
};

const struct wring_momentum_tier wring_momentum_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_momentum){{NULL, 0}, NULL},
};
