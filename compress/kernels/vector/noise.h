/* SPDX-License-Identifier: Apache-2.0 */
/** The noise of vectors, for codecs that round at random. */
#ifndef WRING_KERNELS_VECTOR_NOISE_H
#define WRING_KERNELS_VECTOR_NOISE_H

#include "compress/kernels/philox.h"
#include "compress/kernels/vector/vector.h"

/* elements at a time of those who round four vectors at once: whole runs of noise */
#define STEP_OF_RUNS (4 * LANES < WRING_NOISE_RUN ? WRING_NOISE_RUN : 4 * LANES)

typedef int32_t ints __attribute__((vector_size(VECTOR_BYTES)));

/** Of the vector that begins with element `at`. */
INLINE ints noise_at(const uint32_t *noise, unsigned at)
{
    unsigned in_run = at % WRING_NOISE_RUN, word = in_run % WRING_NOISE_RUN_WORDS;
    words both = load_words(noise + at / WRING_NOISE_RUN * WRING_NOISE_RUN_WORDS + word);
    return (ints)(in_run < WRING_NOISE_RUN_WORDS ? both & 0xFFFF : both >> 16);
}

#endif
