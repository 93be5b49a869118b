/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a program must give, computed in one thread from what compress/FORMAT.md and the public
 * header say: whole spans at once, scalar codecs, sums element by element. It shares nothing with
 * the machinery under test but the codecs, which have references of their own.
 */
#ifndef WRING_TESTS_RANDOM_REFERENCE_H
#define WRING_TESTS_RANDOM_REFERENCE_H

#include "tests/random/results.h"

/**
 * Compare all results that ranks had with WRING_OK; a difference is a failed check that names item,
 * rank and element.
 * @return how many results were compared
 */
uint32_t reference_check(const struct program *p, const struct results *results);

#endif
