/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/library.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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

bool wring_verbs_takes_addresses(const char *wish)
{
    if (strcmp(wish, "auto") != 0)
        return strcmp(wish, "on") == 0;
    return access("/sys/module/nvidia_peermem", F_OK) == 0 ||
           access("/sys/module/nv_peer_mem", F_OK) == 0;
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
static int64_t ask_inline_bytes(const struct verbs_library *library, struct ibv_pd *pd,
                                struct ibv_cq *cq, uint32_t bytes)
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
static uint32_t find_inline_bytes(const struct verbs_library *library, struct ibv_pd *pd,
                                  struct ibv_cq *cq)
{
    static const uint32_t sizes[] = {TRY_INLINE, 128, 64, 32};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int64_t granted = ask_inline_bytes(library, pd, cq, sizes[i]);
        if (granted >= 0)
            return (uint32_t)granted;
    }
    return 0;
}

/** Abilities that the device cannot tell are left zero. */
static void caps_probe(const struct verbs_library *library, struct ibv_context *context,
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
        out->inline_bytes = find_inline_bytes(library, pd, cq);
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

/* ---- locality ---- */

/* hwloc reads lists of devices with libudev, which has state of the whole process. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/** The part of the machine that a device hangs off; NULL where hwloc does not know it. */
static hwloc_obj_t find_part(hwloc_topology_t topology, const char *device)
{
    hwloc_obj_t at = NULL;
    while ((at = hwloc_get_next_osdev(topology, at)) != NULL)
        if (at->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && strcmp(at->name, device) == 0)
            return hwloc_get_non_io_ancestor_obj(topology, at);
    return NULL;
}

void wring_verbs_find_locality_in(hwloc_topology_t topology, hwloc_const_bitmap_t cores,
                                  struct verbs_port *port)
{
    hwloc_obj_t part = find_part(topology, port->device);
    port->locality = VERBS_LOCALITY_UNKNOWN;
    port->numa = -1;
    if (part == NULL || part->cpuset == NULL)
        return;
    if (part->nodeset != NULL && hwloc_bitmap_weight(part->nodeset) == 1)
        port->numa = hwloc_bitmap_first(part->nodeset);
    port->locality =
        hwloc_bitmap_intersects(part->cpuset, cores) ? VERBS_LOCALITY_NEAR : VERBS_LOCALITY_FAR;
}

/**
 * With the I/O devices, which the system's own lists have; without the plugins that open graphics
 * cards, and without libpciaccess, which reads each device's registers and never frees its names.
 */
static bool load_topology(hwloc_topology_t topology)
{
    static const char *const unwanted[] = {"pci",       "cuda",   "nvml", "rsmi",
                                           "levelzero", "opencl", "gl"};
    for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      unwanted[i]);
    pthread_mutex_lock(&loading);
    bool good =
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
        hwloc_topology_load(topology) == 0;
    pthread_mutex_unlock(&loading);
    return good;
}

/** Does any device hang off something? If not, hwloc need not look: that takes as long as all
 *  else of a start. */
static bool is_any_device_attached(const struct verbs_table *table)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < table->n; i++) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", table->ports[i].device);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/**
 * Where devices hang in the machine, seen from this process: fills in place and numa of all ports.
 * Where hwloc cannot tell they stay unknown.
 */
static void fill_localities(struct verbs_table *table)
{
    hwloc_topology_t topology;

    if (!is_any_device_attached(table))
        return;
    hwloc_bitmap_t cores = hwloc_bitmap_alloc();
    if (cores == NULL || hwloc_topology_init(&topology) != 0) {
        hwloc_bitmap_free(cores);
        return;
    }
    if (load_topology(topology) && hwloc_get_cpubind(topology, cores, HWLOC_CPUBIND_PROCESS) == 0)
        for (size_t i = 0; i < table->n; i++)
            wring_verbs_find_locality_in(topology, cores, &table->ports[i]);
    hwloc_topology_destroy(topology);
    hwloc_bitmap_free(cores);
}

/* ---- library ---- */

static bool find_symbol(void *handle, const char *name, void *member, char *reason, size_t bytes)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL) {
        memset(member, 0, sizeof(symbol));
        snprintf(reason, bytes, "libibverbs.so.1 has no %s", name);
        return false;
    }
    memcpy(member, &symbol, sizeof(symbol));
    return true;
}

bool wring_verbs_library_load(struct verbs_library *library, char *reason, size_t bytes)
{
    void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(reason, bytes, "libibverbs.so.1 not found (package libibverbs1)");
        return false;
    }
#define VERBS_FIND(name) find_symbol(handle, "ibv_" #name, &library->name, reason, bytes) &&
    bool complete = VERBS_FUNCTIONS(VERBS_FIND)
        find_symbol(handle, "_ibv_query_gid_ex", &library->query_gid_ex, reason, bytes);
#undef VERBS_FIND
    if (!complete) {
        dlclose(handle);
        return false;
    }
#define VERBS_TRY(name) find_symbol(handle, "ibv_" #name, &library->name, why_not, sizeof(why_not));
    char why_not[64];
    VERBS_OPTIONAL(VERBS_TRY)
#undef VERBS_TRY
    library->handle = handle;
    return true;
}

void wring_verbs_library_unload(struct verbs_library *library)
{
    if (library->handle != NULL)
        dlclose(library->handle);
    library->handle = NULL;
}

/* ---- query ---- */

/** Mbit/s, from the codes for lanes and for the speed of one; 0: unknown. */
static uint32_t speed_of(unsigned width, unsigned speed)
{
    static const struct {
        unsigned code, value;
    } lanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
      mbits[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                 {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    unsigned n = 0, each = 0;
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
        n = lanes[i].code == width ? lanes[i].value : n;
    for (size_t i = 0; i < sizeof(mbits) / sizeof(mbits[0]); i++)
        each = mbits[i].code == speed ? mbits[i].value : each;
    return n * each;
}

static enum verbs_link link_of(const struct ibv_device *device, const struct ibv_port_attr *attr)
{
    if (device->transport_type != IBV_TRANSPORT_IB)
        return VERBS_LINK_OTHER;
    switch (attr->link_layer) {
    case IBV_LINK_LAYER_UNSPECIFIED: /* from before there was RoCE */
    case IBV_LINK_LAYER_INFINIBAND:
        return VERBS_LINK_INFINIBAND;
    case IBV_LINK_LAYER_ETHERNET:
        return VERBS_LINK_ROCE;
    default:
        return VERBS_LINK_OTHER;
    }
}

static enum verbs_gid_type gid_type_of(uint32_t type)
{
    switch (type) {
    case IBV_GID_TYPE_ROCE_V1:
        return VERBS_GID_ROCE_V1;
    case IBV_GID_TYPE_ROCE_V2:
        return VERBS_GID_ROCE_V2;
    default:
        return VERBS_GID_INFINIBAND;
    }
}

static void read_gids(const struct verbs_library *library, struct ibv_context *context, int length,
                      struct verbs_port *port)
{
    static const uint8_t none[16];
    for (int i = 0; i < length && i < VERBS_GIDS_MAX; i++) {
        struct ibv_gid_entry entry;
        if (library->query_gid_ex(context, port->number, (uint32_t)i, &entry, 0, sizeof(entry)) !=
                0 ||
            memcmp(entry.gid.raw, none, sizeof(none)) == 0)
            continue;
        struct verbs_gid *gid = &port->gids[port->n_gids++];
        gid->index = (uint16_t)i;
        gid->type = (uint8_t)gid_type_of(entry.gid_type);
        memcpy(gid->bytes, entry.gid.raw, sizeof(gid->bytes));
    }
}

static void read_pkeys(const struct verbs_library *library, struct ibv_context *context, int length,
                       struct verbs_port *port)
{
    port->n_pkeys = (uint16_t)(length < VERBS_PKEYS_MAX ? length : VERBS_PKEYS_MAX);
    for (int i = 0; i < port->n_pkeys; i++) {
        __be16 pkey = 0;
        if (library->query_pkey(context, port->number, i, &pkey) == 0)
            port->pkeys[i] = ntohs(pkey);
    }
}

static void read_port(const struct verbs_library *library, struct ibv_context *context,
                      struct verbs_port *port)
{
    struct ibv_port_attr attr;
    memset(&attr, 0, sizeof(attr)); /* the symbol fills in the older part only */
    int error = library->query_port(context, port->number, (struct _compat_ibv_port_attr *)&attr);
    if (error != 0) {
        snprintf(port->trouble, sizeof(port->trouble), "the port cannot be queried: %s",
                 strerrordesc_np(error > 0 ? error : errno));
        return;
    }
    port->state = (uint8_t)attr.state;
    port->link = link_of(context->device, &attr);
    port->mbit = speed_of(attr.active_width, attr.active_speed);
    port->mtu = 128u << attr.active_mtu;
    port->max_mtu = 128u << attr.max_mtu;
    port->lid = attr.lid;
    read_gids(library, context, attr.gid_tbl_len, port);
    read_pkeys(library, context, attr.pkey_tbl_len, port);
}

/** A new row at the end; NULL without memory. */
static struct verbs_port *add_row(struct verbs_table *table, const char *device)
{
    struct verbs_port *grown = realloc(table->ports, (table->n + 1) * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    table->ports = grown;
    struct verbs_port *port = &grown[table->n++];
    memset(port, 0, sizeof(*port));
    port->numa = -1;
    snprintf(port->device, sizeof(port->device), "%s", device);
    return port;
}

static bool add_trouble(struct verbs_table *table, const char *device, const char *what, int error)
{
    struct verbs_port *port = add_row(table, device);
    if (port != NULL)
        snprintf(port->trouble, sizeof(port->trouble), "%s: %s", what, strerrordesc_np(error));
    return port != NULL;
}

/** What one that is open has to say. */
static bool add_ports(const struct verbs_library *library, struct ibv_context *context,
                      const char *name, bool with_abilities, struct verbs_table *table)
{
    struct verbs_caps can = {0};
    struct ibv_device_attr attr;
    bool good = true;
    int error = library->query_device(context, &attr);
    if (error != 0)
        good = add_trouble(table, name, "the device cannot be queried", error > 0 ? error : errno);
    else if (with_abilities)
        caps_probe(library, context, &attr, &can);
    for (unsigned i = 1; good && error == 0 && i <= attr.phys_port_cnt; i++) {
        struct verbs_port *port = add_row(table, name);
        good = port != NULL;
        if (good) {
            port->number = (uint8_t)i;
            port->vendor = attr.vendor_id;
            port->can = can;
            read_port(library, context, port);
        }
    }
    return good;
}

static bool add_device(const struct verbs_library *library, const struct verbs_opened *opened,
                       struct ibv_device *device, bool with_abilities, struct verbs_table *table)
{
    const char *name = library->get_device_name(device);
    struct ibv_context *borrowed = opened != NULL ? opened->borrow(name) : NULL;
    struct ibv_context *context = borrowed != NULL ? borrowed : library->open_device(device);
    if (context == NULL)
        return add_trouble(table, name, "the device does not open", errno);
    bool good = add_ports(library, context, name, with_abilities, table);
    if (borrowed != NULL)
        opened->give_back(borrowed);
    else
        library->close_device(context);
    return good;
}

bool wring_verbs_table_read(const struct verbs_library *library, const struct verbs_opened *opened,
                            bool with_abilities, struct verbs_table *table, char *reason,
                            size_t bytes)
{
    struct verbs_table found = {0};
    bool good = true;
    int n = 0;
    struct ibv_device **list = library->get_device_list(&n);
    if (list == NULL || n == 0) {
        if (list == NULL)
            snprintf(reason, bytes, "the kernel offers no RDMA devices: %s",
                     strerrordesc_np(errno));
        else
            snprintf(reason, bytes, "no RDMA device");
        if (list != NULL)
            library->free_device_list(list);
        return false;
    }
    for (int i = 0; i < n && good; i++)
        good = add_device(library, opened, list[i], with_abilities, &found);
    library->free_device_list(list);
    if (!good) {
        snprintf(reason, bytes, "out of memory");
        wring_verbs_table_free(&found);
        return false;
    }
    if (found.n > 1) /* else there is nothing to weigh */
        fill_localities(&found);
    *table = found;
    return true;
}

void wring_verbs_table_free(struct verbs_table *table)
{
    free(table->ports);
    *table = (struct verbs_table){0};
}

struct ibv_context *wring_verbs_open_named(const struct verbs_library *library, const char *name)
{
    struct ibv_context *context = NULL;
    int n = 0;
    struct ibv_device **list = library->get_device_list(&n);
    if (list == NULL)
        return NULL;
    errno = ENODEV;
    for (int i = 0; i < n && context == NULL; i++)
        if (strcmp(library->get_device_name(list[i]), name) == 0)
            context = library->open_device(list[i]);
    int saved = errno;
    library->free_device_list(list);
    errno = saved;
    return context;
}
