/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/quant.h"

#define STEP 64 /* elements at a time: their codes fill a vector */

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

/** src[at..at + 16) as it is, or with the residual. NULL is known where this is inlined. */
static inline __m512 load(const float *src, const float *residual, uint64_t at)
{
    __m512 value = _mm512_loadu_ps(src + at);
    return residual == NULL ? value : _mm512_add_ps(value, _mm512_loadu_ps(residual + at));
}

static inline __m512 load_live(const float *src, const float *residual, uint64_t at, __mmask16 live)
{
    __m512 value = _mm512_maskz_loadu_ps(live, src + at);
    if (residual == NULL)
        return value;
    return _mm512_add_ps(value, _mm512_maskz_loadu_ps(live, residual + at));
}

static inline __m512i larger(__m512i peak, __m512 value)
{
    __m512i bits = _mm512_castps_si512(value);
    return _mm512_max_epu32(peak, _mm512_and_si512(bits, _mm512_set1_epi32(WRING_ABS_BITS)));
}

static inline uint32_t find_peak(const float *src, const float *residual, uint64_t n)
{
    __m512i peaks[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                        _mm512_setzero_si512()};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        for (unsigned v = 0; v < 4; v++)
            peaks[v] = larger(peaks[v], load(src, residual, i + v * 16));
    for (; i < n; i += 16)
        peaks[0] = larger(peaks[0], load_live(src, residual, i, live_lanes(n - i)));
    return _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_max_epu32(peaks[0], peaks[1]),
                                                    _mm512_max_epu32(peaks[2], peaks[3])));
}

/** What a block's values are multiplied by, and what its steps are. */
struct scale {
    float inverse, scale;
};

static inline struct scale scale_of(uint32_t peak_bits)
{
    float peak = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)peak_bits)));
    float scale = peak / WRING_QUANT_STEPS;

    if (peak < WRING_QUANT_TINY)
        return (struct scale){0, 0}; /* all steps become 0 */
    return (struct scale){WRING_QUANT_STEPS / peak,
                          scale < WRING_QUANT_SCALE_MAX ? scale : WRING_QUANT_SCALE_MAX};
}

static inline __m512i steps_of(__m512 value, __m512 inverse)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(value, inverse));
}

static inline void store_steps(int8_t *code, const __m512i steps[4])
{
    /* packing works within quarters: then the quarters' fours are put in order */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low = _mm512_packs_epi32(steps[0], steps[1]);
    __m512i high = _mm512_packs_epi32(steps[2], steps[3]);
    _mm512_storeu_si512(code, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)));
}

static inline void encode_steps(int8_t *code, const float *src, uint64_t n, struct scale scale)
{
    __m512 inverses = _mm512_set1_ps(scale.inverse);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        __m512i steps[4];
        for (unsigned v = 0; v < 4; v++)
            steps[v] = steps_of(_mm512_loadu_ps(src + i + v * 16), inverses);
        store_steps(code + i, steps);
    }
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512i steps = steps_of(_mm512_maskz_loadu_ps(live, src + i), inverses);
        _mm_mask_storeu_epi8(code + i, live, _mm512_cvtsepi32_epi8(steps));
    }
}

static inline __m512 lost(__m512 value, __m512i steps, __m512 scale)
{
    return _mm512_sub_ps(value, _mm512_mul_ps(_mm512_cvtepi32_ps(steps), scale));
}

static inline void encode_feedback(int8_t *code, const float *src, float *residual, uint64_t n,
                                   struct scale scale)
{
    __m512 inverses = _mm512_set1_ps(scale.inverse), scales = _mm512_set1_ps(scale.scale);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        __m512i steps[4];
        for (unsigned v = 0; v < 4; v++) {
            __m512 value = load(src, residual, i + v * 16);
            steps[v] = steps_of(value, inverses);
            _mm512_storeu_ps(residual + i + v * 16, lost(value, steps[v], scales));
        }
        store_steps(code + i, steps);
    }
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = load_live(src, residual, i, live);
        __m512i steps = steps_of(value, inverses);
        _mm_mask_storeu_epi8(code + i, live, _mm512_cvtsepi32_epi8(steps));
        _mm512_mask_storeu_ps(residual + i, live, lost(value, steps, scales));
    }
}

static inline void encode_block(uint8_t *code, const float *src, float *residual, uint64_t n)
{
    uint32_t peak = find_peak(src, residual, n), nan = WRING_NAN_BITS;
    int8_t *steps = (int8_t *)(code + WRING_QUANT_HEAD);

    if (__builtin_expect(peak >= WRING_INF_BITS, 0)) {
        memcpy(code, &nan, sizeof(nan));
        memset(steps, 0, n);
        return;
    }
    struct scale scale = scale_of(peak);
    memcpy(code, &scale.scale, sizeof(scale.scale));
    if (residual != NULL)
        encode_feedback(steps, src, residual, n, scale);
    else
        encode_steps(steps, src, n, scale);
}

static void encode_avx512(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    for (uint64_t i = 0; i < n; i += block, code += WRING_QUANT_HEAD + block) {
        uint64_t live = n - i < block ? n - i : block;
        if (residual == NULL) /* each way inlined for itself */
            encode_block(code, src + i, NULL, live);
        else
            encode_block(code, src + i, residual + i, live);
    }
}

static inline __m512 value_of(__m128i code, __m512 scale)
{
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(code)), scale);
}

static inline __m128i load_codes(const int8_t *code)
{
    return _mm_loadu_si128((const __m128i *)code);
}

static void decode_avx512(float *dst, const int8_t *code, uint64_t n, float scale)
{
    __m512 scales = _mm512_set1_ps(scale);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        for (unsigned v = 0; v < 4; v++)
            _mm512_storeu_ps(dst + i + v * 16, value_of(load_codes(code + i + v * 16), scales));
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        _mm512_mask_storeu_ps(dst + i, live,
                              value_of(_mm_maskz_loadu_epi8(live, code + i), scales));
    }
}

static void decode_add_avx512(float *dst, const int8_t *code, uint64_t n, float scale)
{
    __m512 scales = _mm512_set1_ps(scale);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        for (unsigned v = 0; v < 4; v++) {
            __m512 value = value_of(load_codes(code + i + v * 16), scales);
            _mm512_storeu_ps(dst + i + v * 16,
                             _mm512_add_ps(_mm512_loadu_ps(dst + i + v * 16), value));
        }
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = value_of(_mm_maskz_loadu_epi8(live, code + i), scales);
        _mm512_mask_storeu_ps(dst + i, live,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(live, dst + i), value));
    }
}

const struct wring_quant_kernels wring_quant_avx512 = {
    encode_avx512,
    decode_avx512,
    decode_add_avx512,
};
