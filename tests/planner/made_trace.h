/* SPDX-License-Identifier: Apache-2.0 */
/** Traces made in memory, for tests of the model. */
#ifndef WRING_TESTS_MADE_TRACE_H
#define WRING_TESTS_MADE_TRACE_H

#include "planner/core/files/tensor_trace.h"

#define WRING_MADE_TENSORS_MAX 16

struct wring_made_trace {
    struct wring_tensor_trace trace; /* points into what follows: do not copy */
    struct wring_tensor tensors[WRING_MADE_TENSORS_MAX];
    char names[WRING_MADE_TENSORS_MAX][16];
};

/** @param elems, ready_us  in, [n], n up to WRING_MADE_TENSORS_MAX */
void wring_made_trace(uint32_t n, const uint64_t *elems, const double *ready_us,
                      struct wring_made_trace *made);

/** Sizes from a few elements to millions, ready one after another. */
void wring_made_random_trace(uint32_t n, uint32_t *random, struct wring_made_trace *made);

#endif
