/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/scale.h"

#include <string.h>

#include "base/fpenv.h"
#include "compress/kernels/bits.h"
#include "compress/reduce.h"

#define NAN64_BITS 0x7FF8000000000000u
#define BLOCK 256 /* elements; all loops but the last one's have a constant length */

static void scale_f32(void *dst, const void *src, size_t n, float factor)
{
    float block[BLOCK];
    memcpy(block, src, n * sizeof(*block));
    for (size_t i = 0; i < n; i++)
        block[i] = wring_canonical(block[i] * factor);
    memcpy(dst, block, n * sizeof(*block));
}

static double canonical(double value)
{
    const uint64_t bits = NAN64_BITS;
    double nan;
    memcpy(&nan, &bits, sizeof(nan));
    return value == value ? value : nan;
}

static void scale_f64(void *dst, const void *src, size_t n, double factor)
{
    double block[BLOCK];
    memcpy(block, src, n * sizeof(*block));
    for (size_t i = 0; i < n; i++)
        block[i] = canonical(block[i] * factor);
    memcpy(dst, block, n * sizeof(*block));
}

/** A 16-bit type, which kernels widen and narrow. */
static void scale_short(const struct wring_reduce_kernels *kernels, enum wring_dtype dtype,
                        void *dst, const void *src, size_t n, float factor)
{
    float block[BLOCK];
    kernels->widen[dtype](block, src, n);
    for (size_t i = 0; i < n; i++)
        block[i] *= factor;
    kernels->narrow[dtype](dst, block, n, 1);
}

static enum wring_dtype part_of(enum wring_dtype dtype)
{
    return dtype == WRING_COMPLEX64 ? WRING_F32 : dtype == WRING_COMPLEX128 ? WRING_F64 : dtype;
}

void wring_scale(enum wring_dtype dtype, void *dst, const void *src, uint64_t elems, double factor,
                 const char *tier)
{
    const struct wring_job job = {.tier = tier};
    const struct wring_reduce_tier *kernels =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), wring_job_tier(&job));
    enum wring_dtype part = part_of(dtype);
    size_t bytes = wring_dtype_bytes(part);
    uint64_t mode = wring_fp_enter(), n = part == dtype ? elems : 2 * elems;

    for (uint64_t at = 0; at < n; at += BLOCK) {
        size_t length = n - at < BLOCK ? (size_t)(n - at) : BLOCK;
        void *to = (char *)dst + at * bytes;
        const void *from = (const char *)src + at * bytes;
        if (part == WRING_F64)
            scale_f64(to, from, length, factor);
        else if (part == WRING_F32)
            scale_f32(to, from, length, (float)factor);
        else
            scale_short(kernels->kernels, part, to, from, length, (float)factor);
    }
    wring_fp_leave(mode);
}
