/* SPDX-License-Identifier: Apache-2.0 */
/** What WRING_PREMUL_SUM does to a contribution before it is summed. */
#ifndef WRING_COMPRESS_SCALE_H
#define WRING_COMPRESS_SCALE_H

#include <stdint.h>

#include <wring/types.h>

/**
 * dst[i] = src[i] * factor, rounded to the type. The factor is first rounded to the precision that
 * sums of the type have: f64 and complex128 keep it, all others make it a float32; 16-bit floats
 * are multiplied in float32. Every NaN is the one NaN of its type. Sets the floating-point mode for
 * the while. Threads: safe.
 *
 * @param dtype  one that WRING_PREMUL_SUM takes
 * @param dst    out, [elems]; may be exactly src
 * @param tier   the highest allowed, as for wring_codec_create()
 */
void wring_scale(enum wring_dtype dtype, void *dst, const void *src, uint64_t elems, double factor,
                 const char *tier);

#endif
