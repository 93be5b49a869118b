/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/library.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool find(void *handle, const char *name, void *member, char *reason, size_t bytes)
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
#define VERBS_FIND(name) find(handle, "ibv_" #name, &library->name, reason, bytes) &&
    bool complete = VERBS_FUNCTIONS(VERBS_FIND)
        find(handle, "_ibv_query_gid_ex", &library->query_gid_ex, reason, bytes);
#undef VERBS_FIND
    if (!complete) {
        dlclose(handle);
        return false;
    }
#define VERBS_TRY(name) find(handle, "ibv_" #name, &library->name, why_not, sizeof(why_not));
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

static bool add_device(const struct verbs_library *library, struct ibv_device *device,
                       bool with_abilities, struct verbs_table *table)
{
    const char *name = library->get_device_name(device);
    struct verbs_caps can = {0};
    struct ibv_device_attr attr;
    struct ibv_context *context = library->open_device(device);
    if (context == NULL)
        return add_trouble(table, name, "the device does not open", errno);

    bool good = true;
    int error = library->query_device(context, &attr);
    if (error != 0)
        good = add_trouble(table, name, "the device cannot be queried", error > 0 ? error : errno);
    else if (with_abilities)
        wring_verbs_caps_probe(library, context, &attr, &can);
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
    library->close_device(context);
    return good;
}

bool wring_verbs_table_read(const struct verbs_library *library, bool with_abilities,
                            struct verbs_table *table, char *reason, size_t bytes)
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
        good = add_device(library, list[i], with_abilities, &found);
    library->free_device_list(list);
    if (!good) {
        snprintf(reason, bytes, "out of memory");
        wring_verbs_table_free(&found);
        return false;
    }
    if (found.n > 1) /* else there is nothing to weigh */
        wring_verbs_find_locality(&found);
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
