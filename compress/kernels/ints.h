/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the codecs int4 and int2, and of int8 with range=minmax. A block's code is a head and
 * a step of 2, 4 or 8 bits for each element, from the lowest bits of a byte on. With v = src, or
 * src + residual under error feedback:
 *
 *     absmax    scale   = max|v| / top                           top = 2^(bits-1) - 1
 *               step    = round_half_even(v * (top / max|v|))    from -top to top
 *               decoded = step * scale
 *     minmax    low     = min v, high = max v, within -2^126 and 2^126
 *               scale   = (high - low) / top                     top = 2^bits - 1
 *               step    = round_half_even((v - low) * (top / (high - low))), from 0 to top
 *               decoded = low + step * scale
 *
 * The head is scale, and with minmax low behind it. FORMAT.md, "int4 and int2", has the blocks that
 * are not finite or too small.
 */
#ifndef WRING_KERNELS_INTS_H
#define WRING_KERNELS_INTS_H

#include "compress/kernels/kernels.h"

#define WRING_INTS_HEAD 4         /* bytes of a number of the head */
#define WRING_INTS_TINY 0x1p-118f /* a smaller largest magnitude, or range, counts as 0 */
#define WRING_INTS_LIMIT 0x1p126f /* minmax: what is beyond counts as this */

/** The largest scale: that whose top-fold is finite; with minmax that of the widest range. */
#define WRING_INTS_ABSMAX_4 0x1.249248p+125f
#define WRING_INTS_ABSMAX_2 0x1.fffffep+127f
#define WRING_INTS_MINMAX(top) (2 * WRING_INTS_LIMIT / (top))

/** What stands in a head. */
struct wring_ints_scale {
    float scale, low; /* low is 0 with absmax */
};

/** Of one width and range. */
struct wring_ints_form {
    /**
     * Encode blocks one after the other, the last of which may be short.
     * @param code      out, a head and [ceil(n · bits / 8)] bytes, per block; unused bits are 0
     * @param residual  in and out: becomes v - decoded, kept where a block is not finite; or NULL
     * @param block     elements, a multiple of 32
     */
    void (*encode)(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block);
    /** dst = decoded, of any steps of one block. */
    void (*decode)(float *dst, const uint8_t *code, uint64_t n, struct wring_ints_scale scale);
    void (*decode_add)(float *dst, const uint8_t *code, uint64_t n, struct wring_ints_scale scale);
};

struct wring_ints_kernels {
    struct wring_ints_form absmax[2]; /* of 2 and 4 bits */
    struct wring_ints_form minmax[3]; /* and of 8 */
};

struct wring_ints_tier {
    struct wring_kernel_tier head;
    const struct wring_ints_kernels *kernels;
};

extern const struct wring_ints_tier wring_ints_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_ints_kernels, wring_ints)

#endif
