/* SPDX-License-Identifier: Apache-2.0 */
/** Blocking work on non-blocking sockets: every wait has a deadline and can be called off. */
#ifndef WRING_TRANSPORT_STREAM_H
#define WRING_TRANSPORT_STREAM_H

#include <poll.h>

#include "transport/auth.h"
#include <wring/bootstrap.h>

/** The end of a wait, and a way to call it off. */
struct wring_patience {
    uint64_t deadline_ns;
    const struct wring_cancel *cancel; /* may be NULL */
};

/**
 * poll() in slices. @return WRING_OK when a descriptor is ready, WRING_ERR_TIMEOUT,
 * WRING_ERR_CLOSED when called off
 */
enum wring_status wring_stream_poll(struct pollfd *fds, unsigned n,
                                    const struct wring_patience *patience);

/**
 * The other side has left: did it do so because the job has failed? Then the thread that may call
 * us off is about to know. @return true when called off within a second; at once false where nobody
 * can
 */
bool wring_stream_called_off(const struct wring_patience *patience);

/** Errors: those of wring_stream_poll(); WRING_ERR_PEER when the other side has closed. */
enum wring_status wring_stream_write(int fd, const void *data, size_t bytes,
                                     const struct wring_patience *patience);
enum wring_status wring_stream_read(int fd, void *data, size_t bytes,
                                    const struct wring_patience *patience);

/** Do what a handshake can do on a socket now. @return false when the socket is done for */
bool wring_stream_auth(int fd, struct wring_auth *auth);

#endif
