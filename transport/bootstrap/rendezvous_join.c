/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the ranks that are not the root. */
#include "transport/bootstrap/rendezvous_private.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

#define WRING_MODULE "rendezvous"
#define RETRY_NS (50 * WRING_NS_PER_MS)
#define CONNECT_NS (2 * WRING_NS_PER_S) /* where there are other addresses to try */

/** One try to connect. @return the socket, or -1 with errno */
static int try_connect(const struct addrinfo *address, const struct wring_patience *patience)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
        int error = errno;
        socklen_t size = sizeof(error);
        struct pollfd pollfd = {fd, POLLOUT, 0};
        if (error == EINPROGRESS) {
            error = ETIMEDOUT;
            if (wring_stream_poll(&pollfd, 1, patience) == WRING_OK)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        }
        if (error != 0) {
            close(fd);
            errno = error;
            return -1;
        }
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static enum wring_status handshake(struct wring_rendezvous *rendezvous, int fd,
                                   const uint8_t *secret, const struct wring_patience *patience)
{
    struct wring_auth auth;
    uint8_t hello[WRING_RENDEZVOUS_HELLO_BYTES];
    char text[WRING_RENDEZVOUS_TEXT];

    wring_put_u32(hello, rendezvous->base.rank);
    wring_put_u32(hello + 4, rendezvous->base.size);
    wring_auth_init(&auth, true, WRING_AUTH_RENDEZVOUS, secret, hello, sizeof(hello));
    while (wring_auth_status(&auth) == WRING_ERR_AGAIN) {
        if (!wring_stream_auth(fd, &auth))
            return WRING_ERR_AGAIN; /* closed on us: the root may be restarting, or full */
        if (wring_auth_status(&auth) != WRING_ERR_AGAIN)
            break;
        const void *data;
        struct pollfd pollfd = {fd, wring_auth_output(&auth, &data) > 0 ? POLLOUT : POLLIN, 0};
        enum wring_status status = wring_stream_poll(&pollfd, 1, patience);
        if (status != WRING_OK)
            return status;
    }
    enum wring_status status = wring_auth_status(&auth);
    if (status != WRING_OK) {
        wring_auth_describe(&auth, text, sizeof(text));
        wring_error(rendezvous->log, "rank %" PRIu32 " was not let in by the root: %s%s",
                    rendezvous->base.rank, text,
                    status == WRING_ERR_AUTH ? "; all ranks need the same WRING_KEY" : "");
    }
    return status;
}

static enum wring_status lost_root(struct wring_rendezvous *rendezvous, enum wring_status status,
                                   const struct wring_patience *patience)
{
    if (wring_stream_called_off(patience))
        return WRING_ERR_CLOSED;
    rendezvous->base.at_fault = 0;
    if (status == WRING_ERR_PEER)
        wring_error(rendezvous->log, "rank 0 ended, and with it the rendezvous");
    else if (status == WRING_ERR_TIMEOUT)
        wring_error(rendezvous->log, "rank 0 did not answer in time");
    return status == WRING_ERR_TIMEOUT ? WRING_ERR_PEER : status;
}

static enum wring_status malformed(struct wring_rendezvous *rendezvous)
{
    wring_error(rendezvous->log, "rank 0 sent malformed bytes to the rendezvous");
    rendezvous->base.at_fault = 0;
    return WRING_ERR_FRAME;
}

enum wring_status wring_rendezvous_read_failure(struct wring_rendezvous *rendezvous, int fd,
                                                const struct wring_rendezvous_frame *frame,
                                                const struct wring_patience *patience)
{
    char text[WRING_RENDEZVOUS_TEXT] = "";
    if (frame->bytes >= sizeof(text))
        return malformed(rendezvous);
    enum wring_status status = wring_stream_read(fd, text, frame->bytes, patience);
    if (status != WRING_OK)
        return lost_root(rendezvous, status, patience);
    wring_rendezvous_make_printable(text, frame->bytes);
    status = wring_rendezvous_failure_status(frame);
    wring_error(rendezvous->log, "%s", text[0] != '\0' ? text : wring_status_text(status));
    rendezvous->base.at_fault = frame->rank < rendezvous->base.size ? (int32_t)frame->rank : -1;
    return status;
}

/** The handshake is through: does the root take us? @return WRING_ERR_AGAIN when it closed
 *  without a word */
static enum wring_status await_verdict(struct wring_rendezvous *rendezvous, int fd,
                                       const struct wring_patience *patience)
{
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;

    enum wring_status status = wring_stream_read(fd, head, sizeof(head), patience);
    if (status != WRING_OK)
        return status == WRING_ERR_PEER ? WRING_ERR_AGAIN : status;
    if (wring_rendezvous_parse(head, &frame) && frame.kind == WRING_RENDEZVOUS_FAILURE)
        return wring_rendezvous_read_failure(rendezvous, fd, &frame, patience);
    if (wring_rendezvous_parse(head, &frame) && frame.kind == WRING_RENDEZVOUS_ADMITTED)
        return WRING_OK;
    return malformed(rendezvous);
}

/** Try the root's addresses, one after the other. @return WRING_ERR_AGAIN, with errno: not now */
static enum wring_status try_all(struct wring_rendezvous *rendezvous,
                                 const struct addrinfo *addresses, const uint8_t *secret,
                                 const struct wring_patience *patience)
{
    int error = 0;
    for (const struct addrinfo *at = addresses; at != NULL; at = at->ai_next) {
        uint64_t brief_ns = wring_now_ns() + CONNECT_NS;
        bool alone = addresses->ai_next == NULL;
        struct wring_patience brief = *patience;
        if (!alone && brief_ns < brief.deadline_ns)
            brief.deadline_ns = brief_ns; /* one that swallows packets must not cost it all */
        int fd = try_connect(at, &brief);
        if (fd < 0) {
            error = errno;
            continue;
        }
        enum wring_status status = handshake(rendezvous, fd, secret, patience);
        if (status == WRING_OK)
            status = await_verdict(rendezvous, fd, patience);
        if (status == WRING_OK) {
            rendezvous->fds[0] = fd;
            return WRING_OK;
        }
        close(fd);
        if (status != WRING_ERR_AGAIN && status != WRING_ERR_TIMEOUT)
            return status;
        error = status == WRING_ERR_TIMEOUT ? ETIMEDOUT : ECONNRESET;
    }
    errno = error;
    return WRING_ERR_AGAIN;
}

static enum wring_status join_any(struct wring_rendezvous *rendezvous,
                                  const struct wring_rendezvous_params *params,
                                  const struct addrinfo *addresses, const uint8_t *secret)
{
    struct wring_patience patience = {params->deadline_ns, params->cancel};
    for (;;) {
        enum wring_status status = try_all(rendezvous, addresses, secret, &patience);
        int error = errno;
        if (status != WRING_ERR_AGAIN)
            return status;
        struct wring_patience pause = {wring_now_ns() + RETRY_NS, params->cancel};
        if (wring_stream_poll(NULL, 0, &pause) == WRING_ERR_CLOSED)
            return WRING_ERR_CLOSED;
        if (wring_now_ns() >= params->deadline_ns) {
            wring_error(params->log,
                        "rank %" PRIu32 " could not reach rank 0 at %s: %s; is it "
                        "running, and is the port open?",
                        params->rank, params->root, strerror(error));
            return WRING_ERR_PEER;
        }
    }
}

enum wring_status wring_rendezvous_join(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret)
{
    struct addrinfo *addresses;
    bool is_name;

    enum wring_status status =
        wring_rendezvous_resolve(params->log, params->root, &addresses, &is_name);
    if (status != WRING_OK)
        return status;
    for (const struct addrinfo *at = addresses; at != NULL && status == WRING_OK; at = at->ai_next)
        status = wring_rendezvous_check_key(params, at->ai_addr);
    if (status == WRING_OK)
        status = join_any(rendezvous, params, addresses, secret);
    freeaddrinfo(addresses);
    return status;
}

enum wring_status wring_rendezvous_hear(struct wring_rendezvous *rendezvous)
{
    struct wring_patience patience = {wring_now_ns() + WRING_NS_PER_S, NULL};
    struct pollfd pollfd = {rendezvous->fds[0], POLLIN | POLLRDHUP, 0};
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;

    if (poll(&pollfd, 1, 0) <= 0)
        return WRING_OK;
    enum wring_status status = wring_stream_read(pollfd.fd, head, sizeof(head), &patience);
    if (status != WRING_OK)
        return lost_root(rendezvous, status, &patience);
    if (!wring_rendezvous_parse(head, &frame) || frame.kind != WRING_RENDEZVOUS_FAILURE)
        return malformed(rendezvous);
    return wring_rendezvous_read_failure(rendezvous, pollfd.fd, &frame, &patience);
}

enum wring_status wring_rendezvous_contribute(struct wring_rendezvous *rendezvous, const void *blob,
                                              size_t bytes, const struct wring_patience *patience,
                                              struct wring_blobs *out)
{
    int fd = rendezvous->fds[0];
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame = {
        .kind = WRING_RENDEZVOUS_BLOB, .sequence = rendezvous->sequence, .bytes = bytes};

    wring_rendezvous_pack(&frame, head);
    enum wring_status status = wring_stream_write(fd, head, sizeof(head), patience);
    if (status == WRING_OK)
        status = wring_stream_write(fd, blob, bytes, patience);
    /* even if writing failed, the root may have said why before it closed */
    enum wring_status read_status = wring_stream_read(fd, head, sizeof(head), patience);
    if (read_status != WRING_OK)
        return lost_root(rendezvous, read_status, patience);
    if (!wring_rendezvous_parse(head, &frame) ||
        frame.bytes > (uint64_t)rendezvous->base.size * (WRING_BLOB_MAX + sizeof(uint64_t)))
        return malformed(rendezvous);
    if (frame.kind == WRING_RENDEZVOUS_FAILURE)
        return wring_rendezvous_read_failure(rendezvous, fd, &frame, patience);
    if (frame.kind != WRING_RENDEZVOUS_RESULT || frame.sequence != rendezvous->sequence)
        return malformed(rendezvous);

    uint8_t *body = malloc(frame.bytes + 1);
    if (body == NULL)
        return WRING_ERR_NO_MEMORY;
    status = wring_stream_read(fd, body, frame.bytes, patience);
    if (status != WRING_OK)
        status = lost_root(rendezvous, status, patience);
    else
        status = wring_rendezvous_unpack_result(rendezvous->base.size, body, frame.bytes, out);
    if (status != WRING_OK)
        free(body);
    return status == WRING_ERR_FRAME ? malformed(rendezvous) : status;
}
