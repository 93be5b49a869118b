/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A full fence for two sides of which one passes often and the other rarely: the frequent one keeps
 * its compiler from reordering and pays nothing else, the rare one has the kernel fence all cores
 * that the others run on (membarrier(2), expedited, across processes).
 *
 *     often:   store X; wring_fence_light();  load Y
 *     rarely:  store Y; wring_fence_heavy();  load X
 *
 * At least one of the two sees what the other has stored. Threads: safe.
 */
#ifndef WRING_BASE_FENCE_H
#define WRING_BASE_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

/**
 * Ask that heavy fences of any process reach this one; again costs little.
 * @return false: the kernel does not have it, or not for us. Then both sides need a fence proper.
 */
bool wring_fence_register(void);

static inline void wring_fence_light(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/** For both sides, where heavy fences do not reach. gcc's
 *  thread sanitizer refuses that of the language. */
static inline void wring_fence_full(void)
{
#if defined(__x86_64__)
    __asm__ volatile("mfence" : : : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb ish" : : : "memory");
#else
#error "wring needs to know how this architecture orders a store before a load"
#endif
}

/** Takes some us. Only for those who can register, and of those whose fences are light. */
void wring_fence_heavy(void);

#endif
