/* SPDX-License-Identifier: Apache-2.0 */
/** Ends that are wrapped in the fault provider, for the tests of it. */
#ifndef WRING_TESTS_RIG_FAULT_H
#define WRING_TESTS_RIG_FAULT_H

#include "tests/provider/ends.h"
#include "transport/providers/fault/fault.h"

struct fault_rig {
    const char *schedule; /* of ends that are opened from now on */
    char line[256];       /* the last one that was logged */
};

extern struct fault_rig fault_rig;

/** Run the cases around the provider that argv[1] names. @return the exit status */
int fault_rig_main(int argc, char **argv, const struct wring_test_case *cases);

#endif
