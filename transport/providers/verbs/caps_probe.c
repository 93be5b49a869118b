/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "transport/providers/verbs/library.h"

#define TRY_ENTRIES 4
#define TRY_MORE (64u << 10) /* bytes beyond the limit */
#define LOCK_ENOUGH \
    (64u << 20)        /* bytes: where so many may be locked, that is for the user to raise */
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

/** The inline bytes that a queue pair gets if it asks for so many; -1 where it is refused. */
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

void wring_verbs_caps_probe(const struct verbs_library *library, struct ibv_context *context,
                            const struct ibv_device_attr *attr, struct verbs_caps *out)
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

/** @return 0 or an errno */
static int try_register(const struct verbs_library *library, const char *device, void *memory,
                        size_t bytes)
{
    int error = 0;
    struct ibv_context *context = wring_verbs_open_named(library, device);
    if (context == NULL)
        return errno;
    struct ibv_pd *pd = library->alloc_pd(context);
    struct ibv_mr *mr =
        pd != NULL ? library->reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE) : NULL;
    if (mr == NULL)
        error = errno != 0 ? errno : EIO;
    else
        library->dereg_mr(mr);
    if (pd != NULL)
        library->dealloc_pd(pd);
    library->close_device(context);
    return error;
}

bool wring_verbs_may_lock(const struct verbs_library *library, const char *device, char *reason,
                          size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= LOCK_ENOUGH)
        return true;
    size_t more = (size_t)limit.rlim_cur + TRY_MORE;
    void *memory = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return true; /* no sign of anything */
    int error = try_register(library, device, memory, more);
    munmap(memory, more);
    if (error != 0)
        snprintf(reason, bytes, "%s registers no %zu KiB: %s (ulimit -l is %zu)", device,
                 more / 1024, strerrordesc_np(error), (size_t)limit.rlim_cur / 1024);
    return error == 0;
}
