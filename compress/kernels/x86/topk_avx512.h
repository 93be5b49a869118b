/* SPDX-License-Identifier: Apache-2.0 */
/** The common part of topk's AVX-512 kernels. n, src and residual are those of topk.h. */
#ifndef WRING_KERNELS_TOPK_AVX512_H
#define WRING_KERNELS_TOPK_AVX512_H

#include <immintrin.h>

#include "compress/kernels/topk.h"

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

static inline __m512 fed_whole(const float *src, const float *residual, uint64_t i)
{
    __m512 value = _mm512_loadu_ps(src + i);
    return residual == NULL ? value : _mm512_add_ps(value, _mm512_loadu_ps(residual + i));
}

static inline __m512 fed(const float *src, const float *residual, uint64_t i, __mmask16 live)
{
    __m512 value = _mm512_maskz_loadu_ps(live, src + i);
    if (residual != NULL)
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(live, residual + i));
    return value;
}

static inline __m512i magnitude_of(__m512 value)
{
    return _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(WRING_ABS_BITS));
}

/* Of wring_topk_avx512, in files of their own. */
void wring_topk_find_avx512(struct wring_topk_list *list, const float *src, const float *residual,
                            uint64_t n, uint32_t threshold);
bool wring_topk_take_avx512(struct wring_topk_list *list, struct wring_topk_undo *undo,
                            const float *src, float *residual, uint64_t n, uint32_t *threshold,
                            uint64_t enough);
void wring_topk_give_back_avx512(const struct wring_topk_undo *undo, const float *src,
                                 float *residual);

#endif
