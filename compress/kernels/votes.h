/* SPDX-License-Identifier: Apache-2.0 */
/** Kernels of the codecs whose codes are signs alone, each over one unit of n elements. */
#ifndef WRING_KERNELS_VOTES_H
#define WRING_KERNELS_VOTES_H

#include "compress/kernels/kernels.h"

#define WRING_VOTES_ZERO 1u /* some element is 0 or -0 */
#define WRING_VOTES_LOST 2u /* some element is not finite */

struct wring_votes_kernels {
    /**
     * @param bits  out, [ceil(n / 8)] bytes; bit i is set when src[i] has its sign bit set, unused
     *              bits are clear
     * @return which of the above there are
     */
    unsigned (*votes)(uint8_t *bits, const float *src, uint64_t n);
    /** out = keep * momentum + take * src, each product and the sum rounded. */
    void (*mix)(float *out, const float *momentum, const float *src, uint64_t n, float keep,
                float take);
};

struct wring_votes_tier {
    struct wring_kernel_tier head;
    const struct wring_votes_kernels *kernels;
};

extern const struct wring_votes_tier wring_votes_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_votes_kernels, wring_votes)

#endif
