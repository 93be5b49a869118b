/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Bits of float32 for baseline code: codecs and scalar kernels. Never included by a file that is
 * built for a further instruction set (see kernels.h).
 */
#ifndef WRING_KERNELS_BITS_H
#define WRING_KERNELS_BITS_H

#include <string.h>

#include "compress/kernels/kernels.h"
#include "compress/kernels/philox.h"

static inline uint32_t wring_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float wring_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/** |value| as bits; for finite values they are ordered as the magnitudes are. */
static inline uint32_t wring_magnitude(float value)
{
    return wring_bits_of(value) & WRING_ABS_BITS;
}

/** value, or the one NaN for any NaN. */
static inline float wring_canonical(float value)
{
    return value == value ? value : wring_float_of(WRING_NAN_BITS);
}

/** src[i] + residual[i]; residual may be NULL. */
static inline float wring_fed(const float *src, const float *residual, uint64_t i)
{
    return residual == NULL ? src[i] : src[i] + residual[i];
}

/** max |src + residual| as bits; WRING_INF_BITS or more if one of them is not finite. */
static inline uint32_t wring_peak(const float *src, const float *residual, uint64_t n)
{
    uint32_t peak = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = wring_magnitude(wring_fed(src, residual, i));
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

/** The noise of element i, whose words begin with those of a run (philox.h). */
static inline uint32_t wring_noise(const uint32_t *noise, uint64_t i)
{
    uint32_t word = noise[i / WRING_NOISE_RUN * WRING_NOISE_RUN_WORDS + i % WRING_NOISE_RUN_WORDS];
    return i % WRING_NOISE_RUN < WRING_NOISE_RUN_WORDS ? word & 0xFFFF : word >> 16;
}

/*
 * Fields of a code. A peer may own the memory and change it while we look, so each field is read
 * once: the empty asm keeps the compiler from reading it a second time after the check.
 */
static inline uint32_t wring_take_u32(const void *code)
{
    uint32_t value;
    memcpy(&value, code, sizeof(value));
    __asm__ volatile("" : "+r"(value));
    return value;
}

static inline uint32_t wring_take_u16(const void *code)
{
    uint16_t value;
    memcpy(&value, code, sizeof(value));
    uint32_t wide = value;
    __asm__ volatile("" : "+r"(wide));
    return wide;
}

static inline void wring_put_u32(void *code, uint32_t value)
{
    memcpy(code, &value, sizeof(value));
}

#endif
