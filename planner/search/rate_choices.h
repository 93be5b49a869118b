/* SPDX-License-Identifier: Apache-2.0 */
/** Parts of wring_rates_init(): who may take what, and what is worth a thought. */
#ifndef WRING_PLANNER_RATE_CHOICES_H
#define WRING_PLANNER_RATE_CHOICES_H

#include "planner/search/rates.h"

/** Errors: WRING_ERR_INVALID (a tensor may take no option), WRING_ERR_NO_MEMORY. */
enum wring_status wring_rates_find_barred(struct wring_rates *rates);

/** After the former. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_rates_find_choices(struct wring_rates *rates);

#endif
