/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the topk codec, each over one block of n elements, n <= 65536.
 *
 * A map has a bit per element, bit i % 64 of word i / 64; bits from n on are 0.
 * v = src, or src + residual where residual is not NULL.
 */
#ifndef WRING_KERNELS_TOPK_H
#define WRING_KERNELS_TOPK_H

#include <stdbool.h>

#include "compress/kernels/kernels.h"

#define WRING_TOPK_BLOCK_MAX 65536
#define WRING_TOPK_WORDS(n) (((n) + 63) / 64)
#define WRING_TOPK_STRIDE 16 /* of so many elements one is a sample: FORMAT.md, "topk" */
#define WRING_TOPK_LISTED 8192
#define WRING_TOPK_SLACK 1088 /* entries that a kernel may write rubbish to, past the last */
#define WRING_TOPK_SPARE 16   /* the same of samples */

#define WRING_TOPK_LOGGED 1024 /* old values that an undo holds */

/** The result of marking. */
struct wring_topk_found {
    uint32_t peak;  /* the bits of max|v|; WRING_INF_BITS or more when some v is not finite */
    uint32_t count; /* of marks */
};

/** Some elements of a block, ascending. */
struct wring_topk_list {
    uint32_t count; /* more than WRING_TOPK_LISTED: more than fit, and the entries are rubbish */
    uint32_t peak;  /* the bits of their max|v|, 0 without any */
    uint16_t indices[WRING_TOPK_LISTED + WRING_TOPK_SLACK];
    float values[WRING_TOPK_LISTED + WRING_TOPK_SLACK];
};

/**
 * How to bring back a residual that has become v = src + residual. v - src is the old value, or so
 * near that the difference of their bits, taken as integers, fits a byte: v is seldom more than 128
 * times as large as the residual, which lost bits to it. Where the difference does not fit, the old
 * value is logged.
 */
struct wring_topk_undo {
    _Alignas(64) int8_t steps[WRING_TOPK_BLOCK_MAX]; /* the order within each 64 is the kernel's */
    uint64_t n;                                      /* elements that have been changed */
    uint32_t logged;
    uint16_t indices[WRING_TOPK_LOGGED + WRING_TOPK_SLACK];
    float log[WRING_TOPK_LOGGED + WRING_TOPK_SLACK];
};

struct wring_topk_kernels {
    /** The k-th largest magnitude as bits, 1 <= k <= n; exact, whatever the values. */
    uint32_t (*rank)(const float *src, const float *residual, uint64_t n, uint64_t k);
    /**
     * Mark the elements whose magnitude bits are at least `threshold`.
     * @param map  out, [WRING_TOPK_WORDS(n)]
     */
    struct wring_topk_found (*mark)(uint64_t *map, const float *src, const float *residual,
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
    /** List the elements whose magnitude bits are at least `threshold`, 1..WRING_INF_BITS. */
    void (*find)(struct wring_topk_list *list, const float *src, const float *residual, uint64_t n,
                 uint32_t threshold);
    /**
     * Those of a list that are samples, sample i < n / 16 being element
     * 16 i + (i * 0x9E3779B1 mod 2^32 >> 28), so that no column of a matrix is favoured.
     * @param out  their values, any order; room for n / 16 + WRING_TOPK_SPARE
     * @return how many
     */
    uint32_t (*sampled)(float *out, const struct wring_topk_list *list, uint64_t n);
    /** Keep the entries whose magnitude bits are at least `threshold`. The peak stays. */
    void (*sift)(struct wring_topk_list *list, uint32_t threshold);
    /**
     * Find, and residual = v on the way: one traversal, where find and leave are two.
     * @param threshold  inout; raised where a first part of the block shows that more than
     *                   `enough` would be listed: all that reach it are in the list, no others.
     *                   It never is where `enough` is 0
     * @return false when that could not be undone, or more than a list holds: nothing has changed,
     *         but for the list, which is rubbish
     */
    bool (*take)(struct wring_topk_list *list, struct wring_topk_undo *undo, const float *src,
                 float *residual, uint64_t n, uint32_t *threshold, uint64_t enough);
    /** Bring back, bit by bit, the residual that a take has changed. */
    void (*give_back)(const struct wring_topk_undo *undo, const float *src, float *residual);
    /** residual = v where its magnitude bits are below `threshold`, +0 elsewhere. */
    void (*leave)(float *residual, const float *src, uint64_t n, uint32_t threshold);
};

struct wring_topk_tier {
    struct wring_kernel_tier head;
    const struct wring_topk_kernels *kernels;
};

extern const struct wring_topk_tier wring_topk_tiers[];

/* Plain kernels which AVX2 cannot better: it has no compressing store. */
void wring_topk_gather(void *values, void *indices, const uint64_t *map, const float *src,
                       const float *residual, uint64_t n);
uint32_t wring_topk_sampled(float *out, const struct wring_topk_list *list, uint64_t n);
void wring_topk_sift(struct wring_topk_list *list, uint32_t threshold);

/* Where logging takes longer than a second traversal. */
bool wring_topk_take_never(struct wring_topk_list *list, struct wring_topk_undo *undo,
                           const float *src, float *residual, uint64_t n, uint32_t *threshold,
                           uint64_t enough);
void wring_topk_give_nothing_back(const struct wring_topk_undo *undo, const float *src,
                                  float *residual);

WRING_VECTOR_TIERS_DECLARED(struct wring_topk_kernels, wring_topk)

#endif
