/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/suite.h"

#include "tests/provider/ends.h"

#define CASES_MAX 64

int wring_provider_suite(int argc, char **argv, const struct wring_provider_driver *which)
{
    static const struct wring_test_case *const themes[] = {
        suite_cases_connect, suite_cases_put,   suite_cases_region, suite_cases_message,
        suite_cases_mesh,    suite_cases_sleep, suite_cases_end,    suite_cases_death,
    };
    struct wring_test_case cases[CASES_MAX] = {{0}};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(themes) / sizeof(themes[0]); i++)
        for (const struct wring_test_case *at = themes[i]; at->name != NULL; at++)
            if (n < CASES_MAX - 1)
                cases[n++] = *at;
            else
                wring_test_fail(__FILE__, __LINE__, "n < CASES_MAX - 1", "%s left out", at->name);
    ends_use(which);
    return wring_test_main(argc, argv, cases);
}
