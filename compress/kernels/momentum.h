/* SPDX-License-Identifier: Apache-2.0 */
/** Kernels of the suffixes +momentum and +nesterov, over finite elements. */
#ifndef WRING_KERNELS_MOMENTUM_H
#define WRING_KERNELS_MOMENTUM_H

#include "compress/kernels/kernels.h"

/* Each operation is rounded. What is too large for a float32 becomes the largest one of its sign.
 */
struct wring_momentum_kernels {
    /** momentum = beta * momentum + src */
    void (*advance)(float *momentum, const float *src, uint64_t n, float beta);
    /** momentum = (beta * momentum + beta * src) + src: Nesterov's, which looks a step ahead. */
    void (*look_ahead)(float *momentum, const float *src, uint64_t n, float beta);
    /** momentum = momentum - src: back from there. */
    void (*step_back)(float *momentum, const float *src, uint64_t n);
};

struct wring_momentum_tier {
    struct wring_kernel_tier head;
    const struct wring_momentum_kernels *kernels;
};

extern const struct wring_momentum_tier wring_momentum_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_momentum_kernels, wring_momentum)

#endif
