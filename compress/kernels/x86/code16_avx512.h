/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The common part of AVX-512 kernels of 16-bit codes: a call consists of a lead up to a line,
 * pages, steps and a rest. A file that includes this defines the arithmetic, declared first.
 */
#ifndef WRING_KERNELS_CODE16_AVX512_H
#define WRING_KERNELS_CODE16_AVX512_H

#include <immintrin.h>
#include <stdbool.h>

#include "compress/kernels/x86/code16_pages.h"

#define STEP 32 /* elements at a time: a line of code, two of values */

/** The values of codes. */
static inline __m512 widen(__m256i code);

/** Any number of any values. */
static void feedback_any(uint16_t *code, const float *src, float *residual, uint64_t n);

/** Whole steps. @return how many of n are done; likewise those below */
static inline uint64_t feedback_steps(uint16_t *code, const float *src, float *residual, uint64_t n,
                                      bool streaming);

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

static inline void put_line(void *at, __m512i line, bool streaming)
{
    if (streaming)
        _mm512_stream_si512(at, line);
    else
        _mm512_storeu_si512(at, line);
}

static uint64_t feedback_pages(uint16_t *code, const float *src, float *residual, uint64_t n)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_read(src + i, WRING_PAGE * sizeof(*src));
        feedback_steps(code + i, src + i, residual + i, WRING_PAGE, true);
    }
    _mm_sfence();
    return i;
}

static void encode_feedback_avx512(void *code, const float *src, float *residual, uint64_t n)
{
    uint64_t i = WRING_LEAD(code, 2, n);
    uint16_t *out = code;

    feedback_any(out, src, residual, i);
    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(code, 2))
        i += feedback_pages(out + i, src + i, residual + i, n - i);
    i += feedback_steps(out + i, src + i, residual + i, n - i, false);
    feedback_any(out + i, src + i, residual + i, n - i);
}

/** The last few elements, in decode and decode_add alike. */
static void decode_any(float *dst, const uint16_t *code, uint64_t n, bool add)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = widen(_mm256_maskz_loadu_epi16(live, code + i));
        if (add)
            value = _mm512_add_ps(_mm512_maskz_loadu_ps(live, dst + i), value);
        _mm512_mask_storeu_ps(dst + i, live, value);
    }
}

static inline uint64_t decode_steps(float *dst, const uint16_t *code, uint64_t n, bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(code + i));
        __m256i high = _mm256_loadu_si256((const __m256i *)(code + i + 16));
        put_line(dst + i, _mm512_castps_si512(widen(low)), streaming);
        put_line(dst + i + 16, _mm512_castps_si512(widen(high)), streaming);
    }
    return i;
}

static uint64_t decode_pages(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(code + i, WRING_PAGE * sizeof(*code));
        decode_steps(dst + i, code + i, WRING_PAGE, true);
    }
    _mm_sfence();
    return i;
}

static void decode_avx512(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = WRING_LEAD(dst, 4, n);

    decode_any(dst, in, i, false);
    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(dst, 4))
        i += decode_pages(dst + i, in + i, n - i);
    i += decode_steps(dst + i, in + i, n - i, false);
    decode_any(dst + i, in + i, n - i, false);
}

static void decode_add_avx512(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = WRING_LEAD(dst, 4, n);

    decode_any(dst, in, i, true);
    if (WRING_IS_LONG(n))
        i += add_pages(dst + i, in + i, n - i);
    i += add_steps(dst + i, in + i, n - i);
    decode_any(dst + i, in + i, n - i, true);
}

#endif
