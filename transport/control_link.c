/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/control_link.h"

#include <stdlib.h>

#include "base/clock.h"

/** A message that a connection had no room for. */
struct wring_control_frame {
    struct wring_control_frame *next;
    size_t bytes;
    uint8_t data[WRING_SEND_MAX];
};

struct wring_control_link *wring_control_link_create(struct wring_control_link **links,
                                                     uint32_t rank, bool up)
{
    struct wring_control_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    *link = (struct wring_control_link){.next = *links, .rank = rank, .up = up};
    link->last = &link->first;
    *links = link;
    return link;
}

static void drop_first(struct wring_control_link *link)
{
    struct wring_control_frame *frame = link->first;

    link->first = frame->next;
    if (link->first == NULL)
        link->last = &link->first;
    free(frame);
}

void wring_control_link_destroy(struct wring_control_link **links, struct wring_control_link *link)
{
    if (link == NULL)
        return;
    struct wring_control_link **at = links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    if (link->conn != NULL)
        link->conn->provider->ops->disconnect(link->conn);
    while (link->first != NULL)
        drop_first(link);
    free(link);
}

static bool queue_frame(struct wring_control_link *link, const uint8_t *data, size_t bytes)
{
    struct wring_control_frame *frame = malloc(sizeof(*frame));
    if (frame == NULL)
        return false;
    frame->next = NULL;
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
    *link->last = frame;
    link->last = &frame->next;
    return true;
}

void wring_control_link_flush(struct wring_control_link *link, uint64_t now_ns)
{
    while (link->first != NULL && link->open) {
        struct wring_control_frame *frame = link->first;
        if (link->conn->provider->ops->send(link->conn, frame->data, frame->bytes) != WRING_OK)
            return;
        link->sent_ns = now_ns;
        drop_first(link);
    }
}

enum wring_status wring_control_link_send(struct wring_control_link *link, uint32_t from,
                                          uint32_t to, const struct wring_control *control)
{
    uint8_t data[WRING_CONTROL_LINK_HEAD + WRING_SEND_MAX];
    wring_put_u32(data, from);
    wring_put_u32(data + 4, to);
    size_t bytes =
        WRING_CONTROL_LINK_HEAD + wring_control_pack(control, data + WRING_CONTROL_LINK_HEAD);
    if (bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    uint64_t now_ns = wring_now_ns();
    wring_control_link_flush(link, now_ns);
    if (link->open && link->first == NULL &&
        link->conn->provider->ops->send(link->conn, data, bytes) == WRING_OK) {
        link->sent_ns = now_ns;
        return WRING_OK;
    }
    return queue_frame(link, data, bytes) ? WRING_OK : WRING_ERR_NO_MEMORY;
}
