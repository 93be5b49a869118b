/* SPDX-License-Identifier: Apache-2.0 */
/** How far a reduction may be off the true one. */
#ifndef WRING_TESTS_BOUND_H
#define WRING_TESTS_BOUND_H

#include "tests/collective/matrix.h"

/**
 * Check a rank's result against sums, averages, least and greatest of the members' last inputs in
 * extended precision, where the type and the codec promise a bound: finite input, no error
 * feedback.
 *
 * The bound counts, for each contribution and for the sum on its way back, the codec's error (bf16:
 * 2^-8 of the value; int8: half a step of the block's peak / 127), and for each addition, division
 * and rounding half a unit of the precision in which it is done. Integers and the least and
 * greatest are exact.
 */
void wring_matrix_check_bound(const struct wring_matrix_case *c, uint32_t rank,
                              const void *const *inputs, const void *out);

#endif
