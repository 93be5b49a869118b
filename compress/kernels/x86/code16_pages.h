/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How long calls of 16-bit codes go from page to page, whatever the vectors' width. A file that
 * includes this defines the steps, declared first.
 */
#ifndef WRING_KERNELS_CODE16_PAGES_H
#define WRING_KERNELS_CODE16_PAGES_H

#include "compress/kernels/streaming.h"

/** Whole steps. @return how many of n are done; likewise that below */
static inline uint64_t add_steps(float *dst, const uint16_t *code, uint64_t n);

static uint64_t add_pages(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(code + i, WRING_PAGE * sizeof(*code));
        wring_streaming_fetch(dst + i, WRING_PAGE * sizeof(*dst));
        add_steps(dst + i, code + i, WRING_PAGE);
    }
    return i;
}

#endif
