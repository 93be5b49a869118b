/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "compress/kernels/x86/lines_avx512.h"

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

/** The largest of each lane, so far; two, so that neither waits for itself. */
struct peaks {
    __m512i even, odd;
};

static inline struct peaks no_peaks(void)
{
    return (struct peaks){_mm512_setzero_si512(), _mm512_setzero_si512()};
}

/** With 64 elements more. */
static inline struct peaks look(struct peaks peaks, const float *src, const float *residual)
{
    for (unsigned v = 0; v < 4; v += 2) {
        peaks.even = larger(peaks.even, load(src, residual, v * 16));
        peaks.odd = larger(peaks.odd, load(src, residual, v * 16 + 16));
    }
    return peaks;
}

static inline uint32_t largest(struct peaks peaks)
{
    return _mm512_reduce_max_epu32(_mm512_max_epu32(peaks.even, peaks.odd));
}

/** n is a multiple of STEP. */
static inline struct peaks look_over(const float *src, const float *residual, uint64_t n)
{
    struct peaks peaks = no_peaks();

    for (uint64_t i = 0; i < n; i += STEP)
        peaks = look(peaks, src + i, residual == NULL ? NULL : residual + i);
    return peaks;
}

static inline uint32_t find_peak(const float *src, const float *residual, uint64_t n)
{
    uint64_t i = n / STEP * STEP;
    struct peaks peaks = look_over(src, residual, i);

    for (; i < n; i += 16)
        peaks.even = larger(peaks.even, load_live(src, residual, i, live_lanes(n - i)));
    return largest(peaks);
}

/** The factor for a block's values, and the size of its steps. */
struct scale {
    float inverse, scale;
};

static inline struct scale scale_of(uint32_t peak_bits)
{
    float peak = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)peak_bits)));
    float inverse = WRING_INT8_STEPS / peak; /* first: all steps wait for it */
    float scale = peak / WRING_INT8_STEPS;

    if (__builtin_expect(peak < WRING_INT8_TINY, 0))
        return (struct scale){0, 0}; /* all steps become 0 */
    return (struct scale){inverse, scale < WRING_INT8_SCALE_MAX ? scale : WRING_INT8_SCALE_MAX};
}

static inline __m512i steps_of(__m512 value, __m512 inverse)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(value, inverse));
}

static inline __m512 lost(__m512 value, __m512i steps, __m512 scale)
{
    return _mm512_sub_ps(value, _mm512_mul_ps(_mm512_cvtepi32_ps(steps), scale));
}

/**
 * The steps of 64 elements, packed; residual becomes what they lost. Packing works within quarters:
 * fours of steps come out in the order 0 4 8 12 1 5 …, which unpacking() undoes.
 */
static inline __m512i pack_64(const float *src, float *residual, struct scale scale)
{
    __m512 inverses = _mm512_set1_ps(scale.inverse), scales = _mm512_set1_ps(scale.scale);
    __m512i steps[4];

    for (unsigned v = 0; v < 4; v++) {
        __m512 value = load(src, residual, v * 16);
        steps[v] = steps_of(value, inverses);
        if (residual != NULL)
            _mm512_storeu_ps(residual + v * 16, lost(value, steps[v], scales));
    }
    return _mm512_packs_epi16(_mm512_packs_epi32(steps[0], steps[1]),
                              _mm512_packs_epi32(steps[2], steps[3]));
}

static inline void encode_any(int8_t *code, const float *src, float *residual, uint64_t n,
                              struct scale scale)
{
    __m512 inverses = _mm512_set1_ps(scale.inverse), scales = _mm512_set1_ps(scale.scale);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        __m512i packed = pack_64(src + i, residual == NULL ? NULL : residual + i, scale);
        _mm512_storeu_si512(code + i, _mm512_permutexvar_epi32(unpacking(), packed));
    }
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = load_live(src, residual, i, live);
        __m512i steps = steps_of(value, inverses);
        _mm_mask_storeu_epi8(code + i, live, _mm512_cvtsepi32_epi8(steps));
        if (residual != NULL)
            _mm512_mask_storeu_ps(residual + i, live, lost(value, steps, scales));
    }
}

static inline void encode_block(uint8_t *code, const float *src, float *residual, uint64_t n)
{
    uint32_t peak = find_peak(src, residual, n), nan = WRING_NAN_BITS;
    int8_t *steps = (int8_t *)(code + WRING_INT8_HEAD);

    if (__builtin_expect(peak >= WRING_INF_BITS, 0)) {
        memcpy(code, &nan, sizeof(nan));
        memset(steps, 0, n);
        return;
    }
    struct scale scale = scale_of(peak);
    memcpy(code, &scale.scale, sizeof(scale.scale));
    encode_any(steps, src, residual, n, scale);
}

/**
 * n is a multiple of STEP.
 * @param peak   of this block
 * @param ahead  another block, or NULL
 * @return the peak of that, found between the steps of this one; 0 without one
 */
INLINE uint32_t put_block(struct lines *out, const float *src, float *residual, uint64_t n,
                          uint32_t peak, const float *ahead, bool streaming)
{
    struct peaks peaks = no_peaks();

    if (__builtin_expect(peak >= WRING_INF_BITS, 0)) {
        *out = put_nan(*out, n, streaming);
        return ahead == NULL ? 0 : largest(look_over(ahead, NULL, n));
    }
    struct scale scale = scale_of(peak);
    put_head(out, scale.scale, streaming);
    __m512i index = joint(out->filled), last = pack_64(src, residual, scale);
    if (ahead != NULL)
        peaks = look(peaks, ahead, NULL);
    put_first(out, last, streaming);
    for (uint64_t i = STEP; i < n; i += STEP) {
        __m512i next = pack_64(src + i, residual == NULL ? NULL : residual + i, scale);
        if (ahead != NULL)
            peaks = look(peaks, ahead + i, NULL);
        put_line(out, _mm512_permutex2var_epi32(last, index, next), streaming);
        last = next;
    }
    out->pending = _mm512_permutex2var_epi32(last, index, last);
    return largest(peaks);
}

/** A page of src, so that the page of residual is all that the block waits for. */
static void read_page(const float *src, uint64_t i, uint64_t n, uint64_t block)
{
    uint64_t run = block > WRING_PAGE ? block : WRING_PAGE;
    if (i % run == 0)
        wring_streaming_read(src + i, (n - i < run ? n - i : run) * sizeof(*src));
}

/** One block after the other: each is fetched in one go and found in the first cache then. */
INLINE void put_blocks(struct lines *out, const float *src, float *residual, uint64_t n,
                       uint64_t block, bool streaming)
{
    for (uint64_t i = 0; i < n; i += block) {
        float *left = residual == NULL ? NULL : residual + i;
        if (streaming && residual != NULL)
            read_page(src, i, n, block);
        put_block(out, src + i, left, block, largest(look_over(src + i, left, block)), NULL,
                  streaming);
    }
}

/** Each with the peak of the next but one, where that comes out of a near cache. */
INLINE void put_near_blocks(struct lines *out, const float *src, uint64_t n, uint64_t block)
{
    uint32_t peak = largest(look_over(src, NULL, block));
    uint32_t next = n > block ? largest(look_over(src + block, NULL, block)) : 0;

    for (uint64_t i = 0; i < n; i += block) {
        bool more = n - i > 2 * block;
        uint32_t found =
            put_block(out, src + i, NULL, block, peak, more ? src + i + 2 * block : NULL, false);
        peak = next;
        next = found;
    }
}

/** Whole blocks. @param code  as in open_lines() */
INLINE void encode_lines(uint8_t *code, const float *src, float *residual, uint64_t n,
                         uint64_t block, bool streaming)
{
    struct lines out = open_lines(code);

    if (residual == NULL && !streaming)
        put_near_blocks(&out, src, n, block);
    else
        put_blocks(&out, src, residual, n, block, streaming);
    close_lines(&out, streaming);
}

/** Blocks one by one, the last of which may be short. */
INLINE void encode_blocks(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    for (uint64_t i = 0; i < n; i += block, code += WRING_INT8_HEAD + block)
        encode_block(code, src + i, residual == NULL ? NULL : residual + i,
                     n - i < block ? n - i : block);
}

static void encode_singly(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    if (residual == NULL) /* each way inlined for itself */
        encode_blocks(code, src, NULL, n, block);
    else
        encode_blocks(code, src, residual, n, block);
}

/** In lines what can be: whole blocks, from the second on where the first begins within a line. */
INLINE void encode(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block,
                   bool streaming)
{
    uint64_t first = (uintptr_t)code % WRING_LINE == 0 ? 0 : block;
    uint64_t i = 0, whole = n / block * block;

    if (block % STEP == 0 && (uintptr_t)code % 4 == 0 && whole > first) {
        encode_singly(code, src, residual, first, block);
        code += first / block * (WRING_INT8_HEAD + block);
        encode_lines(code, src + first, residual == NULL ? NULL : residual + first, whole - first,
                     block, streaming);
        code += (whole - first) / block * (WRING_INT8_HEAD + block);
        i = whole;
    }
    encode_singly(code, src + i, residual == NULL ? NULL : residual + i, n - i, block);
}

static void encode_avx512(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    if (residual == NULL && WRING_IS_LONG(n)) /* each way inlined for itself */
        encode(code, src, NULL, n, block, true);
    else if (residual == NULL)
        encode(code, src, NULL, n, block, false);
    else if (WRING_IS_LONG(n))
        encode(code, src, residual, n, block, true);
    else
        encode(code, src, residual, n, block, false);
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

const struct wring_int8_kernels wring_int8_avx512 = {
    encode_avx512,
    decode_avx512,
    decode_add_avx512,
};
