/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/sum.h"

#include "compress/kernels/bits.h"

static float load(const void *run, uint64_t i)
{
    float value;
    memcpy(&value, (const char *)run + i * sizeof(value), sizeof(value));
    return value;
}

static void sum_scalar(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor)
{
    for (uint64_t i = 0; i < n; i++) {
        float total = load(src[0], i);
        for (size_t s = 1; s < n_src; s++)
            total += load(src[s], i);
        dst[i] = wring_canonical(total / divisor); /* x / 1 is x, bit for bit */
    }
}

const struct wring_sum_tier wring_sum_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, sum_scalar},
#ifdef WRING_ARCH_X86
    {{"avx2", WRING_CPU_AVX2}, wring_sum_avx2},
    {{"avx512", WRING_CPU_AVX512}, wring_sum_avx512},
#endif
    {{NULL, 0}, NULL},
};

wring_sum_fn wring_sum_find(enum wring_cpu_tier allowed)
{
    const struct wring_sum_tier *tier =
        wring_kernels_pick(wring_sum_tiers, sizeof(wring_sum_tiers[0]), allowed);
    return tier->sum;
}
