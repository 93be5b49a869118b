/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which cores each rank of a job on this host may run on.
 *
 * hwloc numbers cores by locality, so neighbouring ranks get neighbouring cores. Where several
 * share one, neighbours do not: they exchange with each other first, and so at the same time.
 * Shares cover all the cores that this process may use: jobs side by side burden them alike.
 */
#include <errno.h>
#include <string.h>

#include "offload/cores.h"
#include "tools/commands.h"
#include "tools/launch/launch_job.h"

/** Where some cores had more ranks than others, the system's scheduler does better. */
static bool shares_out_evenly(uint32_t cores, uint32_t ranks)
{
    return cores > 1 && (ranks <= cores || ranks % cores == 0);
}

hwloc_topology_t wring_binding_load(const struct wring_launch_params *params)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    hwloc_topology_t topology;

    if (params->unbound || wring_cores_load(&log, &topology) != WRING_OK)
        return NULL;
    if (shares_out_evenly(wring_cores_count(topology), params->ranks))
        return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

/** Cores [first, end) of a rank. */
static void share_of(uint64_t cores, uint64_t ranks, uint64_t rank, uint64_t *first, uint64_t *end)
{
    *first = ranks > cores ? rank % cores : rank * cores / ranks;
    *end = ranks > cores ? *first + 1 : (rank + 1) * cores / ranks;
}

void wring_binding_apply(const struct wring_launch_params *params, hwloc_topology_t topology,
                         uint32_t rank)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    uint64_t first, end;

    share_of(wring_cores_count(topology), params->ranks, rank, &first, &end);
    for (uint64_t core = first; set != NULL && core < end; core++)
        hwloc_bitmap_or(set, set, wring_cores_get(topology, (uint32_t)core)->cpuset);
    if (set == NULL || hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0)
        wring_fail(params->name, "rank %u is bound to no cores: %s", rank, strerror(errno));
    hwloc_bitmap_free(set);
}
