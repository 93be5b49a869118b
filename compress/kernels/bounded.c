/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/bounded.h"

#include <stdbool.h>

#include "compress/kernels/bits.h"

/** To nearest even; what is too large becomes the least number, as processors have it. */
static int32_t round_half_even(float value)
{
    if (!(value < 0x1p31f && value >= -0x1p31f))
        return INT32_MIN;
    return (int32_t)(((double)value + 0x1.8p52) - 0x1.8p52);
}

/** Without the sign: the bits that a width has to have beside one. */
static uint32_t folded(int32_t step)
{
    return (uint32_t)(step < 0 ? ~step : step);
}

static uint32_t width_of(uint32_t all_folded, bool any)
{
    return all_folded != 0 ? 33 - (uint32_t)__builtin_clz(all_folded) : any;
}

static struct wring_bounded_found quantise_scalar(int32_t *steps, const float *src,
                                                  const float *residual, uint64_t n, float inverse)
{
    uint32_t all_folded = 0;
    bool any = false;

    for (uint64_t i = 0; i < n; i++) {
        steps[i] = round_half_even(wring_fed(src, residual, i) * inverse);
        all_folded |= folded(steps[i]);
        any |= steps[i] != 0;
    }
    return (struct wring_bounded_found){wring_peak(src, residual, n), width_of(all_folded, any)};
}

static uint64_t mark_scalar(uint64_t *map, const int32_t *steps, uint64_t n, unsigned width)
{
    uint64_t count = 0;

    memset(map, 0, (n + 63) / 64 * sizeof(*map));
    for (uint64_t i = 0; i < n; i++) {
        bool large = width == 0 ? steps[i] != 0 : folded(steps[i]) >> (width - 1) != 0;
        map[i / 64] |= (uint64_t)large << i % 64;
        count += large;
    }
    return count;
}

static void pack_scalar(uint8_t *planes, const int32_t *steps, uint64_t n, unsigned width)
{
    uint64_t bytes = (n + 7) / 8;

    memset(planes, 0, bytes * width);
    for (unsigned j = 0; j < width; j++)
        for (uint64_t i = 0; i < n; i++)
            planes[j * bytes + i / 8] |= (uint8_t)(((uint32_t)steps[i] >> j & 1) << i % 8);
}

static void keep_scalar(float *residual, const float *src, const int32_t *steps, uint64_t n,
                        float size)
{
    for (uint64_t i = 0; i < n; i++)
        residual[i] = src[i] + residual[i] - (float)steps[i] * size;
}

static void unpack_any(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size,
                       bool add)
{
    uint64_t bytes = (n + 7) / 8;

    for (uint64_t i = 0; i < n; i++) {
        int32_t step = 0;
        for (unsigned j = width; j-- > 0;) {
            int32_t bit = planes[j * bytes + i / 8] >> i % 8 & 1;
            step = j == width - 1 ? -bit : 2 * step + bit;
        }
        float value = (float)step * size;
        dst[i] = add ? dst[i] + value : value;
    }
}

static void unpack_scalar(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size)
{
    unpack_any(dst, planes, n, width, size, false);
}

static void unpack_add_scalar(float *dst, const uint8_t *planes, uint64_t n, unsigned width,
                              float size)
{
    unpack_any(dst, planes, n, width, size, true);
}

static const struct wring_bounded_kernels scalar = {
    quantise_scalar, mark_scalar, pack_scalar, keep_scalar, unpack_scalar, unpack_add_scalar,
};

const struct wring_bounded_tier wring_bounded_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_bounded){{NULL, 0}, NULL},
};
