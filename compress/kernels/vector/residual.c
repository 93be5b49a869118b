/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/residual.h"
#include "compress/kernels/vector/noise.h"

#define RUN WRING_NOISE_RUN

/** 2^(exponent - 127) */
INLINE floats power(uint32_t exponent)
{
    return (floats)all_words(exponent << 23);
}

INLINE void unpack_block(float *out, const unsigned char *block)
{
    floats step = block[0] != 0 ? power(block[0] - 6u) : (floats){0};

    for (unsigned at = 0; at < RUN; at += LANES)
        store(out + at, floats_of_ints(load_bytes((const int8_t *)block + 1 + at)) * step);
}

INLINE void pack_block(unsigned char *block, const float *values, const uint32_t *noise)
{
    words peak = {0};

    for (unsigned at = 0; at < RUN; at += LANES)
        peak = larger(peak, magnitude_of(load(values + at)));
    uint32_t exponent = wring_residual_exponent(largest_of(peak));
    floats parts = exponent != 0 ? power(276 - exponent) : (floats){0};
    block[0] = (unsigned char)exponent;
    for (unsigned at = 0; at < RUN; at += LANES) {
        floats value = load(values + at);
        words negative = (words)((ints)value >> 31);
        words steps = round_to_ints((floats)magnitude_of(value) * parts);
        steps =
            smaller((steps + (words)noise_at(noise, at)) >> 16, all_words(WRING_RESIDUAL_INT8_TOP));
        steps = (steps ^ negative) - negative;
        store_lane_bytes(block + 1 + at, exponent != 0 ? steps & 0xFF : (words){0});
    }
}

static void unpack(float *out, const unsigned char *blocks, uint64_t n)
{
    uint64_t i = 0;

    for (; i + RUN <= n; i += RUN, blocks += WRING_RESIDUAL_BLOCK_BYTES)
        unpack_block(out + i, blocks);
    if (i < n) {
        float rest[RUN];
        unsigned char block[WRING_RESIDUAL_BLOCK_BYTES] = {0};
        memcpy(block, blocks, 1 + (n - i));
        unpack_block(rest, block);
        memcpy(out + i, rest, (n - i) * sizeof(*out));
    }
}

static void pack(unsigned char *blocks, const float *values, uint64_t n, const uint32_t *noise)
{
    uint64_t i = 0;

    for (; i + RUN <= n; i += RUN, blocks += WRING_RESIDUAL_BLOCK_BYTES)
        pack_block(blocks, values + i, noise + i / 2);
    if (i < n) {
        float rest[RUN] = {0};
        unsigned char block[WRING_RESIDUAL_BLOCK_BYTES];
        memcpy(rest, values + i, (n - i) * sizeof(*values));
        pack_block(block, rest, noise + i / 2);
        memcpy(blocks, block, 1 + (n - i));
    }
}

const struct wring_residual_kernels OF_TIER(wring_residual) = {
    unpack,
    pack,
};
