/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/vector/lossless_loop.h"

/* The bytes of 16 elements, from the lowest on: what is rotated moves a bit from byte to byte. */

INLINE uint8x16x4_t load_rotated(const float *src)
{
    uint8x16x4_t x = vld4q_u8((const uint8_t *)src), r;

    for (unsigned byte = 0; byte < 4; byte++)
        r.val[byte] = vsriq_n_u8(vshlq_n_u8(x.val[byte], 1), x.val[(byte + 3) % 4], 7);
    return r;
}

/** Four elements each. */
INLINE void turn_back(words out[4], uint8x16x4_t r)
{
    uint8x16_t x[4];

    for (unsigned byte = 0; byte < 4; byte++)
        x[byte] = vsliq_n_u8(vshrq_n_u8(r.val[byte], 1), r.val[(byte + 1) % 4], 7);
    for (unsigned half = 0; half < 2; half++) {
        uint8x16_t low = half == 0 ? vzip1q_u8(x[0], x[1]) : vzip2q_u8(x[0], x[1]);
        uint8x16_t high = half == 0 ? vzip1q_u8(x[2], x[3]) : vzip2q_u8(x[2], x[3]);
        out[2 * half] = (words)vzip1q_u16((uint16x8_t)low, (uint16x8_t)high);
        out[2 * half + 1] = (words)vzip2q_u16((uint16x8_t)low, (uint16x8_t)high);
    }
}

INLINE uint8x16_t bit_of(uint8x16_t distance, unsigned bit)
{
    return vtstq_u8(distance, vdupq_n_u8((uint8_t)(1u << bit)));
}

INLINE uint8x16_t reaching(uint8x16_t distance, unsigned width)
{
    return vcgeq_u8(distance, vdupq_n_u8(WRING_LOSSLESS_FAR(width)));
}

INLINE uint32_t count(uint16_t marks)
{
    return (uint32_t)__builtin_popcount(marks);
}

INLINE void put_others(struct parts *to, uint8x16_t exponents, uint16_t chosen)
{
    uint8_t each[STEP];

    vst1q_u8(each, exponents);
    for (; chosen != 0; chosen &= (uint16_t)(chosen - 1))
        *to->others++ = each[zeros_below(chosen)];
}

/** Write all parts that depend on the exponents. */
INLINE void put_exponents(struct parts *to, uint8x16_t exponents, uint16_t live, struct form form)
{
    bool is_narrow = form.width == WRING_LOSSLESS_BLOCK_NARROW;
    uint8x16_t distance = vsubq_u8(vdupq_n_u8((uint8_t)form.top), exponents);
    uint8x16_t narrow_ones = reaching(distance, WRING_LOSSLESS_BLOCK_NARROW);
    uint8x16_t most = vminq_u8(distance, vdupq_n_u8((uint8_t)WRING_LOSSLESS_FAR(form.width)));
    uint8x16_t some[4] = {bit_of(most, 0), bit_of(most, 1), bit_of(most, 2),
                          is_narrow ? narrow_ones : bit_of(most, 3)};
    uint64_t bits = bits_of_bytes(some);
    uint16_t narrow = live & (is_narrow ? (uint16_t)(bits >> 48) : bits_of_16(narrow_ones));

    for (unsigned bit = 0; bit < form.width; bit++) {
        uint16_t plane = live & (uint16_t)(bits >> 16 * bit);
        memcpy(to->planes + bit * to->plane, &plane, sizeof(plane));
    }
    if (narrow == 0)
        return; /* nor is one too far for the other width */
    to->far.narrow += count(narrow);
    if (!is_narrow) {
        narrow &= bits_of_16(reaching(distance, WRING_LOSSLESS_BLOCK_WIDE));
        to->far.wide += count(narrow);
    }
    put_others(to, exponents, narrow);
}

INLINE void pack_step(struct parts *to, const float *src, uint64_t live, struct form form)
{
    uint8x16x4_t r = load_rotated(src);

    vst2q_u8(to->low, (uint8x16x2_t){{r.val[0], r.val[1]}});
    vst1q_u8(to->high, r.val[2]);
    put_exponents(to, r.val[3], (uint16_t)live, form);
}

/** How many bytes before each are set, and at `all` how many are: all or none of a byte's bits. */
INLINE uint8x16_t set_before(uint8x16_t some, uint8x16_t *all_set)
{
    const uint8x16_t none = vdupq_n_u8(0);
    uint8x16_t sum = vsubq_u8(none, some), own = sum;

    sum = vaddq_u8(sum, vextq_u8(none, sum, 15));
    sum = vaddq_u8(sum, vextq_u8(none, sum, 14));
    sum = vaddq_u8(sum, vextq_u8(none, sum, 12));
    sum = vaddq_u8(sum, vextq_u8(none, sum, 8));
    *all_set = sum;
    return vsubq_u8(sum, own);
}

/** The exponents of a step, of which those that are too far are the next others. */
INLINE uint8x16_t take_exponents(struct sources *from, uint64_t live, struct form form)
{
    uint8x16_t distance = vdupq_n_u8(0), all_set;

    for (unsigned bit = 0; bit < form.width; bit++) {
        uint16_t plane;
        memcpy(&plane, from->planes + bit * from->plane, sizeof(plane));
        uint8x16_t set = (uint8x16_t)bytes_of(plane);
        distance = vorrq_u8(distance, vandq_u8(set, vdupq_n_u8((uint8_t)(1u << bit))));
    }
    uint8x16_t far = vceqq_u8(distance, vdupq_n_u8((uint8_t)WRING_LOSSLESS_FAR(form.width)));
    if (live != ALL_LIVE)
        far = vandq_u8(far, (uint8x16_t)bytes_of(live));
    uint8x16_t next = vqtbl1q_u8(vld1q_u8(from->others), set_before(far, &all_set));
    from->others += vgetq_lane_u8(all_set, STEP - 1);
    return vbslq_u8(far, next, vsubq_u8(vdupq_n_u8((uint8_t)form.top), distance));
}

INLINE void unpack_step(float *dst, struct sources *from, uint64_t live, struct form form, bool add)
{
    uint8x16x2_t low = vld2q_u8(from->low);
    uint8x16_t high = vld1q_u8(from->high);
    words bits[4];

    turn_back(bits,
              (uint8x16x4_t){{low.val[0], low.val[1], high, take_exponents(from, live, form)}});
    for (unsigned v = 0; v < 4; v++) {
        float *at = dst + v * LANES;
        store(at, add ? load(at) + (floats)bits[v] : (floats)bits[v]);
    }
}

INLINE uint64_t unpack_all(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                           struct form form, bool add)
{
    struct sources from = sources_of(packed, others, n);
    unpack(dst, &from, n, form, add);
    return (uint64_t)(from.others - others);
}

const struct wring_lossless_tier_kernels wring_lossless_neon = {
    peak_block, pack_block, false, unpack_block, unpack_add_block,
};
