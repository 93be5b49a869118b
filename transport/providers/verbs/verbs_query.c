/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/providers/verbs/verbs_ability.h"

#define WRING_MODULE "verbs"
#define LIST_TEXT 1024

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
    struct verbs_abilities can = {0};
    struct ibv_device_attr attr;
    struct ibv_context *context = library->open_device(device);
    if (context == NULL)
        return add_trouble(table, name, "the device does not open", errno);

    bool good = true;
    int error = library->query_device(context, &attr);
    if (error != 0)
        good = add_trouble(table, name, "the device cannot be queried", error > 0 ? error : errno);
    else if (with_abilities)
        wring_verbs_try_abilities(library, context, &attr, &can);
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
        wring_verbs_place(&found);
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

/** @param bound  [16], to be kept as long as the wish; NULL: nothing is bound */
static struct verbs_wish wish_of(const struct wring_config *config, const uint8_t *bound)
{
    if (config == NULL)
        return (struct verbs_wish){
            .devices = "", .rails = 4, .gid_index = -1, .pkey = 0xffff, .bound = bound};
    return (struct verbs_wish){
        .devices = config->verbs_devices,
        .rails = (unsigned)config->verbs_rails,
        .gid_index = (int)config->verbs_gid_index,
        .pkey = (uint16_t)config->verbs_pkey,
        .mtu = (uint32_t)strtoul(config->verbs_mtu, NULL, 10),
        .bound = bound,
    };
}

/** "dev:port: why", all of them. @param text out, [LIST_TEXT] */
static void list_reasons(const struct verbs_table *table, char (*why)[VERBS_WHY], char *text)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < table->n && n < LIST_TEXT; i++)
        n += (size_t)snprintf(text + n, LIST_TEXT - n, "%s%s:%u: %s", i > 0 ? "; " : "",
                              table->ports[i].device, table->ports[i].number, why[i]);
}

static bool is_chosen(const struct verbs_choice *choices, size_t n, const struct verbs_port *port)
{
    for (size_t i = 0; i < n; i++)
        if (choices[i].port == port->number && strcmp(choices[i].device, port->device) == 0)
            return true;
    return false;
}

/** What was named and is not used is worth a warning, what nobody named is not. */
static void log_choice(const struct wring_log *log, const struct verbs_table *table,
                       const struct verbs_wish *wish, const struct verbs_choice *choices, size_t n,
                       char (*why)[VERBS_WHY])
{
    bool named = wish->devices[0] != '\0' && wish->devices[0] != '^';
    for (size_t i = 0; i < table->n; i++) {
        const struct verbs_port *port = &table->ports[i];
        if (is_chosen(choices, n, port))
            wring_info(log, "rail %s:%u, %s, %g Gbit/s, MTU %u: %s", port->device, port->number,
                       wring_verbs_link_text(port->link), port->mbit / 1e3, port->mtu, why[i]);
        else if (named && wring_verbs_match(wish->devices, port->device, port->number) >= 0)
            wring_warn(log, "%s:%u is not used: %s", port->device, port->number, why[i]);
        else
            wring_info(log, "%s:%u is not used: %s", port->device, port->number, why[i]);
    }
}

static enum wring_status choose_and_log(const struct verbs_table *table,
                                        const struct verbs_wish *wish, const struct wring_log *log,
                                        struct verbs_choice *out, size_t *n)
{
    char text[LIST_TEXT];
    char(*why)[VERBS_WHY] = calloc(table->n, sizeof(*why));
    if (why == NULL)
        return WRING_ERR_NO_MEMORY;
    size_t chosen = wring_verbs_choose(table, wish, out, why);
    if (wring_verbs_unmatched(wish->devices, table, text, sizeof(text)))
        wring_warn(log, "WRING_VERBS_DEVICES=%s: there is no %s", wish->devices, text);
    if (chosen > 0) {
        log_choice(log, table, wish, out, chosen, why);
        *n = chosen;
    } else {
        list_reasons(table, why, text);
        wring_error(log, "no RDMA device can be used: %s", text);
    }
    free(why);
    return chosen > 0 ? WRING_OK : WRING_ERR_DEVICE;
}

enum wring_status wring_verbs_select(const struct verbs_library *library,
                                     const struct wring_config *config,
                                     const struct sockaddr *bound, const struct wring_log *log,
                                     struct verbs_choice *out, size_t *n)
{
    uint8_t gid[16];
    char reason[VERBS_WHY];
    struct verbs_table table;
    bool has_bound = bound != NULL && wring_verbs_gid_of(bound, gid);
    const struct verbs_wish wish = wish_of(config, has_bound ? gid : NULL);

    const char *fault = wring_verbs_list_fault(wish.devices);
    if (fault != NULL) {
        wring_error(log, "WRING_VERBS_DEVICES=%s: %s", wish.devices, fault);
        return WRING_ERR_INVALID;
    }
    if (!wring_verbs_table_read(library, false, &table, reason, sizeof(reason))) {
        wring_error(log, "%s", reason);
        return WRING_ERR_DEVICE;
    }
    enum wring_status status = choose_and_log(&table, &wish, log, out, n);
    wring_verbs_table_free(&table);
    return status;
}

/** An address as a GID. @return false where the text is none, but a name or nothing */
static bool read_bound(const char *text, uint8_t *gid)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return wring_verbs_gid_of((const struct sockaddr *)&v4, gid);
    return inet_pton(AF_INET6, text, &v6.sin6_addr) == 1 &&
           wring_verbs_gid_of((const struct sockaddr *)&v6, gid);
}

/** The rails that would be chosen from a table that was read. @return false without memory */
static bool choose_for_show(const struct wring_config *config, struct verbs_survey *survey)
{
    uint8_t bound[16], *has_bound = read_bound(config->bind, bound) ? bound : NULL;
    const struct verbs_wish wish = wish_of(config, has_bound);
    const char *fault = wring_verbs_list_fault(wish.devices);
    survey->why = calloc(survey->table.n, sizeof(*survey->why));
    if (survey->why == NULL)
        return false;
    wring_verbs_unmatched(wish.devices, &survey->table, survey->unmatched,
                          sizeof(survey->unmatched));
    if (fault == NULL)
        survey->n_rails = wring_verbs_choose(&survey->table, &wish, survey->rails, survey->why);
    for (size_t i = 0; fault != NULL && i < survey->table.n; i++)
        snprintf(survey->why[i], VERBS_WHY, "WRING_VERBS_DEVICES: %s", fault);
    return true;
}

void wring_verbs_survey(const struct wring_config *config, struct verbs_survey *out)
{
    struct verbs_library library = {0};
    *out = (struct verbs_survey){0};
    if (wring_verbs_library_load(&library, out->reason, sizeof(out->reason)) &&
        wring_verbs_table_read(&library, true, &out->table, out->reason, sizeof(out->reason)) &&
        !choose_for_show(config, out)) {
        wring_verbs_table_free(&out->table);
        snprintf(out->reason, sizeof(out->reason), "out of memory");
    }
    wring_verbs_library_unload(&library);
}

enum wring_status wring_verbs_probe(char *reason, size_t bytes)
{
    struct verbs_library library = {0};
    struct verbs_table table;
    struct verbs_choice rails[VERBS_RAILS_MAX];
    const struct verbs_wish wish = wish_of(NULL, NULL);
    size_t n = 0;
    if (wring_verbs_library_load(&library, reason, bytes) &&
        wring_verbs_table_read(&library, false, &table, reason, bytes)) {
        char text[LIST_TEXT] = "out of memory";
        char(*why)[VERBS_WHY] = calloc(table.n, sizeof(*why));
        if (why != NULL) {
            n = wring_verbs_choose(&table, &wish, rails, why);
            list_reasons(&table, why, text);
        }
        if (n == 0)
            snprintf(reason, bytes, "%s", text);
        free(why);
        wring_verbs_table_free(&table);
    }
    wring_verbs_library_unload(&library);
    return n > 0 ? WRING_OK : WRING_ERR_UNSUPPORTED;
}
