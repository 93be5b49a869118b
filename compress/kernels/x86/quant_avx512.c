/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "compress/kernels/far.h"
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

/** peaks, with 64 elements more. */
static inline void look(__m512i peaks[4], const float *src, const float *residual)
{
    for (unsigned v = 0; v < 4; v++)
        peaks[v] = larger(peaks[v], load(src, residual, v * 16));
}

static inline uint32_t largest(const __m512i peaks[4])
{
    return _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_max_epu32(peaks[0], peaks[1]),
                                                    _mm512_max_epu32(peaks[2], peaks[3])));
}

static inline uint32_t find_peak(const float *src, const float *residual, uint64_t n)
{
    __m512i peaks[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                        _mm512_setzero_si512()};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        look(peaks, src + i, residual == NULL ? NULL : residual + i);
    for (; i < n; i += 16)
        peaks[0] = larger(peaks[0], load_live(src, residual, i, live_lanes(n - i)));
    return largest(peaks);
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

static inline __m512i unpacking(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
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
    int8_t *steps = (int8_t *)(code + WRING_QUANT_HEAD);

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
 * Codes on their way out as whole lines. Each head shifts what follows by 4 bytes against them, so
 * a line is put together from two vectors, where the packed fours are put in order anyway.
 */
struct lines {
    uint8_t *at;      /* the line that is being filled */
    __m512i pending;  /* its fours so far */
    unsigned filled;  /* so many, less than 16 */
    unsigned skipped; /* of the first line's: not ours */
    bool streaming;
};

static inline struct lines open_lines(uint8_t *code, bool streaming)
{
    unsigned filled = (unsigned)((uintptr_t)code % WRING_LINE / 4);
    return (struct lines){code - 4 * filled, _mm512_setzero_si512(), filled, filled, streaming};
}

static inline void put_line(struct lines *out, __m512i line)
{
    if (__builtin_expect(out->skipped != 0, 0)) {
        _mm512_mask_storeu_epi32(out->at, (__mmask16)(0xFFFFu << out->skipped), line);
        out->skipped = 0;
    } else if (out->streaming) {
        _mm512_stream_si512((void *)out->at, line);
    } else {
        _mm512_store_si512(out->at, line);
    }
    out->at += WRING_LINE;
}

static inline void put_head(struct lines *out, float scale)
{
    __m512i head = _mm512_castps_si512(_mm512_set1_ps(scale));
    out->pending = _mm512_mask_mov_epi32(out->pending, (__mmask16)(1u << out->filled), head);
    if (++out->filled == 16) {
        put_line(out, out->pending);
        out->filled = 0;
    }
}

/** Which fours of two packed vectors follow each other from the last `filled` of the first on. */
static inline __m512i joint(unsigned filled)
{
    const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i place = _mm512_add_epi32(count, _mm512_set1_epi32(16 - (int)filled));
    __m512i second = _mm512_and_si512(place, _mm512_set1_epi32(16));
    return _mm512_or_si512(_mm512_permutexvar_epi32(place, unpacking()), second);
}

/**
 * n is a multiple of STEP.
 * @param peak   of this block
 * @param ahead  another block, or NULL
 * @return the peak of that, found between the steps of this one; 0 without one
 */
static inline uint32_t put_block(struct lines *out, const float *src, float *residual, uint64_t n,
                                 uint32_t peak, const float *ahead)
{
    const float nan = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(WRING_NAN_BITS)));
    bool finite = peak < WRING_INF_BITS;
    struct scale scale = scale_of(peak);
    __m512i last = _mm512_setzero_si512(), peaks[4] = {last, last, last, last};

    put_head(out, finite ? scale.scale : nan);
    __m512i index = joint(out->filled);
    if (__builtin_expect(finite, 1))
        last = pack_64(src, residual, scale);
    if (ahead != NULL)
        look(peaks, ahead, NULL);
    put_line(out, _mm512_mask_expand_epi32(out->pending, (__mmask16)(0xFFFFu << out->filled),
                                           _mm512_permutexvar_epi32(unpacking(), last)));
    for (uint64_t i = STEP; i < n; i += STEP) {
        __m512i next = last; /* zeros, unless */
        if (__builtin_expect(finite, 1))
            next = pack_64(src + i, residual == NULL ? NULL : residual + i, scale);
        if (ahead != NULL)
            look(peaks, ahead + i, NULL);
        put_line(out, _mm512_permutex2var_epi32(last, index, next));
        last = next;
    }
    out->pending = _mm512_permutex2var_epi32(last, index, last);
    return largest(peaks);
}

static inline void close_lines(struct lines *out)
{
    _mm512_mask_storeu_epi32(out->at, (__mmask16)((1u << out->filled) - 1), out->pending);
    if (out->streaming)
        _mm_sfence();
}

/** A page of src, so that the page of residual is all that the block waits for. */
static void read_page(const float *src, uint64_t i, uint64_t n, uint64_t block)
{
    uint64_t run = block > WRING_PAGE ? block : WRING_PAGE;
    if (i % run == 0)
        wring_far_read(src + i, (n - i < run ? n - i : run) * sizeof(*src));
}

/** One block after the other: each is fetched in one go and found in the first cache then. */
static inline void put_blocks(struct lines *out, const float *src, float *residual, uint64_t n,
                              uint64_t block)
{
    for (uint64_t i = 0; i < n; i += block) {
        float *left = residual == NULL ? NULL : residual + i;
        if (out->streaming && residual != NULL)
            read_page(src, i, n, block);
        put_block(out, src + i, left, block, find_peak(src + i, left, block), NULL);
    }
}

/** Each with the peak of the next but one, where that comes out of a near cache. */
static void put_near_blocks(struct lines *out, const float *src, uint64_t n, uint64_t block)
{
    uint32_t peak = find_peak(src, NULL, block);
    uint32_t next = n > block ? find_peak(src + block, NULL, block) : 0;

    for (uint64_t i = 0; i < n; i += block) {
        bool more = n - i > 2 * block;
        uint32_t found =
            put_block(out, src + i, NULL, block, peak, more ? src + i + 2 * block : NULL);
        peak = next;
        next = found;
    }
}

/** Whole blocks. @return how many elements they are */
static inline uint64_t encode_lines(uint8_t *code, const float *src, float *residual, uint64_t n,
                                    uint64_t block)
{
    struct lines out = open_lines(code, WRING_IS_LONG(n));
    uint64_t whole = n / block * block;

    if (whole == 0)
        return 0;
    if (residual == NULL && !out.streaming)
        put_near_blocks(&out, src, whole, block);
    else
        put_blocks(&out, src, residual, whole, block);
    close_lines(&out);
    return whole;
}

static inline void encode(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    uint64_t i = 0;

    if (block % STEP == 0 && (uintptr_t)code % 4 == 0)
        i = encode_lines(code, src, residual, n, block);
    code += i / block * (WRING_QUANT_HEAD + block);
    for (; i < n; i += block, code += WRING_QUANT_HEAD + block)
        encode_block(code, src + i, residual == NULL ? NULL : residual + i,
                     n - i < block ? n - i : block);
}

static void encode_avx512(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    if (residual == NULL) /* each way inlined for itself */
        encode(code, src, NULL, n, block);
    else
        encode(code, src, residual, n, block);
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
