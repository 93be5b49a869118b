/* SPDX-License-Identifier: Apache-2.0 */
/** Kernels that add float32 runs. */
#ifndef WRING_KERNELS_SUM_H
#define WRING_KERNELS_SUM_H

#include "compress/kernels/kernels.h"

/**
 * dst[i] = ((src[0][i] + src[1][i]) + src[2][i] + …) / divisor, one pass, NaN made canonical.
 *
 * @param dst     out, [n]; may be exactly one of the sources
 * @param src     in, [n_src] runs of [n] float32, at any address; n_src >= 1
 * @param divisor IEEE division, left out when it is 1
 */
typedef void (*wring_sum_fn)(float *dst, const void *const *src, size_t n_src, uint64_t n,
                             float divisor);

struct wring_sum_tier {
    struct wring_kernel_tier head;
    wring_sum_fn sum;
};

extern const struct wring_sum_tier wring_sum_tiers[];

/** The one of the highest tier that `allowed` and this processor admit. */
wring_sum_fn wring_sum_find(enum wring_cpu_tier allowed);

void wring_sum_avx2(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor);
void wring_sum_avx512(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor);

#endif
