/* SPDX-License-Identifier: Apache-2.0 */
/** The cores of this machine: which of them this process may use, and which a pool takes. */
#ifndef WRING_OFFLOAD_CORES_H
#define WRING_OFFLOAD_CORES_H

#include <stddef.h>
#include <stdint.h>

#include <hwloc.h>

#include "base/log.h"
#include <wring/status.h>

/**
 * A topology of the processors that this process may use, a container's limits and the affinity
 * mask respected. The caller destroys it.
 *
 * Errors: WRING_ERR_NO_MEMORY; WRING_ERR_SYSTEM, logged.
 */
enum wring_status wring_cores_load(const struct wring_log *log, hwloc_topology_t *out);

/** How many cores it has, neighbours next to each other, and core `index` of them. */
uint32_t wring_cores_count(hwloc_topology_t topology);
hwloc_obj_t wring_cores_get(hwloc_topology_t topology, uint32_t index);

/**
 * How many processors this process may use: as many threads can be pinned to one each.
 * Errors: those of wring_cores_load().
 */
enum wring_status wring_cores_usable(const struct wring_log *log, uint32_t *out);

/**
 * Choose cores by the text of struct wring_pool_params.
 *
 * @param topology  loaded; processors that this process may not use are not in it
 * @param own       the system's number of the processor that the application runs on; -1: unknown
 * @param cores     out, [max], numbers of the system
 * @param count     out, 1..max. More than there are cores shares them, and is logged
 *
 * Errors: WRING_ERR_INVALID, logged.
 */
enum wring_status wring_cores_choose(hwloc_topology_t topology, const char *text, int own,
                                     const struct wring_log *log, unsigned *cores, size_t max,
                                     size_t *count);

#endif
