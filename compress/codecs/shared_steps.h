/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How codecs of whole steps of a shared scale lay out codes and their sums: FORMAT.md, "sharedint".
 * Steps of 4 bits add up in 8, others in their own width; those whose sums saturate in 16, and go
 * back in their own width. Private to compress/.
 */
#ifndef WRING_CODECS_SHARED_STEPS_H
#define WRING_CODECS_SHARED_STEPS_H

#include "compress/codec.h"
#include "compress/kernels/steps.h"

/* of a codec's parameter, whose value is one of their places, and the default 1 */
#define WRING_SHARED_STEPS_WIDTHS "4|8|16"

struct wring_shared_steps {
    unsigned code, sum, back; /* bits of a step: 4, 8 or 16; of a sum while it is made, and after */
    const struct wring_steps_kernels *kernels;
};

/** @param width  the parameter's value @param tier  highest of kernels */
struct wring_shared_steps wring_shared_steps_make(double width, bool saturates,
                                                  enum wring_cpu_tier tier);

/** The bytes of n steps, of a code or a sum. */
static inline size_t wring_shared_steps_bytes(unsigned bits, uint64_t n)
{
    return bits == 4 ? n / 2 + n % 2 : n * (bits / 8);
}

/** The largest step of a rank: the sum of all ranks' fits. */
uint32_t wring_shared_steps_most(const struct wring_shared_steps *steps, uint32_t ranks);

/** The most ranks of which that is 1 at least. */
uint32_t wring_shared_steps_most_ranks(const struct wring_shared_steps *steps);

/** The bits of a step that goes in a context's phase: of a code, or of a sum. */
unsigned wring_shared_steps_bits(const struct wring_shared_steps *steps, uint32_t phase);

/** Kernels of steps of so many bits. */
const struct wring_steps_width *wring_shared_steps_width(const struct wring_shared_steps *steps,
                                                         unsigned bits);

/**
 * sum += code, both of n steps.
 * Errors: WRING_ERR_FRAME (a length that is not that of a code; a sum that does not fit).
 */
enum wring_status wring_shared_steps_add(const struct wring_shared_steps *steps, void *sum,
                                         const void *code, size_t code_bytes, uint64_t n);

/** Make of a sum of n steps what goes back. @param cut  grows by how many are cut off
 *  @return its bytes */
size_t wring_shared_steps_end(const struct wring_shared_steps *steps, void *sum, uint64_t n,
                              uint64_t *cut);

#endif
