/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What NCCL and RCCL call of a network plugin, declared here in our own words, so that the plugin
 * is built without their headers.
 *
 * NCCL opens libnccl-net-NAME.so and takes the tables that it exports: ncclNetPlugin_vN for
 * messages between two ranks, ncclCollNetPlugin_vN for collectives. It takes the highest N that it
 * knows: 12 in release 2.30, 8 in RCCL.
 *
 * All functions return 0 or one of enum wring_nccl_code. None of them blocks: a NULL comm or a NULL
 * request with code 0 means "ask again". Comms are used by one thread at a time, different ones by
 * different threads.
 *
 * Source: the plugin documents and example of NCCL 2.30 and the tables of its versions 8, 11, 12.
 */
#ifndef WRING_DROPIN_NCCL_ABI_H
#define WRING_DROPIN_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define WRING_NCCL_HANDLE_BYTES 128 /* that listen() may fill */
#define WRING_NCCL_REQUESTS 32      /* that a comm must take at once; of sends times maxRecvs */
#define WRING_NCCL_MOST_BYTES ((size_t)1 << 40)      /* of maxP2pBytes and maxCollBytes */
#define WRING_NCCL_OPTIONAL_COMPLETION ((void *)0x1) /* *request before irecv() */
#define WRING_NCCL_UNDEFINED (-1)                    /* of trafficClass, railId, planeId */

enum wring_nccl_code {
    WRING_NCCL_SUCCESS = 0,
    WRING_NCCL_UNHANDLED_CUDA_ERROR = 1,
    WRING_NCCL_SYSTEM_ERROR = 2,
    WRING_NCCL_INTERNAL_ERROR = 3,
    WRING_NCCL_INVALID_ARGUMENT = 4,
    WRING_NCCL_INVALID_USAGE = 5,
    WRING_NCCL_REMOTE_ERROR = 6,
};

/** Of a pointer: bits of ptrSupport, and `type` of regMr(). */
enum wring_nccl_memory {
    WRING_NCCL_HOST = 1,
    WRING_NCCL_CUDA = 2,
    WRING_NCCL_DMABUF = 4,
};

enum wring_nccl_log_level {
    WRING_NCCL_LOG_NONE = 0,
    WRING_NCCL_LOG_VERSION = 1,
    WRING_NCCL_LOG_WARN = 2,
    WRING_NCCL_LOG_INFO = 3,
    WRING_NCCL_LOG_ABORT = 4,
    WRING_NCCL_LOG_TRACE = 5,
};

/** Parts of NCCL that a log line belongs to: bits. */
enum wring_nccl_log_part {
    WRING_NCCL_PART_INIT = 1,
    WRING_NCCL_PART_NET = 16,
};

typedef void (*wring_nccl_log_fn)(int level, unsigned long parts, const char *file, int line,
                                  const char *format, ...);

/** NCCL's profiler, which this plugin does not call. */
typedef int (*wring_nccl_profiler_fn)(void **event, int type, void *phandle, int64_t plugin,
                                      void *data);

enum wring_nccl_dtype {
    WRING_NCCL_INT8 = 0,
    WRING_NCCL_UINT8 = 1,
    WRING_NCCL_INT32 = 2,
    WRING_NCCL_UINT32 = 3,
    WRING_NCCL_INT64 = 4,
    WRING_NCCL_UINT64 = 5,
    WRING_NCCL_FLOAT16 = 6,
    WRING_NCCL_FLOAT32 = 7,
    WRING_NCCL_FLOAT64 = 8,
    WRING_NCCL_BFLOAT16 = 9,
    WRING_NCCL_FLOAT8_E4M3 = 10,
    WRING_NCCL_FLOAT8_E5M2 = 11,
};
#define WRING_NCCL_DTYPES 12

/** AVG and those that multiply first reach a plugin as SUM. */
enum wring_nccl_op {
    WRING_NCCL_SUM = 0,
    WRING_NCCL_PROD = 1,
    WRING_NCCL_MAX = 2,
    WRING_NCCL_MIN = 3,
    WRING_NCCL_AVG = 4,
};

/** Who runs the device's side of a connection: the host, for us. */
enum wring_nccl_device_type {
    WRING_NCCL_DEVICE_HOST = 0,
    WRING_NCCL_DEVICE_UNPACK = 1,
};

/** Only filled by plugins with a device's side: we leave NULL. */
struct wring_nccl_device_handle {
    int type, version;
    void *handle;
    size_t bytes;
    int needs_proxy_progress;
};

struct wring_nccl_config {
    int traffic_class; /* or WRING_NCCL_UNDEFINED */
};

/** Real devices that a device is made of. */
struct wring_nccl_parts_v11 {
    int n;
    int devices[4];
};
struct wring_nccl_parts_v12 {
    int n;
    int devices[8];
};

struct wring_nccl_properties_v8 {
    char *name;     /* lives as long as the plugin, as does pci_path */
    char *pci_path; /* NULL: no PCI device */
    uint64_t guid;
    int memory; /* bits of enum wring_nccl_memory */
    int global_registration;
    int speed_mbps;
    int port;
    float latency_us;
    int max_comms;
    int max_recvs; /* grouped into one irecv() */
    int device_type;
    int device_version;
};

struct wring_nccl_properties_v11 {
    char *name;
    char *pci_path;
    uint64_t guid;
    int memory;
    int global_registration;
    int force_flush;
    int speed_mbps;
    int port;
    float latency_us;
    int max_comms;
    int max_recvs;
    int device_type;
    int device_version;
    struct wring_nccl_parts_v11 parts;
    size_t max_p2p_bytes;
    size_t max_coll_bytes;
    int max_multi_request;
};

struct wring_nccl_properties_v12 {
    char *name;
    char *pci_path;
    uint64_t guid;
    int memory;
    int global_registration;
    int force_flush;
    int speed_mbps;
    int port;
    float latency_us;
    int max_comms;
    int max_recvs;
    int device_type;
    int device_version;
    struct wring_nccl_parts_v12 parts;
    size_t max_p2p_bytes;
    size_t max_coll_bytes;
    int max_multi_request;
    int16_t rail, plane; /* or WRING_NCCL_UNDEFINED */
};

struct wring_nccl_flows {
    int32_t most_peers, least_peers, most_flows, least_flows;
};

/** What NCCL is about to do by a comm: hints, which a plugin need not take. */
struct wring_nccl_attributes {
    struct wring_nccl_flows send, recv;
    uint32_t op, algorithm, protocol;
};

/*
 * ncclNet: messages. A comm has one direction. irecv() posts up to max_recvs buffers at once, each
 * with a tag; a send takes the buffer of its tag in the first of these that is not full. test()
 * says how many bytes came into each buffer of the group.
 */

struct wring_nccl_net_v12 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, struct wring_nccl_config *config,
                wring_nccl_log_fn log, wring_nccl_profiler_fn profiler);
    int (*devices)(int *n);
    int (*get_properties)(int device, struct wring_nccl_properties_v12 *properties);
    int (*listen)(void *context, int device, void *handle, void **listen_comm);
    int (*connect)(void *context, int device, void *handle, void **send_comm,
                   struct wring_nccl_device_handle **device_handle);
    int (*accept)(void *listen_comm, void **recv_comm,
                  struct wring_nccl_device_handle **device_handle);
    int (*reg_mr)(void *comm, void *data, size_t bytes, int memory, void **mhandle);
    int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                         void **mhandle);
    int (*dereg_mr)(void *comm, void *mhandle);
    int (*isend)(void *send_comm, void *data, size_t bytes, int tag, void *mhandle, void *phandle,
                 void **request);
    int (*irecv)(void *recv_comm, int n, void **data, size_t *bytes, int *tags, void **mhandles,
                 void **phandles, void **request);
    int (*iflush)(void *recv_comm, int n, void **data, int *bytes, void **mhandles, void **request);
    int (*test)(void *request, int *done, int *bytes);
    int (*close_send)(void *send_comm);
    int (*close_recv)(void *recv_comm);
    int (*close_listen)(void *listen_comm);
    int (*get_device_mr)(void *comm, void *mhandle, void **device_mhandle);
    int (*irecv_consumed)(void *recv_comm, int n, void *request);
    int (*make_vdevice)(int *device, struct wring_nccl_parts_v12 *parts);
    int (*finalize)(void *context);
    int (*set_attributes)(void *context, struct wring_nccl_attributes *attributes);
};

struct wring_nccl_net_v11 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, struct wring_nccl_config *config,
                wring_nccl_log_fn log, wring_nccl_profiler_fn profiler);
    int (*devices)(int *n);
    int (*get_properties)(int device, struct wring_nccl_properties_v11 *properties);
    int (*listen)(void *context, int device, void *handle, void **listen_comm);
    int (*connect)(void *context, int device, void *handle, void **send_comm,
                   struct wring_nccl_device_handle **device_handle);
    int (*accept)(void *listen_comm, void **recv_comm,
                  struct wring_nccl_device_handle **device_handle);
    int (*reg_mr)(void *comm, void *data, size_t bytes, int memory, void **mhandle);
    int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                         void **mhandle);
    int (*dereg_mr)(void *comm, void *mhandle);
    int (*isend)(void *send_comm, void *data, size_t bytes, int tag, void *mhandle, void *phandle,
                 void **request);
    int (*irecv)(void *recv_comm, int n, void **data, size_t *bytes, int *tags, void **mhandles,
                 void **phandles, void **request);
    int (*iflush)(void *recv_comm, int n, void **data, int *bytes, void **mhandles, void **request);
    int (*test)(void *request, int *done, int *bytes);
    int (*close_send)(void *send_comm);
    int (*close_recv)(void *recv_comm);
    int (*close_listen)(void *listen_comm);
    int (*get_device_mr)(void *comm, void *mhandle, void **device_mhandle);
    int (*irecv_consumed)(void *recv_comm, int n, void *request);
    int (*make_vdevice)(int *device, struct wring_nccl_parts_v11 *parts);
    int (*finalize)(void *context);
    int (*set_attributes)(void *context, struct wring_nccl_attributes *attributes);
};

struct wring_nccl_net_v8 {
    const char *name;
    int (*init)(wring_nccl_log_fn log);
    int (*devices)(int *n);
    int (*get_properties)(int device, struct wring_nccl_properties_v8 *properties);
    int (*listen)(int device, void *handle, void **listen_comm);
    int (*connect)(int device, void *handle, void **send_comm,
                   struct wring_nccl_device_handle **device_handle);
    int (*accept)(void *listen_comm, void **recv_comm,
                  struct wring_nccl_device_handle **device_handle);
    int (*reg_mr)(void *comm, void *data, size_t bytes, int memory, void **mhandle);
    int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                         void **mhandle);
    int (*dereg_mr)(void *comm, void *mhandle);
    int (*isend)(void *send_comm, void *data, int bytes, int tag, void *mhandle, void **request);
    int (*irecv)(void *recv_comm, int n, void **data, int *bytes, int *tags, void **mhandles,
                 void **request);
    int (*iflush)(void *recv_comm, int n, void **data, int *bytes, void **mhandles, void **request);
    int (*test)(void *request, int *done, int *bytes);
    int (*close_send)(void *send_comm);
    int (*close_recv)(void *recv_comm);
    int (*close_listen)(void *listen_comm);
    int (*get_device_mr)(void *comm, void *mhandle, void **device_mhandle);
    int (*irecv_consumed)(void *recv_comm, int n, void *request);
};

/*
 * ncclCollNet: collectives of one rank a node. listen() makes a handle, all handles reach all
 * ranks, connect() joins them. NCCL closes the listen comm after connect(), and takes a NULL comm
 * there for a network that has no collectives.
 *
 * iallgather() and ireducescatter() see the whole of all ranks' blocks, bytes_per_rank each, but
 * move only a window of it: [window, window + window_bytes). The parts are that window; send of an
 * allgather and recv of a reduce-scatter are what of this rank's block lies in it.
 */

struct wring_nccl_part {
    void *mhandle;
    void *address;
    size_t bytes;
};
struct wring_nccl_part_v8 {
    void *mhandle;
    void *address;
    uint32_t bytes;
};

struct wring_nccl_coll_v12 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, wring_nccl_log_fn log);
    int (*devices)(int *n);
    int (*get_properties)(int device, struct wring_nccl_properties_v12 *properties);
    int (*listen)(void *context, int device, void *handle, void **listen_comm);
    int (*connect)(void *handles[], int ranks, int rank, void *listen_comm, void **coll_comm);
    int (*reduce_support)(int dtype, int op, int *supported);
    int (*reg_mr)(void *comm, void *data, size_t bytes, int memory, void **mhandle);
    int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                         void **mhandle);
    int (*dereg_mr)(void *comm, void *mhandle);
    int (*iallreduce)(void *comm, void *send, void *recv, size_t elems, int dtype, int op,
                      void *send_mhandle, void *recv_mhandle, void **request);
    int (*iallgather)(void *comm, void *send, int n_parts, struct wring_nccl_part *recv,
                      size_t bytes_per_rank, size_t window, size_t window_bytes, void *send_mhandle,
                      void **request);
    int (*ireducescatter)(void *comm, int n_parts, struct wring_nccl_part *send, void *recv,
                          size_t bytes_per_rank, size_t window, size_t window_bytes, int dtype,
                          int op, void *recv_mhandle, void **request);
    int (*iflush)(void *comm, void *data, int bytes, void *mhandle, void **request);
    int (*test)(void *request, int *done, int *bytes);
    int (*close_coll)(void *comm);
    int (*close_listen)(void *listen_comm);
    int (*make_vdevice)(int *device, struct wring_nccl_parts_v12 *parts);
    int (*finalize)(void *context);
};

struct wring_nccl_coll_v11 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, wring_nccl_log_fn log);
    int (*devices)(int *n);
    int (*get_properties)(int device, struct wring_nccl_properties_v11 *properties);
    int (*listen)(void *context, int device, void *handle, void **listen_comm);
    int (*connect)(void *handles[], int ranks, int rank, void *listen_comm, void **coll_comm);
    int (*reduce_support)(int dtype, int op, int *supported);
    int (*reg_mr)(void *comm, void *data, size_t bytes, int memory, void **mhandle);
    int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                         void **mhandle);
    int (*dereg_mr)(void *comm, void *mhandle);
    int (*iallreduce)(void *comm, void *send, void *recv, size_t elems, int dtype, int op,
                      void *send_mhandle, void *recv_mhandle, void **request);
    int (*iallgather)(void *comm, void *send, int n_parts, struct wring_nccl_part *recv,
                      size_t bytes_per_rank, size_t window, size_t window_bytes, void *send_mhandle,
                      void **request);
    int (*ireducescatter)(void *comm, int n_parts, struct wring_nccl_part *send, void *recv,
                          size_t bytes_per_rank, size_t window, size_t window_bytes, int dtype,
                          int op, void *recv_mhandle, void **request);
    int (*iflush)(void *comm, void *data, int bytes, void *mhandle, void **request);
    int (*test)(void *request, int *done, int *bytes);
    int (*close_coll)(void *comm);
    int (*close_listen)(void *listen_comm);
    int (*make_vdevice)(int *device, struct wring_nccl_parts_v11 *parts);
    int (*finalize)(void *context);
};

struct wring_nccl_coll_v8 {
    const char *name;
    int (*init)(wring_nccl_log_fn log);
    int (*devices)(int *n);
    int (*get_properties)(int device, struct wring_nccl_properties_v8 *properties);
    int (*listen)(int device, void *handle, void **listen_comm);
    int (*connect)(void *handles[], int ranks, int rank, void *listen_comm, void **coll_comm);
    int (*reduce_support)(int dtype, int op, int *supported);
    int (*reg_mr)(void *comm, void *data, size_t bytes, int memory, void **mhandle);
    int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                         void **mhandle);
    int (*dereg_mr)(void *comm, void *mhandle);
    int (*iallreduce)(void *comm, void *send, void *recv, int elems, int dtype, int op,
                      void *send_mhandle, void *recv_mhandle, void **request);
    int (*iallgather)(void *comm, void *send, int n_parts, struct wring_nccl_part_v8 *recv,
                      size_t bytes_per_rank, size_t window, size_t window_bytes, void *send_mhandle,
                      void **request);
    int (*ireducescatter)(void *comm, int n_parts, struct wring_nccl_part_v8 *send, void *recv,
                          size_t bytes_per_rank, size_t window, size_t window_bytes, int dtype,
                          int op, void *recv_mhandle, void **request);
    int (*iflush)(void *comm, void *data, int bytes, void *mhandle, void **request);
    int (*test)(void *request, int *done, int *bytes);
    int (*close_coll)(void *comm);
    int (*close_listen)(void *listen_comm);
};

/* What the plugin exports; a driver finds these by dlsym(). */
extern const struct wring_nccl_net_v12 ncclNetPlugin_v12;
extern const struct wring_nccl_net_v11 ncclNetPlugin_v11;
extern const struct wring_nccl_net_v8 ncclNetPlugin_v8;
extern const struct wring_nccl_coll_v12 ncclCollNetPlugin_v12;
extern const struct wring_nccl_coll_v11 ncclCollNetPlugin_v11;
extern const struct wring_nccl_coll_v8 ncclCollNetPlugin_v8;

#endif
