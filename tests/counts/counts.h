/* SPDX-License-Identifier: Apache-2.0 */
/** Pieces of work whose instructions are counted. One thread at a time. */
#ifndef WRING_TESTS_COUNTS_H
#define WRING_TESTS_COUNTS_H

#include "tests/lib/test.h"

#define COUNTS_TURNS 7 /* of what does not take the same way each time; the least counts */

/** Do a piece of work. Its instructions are counted, in this thread alone. */
void counted(void (*work)(void *arg), void *arg);

/** Say what the last counted() was. The same name may come again: then the least count is it. */
void counts_say(double amount, const char *unit, const char *name);

/** Every codec with kernels of that tier: encode, decode and add. */
void counts_codecs(const char *tier);

/** Puts and an allreduce, both sides of each. */
void counts_moves(void);

#endif
