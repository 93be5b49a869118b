/* SPDX-License-Identifier: Apache-2.0 */
/** A session that loses a credit on purpose, as no provider may. */
#ifndef WRING_TESTS_LOSSY_H
#define WRING_TESTS_LOSSY_H

#include <stdbool.h>

#include <wring/wring.h>

/** From now on the session sends no credit any more. */
void wring_test_lose_credits(struct wring_session *session);

/** Has any session of this process lost one, since this was last asked? */
bool wring_test_lost_credits(void);

#endif
