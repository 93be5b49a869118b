/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/split.h"

#define STEP 32 /* elements at a time; a shorter rest goes through padded copies */

/* for what is known of its arguments only where it is called */
#define INLINE static inline __attribute__((always_inline))

/** Where the parts of a packed block have come to. */
struct parts {
    uint8_t *low, *high, *planes, *others;
    uint64_t plane; /* bytes */
    struct wring_split_far far;
};

/** How a block is packed, of which the width is known where it is inlined. */
struct form {
    unsigned width;
    uint32_t top;
};

INLINE struct parts parts_of(uint8_t *packed, uint8_t *others, uint64_t n)
{
    return (struct parts){packed, packed + 2 * n,       packed + WRING_SPLIT_PLANES(n),
                          others, WRING_SPLIT_PLANE(n), {0, 0}};
}

static inline __m256i load_rotated(const float *src)
{
    __m256i bits = _mm256_loadu_si256((const __m256i *)src);
    return _mm256_or_si256(_mm256_slli_epi32(bits, 1), _mm256_srli_epi32(bits, 31));
}

static inline uint32_t largest(__m256i lanes)
{
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 0xB1)));
}

static uint32_t peak_avx2(const float *src, uint64_t n)
{
    __m256i even = _mm256_setzero_si256(), odd = even;
    float rest[16] = {0};
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        even = _mm256_max_epu32(even, load_rotated(src + i));
        odd = _mm256_max_epu32(odd, load_rotated(src + i + 8));
    }
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    even = _mm256_max_epu32(even, load_rotated(rest));
    odd = _mm256_max_epu32(odd, load_rotated(rest + 8));
    return largest(_mm256_max_epu32(even, odd));
}

/** In each four of elements: their lower halves, then the bytes above, then the exponents. */
static inline __m256i sort_fours(__m256i r)
{
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm256_shuffle_epi8(r, _mm256_broadcastsi128_si256(order));
}

static inline __m256i unsort_fours(__m256i fours)
{
    const __m128i order = _mm_setr_epi8(0, 1, 8, 12, 2, 3, 9, 13, 4, 5, 10, 14, 6, 7, 11, 15);
    return _mm256_shuffle_epi8(fours, _mm256_broadcastsi128_si256(order));
}

/** Of two vectors of fours: the lower halves, in order. */
static inline __m256i lows_of(__m256i first, __m256i second)
{
    return _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(first, second), 0xD8);
}

/** Fours of bytes in the order 0 2 4 6 1 3 5 7, as unpacking leaves them, in that of elements. */
static inline __m256i in_order(__m256i bytes)
{
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static inline __m256i out_of_order(__m256i bytes)
{
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

static inline __m256i choose(__m256i first, __m256i second, bool exponents)
{
    __m256 a = _mm256_castsi256_ps(first), b = _mm256_castsi256_ps(second);
    return in_order(_mm256_castps_si256(exponents ? _mm256_shuffle_ps(a, b, 0xDD)
                                                  : _mm256_shuffle_ps(a, b, 0x88)));
}

static inline void put_others(uint8_t *others, __m256i exponents, uint32_t chosen)
{
    uint8_t each[STEP];

    _mm256_storeu_si256((__m256i *)each, exponents);
    for (; chosen != 0; chosen &= chosen - 1)
        *others++ = each[__builtin_ctz(chosen)];
}

/** Which of 32 distances reach what a width can hold. */
static inline uint32_t reaching(__m256i distance, unsigned width)
{
    const __m256i far = _mm256_set1_epi8((char)WRING_SPLIT_FAR(width));
    return (uint32_t)_mm256_movemask_epi8(
        _mm256_cmpeq_epi8(_mm256_max_epu8(distance, far), distance));
}

/** @param live  those of the 32 elements that there are */
INLINE void pack_32(struct parts *to, const float *src, uint32_t live, struct form form)
{
    const __m256i far = _mm256_set1_epi8((char)WRING_SPLIT_FAR(form.width));
    __m256i fours[4];

    for (unsigned v = 0; v < 4; v++)
        fours[v] = sort_fours(load_rotated(src + 8 * v));
    __m256i first = _mm256_unpackhi_epi64(fours[0], fours[1]);
    __m256i second = _mm256_unpackhi_epi64(fours[2], fours[3]);
    __m256i exponents = choose(first, second, true);
    __m256i distance = _mm256_sub_epi8(_mm256_set1_epi8((char)form.top), exponents);
    uint32_t narrow = live & reaching(distance, WRING_SPLIT_NARROW);
    uint32_t wide = live & reaching(distance, WRING_SPLIT_WIDE);
    distance = _mm256_min_epu8(distance, far);

    _mm256_storeu_si256((__m256i *)to->low, lows_of(fours[0], fours[1]));
    _mm256_storeu_si256((__m256i *)(to->low + 32), lows_of(fours[2], fours[3]));
    _mm256_storeu_si256((__m256i *)to->high, choose(first, second, false));
    for (unsigned bit = 0; bit < form.width; bit++) {
        __m256i moved = _mm256_slli_epi16(distance, 7 - (int)bit);
        uint32_t plane = live & (uint32_t)_mm256_movemask_epi8(moved);
        memcpy(to->planes + bit * to->plane, &plane, sizeof(plane));
    }
    uint32_t others = form.width == WRING_SPLIT_NARROW ? narrow : wide;
    if (others != 0)
        put_others(to->others, exponents, others);
    to->others += __builtin_popcount(others);
    to->far.narrow += (uint32_t)__builtin_popcount(narrow);
    to->far.wide += (uint32_t)__builtin_popcount(wide);
    to->low += 2 * STEP;
    to->high += STEP;
    to->planes += STEP / 8;
}

/** The last n elements, fewer than 32. */
INLINE void pack_rest(struct parts *to, const float *src, uint64_t n, struct form form)
{
    float rest[STEP] = {0};
    uint8_t packed[3 * STEP + 4 * WRING_SPLIT_WIDE];
    struct parts padded = parts_of(packed, to->others, STEP);

    memcpy(rest, src, n * sizeof(*src));
    pack_32(&padded, rest, (1u << n) - 1, form);
    memcpy(to->low, packed, 2 * n);
    memcpy(to->high, packed + 2 * STEP, n);
    for (unsigned bit = 0; bit < form.width; bit++)
        memcpy(to->planes + bit * to->plane, packed + 3 * STEP + 4 * bit, WRING_SPLIT_PLANE(n));
    to->far.narrow += padded.far.narrow;
    to->far.wide += padded.far.wide;
}

INLINE struct wring_split_far pack(uint8_t *packed, const float *src, uint64_t n, struct form form)
{
    struct parts to = parts_of(packed, packed + WRING_SPLIT_OTHERS(n, form.width), n);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        pack_32(&to, src + i, UINT32_MAX, form);
    if (i < n)
        pack_rest(&to, src + i, n - i, form);
    return to.far;
}

static struct wring_split_far pack_avx2(uint8_t *packed, const float *src, uint64_t n,
                                        unsigned width, uint32_t top)
{
    if (width == WRING_SPLIT_NARROW) /* each inlined for itself */
        return pack(packed, src, n, (struct form){WRING_SPLIT_NARROW, top});
    return pack(packed, src, n, (struct form){WRING_SPLIT_WIDE, top});
}

/** Where one reads. */
struct sources {
    const uint8_t *low, *high, *planes;
    const uint8_t *placed; /* the others, each where its element is */
    uint64_t plane;
};

INLINE struct sources sources_of(const uint8_t *packed, const uint8_t *placed, uint64_t n)
{
    return (struct sources){packed, packed + 2 * n, packed + WRING_SPLIT_PLANES(n), placed,
                            WRING_SPLIT_PLANE(n)};
}

/**
 * Put the others where they belong, long before a vector of them is loaded: a load waits for every
 * byte that was stored into what it takes.
 * @param placed  out, at the places of others alone; [n rounded up to whole steps]
 * @return how many others that were
 */
INLINE uint64_t place_others(uint8_t *placed, const uint8_t *packed, const uint8_t *others,
                             uint64_t n, unsigned width)
{
    const uint8_t *planes = packed + WRING_SPLIT_PLANES(n), *next = others;

    for (uint64_t i = 0; i < n; i += STEP, placed += STEP) {
        uint32_t chosen = n - i < STEP ? (1u << (n - i)) - 1 : UINT32_MAX;
        for (unsigned bit = 0; bit < width; bit++) {
            uint32_t plane = 0;
            const uint8_t *at = planes + bit * WRING_SPLIT_PLANE(n) + i / 8;
            if (n - i < STEP)
                memcpy(&plane, at, WRING_SPLIT_PLANE(n - i));
            else
                memcpy(&plane, at, sizeof(plane));
            chosen &= plane;
        }
        for (; chosen != 0; chosen &= chosen - 1)
            placed[__builtin_ctz(chosen)] = *next++;
    }
    return (uint64_t)(next - others);
}

/** All bits of byte i: bit i of the word. */
static inline __m256i spread(uint32_t word)
{
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)word), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

static inline __m256i load_exponents(const struct sources *from, struct form form)
{
    const __m256i far = _mm256_set1_epi8((char)WRING_SPLIT_FAR(form.width));
    __m256i distance = _mm256_setzero_si256();

    for (unsigned bit = 0; bit < form.width; bit++) {
        uint32_t plane;
        memcpy(&plane, from->planes + bit * from->plane, sizeof(plane));
        __m256i step = _mm256_and_si256(spread(plane), _mm256_set1_epi8((char)(1 << bit)));
        distance = _mm256_or_si256(distance, step);
    }
    return _mm256_blendv_epi8(_mm256_sub_epi8(_mm256_set1_epi8((char)form.top), distance),
                              _mm256_loadu_si256((const __m256i *)from->placed),
                              _mm256_cmpeq_epi8(distance, far));
}

INLINE void unpack_32(__m256 value[4], struct sources *from, struct form form)
{
    __m256i high = out_of_order(_mm256_loadu_si256((const __m256i *)from->high));
    __m256i exponents = out_of_order(load_exponents(from, form));
    __m256i rests[2] = {_mm256_unpacklo_epi32(high, exponents),
                        _mm256_unpackhi_epi32(high, exponents)};

    for (unsigned half = 0; half < 2; half++) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(from->low + 32 * half));
        low = _mm256_permute4x64_epi64(low, 0xD8);
        __m256i r[2] = {unsort_fours(_mm256_unpacklo_epi64(low, rests[half])),
                        unsort_fours(_mm256_unpackhi_epi64(low, rests[half]))};
        for (unsigned v = 0; v < 2; v++)
            value[2 * half + v] = _mm256_castsi256_ps(
                _mm256_or_si256(_mm256_srli_epi32(r[v], 1), _mm256_slli_epi32(r[v], 31)));
    }
    from->low += 2 * STEP;
    from->high += STEP;
    from->planes += STEP / 8;
    from->placed += STEP;
}

static inline void put_32(float *dst, const __m256 value[4], bool add)
{
    for (unsigned v = 0; v < 4; v++) {
        float *at = dst + 8 * v;
        _mm256_storeu_ps(at, add ? _mm256_add_ps(_mm256_loadu_ps(at), value[v]) : value[v]);
    }
}

INLINE void unpack_rest(float *dst, struct sources *from, uint64_t n, struct form form, bool add)
{
    uint8_t packed[3 * STEP + 4 * WRING_SPLIT_WIDE] = {0};
    struct sources padded = sources_of(packed, from->placed, STEP);
    float rest[STEP] = {0};
    __m256 value[4];

    memcpy(packed, from->low, 2 * n);
    memcpy(packed + 2 * STEP, from->high, n);
    for (unsigned bit = 0; bit < form.width; bit++)
        memcpy(packed + 3 * STEP + 4 * bit, from->planes + bit * from->plane, WRING_SPLIT_PLANE(n));
    unpack_32(value, &padded, form);
    memcpy(rest, dst, n * sizeof(*dst));
    put_32(rest, value, add);
    memcpy(dst, rest, n * sizeof(*dst));
}

INLINE uint64_t unpack(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                       struct form form, bool add)
{
    uint8_t placed[WRING_SPLIT_BLOCK_MAX];
    uint64_t taken = place_others(placed, packed, others, n, form.width);
    struct sources from = sources_of(packed, placed, n);
    __m256 value[4];
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        unpack_32(value, &from, form);
        put_32(dst + i, value, add);
    }
    if (i < n)
        unpack_rest(dst + i, &from, n - i, form, add);
    return taken;
}

static uint64_t unpack_avx2(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                            unsigned width, uint32_t top)
{
    if (width == WRING_SPLIT_NARROW)
        return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_NARROW, top}, false);
    return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_WIDE, top}, false);
}

static uint64_t unpack_add_avx2(float *dst, const uint8_t *packed, const uint8_t *others,
                                uint64_t n, unsigned width, uint32_t top)
{
    if (width == WRING_SPLIT_NARROW)
        return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_NARROW, top}, true);
    return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_WIDE, top}, true);
}

const struct wring_split_kernels wring_split_avx2 = {
    peak_avx2,
    pack_avx2,
    unpack_avx2,
    unpack_add_avx2,
};
