/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>

#include "compress/kernels/sum.h"

/** A total is multiplied by `factor` or, if that is 0, divided by `divisor`: the same bits,
 *  where both are exact. */
struct scale {
    float factor, divisor;
};

static struct scale scale_of(float divisor)
{
    bool is_power_of_two =
        (_mm_cvtsi128_si32(_mm_castps_si128(_mm_set_ss(divisor))) & 0x7FFFFF) == 0;
    if (divisor == 1)
        return (struct scale){0, 1};
    return (struct scale){is_power_of_two ? 1 / divisor : 0, divisor};
}

static inline __m512 finish(__m512 total, struct scale scale)
{
    if (scale.factor != 0)
        total = _mm512_mul_ps(total, _mm512_set1_ps(scale.factor));
    else if (scale.divisor != 1)
        total = _mm512_div_ps(total, _mm512_set1_ps(scale.divisor));
    __mmask16 nan = _mm512_cmp_ps_mask(total, total, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(total, nan, _mm512_castsi512_ps(_mm512_set1_epi32(WRING_NAN_BITS)));
}

static inline const float *at(const void *run, uint64_t i)
{
    return (const float *)((const char *)run + i * sizeof(float));
}

static void sum_64(float *dst, const void *const *src, size_t n_src, uint64_t i, struct scale scale)
{
    __m512 total[4];
    for (int v = 0; v < 4; v++)
        total[v] = _mm512_loadu_ps(at(src[0], i + 16 * (unsigned)v));
    for (size_t s = 1; s < n_src; s++)
        for (int v = 0; v < 4; v++)
            total[v] = _mm512_add_ps(total[v], _mm512_loadu_ps(at(src[s], i + 16 * (unsigned)v)));
    for (int v = 0; v < 4; v++)
        _mm512_storeu_ps(dst + i + 16 * v, finish(total[v], scale));
}

void wring_sum_avx512(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor)
{
    struct scale scale = scale_of(divisor);
    uint64_t i = 0;
    for (; i + 64 <= n; i += 64)
        sum_64(dst, src, n_src, i, scale);
    for (; i < n; i += 16) {
        __mmask16 live = n - i >= 16 ? 0xFFFF : (__mmask16)((1u << (n - i)) - 1);
        __m512 total = _mm512_maskz_loadu_ps(live, at(src[0], i));
        for (size_t s = 1; s < n_src; s++)
            total = _mm512_add_ps(total, _mm512_maskz_loadu_ps(live, at(src[s], i)));
        _mm512_mask_storeu_ps(dst + i, live, finish(total, scale));
    }
}
