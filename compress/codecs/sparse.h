/* SPDX-License-Identifier: Apache-2.0 */
/** What codecs share that send some elements of a block. Private to the codecs. */
#ifndef WRING_CODECS_SPARSE_H
#define WRING_CODECS_SPARSE_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "compress/codec.h"

/** How many elements of n a ratio means: ratio * n, rounded up, at least 1 and at most n. */
static inline uint64_t wring_sparse_wanted(double ratio, uint64_t n)
{
    double exact = ratio * (double)n;
    uint64_t whole = (uint64_t)exact;
    uint64_t count = (double)whole < exact ? whole + 1 : whole;
    return count < 1 ? 1 : count < n ? count : n;
}

/* A warm-up begins with this ratio, and each of its stages has a quarter of the one before. */
#define WRING_SPARSE_WIDEST 0.25
#define WRING_SPARSE_STAGES 4

/** The ratio of a step; a warm-up of so many steps has stages of equal length. Source: Lin and
 *  others, Deep Gradient Compression (arXiv:1712.01887). */
static inline double wring_sparse_warmed(double ratio, double steps, uint64_t step)
{
    double warm = WRING_SPARSE_WIDEST;

    if ((double)step >= steps)
        return ratio;
    for (double stage = (double)step * WRING_SPARSE_STAGES; stage >= steps; stage -= steps)
        warm /= WRING_SPARSE_STAGES;
    return warm > ratio ? warm : ratio;
}

/** The ratio of a step of a codec that may have +warmup. Step 0 has the largest. */
static inline double wring_sparse_ratio(const struct wring_codec *codec, double ratio,
                                        uint64_t step)
{
    return wring_codec_has_suffix(codec, WRING_SUFFIX_WARMUP)
               ? wring_sparse_warmed(ratio, codec->suffix_params[WRING_SUFFIX_WARMUP], step)
               : ratio;
}

/** For way_back: the codec itself, as long as its ratio, but without momentum and feedback. */
static inline void wring_sparse_name(const struct wring_codec *codec, char *spec)
{
    int length = (int)strcspn(codec->spec, "+");

    if (wring_codec_has_suffix(codec, WRING_SUFFIX_WARMUP))
        snprintf(spec, WRING_CODEC_SPEC_MAX, "%.*s+warmup:steps=%.0f", length, codec->spec,
                 codec->suffix_params[WRING_SUFFIX_WARMUP]);
    else
        snprintf(spec, WRING_CODEC_SPEC_MAX, "%.*s", length, codec->spec);
}

/** For way_back: union, with blocks as long as the codec's. */
static inline void wring_union_name(const struct wring_codec *codec, char *spec)
{
    snprintf(spec, WRING_CODEC_SPEC_MAX, "union:block=%" PRIu64, codec->info.unit);
}

#endif
