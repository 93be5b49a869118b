/* SPDX-License-Identifier: Apache-2.0 */
/* The reference plugin's tables: each version's arguments, brought to those of the newest. */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/reference_own.h"

#define EXPORT __attribute__((visibility("default")))

bool reference_broken(const char *how)
{
    const char *set = getenv("REFERENCE_BREAK");
    return set != NULL && strcmp(set, how) == 0;
}

bool reference_has_no_device(void)
{
    return getenv("REFERENCE_NO_DEVICE") != NULL;
}

static int init_12(void **context, uint64_t comm_id, struct wring_nccl_config *config,
                   wring_nccl_log_fn log, wring_nccl_profiler_fn profiler)
{
    (void)comm_id, (void)config, (void)profiler;
    return reference_init(context, log);
}

static int coll_init(void **context, uint64_t comm_id, wring_nccl_log_fn log)
{
    (void)comm_id;
    return reference_init(context, log);
}

static int init_8(wring_nccl_log_fn log)
{
    void *context = NULL;
    int result = reference_init(&context, log);
    free(context);
    return result;
}

static int get_properties_12(int device, struct wring_nccl_properties_v12 *properties)
{
    if (device != 0)
        return WRING_NCCL_INVALID_ARGUMENT;
    *properties = reference_properties();
    return WRING_NCCL_SUCCESS;
}

static int get_properties_11(int device, struct wring_nccl_properties_v11 *properties)
{
    const struct wring_nccl_properties_v12 all = reference_properties();

    if (device != 0)
        return WRING_NCCL_INVALID_ARGUMENT;
    *properties = (struct wring_nccl_properties_v11){
        .name = all.name,
        .guid = all.guid,
        .memory = all.memory,
        .speed_mbps = all.speed_mbps,
        .port = all.port,
        .latency_us = all.latency_us,
        .max_comms = all.max_comms,
        .max_recvs = all.max_recvs,
        .parts = {1, {0}},
        .max_p2p_bytes = all.max_p2p_bytes,
        .max_coll_bytes = all.max_coll_bytes,
    };
    return WRING_NCCL_SUCCESS;
}

static int get_properties_8(int device, struct wring_nccl_properties_v8 *properties)
{
    const struct wring_nccl_properties_v12 all = reference_properties();

    if (device != 0)
        return WRING_NCCL_INVALID_ARGUMENT;
    *properties = (struct wring_nccl_properties_v8){
        .name = all.name,
        .guid = all.guid,
        .memory = all.memory,
        .speed_mbps = reference_broken("properties") ? -1 : all.speed_mbps,
        .port = all.port,
        .latency_us = all.latency_us,
        .max_comms = all.max_comms,
        .max_recvs = all.max_recvs,
    };
    return WRING_NCCL_SUCCESS;
}

static int listen_12(void *context, int device, void *handle, void **listen_comm)
{
    (void)context, (void)device;
    return reference_net_listen(handle, listen_comm);
}

static int listen_8(int device, void *handle, void **listen_comm)
{
    (void)device;
    return reference_net_listen(handle, listen_comm);
}

static int connect_12(void *context, int device, void *handle, void **send_comm,
                      struct wring_nccl_device_handle **device_handle)
{
    (void)context, (void)device, (void)device_handle;
    return reference_net_connect(handle, send_comm);
}

static int connect_8(int device, void *handle, void **send_comm,
                     struct wring_nccl_device_handle **device_handle)
{
    (void)device, (void)device_handle;
    return reference_net_connect(handle, send_comm);
}

static int isend_12(void *comm, void *data, size_t bytes, int tag, void *mhandle, void *phandle,
                    void **request)
{
    (void)phandle;
    return reference_net_isend(comm, data, bytes, tag, mhandle, request);
}

static int isend_8(void *comm, void *data, int bytes, int tag, void *mhandle, void **request)
{
    return reference_net_isend(comm, data, (size_t)bytes, tag, mhandle, request);
}

static int irecv_12(void *comm, int n, void **data, size_t *bytes, int *tags, void **mhandles,
                    void **phandles, void **request)
{
    (void)phandles;
    return reference_net_irecv(comm, n, data, bytes, tags, mhandles, request);
}

static int irecv_8(void *comm, int n, void **data, int *bytes, int *tags, void **mhandles,
                   void **request)
{
    size_t sizes[64];

    for (int i = 0; i < n && i < 64; i++)
        sizes[i] = reference_broken("old-sizes") ? (size_t)bytes[0] : (size_t)bytes[i];
    return reference_net_irecv(comm, n, data, sizes, tags, mhandles, request);
}

static int coll_listen_12(void *context, int device, void *handle, void **listen_comm)
{
    (void)context, (void)device;
    return reference_coll_listen(handle, listen_comm);
}

static int coll_listen_8(int device, void *handle, void **listen_comm)
{
    (void)device;
    return reference_coll_listen(handle, listen_comm);
}

static int iallreduce_12(void *comm, void *send, void *recv, size_t elems, int dtype, int op,
                         void *send_mhandle, void *recv_mhandle, void **request)
{
    (void)send_mhandle, (void)recv_mhandle;
    return reference_coll_iallreduce(comm, send, recv, elems, dtype, op, request);
}

static int iallreduce_8(void *comm, void *send, void *recv, int elems, int dtype, int op,
                        void *send_mhandle, void *recv_mhandle, void **request)
{
    (void)send_mhandle, (void)recv_mhandle;
    return reference_coll_iallreduce(comm, send, recv, (size_t)elems, dtype, op, request);
}

static int iallgather_12(void *comm, void *send, int n_parts, struct wring_nccl_part *recv,
                         size_t bytes_per_rank, size_t window, size_t window_bytes,
                         void *send_mhandle, void **request)
{
    (void)n_parts, (void)send_mhandle;
    return reference_coll_iallgather(comm, send, recv->address, bytes_per_rank, window,
                                     window_bytes, request);
}

static int iallgather_8(void *comm, void *send, int n_parts, struct wring_nccl_part_v8 *recv,
                        size_t bytes_per_rank, size_t window, size_t window_bytes,
                        void *send_mhandle, void **request)
{
    (void)n_parts, (void)send_mhandle;
    return reference_coll_iallgather(comm, send, recv->address, bytes_per_rank, window,
                                     window_bytes, request);
}

static int ireducescatter_12(void *comm, int n_parts, struct wring_nccl_part *send, void *recv,
                             size_t bytes_per_rank, size_t window, size_t window_bytes, int dtype,
                             int op, void *recv_mhandle, void **request)
{
    (void)n_parts, (void)recv_mhandle;
    return reference_coll_ireducescatter(comm, send->address, recv, bytes_per_rank, window,
                                         window_bytes, dtype, op, request);
}

static int ireducescatter_8(void *comm, int n_parts, struct wring_nccl_part_v8 *send, void *recv,
                            size_t bytes_per_rank, size_t window, size_t window_bytes, int dtype,
                            int op, void *recv_mhandle, void **request)
{
    (void)n_parts, (void)recv_mhandle;
    return reference_coll_ireducescatter(comm, send->address, recv, bytes_per_rank, window,
                                         window_bytes, dtype, op, request);
}

/* What all versions have; a build of its own leaves something out. */
#ifdef REFERENCE_HOLES
#define TEST
#else
#define TEST .test = reference_net_test,
#endif
#define NET                                                                            \
    .name = "reference", .devices = reference_devices, .accept = reference_net_accept, \
    .reg_mr = reference_net_reg_mr, .dereg_mr = reference_net_dereg_mr,                \
    .iflush = reference_net_iflush, TEST.close_send = reference_net_close,             \
    .close_recv = reference_net_close, .close_listen = reference_net_close_listen
#define COLL                                                                              \
    .name = "reference", .devices = reference_devices, .connect = reference_coll_connect, \
    .reduce_support = reference_coll_reduce_support, .reg_mr = reference_coll_reg_mr,     \
    .dereg_mr = reference_coll_dereg_mr, .iflush = reference_coll_iflush,                 \
    .test = reference_coll_test, .close_coll = reference_coll_close,                      \
    .close_listen = reference_coll_close_listen

EXPORT const struct wring_nccl_net_v12 ncclNetPlugin_v12 = {
    NET,
    .init = init_12,
    .get_properties = get_properties_12,
    .listen = listen_12,
    .connect = connect_12,
    .isend = isend_12,
    .irecv = irecv_12,
    .finalize = reference_finalize,
};
EXPORT const struct wring_nccl_net_v11 ncclNetPlugin_v11 = {
    NET,
    .init = init_12,
    .get_properties = get_properties_11,
    .listen = listen_12,
    .connect = connect_12,
    .isend = isend_12,
    .irecv = irecv_12,
    .finalize = reference_finalize,
};
EXPORT const struct wring_nccl_net_v8 ncclNetPlugin_v8 = {
    NET,
    .init = init_8,
    .get_properties = get_properties_8,
    .listen = listen_8,
    .connect = connect_8,
    .isend = isend_8,
    .irecv = irecv_8,
};
EXPORT const struct wring_nccl_coll_v12 ncclCollNetPlugin_v12 = {
    COLL,
    .init = coll_init,
    .get_properties = get_properties_12,
    .listen = coll_listen_12,
    .iallreduce = iallreduce_12,
    .iallgather = iallgather_12,
    .ireducescatter = ireducescatter_12,
    .finalize = reference_finalize,
};
EXPORT const struct wring_nccl_coll_v11 ncclCollNetPlugin_v11 = {
    COLL,
    .init = coll_init,
    .get_properties = get_properties_11,
    .listen = coll_listen_12,
    .iallreduce = iallreduce_12,
    .iallgather = iallgather_12,
    .ireducescatter = ireducescatter_12,
    .finalize = reference_finalize,
};
EXPORT const struct wring_nccl_coll_v8 ncclCollNetPlugin_v8 = {
    COLL,
    .init = init_8,
    .get_properties = get_properties_8,
    .listen = coll_listen_8,
    .iallreduce = iallreduce_8,
    .iallgather = iallgather_8,
    .ireducescatter = ireducescatter_8,
};
