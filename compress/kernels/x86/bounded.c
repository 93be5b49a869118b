/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/bounded.h"
#include "compress/kernels/x86/peak.h"

#define WORD 32 /* elements of which a plane has a word of bits */
#define PARTS (WORD / LANES)

typedef int32_t signed_words __attribute__((vector_size(VECTOR_BYTES)));

/** Without the sign: the bits that a width has to have beside one. */
INLINE words folded(words steps)
{
    return steps ^ (words)((signed_words)steps >> 31);
}

/** What was found in each lane so far. */
struct found {
    words peak, folded, any;
};

INLINE struct found quantise_vector(int32_t *steps, floats value, float inverse, unsigned live,
                                    struct found found)
{
    words step = round_to_ints(value * all(inverse));

    store_first(steps, (floats)step, live);
    return (struct found){larger(found.peak, magnitude_of(value)), found.folded | folded(step),
                          found.any | step};
}

INLINE struct wring_bounded_found quantise_any(int32_t *steps, const float *src,
                                               const float *residual, uint64_t n, float inverse)
{
    struct found found = {{0}, {0}, {0}};
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        floats value = fed(src, residual, i);
        words step = round_to_ints(value * all(inverse));
        store_words(steps + i, step);
        found.peak = larger(found.peak, magnitude_of(value));
        found.folded |= folded(step);
        found.any |= step;
    }
    if (i < n) { /* zeros behind them have step 0 */
        unsigned live = rest_from(n - i, 0);
        found = quantise_vector(steps + i, fed_first(src, residual, i, live), inverse, live, found);
    }
    uint32_t bits = largest_of(found.folded);
    uint32_t width = bits != 0 ? 33 - (uint32_t)__builtin_clz(bits) : largest_of(found.any) != 0;
    return (struct wring_bounded_found){largest_of(found.peak), width};
}

static struct wring_bounded_found quantise(int32_t *steps, const float *src, const float *residual,
                                           uint64_t n, float inverse)
{
    return residual == NULL ? quantise_any(steps, src, NULL, n, inverse)
                            : quantise_any(steps, src, residual, n, inverse);
}

/** Those that do not fit. */
INLINE lanes large_ones(words steps, unsigned width)
{
    const words none = {0};
    if (width == 0)
        return either(above(steps, none), above(none, steps));
    return above(folded(steps) >> (width - 1), none);
}

static uint64_t mark(uint64_t *map, const int32_t *steps, uint64_t n, unsigned width)
{
    uint64_t count = 0, i = 0;

    for (; i + 64 <= n; i += 64) {
        lanes large[64 / LANES];
        for (unsigned v = 0; v < 64 / LANES; v++)
            large[v] = large_ones(load_words(steps + i + v * LANES), width);
        uint64_t bits = bits_of_64(large);
        map[i / 64] = bits;
        count += (uint64_t)__builtin_popcountll(bits);
    }
    if (i < n) {
        uint64_t bits = 0;
        for (uint64_t from = i; i < n; i += LANES)
            bits |= (uint64_t)bits_of(
                        large_ones((words)load_first(steps + i, rest_from(n - i, 0)), width))
                    << (i - from);
        map[(n - 1) / 64] = bits;
        count += (uint64_t)__builtin_popcountll(bits);
    }
    return count;
}

/** Bit j of a word of steps. */
INLINE uint32_t bits_at(const words steps[PARTS], unsigned j)
{
    uint32_t bits = 0;
    for (unsigned v = 0; v < PARTS; v++)
        bits |= bits_of(negative((floats)(steps[v] << (31 - j)))) << v * LANES;
    return bits;
}

static void pack(uint8_t *planes, const int32_t *steps, uint64_t n, unsigned width)
{
    uint64_t bytes = (n + 7) / 8, i = 0;
    words some[PARTS];

    for (; i + WORD <= n; i += WORD) {
        for (unsigned v = 0; v < PARTS; v++)
            some[v] = load_words(steps + i + v * LANES);
        for (unsigned j = 0; j < width; j++) {
            uint32_t bits = bits_at(some, j);
            memcpy(planes + j * bytes + i / 8, &bits, sizeof(bits));
        }
    }
    if (i == n)
        return;
    for (unsigned v = 0; v < PARTS; v++)
        some[v] = (words)load_first(steps + i + v * LANES, rest_from(n - i, v * LANES));
    for (unsigned j = 0; j < width; j++) {
        uint32_t bits = bits_at(some, j);
        memcpy(planes + j * bytes + i / 8, &bits, (n - i + 7) / 8);
    }
}

static void keep(float *residual, const float *src, const int32_t *steps, uint64_t n, float size)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(residual + i, load(src + i) + load(residual + i) -
                                floats_of_ints(load_words(steps + i)) * all(size));
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        floats decoded = floats_of_ints((words)load_first(steps + i, live)) * all(size);
        store_first(residual + i, fed_first(src, residual, i, live) - decoded, live);
    }
}

/** Steps of which a plane has `live` bits at `at`. */
INLINE void take_steps(words steps[PARTS], const uint8_t *at, uint64_t plane_bytes, uint64_t live,
                       unsigned width)
{
    for (unsigned v = 0; v < PARTS; v++)
        steps[v] = (words){0};
    for (unsigned j = width; j-- > 0;) {
        uint32_t bits = 0;
        memcpy(&bits, at + j * plane_bytes, live == WORD ? sizeof(bits) : (live + 7) / 8);
        for (unsigned v = 0; v < PARTS; v++) {
            lanes set = whole_lanes(lanes_of(bits, v * LANES));
            steps[v] = count_where(set, steps[v] + steps[v]);
            if (j == width - 1) /* the sign's: -1 instead of 1 */
                steps[v] = (words){0} - steps[v];
        }
    }
}

INLINE void unpack_any(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size,
                       bool add)
{
    uint64_t bytes = (n + 7) / 8, i = 0;
    words steps[PARTS];

    for (; i + WORD <= n; i += WORD) {
        take_steps(steps, planes + i / 8, bytes, WORD, width);
        for (unsigned v = 0; v < PARTS; v++) {
            floats value = floats_of_ints(steps[v]) * all(size);
            float *at = dst + i + v * LANES;
            store(at, add ? load(at) + value : value);
        }
    }
    if (i == n)
        return;
    take_steps(steps, planes + i / 8, bytes, n - i, width);
    for (unsigned v = 0; v < PARTS; v++) {
        floats value = floats_of_ints(steps[v]) * all(size);
        float *at = dst + i + v * LANES;
        unsigned live = rest_from(n - i, v * LANES);
        store_first(at, add ? load_first(at, live) + value : value, live);
    }
}

static void unpack(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size)
{
    unpack_any(dst, planes, n, width, size, false);
}

static void unpack_add(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size)
{
    unpack_any(dst, planes, n, width, size, true);
}

const struct wring_bounded_kernels OF_TIER(wring_bounded) = {
    quantise, mark, pack, keep, unpack, unpack_add,
};
