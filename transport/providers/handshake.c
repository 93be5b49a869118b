/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/handshake.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/** One send or recv. @return bytes moved, 0 when it would block, -1 when the stream ended. */
static ssize_t move_bytes_once(struct wring_auth *auth, int fd)
{
    uint8_t buffer[WRING_AUTH_TRANSCRIPT_BYTES];
    const void *data;
    size_t out = wring_auth_output(auth, &data);
    ssize_t n;

    if (out > 0) {
        n = send(fd, data, out, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            wring_auth_sent(auth, (size_t)n);
    } else {
        size_t wants = wring_auth_wants(auth);
        if (wants == 0)
            return 0;
        n = recv(fd, buffer, wants, MSG_DONTWAIT);
        if (n > 0)
            wring_auth_input(auth, buffer, (size_t)n);
        else if (n == 0)
            return -1;
    }
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    return n;
}

enum wring_status wring_handshake_step(struct wring_auth *auth, int fd, char *why, size_t bytes)
{
    ssize_t n;
    while ((n = move_bytes_once(auth, fd)) > 0) /* four short messages at most */
        ;
    enum wring_status status = wring_auth_status(auth);
    if (status == WRING_ERR_AGAIN && n < 0) {
        snprintf(why, bytes, "the peer closed during the handshake");
        return WRING_ERR_PEER;
    }
    if (status != WRING_ERR_AGAIN && status != WRING_OK)
        wring_auth_describe(auth, why, bytes);
    return status;
}

bool wring_handshake_wants_room(struct wring_auth *auth)
{
    const void *data;
    return wring_auth_output(auth, &data) > 0;
}
