/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/** Asked by hand: not every compiler's run-time check knows the name. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

static const char *const tier_names[WRING_CPU_TIERS] = {"scalar", "avx2", "avx512", "vbmi2",
                                                        "neon"};

static bool processor_has_tier(enum wring_cpu_tier tier)
{
    switch (tier) {
    case WRING_CPU_SCALAR:
        return true;
#if defined(__x86_64__)
    case WRING_CPU_AVX2: /* the compiler's run-time check includes XCR0, so the OS agrees */
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2") && has_f16c();
    case WRING_CPU_AVX512:
        return processor_has_tier(WRING_CPU_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    case WRING_CPU_VBMI2:
        return processor_has_tier(WRING_CPU_AVX512) && __builtin_cpu_supports("avx512vbmi") &&
               __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("gfni");
#elif defined(__aarch64__)
    case WRING_CPU_NEON:
        return true;
#endif
    default:
        return false;
    }
}

/** The processor does not change, and in a virtual machine each question costs many microseconds.
 */
bool wring_cpu_has(enum wring_cpu_tier tier)
{
    static atomic_uint known; /* a bit for each tier, and one more once all have been asked for */
    unsigned tiers = atomic_load_explicit(&known, memory_order_relaxed);

    if (tiers == 0) {
        tiers = 1u << WRING_CPU_TIERS;
        for (int i = 0; i < WRING_CPU_TIERS; i++)
            tiers |= (unsigned)processor_has_tier((enum wring_cpu_tier)i) << i;
        atomic_store_explicit(&known, tiers, memory_order_relaxed);
    }
    return (unsigned)tier < WRING_CPU_TIERS && (tiers >> tier & 1) != 0;
}

enum wring_cpu_tier wring_cpu_best(void)
{
    for (int tier = WRING_CPU_TIERS - 1; tier > WRING_CPU_SCALAR; tier--)
        if (wring_cpu_has((enum wring_cpu_tier)tier))
            return (enum wring_cpu_tier)tier;
    return WRING_CPU_SCALAR;
}

const char *wring_cpu_tier_name(enum wring_cpu_tier tier)
{
    return tier < WRING_CPU_TIERS ? tier_names[tier] : "unknown";
}

bool wring_cpu_tier_parse(const char *name, enum wring_cpu_tier *out)
{
    if (strcmp(name, "best") == 0) {
        *out = wring_cpu_best();
        return true;
    }
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        if (strcmp(name, tier_names[tier]) == 0) {
            *out = (enum wring_cpu_tier)tier;
            return true;
        }
    return false;
}
