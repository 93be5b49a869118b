/* SPDX-License-Identifier: Apache-2.0 */
/** The processor's abilities, as tiers of kernels. */
#ifndef WRING_BASE_CPU_H
#define WRING_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/** Tiers, each including those before it that belong to its architecture. */
enum wring_cpu_tier {
    WRING_CPU_SCALAR = 0, /* plain C, the reference */
    WRING_CPU_AVX2,       /* AVX2, FMA, F16C, BMI2 */
    WRING_CPU_AVX512,     /* AVX-512 F, BW, DQ, VL, CD */
    WRING_CPU_VBMI2,      /* AVX-512 VBMI, VBMI2, GFNI */
    WRING_CPU_NEON,       /* Arm Advanced SIMD */
    WRING_CPU_TIERS
};

/** The best tier of this processor that the operating system has switched on. Threads: safe. */
enum wring_cpu_tier wring_cpu_best(void);

/** True if this processor runs kernels of the tier. */
bool wring_cpu_has(enum wring_cpu_tier tier);

/** "scalar", "avx2", "avx512", "vbmi2", "neon". */
const char *wring_cpu_tier_name(enum wring_cpu_tier tier);

/** The tier of that name; "best" gives wring_cpu_best(). False if there is no such name. */
bool wring_cpu_tier_parse(const char *name, enum wring_cpu_tier *out);

#endif
