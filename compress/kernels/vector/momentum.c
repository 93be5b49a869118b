/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/momentum.h"
#include "compress/kernels/vector/vector.h"

#define LARGEST (WRING_INF_BITS - 1)

INLINE floats within_range(floats value)
{
    words sign = (words)value & ~all_words(WRING_ABS_BITS);
    return (floats)(smaller(magnitude_of(value), all_words(LARGEST)) | sign);
}

INLINE floats advanced(floats momentum, floats src, floats beta)
{
    return within_range(beta * momentum + src);
}

INLINE floats ahead(floats momentum, floats src, floats beta)
{
    return within_range(beta * momentum + beta * src + src);
}

INLINE floats back(floats momentum, floats src, floats beta)
{
    (void)beta;
    return within_range(momentum - src);
}

INLINE void each(float *momentum, const float *src, uint64_t n, float beta,
                 floats (*next)(floats, floats, floats))
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(momentum + i, next(load(momentum + i), load(src + i), all(beta)));
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        floats rest = next(load_first(momentum + i, live), load_first(src + i, live), all(beta));
        store_first(momentum + i, rest, live);
    }
}

static void advance(float *momentum, const float *src, uint64_t n, float beta)
{
    each(momentum, src, n, beta, advanced);
}

static void look_ahead(float *momentum, const float *src, uint64_t n, float beta)
{
    each(momentum, src, n, beta, ahead);
}

static void step_back(float *momentum, const float *src, uint64_t n)
{
    each(momentum, src, n, 0, back);
}

const struct wring_momentum_kernels OF_TIER(wring_momentum) = {
    advance,
    look_ahead,
    step_back,
};
