/* SPDX-License-Identifier: Apache-2.0 */
/** Two doubles side by side, as every processor at hand works on them in one go. */
#ifndef WRING_PLANNER_TWO_DOUBLES_H
#define WRING_PLANNER_TWO_DOUBLES_H

typedef double wring_pair __attribute__((vector_size(16)));

#ifdef __SSE2__
#include <emmintrin.h>

/** Each the later of two. */
static inline wring_pair wring_pair_later(wring_pair a, wring_pair b)
{
    return _mm_max_pd(a, b);
}
#else
static inline wring_pair wring_pair_later(wring_pair a, wring_pair b)
{
    return (wring_pair){a[0] > b[0] ? a[0] : b[0], a[1] > b[1] ? a[1] : b[1]};
}
#endif

#endif
