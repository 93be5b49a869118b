/* SPDX-License-Identifier: Apache-2.0 */
/** A floating-point mode in which no result of the library's would be right. */
#ifndef WRING_TESTS_ODD_MODE_H
#define WRING_TESTS_ODD_MODE_H

#include <stdbool.h>

#include "base/fpenv.h"

#if defined(__x86_64__)
#define WRING_TEST_ODD_MODE (WRING_MXCSR_DEFAULT | 0x8040u | 0x4000u)

/** This thread's, without what happened so far. */
static inline uint64_t wring_test_mode(void)
{
    return _mm_getcsr() & ~WRING_MXCSR_FLAGS;
}

/** Denormals are flushed, and rounding goes up: until wring_fp_enter(). */
static inline void wring_test_odd_mode(void)
{
    _mm_setcsr(WRING_TEST_ODD_MODE);
}
#else
#define WRING_TEST_ODD_MODE (1u << 24 | 1u << 22)

static inline uint64_t wring_test_mode(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void wring_test_odd_mode(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)WRING_TEST_ODD_MODE));
}
#endif

#endif
