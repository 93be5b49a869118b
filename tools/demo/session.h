/* SPDX-License-Identifier: Apache-2.0 */
/** Sessions of the demo, and what is said when one fails. */
#ifndef WRING_TOOLS_DEMO_SESSION_H
#define WRING_TOOLS_DEMO_SESSION_H

#include <stdatomic.h>

#include <wring/wring.h>

/**
 * Open a session like those of the runs. Rank 0 keeps the launcher's socket for further ones: each
 * takes a copy of it.
 * @param settled  while true, the session's error lines are dropped; outlives the session
 * @return NULL after a line on standard error
 */
struct wring_session *demo_session_open(const char *provider, const char *link,
                                        atomic_bool *settled);

/** Say why something failed on this rank, unless another rank says the same. @return 1 */
int demo_fail(struct wring_session *session, uint32_t rank, const char *what,
              enum wring_status status);

#endif
