/* SPDX-License-Identifier: Apache-2.0 */
/**
 * int8's blocks on their way out as whole lines: of a head and of vectors of 64 steps. Each head
 * shifts what follows by 4 bytes against the lines, so a line is put together from two vectors,
 * where the packed fours are put in order anyway.
 */
#include "compress/kernels/vector/int8.h"

/** The order of fours in a vector of packed steps: 0 4 8 12 1 5 …; it undoes itself. */
INLINE __m512i unpacking(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/** Where the codes have come to. */
struct lines {
    uint8_t *at;     /* the line that is being filled */
    __m512i pending; /* its fours so far */
    unsigned filled; /* so many, less than 16 */
};

/** @param code  where a line begins, or else behind a block that is written already */
INLINE struct lines open_lines(uint8_t *code)
{
    unsigned filled = (unsigned)((uintptr_t)code % WRING_LINE / 4);
    uint8_t *at = code - 4 * filled;
    return (struct lines){at, _mm512_maskz_loadu_epi32((__mmask16)((1u << filled) - 1), at),
                          filled};
}

/** @param streaming  past the caches; known where this is inlined */
INLINE void put_line(struct lines *out, __m512i line, bool streaming)
{
    if (streaming)
        _mm512_stream_si512((void *)out->at, line);
    else
        _mm512_store_si512(out->at, line);
    out->at += WRING_LINE;
}

INLINE void put_head(struct lines *out, float scale, bool streaming)
{
    __m512i head = _mm512_castps_si512(_mm512_set1_ps(scale));
    out->pending = _mm512_mask_mov_epi32(out->pending, (__mmask16)(1u << out->filled), head);
    if (++out->filled == 16) {
        put_line(out, out->pending, streaming);
        out->filled = 0;
    }
}

/** Write the first of a block's vectors, behind the fours that are pending. */
INLINE void put_first(struct lines *out, __m512i packed, bool streaming)
{
    __m512i fours = _mm512_permutexvar_epi32(unpacking(), packed);
    __mmask16 position = (__mmask16)(0xFFFFu << out->filled);
    put_line(out, _mm512_mask_expand_epi32(out->pending, position, fours), streaming);
}

/** Which fours of two packed vectors follow each other from the last `filled` of the first on. */
INLINE __m512i joint(unsigned filled)
{
    const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i position = _mm512_add_epi32(count, _mm512_set1_epi32(16 - (int)filled));
    __m512i second = _mm512_and_si512(position, _mm512_set1_epi32(16));
    return _mm512_or_si512(_mm512_permutexvar_epi32(position, unpacking()), second);
}

/** A block that is not finite: NaN, and steps of 0. By value: others stay in registers. */
INLINE struct lines put_nan(struct lines out, uint64_t n, bool streaming)
{
    const __m512i zero = _mm512_setzero_si512();

    put_head(&out, _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(WRING_NAN_BITS))), streaming);
    put_first(&out, zero, streaming);
    for (uint64_t i = STEP; i < n; i += STEP)
        put_line(&out, zero, streaming);
    out.pending = zero;
    return out;
}

INLINE void close_lines(struct lines *out, bool streaming)
{
    _mm512_mask_storeu_epi32(out->at, (__mmask16)((1u << out->filled) - 1), out->pending);
    if (streaming)
        _mm_sfence();
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
    __m512i index = joint(out->filled), last = (__m512i)pack_step(src, residual, scale);
    if (ahead != NULL)
        peaks = look(peaks, ahead, NULL);
    put_first(out, last, streaming);
    for (uint64_t i = STEP; i < n; i += STEP) {
        __m512i next = (__m512i)pack_step(src + i, residual == NULL ? NULL : residual + i, scale);
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

/** In lines what can be: whole blocks, from the second on where the first begins within a line. */
INLINE void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block,
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

static void encode(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block)
{
    if (residual == NULL && WRING_IS_LONG(n)) /* each way inlined for itself */
        encode_any(code, src, NULL, n, block, true);
    else if (residual == NULL)
        encode_any(code, src, NULL, n, block, false);
    else if (WRING_IS_LONG(n))
        encode_any(code, src, residual, n, block, true);
    else
        encode_any(code, src, residual, n, block, false);
}

const struct wring_int8_kernels wring_int8_avx512 = {
    encode,
    decode,
    decode_add,
};
