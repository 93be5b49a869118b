/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/votes.h"
#include "compress/kernels/vector/vector.h"

#define STEP 32 /* elements at a time: a word of bits */
#define PARTS (STEP / LANES)

/** Of magnitudes: the largest, and the largest less one, which of zero is all ones. */
struct extent {
    words most, most_less;
};

/** @return the sign bits */
INLINE uint32_t note_part(struct extent *extent, floats value, words magnitude)
{
    extent->most = larger(extent->most, magnitude);
    extent->most_less = larger(extent->most_less, magnitude - 1);
    return bits_of(negative(value));
}

INLINE uint32_t note_step(struct extent *extent, const float *src)
{
    uint32_t negatives = 0;
    for (unsigned v = 0; v < PARTS; v++) {
        floats value = load(src + v * LANES);
        negatives |= note_part(extent, value, magnitude_of(value)) << v * LANES;
    }
    return negatives;
}

/** The last n elements; what lies behind them counts as 1. */
INLINE uint32_t note_rest(struct extent *extent, const float *src, uint64_t n)
{
    float rest[STEP];

    for (unsigned i = 0; i < STEP; i++)
        rest[i] = 1;
    memcpy(rest, src, n * sizeof(*src));
    return note_step(extent, rest);
}

static unsigned votes(uint8_t *bits, const float *src, uint64_t n)
{
    struct extent extent = {{0}, {0}};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        uint32_t negatives = note_step(&extent, src + i);
        memcpy(bits + i / 8, &negatives, sizeof(negatives));
    }
    if (i < n) {
        uint32_t negatives = note_rest(&extent, src + i, n - i);
        memcpy(bits + i / 8, &negatives, (n - i + 7) / 8);
    }
    return (largest_of(extent.most_less) == UINT32_MAX ? WRING_VOTES_ZERO : 0) |
           (largest_of(extent.most) >= WRING_INF_BITS ? WRING_VOTES_LOST : 0);
}

static void mix(float *out, const float *momentum, const float *src, uint64_t n, float keep,
                float take)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, all(keep) * load(momentum + i) + all(take) * load(src + i));
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        floats before = load_first(momentum + i, live), now = load_first(src + i, live);
        store_first(out + i, all(keep) * before + all(take) * now, live);
    }
}

const struct wring_votes_kernels OF_TIER(wring_votes) = {votes, mix};
