/* SPDX-License-Identifier: Apache-2.0 */
/** Timing of something beside what it is compared with, for the benchmarks of unit tests. */
#ifndef WRING_TESTS_BESIDE_H
#define WRING_TESTS_BESIDE_H

/**
 * Two calls take turns, so that other load on the machine slows both.
 * @param calls  given arg
 * @param ns     out, the median of each, of the time that the thread had a core
 */
void beside_time(void (*const calls[2])(void *arg), void *arg, double ns[2]);

#endif
