/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How kernels store what they make: whole lines of the cache, where the buffer lets them, and past
 * the caches where the buffer is longer than what these hold. Macros only, as in kernels.h.
 */
#ifndef WRING_KERNELS_STORE_H
#define WRING_KERNELS_STORE_H

#include <stdint.h>

#define WRING_LINE 64u

/**
 * From here on what one call writes is streamed. A call for a piece of a bucket writes less: that
 * stays in the second cache until it is sent. Measured, not derived: below, the caches of the
 * processors at hand are as fast or faster.
 */
#define WRING_STREAM_BYTES ((uint64_t)4 << 20)

/** Bytes from `at` to the next line. */
#define WRING_TO_LINE(at) (-(uintptr_t)(at) & (WRING_LINE - 1))

/** Can n elements of `size` bytes at `at` ever begin a line? */
#define WRING_MEETS_LINE(at, size) ((uintptr_t)(at) % (size) == 0)

/** So many elements come before the first whole line; none where there are no whole lines. */
#define WRING_LEAD(at, size, n)                                          \
    (!WRING_MEETS_LINE(at, size) || WRING_TO_LINE(at) / (size) > (n) ? 0 \
                                                                     : WRING_TO_LINE(at) / (size))

#define WRING_STREAMS(at, size, n) \
    (WRING_MEETS_LINE(at, size) && (uint64_t)(n) * (size) >= WRING_STREAM_BYTES)

#endif
