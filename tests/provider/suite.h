/* SPDX-License-Identifier: Apache-2.0 */
/** What every provider must do, whatever it is made of. See transport/include/wring/provider.h. */
#ifndef WRING_TESTS_PROVIDER_SUITE_H
#define WRING_TESTS_PROVIDER_SUITE_H

#include <wring/provider.h>

struct wring_provider_driver {
    const char *name;
    /** Make an instance; the secret is in params. The suite closes it. */
    enum wring_status (*open)(const struct wring_provider_params *params,
                              struct wring_provider **out);
};

/** Run all cases, or those that argv names. @return the exit status of the test */
int wring_provider_suite(int argc, char **argv, const struct wring_provider_driver *driver);

#endif
