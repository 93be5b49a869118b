/* SPDX-License-Identifier: Apache-2.0 */
/** The pause of a loop that waits for another core to write something. */
#ifndef WRING_BASE_SPIN_H
#define WRING_BASE_SPIN_H

#if defined(__x86_64__)
/** Look less often: the line that is waited for is left to its writer for longer. */
static inline void wring_spin_pause(void)
{
    __builtin_ia32_pause();
}
#elif defined(__aarch64__)
static inline void wring_spin_pause(void)
{
    __asm__ volatile("yield");
}
#else
static inline void wring_spin_pause(void)
{
}
#endif

#endif
