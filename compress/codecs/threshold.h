/* SPDX-License-Identifier: Apache-2.0 */
/** Where a block's largest magnitudes begin. Magnitudes are compared as bits; see bits.h. */
#ifndef WRING_CODECS_THRESHOLD_H
#define WRING_CODECS_THRESHOLD_H

#include <stddef.h>
#include <stdint.h>

#define WRING_SAMPLE_STRIDE 16  /* one element of every so many is looked at */
#define WRING_SAMPLE_FROM 16384 /* shorter blocks are not worth sampling */
#define WRING_SAMPLE_MAX (65536 / WRING_SAMPLE_STRIDE)

/**
 * The k-th largest magnitude of v = src (+ residual, unless NULL) as bits, 1 <= k <= n.
 * Three counting passes over 11, 10 and 10 bits; exact, whatever the values.
 */
uint32_t wring_threshold_exact(const float *src, const float *residual, uint64_t n, uint64_t k);

/**
 * An estimate of it from a fixed sample: FORMAT.md, "Sampled selection", has the rule.
 * WRING_SAMPLE_FROM <= n <= 65536.
 */
uint32_t wring_threshold_sampled(const float *src, const float *residual, uint64_t n, uint64_t k);

#endif
