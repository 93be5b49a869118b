/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/lowrank.h"

#include "compress/kernels/bits.h"

#define LANES 32

static float dot(const float *src, const float *residual, const float *q, uint64_t n)
{
    float lanes[LANES] = {0};

    for (uint64_t i = 0; i < n; i++)
        lanes[i % LANES] += wring_fed(src, residual, i) * q[i];
    for (unsigned half = LANES / 2; half > 0; half /= 2)
        for (unsigned j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

static void right_scalar(float *p, const float *src, const float *residual,
                         struct wring_lowrank_shape shape, const float *q)
{
    uint64_t n = shape.columns;

    for (uint64_t row = 0; row < shape.rows; row++)
        for (unsigned k = 0; k < shape.rank; k++)
            p[k * shape.rows + row] =
                dot(src + row * n, residual != NULL ? residual + row * n : NULL, q + k * n, n);
}

static void left_scalar(float *q, const float *src, const float *residual,
                        struct wring_lowrank_shape shape, const float *p)
{
    uint64_t n = shape.columns;

    memset(q, 0, shape.rank * n * sizeof(*q));
    for (uint64_t row = 0; row < shape.rows; row++)
        for (unsigned k = 0; k < shape.rank; k++)
            for (uint64_t i = 0; i < n; i++)
                q[k * n + i] += wring_fed(src, residual, row * n + i) * p[k * shape.rows + row];
}

static float product_at(struct wring_lowrank_shape shape, const float *p, const float *q,
                        uint64_t row, uint64_t column)
{
    float sum = p[row] * q[column];

    for (unsigned k = 1; k < shape.rank; k++)
        sum += p[k * shape.rows + row] * q[k * shape.columns + column];
    return sum;
}

static void product_scalar(float *dst, struct wring_lowrank_shape shape, const float *p,
                           const float *q)
{
    for (uint64_t row = 0; row < shape.rows; row++)
        for (uint64_t i = 0; i < shape.columns; i++)
            dst[row * shape.columns + i] = product_at(shape, p, q, row, i);
}

static void product_add_scalar(float *dst, struct wring_lowrank_shape shape, const float *p,
                               const float *q)
{
    for (uint64_t row = 0; row < shape.rows; row++)
        for (uint64_t i = 0; i < shape.columns; i++)
            dst[row * shape.columns + i] =
                dst[row * shape.columns + i] + product_at(shape, p, q, row, i);
}

static void keep_scalar(float *residual, const float *src, struct wring_lowrank_shape shape,
                        const float *p, const float *q)
{
    for (uint64_t row = 0; row < shape.rows; row++)
        for (uint64_t i = 0; i < shape.columns; i++) {
            uint64_t at = row * shape.columns + i;
            residual[at] = src[at] + residual[at] - product_at(shape, p, q, row, i);
        }
}

static const struct wring_lowrank_kernels scalar = {right_scalar, left_scalar, product_scalar,
                                                    product_add_scalar, keep_scalar};

const struct wring_lowrank_tier wring_lowrank_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_lowrank){{NULL, 0}, NULL},
};
