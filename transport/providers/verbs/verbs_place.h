/* SPDX-License-Identifier: Apache-2.0 */
/** Where a device hangs in a machine that hwloc knows. */
#ifndef WRING_VERBS_PLACE_H
#define WRING_VERBS_PLACE_H

#include <hwloc.h>

#include "transport/providers/verbs/verbs_port.h"

/**
 * Fill in port->place and port->numa: near if the device hangs off a part of the machine that has
 * one of these cores. A device that hwloc does not list (soft-RoCE hangs nowhere) stays unknown.
 *
 * @param topology  loaded with I/O devices
 * @param cores     those that this process may run on
 */
void wring_verbs_place_in(hwloc_topology_t topology, hwloc_const_bitmap_t cores,
                          struct verbs_port *port);

/**
 * Where devices hang in the machine, seen from this process: fills in place and numa of all ports.
 * Where hwloc cannot tell they stay unknown.
 */
void wring_verbs_place(struct verbs_table *table);

#endif
