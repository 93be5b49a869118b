/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What libibverbs promises, as far as the provider relies on it. The same program runs over the
 * mock here and over soft-RoCE in the virtual machines: that is what the mock is held against.
 */
#include "tests/lib/test.h"
#include "tests/provider/mock/semantics.h"
#include "tests/provider/mock/semantics_pair.h"

#define CASES_MAX 64

int main(int argc, char **argv)
{
    static const struct wring_test_case *const themes[] = {semantics_data, semantics_failure,
                                                           semantics_notices};
    struct wring_test_case cases[CASES_MAX] = {{0}};
    char reason[256];
    size_t n = 0;
    if (!pair_probe(reason, sizeof(reason)))
        wring_test_skip("verbs: %s", reason);
    for (size_t i = 0; i < sizeof(themes) / sizeof(themes[0]); i++)
        for (const struct wring_test_case *at = themes[i]; at->name != NULL; at++)
            if (n < CASES_MAX - 1)
                cases[n++] = *at;
            else
                CHECK(false, "%s left out", at->name);
    return wring_test_main(argc, argv, cases);
}
