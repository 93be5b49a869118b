/* SPDX-License-Identifier: Apache-2.0 */
/** The two ways to talk to queues: ibv_wr_* with extended completion queues, and the older calls.
 */
#include "transport/providers/verbs/api.h"

#include <arpa/inet.h>
#include <errno.h>

#include "transport/providers/verbs/verbs.h"

static const struct verbs_request *request_at(const struct verbs_path *path, uint32_t position)
{
    return &path->requests[position % VERBS_REQUESTS];
}

/* ---- classic ---- */

static bool classic_make_cq(struct verbs_rail *rail, uint32_t entries)
{
    rail->cq = rail->provider->library.create_cq(rail->context, (int)entries, &rail->seat,
                                                 rail->channel, 0);
    return rail->cq != NULL;
}

static bool classic_make_qp(struct verbs_path *path, struct ibv_qp_init_attr *init)
{
    path->qp = path->rail->provider->library.create_qp(path->rail->pd, init);
    return path->qp != NULL;
}

static void fill_classic(const struct verbs_path *path, uint32_t position, struct ibv_send_wr *to,
                         struct ibv_sge *piece)
{
    static const enum ibv_wr_opcode opcodes[] = {
        [VERBS_PUT] = IBV_WR_RDMA_WRITE_WITH_IMM,
        [VERBS_SEND] = IBV_WR_SEND,
        [VERBS_CREDITS] = IBV_WR_RDMA_WRITE,
    };
    const struct verbs_request *request = request_at(path, position);
    *piece = (struct ibv_sge){(uintptr_t)request->local, request->bytes, request->lkey};
    *to = (struct ibv_send_wr){
        .wr_id = path->id | position,
        .next = to + 1,
        .sg_list = piece,
        .num_sge = request->bytes > 0,
        .opcode = opcodes[request->kind],
        .send_flags =
            (request->signalled ? IBV_SEND_SIGNALED : 0u) | (request->small ? IBV_SEND_INLINE : 0u),
        .imm_data = htonl(request->imm),
        .wr.rdma = {.remote_addr = request->remote, .rkey = request->rkey},
    };
}

static int classic_post(struct verbs_path *path, uint32_t n)
{
    struct ibv_send_wr requests[VERBS_BATCH], *bad;
    struct ibv_sge pieces[VERBS_BATCH];
    for (uint32_t i = 0; i < n; i++)
        fill_classic(path, path->posted + i, &requests[i], &pieces[i]);
    requests[n - 1].next = NULL;
    return ibv_post_send(path->qp, requests, &bad);
}

static int classic_take(struct verbs_rail *rail, struct verbs_completion *out, int max)
{
    struct ibv_wc wcs[VERBS_BATCH];
    int n = ibv_poll_cq(rail->cq, max, wcs);
    for (int i = 0; i < n; i++) {
        out[i] = (struct verbs_completion){
            .id = wcs[i].wr_id, .status = wcs[i].status, .vendor_error = wcs[i].vendor_err};
        if (wcs[i].status != IBV_WC_SUCCESS || (wcs[i].wr_id & VERBS_RECEIVE_ID) == 0)
            continue;
        out[i].bytes = wcs[i].byte_len;
        out[i].has_imm = wcs[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM;
        out[i].imm = out[i].has_imm ? ntohl(wcs[i].imm_data) : 0;
    }
    return n;
}

const struct verbs_api wring_verbs_api_classic = {
    .name = "classic",
    .make_cq = classic_make_cq,
    .make_qp = classic_make_qp,
    .post = classic_post,
    .take = classic_take,
};

/* ---- new ---- */

static bool new_make_cq(struct verbs_rail *rail, uint32_t entries)
{
    struct ibv_cq_init_attr_ex init = {
        .cqe = entries,
        .cq_context = &rail->seat,
        .channel = rail->channel,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM,
    };
    rail->cq_ex = ibv_create_cq_ex(rail->context, &init);
    rail->cq = rail->cq_ex != NULL ? ibv_cq_ex_to_cq(rail->cq_ex) : NULL;
    return rail->cq != NULL;
}

/** As ibv_create_qp_ex, whose inline code wants to be linked with libibverbs. */
static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
    const struct verbs_context *more = verbs_get_ctx(context);
    size_t needed = sizeof(*more) - offsetof(struct verbs_context, create_qp_ex);
    if (more != NULL && more->sz >= needed && more->create_qp_ex != NULL)
        return more->create_qp_ex(context, init);
    errno = EOPNOTSUPP;
    return NULL;
}

static bool new_make_qp(struct verbs_path *path, struct ibv_qp_init_attr *init)
{
    struct ibv_qp_init_attr_ex more = {
        .qp_context = init->qp_context,
        .send_cq = init->send_cq,
        .recv_cq = init->recv_cq,
        .cap = init->cap,
        .qp_type = init->qp_type,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = path->rail->pd,
        .send_ops_flags =
            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND,
    };
    path->qp = create_qp_ex(path->rail->context, &more);
    if (path->qp == NULL)
        return false;
    path->qp_ex = path->rail->provider->library.qp_to_qp_ex(path->qp);
    init->cap = more.cap;
    return true;
}

static void build_new(const struct verbs_path *path, uint32_t position)
{
    const struct verbs_request *request = request_at(path, position);
    struct ibv_qp_ex *qp = path->qp_ex;
    qp->wr_id = path->id | position;
    qp->wr_flags = request->signalled ? IBV_SEND_SIGNALED : 0;
    switch (request->kind) {
    case VERBS_PUT:
        ibv_wr_rdma_write_imm(qp, request->rkey, request->remote, htonl(request->imm));
        break;
    case VERBS_SEND:
        ibv_wr_send(qp);
        break;
    case VERBS_CREDITS:
        ibv_wr_rdma_write(qp, request->rkey, request->remote);
        break;
    }
    if (request->bytes == 0)
        ibv_wr_set_sge_list(qp, 0, NULL);
    else if (request->small)
        ibv_wr_set_inline_data(qp, (void *)(uintptr_t)request->local, request->bytes);
    else
        ibv_wr_set_sge(qp, request->lkey, (uintptr_t)request->local, request->bytes);
}

static int new_post(struct verbs_path *path, uint32_t n)
{
    ibv_wr_start(path->qp_ex);
    for (uint32_t i = 0; i < n; i++)
        build_new(path, path->posted + i);
    return ibv_wr_complete(path->qp_ex);
}

static struct verbs_completion read_new(struct ibv_cq_ex *cq)
{
    struct verbs_completion out = {.id = cq->wr_id, .status = cq->status};
    if (cq->status != IBV_WC_SUCCESS) {
        out.vendor_error = ibv_wc_read_vendor_err(cq);
    } else if ((cq->wr_id & VERBS_RECEIVE_ID) != 0) {
        out.bytes = ibv_wc_read_byte_len(cq);
        out.has_imm = ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM;
        out.imm = out.has_imm ? ntohl(ibv_wc_read_imm_data(cq)) : 0;
    }
    return out;
}

/** A poll is ended by hand, save with soft-RoCE: there, one that finds no more has ended itself,
 * and to end it twice would skip a completion. */
static int new_take(struct verbs_rail *rail, struct verbs_completion *out, int max)
{
    struct ibv_poll_cq_attr attr = {0};
    int n = 0, error = ibv_start_poll(rail->cq_ex, &attr);
    if (error != 0)
        return error == ENOENT ? 0 : -1;
    do
        out[n++] = read_new(rail->cq_ex);
    while (n < max && (error = ibv_next_poll(rail->cq_ex)) == 0);
    if (error == 0 || !rail->empty_poll_ends)
        ibv_end_poll(rail->cq_ex);
    return error == 0 || error == ENOENT ? n : -1;
}

const struct verbs_api wring_verbs_api_new = {
    .name = "new",
    .make_cq = new_make_cq,
    .make_qp = new_make_qp,
    .post = new_post,
    .take = new_take,
};
