/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/reduce.h"
#include "compress/kernels/x86/reduce_loop.h"

#define LESS_OQ _CMP_LT_OQ
#define MORE_OQ _CMP_GT_OQ

/** Where `next` compares so with a, or is NaN, it; else a. */
#define PICK_PS(a, next, order) \
    _mm256_blendv_ps(           \
        a, next,                \
        _mm256_or_ps(_mm256_cmp_ps(next, a, order), _mm256_cmp_ps(next, next, _CMP_UNORD_Q)))
#define PICK_PD(a, next, order) \
    _mm256_blendv_pd(           \
        a, next,                \
        _mm256_or_pd(_mm256_cmp_pd(next, a, order), _mm256_cmp_pd(next, next, _CMP_UNORD_Q)))

/* float32, and what is widened to it */

static inline __m256 canonical(__m256 a)
{
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(WRING_NAN_BITS));
    return _mm256_blendv_ps(a, nan, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

static inline __m256 divide(__m256 a, float divisor)
{
    return divisor == 1 ? a : _mm256_div_ps(a, _mm256_set1_ps(divisor));
}

static inline __m256 load_f32(const void *at)
{
    return _mm256_loadu_ps(at);
}

static inline void store_f32(void *at, __m256 a)
{
    _mm256_storeu_ps(at, a);
}

static inline __m256 load_f16(const void *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(at));
}

static inline void store_f16(void *at, __m256 a)
{
    _mm_storeu_si128(at, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline __m256 load_bf16(const void *at)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/** Rounds to nearest even by integers; the one NaN stays what it is. */
static inline void store_bf16(void *at, __m256 a)
{
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    bits = _mm256_srli_epi32(bits, 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x08);
    _mm_storeu_si128(at, _mm256_castsi256_si128(packed));
}

static inline __m256 sum_ps(__m256 a, __m256 next)
{
    return _mm256_add_ps(a, next);
}

static inline __m256 min_ps(__m256 a, __m256 next)
{
    return PICK_PS(a, next, LESS_OQ);
}

static inline __m256 max_ps(__m256 a, __m256 next)
{
    return PICK_PS(a, next, MORE_OQ);
}

static inline __m256 end_sum_ps(__m256 a, float divisor)
{
    return canonical(divide(a, divisor));
}

static inline __m256 end_pick_ps(__m256 a, float divisor)
{
    (void)divisor;
    return canonical(a);
}

#define min_f32 min_ps
#define max_f32 max_ps
#define end_min_f32 end_pick_ps
#define end_max_f32 end_pick_ps
#define sum_f16 sum_ps
#define min_f16 min_ps
#define max_f16 max_ps
#define end_sum_f16 end_sum_ps
#define end_min_f16 end_pick_ps
#define end_max_f16 end_pick_ps
#define sum_bf16 sum_ps
#define min_bf16 min_ps
#define max_bf16 max_ps
#define end_sum_bf16 end_sum_ps
#define end_min_bf16 end_pick_ps
#define end_max_bf16 end_pick_ps

WRING_REDUCE(f32, min, __m256, 8, 4)
WRING_REDUCE(f32, max, __m256, 8, 4)
WRING_REDUCE(f16, sum, __m256, 8, 2)
WRING_REDUCE(f16, min, __m256, 8, 2)
WRING_REDUCE(f16, max, __m256, 8, 2)
WRING_REDUCE(bf16, sum, __m256, 8, 2)
WRING_REDUCE(bf16, min, __m256, 8, 2)
WRING_REDUCE(bf16, max, __m256, 8, 2)

WRING_WIDEN(f16, 8)
WRING_WIDEN(bf16, 8)
WRING_NARROW(f16, __m256, 8)
WRING_NARROW(bf16, __m256, 8)

/* float64 */

static inline __m256d load_f64(const void *at)
{
    return _mm256_loadu_pd(at);
}

static inline void store_f64(void *at, __m256d a)
{
    _mm256_storeu_pd(at, a);
}

static inline __m256d sum_f64(__m256d a, __m256d next)
{
    return _mm256_add_pd(a, next);
}

static inline __m256d min_f64(__m256d a, __m256d next)
{
    return PICK_PD(a, next, LESS_OQ);
}

static inline __m256d max_f64(__m256d a, __m256d next)
{
    return PICK_PD(a, next, MORE_OQ);
}

static inline __m256d end_min_f64(__m256d a, float divisor)
{
    __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7FF8000000000000));
    (void)divisor;
    return _mm256_blendv_pd(a, nan, _mm256_cmp_pd(a, a, _CMP_UNORD_Q));
}

static inline __m256d end_sum_f64(__m256d a, float divisor)
{
    return end_min_f64(divisor == 1 ? a : _mm256_div_pd(a, _mm256_set1_pd((double)divisor)), 1);
}

#define end_max_f64 end_min_f64

WRING_REDUCE(f64, sum, __m256d, 4, 8)
WRING_REDUCE(f64, min, __m256d, 4, 8)
WRING_REDUCE(f64, max, __m256d, 4, 8)

/* integers */

static inline __m256i load_i32(const void *at)
{
    return _mm256_loadu_si256(at);
}

static inline void store_i32(void *at, __m256i a)
{
    _mm256_storeu_si256(at, a);
}

static inline __m256i end_integer(__m256i a, float divisor)
{
    (void)divisor;
    return a;
}

static inline __m256i add_i32(__m256i a, __m256i next)
{
    return _mm256_add_epi32(a, next);
}

static inline __m256i min_i32(__m256i a, __m256i next)
{
    return _mm256_min_epi32(a, next);
}

static inline __m256i max_i32(__m256i a, __m256i next)
{
    return _mm256_max_epi32(a, next);
}

static inline __m256i add_i64(__m256i a, __m256i next)
{
    return _mm256_add_epi64(a, next);
}

static inline __m256i min_i64(__m256i a, __m256i next)
{
    return _mm256_blendv_epi8(a, next, _mm256_cmpgt_epi64(a, next));
}

static inline __m256i max_i64(__m256i a, __m256i next)
{
    return _mm256_blendv_epi8(a, next, _mm256_cmpgt_epi64(next, a));
}

#define load_i64 load_i32
#define store_i64 store_i32
#define end_add_i32 end_integer
#define end_min_i32 end_integer
#define end_max_i32 end_integer
#define end_add_i64 end_integer
#define end_min_i64 end_integer
#define end_max_i64 end_integer

WRING_REDUCE(i32, add, __m256i, 8, 4)
WRING_REDUCE(i32, min, __m256i, 8, 4)
WRING_REDUCE(i32, max, __m256i, 8, 4)
WRING_REDUCE(i64, add, __m256i, 4, 8)
WRING_REDUCE(i64, min, __m256i, 4, 8)
WRING_REDUCE(i64, max, __m256i, 4, 8)

static void i32_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                    float divisor)
{
    i32_add(dst, src, n_src, n, 1);
    wring_reduce_divide_i32(dst, n, divisor);
}

static void i64_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                    float divisor)
{
    i64_add(dst, src, n_src, n, 1);
    wring_reduce_divide_i64(dst, n, divisor);
}

const struct wring_reduce_kernels wring_reduce_avx2 = {
    .fold =
        {
            [WRING_F32] = {NULL, f32_min, f32_max},
            [WRING_F64] = {f64_sum, f64_min, f64_max},
            [WRING_F16] = {f16_sum, f16_min, f16_max},
            [WRING_BF16] = {bf16_sum, bf16_min, bf16_max},
            [WRING_I32] = {i32_sum, i32_min, i32_max},
            [WRING_I64] = {i64_sum, i64_min, i64_max},
        },
    .widen = {[WRING_F16] = f16_widen, [WRING_BF16] = bf16_widen},
    .narrow = {[WRING_F16] = f16_narrow, [WRING_BF16] = bf16_narrow},
};
