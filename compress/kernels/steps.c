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

/* Of 4 bits: how far step i is from the lower end of its byte. */

static unsigned shift_of(uint64_t i)
{
    return i % 2 * 4;
}

static int step4(const void *code, uint64_t i)
{
    int bits = ((const uint8_t *)code)[i / 2] >> shift_of(i) & 15;
    return (bits ^ 8) - 8;
}

static void put_step4(void *code, uint64_t i, int step)
{
    uint8_t *byte = (uint8_t *)code + i / 2;
    *byte = (uint8_t)((shift_of(i) == 0 ? 0 : *byte) | (step & 15) << shift_of(i));
}

static void encode4_scalar(void *code, const float *src, float *residual, uint64_t n, float scale,
                           float inverse, float most)
{
    for (uint64_t i = 0; i < n; i++) {
        float v = wring_fed(src, residual, i), step = step_of(v * inverse, most);
        put_step4(code, i, (int)step);
        if (residual != NULL)
            residual[i] = v - step * scale;
    }
}

static void decode4_scalar(float *dst, const void *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = (float)step4(code, i) * scale;
}

static void decode_add4_scalar(float *dst, const void *code, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = dst[i] + (float)step4(code, i) * scale;
}

static bool add4_to8_scalar(void *sum, const void *code, uint64_t n)
{
    bool fits = true;

    for (uint64_t i = 0; i < n; i++) {
        int both = ((const int8_t *)sum)[i] + step4(code, i);
        fits = fits && both == (int8_t)both;
        ((int8_t *)sum)[i] = (int8_t)both;
    }
    return fits;
}

static bool add4_to16_scalar(void *sum, const void *code, uint64_t n)
{
    bool fits = true;

    for (uint64_t i = 0; i < n; i++) {
        int both = step16(sum, i) + step4(code, i);
        fits = fits && both == (int16_t)both;
        put_step16(sum, i, (int16_t)both);
    }
    return fits;
}

static uint64_t cut_to4_scalar(void *sum, uint64_t n)
{
    uint64_t beyond = 0;

    for (uint64_t i = 0; i < n; i++) {
        int whole = step16(sum, i), step = whole < -7 ? -7 : whole > 7 ? 7 : whole;
        beyond += step != whole;
        put_step4(sum, i, step);
    }
    return beyond;
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

static bool add8_scalar(void *sum, const void *code, uint64_t n)
{
    bool fits = true;

    for (uint64_t i = 0; i < n; i++) {
        int both = ((const int8_t *)sum)[i] + ((const int8_t *)code)[i];
        fits = fits && both == (int8_t)both;
        ((int8_t *)sum)[i] = (int8_t)both;
    }
    return fits;
}

static bool add8_to16_scalar(void *sum, const void *code, uint64_t n)
{
    bool fits = true;

    for (uint64_t i = 0; i < n; i++) {
        int both = step16(sum, i) + ((const int8_t *)code)[i];
        fits = fits && both == (int16_t)both;
        put_step16(sum, i, (int16_t)both);
    }
    return fits;
}

static uint64_t cut_to8_scalar(void *sum, uint64_t n)
{
    uint64_t beyond = 0;

    for (uint64_t i = 0; i < n; i++) {
        int whole = step16(sum, i), step = whole < -127 ? -127 : whole > 127 ? 127 : whole;
        beyond += step != whole;
        ((int8_t *)sum)[i] = (int8_t)step;
    }
    return beyond;
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

static bool add16_scalar(void *sum, const void *code, uint64_t n)
{
    bool fits = true;

    for (uint64_t i = 0; i < n; i++) {
        int both = step16(sum, i) + step16(code, i);
        fits = fits && both == (int16_t)both;
        put_step16(sum, i, (int16_t)both);
    }
    return fits;
}

static const struct wring_steps_kernels scalar = {
    peak_scalar,
    {{encode4_scalar, decode4_scalar, decode_add4_scalar},
     {encode8_scalar, decode8_scalar, decode_add8_scalar},
     {encode16_scalar, decode16_scalar, decode_add16_scalar}},
    add4_to8_scalar,
    add4_to16_scalar,
    add8_scalar,
    add8_to16_scalar,
    add16_scalar,
    cut_to4_scalar,
    cut_to8_scalar};

const struct wring_steps_tier wring_steps_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_steps){{NULL, 0}, NULL},
};
