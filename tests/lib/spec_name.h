/* SPDX-License-Identifier: Apache-2.0 */
/** For lists of specs that have to name every codec. */
#ifndef WRING_TESTS_SPEC_NAME_H
#define WRING_TESTS_SPEC_NAME_H

#include <stdbool.h>
#include <string.h>

/** Does the spec begin with that codec, and not with one whose name is longer? */
static inline bool wring_test_spec_is_of(const char *spec, const char *name)
{
    size_t n = strcspn(spec, ":/+>");
    return n == strlen(name) && strncmp(spec, name, n) == 0;
}

#endif
