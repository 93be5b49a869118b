/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/residual.h"

#include <math.h>
#include <string.h>

#include "compress/kernels/bits.h"

/** 2^(exponent - 127) */
static float power(uint32_t exponent)
{
    return wring_float_of(exponent << 23);
}

static void unpack_scalar(float *out, const unsigned char *blocks, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *block = blocks + i / WRING_RESIDUAL_BLOCK * WRING_RESIDUAL_BLOCK_BYTES;
        int8_t steps = (int8_t)block[1 + i % WRING_RESIDUAL_BLOCK];
        out[i] = block[0] != 0 ? (float)steps * power(block[0] - 6u) : 0;
    }
}

static void pack_block(unsigned char *block, const float *values, uint64_t n, const uint32_t *noise)
{
    uint32_t exponent = wring_residual_exponent(wring_peak(values, NULL, n));

    memset(block, 0, 1 + n);
    block[0] = (unsigned char)exponent;
    for (uint64_t i = 0; exponent != 0 && i < n; i++) {
        float parts = wring_float_of(wring_magnitude(values[i])) * power(276 - exponent);
        uint32_t steps = ((uint32_t)lrintf(parts) + wring_noise(noise, i)) >> 16;
        int size = steps < WRING_RESIDUAL_INT8_TOP ? (int)steps : WRING_RESIDUAL_INT8_TOP;
        block[1 + i] = (unsigned char)(wring_bits_of(values[i]) >> 31 ? -size : size);
    }
}

static void pack_scalar(unsigned char *blocks, const float *values, uint64_t n,
                        const uint32_t *noise)
{
    for (uint64_t i = 0; i < n; i += WRING_RESIDUAL_BLOCK, blocks += WRING_RESIDUAL_BLOCK_BYTES)
        pack_block(blocks, values + i, n - i < WRING_RESIDUAL_BLOCK ? n - i : WRING_RESIDUAL_BLOCK,
                   noise + i / 2);
}

static const struct wring_residual_kernels scalar = {
    unpack_scalar,
    pack_scalar,
};

const struct wring_residual_tier wring_residual_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_residual){{NULL, 0}, NULL},
};
