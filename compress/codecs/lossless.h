/* SPDX-License-Identifier: Apache-2.0 */
/**
 * lossless: float32 bit for bit, in fewer of them. The exponents of neighbours are much alike, so
 * each block keeps a large one and how far the others lie below it. Bytes in FORMAT.md, "lossless".
 *
 * This is between lossless.c, lossless_encode.c, lossless_outflow.c and lossless_decode.c.
 */
#ifndef WRING_CODECS_LOSSLESS_H
#define WRING_CODECS_LOSSLESS_H

#include "compress/codec.h"
#include "compress/kernels/lossless.h"

#define WRING_LOSSLESS_HEAD 4 /* bytes, of a block */

/** Bytes that a block's code is made in. */
#define WRING_LOSSLESS_ROOM(n) (WRING_LOSSLESS_HEAD + WRING_LOSSLESS_BLOCK_ROOM(n))

/** What a block's first byte says. */
enum wring_lossless_layout {
    WRING_LOSSLESS_ZEROS = 0,                            /* +0 everywhere: nothing follows */
    WRING_LOSSLESS_NARROW = WRING_LOSSLESS_BLOCK_NARROW, /* packed with distances of so many bits */
    WRING_LOSSLESS_WIDE = WRING_LOSSLESS_BLOCK_WIDE,
    WRING_LOSSLESS_AS_IS = 8, /* float32 */
};

/** How a block is laid out. */
struct wring_lossless_plan {
    enum wring_lossless_layout layout;
    uint32_t top;    /* exponent; 0 where there is none */
    uint32_t others; /* elements whose exponents are written out */
};

static inline const struct wring_lossless_tier_kernels *wring_lossless_kernels(
    const struct wring_codec *codec)
{
    return ((const struct wring_lossless_tier *)codec->kernels)->kernels;
}

static inline bool wring_lossless_is_packed(const struct wring_lossless_plan *plan)
{
    return plan->layout == WRING_LOSSLESS_NARROW || plan->layout == WRING_LOSSLESS_WIDE;
}

/** Of the whole code of a block. */
static inline size_t wring_lossless_bytes(const struct wring_lossless_plan *plan, uint64_t n)
{
    if (plan->layout == WRING_LOSSLESS_AS_IS)
        return WRING_LOSSLESS_HEAD + n * sizeof(float);
    if (!wring_lossless_is_packed(plan))
        return WRING_LOSSLESS_HEAD;
    return (WRING_LOSSLESS_HEAD + WRING_LOSSLESS_OTHERS(n, plan->layout) + plan->others + 3) &
           ~(size_t)3;
}

size_t wring_lossless_bound(const struct wring_codec *codec, uint64_t elems);
size_t wring_lossless_encode(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, void *code, void *scratch);
enum wring_status wring_lossless_decode(const struct wring_codec *codec,
                                        const struct wring_codec_context *context, const void *code,
                                        size_t code_bytes, float *dst, uint64_t elems, bool add);

#endif
