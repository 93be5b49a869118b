/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/lossless.h"

#include "compress/kernels/bits.h"

static uint32_t rotated(float value)
{
    uint32_t bits = wring_bits_of(value);
    return bits << 1 | bits >> 31;
}

static float turned_back(uint32_t r)
{
    return wring_float_of(r >> 1 | r << 31);
}

static uint32_t peak_scalar(const float *src, uint64_t n)
{
    uint32_t peak = 0;
    for (uint64_t i = 0; i < n; i++)
        peak = wring_bits_of(src[i]) << 1 > peak ? wring_bits_of(src[i]) << 1 : peak;
    return peak;
}

static void put_distance(uint8_t *planes, uint64_t plane, uint64_t i, unsigned width,
                         uint32_t distance)
{
    for (unsigned bit = 0; bit < width; bit++)
        planes[bit * plane + i / 8] |= (uint8_t)((distance >> bit & 1) << i % 8);
}

static uint32_t take_distance(const uint8_t *planes, uint64_t plane, uint64_t i, unsigned width)
{
    uint32_t distance = 0;
    for (unsigned bit = 0; bit < width; bit++)
        distance |= (uint32_t)(planes[bit * plane + i / 8] >> i % 8 & 1) << bit;
    return distance;
}

static void put_lines(const struct wring_lossless_lines *lines)
{
    if (lines->n > 0)
        wring_streaming_stream(lines->to, lines->from, lines->n * WRING_LINE);
}

static void put_straight(uint8_t *straight, const uint8_t *packed, uint64_t n)
{
    size_t first = WRING_LINE - (uintptr_t)straight % WRING_LINE;
    wring_streaming_stream(straight + first, packed + first,
                           WRING_LOSSLESS_STRAIGHT(n) * WRING_LINE);
}

static struct wring_lossless_far pack_scalar(uint8_t *packed, const float *src, uint64_t n,
                                             unsigned width, uint32_t top,
                                             struct wring_lossless_beside *beside)
{
    uint8_t *high = packed + 2 * n, *planes = packed + WRING_LOSSLESS_PLANES(n);
    uint8_t *others = packed + WRING_LOSSLESS_OTHERS(n, width);
    struct wring_lossless_far far = {0, 0};

    beside->peak = beside->next == NULL ? 0 : peak_scalar(beside->next, WRING_LOSSLESS_SAMPLE(n));
    if (beside->fetch != NULL)
        wring_streaming_fetch(beside->fetch, n * sizeof(float));
    put_lines(&beside->leaving);
    put_lines(&beside->last);
    memset(planes, 0, width * WRING_LOSSLESS_PLANE(n));
    for (uint64_t i = 0; i < n; i++) {
        uint32_t r = rotated(src[i]), distance = (uint8_t)(top - (r >> 24));
        packed[2 * i] = (uint8_t)r;
        packed[2 * i + 1] = (uint8_t)(r >> 8);
        high[i] = (uint8_t)(r >> 16);
        far.narrow += distance >= WRING_LOSSLESS_FAR(WRING_LOSSLESS_BLOCK_NARROW);
        far.wide += width == WRING_LOSSLESS_BLOCK_WIDE &&
                    distance >= WRING_LOSSLESS_FAR(WRING_LOSSLESS_BLOCK_WIDE);
        if (distance >= WRING_LOSSLESS_FAR(width)) {
            distance = WRING_LOSSLESS_FAR(width);
            *others++ = (uint8_t)(r >> 24);
        }
        put_distance(planes, WRING_LOSSLESS_PLANE(n), i, width, distance);
    }
    if (beside->straight != NULL)
        put_straight(beside->straight, packed, n);
    return far;
}

static uint64_t unpack_any(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                           unsigned width, uint32_t top, bool add)
{
    const uint8_t *high = packed + 2 * n, *planes = packed + WRING_LOSSLESS_PLANES(n);
    uint64_t taken = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t distance = take_distance(planes, WRING_LOSSLESS_PLANE(n), i, width);
        uint32_t exponent = top - distance;
        if (distance == WRING_LOSSLESS_FAR(width))
            exponent = others[taken++];
        uint32_t r = wring_take_u16(packed + 2 * i) | (uint32_t)high[i] << 16 | exponent << 24;
        dst[i] = add ? dst[i] + turned_back(r) : turned_back(r);
    }
    return taken;
}

static uint64_t unpack_scalar(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                              unsigned width, uint32_t top)
{
    return unpack_any(dst, packed, others, n, width, top, false);
}

static uint64_t unpack_add_scalar(float *dst, const uint8_t *packed, const uint8_t *others,
                                  uint64_t n, unsigned width, uint32_t top)
{
    return unpack_any(dst, packed, others, n, width, top, true);
}

static const struct wring_lossless_tier_kernels scalar = {peak_scalar, pack_scalar, true,
                                                          unpack_scalar, unpack_add_scalar};

const struct wring_lossless_tier wring_lossless_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
#ifdef WRING_ARCH_X86
    {{"avx2", WRING_CPU_AVX2}, &wring_lossless_avx2},
    {{"avx512", WRING_CPU_AVX512}, &wring_lossless_avx512},
    {{"vbmi2", WRING_CPU_VBMI2}, &wring_lossless_vbmi2},
#endif
#ifdef WRING_ARCH_ARM
    {{"neon", WRING_CPU_NEON}, &wring_lossless_neon},
#endif
    {{NULL, 0}, NULL},
};
