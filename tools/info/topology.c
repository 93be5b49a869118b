/* SPDX-License-Identifier: Apache-2.0 */
/** The machine as hwloc sees it: packages, NUMA nodes, cores, network and graphics devices. */
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "offload/cores.h"
#include "offload/pool.h"
#include "tools/info/info.h"

struct choice {
    bool pool;
    const char *text; /* of the pool's cores */
    unsigned cores[WRING_POOL_THREADS_MAX];
    size_t n;
    char reason[256]; /* why there is none */
};

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct choice *choice = arg;

    (void)module;
    if (level == WRING_LOG_ERROR)
        snprintf(choice->reason, sizeof(choice->reason), "%s", text);
}

static struct choice choose(hwloc_topology_t topology, const char *executor, int own)
{
    struct choice choice = {.text = ""};
    struct wring_log log = {keep_line, &choice, WRING_LOG_ERROR};

    choice.pool = strcmp(executor, "pool") == 0 || strncmp(executor, "pool:", 5) == 0;
    if (choice.pool && executor[4] == ':')
        choice.text = executor + 5;
    if (!choice.pool && strcmp(executor, "inline") != 0)
        snprintf(choice.reason, sizeof(choice.reason),
                 "needs inline, pool, pool:N or pool:cores=LIST");
    else if (wring_cores_choose(topology, choice.text, own, &log, choice.cores,
                                WRING_POOL_THREADS_MAX, &choice.n) != WRING_OK)
        choice.n = 0;
    return choice;
}

/** The core that a processor of the system's number belongs to; NULL where it is in none. */
static hwloc_obj_t core_of(hwloc_topology_t topology, unsigned processor)
{
    for (uint32_t i = 0; i < wring_cores_count(topology); i++) {
        hwloc_obj_t core = wring_cores_get(topology, i);
        if (hwloc_bitmap_isset(core->cpuset, processor))
            return core;
    }
    return NULL;
}

static bool chosen_before(const struct choice *choice, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (choice->cores[i] == choice->cores[index])
            return true;
    return false;
}

static const char *why(hwloc_topology_t topology, const struct choice *choice, size_t index,
                       int own)
{
    unsigned processor = choice->cores[index];
    hwloc_obj_t core = core_of(topology, processor);

    if (strncmp(choice->text, "cores=", 6) == 0)
        return "WRING_EXECUTOR names it";
    if (chosen_before(choice, index))
        return "shared once more: there are more threads than cores to take";
    if (core != NULL && own >= 0 && hwloc_bitmap_isset(core->cpuset, (unsigned)own))
        return "the application's own core: no other is left";
    if (core != NULL && hwloc_bitmap_first(core->cpuset) != (int)processor)
        return "a second hardware thread: every core has its first one taken";
    return "the last core that is not the application's and not yet taken";
}

static json_t *describe_core(hwloc_topology_t topology, const struct choice *choice, size_t index,
                             int own)
{
    hwloc_obj_t core = core_of(topology, choice->cores[index]);
    json_t *numa = json_null();

    if (core != NULL && core->nodeset != NULL && hwloc_bitmap_weight(core->nodeset) == 1)
        numa = json_integer(hwloc_bitmap_first(core->nodeset));
    return json_pack("{s:i, s:o, s:s}", "core", (int)choice->cores[index], "numa", numa, "why",
                     why(topology, choice, index, own));
}

static json_t *describe_all(hwloc_topology_t topology, const struct wring_config *config)
{
    int own = sched_getcpu();
    struct choice choice = choose(topology, config->executor, own);
    json_t *numbers = json_array(), *cores = json_array();

    for (size_t i = 0; i < choice.n; i++) {
        json_array_append_new(numbers, json_integer(choice.cores[i]));
        json_array_append_new(cores, describe_core(topology, &choice, i, own));
    }
    return json_pack("{s:o, s:b, s:o, s:i, s:i, s:o, s:o}", "asked",
                     wring_json_text(config->executor), "pool", choice.pool, "reason",
                     wring_json_text(choice.reason), "usable_cores",
                     (int)wring_cores_count(topology), "application_core", own, "pool_cores",
                     numbers, "cores", cores);
}

json_t *wring_info_executor(const struct wring_config *config)
{
    hwloc_topology_t topology;

    if (wring_cores_load(NULL, &topology) != WRING_OK)
        return NULL;
    json_t *executor = describe_all(topology, config);
    hwloc_topology_destroy(topology);
    return executor;
}

/* ---- topology ---- */

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

static json_t *describe_machine(hwloc_topology_t topology)
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
        description = describe_machine(topology);
    hwloc_topology_destroy(topology);
    return description;
}
