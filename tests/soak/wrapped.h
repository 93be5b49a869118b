/* SPDX-License-Identifier: Apache-2.0 */
/** What the linker puts between the library and libc: allocations that fail, a clock that jumps. */
#ifndef WRING_TESTS_SOAK_WRAPPED_H
#define WRING_TESTS_SOAK_WRAPPED_H

#include <stdint.h>

/** The n-th allocation from now on fails, and no other; 0: none does. */
void wrapped_fail_allocation(uint32_t n);

/** CLOCK_REALTIME is another one every few milliseconds, by up to a day. */
void wrapped_let_clock_jump(uint32_t seed);

#endif
