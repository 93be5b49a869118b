/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/residual.h"
#include "compress/kernels/vector/noise.h"

#define RUN WRING_NOISE_RUN

INLINE void narrow_run(uint16_t *halves, const float *values, const uint32_t *noise)
{
    for (unsigned at = 0; at < RUN; at += LANES) {
        floats value = load(values + at);
        words upper = (magnitude_of(value) + (words)noise_at(noise, at)) >> 16;
        words sign = (words)value >> 31 << 15;
        upper = smaller(upper, all_words(WRING_RESIDUAL_BF16_TOP));
        store_part(halves + at, lower_shorts(upper | sign));
    }
}

static void widen(float *out, const uint16_t *halves, uint64_t n)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, (floats)(widen_shorts(load_part(halves + i)) << 16));
    if (i < n) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, halves + i, (n - i) * sizeof(*halves));
        store_first(out + i, (floats)(widen_shorts(load_part(rest)) << 16), (unsigned)(n - i));
    }
}

static void narrow(uint16_t *halves, const float *values, uint64_t n, const uint32_t *noise)
{
    uint64_t i = 0;

    for (; i + RUN <= n; i += RUN)
        narrow_run(halves + i, values + i, noise + i / 2);
    if (i < n) {
        float rest[RUN] = {0};
        uint16_t codes[RUN];
        memcpy(rest, values + i, (n - i) * sizeof(*values));
        narrow_run(codes, rest, noise + i / 2);
        memcpy(halves + i, codes, (n - i) * sizeof(*halves));
    }
}

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
    widen,
    narrow,
    unpack,
    pack,
};
