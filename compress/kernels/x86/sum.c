/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/sum.h"
#include "compress/kernels/x86/vector.h"

#define STEP (4 * LANES) /* elements at a time */

/** A total is multiplied by `factor` or, if that is 0, divided by `divisor`: the same bits,
 *  where both are exact. */
struct scale {
    float factor, divisor;
};

static struct scale scale_of(float divisor)
{
    uint32_t bits;
    memcpy(&bits, &divisor, sizeof(bits));
    bool is_power_of_two = (bits & 0x7FFFFF) == 0;
    if (divisor == 1)
        return (struct scale){0, 1};
    return (struct scale){is_power_of_two ? 1 / divisor : 0, divisor};
}

INLINE floats finish(floats total, struct scale scale)
{
    if (scale.factor != 0)
        total = total * all(scale.factor);
    else if (scale.divisor != 1)
        total = total / all(scale.divisor);
    return choose(unordered(total), (floats)all_words(WRING_NAN_BITS), total);
}

static const void *at(const void *run, uint64_t i)
{
    return (const char *)run + i * sizeof(float);
}

static void sum_step(float *dst, const void *const *src, size_t n_src, uint64_t i,
                     struct scale scale)
{
    floats total[4];
    for (unsigned v = 0; v < 4; v++)
        total[v] = load(at(src[0], i + v * LANES));
    for (size_t s = 1; s < n_src; s++)
        for (unsigned v = 0; v < 4; v++)
            total[v] += load(at(src[s], i + v * LANES));
    for (unsigned v = 0; v < 4; v++)
        store(dst + i + v * LANES, finish(total[v], scale));
}

void OF_TIER(wring_sum)(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor)
{
    struct scale scale = scale_of(divisor);
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        sum_step(dst, src, n_src, i, scale);
    for (; i < n; i += LANES) {
        unsigned live = rest_from(n - i, 0);
        floats total = load_first(at(src[0], i), live);
        for (size_t s = 1; s < n_src; s++)
            total += load_first(at(src[s], i), live);
        store_first(dst + i, finish(total, scale), live);
    }
}
