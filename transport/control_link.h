/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A connection to a neighbour in the control tree. A message that it has no room for waits in it.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_CONTROL_LINK_H
#define WRING_TRANSPORT_CONTROL_LINK_H

#include "transport/control.h"

#define WRING_CONTROL_LINK_HEAD 8 /* bytes before a message's own: from, to */

struct wring_control_link {
    struct wring_control_link *next;
    struct wring_conn *conn; /* owned; NULL: none yet */
    uint32_t rank;
    bool up;       /* to our parent, dialled by us */
    bool seeks;    /* a dial that only asks whether anybody is there */
    bool parting;  /* from a rank that leaves, and is not our child */
    bool open;     /* it stands */
    bool heard;    /* and the other end has said so */
    bool bye;      /* which has left */
    uint32_t owed; /* good-byes of ours that it has not answered */
    uint64_t heard_ns, sent_ns;
    struct wring_control_frame *first, **last; /* messages that wait */
};

/** Without a connection, the first of a list. @return NULL: no memory */
struct wring_control_link *wring_control_link_create(struct wring_control_link **links,
                                                     uint32_t rank, bool up);

/** Disconnect it, drop messages that wait, and take it out of its list. NULL is fine. */
void wring_control_link_destroy(struct wring_control_link **links, struct wring_control_link *link);

/** Send messages that wait, as far as there is room. */
void wring_control_link_flush(struct wring_control_link *link, uint64_t now_ns);

/**
 * Send one, behind those that wait.
 * @param from  a rank
 * @param to    another one, WRING_CONTROL_TREE_ALL, or WRING_CONTROL_TREE_ROOT
 * Errors: WRING_ERR_NO_MEMORY; WRING_ERR_INVALID: too long a text.
 */
enum wring_status wring_control_link_send(struct wring_control_link *link, uint32_t from,
                                          uint32_t to, const struct wring_control *control);

#endif
