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

enum wring_status wring_rendezvous_join(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret)
{
    struct wring_rendezvous_places *places = malloc(sizeof(*places));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (places != NULL)
        status = wring_rendezvous_find_places(params, places);
    if (status == WRING_OK)
        status = wring_rendezvous_reach(rendezvous, params, places, secret, await_verdict);
    free(places);
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
