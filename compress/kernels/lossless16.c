/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/lossless16.h"

#include <string.h>

/* Elements stand at any address: each is copied from there and to it. */

static uint32_t rotated(const uint16_t *src, uint64_t i)
{
    uint16_t bits;
    memcpy(&bits, src + i, sizeof(bits));
    return (uint16_t)(bits << 1 | bits >> 15);
}

static void put_turned_back(uint16_t *dst, uint64_t i, uint32_t r)
{
    uint16_t bits = (uint16_t)(r >> 1 | r << 15);
    memcpy(dst + i, &bits, sizeof(bits));
}

static uint32_t peak_scalar(const uint16_t *src, uint64_t n)
{
    uint32_t peak = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = rotated(src, i) & 0xFFFE;
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

static struct wring_lossless_far pack_scalar(uint8_t *packed, const uint16_t *src, uint64_t n,
                                             struct wring_lossless16_form form)
{
    uint64_t plane = WRING_LOSSLESS_PLANE(n);
    uint8_t *planes = packed + n, *others = packed + WRING_LOSSLESS16_OTHERS(n, form);
    struct wring_lossless_far far = {0, 0};

    memset(planes, 0, (form.fraction + form.width) * plane);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t r = rotated(src, i), exponent = r >> 8 >> form.fraction;
        uint32_t distance = (form.top - exponent) & 0xFF >> form.fraction;
        packed[i] = (uint8_t)r;
        far.narrow += distance >= WRING_LOSSLESS_FAR(WRING_LOSSLESS_BLOCK_NARROW);
        far.wide += distance >= WRING_LOSSLESS_FAR(WRING_LOSSLESS_BLOCK_WIDE);
        if (distance >= WRING_LOSSLESS_FAR(form.width)) {
            distance = WRING_LOSSLESS_FAR(form.width);
            *others++ = (uint8_t)exponent;
        }
        uint32_t bits = (r >> 8 & ((1u << form.fraction) - 1)) | distance << form.fraction;
        for (unsigned bit = 0; bit < form.fraction + form.width; bit++)
            planes[bit * plane + i / 8] |= (uint8_t)((bits >> bit & 1) << i % 8);
    }
    return far;
}

static uint64_t unpack_scalar(uint16_t *dst, const uint8_t *packed, const uint8_t *others,
                              uint64_t count, uint64_t n, struct wring_lossless16_form form)
{
    uint64_t plane = WRING_LOSSLESS_PLANE(n), taken = 0;
    const uint8_t *planes = packed + n;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        for (unsigned bit = 0; bit < form.fraction + form.width; bit++)
            bits |= (uint32_t)(planes[bit * plane + i / 8] >> i % 8 & 1) << bit;
        uint32_t distance = bits >> form.fraction, exponent = form.top - distance;
        if (distance == WRING_LOSSLESS_FAR(form.width)) {
            exponent = taken < count ? others[taken] : 0;
            taken++;
        }
        uint32_t upper = (exponent << form.fraction | (bits & ((1u << form.fraction) - 1))) & 0xFF;
        put_turned_back(dst, i, packed[i] | upper << 8);
    }
    return taken;
}

static const struct wring_lossless16_tier_kernels scalar = {peak_scalar, pack_scalar,
                                                            unpack_scalar};

const struct wring_lossless16_tier wring_lossless16_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
#ifdef WRING_ARCH_X86
    {{"avx2", WRING_CPU_AVX2}, &wring_lossless16_avx2},
    {{"avx512", WRING_CPU_AVX512}, &wring_lossless16_avx512},
    {{"vbmi2", WRING_CPU_VBMI2}, &wring_lossless16_vbmi2},
#endif
#ifdef WRING_ARCH_ARM
    {{"neon", WRING_CPU_NEON}, &wring_lossless16_neon},
#endif
    {{NULL, 0}, NULL},
};
