/* SPDX-License-Identifier: Apache-2.0 */
/** What makes an option of a tensor valid, written from the rules and not from the tree. */
#ifndef WRING_TESTS_OPTION_CHECK_H
#define WRING_TESTS_OPTION_CHECK_H

#include "planner/core/model/option.h"

/** The rule that an option breaks, in words; NULL where it breaks none. */
const char *wring_option_fault(const struct wring_option *option, bool summable);

/** Likewise of its communication steps alone, whatever is coded in between. */
const char *wring_option_comm_fault(const struct wring_option *option, bool summable);

#endif
