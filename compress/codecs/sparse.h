/* SPDX-License-Identifier: Apache-2.0 */
/** What codecs share that send some elements of a block. Private to the codecs. */
#ifndef WRING_CODECS_SPARSE_H
#define WRING_CODECS_SPARSE_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "compress/codec.h"

/** How many elements of n a ratio means: ratio * n, rounded up, at least 1 and at most n. */
static inline uint64_t wring_sparse_wanted(double ratio, uint64_t n)
{
    double exact = ratio * (double)n;
    uint64_t whole = (uint64_t)exact;
    uint64_t count = (double)whole < exact ? whole + 1 : whole;
    return count < 1 ? 1 : count < n ? count : n;
}

/** For way_back: union, with blocks as long as the codec's. */
static inline void wring_union_name(const struct wring_codec *codec, char *spec)
{
    snprintf(spec, WRING_CODEC_SPEC_MAX, "union:block=%" PRIu64, codec->info.unit);
}

#endif
