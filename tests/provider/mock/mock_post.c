/* SPDX-License-Identifier: Apache-2.0 */
/** Posting: requests in chains, or built one by one, checked and put into their queues. */
#include <errno.h>

#include "tests/provider/mock/mock_inside.h"

/* ---- the send queue ---- */

static bool has_room(const struct mock_qp *qp, uint32_t drafts)
{
    return qp->sq_tail + drafts - atomic_load(&qp->sq_freed) < qp->cap.max_send_wr;
}

static struct mock_request *slot_of(const struct mock_qp *qp, uint32_t at)
{
    return &qp->sends[at % qp->cap.max_send_wr];
}

static uint8_t *inline_room_of(const struct mock_qp *qp, uint32_t at)
{
    return qp->inlined + (size_t)(at % qp->cap.max_send_wr) * qp->cap.max_inline_data;
}

/** Keep the pieces, or what they hold. @return 0 or an errno */
static int set_pieces(const struct mock_qp *qp, struct mock_request *request, uint32_t at,
                      const struct ibv_sge *pieces, size_t n)
{
    uint8_t *to = inline_room_of(qp, at);
    if (n > qp->cap.max_send_sge)
        return EINVAL;
    request->pieces = (unsigned)n;
    request->inline_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        request->piece[i] = pieces[i];
        if ((request->flags & IBV_SEND_INLINE) == 0)
            continue;
        if (pieces[i].length > qp->cap.max_inline_data - request->inline_bytes)
            return EINVAL;
        net_copy_words((uintptr_t)to + request->inline_bytes, pieces[i].addr, pieces[i].length);
        request->inline_bytes += pieces[i].length;
    }
    return 0;
}

static bool is_known(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
           opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

static int add(struct mock_qp *qp, const struct ibv_send_wr *wr)
{
    if (!has_room(qp, 0))
        return ENOMEM;
    struct mock_request *request = slot_of(qp, qp->sq_tail);
    if (!is_known(wr->opcode) || wr->num_sge < 0 ||
        (wr->opcode == IBV_WR_RDMA_READ && (wr->send_flags & IBV_SEND_INLINE) != 0))
        return EINVAL;
    *request = (struct mock_request){
        .wr_id = wr->wr_id,
        .opcode = wr->opcode,
        .flags = wr->send_flags,
        .imm = wr->imm_data,
        .rkey = wr->wr.rdma.rkey,
        .remote = wr->wr.rdma.remote_addr,
    };
    return set_pieces(qp, request, qp->sq_tail, wr->sg_list, (size_t)wr->num_sge);
}

/** A delay of its own for each, which keeps them in order. Locked. */
static uint64_t when_ready(struct mock_qp *qp)
{
    static uint32_t random = 1;
    const struct mock_options *options = &mock_self.options;
    if (options->delay_us == 0 && options->jitter_us == 0)
        return 0;
    random = random * 1664525 + 1013904223;
    uint64_t us = options->delay_us + (random >> 8) % (options->jitter_us + 1);
    uint64_t at = mock_now_ns() + us * 1000;
    qp->ready_ns = at > qp->ready_ns ? at : qp->ready_ns;
    return qp->ready_ns;
}

/** The request in the next slot is posted. Locked. */
static void accept(struct mock_qp *qp)
{
    struct mock_request *request = slot_of(qp, qp->sq_tail++);
    struct mock_counts *counts = &mock_self.counts;
    request->ready_ns = when_ready(qp);
    counts->writes += request->opcode <= IBV_WR_RDMA_WRITE_WITH_IMM;
    counts->sends += request->opcode == IBV_WR_SEND || request->opcode == IBV_WR_SEND_WITH_IMM;
    counts->reads += request->opcode == IBV_WR_RDMA_READ;
    counts->inlined += (request->flags & IBV_SEND_INLINE) != 0;
    counts->signalled += qp->signal_all || (request->flags & IBV_SEND_SIGNALED) != 0;
}

static bool may_send(const struct mock_qp *qp)
{
    return qp->net->state == IBV_QPS_RTS || qp->net->state == IBV_QPS_ERR;
}

int mock_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct mock_qp *qp = (struct mock_qp *)base;
    net_lock(mock_self.net);
    int error = may_send(qp) ? 0 : EINVAL;
    mock_self.counts.send_doorbells++;
    for (; wr != NULL && error == 0; wr = wr->next) {
        error = add(qp, wr);
        if (error != 0)
            break;
        accept(qp);
    }
    if (error != 0)
        *bad = wr;
    mock_send_progress(qp);
    net_unlock(mock_self.net);
    return error;
}

/* ---- the same, built by ibv_wr_* ---- */

static void wr_start(struct ibv_qp_ex *ex)
{
    ((struct mock_qp *)ex)->draft = 0;
    ((struct mock_qp *)ex)->draft_error = 0;
}

static void begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote,
                  uint32_t imm)
{
    struct mock_qp *qp = (struct mock_qp *)ex;
    if (qp->draft_error == 0 && !has_room(qp, qp->draft))
        qp->draft_error = ENOMEM;
    if (qp->draft_error != 0)
        return;
    *slot_of(qp, qp->sq_tail + qp->draft++) = (struct mock_request){
        .wr_id = ex->wr_id,
        .opcode = opcode,
        .flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE,
        .imm = imm,
        .rkey = rkey,
        .remote = remote,
    };
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
    begin(ex, IBV_WR_RDMA_WRITE, rkey, remote, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, __be32 imm)
{
    begin(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
    begin(ex, IBV_WR_RDMA_READ, rkey, remote, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
    begin(ex, IBV_WR_SEND, 0, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    begin(ex, IBV_WR_SEND_WITH_IMM, 0, 0, imm);
}

/** Pieces of the request begun last. */
static void set(struct ibv_qp_ex *ex, unsigned flags, const struct ibv_sge *pieces, size_t n)
{
    struct mock_qp *qp = (struct mock_qp *)ex;
    if (qp->draft_error != 0)
        return;
    uint32_t at = qp->sq_tail + qp->draft - 1;
    struct mock_request *request = slot_of(qp, at);
    request->flags |= flags;
    qp->draft_error = qp->draft == 0 ? EINVAL : set_pieces(qp, request, at, pieces, n);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t bytes)
{
    struct ibv_sge piece = {addr, bytes, lkey};
    set(ex, 0, &piece, 1);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *pieces)
{
    set(ex, 0, pieces, n);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t bytes)
{
    struct ibv_sge piece = {(uintptr_t)addr, (uint32_t)bytes, 0};
    set(ex, IBV_SEND_INLINE, &piece, 1);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
                                    const struct ibv_data_buf *buffers)
{
    struct ibv_sge pieces[MOCK_SGES];
    for (size_t i = 0; i < n && i < MOCK_SGES; i++)
        pieces[i] = (struct ibv_sge){(uintptr_t)buffers[i].addr, (uint32_t)buffers[i].length, 0};
    set(ex, IBV_SEND_INLINE, pieces, n);
}

/** All of them, or none. */
static int wr_complete(struct ibv_qp_ex *ex)
{
    struct mock_qp *qp = (struct mock_qp *)ex;
    net_lock(mock_self.net);
    int error = qp->draft_error != 0 ? qp->draft_error : may_send(qp) ? 0 : EINVAL;
    mock_self.counts.send_doorbells++;
    for (uint32_t n = qp->draft; n > 0 && error == 0; n--)
        accept(qp);
    qp->draft = 0;
    mock_send_progress(qp);
    net_unlock(mock_self.net);
    return error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    ((struct mock_qp *)ex)->draft = 0;
}

/** Only what was asked for, so that other calls fail as they may elsewhere. */
void mock_post_install(struct mock_qp *qp, uint64_t ops)
{
    struct ibv_qp_ex *ex = &qp->ex;
    qp->has_wr = true;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
        ex->wr_rdma_write = wr_rdma_write;
    if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
        ex->wr_rdma_write_imm = wr_rdma_write_imm;
    if (ops & IBV_QP_EX_WITH_RDMA_READ)
        ex->wr_rdma_read = wr_rdma_read;
    if (ops & IBV_QP_EX_WITH_SEND)
        ex->wr_send = wr_send;
    if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
        ex->wr_send_imm = wr_send_imm;
}

/* ---- the receive queue ---- */

static int add_receive(struct mock_qp *qp, const struct ibv_recv_wr *wr)
{
    struct net_qp *shared = qp->net;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
        return EINVAL;
    if (shared->rq_tail - shared->rq_freed == shared->rq_depth)
        return ENOMEM;
    struct net_receive *to =
        &mock_self.net->receives[shared->qpn % MOCK_QPS][shared->rq_tail % MOCK_WR_MAX];
    to->wr_id = wr->wr_id;
    to->pieces = (uint32_t)wr->num_sge;
    for (int i = 0; i < wr->num_sge; i++)
        to->piece[i] = wr->sg_list[i];
    shared->rq_tail++;
    mock_self.counts.receives++;
    return 0;
}

int mock_post_receive(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct mock_qp *qp = (struct mock_qp *)base;
    net_lock(mock_self.net);
    int error = qp->net->state == IBV_QPS_RESET ? EINVAL : 0;
    mock_self.counts.receive_doorbells++;
    for (; wr != NULL && error == 0; wr = wr->next) {
        error = add_receive(qp, wr);
        if (error != 0)
            break;
    }
    if (error != 0)
        *bad = wr;
    if (qp->net->state == IBV_QPS_ERR)
        net_qp_flush_receives(mock_self.net, qp->net);
    net_unlock(mock_self.net);
    return error;
}
