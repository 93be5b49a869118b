/* SPDX-License-Identifier: Apache-2.0 */
/** Devices that are as particular about memory as RDMA adapters are, of those that are not. */
#ifndef WRING_TESTS_STRICT_H
#define WRING_TESTS_STRICT_H

#include <wring/wring.h>

/**
 * From now on the session's devices say that they can only send from memory registered with them,
 * and every put from elsewhere is a failed check. Call it before the first collective.
 */
void wring_test_be_strict(struct wring_session *session);

#endif
