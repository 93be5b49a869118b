/* SPDX-License-Identifier: Apache-2.0 */
/** The largest magnitude of a block: from which the size of its steps follows. */
#ifndef WRING_KERNELS_VECTOR_PEAK_H
#define WRING_KERNELS_VECTOR_PEAK_H

#include "compress/kernels/vector/vector.h"

#define STEP (4 * LANES) /* elements at a time: their codes fill a vector */

/** A vector as it is, or with the residual. NULL is known where this is inlined. */
INLINE floats fed(const float *src, const float *residual, uint64_t at)
{
    return residual == NULL ? load(src + at) : load(src + at) + load(residual + at);
}

/** Of n elements; 0 behind them. */
INLINE floats fed_first(const float *src, const float *residual, uint64_t at, unsigned n)
{
    floats value = load_first(src + at, n);
    return residual == NULL ? value : value + load_first(residual + at, n);
}

/** The largest of each lane, so far; two, so that neither waits for itself. */
struct peaks {
    words even, odd;
};

/** With a step more. */
INLINE struct peaks look(struct peaks peaks, const float *src, const float *residual)
{
    for (unsigned v = 0; v < 4; v += 2) {
        peaks.even = larger(peaks.even, magnitude_of(fed(src, residual, v * LANES)));
        peaks.odd = larger(peaks.odd, magnitude_of(fed(src, residual, v * LANES + LANES)));
    }
    return peaks;
}

INLINE uint32_t largest(struct peaks peaks)
{
    return largest_of(larger(peaks.even, peaks.odd));
}

INLINE struct peaks no_peaks(void)
{
    return (struct peaks){{0}, {0}};
}

/** n is a multiple of STEP. */
INLINE struct peaks look_over(const float *src, const float *residual, uint64_t n)
{
    struct peaks peaks = no_peaks();

    for (uint64_t i = 0; i < n; i += STEP)
        peaks = look(peaks, src + i, residual == NULL ? NULL : residual + i);
    return peaks;
}

INLINE uint32_t find_peak(const float *src, const float *residual, uint64_t n)
{
    uint64_t i = n / STEP * STEP;
    struct peaks peaks = look_over(src, residual, i);

    for (; i < n; i += LANES)
        peaks.even =
            larger(peaks.even, magnitude_of(fed_first(src, residual, i, rest_from(n - i, 0))));
    return largest(peaks);
}

#endif
