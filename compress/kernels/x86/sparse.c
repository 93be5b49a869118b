/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/sparse.h"
#include "compress/kernels/x86/vector.h"

#define PARTS 4 /* vectors at a time, none of which waits for another */

/** @param residual  or NULL, which is known where this is inlined */
INLINE words magnitude_at(const float *src, const float *residual, uint64_t i)
{
    floats value = load(src + i);
    return magnitude_of(residual != NULL ? value + load(residual + i) : value);
}

INLINE words magnitude_of_rest(const float *src, const float *residual, uint64_t i, unsigned live)
{
    floats value = load_first(src + i, live);
    return magnitude_of(residual != NULL ? value + load_first(residual + i, live) : value);
}

INLINE uint32_t peak_of(const float *src, const float *residual, uint64_t n)
{
    words peaks[PARTS] = {{0}};
    uint64_t i = 0;

    for (; i + PARTS * LANES <= n; i += PARTS * LANES)
        for (unsigned v = 0; v < PARTS; v++)
            peaks[v] = larger(peaks[v], magnitude_at(src, residual, i + v * LANES));
    for (; i < n; i += LANES)
        peaks[0] = larger(peaks[0], magnitude_of_rest(src, residual, i, rest_from(n - i, 0)));
    return largest_of(larger(larger(peaks[0], peaks[1]), larger(peaks[2], peaks[3])));
}

static uint32_t peak(const float *src, const float *residual, uint64_t n)
{
    return residual != NULL ? peak_of(src, residual, n) : peak_of(src, NULL, n);
}

static void feed(float *residual, const float *src, uint64_t n)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(residual + i, load(src + i) + load(residual + i));
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        store_first(residual + i, load_first(src + i, live) + load_first(residual + i, live), live);
    }
}

const struct wring_sparse_kernels OF_TIER(wring_sparse) = {peak, feed};
