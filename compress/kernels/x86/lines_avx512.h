/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Codes of int8 on their way out as whole lines: blocks of a head and of vectors of 64 steps. Each
 * head shifts what follows by 4 bytes against the lines, so a line is put together from two
 * vectors, where the packed fours are put in order anyway.
 */
#ifndef WRING_KERNELS_LINES_AVX512_H
#define WRING_KERNELS_LINES_AVX512_H

#include <immintrin.h>
#include <stdbool.h>

#include "compress/kernels/int8.h"
#include "compress/kernels/streaming.h"

#define STEP 64 /* elements at a time: their codes fill a vector */

/* for functions to which each caller gives constants */
#define INLINE static inline __attribute__((always_inline))

/** The order of fours in a vector of packed steps: 0 4 8 12 1 5 …; it undoes itself. */
static inline __m512i unpacking(void)
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
static inline struct lines open_lines(uint8_t *code)
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
    __mmask16 place = (__mmask16)(0xFFFFu << out->filled);
    put_line(out, _mm512_mask_expand_epi32(out->pending, place, fours), streaming);
}

/** Which fours of two packed vectors follow each other from the last `filled` of the first on. */
static inline __m512i joint(unsigned filled)
{
    const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i place = _mm512_add_epi32(count, _mm512_set1_epi32(16 - (int)filled));
    __m512i second = _mm512_and_si512(place, _mm512_set1_epi32(16));
    return _mm512_or_si512(_mm512_permutexvar_epi32(place, unpacking()), second);
}

/** A block that is not finite: NaN, and steps of 0. By value: others stay in registers. */
static inline struct lines put_nan(struct lines out, uint64_t n, bool streaming)
{
    const __m512i zero = _mm512_setzero_si512();

    put_head(&out, _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(WRING_NAN_BITS))), streaming);
    put_first(&out, zero, streaming);
    for (uint64_t i = STEP; i < n; i += STEP)
        put_line(&out, zero, streaming);
    out.pending = zero;
    return out;
}

static inline void close_lines(struct lines *out, bool streaming)
{
    _mm512_mask_storeu_epi32(out->at, (__mmask16)((1u << out->filled) - 1), out->pending);
    if (streaming)
        _mm_sfence();
}

#endif
