/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages to a peer: over its connection, or by the control tree. */
#include "base/clock.h"
#include "transport/control.h"
#include "transport/control_tree.h"

enum wring_status wring_control_say(struct wring_conn *conn, const struct wring_control *control)
{
    uint8_t message[WRING_SEND_MAX];
    return conn->provider->ops->send(conn, message, wring_control_pack(control, message));
}

/** No connection stands. Questions between members of a group go by the tree meanwhile. */
static enum wring_status send_by_tree(struct wring_peer *peer, const struct wring_control *control)
{
    bool asks = control->kind == WRING_CONTROL_CALL || control->kind == WRING_CONTROL_STANDSTILL;
    if (!asks || peer->state == WRING_PEER_GONE || peer->fabric->tree == NULL)
        return WRING_ERR_CLOSED;
    return wring_control_tree_send(peer->fabric->tree, peer->rank, control);
}

enum wring_status wring_control_send(struct wring_peer *peer, const struct wring_control *control)
{
    if (peer->state != WRING_PEER_READY)
        return send_by_tree(peer, control);
    enum wring_status status = wring_control_say(peer->conn, control);
    if (status != WRING_OK)
        return status;
    peer->sent_ns = wring_now_ns();
    wring_count(&peer->fabric->controls_sent, 1);
    return WRING_OK;
}
