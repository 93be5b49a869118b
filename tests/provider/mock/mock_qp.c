/* SPDX-License-Identifier: Apache-2.0 */
/** Reliable queue pairs: made, taken through their states, unmade. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/provider/mock/mock_inside.h"

#define SEND_OPS                                                                            \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)

/* what each step must and may set, besides the state */
#define OF_INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define OF_RTR                                                                                   \
    (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | \
     IBV_QP_MIN_RNR_TIMER)
#define OF_RTS \
    (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
#define LATER (IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_CUR_STATE)

/* clang-format off */
static const struct {
    enum ibv_qp_state from, to;
    int must, may;
} steps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, OF_INIT, 0},
    {IBV_QPS_INIT,  IBV_QPS_INIT, 0,       OF_INIT},
    {IBV_QPS_INIT,  IBV_QPS_RTR,  OF_RTR,  IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR,   IBV_QPS_RTS,  OF_RTS,  LATER},
    {IBV_QPS_RTS,   IBV_QPS_RTS,  0,       LATER},
};
/* clang-format on */

struct mock_qp *mock_qp_of(uint32_t qpn)
{
    struct mock_qp *qp = mock_self.qps[qpn % MOCK_QPS];
    return qp != NULL && qp->ex.qp_base.qp_num == qpn ? qp : NULL;
}

void mock_qp_to_error(struct net_qp *shared)
{
    struct mock_qp *qp = mock_qp_of(shared->qpn);
    if (shared->state == IBV_QPS_RESET || shared->state == IBV_QPS_ERR)
        return;
    shared->state = IBV_QPS_ERR;
    net_qp_flush_receives(mock_self.net, shared);
    if (qp != NULL) /* otherwise its process does that when it looks at what waits there */
        mock_send_progress(qp);
}

/** @return 0 or an errno */
static int check_init(const struct ibv_qp_init_attr_ex *init, unsigned device)
{
    const struct ibv_qp_cap *cap = &init->cap;
    if (init->qp_type != IBV_QPT_RC || init->srq != NULL)
        return EOPNOTSUPP;
    if (init->send_cq == NULL || init->recv_cq == NULL ||
        cap->max_send_wr > mock_self.options.device[device].depth ||
        cap->max_recv_wr > mock_self.options.device[device].depth ||
        cap->max_send_sge > mock_self.options.device[device].sges ||
        cap->max_recv_sge > mock_self.options.device[device].sges ||
        cap->max_inline_data > mock_self.options.device[device].inline_bytes)
        return EINVAL;
    return 0;
}

static struct mock_qp *allocate(const struct ibv_qp_init_attr_ex *init)
{
    const struct ibv_qp_cap *cap = &init->cap;
    struct mock_qp *qp = calloc(1, sizeof(*qp));
    if (qp == NULL)
        return NULL;
    qp->cap = *cap;
    qp->signal_all = init->sq_sig_all != 0;
    qp->sends = calloc(cap->max_send_wr + 1, sizeof(*qp->sends));
    qp->inlined = calloc(cap->max_send_wr + 1, cap->max_inline_data + 1);
    if (qp->sends != NULL && qp->inlined != NULL)
        return qp;
    free(qp->sends);
    free(qp->inlined);
    free(qp);
    errno = ENOMEM;
    return NULL;
}

static void unallocate(struct mock_qp *qp)
{
    free(qp->sends);
    free(qp->inlined);
    free(qp);
}

/** Give it its place in the network. */
static bool enter(struct mock_qp *qp, const struct ibv_qp_init_attr_ex *init,
                  const struct mock_context *context)
{
    struct mock_cq *send_cq = (struct mock_cq *)init->send_cq;
    struct mock_cq *receive_cq = (struct mock_cq *)init->recv_cq;
    net_lock(mock_self.net);
    int32_t index = net_take_qp(mock_self.net);
    if (index >= 0) {
        struct net_qp *shared = &mock_self.net->qps[index];
        shared->context = context->index;
        shared->device = context->device->number;
        shared->pd = init->pd->handle;
        shared->send_cq = send_cq->index;
        shared->receive_cq = receive_cq->index;
        shared->probe = (uintptr_t)qp;
        shared->rq_depth = init->cap.max_recv_wr;
        qp->net = shared;
        qp->ex.qp_base.qp_num = qp->ex.qp_base.handle = shared->qpn;
        mock_self.net->cqs[send_cq->index].users++;
        mock_self.net->cqs[receive_cq->index].users++;
        ((struct mock_pd *)init->pd)->users++;
        mock_self.qps[index] = qp;
        mock_self.counts.qps++;
    }
    net_unlock(mock_self.net);
    return index >= 0;
}

struct ibv_qp *mock_create_qp_ex(struct ibv_context *base, struct ibv_qp_init_attr_ex *init)
{
    const struct mock_context *context = (const struct mock_context *)verbs_get_ctx(base);
    uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    bool wr = (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if (mock_call_fails("ibv_create_qp"))
        return NULL;
    int error =
        (init->comp_mask & ~known) != 0 || (wr && (init->send_ops_flags & ~(uint64_t)SEND_OPS))
            ? EOPNOTSUPP
            : check_init(init, context->device->index);
    if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0)
        error = EINVAL;
    struct mock_qp *qp = error == 0 ? allocate(init) : NULL;
    if (qp == NULL) {
        errno = error != 0 ? error : errno;
        return NULL;
    }
    if (!enter(qp, init, context)) {
        unallocate(qp);
        errno = ENOMEM;
        return NULL;
    }
    struct ibv_qp *as = &qp->ex.qp_base;
    as->context = base;
    as->qp_context = init->qp_context;
    as->pd = init->pd;
    as->send_cq = init->send_cq;
    as->recv_cq = init->recv_cq;
    as->qp_type = init->qp_type;
    as->state = IBV_QPS_RESET;
    if (wr)
        mock_post_install(qp, init->send_ops_flags);
    return as;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct ibv_qp_init_attr_ex all = {
        .qp_context = init->qp_context,
        .send_cq = init->send_cq,
        .recv_cq = init->recv_cq,
        .srq = init->srq,
        .cap = init->cap,
        .qp_type = init->qp_type,
        .sq_sig_all = init->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };
    return mock_create_qp_ex(pd->context, &all);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return ((struct mock_qp *)qp)->has_wr ? &((struct mock_qp *)qp)->ex : NULL;
}

int ibv_destroy_qp(struct ibv_qp *base)
{
    struct mock_qp *qp = (struct mock_qp *)base;
    struct net *net = mock_self.net;
    net_lock(net);
    struct net_qp *shared = qp->net;
    net_forget(net, shared->send_cq, shared->qpn);
    net_forget(net, shared->receive_cq, shared->qpn);
    net->cqs[shared->send_cq].users--;
    net->cqs[shared->receive_cq].users--;
    ((struct mock_pd *)base->pd)->users--;
    mock_self.qps[shared->qpn % MOCK_QPS] = NULL;
    mock_self.counts.qps--;
    shared->pid = 0;
    net_unlock(net);
    unsigned events = mock_await_acks(&qp->events);
    if (events > 0)
        mock_misuse("ibv_destroy_qp with %u events not acknowledged would never return", events);
    unallocate(qp);
    return 0;
}

/** On Ethernet the address of a peer is resolved when a queue pair learns its GID. */
static bool is_resolved(const union ibv_gid *gid)
{
    for (uint32_t device = 0; device < MOCK_HOSTS * MOCK_DEVICES; device++)
        for (unsigned number = 1; number <= MOCK_PORTS; number++) {
            const struct net_port *port = mock_port(device, number);
            for (unsigned i = 0; port != NULL && i < MOCK_GIDS; i++)
                if (memcmp(&port->gids[i], gid, sizeof(*gid)) == 0)
                    return true;
        }
    return false;
}

/** Values, as far as the mask has them. @return 0 or an errno */
static int check_values(const struct net_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    unsigned number = (mask & IBV_QP_PORT) != 0 ? attr->port_num : qp->attr.port_num;
    const struct net_port *port = mock_port(qp->device, number);
    if ((mask & IBV_QP_STATE) == 0 || attr->qp_state == IBV_QPS_RESET ||
        attr->qp_state == IBV_QPS_ERR)
        return 0;
    if (port == NULL || ((mask & IBV_QP_PKEY_INDEX) != 0 && attr->pkey_index >= MOCK_PKEYS) ||
        ((mask & IBV_QP_PATH_MTU) != 0 &&
         (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > port->mtu)) ||
        ((mask & IBV_QP_TIMEOUT) != 0 && attr->timeout > 31) ||
        ((mask & IBV_QP_RETRY_CNT) != 0 && attr->retry_cnt > 7) ||
        ((mask & IBV_QP_RNR_RETRY) != 0 && attr->rnr_retry > 7) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && attr->min_rnr_timer > 31) ||
        ((mask & IBV_QP_DEST_QPN) != 0 && attr->dest_qp_num >= 1u << 24))
        return EINVAL;
    if ((mask & IBV_QP_AV) == 0)
        return 0;
    const struct ibv_ah_attr *to = &attr->ah_attr;
    bool eth = port->link_layer == IBV_LINK_LAYER_ETHERNET;
    bool no_gid = to->is_global && to->grh.sgid_index >= MOCK_GIDS;
    if (to->port_num != number || (eth && !to->is_global) || no_gid || to->sl > 15)
        return EINVAL;
    return eth && !is_resolved(&to->grh.dgid) ? ETIMEDOUT : 0;
}

static int check_step(enum ibv_qp_state from, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
    int rest = mask & ~IBV_QP_STATE;
    if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
        return rest == 0 ? 0 : EINVAL;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i].from == from && steps[i].to == to)
            return (rest & steps[i].must) == steps[i].must &&
                           (rest & ~(steps[i].must | steps[i].may)) == 0
                       ? 0
                       : EINVAL;
    return EINVAL;
}

/* What is set, attribute by attribute. */
static void take_values(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define TAKE(bit, member)    \
    if ((mask & (bit)) != 0) \
        to->member = from->member;
    TAKE(IBV_QP_PKEY_INDEX, pkey_index)
    TAKE(IBV_QP_PORT, port_num)
    TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags)
    TAKE(IBV_QP_AV, ah_attr)
    TAKE(IBV_QP_PATH_MTU, path_mtu)
    TAKE(IBV_QP_DEST_QPN, dest_qp_num)
    TAKE(IBV_QP_RQ_PSN, rq_psn)
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer)
    TAKE(IBV_QP_TIMEOUT, timeout)
    TAKE(IBV_QP_RETRY_CNT, retry_cnt)
    TAKE(IBV_QP_RNR_RETRY, rnr_retry)
    TAKE(IBV_QP_SQ_PSN, sq_psn)
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
#undef TAKE
}

/** All that was posted, or completed and not polled, is forgotten. Locked. */
static void reset(struct mock_qp *qp)
{
    struct net_qp *shared = qp->net;
    net_forget(mock_self.net, shared->send_cq, shared->qpn);
    net_forget(mock_self.net, shared->receive_cq, shared->qpn);
    shared->attr = (struct ibv_qp_attr){0};
    shared->rq_next = shared->rq_tail = shared->rq_freed = 0;
    qp->sq_next = qp->sq_tail = 0;
    atomic_store(&qp->sq_freed, 0);
    qp->since_ns = qp->ready_ns = 0;
    qp->waits = qp->fails = false;
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    struct mock_qp *qp = (struct mock_qp *)base;
    if (mock_call_fails("ibv_modify_qp"))
        return errno;
    net_lock(mock_self.net);
    int error = check_step(qp->net->state, attr, mask);
    if (error == 0)
        error = check_values(qp->net, attr, mask);
    if (error == 0) {
        take_values(&qp->net->attr, attr, mask);
        if ((mask & IBV_QP_STATE) != 0) {
            if (attr->qp_state == IBV_QPS_ERR)
                mock_qp_to_error(qp->net);
            if (attr->qp_state == IBV_QPS_RESET)
                reset(qp);
            base->state = qp->net->state = attr->qp_state;
        }
    }
    net_unlock(mock_self.net);
    return error;
}

int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    struct mock_qp *qp = (struct mock_qp *)base;
    (void)mask;
    net_lock(mock_self.net);
    *attr = qp->net->attr;
    attr->qp_state = attr->cur_qp_state = base->state = qp->net->state;
    attr->cap = qp->cap;
    net_unlock(mock_self.net);
    *init = (struct ibv_qp_init_attr){
        .qp_context = base->qp_context,
        .send_cq = base->send_cq,
        .recv_cq = base->recv_cq,
        .cap = qp->cap,
        .qp_type = base->qp_type,
        .sq_sig_all = qp->signal_all,
    };
    return 0;
}
