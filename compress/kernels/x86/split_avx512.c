/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/split.h"

#define FEW 4   /* of 64 elements: so many others are written whether they are there or not */
#define STEP 64 /* elements at a time: a vector of exponents, a word of each plane */

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

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

static inline __m512i load_rotated(const float *src)
{
    return _mm512_rol_epi32(_mm512_loadu_si512(src), 1);
}

static inline __m512i load_live(const float *src, __mmask16 live)
{
    return _mm512_rol_epi32(_mm512_castps_si512(_mm512_maskz_loadu_ps(live, src)), 1);
}

static uint32_t peak_avx512(const float *src, uint64_t n)
{
    __m512i even = _mm512_setzero_si512(), odd = even;
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32) {
        even = _mm512_max_epu32(even, load_rotated(src + i));
        odd = _mm512_max_epu32(odd, load_rotated(src + i + 16));
    }
    for (; i < n; i += 16)
        even = _mm512_max_epu32(even, load_live(src + i, live_lanes(n - i)));
    return _mm512_reduce_max_epu32(_mm512_max_epu32(even, odd));
}

/** In each four of elements: their lower halves, then the bytes above, then the exponents. */
static inline __m512i sort_fours(__m512i r)
{
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(r, _mm512_broadcast_i32x4(order));
}

static inline __m512i unsort_fours(__m512i fours)
{
    const __m128i order = _mm_setr_epi8(0, 1, 8, 12, 2, 3, 9, 13, 4, 5, 10, 14, 6, 7, 11, 15);
    return _mm512_shuffle_epi8(fours, _mm512_broadcast_i32x4(order));
}

/** Of two vectors of fours: the lower halves. */
static inline __m512i lows_of(__m512i first, __m512i second)
{
    const __m512i index =
        _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29);
    return _mm512_permutex2var_epi32(first, index, second);
}

/** The bytes above, and then the exponents. */
static inline __m512i rests_of(__m512i first, __m512i second)
{
    const __m512i index =
        _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
    return _mm512_permutex2var_epi32(first, index, second);
}

/** The exponents of some of 64 elements, in their order; few for the most part. */
static inline void put_others(uint8_t *others, __m512i exponents, uint64_t chosen, uint32_t count)
{
    uint8_t each[STEP + 1] = {0}; /* where none is left, the one behind all is taken */

    _mm512_storeu_si512(each, exponents);
    for (unsigned i = 0; i < FEW; i++, chosen = _blsr_u64(chosen))
        others[i] = each[_tzcnt_u64(chosen)];
    for (unsigned i = FEW; i < count; i++, chosen = _blsr_u64(chosen))
        others[i] = each[_tzcnt_u64(chosen)];
}

static inline uint32_t count_from(__m512i distance, unsigned width, uint64_t live)
{
    const __m512i far = _mm512_set1_epi8((char)WRING_SPLIT_FAR(width));
    return (uint32_t)__builtin_popcountll(live & _mm512_cmpge_epu8_mask(distance, far));
}

/** @param live  those of the 64 elements that there are */
INLINE void pack_64(struct parts *to, const float *src, uint64_t live, struct form form)
{
    const __m512i far = _mm512_set1_epi8((char)WRING_SPLIT_FAR(form.width));
    __m512i r[4], fours[4];

    for (unsigned v = 0; v < 4; v++) {
        r[v] = load_rotated(src + 16 * v);
        fours[v] = sort_fours(r[v]);
    }
    __m512i first = rests_of(fours[0], fours[1]), second = rests_of(fours[2], fours[3]);
    __m512i exponents = _mm512_shuffle_i64x2(first, second, 0xEE);
    __m512i distance = _mm512_sub_epi8(_mm512_set1_epi8((char)form.top), exponents);
    uint64_t others = live & _mm512_cmpge_epu8_mask(distance, far);
    uint32_t narrow = count_from(distance, WRING_SPLIT_NARROW, live);
    uint32_t wide = count_from(distance, WRING_SPLIT_WIDE, live);
    distance = _mm512_min_epu8(distance, far);

    _mm512_storeu_si512(to->low, lows_of(fours[0], fours[1]));
    _mm512_storeu_si512(to->low + 64, lows_of(fours[2], fours[3]));
    _mm512_storeu_si512(to->high, _mm512_shuffle_i64x2(first, second, 0x44));
    for (unsigned bit = 0; bit < form.width; bit++) {
        uint64_t plane = live & _mm512_test_epi8_mask(distance, _mm512_set1_epi8((char)(1 << bit)));
        memcpy(to->planes + bit * to->plane, &plane, sizeof(plane));
    }
    uint32_t count = form.width == WRING_SPLIT_NARROW ? narrow : wide;
    if (others != 0)
        put_others(to->others, exponents, others, count);
    to->others += count;
    to->far.narrow += narrow;
    to->far.wide += wide;
    to->low += 2 * STEP;
    to->high += STEP;
    to->planes += STEP / 8;
}

/** The last n elements, fewer than 64, through padded copies. */
INLINE void pack_rest(struct parts *to, const float *src, uint64_t n, struct form form)
{
    float rest[STEP] = {0};
    uint8_t packed[3 * STEP + 8 * WRING_SPLIT_WIDE];
    struct parts padded = parts_of(packed, to->others, STEP);

    memcpy(rest, src, n * sizeof(*src));
    pack_64(&padded, rest, (UINT64_C(1) << n) - 1, form);
    memcpy(to->low, packed, 2 * n);
    memcpy(to->high, packed + 2 * STEP, n);
    for (unsigned bit = 0; bit < form.width; bit++)
        memcpy(to->planes + bit * to->plane, packed + 3 * STEP + 8 * bit, WRING_SPLIT_PLANE(n));
    to->far.narrow += padded.far.narrow;
    to->far.wide += padded.far.wide;
}

INLINE struct wring_split_far pack(uint8_t *packed, const float *src, uint64_t n, struct form form)
{
    struct parts to = parts_of(packed, packed + WRING_SPLIT_OTHERS(n, form.width), n);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        pack_64(&to, src + i, UINT64_MAX, form);
    if (i < n)
        pack_rest(&to, src + i, n - i, form);
    return to.far;
}

static struct wring_split_far pack_avx512(uint8_t *packed, const float *src, uint64_t n,
                                          unsigned width, uint32_t top)
{
    if (width == WRING_SPLIT_NARROW) /* each inlined for itself */
        return pack(packed, src, n, (struct form){WRING_SPLIT_NARROW, top});
    return pack(packed, src, n, (struct form){WRING_SPLIT_WIDE, top});
}

/** Where one reads. */
struct sources {
    const uint8_t *low, *high, *planes, *others;
    uint64_t plane;
};

INLINE struct sources sources_of(const uint8_t *packed, const uint8_t *others, uint64_t n)
{
    return (struct sources){packed, packed + 2 * n, packed + WRING_SPLIT_PLANES(n), others,
                            WRING_SPLIT_PLANE(n)};
}

/** Of two vectors' lower halves, and of what is above them, the fours of the first or second. */
static inline __m512i fours_of(__m512i lows, __m512i rests, bool second)
{
    const __m512i index = _mm512_setr_epi32(0, 1, 16, 24, 2, 3, 17, 25, 4, 5, 18, 26, 6, 7, 19, 27);
    const __m512i next =
        _mm512_setr_epi32(8, 9, 20, 28, 10, 11, 21, 29, 12, 13, 22, 30, 14, 15, 23, 31);
    return unsort_fours(_mm512_permutex2var_epi32(lows, second ? next : index, rests));
}

/** Put exponents where there is none yet. */
static inline const uint8_t *take_others(__m512i r[4], const uint8_t *others, uint64_t chosen)
{
    for (unsigned v = 0; v < 4; v++) {
        __mmask16 here = (__mmask16)(chosen >> 16 * v);
        __m512i exponents = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)others));
        exponents = _mm512_maskz_expand_epi32(here, exponents);
        r[v] = _mm512_or_si512(r[v], _mm512_slli_epi32(exponents, 24));
        others += __builtin_popcount(here);
    }
    return others;
}

/** @param live  as above */
INLINE void unpack_64(__m512 value[4], struct sources *from, uint64_t live, struct form form)
{
    __m512i exponents = _mm512_set1_epi8((char)form.top), r[4];
    __m512i low = _mm512_loadu_si512(from->low), next = _mm512_loadu_si512(from->low + 64);
    __m512i high = _mm512_loadu_si512(from->high);
    uint64_t others = live;

    for (unsigned bit = 0; bit < form.width; bit++) {
        uint64_t plane;
        memcpy(&plane, from->planes + bit * from->plane, sizeof(plane));
        exponents =
            _mm512_mask_sub_epi8(exponents, plane, exponents, _mm512_set1_epi8((char)(1 << bit)));
        others &= plane;
    }
    exponents = _mm512_maskz_mov_epi8(~others, exponents);
    __m512i first = _mm512_shuffle_i64x2(high, exponents, 0x44);
    __m512i second = _mm512_shuffle_i64x2(high, exponents, 0xEE);
    r[0] = fours_of(low, first, false);
    r[1] = fours_of(low, first, true);
    r[2] = fours_of(next, second, false);
    r[3] = fours_of(next, second, true);
    if (others != 0)
        from->others = take_others(r, from->others, others);
    for (unsigned v = 0; v < 4; v++)
        value[v] = _mm512_castsi512_ps(_mm512_ror_epi32(r[v], 1));
    from->low += 2 * STEP;
    from->high += STEP;
    from->planes += STEP / 8;
}

INLINE void unpack_rest(float *dst, struct sources *from, uint64_t n, struct form form, bool add)
{
    uint8_t packed[3 * STEP + 8 * WRING_SPLIT_WIDE] = {0};
    struct sources padded = sources_of(packed, from->others, STEP);
    __m512 value[4];

    memcpy(packed, from->low, 2 * n);
    memcpy(packed + 2 * STEP, from->high, n);
    for (unsigned bit = 0; bit < form.width; bit++)
        memcpy(packed + 3 * STEP + 8 * bit, from->planes + bit * from->plane, WRING_SPLIT_PLANE(n));
    unpack_64(value, &padded, (UINT64_C(1) << n) - 1, form);
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        if (add)
            value[i / 16] = _mm512_add_ps(_mm512_maskz_loadu_ps(live, dst + i), value[i / 16]);
        _mm512_mask_storeu_ps(dst + i, live, value[i / 16]);
    }
    from->others = padded.others;
}

INLINE uint64_t unpack(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                       struct form form, bool add)
{
    struct sources from = sources_of(packed, others, n);
    __m512 value[4];
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        unpack_64(value, &from, UINT64_MAX, form);
        for (unsigned v = 0; v < 4; v++) {
            float *at = dst + i + 16 * v;
            _mm512_storeu_ps(at, add ? _mm512_add_ps(_mm512_loadu_ps(at), value[v]) : value[v]);
        }
    }
    if (i < n)
        unpack_rest(dst + i, &from, n - i, form, add);
    return (uint64_t)(from.others - others);
}

static uint64_t unpack_avx512(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                              unsigned width, uint32_t top)
{
    if (width == WRING_SPLIT_NARROW)
        return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_NARROW, top}, false);
    return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_WIDE, top}, false);
}

static uint64_t unpack_add_avx512(float *dst, const uint8_t *packed, const uint8_t *others,
                                  uint64_t n, unsigned width, uint32_t top)
{
    if (width == WRING_SPLIT_NARROW)
        return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_NARROW, top}, true);
    return unpack(dst, packed, others, n, (struct form){WRING_SPLIT_WIDE, top}, true);
}

const struct wring_split_kernels wring_split_avx512 = {
    peak_avx512,
    pack_avx512,
    unpack_avx512,
    unpack_add_avx512,
};
