/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/sparse.h"

#include "compress/kernels/bits.h"

static uint32_t peak_scalar(const float *src, const float *residual, uint64_t n)
{
    uint32_t peak = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = wring_magnitude(wring_fed(src, residual, i));
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

static void feed_scalar(float *residual, const float *src, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        residual[i] = src[i] + residual[i];
}

static double squares_scalar(const float *src, const float *residual, uint64_t n)
{
    double lanes[WRING_SPARSE_LANES] = {0};

    for (uint64_t i = 0; i < n; i++) {
        double value = (double)wring_fed(src, residual, i);
        lanes[i % WRING_SPARSE_LANES] += value * value;
    }
    for (unsigned half = WRING_SPARSE_LANES / 2; half > 0; half /= 2)
        for (unsigned j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

static uint32_t foresee_scalar(const float *u, const float *v, const float *src, uint64_t n,
                               struct wring_sparse_step step)
{
    uint32_t peak = 0;

    for (uint64_t i = 0; i < n; i++) {
        float next = step.momentum * u[i] + step.factor * src[i];
        uint32_t one = wring_magnitude(next), other = wring_magnitude(v[i] + next);
        peak = one > peak ? one : peak;
        peak = other > peak ? other : peak;
    }
    return peak;
}

static void advance_scalar(float *u, float *v, const float *src, uint64_t n,
                           struct wring_sparse_step step)
{
    for (uint64_t i = 0; i < n; i++) {
        u[i] = step.momentum * u[i] + step.factor * src[i];
        v[i] = v[i] + u[i];
    }
}

static uint64_t list_scalar(uint16_t *out, const uint64_t *map, uint64_t words)
{
    uint64_t count = 0;

    for (uint64_t word = 0; word < words; word++)
        for (uint64_t left = map[word]; left != 0; left &= left - 1)
            out[count++] = (uint16_t)(word * 64 + (unsigned)__builtin_ctzll(left));
    return count;
}

static const struct wring_sparse_kernels scalar = {
    peak_scalar, feed_scalar, squares_scalar, foresee_scalar, advance_scalar, list_scalar,
};

const struct wring_sparse_tier wring_sparse_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_sparse){{NULL, 0}, NULL},
};
