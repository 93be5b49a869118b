/* SPDX-License-Identifier: Apache-2.0 */
/** Carries a wring_auth over a non-blocking stream socket. */
#ifndef WRING_PROVIDERS_HANDSHAKE_H
#define WRING_PROVIDERS_HANDSHAKE_H

#include "transport/auth.h"

/**
 * Send and receive what can be without waiting; takes no byte beyond the handshake's last.
 *
 * @param why  out, [bytes], one line; written when it failed
 *
 * Returns WRING_ERR_AGAIN while it goes on, WRING_OK, WRING_ERR_PEER when the stream ended, and
 * else what wring_auth_status() says.
 */
enum wring_status wring_handshake_step(struct wring_auth *auth, int fd, char *why, size_t bytes);

/** True while the handshake waits for room in the socket rather than for the peer. */
bool wring_handshake_wants_room(struct wring_auth *auth);

#endif
