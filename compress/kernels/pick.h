/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the topk codec, each over one block of n elements, n <= 65536.
 *
 * A map has a bit per element, bit i % 64 of word i / 64; bits from n on are 0.
 * v = src, or src + residual where residual is not NULL.
 */
#ifndef WRING_KERNELS_PICK_H
#define WRING_KERNELS_PICK_H

#include "compress/kernels/kernels.h"

#define WRING_PICK_BLOCK_MAX 65536
#define WRING_PICK_WORDS(n) (((n) + 63) / 64)

/** What marking found. */
struct wring_pick_found {
    uint32_t peak;  /* the bits of max|v|; WRING_INF_BITS or more when some v is not finite */
    uint32_t count; /* of marks */
};

struct wring_pick_kernels {
    /** The k-th largest magnitude as bits, 1 <= k <= n; exact, whatever the values. */
    uint32_t (*rank)(const float *src, const float *residual, uint64_t n, uint64_t k);
    /**
     * Mark the elements whose magnitude bits are at least `threshold`.
     * @param map  out, [WRING_PICK_WORDS(n)]
     */
    struct wring_pick_found (*mark)(uint64_t *map, const float *src, const float *residual,
                                    uint64_t n, uint32_t threshold);
    /**
     * Write marked elements in order: their values and their indices, little endian, packed.
     * @param values   out, 4 bytes each, at any address
     * @param indices  out, 2 bytes each, at any address
     */
    void (*gather)(void *values, void *indices, const uint64_t *map, const float *src,
                   const float *residual, uint64_t n);
    /** residual = v where not marked, +0 where marked. */
    void (*retain)(float *residual, const float *src, const uint64_t *map, uint64_t n);
};

struct wring_pick_tier {
    struct wring_kernel_tier head;
    const struct wring_pick_kernels *kernels;
};

extern const struct wring_pick_tier wring_pick_tiers[];

/** The plain gather, which AVX2 cannot better: it has no compressing store. */
void wring_pick_gather(void *values, void *indices, const uint64_t *map, const float *src,
                       const float *residual, uint64_t n);

extern const struct wring_pick_kernels wring_pick_avx2;
extern const struct wring_pick_kernels wring_pick_avx512;

#endif
