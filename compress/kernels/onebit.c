/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/onebit.h"

#include "compress/kernels/bits.h"

static float fold(float lanes[WRING_ONEBIT_LANES])
{
    for (unsigned half = WRING_ONEBIT_LANES / 2; half > 0; half /= 2)
        for (unsigned j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

static float signs_scalar(uint8_t *bits, const float *src, const float *residual, uint64_t n)
{
    float lanes[WRING_ONEBIT_LANES] = {0};

    memset(bits, 0, (n + 7) / 8);
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        bits[i / 8] |= (uint8_t)((wring_bits_of(value) >> 31) << i % 8);
        lanes[i % WRING_ONEBIT_LANES] += wring_float_of(wring_magnitude(value));
    }
    return fold(lanes);
}

static void signs_split_scalar(uint8_t *bits, const float *src, const float *residual, uint64_t n,
                               struct wring_onebit_split *out)
{
    float lanes[2][WRING_ONEBIT_LANES] = {0};
    uint64_t negatives = 0;

    memset(bits, 0, (n + 7) / 8);
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        uint32_t negative = wring_bits_of(value) >> 31;
        bits[i / 8] |= (uint8_t)(negative << i % 8);
        lanes[negative][i % WRING_ONEBIT_LANES] += wring_float_of(wring_magnitude(value));
        negatives += negative;
    }
    *out = (struct wring_onebit_split){fold(lanes[0]), fold(lanes[1]), negatives};
}

static void keep_scalar(float *residual, const float *src, uint64_t n, float positive,
                        float negative)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = src[i] + residual[i];
        residual[i] = value - (wring_bits_of(value) >> 31 ? negative : positive);
    }
}

static void spread_scalar(float *dst, const uint8_t *bits, uint64_t n, float positive,
                          float negative)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = bits[i / 8] >> i % 8 & 1 ? negative : positive;
}

static void spread_add_scalar(float *dst, const uint8_t *bits, uint64_t n, float positive,
                              float negative)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = dst[i] + (bits[i / 8] >> i % 8 & 1 ? negative : positive);
}

static const struct wring_onebit_kernels scalar = {signs_scalar, signs_split_scalar, keep_scalar,
                                                   spread_scalar, spread_add_scalar};

const struct wring_onebit_tier wring_onebit_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_onebit){{NULL, 0}, NULL},
};
