/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/philox.h"
#include "compress/kernels/vector/vector.h"

#define WORDS WRING_PHILOX_WORDS
#define ROUNDS WRING_PHILOX_ROUNDS
#define BLOCKS (VECTOR_BYTES / 8)    /* of a group: each has 64 bits of four vectors */
#define GROUPS (BLOCKS == 4 ? 2 : 4) /* at a time, so that none waits for its own products */
#define STEP (GROUPS * BLOCKS)

/** Counters, and words in the end. The lower half of each 64 bits counts, the upper is rubbish. */
struct group {
    quads word[WORDS];
};

struct keys {
    quads round[ROUNDS][2];
};

INLINE struct keys keys_of(const struct wring_philox_stream *stream)
{
    uint32_t key[2] = {stream->key[0], stream->key[1]};
    struct keys keys;

    for (unsigned round = 0; round < ROUNDS; round++) {
        keys.round[round][0] = (quads)all_words(key[0]);
        keys.round[round][1] = (quads)all_words(key[1]);
        key[0] += WRING_PHILOX_WEYL_0;
        key[1] += WRING_PHILOX_WEYL_1;
    }
    return keys;
}

/** In such an order that put_group() finds them in order. */
INLINE struct group counters(uint64_t block, uint64_t step)
{
#ifdef __AVX512F__
    const quads order = {0, 4, 1, 5, 2, 6, 3, 7};
#elif defined(__AVX2__)
    const quads order = {0, 2, 1, 3};
#else
    const quads order = {0, 1};
#endif
    quads blocks = order + block, steps = (quads){0} + step;
    return (struct group){{blocks, blocks >> 32, steps, steps >> 32}};
}

INLINE struct group turn(struct group c, const quads key[2])
{
    quads a = products(c.word[0], (quads)all_words(WRING_PHILOX_FACTOR_0));
    quads b = products(c.word[2], (quads)all_words(WRING_PHILOX_FACTOR_1));
    return (struct group){{b >> 32 ^ c.word[1] ^ key[0], b, a >> 32 ^ c.word[3] ^ key[1], a}};
}

INLINE quads pair(quads low, quads high)
{
    return (low & UINT32_MAX) | high << 32;
}

/** Each store takes every other block: those that the order of counters put there. */
INLINE void put_group(uint32_t *out, struct group c)
{
    quads low = pair(c.word[0], c.word[1]), high = pair(c.word[2], c.word[3]);
    store_words(out, lower_quads(low, high));
    store_words(out + LANES, upper_quads(low, high));
}

/** @param groups  known where this is inlined */
INLINE void put_groups(uint32_t *out, const struct keys *keys, uint64_t block, uint64_t step,
                       unsigned groups)
{
    struct group c[GROUPS];

    for (unsigned g = 0; g < groups; g++)
        c[g] = counters(block + g * BLOCKS, step);
#pragma GCC unroll 10 /* words change places from one round to the next: without moves then */
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned g = 0; g < groups; g++)
            c[g] = turn(c[g], keys->round[round]);
    for (unsigned g = 0; g < groups; g++)
        put_group(out + (uint64_t)g * BLOCKS * WORDS, c[g]);
}

static void fill(uint32_t *out, const struct wring_philox_stream *stream, uint64_t block,
                 uint64_t blocks)
{
    const struct keys keys = keys_of(stream);
    uint32_t rest[STEP * WORDS];

    for (; blocks >= STEP; blocks -= STEP, block += STEP, out += (uint64_t)STEP * WORDS)
        put_groups(out, &keys, block, stream->step, GROUPS);
    if (blocks > 0) {
        if (blocks <= STEP / 2)
            put_groups(rest, &keys, block, stream->step, GROUPS / 2);
        else
            put_groups(rest, &keys, block, stream->step, GROUPS);
        memcpy(out, rest, blocks * WORDS * sizeof(*out));
    }
}

const struct wring_philox_kernels OF_TIER(wring_philox) = {fill};
