/* SPDX-License-Identifier: Apache-2.0 */
/** Who is at the other end of a queue pair, if all that both were told fits. */
#include <string.h>

#include "tests/provider/mock/mock_inside.h"

static bool is_up(const struct net_qp *qp)
{
    const struct net_port *port = mock_port(qp->device, qp->attr.port_num);
    return port != NULL && port->state == IBV_PORT_ACTIVE && !port->blackhole &&
           !mock_self.net->fatal[qp->device];
}

static bool is_addressed(const struct net_qp *from, const struct net_qp *to)
{
    const struct ibv_ah_attr *address = &from->attr.ah_attr;
    const struct net_port *port = mock_port(to->device, to->attr.port_num);
    if (!address->is_global)
        return address->dlid == port->lid;
    for (unsigned i = 0; i < MOCK_GIDS; i++)
        if (memcmp(&port->gids[i], &address->grh.dgid, sizeof(port->gids[i])) == 0)
            return true;
    return false;
}

static uint16_t pkey_of(const struct net_qp *qp)
{
    return mock_port(qp->device, qp->attr.port_num)->pkeys[qp->attr.pkey_index];
}

/** Has a process that takes no bytes gone? Its memory answers. */
static bool is_there(const struct net_qp *peer, const struct net_qp *qp)
{
    char byte;
    return peer->pid == qp->pid ||
           net_copy(qp->pid, (uintptr_t)&byte, peer->pid, peer->probe, sizeof(byte));
}

struct net_qp *mock_peer_of(const struct net_qp *qp)
{
    struct net_qp *peer = net_qp_find(mock_self.net, qp->attr.dest_qp_num);
    if (peer == NULL || (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS) || !is_up(qp) ||
        !is_up(peer))
        return NULL;
    bool same_link = mock_port(qp->device, qp->attr.port_num)->link_layer ==
                     mock_port(peer->device, peer->attr.port_num)->link_layer;
    bool fits = same_link && is_addressed(qp, peer) && is_addressed(peer, qp) &&
                peer->attr.dest_qp_num == qp->qpn && peer->attr.rq_psn == qp->attr.sq_psn &&
                pkey_of(peer) == pkey_of(qp);
    return fits && is_there(peer, qp) ? peer : NULL;
}

bool mock_packets_differ(const struct net_qp *qp, const struct net_qp *peer, uint32_t bytes)
{
    return qp->attr.path_mtu != peer->attr.path_mtu && bytes > 128u << qp->attr.path_mtu;
}
