/* SPDX-License-Identifier: Apache-2.0 */
/** Two doubles side by side, as every processor at hand works on them in one go. */
#ifndef WRING_PLANNER_TWO_DOUBLES_H
#define WRING_PLANNER_TWO_DOUBLES_H

#include <string.h>

typedef double wring_pair __attribute__((vector_size(16)));

/** From memory, and to it, wherever it lies. */
static inline wring_pair wring_pair_load(const double *from)
{
    wring_pair pair;

    memcpy(&pair, from, sizeof(pair));
    return pair;
}

static inline void wring_pair_store(double *to, wring_pair pair)
{
    memcpy(to, &pair, sizeof(pair));
}

#ifdef __SSE2__
#include <emmintrin.h>

/** Each the later of two. */
static inline wring_pair wring_pair_later(wring_pair a, wring_pair b)
{
    return _mm_max_pd(a, b);
}

/** In which places is a above b? Bit 0, bit 1. */
static inline int wring_pair_above(wring_pair a, wring_pair b)
{
    return _mm_movemask_pd(_mm_cmpgt_pd(a, b));
}
#else
static inline wring_pair wring_pair_later(wring_pair a, wring_pair b)
{
    return (wring_pair){a[0] > b[0] ? a[0] : b[0], a[1] > b[1] ? a[1] : b[1]};
}

static inline int wring_pair_above(wring_pair a, wring_pair b)
{
    return (a[0] > b[0]) + 2 * (a[1] > b[1]);
}
#endif

#endif
