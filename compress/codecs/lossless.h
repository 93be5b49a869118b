/* SPDX-License-Identifier: Apache-2.0 */
/**
 * lossless: float32 bit for bit, in fewer of them. The exponents of neighbours are much alike, so
 * each block keeps a large one and how far the others lie below it. Bytes in FORMAT.md, "lossless".
 *
 * For codecs/lossless.c alone, and lossless16.c, which has bf16 and f16.
 */
#ifndef WRING_COMPRESS_LOSSLESS_H
#define WRING_COMPRESS_LOSSLESS_H

#include "compress/codec.h"
#include "compress/kernels/lossless.h"

#define WRING_LOSSLESS_HEAD 4 /* bytes, of a block */

/** Bytes that a block's code is made in. */
#define WRING_LOSSLESS_ROOM(n) (WRING_LOSSLESS_HEAD + WRING_LOSSLESS_BLOCK_ROOM(n))

/** The first byte of a block. */
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

/** As decode16 and encode16 of <wring/codec.h>. @param scratch  [WRING_LOSSLESS16_ROOM(unit)] */
size_t wring_lossless16_encode(const struct wring_codec *codec, enum wring_dtype dtype,
                               const void *src, uint64_t elems, void *code, void *scratch);
enum wring_status wring_lossless16_decode(const struct wring_codec *codec, enum wring_dtype dtype,
                                          const void *code, size_t code_bytes, void *dst,
                                          uint64_t elems);

/*
 * lossless: codes on their way past the caches, in whole lines. Those of a block leave while the
 * next one is packed. A load that meets stores under way waits for all of them, so what is put
 * together in memory waits for its turn: there are two buffers for that.
 *
 * A block may go straight: most of it leaves from registers when it is packed, and its buffer has
 * only its head, the lines where it begins and ends, and what lies behind these.
 */

#define WRING_OUTFLOW_FRONT                                               \
    (2 * WRING_LINE) /* of a buffer: what is left of a line, and the head \
                      */
#define WRING_OUTFLOW_PAGE (WRING_PAGE * sizeof(float))

/* whole lines, with room for the code of a block wherever in a page it begins */
#define WRING_OUTFLOW_BUFFER                                                                     \
    ((WRING_OUTFLOW_FRONT + WRING_OUTFLOW_PAGE + WRING_LOSSLESS_ROOM(WRING_LOSSLESS_BLOCK_MAX) + \
      WRING_LINE) &                                                                              \
     ~(size_t)(WRING_LINE - 1))

struct wring_lossless_outflow {
    unsigned char *code; /* where the first code begins */
    unsigned char *to;   /* where a line begins: the one that the rest belongs to */
    size_t skip;         /* bytes of this one that are before the first code */
    size_t rest;         /* bytes, with those; less than a line */
    unsigned char *rest_end;
    unsigned char *block; /* the code that waits */
    size_t bytes;
    uint64_t gone; /* lines of it that went straight */
    unsigned turn; /* which buffer is next */
    _Alignas(WRING_LINE) unsigned char buffers[2][WRING_OUTFLOW_BUFFER];
};

#endif
