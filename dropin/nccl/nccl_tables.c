/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that NCCL takes: versions 12, 11 and 8 of the same. */
#include "dropin/nccl/nccl_own.h"

#define MAX_COMMS 65536
#define EXPORTED __attribute__((visibility("default")))

/* ---- devices ---- */

static int devices(int *n)
{
    if (wring_nccl_check_device(0) != WRING_NCCL_SUCCESS)
        return WRING_NCCL_INVALID_USAGE;
    *n = wring_nccl_own.n_devices;
    return WRING_NCCL_SUCCESS;
}

/** NCCL asks CollNet to make none. */
static int coll_devices(int *n)
{
    if (wring_nccl_check_device(0) != WRING_NCCL_SUCCESS)
        return WRING_NCCL_INVALID_USAGE;
    *n = wring_nccl_own.n_real;
    return WRING_NCCL_SUCCESS;
}

static int properties_v8(int device, struct wring_nccl_properties_v8 *out)
{
    int code = wring_nccl_check_device(device);
    if (code != WRING_NCCL_SUCCESS)
        return code;
    struct wring_nccl_device *known = &wring_nccl_own.devices[device];
    *out = (struct wring_nccl_properties_v8){
        .name = known->name,
        .pci_path = known->pci_path[0] != '\0' ? known->pci_path : NULL,
        .guid = known->guid,
        .memory = WRING_NCCL_HOST | (known->cuda ? WRING_NCCL_CUDA : 0) |
                  (known->dmabuf ? WRING_NCCL_DMABUF : 0),
        .global_registration = !known->cuda, /* then it is of no comm */
        .speed_mbps = known->speed_mbps,
        .port = known->port,
        .max_comms = MAX_COMMS,
        .max_recvs = WRING_NCCL_GROUPED,
        .device_type = WRING_NCCL_DEVICE_HOST,
    };
    return WRING_NCCL_SUCCESS;
}

/** Version 11 has room for 4 of them, and makes none of more. */
#define FILL_PARTS(device, out)                                                              \
    do {                                                                                     \
        const struct wring_nccl_device *whole = &wring_nccl_own.devices[device];             \
        for (int part = 0; part < whole->n_parts &&                                          \
                           part < (int)(sizeof((out)->devices) / sizeof((out)->devices[0])); \
             part++)                                                                         \
            (out)->devices[(out)->n++] = whole->parts[part];                                 \
    } while (0)

/** What versions 11 and 12 have in common. */
#define FILL_PROPERTIES(device, out)                          \
    do {                                                      \
        struct wring_nccl_properties_v8 known;                \
        int code = properties_v8(device, &known);             \
        if (code != WRING_NCCL_SUCCESS)                       \
            return code;                                      \
        *(out) = (__typeof__(*(out))){                        \
            .name = known.name,                               \
            .pci_path = known.pci_path,                       \
            .guid = known.guid,                               \
            .memory = known.memory,                           \
            .global_registration = known.global_registration, \
            .speed_mbps = known.speed_mbps,                   \
            .port = known.port,                               \
            .max_comms = known.max_comms,                     \
            .max_recvs = known.max_recvs,                     \
            .device_type = known.device_type,                 \
            .max_p2p_bytes = WRING_NCCL_BYTES_MAX,            \
            .max_coll_bytes = WRING_NCCL_BYTES_MAX,           \
            .max_multi_request = 1,                           \
        };                                                    \
        FILL_PARTS(device, &(out)->parts);                    \
    } while (0)

static int properties_v11(int device, struct wring_nccl_properties_v11 *out)
{
    FILL_PROPERTIES(device, out);
    return WRING_NCCL_SUCCESS;
}

static int properties_v12(int device, struct wring_nccl_properties_v12 *out)
{
    FILL_PROPERTIES(device, out);
    out->rail = out->plane = WRING_NCCL_UNDEFINED;
    return WRING_NCCL_SUCCESS;
}

/* ---- ncclNet ---- */

static int make_vdevice_v11(int *device, struct wring_nccl_parts_v11 *parts)
{
    return wring_nccl_devices_fuse(device, parts->n, parts->devices);
}

static int make_vdevice_v12(int *device, struct wring_nccl_parts_v12 *parts)
{
    return wring_nccl_devices_fuse(device, parts->n, parts->devices);
}

static int net_init_v12(void **context, uint64_t comm_id, struct wring_nccl_config *config,
                        wring_nccl_log_fn log, wring_nccl_profiler_fn profiler)
{
    (void)comm_id, (void)config, (void)profiler;
    *context = &wring_nccl_own;
    return wring_nccl_init(log, "ncclNet v12", true);
}

static int net_init_v11(void **context, uint64_t comm_id, struct wring_nccl_config *config,
                        wring_nccl_log_fn log, wring_nccl_profiler_fn profiler)
{
    (void)comm_id, (void)config, (void)profiler;
    *context = &wring_nccl_own;
    return wring_nccl_init(log, "ncclNet v11", true);
}

static int net_init_v8(wring_nccl_log_fn log)
{
    return wring_nccl_init(log, "ncclNet v8", false);
}

static int finalize(void *context)
{
    (void)context;
    return wring_nccl_finalize();
}

static int net_listen_v8(int device, void *handle, void **listen_comm)
{
    return wring_nccl_listen_create(device, WRING_NCCL_MESSAGES, handle, listen_comm);
}

static int net_listen(void *context, int device, void *handle, void **listen_comm)
{
    (void)context;
    return net_listen_v8(device, handle, listen_comm);
}

static int net_connect_v8(int device, void *handle, void **send_comm,
                          struct wring_nccl_device_handle **device_handle)
{
    if (device_handle != NULL)
        *device_handle = NULL;
    return wring_nccl_connect(device, handle, send_comm);
}

static int net_connect(void *context, int device, void *handle, void **send_comm,
                       struct wring_nccl_device_handle **device_handle)
{
    (void)context;
    return net_connect_v8(device, handle, send_comm, device_handle);
}

static int net_accept(void *listen_comm, void **recv_comm,
                      struct wring_nccl_device_handle **device_handle)
{
    if (device_handle != NULL)
        *device_handle = NULL;
    return wring_nccl_accept(listen_comm, recv_comm);
}

static int net_isend(void *send_comm, void *data, size_t bytes, int tag, void *mhandle,
                     void *phandle, void **request)
{
    (void)phandle;
    return wring_nccl_isend(send_comm, data, bytes, tag, mhandle, request);
}

static int net_isend_v8(void *send_comm, void *data, int bytes, int tag, void *mhandle,
                        void **request)
{
    *request = NULL;
    if (bytes < 0)
        return WRING_NCCL_INVALID_ARGUMENT;
    return wring_nccl_isend(send_comm, data, (size_t)bytes, tag, mhandle, request);
}

static int net_irecv(void *recv_comm, int n, void **data, size_t *bytes, int *tags, void **mhandles,
                     void **phandles, void **request)
{
    (void)phandles;
    return wring_nccl_irecv(recv_comm, n, data, bytes, tags, mhandles, request);
}

static int net_irecv_v8(void *recv_comm, int n, void **data, int *bytes, int *tags, void **mhandles,
                        void **request)
{
    size_t wide[WRING_NCCL_GROUPED];

    for (int i = 0; i < n && i < WRING_NCCL_GROUPED; i++) {
        if (bytes[i] < 0) {
            *request = NULL;
            return WRING_NCCL_INVALID_ARGUMENT;
        }
        wide[i] = (size_t)bytes[i];
    }
    return wring_nccl_irecv(recv_comm, n, data, wide, tags, mhandles, request);
}

EXPORTED const struct wring_nccl_net_v12 ncclNetPlugin_v12 = {
    .name = "wring",
    .init = net_init_v12,
    .devices = devices,
    .make_vdevice = make_vdevice_v12,
    .get_properties = properties_v12,
    .listen = net_listen,
    .connect = net_connect,
    .accept = net_accept,
    .reg_mr = wring_nccl_reg_mr,
    .reg_mr_dmabuf = wring_nccl_reg_mr_dmabuf,
    .dereg_mr = wring_nccl_dereg_mr,
    .isend = net_isend,
    .irecv = net_irecv,
    .iflush = wring_nccl_iflush,
    .test = wring_nccl_test,
    .close_send = wring_nccl_close,
    .close_recv = wring_nccl_close,
    .close_listen = wring_nccl_listen_close,
    .finalize = finalize,
};

EXPORTED const struct wring_nccl_net_v11 ncclNetPlugin_v11 = {
    .name = "wring",
    .init = net_init_v11,
    .devices = devices,
    .make_vdevice = make_vdevice_v11,
    .get_properties = properties_v11,
    .listen = net_listen,
    .connect = net_connect,
    .accept = net_accept,
    .reg_mr = wring_nccl_reg_mr,
    .reg_mr_dmabuf = wring_nccl_reg_mr_dmabuf,
    .dereg_mr = wring_nccl_dereg_mr,
    .isend = net_isend,
    .irecv = net_irecv,
    .iflush = wring_nccl_iflush,
    .test = wring_nccl_test,
    .close_send = wring_nccl_close,
    .close_recv = wring_nccl_close,
    .close_listen = wring_nccl_listen_close,
    .finalize = finalize,
};

EXPORTED const struct wring_nccl_net_v8 ncclNetPlugin_v8 = {
    .name = "wring",
    .init = net_init_v8,
    .devices = devices,
    .get_properties = properties_v8,
    .listen = net_listen_v8,
    .connect = net_connect_v8,
    .accept = net_accept,
    .reg_mr = wring_nccl_reg_mr,
    .reg_mr_dmabuf = wring_nccl_reg_mr_dmabuf,
    .dereg_mr = wring_nccl_dereg_mr,
    .isend = net_isend_v8,
    .irecv = net_irecv_v8,
    .iflush = wring_nccl_iflush,
    .test = wring_nccl_test,
    .close_send = wring_nccl_close,
    .close_recv = wring_nccl_close,
    .close_listen = wring_nccl_listen_close,
};

/* ---- ncclCollNet ---- */

/* Sums are computed by cores, so CollNet takes memory of the host alone. */
#define FOR_COLL(version)                                                                         \
    static int coll_properties_##version(int device, struct wring_nccl_properties_##version *out) \
    {                                                                                             \
        int code = properties_##version(device, out);                                             \
        if (code == WRING_NCCL_SUCCESS) {                                                         \
            out->memory = WRING_NCCL_HOST;                                                        \
            out->global_registration = 1;                                                         \
        }                                                                                         \
        return code;                                                                              \
    }
FOR_COLL(v8)
FOR_COLL(v11)
FOR_COLL(v12)

static char any_memory; /* what all registrations are */

static int reg_mr(void *comm, void *data, size_t bytes, int memory, void **mhandle)
{
    (void)comm, (void)data, (void)bytes;
    *mhandle = NULL;
    if (memory != WRING_NCCL_HOST) {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: CollNet: memory of kind %d cannot be registered: sums are computed "
                       "by cores, in the host's memory, as ptrSupport says",
                       memory);
        return WRING_NCCL_INVALID_USAGE;
    }
    *mhandle = &any_memory;
    return WRING_NCCL_SUCCESS;
}

static int reg_mr_dmabuf(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                         void **mhandle)
{
    (void)offset, (void)fd;
    return reg_mr(comm, data, bytes, memory | WRING_NCCL_DMABUF, mhandle);
}

static int dereg_mr(void *comm, void *mhandle)
{
    (void)comm, (void)mhandle;
    return WRING_NCCL_SUCCESS;
}

/** The host sees what has been received. */
static int coll_iflush(void *comm, void *data, int bytes, void *mhandle, void **request)
{
    (void)comm, (void)data, (void)bytes, (void)mhandle;
    *request = NULL;
    return WRING_NCCL_SUCCESS;
}

static int coll_init(void **context, uint64_t comm_id, wring_nccl_log_fn log)
{
    (void)comm_id;
    *context = &wring_nccl_own;
    return wring_nccl_init(log, "ncclCollNet", true);
}

static int coll_init_v8(wring_nccl_log_fn log)
{
    return wring_nccl_init(log, "ncclCollNet v8", false);
}

static int coll_listen_v8(int device, void *handle, void **listen_comm)
{
    return wring_nccl_listen_create(device, WRING_NCCL_COLLECTIVES, handle, listen_comm);
}

static int coll_listen(void *context, int device, void *handle, void **listen_comm)
{
    (void)context;
    return coll_listen_v8(device, handle, listen_comm);
}

static int iallreduce(void *comm, void *send, void *recv, size_t elems, int dtype, int op,
                      void *send_mhandle, void *recv_mhandle, void **request)
{
    (void)send_mhandle, (void)recv_mhandle;
    return wring_nccl_iallreduce(comm, send, recv, elems, dtype, op, request);
}

static int iallreduce_v8(void *comm, void *send, void *recv, int elems, int dtype, int op,
                         void *send_mhandle, void *recv_mhandle, void **request)
{
    (void)send_mhandle, (void)recv_mhandle;
    *request = NULL;
    if (elems < 0)
        return WRING_NCCL_INVALID_ARGUMENT;
    return wring_nccl_iallreduce(comm, send, recv, (size_t)elems, dtype, op, request);
}

/** NCCL names one part, which is the window. */
static bool is_window(int n_parts, size_t part_bytes, size_t window_bytes)
{
    if (n_parts == 1 && part_bytes >= window_bytes)
        return true;
    wring_nccl_say(WRING_NCCL_LOG_WARN,
                   "wring: CollNet: %d parts, the first of %zu bytes, for a window of %zu bytes: "
                   "needs one part that holds it",
                   n_parts, part_bytes, window_bytes);
    return false;
}

static int iallgather(void *comm, void *send, int n_parts, struct wring_nccl_part *recv,
                      size_t bytes_per_rank, size_t window, size_t window_bytes, void *send_mhandle,
                      void **request)
{
    (void)send_mhandle;
    *request = NULL;
    if (!is_window(n_parts, recv[0].bytes, window_bytes))
        return WRING_NCCL_INVALID_ARGUMENT;
    return wring_nccl_iallgather(comm, send, recv[0].address, bytes_per_rank, window, window_bytes,
                                 request);
}

static int iallgather_v8(void *comm, void *send, int n_parts, struct wring_nccl_part_v8 *recv,
                         size_t bytes_per_rank, size_t window, size_t window_bytes,
                         void *send_mhandle, void **request)
{
    (void)send_mhandle;
    *request = NULL;
    if (!is_window(n_parts, recv[0].bytes, window_bytes))
        return WRING_NCCL_INVALID_ARGUMENT;
    return wring_nccl_iallgather(comm, send, recv[0].address, bytes_per_rank, window, window_bytes,
                                 request);
}

static int ireducescatter(void *comm, int n_parts, struct wring_nccl_part *send, void *recv,
                          size_t bytes_per_rank, size_t window, size_t window_bytes, int dtype,
                          int op, void *recv_mhandle, void **request)
{
    (void)recv_mhandle;
    *request = NULL;
    if (!is_window(n_parts, send[0].bytes, window_bytes))
        return WRING_NCCL_INVALID_ARGUMENT;
    return wring_nccl_ireducescatter(comm, send[0].address, recv, bytes_per_rank, window,
                                     window_bytes, dtype, op, request);
}

static int ireducescatter_v8(void *comm, int n_parts, struct wring_nccl_part_v8 *send, void *recv,
                             size_t bytes_per_rank, size_t window, size_t window_bytes, int dtype,
                             int op, void *recv_mhandle, void **request)
{
    (void)recv_mhandle;
    *request = NULL;
    if (!is_window(n_parts, send[0].bytes, window_bytes))
        return WRING_NCCL_INVALID_ARGUMENT;
    return wring_nccl_ireducescatter(comm, send[0].address, recv, bytes_per_rank, window,
                                     window_bytes, dtype, op, request);
}

EXPORTED const struct wring_nccl_coll_v12 ncclCollNetPlugin_v12 = {
    .name = "wring",
    .init = coll_init,
    .devices = coll_devices,
    .get_properties = coll_properties_v12,
    .listen = coll_listen,
    .connect = wring_nccl_coll_connect,
    .reduce_support = wring_nccl_coll_support,
    .reg_mr = reg_mr,
    .reg_mr_dmabuf = reg_mr_dmabuf,
    .dereg_mr = dereg_mr,
    .iallreduce = iallreduce,
    .iallgather = iallgather,
    .ireducescatter = ireducescatter,
    .iflush = coll_iflush,
    .test = wring_nccl_coll_test,
    .close_coll = wring_nccl_coll_close,
    .close_listen = wring_nccl_listen_close,
    .finalize = finalize,
};

EXPORTED const struct wring_nccl_coll_v11 ncclCollNetPlugin_v11 = {
    .name = "wring",
    .init = coll_init,
    .devices = coll_devices,
    .get_properties = coll_properties_v11,
    .listen = coll_listen,
    .connect = wring_nccl_coll_connect,
    .reduce_support = wring_nccl_coll_support,
    .reg_mr = reg_mr,
    .reg_mr_dmabuf = reg_mr_dmabuf,
    .dereg_mr = dereg_mr,
    .iallreduce = iallreduce,
    .iallgather = iallgather,
    .ireducescatter = ireducescatter,
    .iflush = coll_iflush,
    .test = wring_nccl_coll_test,
    .close_coll = wring_nccl_coll_close,
    .close_listen = wring_nccl_listen_close,
    .finalize = finalize,
};

EXPORTED const struct wring_nccl_coll_v8 ncclCollNetPlugin_v8 = {
    .name = "wring",
    .init = coll_init_v8,
    .devices = coll_devices,
    .get_properties = coll_properties_v8,
    .listen = coll_listen_v8,
    .connect = wring_nccl_coll_connect,
    .reduce_support = wring_nccl_coll_support,
    .reg_mr = reg_mr,
    .reg_mr_dmabuf = reg_mr_dmabuf,
    .dereg_mr = dereg_mr,
    .iallreduce = iallreduce_v8,
    .iallgather = iallgather_v8,
    .ireducescatter = ireducescatter_v8,
    .iflush = coll_iflush,
    .test = wring_nccl_coll_test,
    .close_coll = wring_nccl_coll_close,
    .close_listen = wring_nccl_listen_close,
};
