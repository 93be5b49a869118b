/* SPDX-License-Identifier: Apache-2.0 */
/** The cases of test_verbs_semantics by theme; {0} ends. */
#ifndef WRING_TESTS_VERBS_SEMANTICS_H
#define WRING_TESTS_VERBS_SEMANTICS_H

#include "tests/lib/test.h"

extern const struct wring_test_case semantics_data[];
extern const struct wring_test_case semantics_failure[];
extern const struct wring_test_case semantics_notices[];

#endif
