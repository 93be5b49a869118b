/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/port_table.h"

#include <arpa/inet.h>
#include <string.h>

#include "tests/lib/test.h"

static struct verbs_port rows[PORTS_MAX];
struct verbs_table table;

void clear(void)
{
    table = (struct verbs_table){.ports = rows};
}

void add_gid(struct verbs_port *port, unsigned index, enum verbs_gid_type type, const char *address)
{
    struct verbs_gid *gid = &port->gids[port->n_gids++];
    gid->index = (uint16_t)index;
    gid->type = (uint8_t)type;
    CHECK(inet_pton(AF_INET6, address, gid->bytes) == 1, "%s", address);
}

struct verbs_port *add_roce(const char *device, unsigned number, const char *v4)
{
    char mapped[64];
    struct verbs_port *port = &rows[table.n++];
    memset(port, 0, sizeof(*port));
    snprintf(port->device, sizeof(port->device), "%s", device);
    port->number = (uint8_t)number;
    port->state = ACTIVE;
    port->link = VERBS_LINK_ROCE;
    port->locality = VERBS_LOCALITY_NEAR;
    port->mbit = 100000;
    port->mtu = 4096;
    port->n_pkeys = 1;
    port->pkeys[0] = 0xffff;
    add_gid(port, 0, VERBS_GID_ROCE_V1, "fe80::1");
    add_gid(port, 1, VERBS_GID_ROCE_V2, "fe80::1");
    if (v4 != NULL) {
        snprintf(mapped, sizeof(mapped), "::ffff:%s", v4);
        add_gid(port, 2, VERBS_GID_ROCE_V1, mapped);
        add_gid(port, 3, VERBS_GID_ROCE_V2, mapped);
    }
    return port;
}

struct verbs_port *add_infiniband(const char *device, unsigned number)
{
    struct verbs_port *port = add_roce(device, number, NULL);
    port->link = VERBS_LINK_INFINIBAND;
    port->lid = 7;
    port->n_gids = 0;
    add_gid(port, 0, VERBS_GID_INFINIBAND, "fe80::2:c903:0:1");
    return port;
}
