/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define SLICE_MS 50

enum wring_status wring_stream_poll(struct pollfd *fds, unsigned n,
                                    const struct wring_patience *patience)
{
    for (;;) {
        if (patience->cancel != NULL && patience->cancel->cancelled(patience->cancel->arg))
            return WRING_ERR_CLOSED;
        uint64_t now = wring_now_ns();
        if (now >= patience->deadline_ns)
            return WRING_ERR_TIMEOUT;
        uint64_t left_ms = (patience->deadline_ns - now) / WRING_NS_PER_MS + 1;
        int ready = poll(fds, n, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
        if (ready > 0)
            return WRING_OK;
    }
}

bool wring_stream_called_off(const struct wring_patience *patience)
{
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, patience->cancel};
    return patience->cancel != NULL && wring_stream_poll(NULL, 0, &brief) == WRING_ERR_CLOSED;
}

static enum wring_status wait_for_socket(int fd, short events,
                                         const struct wring_patience *patience)
{
    struct pollfd pollfd = {fd, events, 0};
    return wring_stream_poll(&pollfd, 1, patience);
}

enum wring_status wring_stream_write(int fd, const void *data, size_t bytes,
                                     const struct wring_patience *patience)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            at += sent;
            bytes -= (size_t)sent;
            continue;
        }
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return WRING_ERR_PEER;
        enum wring_status status = wait_for_socket(fd, POLLOUT, patience);
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

enum wring_status wring_stream_read(int fd, void *data, size_t bytes,
                                    const struct wring_patience *patience)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return WRING_ERR_PEER;
        enum wring_status status = wait_for_socket(fd, POLLIN, patience);
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

bool wring_stream_auth(int fd, struct wring_auth *auth)
{
    uint8_t buffer[WRING_AUTH_TRANSCRIPT_BYTES];
    for (;;) {
        const void *data;
        size_t n = wring_auth_output(auth, &data);
        ssize_t moved;
        if (n > 0) {
            moved = send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (moved > 0)
                wring_auth_sent(auth, (size_t)moved);
        } else if ((n = wring_auth_wants(auth)) > 0) {
            moved = recv(fd, buffer, n, MSG_DONTWAIT);
            if (moved == 0)
                return false;
            if (moved > 0)
                wring_auth_input(auth, buffer, (size_t)moved);
        } else {
            return true;
        }
        if (moved < 0)
            return errno == EAGAIN || errno == EINTR;
    }
}
