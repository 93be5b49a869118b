/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The floating-point mode of arithmetic that every rank must do alike: round to nearest even,
 * denormals kept, no traps, whatever the application has set for its own threads.
 */
#ifndef WRING_BASE_FPENV_H
#define WRING_BASE_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#define WRING_MXCSR_DEFAULT 0x1F80u /* all exceptions masked, round to nearest, no FTZ, no DAZ */
#define WRING_MXCSR_FLAGS 0x3Fu     /* what happened so far: no part of the mode */
#endif

/** Set the library's mode for this thread; returns what wring_fp_leave() puts back. */
static inline uint64_t wring_fp_enter(void)
{
#if defined(__x86_64__)
    uint32_t saved = _mm_getcsr();
    if ((saved & ~WRING_MXCSR_FLAGS) != WRING_MXCSR_DEFAULT)
        _mm_setcsr(WRING_MXCSR_DEFAULT);
    return saved;
#elif defined(__aarch64__)
    uint64_t saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return saved;
#else
#error "wring needs to know how this architecture sets its floating-point mode"
#endif
}

static inline void wring_fp_leave(uint64_t saved)
{
#if defined(__x86_64__)
    if (_mm_getcsr() != (uint32_t)saved) /* to write it takes longer than a small sum */
        _mm_setcsr((uint32_t)saved);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(saved));
#endif
}

#endif
