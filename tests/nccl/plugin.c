/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/nccl/nccl_abi.h"
#include "tests/lib/test.h"
#include "tests/nccl/world.h"

/* NCCL's numbers are written down twice, here and for the plugin: the two are held together. */
#define SAME(here, there) _Static_assert((int)(here) == (int)(there), #here)
SAME(PLUGIN_OK, WRING_NCCL_SUCCESS);
SAME(PLUGIN_SYSTEM_ERROR, WRING_NCCL_SYSTEM_ERROR);
SAME(PLUGIN_INTERNAL_ERROR, WRING_NCCL_INTERNAL_ERROR);
SAME(PLUGIN_INVALID_ARGUMENT, WRING_NCCL_INVALID_ARGUMENT);
SAME(PLUGIN_INVALID_USAGE, WRING_NCCL_INVALID_USAGE);
SAME(PLUGIN_REMOTE_ERROR, WRING_NCCL_REMOTE_ERROR);
SAME(PLUGIN_HOST, WRING_NCCL_HOST);
SAME(PLUGIN_CUDA, WRING_NCCL_CUDA);
SAME(PLUGIN_DMABUF, WRING_NCCL_DMABUF);
SAME(PLUGIN_LOG_WARN, WRING_NCCL_LOG_WARN);
SAME(PLUGIN_LOG_INFO, WRING_NCCL_LOG_INFO);
SAME(PLUGIN_HANDLE, WRING_NCCL_HANDLE_BYTES);
SAME(PLUGIN_REQUESTS, WRING_NCCL_REQUESTS);

struct plugin {
    void *library;
    int version;
    const struct wring_nccl_net_v12 *net12; /* one of these three */
    const struct wring_nccl_net_v11 *net11;
    const struct wring_nccl_net_v8 *net8;
    const struct wring_nccl_coll_v12 *coll12; /* and at most one of these */
    const struct wring_nccl_coll_v11 *coll11;
    const struct wring_nccl_coll_v8 *coll8;
    unsigned inits, coll_inits; /* version 8 is initialised once, as NCCL's adapter does it */
    char holes[512];
};

/* Where all versions have the same arguments; where only the last ones have a context first. */
#define ALL(table, call)                                   \
    (plugin->table##12 != NULL   ? plugin->table##12->call \
     : plugin->table##11 != NULL ? plugin->table##11->call \
                                 : plugin->table##8->call)
#define NEW(table, call) \
    (plugin->table##12 != NULL ? plugin->table##12->call : plugin->table##11->call)
#define OLD(table) (plugin->table##8 != NULL)

/** The call is entered before its arguments are, and left with its result. */
static int leave(int result)
{
    world_enter(NULL);
    return result;
}
#define ENTER(name, call) (world_enter(name), leave(call))

static const void *find(struct plugin *plugin, const char *kind, int version)
{
    char name[64];
    snprintf(name, sizeof(name), "nccl%sPlugin_v%d", kind, version);
    return dlsym(plugin->library, name);
}

static void take_tables(struct plugin *plugin, int version)
{
    const void *net = find(plugin, "Net", version), *coll = find(plugin, "CollNet", version);

    plugin->version = version;
    plugin->net12 = version == 12 ? net : NULL;
    plugin->net11 = version == 11 ? net : NULL;
    plugin->net8 = version == 8 ? net : NULL;
    plugin->coll12 = version == 12 ? coll : NULL;
    plugin->coll11 = version == 11 ? coll : NULL;
    plugin->coll8 = version == 8 ? coll : NULL;
}

static void note_hole(struct plugin *plugin, const char *name, bool there)
{
    size_t used = strlen(plugin->holes);
    if (!there)
        snprintf(plugin->holes + used, sizeof(plugin->holes) - used, " %s", name);
}

#define HOLE(table, member) note_hole(plugin, #member, ALL(table, member) != NULL)

static void find_holes(struct plugin *plugin)
{
    HOLE(net, name);
    HOLE(net, devices);
    HOLE(net, accept);
    HOLE(net, reg_mr);
    HOLE(net, dereg_mr);
    HOLE(net, iflush);
    HOLE(net, test);
    HOLE(net, close_send);
    HOLE(net, close_recv);
    HOLE(net, close_listen);
    note_hole(plugin, "init", OLD(net) ? plugin->net8->init != NULL : NEW(net, init) != NULL);
    note_hole(plugin, "listen", OLD(net) ? plugin->net8->listen != NULL : NEW(net, listen) != NULL);
    note_hole(plugin, "connect",
              OLD(net) ? plugin->net8->connect != NULL : NEW(net, connect) != NULL);
    note_hole(plugin, "isend", OLD(net) ? plugin->net8->isend != NULL : NEW(net, isend) != NULL);
    note_hole(plugin, "irecv", OLD(net) ? plugin->net8->irecv != NULL : NEW(net, irecv) != NULL);
    note_hole(plugin, "finalize", OLD(net) || NEW(net, finalize) != NULL);
    if (!plugin_has_coll(plugin))
        return;
    HOLE(coll, name);
    HOLE(coll, devices);
    HOLE(coll, connect);
    HOLE(coll, reduce_support);
    HOLE(coll, reg_mr);
    HOLE(coll, dereg_mr);
    HOLE(coll, iflush);
    HOLE(coll, test);
    HOLE(coll, close_coll);
    HOLE(coll, close_listen);
}

struct plugin *plugin_open(const char *path, int version)
{
    struct plugin *plugin = calloc(1, sizeof(*plugin));

    if (plugin == NULL)
        abort();
    plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin->library == NULL) {
        wring_test_fail(__FILE__, __LINE__, "dlopen", "%s", dlerror());
        free(plugin);
        return NULL;
    }
    for (int at = 12; version == 0 && at >= 6; at--)
        if (find(plugin, "Net", at) != NULL)
            version = at;
    take_tables(plugin, version);
    if (plugin->net12 == NULL && plugin->net11 == NULL && plugin->net8 == NULL) {
        wring_test_fail(__FILE__, __LINE__, "dlsym", "%s: no table of version %d", path, version);
        plugin_close(plugin);
        return NULL;
    }
    find_holes(plugin);
    return plugin;
}

void plugin_close(struct plugin *plugin)
{
    if (plugin == NULL)
        return;
    dlclose(plugin->library);
    free(plugin);
}

int plugin_version(const struct plugin *plugin)
{
    return plugin->version;
}

const char *plugin_name(const struct plugin *plugin)
{
    return ALL(net, name);
}

bool plugin_has_coll(const struct plugin *plugin)
{
    return plugin->coll12 != NULL || plugin->coll11 != NULL || plugin->coll8 != NULL;
}

const char *plugin_holes(const struct plugin *plugin)
{
    return plugin->holes;
}

static int profile(void **event, int type, void *phandle, int64_t id, void *data)
{
    (void)event, (void)type, (void)phandle, (void)id, (void)data;
    return PLUGIN_OK;
}

int plugin_init(struct plugin *plugin, uint64_t comm_id, void **ctx)
{
    struct wring_nccl_config config = {.traffic_class = -1};

    *ctx = NULL;
    if (!OLD(net))
        return ENTER("init", NEW(net, init(ctx, comm_id, &config, world_log, profile)));
    int result = plugin->inits > 0 ? PLUGIN_OK : ENTER("init", plugin->net8->init(world_log));
    plugin->inits += result == PLUGIN_OK;
    return result;
}

int plugin_finalize(struct plugin *plugin, void *ctx)
{
    if (!OLD(net))
        return ENTER("finalize", NEW(net, finalize(ctx)));
    plugin->inits--;
    return PLUGIN_OK;
}

int plugin_devices(struct plugin *plugin, int *n)
{
    return ENTER("devices", ALL(net, devices(n)));
}

/* What all versions of the properties have. */
#define COMMON(from)                                                                \
    .name = (from).name, .pci_path = (from).pci_path, .guid = (from).guid,          \
    .pointers = (from).memory, .global_regions = (from).global_registration,        \
    .speed = (from).speed_mbps, .port = (from).port, .max_comms = (from).max_comms, \
    .max_receives = (from).max_recvs, .latency = (from).latency_us,                 \
    .device_type = (from).device_type
#define LATER(from)                                                                         \
    COMMON(from), .force_flush = (from).force_flush, .max_p2p_bytes = (from).max_p2p_bytes, \
                  .max_coll_bytes = (from).max_coll_bytes, .virtual_devices = (from).parts.n

/* What a plugin leaves alone is not zero by chance. */
#define UNSET 0x5A

static void take_12(const struct wring_nccl_properties_v12 *from, struct plugin_properties *out)
{
    *out = (struct plugin_properties){LATER(*from)};
    memcpy(out->virtual_device, from->parts.devices, sizeof(from->parts.devices));
}

static void take_11(const struct wring_nccl_properties_v11 *from, struct plugin_properties *out)
{
    *out = (struct plugin_properties){LATER(*from)};
    memcpy(out->virtual_device, from->parts.devices, sizeof(from->parts.devices));
}

/** Of version 8 the largest sizes are what NCCL takes them to be. */
static void take_8(const struct wring_nccl_properties_v8 *from, int device,
                   struct plugin_properties *out)
{
    *out = (struct plugin_properties){COMMON(*from), .max_p2p_bytes = (size_t)1 << 30,
                                      .max_coll_bytes = (size_t)1 << 29, .virtual_devices = 1,
                                      .virtual_device = {device}};
}

#define PROPERTIES(table)                                                  \
    static int get_##table##_properties(struct plugin *plugin, int device, \
                                        struct plugin_properties *out)     \
    {                                                                      \
        struct wring_nccl_properties_v12 of_12;                            \
        struct wring_nccl_properties_v11 of_11;                            \
        struct wring_nccl_properties_v8 of_8;                              \
        int result;                                                        \
                                                                           \
        memset(&of_12, UNSET, sizeof(of_12));                              \
        memset(&of_11, UNSET, sizeof(of_11));                              \
        memset(&of_8, UNSET, sizeof(of_8));                                \
        if (plugin->table##12 != NULL)                                     \
            result = plugin->table##12->get_properties(device, &of_12);    \
        else if (plugin->table##11 != NULL)                                \
            result = plugin->table##11->get_properties(device, &of_11);    \
        else                                                               \
            result = plugin->table##8->get_properties(device, &of_8);      \
        if (result != PLUGIN_OK)                                           \
            return result;                                                 \
        if (plugin->table##12 != NULL)                                     \
            take_12(&of_12, out);                                          \
        else if (plugin->table##11 != NULL)                                \
            take_11(&of_11, out);                                          \
        else                                                               \
            take_8(&of_8, device, out);                                    \
        return PLUGIN_OK;                                                  \
    }
PROPERTIES(net)
PROPERTIES(coll)

int plugin_get_properties(struct plugin *plugin, int device, struct plugin_properties *out)
{
    return ENTER("getProperties", get_net_properties(plugin, device, out));
}

bool plugin_can_fuse(const struct plugin *plugin)
{
    return plugin->version == 12 ? plugin->net12->make_vdevice != NULL
                                 : !OLD(net) && plugin->net11->make_vdevice != NULL;
}

int plugin_fuse(struct plugin *plugin, int n, const int *parts, int *out)
{
    struct wring_nccl_parts_v12 twelve = {.n = n};
    struct wring_nccl_parts_v11 eleven = {.n = n};

    memcpy(twelve.devices, parts, (size_t)n * sizeof(parts[0]));
    memcpy(eleven.devices, parts, (size_t)(n < 4 ? n : 4) * sizeof(parts[0]));
    if (plugin->version == 12)
        return ENTER("makeVDevice", plugin->net12->make_vdevice(out, &twelve));
    return ENTER("makeVDevice", plugin->net11->make_vdevice(out, &eleven));
}

int plugin_set_attributes(struct plugin *plugin, void *ctx)
{
    struct wring_nccl_attributes attributes;

    memset(&attributes, 0xFF, sizeof(attributes)); /* nothing is known, says NCCL by that */
    if (OLD(net) || NEW(net, set_attributes) == NULL)
        return PLUGIN_OK;
    return ENTER("setNetAttr", NEW(net, set_attributes(ctx, &attributes)));
}

int plugin_listen(struct plugin *plugin, void *ctx, int device, void *handle, void **out)
{
    *out = NULL;
    if (OLD(net))
        return ENTER("listen", plugin->net8->listen(device, handle, out));
    return ENTER("listen", NEW(net, listen(ctx, device, handle, out)));
}

int plugin_connect(struct plugin *plugin, void *ctx, int device, void *handle, void **out)
{
    struct wring_nccl_device_handle *none = NULL;

    *out = NULL;
    if (OLD(net))
        return ENTER("connect", plugin->net8->connect(device, handle, out, &none));
    return ENTER("connect", NEW(net, connect(ctx, device, handle, out, &none)));
}

int plugin_accept(struct plugin *plugin, void *listener, void **out)
{
    struct wring_nccl_device_handle *none = NULL;

    *out = NULL;
    return ENTER("accept", ALL(net, accept(listener, out, &none)));
}

int plugin_close_send(struct plugin *plugin, void *comm)
{
    return ENTER("closeSend", ALL(net, close_send(comm)));
}

int plugin_close_receive(struct plugin *plugin, void *comm)
{
    return ENTER("closeRecv", ALL(net, close_recv(comm)));
}

int plugin_close_listen(struct plugin *plugin, void *listener)
{
    return ENTER("closeListen", ALL(net, close_listen(listener)));
}

int plugin_register_kind(struct plugin *plugin, void *comm, void *data, size_t bytes, int kind,
                         void **out)
{
    *out = NULL;
    return ENTER("regMr", ALL(net, reg_mr(comm, data, bytes, kind, out)));
}

int plugin_register_dmabuf(struct plugin *plugin, void *comm, void *data, size_t bytes,
                           uint64_t offset, int fd, void **out)
{
    *out = NULL;
    return ENTER("regMrDmaBuf",
                 ALL(net, reg_mr_dmabuf(comm, data, bytes, PLUGIN_CUDA, offset, fd, out)));
}

int plugin_register(struct plugin *plugin, void *comm, void *data, size_t bytes, void **out)
{
    return plugin_register_kind(plugin, comm, data, bytes, PLUGIN_HOST, out);
}

int plugin_deregister(struct plugin *plugin, void *comm, void *region)
{
    return ENTER("deregMr", ALL(net, dereg_mr(comm, region)));
}

int plugin_isend(struct plugin *plugin, void *comm, void *data, size_t bytes, int tag, void *region,
                 void **request)
{
    uint64_t profiled = 0;

    if (OLD(net))
        return ENTER("isend", plugin->net8->isend(comm, data, (int)bytes, tag, region, request));
    return ENTER("isend", NEW(net, isend(comm, data, bytes, tag, region, &profiled, request)));
}

int plugin_irecv(struct plugin *plugin, void *comm, int n, void **data, const size_t *bytes,
                 int *tags, void **regions, void **request)
{
    uint64_t profiled = 0;
    void *handles[PLUGIN_GROUP_MAX];
    size_t sizes[PLUGIN_GROUP_MAX];
    int old_sizes[PLUGIN_GROUP_MAX];

    for (int i = 0; i < n; i++) {
        handles[i] = &profiled;
        sizes[i] = bytes[i];
        old_sizes[i] = (int)bytes[i];
    }
    if (!OLD(net))
        return ENTER("irecv",
                     NEW(net, irecv(comm, n, data, sizes, tags, regions, handles, request)));
    if (*request == PLUGIN_OPTIONAL)
        *request = NULL; /* as NCCL's adapter does */
    return ENTER("irecv", plugin->net8->irecv(comm, n, data, old_sizes, tags, regions, request));
}

int plugin_iflush(struct plugin *plugin, void *comm, int n, void **data, int *sizes, void **regions,
                  void **request)
{
    return ENTER("iflush", ALL(net, iflush(comm, n, data, sizes, regions, request)));
}

int plugin_test(struct plugin *plugin, void *request, int *done, int *sizes)
{
    return ENTER("test", ALL(net, test(request, done, sizes)));
}

int plugin_consumed(struct plugin *plugin, void *comm, int n, void *request)
{
    if (ALL(net, irecv_consumed) == NULL)
        return PLUGIN_OK;
    return ENTER("irecvConsumed", ALL(net, irecv_consumed(comm, n, request)));
}

int plugin_coll_init(struct plugin *plugin, uint64_t comm_id, void **ctx)
{
    *ctx = NULL;
    if (!OLD(coll))
        return ENTER("CollNet init", NEW(coll, init(ctx, comm_id, world_log)));
    int result =
        plugin->coll_inits > 0 ? PLUGIN_OK : ENTER("CollNet init", plugin->coll8->init(world_log));
    plugin->coll_inits += result == PLUGIN_OK;
    return result;
}

int plugin_coll_finalize(struct plugin *plugin, void *ctx)
{
    if (!OLD(coll))
        return ENTER("CollNet finalize", NEW(coll, finalize(ctx)));
    plugin->coll_inits--;
    return PLUGIN_OK;
}

int plugin_coll_devices(struct plugin *plugin, int *n)
{
    return ENTER("CollNet devices", ALL(coll, devices(n)));
}

int plugin_coll_get_properties(struct plugin *plugin, int device, struct plugin_properties *out)
{
    return ENTER("CollNet getProperties", get_coll_properties(plugin, device, out));
}

int plugin_coll_listen(struct plugin *plugin, void *ctx, int device, void *handle, void **out)
{
    *out = NULL;
    if (OLD(coll))
        return ENTER("CollNet listen", plugin->coll8->listen(device, handle, out));
    return ENTER("CollNet listen", NEW(coll, listen(ctx, device, handle, out)));
}

int plugin_coll_connect(struct plugin *plugin, void **handles, int ranks, int rank, void *listener,
                        void **out)
{
    *out = NULL;
    return ENTER("CollNet connect", ALL(coll, connect(handles, ranks, rank, listener, out)));
}

int plugin_coll_reduce_support(struct plugin *plugin, int dtype, int op, int *supported)
{
    return ENTER("reduceSupport", ALL(coll, reduce_support(dtype, op, supported)));
}

int plugin_coll_register(struct plugin *plugin, void *comm, void *data, size_t bytes, void **out)
{
    *out = NULL;
    return ENTER("CollNet regMr", ALL(coll, reg_mr(comm, data, bytes, PLUGIN_HOST, out)));
}

int plugin_coll_deregister(struct plugin *plugin, void *comm, void *region)
{
    return ENTER("CollNet deregMr", ALL(coll, dereg_mr(comm, region)));
}

int plugin_coll_allreduce(struct plugin *plugin, void *comm, void *in, void *out, size_t elems,
                          int dtype, int op, void *in_region, void *out_region, void **request)
{
    if (OLD(coll))
        return ENTER("iallreduce", plugin->coll8->iallreduce(comm, in, out, (int)elems, dtype, op,
                                                             in_region, out_region, request));
    return ENTER("iallreduce", NEW(coll, iallreduce(comm, in, out, elems, dtype, op, in_region,
                                                    out_region, request)));
}

int plugin_coll_allgather(struct plugin *plugin, void *comm, void *in, void *in_region, void *out,
                          void *out_region, struct plugin_window window, void **request)
{
    struct wring_nccl_part part = {out_region, out, window.bytes};
    struct wring_nccl_part_v8 old_part = {out_region, out, (uint32_t)window.bytes};

    if (OLD(coll))
        return ENTER("iallgather",
                     plugin->coll8->iallgather(comm, in, 1, &old_part, window.block, window.offset,
                                               window.bytes, in_region, request));
    return ENTER("iallgather", NEW(coll, iallgather(comm, in, 1, &part, window.block, window.offset,
                                                    window.bytes, in_region, request)));
}

int plugin_coll_reduce_scatter(struct plugin *plugin, void *comm, void *in, void *in_region,
                               void *out, void *out_region, struct plugin_window window, int dtype,
                               int op, void **request)
{
    struct wring_nccl_part part = {in_region, in, window.bytes};
    struct wring_nccl_part_v8 old_part = {in_region, in, (uint32_t)window.bytes};

    if (OLD(coll))
        return ENTER("ireducescatter", plugin->coll8->ireducescatter(
                                           comm, 1, &old_part, out, window.block, window.offset,
                                           window.bytes, dtype, op, out_region, request));
    return ENTER("ireducescatter",
                 NEW(coll, ireducescatter(comm, 1, &part, out, window.block, window.offset,
                                          window.bytes, dtype, op, out_region, request)));
}

int plugin_coll_iflush(struct plugin *plugin, void *comm, void *data, int bytes, void *region,
                       void **request)
{
    return ENTER("CollNet iflush", ALL(coll, iflush(comm, data, bytes, region, request)));
}

int plugin_coll_test(struct plugin *plugin, void *request, int *done, int *bytes)
{
    return ENTER("CollNet test", ALL(coll, test(request, done, bytes)));
}

int plugin_coll_close(struct plugin *plugin, void *comm)
{
    return ENTER("closeColl", ALL(coll, close_coll(comm)));
}

int plugin_coll_close_listen(struct plugin *plugin, void *listener)
{
    return ENTER("CollNet closeListen", ALL(coll, close_listen(listener)));
}
