/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/residual.h"

#include "compress/kernels/bits.h"

static void widen_scalar(float *out, const uint16_t *halves, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = wring_float_of((uint32_t)halves[i] << 16);
}

static void narrow_scalar(uint16_t *halves, const float *values, uint64_t n, const uint32_t *noise)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t upper = (wring_magnitude(values[i]) + wring_noise(noise, i)) >> 16;
        upper = upper < WRING_RESIDUAL_BF16_TOP ? upper : WRING_RESIDUAL_BF16_TOP;
        halves[i] = (uint16_t)(upper | wring_bits_of(values[i]) >> 31 << 15);
    }
}

static const struct wring_residual_kernels scalar = {
    widen_scalar,
    narrow_scalar,
};

const struct wring_residual_tier wring_residual_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
#ifdef WRING_ARCH_X86
    {{"avx2", WRING_CPU_AVX2}, &wring_residual_avx2},
    {{"avx512", WRING_CPU_AVX512}, &wring_residual_avx512},
#endif
    {{NULL, 0}, NULL},
};
