/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Declarations that all kernels share. Included by files built for one instruction set each, so it
 * holds declarations and macros only: an inline function here could be emitted with instructions
 * that the processor at hand lacks.
 *
 * A table of kernels lists its tiers from the scalar reference upward; each entry begins with a
 * struct wring_kernel_tier, and an entry without a name ends the table. Tiers agree in every bit,
 * but for the payload of a NaN that an adding kernel meets: the kernel that ends a sum makes that
 * one NaN (reduce.h). Kernels run in the floating-point mode of base/fpenv.h and take float32 at
 * any alignment of 4 or, where they take `void *`, at any address.
 */
#ifndef WRING_KERNELS_H
#define WRING_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define WRING_NAN_BITS 0x7FC00000u /* the one NaN that decoders and reductions write */
#define WRING_INF_BITS 0x7F800000u /* magnitudes from here on are not finite */
#define WRING_ABS_BITS 0x7FFFFFFFu
#define WRING_SIGN_BITS 0x80000000u

struct wring_kernel_tier {
    const char *name;
    enum wring_cpu_tier tier;
};

/** Of kernels that are written once in vectors (vector/): their declarations, and their entries. */
#define WRING_VECTOR_TIERS_DECLARED(type, kernels) \
    extern const type kernels##_avx2;              \
    extern const type kernels##_avx512;            \
    extern const type kernels##_neon;

#if defined(WRING_ARCH_X86)
#define WRING_VECTOR_TIERS(kernels) \
    {{"avx2", WRING_CPU_AVX2}, &kernels##_avx2}, {{"avx512", WRING_CPU_AVX512}, &kernels##_avx512},
#elif defined(WRING_ARCH_ARM)
#define WRING_VECTOR_TIERS(kernels) {{"neon", WRING_CPU_NEON}, &kernels##_neon},
#else
#define WRING_VECTOR_TIERS(kernels)
#endif

/** The highest entry of a table that `allowed` and this processor admit. Never NULL. */
const void *wring_kernels_pick(const void *tiers, size_t entry_bytes, enum wring_cpu_tier allowed);

#endif
