/* SPDX-License-Identifier: Apache-2.0 */
/** Numbers that depend on nothing but a key and a counter, so that all ranks and runs agree. */
#ifndef WRING_DEMO_RANDOM_H
#define WRING_DEMO_RANDOM_H

#include <stdint.h>

/** SplitMix64's output function (Steele, Lea, Flood 2014) at a counter. */
static inline uint64_t demo_random(uint64_t key, uint64_t counter)
{
    uint64_t z = key + (counter + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/** Uniform in [0, 1). */
static inline double demo_uniform(uint64_t key, uint64_t counter)
{
    return (double)(demo_random(key, counter) >> 11) * 0x1p-53;
}

#endif
