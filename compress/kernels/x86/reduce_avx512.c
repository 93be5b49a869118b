/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/reduce.h"
#include "compress/kernels/x86/reduce_loop.h"

#define LESS_OQ _CMP_LT_OQ
#define MORE_OQ _CMP_GT_OQ

/** Where `next` compares so with a, or is NaN, it; else a. */
#define PICK_PS(a, next, order)                                                               \
    _mm512_mask_mov_ps(                                                                       \
        a, _mm512_cmp_ps_mask(next, a, order) | _mm512_cmp_ps_mask(next, next, _CMP_UNORD_Q), \
        next)
#define PICK_PD(a, next, order)                                                  \
    _mm512_mask_mov_pd(a,                                                        \
                       (__mmask8)(_mm512_cmp_pd_mask(next, a, order) |           \
                                  _mm512_cmp_pd_mask(next, next, _CMP_UNORD_Q)), \
                       next)

/* float32, and what is widened to it */

static inline __m512 canonical(__m512 a)
{
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(a, nan, _mm512_castsi512_ps(_mm512_set1_epi32(WRING_NAN_BITS)));
}

static inline __m512 divide(__m512 a, float divisor)
{
    return divisor == 1 ? a : _mm512_div_ps(a, _mm512_set1_ps(divisor));
}

static inline __m512 load_f32(const void *at)
{
    return _mm512_loadu_ps(at);
}

static inline void store_f32(void *at, __m512 a)
{
    _mm512_storeu_ps(at, a);
}

static inline __m512 load_f16(const void *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(at));
}

static inline void store_f16(void *at, __m512 a)
{
    _mm256_storeu_si256(at, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline __m512 load_bf16(const void *at)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/** Rounds to nearest even by integers; the one NaN stays what it is. */
static inline void store_bf16(void *at, __m512 a)
{
    __m512i bits = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    _mm256_storeu_si256(at, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

static inline __m512 sum_ps(__m512 a, __m512 next)
{
    return _mm512_add_ps(a, next);
}

static inline __m512 min_ps(__m512 a, __m512 next)
{
    return PICK_PS(a, next, LESS_OQ);
}

static inline __m512 max_ps(__m512 a, __m512 next)
{
    return PICK_PS(a, next, MORE_OQ);
}

static inline __m512 end_sum_ps(__m512 a, float divisor)
{
    return canonical(divide(a, divisor));
}

static inline __m512 end_pick_ps(__m512 a, float divisor)
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

WRING_REDUCE(f32, min, __m512, 16, 4)
WRING_REDUCE(f32, max, __m512, 16, 4)
WRING_REDUCE(f16, sum, __m512, 16, 2)
WRING_REDUCE(f16, min, __m512, 16, 2)
WRING_REDUCE(f16, max, __m512, 16, 2)
WRING_REDUCE(bf16, sum, __m512, 16, 2)
WRING_REDUCE(bf16, min, __m512, 16, 2)
WRING_REDUCE(bf16, max, __m512, 16, 2)

WRING_WIDEN(f16, 16)
WRING_WIDEN(bf16, 16)
WRING_NARROW(f16, __m512, 16)
WRING_NARROW(bf16, __m512, 16)

/* float64 */

static inline __m512d load_f64(const void *at)
{
    return _mm512_loadu_pd(at);
}

static inline void store_f64(void *at, __m512d a)
{
    _mm512_storeu_pd(at, a);
}

static inline __m512d sum_f64(__m512d a, __m512d next)
{
    return _mm512_add_pd(a, next);
}

static inline __m512d min_f64(__m512d a, __m512d next)
{
    return PICK_PD(a, next, LESS_OQ);
}

static inline __m512d max_f64(__m512d a, __m512d next)
{
    return PICK_PD(a, next, MORE_OQ);
}

static inline __m512d end_min_f64(__m512d a, float divisor)
{
    __m512d nan = _mm512_castsi512_pd(_mm512_set1_epi64(0x7FF8000000000000));
    (void)divisor;
    return _mm512_mask_mov_pd(a, _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q), nan);
}

static inline __m512d end_sum_f64(__m512d a, float divisor)
{
    return end_min_f64(divisor == 1 ? a : _mm512_div_pd(a, _mm512_set1_pd((double)divisor)), 1);
}

#define end_max_f64 end_min_f64

WRING_REDUCE(f64, sum, __m512d, 8, 8)
WRING_REDUCE(f64, min, __m512d, 8, 8)
WRING_REDUCE(f64, max, __m512d, 8, 8)

/* integers */

static inline __m512i load_i32(const void *at)
{
    return _mm512_loadu_si512(at);
}

static inline void store_i32(void *at, __m512i a)
{
    _mm512_storeu_si512(at, a);
}

static inline __m512i end_integer(__m512i a, float divisor)
{
    (void)divisor;
    return a;
}

static inline __m512i add_i32(__m512i a, __m512i next)
{
    return _mm512_add_epi32(a, next);
}

static inline __m512i min_i32(__m512i a, __m512i next)
{
    return _mm512_min_epi32(a, next);
}

static inline __m512i max_i32(__m512i a, __m512i next)
{
    return _mm512_max_epi32(a, next);
}

static inline __m512i add_i64(__m512i a, __m512i next)
{
    return _mm512_add_epi64(a, next);
}

static inline __m512i min_i64(__m512i a, __m512i next)
{
    return _mm512_min_epi64(a, next);
}

static inline __m512i max_i64(__m512i a, __m512i next)
{
    return _mm512_max_epi64(a, next);
}

#define load_i64 load_i32
#define store_i64 store_i32
#define end_add_i32 end_integer
#define end_min_i32 end_integer
#define end_max_i32 end_integer
#define end_add_i64 end_integer
#define end_min_i64 end_integer
#define end_max_i64 end_integer

WRING_REDUCE(i32, add, __m512i, 16, 4)
WRING_REDUCE(i32, min, __m512i, 16, 4)
WRING_REDUCE(i32, max, __m512i, 16, 4)
WRING_REDUCE(i64, add, __m512i, 8, 8)
WRING_REDUCE(i64, min, __m512i, 8, 8)
WRING_REDUCE(i64, max, __m512i, 8, 8)

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

const struct wring_reduce_kernels wring_reduce_avx512 = {
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
