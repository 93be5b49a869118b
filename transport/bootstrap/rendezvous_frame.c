/* SPDX-License-Identifier: Apache-2.0 */
/* What a rendezvous says: its frames, and how texts name ranks and addresses. It calls none of the
 * rendezvous's other parts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/bootstrap/rendezvous_private.h"

#define WRING_MODULE "rendezvous"
#define MAGIC 0x565A5257u /* "WRZV" */
#define NAMED_MAX 8

void wring_rendezvous_pack(const struct wring_rendezvous_frame *frame, uint8_t *bytes)
{
    wring_put_u32(bytes, MAGIC);
    wring_put_u32(bytes + 4, frame->kind);
    wring_put_u32(bytes + 8, frame->sequence);
    wring_put_u32(bytes + 12, frame->status);
    wring_put_u32(bytes + 16, frame->rank);
    wring_put_u64(bytes + 20, frame->bytes);
}

bool wring_rendezvous_parse(const uint8_t *bytes, struct wring_rendezvous_frame *out)
{
    uint32_t kind = wring_get_u32(bytes + 4);
    if (wring_get_u32(bytes) != MAGIC || kind < WRING_RENDEZVOUS_BLOB ||
        kind > WRING_RENDEZVOUS_PLANTED)
        return false;
    *out = (struct wring_rendezvous_frame){
        .kind = (enum wring_rendezvous_kind)kind,
        .sequence = wring_get_u32(bytes + 8),
        .status = wring_get_u32(bytes + 12),
        .rank = wring_get_u32(bytes + 16),
        .bytes = wring_get_u64(bytes + 20),
    };
    return true;
}

enum wring_status wring_rendezvous_failure_status(const struct wring_rendezvous_frame *frame)
{
    return frame->status > WRING_OK && frame->status <= WRING_ERR_SYSTEM
               ? (enum wring_status)frame->status
               : WRING_ERR_PEER;
}

void wring_rendezvous_make_printable(char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
    text[bytes] = '\0';
}

enum wring_status wring_rendezvous_unpack_result(uint32_t size, uint8_t *body, uint64_t bytes,
                                                 struct wring_blobs *out)
{
    struct wring_reader reader = {body, bytes, false};
    struct wring_blobs blobs = {size, calloc((size_t)size + 1, sizeof(size_t)), body, NULL};
    size_t total = 0;

    if (blobs.offsets == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < size; i++) {
        uint64_t blob_bytes = wring_read_u64(&reader);
        const void *data = blob_bytes <= reader.bytes ? wring_read(&reader, blob_bytes) : NULL;
        if (data == NULL)
            goto free_offsets;
        memmove(body + total, data, blob_bytes);
        blobs.offsets[i + 1] = total += blob_bytes;
    }
    if (reader.bytes > 0) /* more than there are ranks */
        goto free_offsets;
    *out = blobs;
    return WRING_OK;

free_offsets:
    free(blobs.offsets);
    return WRING_ERR_FRAME;
}

static void send_frame(int fd, struct wring_rendezvous_frame frame, const char *text)
{
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_patience patience = {wring_now_ns() + WRING_NS_PER_S, NULL};

    frame.bytes = strlen(text);
    wring_rendezvous_pack(&frame, head);
    if (wring_stream_write(fd, head, sizeof(head), &patience) == WRING_OK)
        wring_stream_write(fd, text, frame.bytes, &patience);
}

void wring_rendezvous_send_failure(int fd, enum wring_status status, uint32_t rank,
                                   const char *text)
{
    send_frame(fd,
               (struct wring_rendezvous_frame){
                   .kind = WRING_RENDEZVOUS_FAILURE, .status = (uint32_t)status, .rank = rank},
               text);
}

void wring_rendezvous_send_admitted(int fd)
{
    send_frame(fd, (struct wring_rendezvous_frame){.kind = WRING_RENDEZVOUS_ADMITTED}, "");
}

void wring_rendezvous_tell_failure(struct wring_rendezvous *rendezvous, enum wring_status status,
                                   uint32_t rank, const char *text)
{
    rendezvous->base.at_fault = (int32_t)rank;
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (rendezvous->fds[i] >= 0)
            wring_rendezvous_send_failure(rendezvous->fds[i], status, rank, text);
}

/* ---- names ---- */

void wring_rendezvous_name(struct wring_rendezvous_names *names, uint32_t rank)
{
    if (names->n++ == 0)
        names->first = rank;
    if (names->n <= NAMED_MAX)
        names->at += (size_t)snprintf(names->list + names->at, sizeof(names->list) - names->at,
                                      "%s%" PRIu32, names->n > 1 ? ", " : "", rank);
}

const char *wring_rendezvous_named(struct wring_rendezvous_names *names)
{
    size_t bytes = sizeof(names->text);
    if (names->n > NAMED_MAX)
        snprintf(names->text, bytes, "ranks %s and %" PRIu32 " more", names->list,
                 names->n - NAMED_MAX);
    else
        snprintf(names->text, bytes, "rank%s %s", names->n > 1 ? "s" : "", names->list);
    return names->text;
}

void wring_rendezvous_endpoint_text(const struct wring_rendezvous_endpoint *endpoint, char *text)
{
    char host[WRING_RENDEZVOUS_ADDRESS] = "?", port[8] = "?";
    getnameinfo((const struct sockaddr *)&endpoint->address, endpoint->bytes, host, sizeof(host),
                port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, WRING_RENDEZVOUS_ENDPOINT_TEXT, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s",
             host, port);
}

bool wring_rendezvous_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

enum wring_status wring_rendezvous_refuse_zone(const struct wring_log *log, const char *root)
{
    wring_error(log, "WRING_ROOT=%s: needs a zone of this host, as in [fe80::1%%eth0]:5555", root);
    return WRING_ERR_ADDRESS;
}
