/* SPDX-License-Identifier: Apache-2.0 */
/** The machine as hwloc sees it: packages, NUMA nodes, cores, network and graphics devices. */
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

#include "tools/info/info.h"

#define PCI_CLASS_DISPLAY 0x03

/** The one NUMA node that an I/O device hangs off, or JSON null where that is not one. */
static json_t *node_of(hwloc_topology_t topology, hwloc_obj_t device)
{
    hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, device);

    if (parent == NULL || parent->nodeset == NULL || hwloc_bitmap_weight(parent->nodeset) != 1)
        return json_null();
    return json_integer(hwloc_bitmap_first(parent->nodeset));
}

/** What the kernel says about a link's speed, in Gbit/s; JSON null where it does not know. */
static json_t *link_gbit(const char *name)
{
    char path[128];
    long mbit = 0;

    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return json_null();
    int fields = fscanf(file, "%ld", &mbit);
    fclose(file);
    return fields == 1 && mbit > 0 ? json_real((double)mbit / 1000) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static json_t *describe_nic(hwloc_topology_t topology, hwloc_obj_t device)
{
    bool fabric = device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;

    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o}", "name", device->name, "kind", fabric ? "rdma" : "ethernet",
        "gbit", fabric ? json_null() : link_gbit(device->name), "numa", node_of(topology, device),
        "address", text_or_null(hwloc_obj_get_info_by_name(device, "Address")));
}

static json_t *list_nics(hwloc_topology_t topology)
{
    json_t *nics = json_array();
    hwloc_obj_t device = NULL;

    while ((device = hwloc_get_next_osdev(topology, device)) != NULL) {
        hwloc_obj_osdev_type_t type = device->attr->osdev.type;
        if (type != HWLOC_OBJ_OSDEV_NETWORK && type != HWLOC_OBJ_OSDEV_OPENFABRICS)
            continue;
        if (strcmp(device->name, "lo") != 0)
            json_array_append_new(nics, describe_nic(topology, device));
    }
    return nics;
}

static json_t *list_gpus(hwloc_topology_t topology)
{
    json_t *gpus = json_array();
    hwloc_obj_t device = NULL;

    while ((device = hwloc_get_next_pcidev(topology, device)) != NULL) {
        const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
        char address[32];
        if (pci->class_id >> 8 != PCI_CLASS_DISPLAY)
            continue;
        snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->dev,
                 pci->func);
        const char *name = hwloc_obj_get_info_by_name(device, "PCIDevice");
        json_array_append_new(gpus, json_pack("{s:s, s:s, s:o}", "name",
                                              name != NULL ? name : "display device", "pci",
                                              address, "numa", node_of(topology, device)));
    }
    return gpus;
}

static json_t *describe(hwloc_topology_t topology)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package != NULL ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:o, s:o}", "cpu", text_or_null(model), "packages",
                     hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), "numa",
                     hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), "cores",
                     hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE), "threads",
                     hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU), "nics", list_nics(topology),
                     "gpus", list_gpus(topology));
}

json_t *wring_info_topology(void)
{
    hwloc_topology_t topology;
    json_t *description = NULL;

    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology) == 0)
        description = describe(topology);
    hwloc_topology_destroy(topology);
    return description;
}
