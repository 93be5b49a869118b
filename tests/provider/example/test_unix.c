/* SPDX-License-Identifier: Apache-2.0 */
/** The conformance suite on the example: what test_provider does for those of the library. */
#include "tests/provider/example/unix.h"
#include "tests/provider/suite.h"

int main(int argc, char **argv)
{
    const struct wring_provider_driver driver = {"unix", wring_provider_unix.open};
    char reason[256];
    if (wring_provider_unix.probe(reason, sizeof(reason)) != WRING_OK)
        wring_test_skip("unix: %s", reason);
    return wring_provider_suite(argc, argv, &driver);
}
