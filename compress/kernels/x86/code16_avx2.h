/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The decoding that all AVX2 kernels of 16-bit codes share. A file that includes this defines
 * load_8(), which says for which value a code stands.
 */
#ifndef WRING_KERNELS_CODE16_AVX2_H
#define WRING_KERNELS_CODE16_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "compress/kernels/x86/code16_pages.h"

/** The values of eight codes at any address. */
static inline __m256 load_8(const uint16_t *code);

static void decode_avx2(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint16_t codes[8] = {0};
    float rest[8];
    uint64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, load_8(in + i));
    if (i == n)
        return;
    memcpy(codes, in + i, (n - i) * sizeof(*in));
    _mm256_storeu_ps(rest, load_8(codes));
    memcpy(dst + i, rest, (n - i) * sizeof(*dst));
}

static inline void add_8(float *dst, const uint16_t *code)
{
    _mm256_storeu_ps(dst, _mm256_add_ps(_mm256_loadu_ps(dst), load_8(code)));
}

static inline uint64_t add_steps(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        add_8(dst + i, code + i);
    return i;
}

static void decode_add_avx2(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint16_t codes[8] = {0};
    float rest[8] = {0};
    uint64_t i = WRING_IS_LONG(n) ? add_pages(dst, in, n) : 0;

    i += add_steps(dst + i, in + i, n - i);
    if (i == n)
        return;
    memcpy(codes, in + i, (n - i) * sizeof(*in));
    memcpy(rest, dst + i, (n - i) * sizeof(*dst));
    add_8(rest, codes);
    memcpy(dst + i, rest, (n - i) * sizeof(*dst));
}

#endif
