/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/providers/verbs/library.h"

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
static bool load(hwloc_topology_t topology)
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
static bool hang_somewhere(const struct verbs_table *table)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < table->n; i++) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", table->ports[i].device);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

void wring_verbs_find_locality(struct verbs_table *table)
{
    hwloc_topology_t topology;

    if (!hang_somewhere(table))
        return;
    hwloc_bitmap_t cores = hwloc_bitmap_alloc();
    if (cores == NULL || hwloc_topology_init(&topology) != 0) {
        hwloc_bitmap_free(cores);
        return;
    }
    if (load(topology) && hwloc_get_cpubind(topology, cores, HWLOC_CPUBIND_PROCESS) == 0)
        for (size_t i = 0; i < table->n; i++)
            wring_verbs_find_locality_in(topology, cores, &table->ports[i]);
    hwloc_topology_destroy(topology);
    hwloc_bitmap_free(cores);
}
