/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/delta.h"

#include <string.h>

/* Words stand at any address: each is copied from there and to it. */

static uint32_t take(const uint16_t *at, uint64_t i)
{
    uint16_t word;
    memcpy(&word, at + i, sizeof(word));
    return word;
}

static uint16_t step_of(uint32_t base, uint32_t now)
{
    uint32_t d = (now - base) & 0xFFFF;
    return (uint16_t)((d << 1 ^ (d >> 15 ? 0xFFFF : 0)) - 1);
}

static uint16_t stepped(uint32_t base, uint16_t step)
{
    uint32_t z = (uint16_t)(step + 1);
    return (uint16_t)(base + (z >> 1 ^ (z & 1 ? 0xFFFF : 0)));
}

static uint32_t compare_scalar(uint64_t *map, uint16_t *steps, uint16_t *places,
                               const uint16_t *base, const uint16_t *now, uint64_t n)
{
    uint32_t found = 0;

    memset(map, 0, WRING_DELTA_MAP * sizeof(*map));
    for (uint64_t i = 0; i < n; i++)
        if (take(base, i) != take(now, i)) {
            map[i / 64] |= UINT64_C(1) << i % 64;
            if (found < WRING_DELTA_FEW)
                places[found] = (uint16_t)i;
            steps[found++] = step_of(take(base, i), take(now, i));
        }
    return found;
}

static void apply_scalar(uint16_t *dst, const uint16_t *base, const uint64_t *map,
                         const uint16_t *steps, uint64_t n)
{
    if (dst != base)
        memcpy(dst, base, n * sizeof(*dst));
    for (uint64_t i = 0; i < n; i++)
        if (map[i / 64] >> i % 64 & 1) {
            uint16_t word = stepped(take(dst, i), *steps++);
            memcpy(dst + i, &word, sizeof(word));
        }
}

static const struct wring_delta_tier_kernels scalar = {compare_scalar, apply_scalar};

const struct wring_delta_tier wring_delta_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
#ifdef WRING_ARCH_X86
    {{"avx2", WRING_CPU_AVX2}, &wring_delta_avx2},
    {{"vbmi2", WRING_CPU_VBMI2}, &wring_delta_vbmi2},
#endif
#ifdef WRING_ARCH_ARM
    {{"neon", WRING_CPU_NEON}, &wring_delta_neon},
#endif
    {{NULL, 0}, NULL},
};
