/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on the provider "sim": one thread polls both ends, and time passes as it
 * looks. Left out are the themes of sleep and of death, which need threads and processes, and the
 * case about descriptors, as it has none. */
#include <string.h>

#include "tests/provider/ends.h"
#include "transport/providers/providers.h"
#include "transport/providers/sim/sim.h"

static void outside_it_says_why_not(void)
{
    char reason[256] = "";
    CHECK(wring_provider_sim.probe(reason, sizeof(reason)) == WRING_ERR_UNSUPPORTED, "it works");
    CHECK(strstr(reason, "wring bench scale") != NULL, "%s", reason);
}

/** @param cases  out, [max] */
static void choose_cases(struct wring_test_case *cases, size_t max)
{
    const struct wring_test_case *const themes[] = {
        suite_cases_connect, suite_cases_put,  suite_cases_region,
        suite_cases_message, suite_cases_mesh, suite_cases_end,
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof(themes) / sizeof(themes[0]); i++)
        for (const struct wring_test_case *at = themes[i]; at->name != NULL && n < max - 1; at++)
            if (strstr(at->name, "descriptors") == NULL)
                cases[n++] = *at;
}

int main(int argc, char **argv)
{
    const struct wring_provider_driver driver = {"sim", wring_provider_sim.open};
    const struct wring_sim_params params = {
        .ranks = 1, .latency_ns = 5000, .message_ns = 500, .bytes_per_ns = 12.5};
    struct wring_test_case cases[64] = {{0}};
    struct wring_sim *sim;

    outside_it_says_why_not();
    if (wring_sim_create(&params, &sim) != WRING_OK)
        return 1;
    choose_cases(cases, sizeof(cases) / sizeof(cases[0]));
    ends_use(&driver);
    wring_sim_enter(sim);
    int result = wring_test_main(argc, argv, cases);
    wring_sim_leave(sim);
    wring_sim_destroy(sim);
    return result;
}
