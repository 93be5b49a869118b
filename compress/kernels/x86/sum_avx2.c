/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

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

static inline __m256 finish(__m256 total, struct scale scale)
{
    if (scale.factor != 0)
        total = _mm256_mul_ps(total, _mm256_set1_ps(scale.factor));
    else if (scale.divisor != 1)
        total = _mm256_div_ps(total, _mm256_set1_ps(scale.divisor));
    __m256 nan = _mm256_cmp_ps(total, total, _CMP_UNORD_Q);
    return _mm256_blendv_ps(total, _mm256_castsi256_ps(_mm256_set1_epi32(WRING_NAN_BITS)), nan);
}

static inline const float *at(const void *run, uint64_t i)
{
    return (const float *)((const char *)run + i * sizeof(float));
}

static void sum_32(float *dst, const void *const *src, size_t n_src, uint64_t i, struct scale scale)
{
    __m256 total[4];
    for (int v = 0; v < 4; v++)
        total[v] = _mm256_loadu_ps(at(src[0], i + 8 * (unsigned)v));
    for (size_t s = 1; s < n_src; s++)
        for (int v = 0; v < 4; v++)
            total[v] = _mm256_add_ps(total[v], _mm256_loadu_ps(at(src[s], i + 8 * (unsigned)v)));
    for (int v = 0; v < 4; v++)
        _mm256_storeu_ps(dst + i + 8 * v, finish(total[v], scale));
}

/** The rest of fewer than 32, through padded copies: 8 elements at a time. */
static void sum_rest(float *dst, const void *const *src, size_t n_src, uint64_t i, uint64_t n,
                     struct scale scale)
{
    for (; i < n; i += 8) {
        size_t bytes = (n - i < 8 ? n - i : 8) * sizeof(float);
        float rest[8] = {0};
        memcpy(rest, at(src[0], i), bytes);
        __m256 total = _mm256_loadu_ps(rest);
        for (size_t s = 1; s < n_src; s++) {
            memcpy(rest, at(src[s], i), bytes);
            total = _mm256_add_ps(total, _mm256_loadu_ps(rest));
        }
        _mm256_storeu_ps(rest, finish(total, scale));
        memcpy(dst + i, rest, bytes);
    }
}

void wring_sum_avx2(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor)
{
    struct scale scale = scale_of(divisor);
    uint64_t i = 0;
    for (; i + 32 <= n; i += 32)
        sum_32(dst, src, n_src, i, scale);
    sum_rest(dst, src, n_src, i, n, scale);
}
