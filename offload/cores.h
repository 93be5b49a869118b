/* SPDX-License-Identifier: Apache-2.0 */
/** Which cores a pool's threads run on. */
#ifndef WRING_OFFLOAD_CORES_H
#define WRING_OFFLOAD_CORES_H

#include <stddef.h>

#include <hwloc.h>

#include "base/log.h"
#include <wring/status.h>

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
