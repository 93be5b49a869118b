/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRING_MODULE "verbs"
#define GIDS_MAX 256

static bool query_port(const struct verbs_library *library, struct ibv_context *context,
                       uint8_t port, struct ibv_port_attr *attr)
{
    memset(attr, 0, sizeof(*attr)); /* the symbol fills in the older part only */
    return library->query_port(context, port, (struct _compat_ibv_port_attr *)attr) == 0 &&
           attr->state == IBV_PORT_ACTIVE;
}

static bool is_v4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static bool is_bound_to(const struct verbs_provider *verbs, const union ibv_gid *gid)
{
    if (verbs->bind.ss_family == AF_INET)
        return is_v4(gid) &&
               memcmp(gid->raw + 12, &((const struct sockaddr_in *)&verbs->bind)->sin_addr, 4) == 0;
    return memcmp(gid->raw, &((const struct sockaddr_in6 *)&verbs->bind)->sin6_addr, 16) == 0;
}

/** How much a GID is worth; 0: not usable. */
static int score_gid(const struct verbs_provider *verbs, const struct ibv_gid_entry *entry)
{
    static const uint8_t none[16];
    const uint8_t *raw = entry->gid.raw;
    bool link_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
    int score = 1;

    if (memcmp(raw, none, sizeof(none)) == 0)
        return 0;
    if (entry->gid_type == IBV_GID_TYPE_ROCE_V2)
        score = is_v4(&entry->gid) ? 4 : link_local ? 2 : 3;
    return score + (is_bound_to(verbs, &entry->gid) ? 8 : 0);
}

/** The best GID of a port, into *best. @return its score, 0 where there is none */
static int score_port(const struct verbs_provider *verbs, struct ibv_context *context,
                      struct verbs_device *best)
{
    int score = 0;
    for (int i = 0; i < best->attr.gid_tbl_len && i < GIDS_MAX; i++) {
        struct ibv_gid_entry entry;
        if (verbs->library.query_gid_ex(context, best->port, (uint32_t)i, &entry, 0,
                                        sizeof(entry)) != 0)
            continue;
        int this = score_gid(verbs, &entry);
        if (this > score) {
            score = this;
            best->gid_index = i;
            best->gid = entry.gid;
        }
    }
    return score;
}

/** "dev[:port]": is it this one? @param port out, 0 for any */
static bool is_wished(const char *wish, const char *name, unsigned *port)
{
    size_t length = strcspn(wish, ":");
    *port = wish[length] == ':' ? (unsigned)strtoul(wish + length + 1, NULL, 10) : 0;
    return length == 0 || (strlen(name) == length && memcmp(wish, name, length) == 0);
}

/** Look at all ports of an open device; keeps it in verbs->device if one is better. */
static int consider(struct verbs_provider *verbs, struct ibv_context *context, const char *name,
                    unsigned wished_port, int score)
{
    struct ibv_device_attr attr;
    if (verbs->library.query_device(context, &attr) != 0)
        return score;
    for (unsigned port = 1; port <= attr.phys_port_cnt; port++) {
        struct verbs_device found = {.context = context, .port = (uint8_t)port};
        if ((wished_port != 0 && port != wished_port) ||
            !query_port(&verbs->library, context, (uint8_t)port, &found.attr))
            continue;
        int this = score_port(verbs, context, &found);
        if (this <= score)
            continue;
        score = this;
        snprintf(found.name, sizeof(found.name), "%s", name);
        verbs->device = found;
    }
    return score;
}

/** Open each device in turn and keep the one with the best port open. */
static int choose(struct verbs_provider *verbs, struct ibv_device **list, int n, const char *wish)
{
    const struct verbs_library *library = &verbs->library;
    int score = 0;
    for (int i = 0; i < n; i++) {
        const char *name = library->get_device_name(list[i]);
        unsigned port;
        if (!is_wished(wish, name, &port))
            continue;
        struct ibv_context *before = verbs->device.context;
        struct ibv_context *context = library->open_device(list[i]);
        if (context == NULL)
            continue;
        score = consider(verbs, context, name, port, score);
        if (verbs->device.context != context)
            library->close_device(context);
        else if (before != NULL)
            library->close_device(before);
    }
    return score;
}

enum wring_status wring_verbs_device_open(struct verbs_provider *verbs, const char *wish)
{
    char gid[INET6_ADDRSTRLEN];
    int n = 0;
    struct ibv_device **list = verbs->library.get_device_list(&n);
    if (list != NULL) {
        choose(verbs, list, n, wish);
        verbs->library.free_device_list(list);
    }
    if (verbs->device.context == NULL) {
        wring_error(&verbs->log, "no device%s%s with an active port and an address (of %d)",
                    wish[0] != '\0' ? " " : "", wish, n);
        return WRING_ERR_DEVICE;
    }
    inet_ntop(AF_INET6, verbs->device.gid.raw, gid, sizeof(gid));
    wring_info(&verbs->log, "device %s port %u, GID %d %s, MTU %u", verbs->device.name,
               verbs->device.port, verbs->device.gid_index, gid,
               128u << verbs->device.attr.active_mtu);
    return WRING_OK;
}

enum wring_status wring_verbs_probe(char *reason, size_t bytes)
{
    struct verbs_provider *verbs = calloc(1, sizeof(*verbs));
    if (verbs == NULL)
        return WRING_ERR_NO_MEMORY;
    verbs->bind.ss_family = AF_INET;
    enum wring_status status = WRING_ERR_UNSUPPORTED;
    if (wring_verbs_library_load(&verbs->library, reason, bytes)) {
        int n = 0;
        struct ibv_device **list = verbs->library.get_device_list(&n);
        if (list == NULL)
            snprintf(reason, bytes, "the kernel offers no RDMA devices: %s", strerror(errno));
        else if (n == 0)
            snprintf(reason, bytes, "no RDMA device");
        else if (choose(verbs, list, n, "") == 0)
            snprintf(reason, bytes, "no active port on %d RDMA devices", n);
        else
            status = WRING_OK;
        if (list != NULL)
            verbs->library.free_device_list(list);
    }
    if (verbs->device.context != NULL)
        verbs->library.close_device(verbs->device.context);
    wring_verbs_library_unload(&verbs->library);
    free(verbs);
    return status;
}
