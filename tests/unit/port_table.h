/* SPDX-License-Identifier: Apache-2.0 */
/** A table of RDMA ports that no machine has to have, for tests of what is chosen from it. */
#ifndef WRING_TESTS_UNIT_PORT_TABLE_H
#define WRING_TESTS_UNIT_PORT_TABLE_H

#include "transport/providers/verbs/devices.h"

#define PORTS_MAX 8
#define ACTIVE 4
#define DOWN 1

extern struct verbs_table table; /* of the test's process; its ports may be changed */

void clear(void);

/** A RoCE port with what Linux puts into its table: link-local and, unless v4 is NULL, IPv4, each
 * as v1 and v2. It is near, of 100 Gbit/s, with an MTU of 4096. */
struct verbs_port *add_roce(const char *device, unsigned number, const char *v4);
struct verbs_port *add_infiniband(const char *device, unsigned number);

/** @param address  an IPv6 one, or a mapped IPv4 one */
void add_gid(struct verbs_port *port, unsigned index, enum verbs_gid_type type,
             const char *address);

#endif
