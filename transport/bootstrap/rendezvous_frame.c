/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the rendezvous; no sockets here. */
#include "transport/bootstrap/rendezvous_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define MAGIC 0x565A5257u /* "WRZV" */

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
        kind > WRING_RENDEZVOUS_ADMITTED)
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
    struct wring_blobs blobs = {size, calloc((size_t)size + 1, sizeof(size_t)), body};
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
