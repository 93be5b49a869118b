/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Where the elements are that a block sends, as the gaps before them: Rice codes (Rice and
 * Plaunt, 1971) of a width for each block, whose high parts stand before all low ones. With a width
 * of 0 that is a map. Bytes in FORMAT.md, "topk"; private to the codecs.
 */
#ifndef WRING_CODECS_GAPS_H
#define WRING_CODECS_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRING_GAPS_BLOCK_MAX 65536
#define WRING_GAPS_PIECE 1024 /* the most indices that are read at a time */
#define WRING_GAPS_WIDTH_MAX 15

#define WRING_GAPS_WORDS (WRING_GAPS_BLOCK_MAX / 64) /* they never take more */
#define WRING_GAPS_SPARE 2                           /* zeros, as more is read than is there */

/**
 * The most bytes that the gaps of `count` elements of n take: more elements never have less, and
 * all n of them have n bits.
 */
size_t wring_gaps_bound(uint64_t count, uint64_t n);

/**
 * Write the gaps of a block.
 * @param to       out, [wring_gaps_bound(count, n)]
 * @param indices  ascending, each below n; count is at least 1
 * @param width    out, of the low parts, 0..WRING_GAPS_WIDTH_MAX: a decoder needs it
 * @return bytes
 */
size_t wring_gaps_put(unsigned char *to, const uint16_t *indices, uint32_t count, unsigned *width);

/** A reader. It has a copy of the gaps, since a peer may change them meanwhile. */
struct wring_gaps {
    uint64_t words[WRING_GAPS_WORDS + WRING_GAPS_SPARE];
    uint64_t n, high;          /* elements of the block; what is left of a word of high parts */
    uint32_t count, done;      /* indices; those that have been read */
    unsigned width, word;      /* the number of the word that `high` is of */
    uint32_t low_bit, low_sum; /* where the next low part begins; of those before it */
};

/**
 * Begin to read.
 * @param left   bytes from `from` on, of which the gaps may be a part
 * @param count  of indices, 1..n
 * @return the bytes that the gaps take; 0: they are malformed
 */
size_t wring_gaps_open(struct wring_gaps *gaps, const unsigned char *from, size_t left,
                       uint32_t count, unsigned width, uint64_t n);

/**
 * Read the next `some` indices, which are left; up to WRING_GAPS_PIECE of them.
 * @return false: one is not below n, or the last shows that the width is not the encoder's
 */
bool wring_gaps_next(struct wring_gaps *gaps, uint16_t *indices, uint32_t some);

#endif
