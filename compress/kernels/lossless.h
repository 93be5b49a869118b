/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the lossless codec: float32 taken apart into sign and fraction, which are random, and
 * the exponent, which is not. With r = bits(x) rotated left by 1, the lower 24 bits of r are the
 * former and the upper 8 the latter. A packed block of n elements is, one after the other:
 *
 *     low     2 n bytes                   r & 0xFFFF
 *     high    n bytes                     r >> 16 & 0xFF
 *     planes  width * ceil(n / 8) bytes   the bits of each element's distance, lowest first
 *     others  a byte for each element whose distance has all bits set: its exponent
 *
 * An element's distance is that of its exponent from the block's top, modulo 256 and at most
 * 2^width - 1.
 * FORMAT.md, "lossless", has the blocks around these.
 */
#ifndef WRING_KERNELS_LOSSLESS_H
#define WRING_KERNELS_LOSSLESS_H

#include <stdbool.h>

#include "compress/kernels/kernels.h"
#include "compress/kernels/streaming.h"

#define WRING_LOSSLESS_BLOCK_MAX 4096
#define WRING_LOSSLESS_BLOCK_USUAL 512                 /* kernels may be made for it */
#define WRING_LOSSLESS_SAMPLE(n) ((n) < 64 ? (n) : 64) /* first elements, which choose a top */
#define WRING_LOSSLESS_SLACK                                                         \
    64 /* bytes behind packed data, or data to be read, that a kernel may touch, too \
        */

#define WRING_LOSSLESS_BLOCK_NARROW 3 /* the two widths of a distance */
#define WRING_LOSSLESS_BLOCK_WIDE 4
#define WRING_LOSSLESS_FAR(width)                                      \
    ((1u << (width)) - 1) /* the distance from which it is written out \
                           */

#define WRING_LOSSLESS_PLANE(n) (((n) + 7) / 8) /* bytes */
#define WRING_LOSSLESS_PLANES(n) ((n)*3)        /* where in a packed block they begin */
#define WRING_LOSSLESS_OTHERS(n, width) (WRING_LOSSLESS_PLANES(n) + (width)*WRING_LOSSLESS_PLANE(n))
#define WRING_LOSSLESS_STRAIGHT(n) (WRING_LOSSLESS_PLANES(n) / WRING_LINE - 1) /* lines */
#define WRING_LOSSLESS_BLOCK_ROOM(n) \
    (WRING_LOSSLESS_OTHERS(n, WRING_LOSSLESS_BLOCK_WIDE) + (n) + WRING_LOSSLESS_SLACK)

/**
 * Elements of a block whose distance is too long for either width. Packed narrow, the wide ones are
 * not counted and are said to be 0.
 */
struct wring_lossless_far {
    uint32_t narrow, wide;
};

/** Whole lines of code that are stored past the caches; wring_streaming_settle() is the caller's.
 */
struct wring_lossless_lines {
    const void *from; /* borrowed */
    void *to;         /* where a line begins; without lines neither is looked at */
    uint64_t n;
};

/**
 * Work beside packing, so that the ways to and from memory are not idle meanwhile. All zeros:
 * nothing is.
 */
struct wring_lossless_beside {
    const float *next; /* in: as many elements, of which the sample's peak is looked for; or NULL */
    uint32_t peak;     /* out: the sample's; 0 without it */
    const float *fetch; /* in: as many elements that are asked for, or NULL: into a second cache, or
                           the first one where the block goes straight */
    struct wring_lossless_lines leaving; /* in: of other code */
    struct wring_lossless_lines last;    /* in: likewise, put together just now: after all others */
    /* in: where the packed block belongs, or NULL. The lines of low and high behind the one that
       they begin in, WRING_LOSSLESS_STRAIGHT of them, are stored there, past the caches, and what
       belongs there is not in `packed`. For blocks of WRING_LOSSLESS_BLOCK_USUAL alone. */
    void *straight;
};

/**
 * Pack a block.
 * @param packed  out, WRING_LOSSLESS_BLOCK_ROOM(n) bytes, of which all may be written
 * @param n       1 to WRING_LOSSLESS_BLOCK_MAX
 * @param width   of a distance: one of the two
 * @param top     that distances count from; a larger exponent is at a distance too long
 * @param beside  inout: all done on return
 */
typedef struct wring_lossless_far (*wring_lossless_pack_fn)(uint8_t *packed, const float *src,
                                                            uint64_t n, unsigned width,
                                                            uint32_t top,
                                                            struct wring_lossless_beside *beside);

struct wring_lossless_tier_kernels {
    /** The largest r without its sign: bits(x) << 1, the exponent in the upper 8 bits. 0: all 0. */
    uint32_t (*peak)(const float *src, uint64_t n);
    wring_lossless_pack_fn pack;
    bool straight; /* pack can let a block go straight; without it, that is not to be asked for */
    /**
     * dst = what was packed. Any bytes give something: an exponent that would be below 0 wraps.
     * @param packed  in, up to where the others begin
     * @param others  in, n + WRING_LOSSLESS_SLACK readable bytes, however many the planes claim
     * @return how many others were taken
     */
    uint64_t (*unpack)(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                       unsigned width, uint32_t top);
    /** dst += what was packed. */
    uint64_t (*unpack_add)(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                           unsigned width, uint32_t top);
};

struct wring_lossless_tier {
    struct wring_kernel_tier head;
    const struct wring_lossless_tier_kernels *kernels;
};

extern const struct wring_lossless_tier wring_lossless_tiers[];

extern const struct wring_lossless_tier_kernels wring_lossless_avx2;
extern const struct wring_lossless_tier_kernels wring_lossless_avx512;
extern const struct wring_lossless_tier_kernels wring_lossless_vbmi2;
extern const struct wring_lossless_tier_kernels wring_lossless_neon;

#endif
