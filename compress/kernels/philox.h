/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Philox4x32-10, the generator below wring_codec_random(), many blocks at a time: a bijection of a
 * counter that looks random, another one for each key. FORMAT.md, "Random numbers", has the layout
 * of counter and key.
 *
 * Source: Salmon and others, Parallel random numbers: as easy as 1, 2, 3, 2011.
 */
#ifndef WRING_KERNELS_PHILOX_H
#define WRING_KERNELS_PHILOX_H

#include "compress/kernels/kernels.h"

#define WRING_PHILOX_WORDS 4 /* of a block */
#define WRING_PHILOX_ROUNDS 10

/* What a round multiplies by, and what the key grows by from one to the next. */
#define WRING_PHILOX_FACTOR_0 0xD2511F53u
#define WRING_PHILOX_FACTOR_1 0xCD9E8D57u
#define WRING_PHILOX_WEYL_0 0x9E3779B9u
#define WRING_PHILOX_WEYL_1 0xBB67AE85u

/* Noise, of codecs that round at random: 16 bits of an element i are the lower half of word
 * i / 32 · 16 + i % 16 where i % 32 < 16, and its upper half elsewhere. */
#define WRING_NOISE_RUN 32 /* elements whose noise stands in WRING_NOISE_RUN_WORDS words */
#define WRING_NOISE_RUN_WORDS 16

/** Numbers of one bucket, step, rank and phase: all but the block. */
struct wring_philox_stream {
    uint32_t key[2];
    uint64_t step; /* the upper half of the counter; the block is the lower one */
};

/** One block. */
void wring_philox(const uint32_t counter[WRING_PHILOX_WORDS], const uint32_t key[2],
                  uint32_t out[WRING_PHILOX_WORDS]);

struct wring_philox_kernels {
    /**
     * The words of blocks that follow each other: the numbers of elements 4 · block and on.
     * @param out  out, [WRING_PHILOX_WORDS · blocks]
     */
    void (*words)(uint32_t *out, const struct wring_philox_stream *stream, uint64_t block,
                  uint64_t blocks);
};

struct wring_philox_tier {
    struct wring_kernel_tier head;
    const struct wring_philox_kernels *kernels;
};

extern const struct wring_philox_tier wring_philox_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_philox_kernels, wring_philox)

#endif
