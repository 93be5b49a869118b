/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/bounded.h"
#include "compress/kernels/vector/peak.h"

#define PARTS 4
#define GROUP (PARTS * LANES) /* elements at a time: as many as a vector has bytes */

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

/** Bits 8 · upper and on of each step, as a byte. */
INLINE words bytes_at(const words steps[PARTS], unsigned upper)
{
    words part[PARTS];

    for (unsigned v = 0; v < PARTS; v++) /* with its sign, as packing takes it to have one */
        part[v] = (words)((signed_words)(steps[v] << (24 - 8 * upper)) >> 24);
    return in_order(pack_bytes(part));
}

/** The planes of up to eight bits that stand in bytes. */
INLINE void put_planes(uint8_t *planes, uint64_t plane_bytes, words value, unsigned count,
                       uint64_t live_bytes)
{
    for (unsigned j = 0; j < count; j++) {
        uint64_t bits = byte_signs(value << (7 - j));
        memcpy(planes + j * plane_bytes, &bits, live_bytes);
    }
}

/** @param live_bytes  of a plane; known where this is inlined, but for the last group */
INLINE void pack_group(uint8_t *planes, uint64_t plane_bytes, const words steps[PARTS],
                       unsigned width, uint64_t live_bytes)
{
    put_planes(planes, plane_bytes, bytes_at(steps, 0), width < 8 ? width : 8, live_bytes);
    if (width > 8)
        put_planes(planes + 8 * plane_bytes, plane_bytes, bytes_at(steps, 1), width - 8,
                   live_bytes);
}

static void pack(uint8_t *planes, const int32_t *steps, uint64_t n, unsigned width)
{
    uint64_t bytes = (n + 7) / 8, i = 0;
    words some[PARTS];

    for (; i + GROUP <= n; i += GROUP) {
        for (unsigned v = 0; v < PARTS; v++)
            some[v] = load_words(steps + i + v * LANES);
        pack_group(planes + i / 8, bytes, some, width, GROUP / 8);
    }
    if (i == n)
        return;
    for (unsigned v = 0; v < PARTS; v++)
        some[v] = (words)load_first(steps + i + v * LANES, rest_from(n - i, v * LANES));
    pack_group(planes + i / 8, bytes, some, width, (n - i + 7) / 8);
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

/** Numbers of up to eight bits, as bytes. @param is_signed  the uppermost bit is a sign */
INLINE words take_planes(const uint8_t *planes, uint64_t plane_bytes, unsigned count,
                         uint64_t live_bytes, bool is_signed)
{
    quarters value = {0};

    for (unsigned j = count; j-- > 0;) {
        uint64_t bits = 0;
        memcpy(&bits, planes + j * plane_bytes, live_bytes);
        quarters set = (quarters)bytes_of(bits); /* -1 */
        value = is_signed && j == count - 1 ? set : value + value - set;
    }
    return (words)value;
}

/** @param live_bytes  of a plane, as above */
INLINE void take_steps(words steps[PARTS], const uint8_t *planes, uint64_t plane_bytes,
                       unsigned width, uint64_t live_bytes)
{
    int8_t lower[GROUP], upper[GROUP];

    store_words(lower,
                take_planes(planes, plane_bytes, width < 8 ? width : 8, live_bytes, width <= 8));
    if (width > 8)
        store_words(
            upper, take_planes(planes + 8 * plane_bytes, plane_bytes, width - 8, live_bytes, true));
    for (unsigned v = 0; v < PARTS; v++)
        steps[v] = load_bytes(lower + v * LANES);
    for (unsigned v = 0; v < PARTS && width > 8; v++)
        steps[v] = (steps[v] & 0xFF) | load_bytes(upper + v * LANES) << 8;
}

INLINE void unpack_any(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size,
                       bool add)
{
    uint64_t bytes = (n + 7) / 8, i = 0;
    words steps[PARTS];

    for (; i + GROUP <= n; i += GROUP) {
        take_steps(steps, planes + i / 8, bytes, width, GROUP / 8);
        for (unsigned v = 0; v < PARTS; v++) {
            floats value = floats_of_ints(steps[v]) * all(size);
            float *at = dst + i + v * LANES;
            store(at, add ? load(at) + value : value);
        }
    }
    if (i == n)
        return;
    take_steps(steps, planes + i / 8, bytes, width, (n - i + 7) / 8);
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
