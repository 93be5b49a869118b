/* SPDX-License-Identifier: Apache-2.0 */
/** Completions are polled, the old way or field by field. */
#include <errno.h>

#include "tests/provider/mock/mock_inside.h"

static struct net_cq *shared_of(const struct mock_cq *cq)
{
    return &mock_self.net->cqs[cq->index];
}

/** The queue that a completion comes from has room again. Locked. */
static void give_back(const struct net_cqe *cqe)
{
    struct mock_qp *qp = mock_qp_of(cqe->qpn);
    if (qp == NULL)
        return;
    if (cqe->is_receive)
        qp->net->rq_freed = cqe->frees;
    else
        atomic_store(&qp->sq_freed, cqe->frees);
}

static bool is_empty(const struct net_cq *cq)
{
    return atomic_load_explicit(&cq->tail, memory_order_acquire) ==
           atomic_load_explicit(&cq->head, memory_order_relaxed);
}

/** Locked, and not empty. */
static const struct net_cqe *take(struct mock_cq *cq)
{
    struct net_cq *shared = shared_of(cq);
    uint32_t head = atomic_load(&shared->head);
    const struct net_cqe *cqe = &mock_self.net->cqes[cq->index][head % MOCK_CQE_MAX];
    give_back(cqe);
    atomic_store(&shared->head, head + 1);
    mock_self.counts.completions++;
    return cqe;
}

int mock_poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wcs)
{
    struct mock_cq *cq = (struct mock_cq *)base;
    int got = 0;
    if (is_empty(shared_of(cq)))
        return 0;
    net_lock(mock_self.net);
    for (; got < n && !is_empty(shared_of(cq)); got++) {
        const struct net_cqe *from = take(cq);
        wcs[got] = (struct ibv_wc){.wr_id = from->wr_id,
                                   .status = from->status,
                                   .opcode = from->opcode,
                                   .vendor_err = from->vendor_err,
                                   .byte_len = from->byte_len,
                                   .imm_data = from->imm,
                                   .qp_num = from->qpn,
                                   .src_qp = from->src_qpn,
                                   .wc_flags = from->flags};
    }
    net_unlock(mock_self.net);
    return got;
}

static int next_poll(struct ibv_cq_ex *ex)
{
    struct mock_cq *cq = (struct mock_cq *)ex;
    if (is_empty(shared_of(cq)))
        return ENOENT;
    net_lock(mock_self.net);
    cq->current = *take(cq);
    net_unlock(mock_self.net);
    ex->wr_id = cq->current.wr_id;
    ex->status = cq->current.status;
    return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    return attr->comp_mask != 0 ? EINVAL : next_poll(ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
    (void)ex;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return ((struct mock_cq *)ex)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
    return ((struct mock_cq *)ex)->current.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
    return ((struct mock_cq *)ex)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
    return ((struct mock_cq *)ex)->current.imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
    return ((struct mock_cq *)ex)->current.qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
    return ((struct mock_cq *)ex)->current.src_qpn;
}

static unsigned read_wc_flags(struct ibv_cq_ex *ex)
{
    return ((struct mock_cq *)ex)->current.flags;
}

/** Only those that were asked for: reading others must fail here as it would elsewhere. */
void mock_poll_install(struct ibv_cq_ex *ex, uint64_t wc_flags)
{
    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
    if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
        ex->read_byte_len = read_byte_len;
    if (wc_flags & IBV_WC_EX_WITH_IMM)
        ex->read_imm_data = read_imm_data;
    if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
        ex->read_qp_num = read_qp_num;
    if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
        ex->read_src_qp = read_src_qp;
}
