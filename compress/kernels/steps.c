/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/steps.h"

#include "compress/kernels/bits.h"

#define ROUNDER 0x1.8p23f /* numbers of up to 2^22 have no fraction once it is added */

static uint32_t peak_scalar(const float *src, const float *residual, uint64_t n)
{
    uint32_t peak = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = wring_magnitude(wring_fed(src, residual, i));
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

static float step_of(float exact, float most)
{
    exact = exact > -most ? exact : -most;
    exact = exact < most ? exact : most;
    return exact + ROUNDER - ROUNDER;
}

static int16_t step16(const void *code, uint64_t i)
{
    int16_t step;
    memcpy(&step, (const char *)code + i * sizeof(step), sizeof(step));
    return step;
}

static void put_step16(void *code, uint64_t i, int16_t step)
{
    memcpy((char *)code + i * sizeof(step), &step, sizeof(step));
}

static void encode8_scalar(void *code, const float *src, float *residual, uint64_t n, float scale,
                           float inverse, float most)
{
    for (uint64_t i = 0; i < n; i++) {
        float v = wring_fed(src, residual, i), step = step_of(v * inverse, most);
        ((int8_t *)code)[i] = (int8_t)step;
        if (residual != NULL)
            residual[i] = v - step * scale;
    }
}

static void decode8_scalar(float *dst, const void *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = (float)((const int8_t *)code)[i] * scale;
}

static void decode_add8_scalar(float *dst, const void *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = dst[i] + (float)((const int8_t *)code)[i] * scale;
}

static bool sum8_scalar(void *code, const void *other, uint64_t n)
{
    bool fits = true;

    for (uint64_t i = 0; i < n; i++) {
        int sum = ((const int8_t *)code)[i] + ((const int8_t *)other)[i];
        fits = fits && sum == (int8_t)sum;
        ((int8_t *)code)[i] = (int8_t)sum;
    }
    return fits;
}

static void encode16_scalar(void *code, const float *src, float *residual, uint64_t n, float scale,
                            float inverse, float most)
{
    for (uint64_t i = 0; i < n; i++) {
        float v = wring_fed(src, residual, i), step = step_of(v * inverse, most);
        put_step16(code, i, (int16_t)step);
        if (residual != NULL)
            residual[i] = v - step * scale;
    }
}

static void decode16_scalar(float *dst, const void *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = (float)step16(code, i) * scale;
}

static void decode_add16_scalar(float *dst, const void *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = dst[i] + (float)step16(code, i) * scale;
}

static bool sum16_scalar(void *code, const void *other, uint64_t n)
{
    bool fits = true;

    for (uint64_t i = 0; i < n; i++) {
        int sum = step16(code, i) + step16(other, i);
        fits = fits && sum == (int16_t)sum;
        put_step16(code, i, (int16_t)sum);
    }
    return fits;
}

static const struct wring_steps_kernels scalar = {
    peak_scalar,
    {{encode8_scalar, decode8_scalar, decode_add8_scalar, sum8_scalar},
     {encode16_scalar, decode16_scalar, decode_add16_scalar, sum16_scalar}}};

const struct wring_steps_tier wring_steps_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_steps){{NULL, 0}, NULL},
};
