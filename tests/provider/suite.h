/* SPDX-License-Identifier: Apache-2.0 */
/** What every provider must do, whatever it is made of. See transport/include/wring/provider.h. */
#ifndef WRING_TESTS_PROVIDER_SUITE_H
#define WRING_TESTS_PROVIDER_SUITE_H

#include "tests/lib/test.h"
#include <wring/provider.h>

struct wring_provider_driver {
    const char *name;
    /** Make an instance; the secret is in params. The suite closes it. */
    enum wring_status (*open)(const struct wring_provider_params *params,
                              struct wring_provider **out);
};

/** Run all cases, or those that argv names. @return the exit status of the test */
int wring_provider_suite(int argc, char **argv, const struct wring_provider_driver *driver);

/* The cases by theme, in case_*.c; {0} ends. */
extern const struct wring_test_case suite_cases_connect[]; /* meeting, and the handshake */
extern const struct wring_test_case suite_cases_put[];     /* bytes, bounds, queues */
extern const struct wring_test_case suite_cases_region[];  /* registering, keys, abilities */
extern const struct wring_test_case suite_cases_message[]; /* control messages */
extern const struct wring_test_case suite_cases_mesh[];    /* more than two */
extern const struct wring_test_case suite_cases_sleep[];   /* arm, sleep, wake */
extern const struct wring_test_case suite_cases_end[];     /* leaving with puts under way */
extern const struct wring_test_case suite_cases_death[];   /* of another process */

#endif
