/* SPDX-License-Identifier: Apache-2.0 */
/** Checks that stand in files of their own. */
#ifndef WRING_TESTS_CHECKS_H
#define WRING_TESTS_CHECKS_H

void check_delta(void);
void check_half(void);
void check_half_every_code(void);
void check_half_rounding(void);
void check_half_in_any_mode(void);
void check_long(void);
void check_momentum(void);
void check_residual(void);
void check_sparse(void);
void check_split(void);
void check_split16(void);
void check_lowrank(void);
void check_rotate(void);
void check_steps(void);
void check_votes(void);
void check_philox(void);
void check_qsgd(void);
void check_qsgd_odds(void);
void check_natural(void);
void check_natural_odds(void);
void check_ints(void);
void check_ints_definition(void);
void check_casts(void);
void check_casts_odds(void);
void check_bounded(void);
void check_bounded_widths(void);
void check_minifloat(void);
void check_minifloat_numbers(void);

#endif
