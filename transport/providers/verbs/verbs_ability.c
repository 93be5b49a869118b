/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_ability.h"

#include <errno.h>

#define TRY_ENTRIES 4
#define TRY_INLINE 220 /* bytes: the default of WRING_VERBS_INLINE_BYTES */

bool wring_verbs_takes_dmabuf(const struct verbs_library *library, struct ibv_pd *pd)
{
    if (library->reg_dmabuf_mr == NULL)
        return false;
    struct ibv_mr *mr = library->reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    if (mr == NULL)
        return errno == EBADF;
    library->dereg_mr(mr); /* it took what is no descriptor: nothing to rely on */
    return false;
}

static bool has_extended_cq(const struct verbs_library *library, struct ibv_context *context)
{
    struct verbs_context *extended = __extension__ verbs_get_ctx_op(context, create_cq_ex);
    struct ibv_cq_init_attr_ex attr = {.cqe = TRY_ENTRIES,
                                       .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM};
    if (extended == NULL)
        return false;
    struct ibv_cq_ex *cq = extended->create_cq_ex(context, &attr);
    if (cq != NULL)
        library->destroy_cq(ibv_cq_ex_to_cq(cq));
    return cq != NULL;
}

static bool has_wr_calls(const struct verbs_library *library, struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct verbs_context *extended = __extension__ verbs_get_ctx_op(pd->context, create_qp_ex);
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = TRY_ENTRIES,
                .max_recv_wr = TRY_ENTRIES,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags =
            IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
    };
    if (extended == NULL)
        return false;
    struct ibv_qp *qp = extended->create_qp_ex(pd->context, &attr);
    if (qp != NULL)
        library->destroy_qp(qp);
    return qp != NULL;
}

/** What a queue pair is granted that asks for so much; -1 where it is refused. */
static int64_t ask_inline(const struct verbs_library *library, struct ibv_pd *pd, struct ibv_cq *cq,
                          uint32_t bytes)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = TRY_ENTRIES,
                .max_recv_wr = TRY_ENTRIES,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = bytes},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *qp = library->create_qp(pd, &attr);
    if (qp == NULL)
        return -1;
    library->destroy_qp(qp);
    return attr.cap.max_inline_data;
}

/** Devices refuse what is too much without saying how much is not. */
static uint32_t try_inline(const struct verbs_library *library, struct ibv_pd *pd,
                           struct ibv_cq *cq)
{
    static const uint32_t sizes[] = {TRY_INLINE, 128, 64, 32};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int64_t granted = ask_inline(library, pd, cq, sizes[i]);
        if (granted >= 0)
            return (uint32_t)granted;
    }
    return 0;
}

void wring_verbs_try_abilities(const struct verbs_library *library, struct ibv_context *context,
                               const struct ibv_device_attr *attr, struct verbs_abilities *out)
{
    out->max_queue_pairs = (uint32_t)attr->max_qp;
    out->max_region_bytes = attr->max_mr_size;
    out->extended_cq = has_extended_cq(library, context);
    struct ibv_pd *pd = library->alloc_pd(context);
    struct ibv_cq *cq = library->create_cq(context, TRY_ENTRIES, NULL, NULL, 0);
    if (pd != NULL)
        out->dmabuf = wring_verbs_takes_dmabuf(library, pd);
    if (pd != NULL && cq != NULL) {
        out->wr_calls = has_wr_calls(library, pd, cq);
        out->inline_bytes = try_inline(library, pd, cq);
    }
    if (cq != NULL)
        library->destroy_cq(cq);
    if (pd != NULL)
        library->dealloc_pd(pd);
}
