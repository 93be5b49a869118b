/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of delta: which words of 16 bits differ from those of a base, and by how much. A word's
 * step is z(now - base) - 1, all modulo 2^16, where z(d) = 2 d of a d from 0 to 32767, and
 * 2 (65536 - d) - 1 of any other: small differences either way are small steps.
 */
#ifndef WRING_KERNELS_DELTA_H
#define WRING_KERNELS_DELTA_H

#include "compress/kernels/kernels.h"

#define WRING_DELTA_WORDS 4096 /* of a block */
#define WRING_DELTA_MAP (WRING_DELTA_WORDS / 64)
#define WRING_DELTA_FEW (WRING_DELTA_WORDS / 8) /* of a block, whose numbers are asked for */
#define WRING_DELTA_SLACK 32 /* steps or numbers behind the last that a kernel may touch, too */

struct wring_delta_tier_kernels {
    /**
     * Compare n words, 1 to WRING_DELTA_WORDS.
     * @param map    out, [WRING_DELTA_MAP]: bit i % 64 of number i / 64 says whether word i differs
     * @param steps  out, [n + WRING_DELTA_SLACK]: of each that does, in order; then rubbish
     * @param places out, [WRING_DELTA_FEW + WRING_DELTA_SLACK]: the numbers of the first
     *               WRING_DELTA_FEW of them, in order; then rubbish
     * @return how many differ
     */
    uint32_t (*compare)(uint64_t *map, uint16_t *steps, uint16_t *places, const uint16_t *base,
                        const uint16_t *now, uint64_t n);

    /**
     * dst = base, with steps where the map says so.
     * @param dst    out, [n], which may be exactly base: then only words that change are written,
     *               and others near them as they are
     * @param map    bits from n on are 0
     * @param steps  as many as bits are set, and WRING_DELTA_SLACK more that may be read
     */
    void (*apply)(uint16_t *dst, const uint16_t *base, const uint64_t *map, const uint16_t *steps,
                  uint64_t n);
};

struct wring_delta_tier {
    struct wring_kernel_tier head;
    const struct wring_delta_tier_kernels *kernels;
};

extern const struct wring_delta_tier wring_delta_tiers[];

extern const struct wring_delta_tier_kernels wring_delta_avx2;
extern const struct wring_delta_tier_kernels wring_delta_vbmi2;
extern const struct wring_delta_tier_kernels wring_delta_neon;

#endif
