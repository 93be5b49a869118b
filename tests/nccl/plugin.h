/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A network plugin as NCCL takes it: a library, of which one version of the tables is used. The
 * calls look the same whatever that version is, as they do behind NCCL's own adapters: an older one
 * has no contexts, sizes of 32 bits, and fewer properties.
 *
 * Each call says to the world that it is under way (world_enter()), so that one that blocks is
 * found. Results are NCCL's numbers.
 */
#ifndef WRING_TESTS_NCCL_PLUGIN_H
#define WRING_TESTS_NCCL_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PLUGIN_OK = 0,
    PLUGIN_SYSTEM_ERROR = 2,
    PLUGIN_INTERNAL_ERROR = 3,
    PLUGIN_INVALID_ARGUMENT = 4,
    PLUGIN_INVALID_USAGE = 5,
    PLUGIN_REMOTE_ERROR = 6,
};

enum {
    PLUGIN_HOST = 1, /* kinds of memory, as bits */
    PLUGIN_CUDA = 2,
    PLUGIN_DMABUF = 4,
};

enum {
    PLUGIN_LOG_WARN = 2, /* levels of log lines */
    PLUGIN_LOG_INFO = 3,
};

#define PLUGIN_HANDLE 128  /* bytes, what a listener gives to be sent to who connects */
#define PLUGIN_STEPS 8     /* NCCL's pipeline: messages of a connection under way */
#define PLUGIN_REQUESTS 32 /* that a comm must bear */
#define PLUGIN_GROUP_MAX 8 /* receives that this driver groups */
#define PLUGIN_MAX_BYTES (1ull << 40)
#define PLUGIN_OPTIONAL ((void *)1) /* in *request before irecv: completion may be early */

struct plugin_properties {
    const char *name, *pci_path;
    uint64_t guid;
    int pointers, global_regions, force_flush, speed, port, max_comms, max_receives;
    float latency;
    int device_type;
    int virtual_devices; /* what makes up the device; 1 in versions that do not know any */
    int virtual_device[8];
    size_t max_p2p_bytes, max_coll_bytes;
};

struct plugin; /* of one library, one version */

/** Load the library. @param version  12, 11 or 8; 0: the first that it has, from 12 down to 6
 *  @return NULL after a failed check */
struct plugin *plugin_open(const char *path, int version);
void plugin_close(struct plugin *plugin);

int plugin_version(const struct plugin *plugin);
const char *plugin_name(const struct plugin *plugin);
bool plugin_has_coll(const struct plugin *plugin);

/** Which obligatory functions its tables lack, as text; "" when none. */
const char *plugin_holes(const struct plugin *plugin);

int plugin_init(struct plugin *plugin, uint64_t comm_id, void **ctx);
int plugin_finalize(struct plugin *plugin, void *ctx);
int plugin_devices(struct plugin *plugin, int *n);
int plugin_get_properties(struct plugin *plugin, int device, struct plugin_properties *out);

/** @return PLUGIN_OK; or the plugin's code. The function may not be there: false then */
bool plugin_can_fuse(const struct plugin *plugin);
int plugin_fuse(struct plugin *plugin, int n, const int *parts, int *out);
int plugin_set_attributes(struct plugin *plugin, void *ctx); /* OK where the version has none */

int plugin_listen(struct plugin *plugin, void *ctx, int device, void *handle, void **out);
int plugin_connect(struct plugin *plugin, void *ctx, int device, void *handle, void **out);
int plugin_accept(struct plugin *plugin, void *listener, void **out);
int plugin_close_send(struct plugin *plugin, void *comm);
int plugin_close_receive(struct plugin *plugin, void *comm);
int plugin_close_listen(struct plugin *plugin, void *listener);

int plugin_register(struct plugin *plugin, void *comm, void *data, size_t bytes, void **out);
int plugin_register_kind(struct plugin *plugin, void *comm, void *data, size_t bytes, int kind,
                         void **out);
int plugin_register_dmabuf(struct plugin *plugin, void *comm, void *data, size_t bytes,
                           uint64_t offset, int fd, void **out);
int plugin_deregister(struct plugin *plugin, void *comm, void *region);

int plugin_isend(struct plugin *plugin, void *comm, void *data, size_t bytes, int tag, void *region,
                 void **request);
int plugin_irecv(struct plugin *plugin, void *comm, int n, void **data, const size_t *bytes,
                 int *tags, void **regions, void **request);
int plugin_iflush(struct plugin *plugin, void *comm, int n, void **data, int *sizes, void **regions,
                  void **request);
int plugin_test(struct plugin *plugin, void *request, int *done, int *sizes);

/** Whether the table has that optional function, and what it says then of a receive that ended. */
int plugin_consumed(struct plugin *plugin, void *comm, int n, void *request);

/* CollNet, by the same numbers for types (NCCL's: int8 0 … bfloat16 9) and operations (sum, prod,
 * max, min, avg). */
int plugin_coll_init(struct plugin *plugin, uint64_t comm_id, void **ctx);
int plugin_coll_finalize(struct plugin *plugin, void *ctx);
int plugin_coll_devices(struct plugin *plugin, int *n);
int plugin_coll_get_properties(struct plugin *plugin, int device, struct plugin_properties *out);
int plugin_coll_listen(struct plugin *plugin, void *ctx, int device, void *handle, void **out);
int plugin_coll_connect(struct plugin *plugin, void **handles, int ranks, int rank, void *listener,
                        void **out);
int plugin_coll_reduce_support(struct plugin *plugin, int dtype, int op, int *supported);
int plugin_coll_register(struct plugin *plugin, void *comm, void *data, size_t bytes, void **out);
int plugin_coll_deregister(struct plugin *plugin, void *comm, void *region);
int plugin_coll_allreduce(struct plugin *plugin, void *comm, void *in, void *out, size_t elems,
                          int dtype, int op, void *in_region, void *out_region, void **request);

/** A window of the whole, which is ranks * block bytes long. */
struct plugin_window {
    size_t block, offset, bytes;
};
int plugin_coll_allgather(struct plugin *plugin, void *comm, void *in, void *in_region, void *out,
                          void *out_region, struct plugin_window window, void **request);
int plugin_coll_reduce_scatter(struct plugin *plugin, void *comm, void *in, void *in_region,
                               void *out, void *out_region, struct plugin_window window, int dtype,
                               int op, void **request);
int plugin_coll_iflush(struct plugin *plugin, void *comm, void *data, int bytes, void *region,
                       void **request);
int plugin_coll_test(struct plugin *plugin, void *request, int *done, int *bytes);
int plugin_coll_close(struct plugin *plugin, void *comm);
int plugin_coll_close_listen(struct plugin *plugin, void *listener);

#endif
