/* SPDX-License-Identifier: Apache-2.0 */
/** Noise by which codecs round at random: FORMAT.md, "Random numbers". */
#ifndef WRING_COMPRESS_NOISE_H
#define WRING_COMPRESS_NOISE_H

#include "compress/philox.h"

#define WRING_NOISE_WINDOW 1024 /* elements whose noise is drawn at a time */

/** That of some elements which follow each other, for one encode. */
struct wring_noise {
    struct wring_philox_stream stream;
    const struct wring_philox_kernels *kernels;
    uint64_t begin, end; /* elements of the bucket */
    _Alignas(64) uint32_t words[WRING_NOISE_WINDOW / WRING_NOISE_RUN * WRING_NOISE_RUN_WORDS];
};

/** Private to the rank of the context. */
void wring_noise_begin(struct wring_noise *noise, const struct wring_codec *codec,
                       const struct wring_codec_context *context);

/**
 * @param element  of the bucket, a multiple of WRING_NOISE_RUN
 * @param n        from there on, at most WRING_NOISE_WINDOW
 * @param left     the most that will be asked for from there on
 * @return its words, of whole runs, which stay until the next call
 */
const uint32_t *wring_noise_of(struct wring_noise *noise, uint64_t element, uint64_t n,
                               uint64_t left);

#endif
