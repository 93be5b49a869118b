/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/lossless16.h"
#include "compress/kernels/vector/bytes.h"

#define STEP VECTOR_BYTES /* elements at a time: two vectors of them, one of bytes */
#define PLANES_MAX (WRING_LOSSLESS16_F16 + WRING_LOSSLESS_BLOCK_WIDE)

typedef struct wring_lossless16_form form;

/** Where the parts of a packed block have come to. */
struct parts {
    uint8_t *low, *planes, *others;
    uint64_t plane; /* bytes */
    struct wring_lossless_far far;
};

/** Where one reads. */
struct sources {
    const uint8_t *low, *planes, *others;
    uint64_t plane, count, taken; /* others that there are, and that were claimed */
};

INLINE shorts rotated(const uint16_t *src)
{
    shorts value = load_shorts(src);
    return value << 1 | value >> 15;
}

INLINE shorts turned_back(shorts r)
{
    return r >> 1 | r << 15;
}

static uint32_t peak(const uint16_t *src, uint64_t n)
{
    shorts most = {0};
    uint64_t i = 0;
    uint32_t out = 0;

    for (; i + SHORTS <= n; i += SHORTS)
        most = larger_shorts(most, rotated(src + i) & 0xFFFE);
    for (unsigned lane = 0; lane < SHORTS; lane++)
        out = most[lane] > out ? most[lane] : out;
    for (; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, src + i, sizeof(bits));
        out = (uint16_t)(bits << 1) > out ? (uint16_t)(bits << 1) : out;
    }
    return out;
}

/*
 * Some bytes of a vector leave it for a row of others, and come back.
 *
 * - put_others(others, exponents, chosen) writes up to STEP bytes; @return the end of the chosen
 *
 * - take_others(from, exponents, chosen): chosen ones are the next others, or 0 behind the last
 */

#ifdef __AVX512VBMI2__

#define KERNELS wring_lossless16_vbmi2

INLINE uint8_t *put_others(uint8_t *others, bytes exponents, byte_bits chosen)
{
    store_bytes(others, (bytes)_mm512_maskz_compress_epi8(chosen, (raw)exponents));
    return others + __builtin_popcountll(chosen);
}

INLINE bytes take_others(struct sources *from, bytes exponents, byte_bits chosen)
{
    uint64_t taken = from->taken < from->count ? from->taken : from->count;
    uint64_t left = from->count - taken;
    byte_bits there = left < STEP ? ((byte_bits)1 << left) - 1 : ALL_BYTES;
    raw next = _mm512_maskz_loadu_epi8(there, from->others + taken);

    from->taken += (uint64_t)__builtin_popcountll(chosen);
    return (bytes)_mm512_mask_expand_epi8((raw)exponents, chosen, next);
}

#else

#define KERNELS OF_TIER(wring_lossless16)

INLINE uint8_t *put_others(uint8_t *others, bytes exponents, byte_bits chosen)
{
    uint8_t each[STEP];

    store_bytes(each, exponents);
    for (; chosen != 0; chosen &= chosen - 1)
        *others++ = each[__builtin_ctzll(chosen)];
    return others;
}

INLINE bytes take_others(struct sources *from, bytes exponents, byte_bits chosen)
{
    uint8_t each[STEP];

    store_bytes(each, exponents);
    for (; chosen != 0; chosen &= chosen - 1) {
        each[__builtin_ctzll(chosen)] = from->taken < from->count ? from->others[from->taken] : 0;
        from->taken++;
    }
    return load_byte_vector(each);
}

#endif

/** @param live  a bit for each element that there is */
INLINE void pack_step(struct parts *to, const uint16_t *src, byte_bits live, form how)
{
    const uint8_t far = WRING_LOSSLESS_FAR(how.width);
    shorts first = rotated(src), second = rotated(src + SHORTS);
    bytes low = join_bytes(first & 0xFF, second & 0xFF);
    bytes upper = join_bytes(first >> 8, second >> 8);
    bytes exponents = upper >> (uint8_t)how.fraction;
    bytes distance = ((uint8_t)how.top - exponents) & (uint8_t)(0xFF >> how.fraction);
    byte_bits narrow = live & reaching(distance, WRING_LOSSLESS_FAR(WRING_LOSSLESS_BLOCK_NARROW));
    byte_bits wide = live & reaching(distance, WRING_LOSSLESS_FAR(WRING_LOSSLESS_BLOCK_WIDE));
    byte_bits others = how.width == WRING_LOSSLESS_BLOCK_NARROW ? narrow : wide;
    bytes bits = (upper & (uint8_t)((1u << how.fraction) - 1)) | smaller_bytes(distance, far)
                                                                     << (uint8_t)how.fraction;

    store_bytes(to->low, low);
    for (unsigned bit = 0; bit < how.fraction + how.width; bit++) {
        byte_bits plane = live & bit_of_bytes(bits, bit);
        memcpy(to->planes + bit * to->plane, &plane, sizeof(plane));
    }
    if (others != 0)
        to->others = put_others(to->others, exponents, others);
    to->far.narrow += (uint32_t)__builtin_popcountll(narrow);
    to->far.wide += (uint32_t)__builtin_popcountll(wide);
}

/** The last n elements, fewer than a step. */
INLINE void pack_rest(struct parts *to, const uint16_t *src, uint64_t n, form how)
{
    uint16_t rest[STEP] = {0};
    uint8_t low[STEP], planes[PLANES_MAX * STEP / 8], others[STEP];
    struct parts padded = {low, planes, others, STEP / 8, to->far};

    memcpy(rest, src, n * sizeof(*src));
    pack_step(&padded, rest, ((byte_bits)1 << n) - 1, how);
    memcpy(to->low, low, n);
    memcpy(to->others, others, (size_t)(padded.others - others));
    for (unsigned bit = 0; bit < how.fraction + how.width; bit++)
        memcpy(to->planes + bit * to->plane, planes + bit * padded.plane, WRING_LOSSLESS_PLANE(n));
    to->far = padded.far;
}

INLINE struct wring_lossless_far pack(uint8_t *packed, const uint16_t *src, uint64_t n, form how)
{
    struct parts to = {packed,
                       packed + n,
                       packed + WRING_LOSSLESS16_OTHERS(n, how),
                       WRING_LOSSLESS_PLANE(n),
                       {0, 0}};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        pack_step(&to, src + i, ALL_BYTES, how);
        to.low += STEP;
        to.planes += STEP / 8;
    }
    if (i < n)
        pack_rest(&to, src + i, n - i, how);
    return to.far;
}

INLINE void unpack_step(uint16_t *dst, struct sources *from, byte_bits live, form how)
{
    bytes low = load_byte_vector(from->low), upper = {0}, distance = {0}, joined[2];
    byte_bits others = live;

    for (unsigned bit = 0; bit < how.fraction + how.width; bit++) {
        byte_bits plane;
        memcpy(&plane, from->planes + bit * from->plane, sizeof(plane));
        if (bit < how.fraction) {
            upper |= spread_bits(plane, (uint8_t)(1u << bit));
        } else {
            distance |= spread_bits(plane, (uint8_t)(1u << (bit - how.fraction)));
            others &= plane;
        }
    }
    bytes exponents = (uint8_t)how.top - distance;
    if (others != 0)
        exponents = take_others(from, exponents, others);
    upper |= exponents << (uint8_t)how.fraction;
    interleave_bytes(low, upper, joined);
    store_shorts(dst, turned_back((shorts)joined[0]));
    store_shorts(dst + SHORTS, turned_back((shorts)joined[1]));
}

INLINE void unpack_rest(uint16_t *dst, struct sources *from, uint64_t n, form how)
{
    uint16_t rest[STEP];
    uint8_t low[STEP] = {0}, planes[PLANES_MAX * STEP / 8] = {0};
    struct sources padded = {low, planes, from->others, STEP / 8, from->count, from->taken};

    memcpy(low, from->low, n);
    for (unsigned bit = 0; bit < how.fraction + how.width; bit++)
        memcpy(planes + bit * padded.plane, from->planes + bit * from->plane,
               WRING_LOSSLESS_PLANE(n));
    unpack_step(rest, &padded, ((byte_bits)1 << n) - 1, how);
    memcpy(dst, rest, n * sizeof(*dst));
    from->taken = padded.taken;
}

INLINE uint64_t unpack(uint16_t *dst, const uint8_t *packed, const uint8_t *others, uint64_t count,
                       uint64_t n, form how)
{
    struct sources from = {packed, packed + n, others, WRING_LOSSLESS_PLANE(n), count, 0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        unpack_step(dst + i, &from, ALL_BYTES, how);
        from.low += STEP;
        from.planes += STEP / 8;
    }
    if (i < n)
        unpack_rest(dst + i, &from, n - i, how);
    return from.taken;
}

/* ---- the kernels: each form is inlined for itself ---- */

#define NARROW(fraction, top) ((form){fraction, WRING_LOSSLESS_BLOCK_NARROW, top})
#define WIDER(fraction, top) ((form){fraction, WRING_LOSSLESS_BLOCK_WIDE, top})

static struct wring_lossless_far pack_block(uint8_t *packed, const uint16_t *src, uint64_t n,
                                            form how)
{
    bool narrow = how.width == WRING_LOSSLESS_BLOCK_NARROW;

    if (how.fraction == 0)
        return narrow ? pack(packed, src, n, NARROW(0, how.top))
                      : pack(packed, src, n, WIDER(0, how.top));
    return narrow ? pack(packed, src, n, NARROW(WRING_LOSSLESS16_F16, how.top))
                  : pack(packed, src, n, WIDER(WRING_LOSSLESS16_F16, how.top));
}

static uint64_t unpack_block(uint16_t *dst, const uint8_t *packed, const uint8_t *others,
                             uint64_t count, uint64_t n, form how)
{
    bool narrow = how.width == WRING_LOSSLESS_BLOCK_NARROW;

    if (how.fraction == 0)
        return narrow ? unpack(dst, packed, others, count, n, NARROW(0, how.top))
                      : unpack(dst, packed, others, count, n, WIDER(0, how.top));
    return narrow ? unpack(dst, packed, others, count, n, NARROW(WRING_LOSSLESS16_F16, how.top))
                  : unpack(dst, packed, others, count, n, WIDER(WRING_LOSSLESS16_F16, how.top));
}

const struct wring_lossless16_tier_kernels KERNELS = {peak, pack_block, unpack_block};
