/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Vectors of the instruction set at hand, for kernels that are written once and compiled for each:
 * 256 bits of AVX2, 512 of AVX-512, or 128 of Arm's Advanced SIMD. Arithmetic is the compiler's:
 * a + b, bits & mask and bits >> 16 go lane by lane, and a cast from one of these types to another
 * keeps the bits. What has no operator stands here, or in the file of each set.
 *
 * Included by files built for one instruction set each, which share no function: all is inlined.
 */
#ifndef WRING_KERNELS_VECTOR_H
#define WRING_KERNELS_VECTOR_H

#include <stdbool.h>
#include <string.h>

#include "compress/kernels/kernels.h"
#include "compress/kernels/streaming.h"

/* for functions to which each caller gives constants, too */
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define LANES (VECTOR_BYTES / 4) /* of 32 bits */

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t quads __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t shorts __attribute__((vector_size(VECTOR_BYTES)));  /* two for each lane */
typedef uint8_t quarters __attribute__((vector_size(VECTOR_BYTES))); /* four */
typedef uint16_t half_shorts __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef float half_floats __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef floats floats_anywhere __attribute__((aligned(1), may_alias));
typedef words words_anywhere __attribute__((aligned(1), may_alias));

INLINE floats load(const void *at)
{
    return *(const floats_anywhere *)at;
}

INLINE void store(void *at, floats value)
{
    *(floats_anywhere *)at = value;
}

INLINE words load_words(const void *at)
{
    return *(const words_anywhere *)at;
}

INLINE void store_words(void *at, words value)
{
    *(words_anywhere *)at = value;
}

/** Of n elements, those in a vector whose first one is element `from`. */
INLINE unsigned rest_from(uint64_t n, unsigned from)
{
    return n <= from ? 0 : n - from < LANES ? (unsigned)n - from : LANES;
}

INLINE words magnitude_of(floats value)
{
    return (words)value & WRING_ABS_BITS;
}

/** The upper half of each lane is rounded to nearest even; the lower one becomes rubbish. */
INLINE words round_up(words bits)
{
    return bits + 0x7FFF + (bits >> 16 & 1);
}

/*
 * Each set has in its own way, besides its name as OF_TIER(kernels):
 *
 * all(value)             in all lanes; all_words()
 * smaller(a, b)          of each lane, taken as unsigned; larger()
 * min_i32(a, b)          the same taken as signed; max_i32(), min_i64(), max_i64()
 * min_f32(a, b)          b where one is NaN; max_f32()
 * abs_i32(a)             magnitudes of signed lanes
 * round_to_ints(value)   to the nearest even; -2^31 where that does not fit; floats_of_ints()
 * widen_f16(halves)      narrow_f16(value) to the nearest even
 * widen_shorts(halves)   of unsigned ones
 * load_part(at)          half a vector's bytes; store_part()
 * products(a, b)         of the lower halves of 64 bits
 * lower_quads(a, b)      64 bits of a, then of b, of each 128; upper_quads() of the upper ones
 * lanes                  some lanes of a vector
 * above(a, limit)        those where a > limit, both taken as signed
 * negative(value)        those with their sign bit set
 * less(a, b)             those where a < b, which no NaN is; less_f64()
 * unordered(value)       those that are NaN; unordered_f64()
 * either(lanes, lanes)   those in one or both; either_f64()
 * whole_lanes(lanes)     the same, and all bits of a lane say so, where lanes have bits
 * other(lanes)           all but those, of whole lanes
 * any_of(lanes)          are there any?
 * bits_of(lanes)         a bit for each
 * bits_of_64(some)       of so many vectors' lanes as 64 elements have
 * zeros_below(bits)      the lowest bit that is set of 64, or 64, without a branch
 * lanes_of(bits, from)   those whose bit is set, of bit `from` and on; from <= 32 - LANES, unless
 *                        lanes have bits
 * choose(lanes, a, b)    a there, b elsewhere; choose_f64()
 * count_where(lanes, a)  a + 1 there, a elsewhere, of whole lanes
 * add_where(lanes, a, b) a + b there, a or a + 0 elsewhere; of whole lanes
 * LANE_NUMBERS           0, 1, 2, … for words
 * swap_lanes(a, h)       lane i ^ h in place of lane i, h a power of two below LANES
 * permuted(a, index)     lane index % LANES of a, of each lane's index
 * permuted_16(a, index)  of vectors of 16 lanes together, lane index % 16
 * widen_floats(at)       half as many as there are lanes; widen_half(), lower_f64(), upper_f64()
 * fold_lanes(a)          lane j adds lane j + half, until one is left; fold_lanes_f64();
 *                        largest_of(a)
 * load_first(at, n)      the first n lanes, up to all, and 0 in others; store_first()
 * load_bytes(at)         as many as there are lanes, taken as signed; load_first_bytes(),
 *                        store_first_bytes() of lanes that fit
 * pack_bytes(value)      [4] vectors as bytes, in an order that in_order() mends
 * put(at, a, streaming)  past the caches, if streaming, where a vector may begin
 * upper_shorts(low, high) the upper halves of all lanes, in order; round_shorts() rounds them to
 *                        nearest even; lower_shorts(a): of lanes below 2^16
 * lower_part(shorts)     half of them; upper_part(), join_parts()
 * any_reaches(a, least)  is one of the shorts at least that?
 * any_near(low, high, limit) is a magnitude above the limit? Perhaps also if one is near below it
 * store_lower_bytes(at, a) the lower bytes of shorts below 256, in order
 * store_lane_bytes(at, a) those of lanes below 256
 * byte_signs(value)      a bit for each byte, set where its upper one is
 * bytes_of(bits)         a byte of ones where its bit is set, else of zeros
 * spread_halves(bits)    the lower 32 in the first half of all lanes, the upper in the other
 */

#if defined(__AVX512F__)
#include "compress/kernels/vector/avx512.h"
#elif defined(__AVX2__)
#include "compress/kernels/vector/avx2.h"
#else
#include "compress/kernels/vector/neon.h"
#endif

#endif
