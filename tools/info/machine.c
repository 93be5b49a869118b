/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine has: processors, a network, and RDMA devices. */
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "offload/cores.h"
#include "offload/pool.h"
#include "tools/info/info.h"
#include "tools/output.h"
#include "transport/bootstrap/launcher.h"
#include "transport/bootstrap/rendezvous_private.h"
#include "transport/interface.h"
#include "transport/providers/verbs/select.h"

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

static struct choice choose_cores(hwloc_topology_t topology, const char *executor, int own)
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

static bool was_chosen_before(const struct choice *choice, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (choice->cores[i] == choice->cores[index])
            return true;
    return false;
}

static const char *explain_core(hwloc_topology_t topology, const struct choice *choice,
                                size_t index, int own)
{
    unsigned processor = choice->cores[index];
    hwloc_obj_t core = core_of(topology, processor);

    if (strncmp(choice->text, "cores=", 6) == 0)
        return "WRING_EXECUTOR names it";
    if (was_chosen_before(choice, index))
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
                     explain_core(topology, choice, index, own));
}

static json_t *describe_all(hwloc_topology_t topology, const struct wring_config *config)
{
    int own = sched_getcpu();
    struct choice choice = choose_cores(topology, config->executor, own);
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

/* ---- network ---- */

/* Where a rank would listen: which rule says so, and what this host has to choose from. */

#define SEEN_TEXT 512

struct address_choice {
    const char *rule;
    char address[WRING_INTERFACE_ADDRESS];
    char reason[160]; /* why there is no address; "": there is */
};

/** Our end of a path there, which nothing is sent on. */
static bool find_source(const struct wring_rendezvous_endpoint *endpoint, char *text)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof(own);
    int fd = socket(endpoint->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 &&
                 connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->bytes) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 &&
                 getnameinfo((struct sockaddr *)&own, bytes, text, WRING_INTERFACE_ADDRESS, NULL, 0,
                             NI_NUMERICHOST) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

/** @param root  "host:port" of rank 0, or several; "" where nothing says it @param name  what says
 * it */
static void choose_by_root(const char *root, const char *name, struct address_choice *choice)
{
    struct wring_rendezvous_params params = {.rank = 1, .root = root, .key = "any"};
    struct wring_rendezvous_endpoints *endpoints = malloc(sizeof(*endpoints));
    bool found = false;

    choice->rule = "the interface that reaches rank 0";
    if (root[0] == '\0')
        snprintf(choice->reason, sizeof(choice->reason), "%s is not set", name);
    else if (endpoints == NULL || wring_rendezvous_find_endpoints(&params, endpoints) != WRING_OK)
        snprintf(choice->reason, sizeof(choice->reason), "%s means nothing on this host", name);
    else
        for (unsigned i = 0; i < endpoints->n && !found; i++)
            found = find_source(&endpoints->at[i], choice->address);
    if (!found && choice->reason[0] == '\0')
        snprintf(choice->reason, sizeof(choice->reason), "no interface reaches %s", name);
    free(endpoints);
}

/** A launcher may say where rank 0 is, or carry a key of its own. */
static void choose_by_launcher(const struct wring_config *config, struct address_choice *choice)
{
    struct wring_launched launched = {.size = 1, .local_size = -1};
    char root[WRING_LAUNCHER_ROOT];

    wring_launcher_find(config, NULL, &launched);
    bool has_key =
        config->key[0] != '\0' || config->key_file[0] != '\0' || launched.exchange != NULL;
    if (has_key && config->root[0] != '\0') {
        if (wring_launcher_root(config, NULL, root) != WRING_OK)
            snprintf(root, sizeof(root), "%s", config->root);
        choose_by_root(root, "WRING_ROOT", choice);
    } else if (!has_key || wring_launched_here(&launched)) {
        choice->rule =
            has_key ? "loopback, as all ranks run on this host" : "loopback, as there is no key";
        snprintf(choice->address, sizeof(choice->address), "127.0.0.1");
    } else if (launched.exchange != NULL) {
        choice->rule = "the interface that reaches rank 0";
        snprintf(choice->reason, sizeof(choice->reason),
                 "the ranks hear rank 0's addresses by %s as they meet", launched.exchange->name);
    } else {
        const char *name = launched.host[0] != '\0' ? launched.host : "WRING_ROOT";
        snprintf(root, sizeof(root), "%s%s", launched.host, launched.host[0] != '\0' ? ":1" : "");
        choose_by_root(root, name, choice);
    }
}

/** As sessions choose. */
static void choose_address(const struct wring_config *config, struct address_choice *choice)
{
    if (config->bind[0] != '\0' && config->iface[0] != '\0') {
        choice->rule = "WRING_BIND";
        snprintf(choice->reason, sizeof(choice->reason),
                 "WRING_BIND and WRING_IFACE are set: set one of them");
    } else if (config->bind[0] != '\0') {
        choice->rule = "WRING_BIND";
        snprintf(choice->address, sizeof(choice->address), "%.*s", (int)sizeof(choice->address) - 1,
                 config->bind);
        if (!wring_interface_has(choice->address))
            snprintf(choice->reason, sizeof(choice->reason),
                     "no interface of this host has that address");
    } else if (config->iface[0] != '\0') {
        choice->rule = "WRING_IFACE";
        if (wring_interface_find(NULL, config->iface, "", choice->address) != WRING_OK)
            snprintf(choice->reason, sizeof(choice->reason),
                     "no such interface is up and has an address that others can reach");
    } else {
        choose_by_launcher(config, choice);
    }
}

json_t *wring_info_network(const struct wring_config *config)
{
    struct address_choice choice = {0};
    char seen[SEEN_TEXT], name[WRING_INTERFACE_ADDRESS];

    choose_address(config, &choice);
    wring_interface_list(seen, sizeof(seen));
    wring_interface_name(choice.address, name, sizeof(name));
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:s}", "rule", choice.rule, "address",
                     wring_json_text(choice.address), "interface", name, "reason",
                     wring_json_text(choice.reason), "ports",
                     wring_json_text(config->ports[0] != '\0' ? config->ports : "any"),
                     "interfaces", seen);
}

void wring_info_show_network(FILE *file, json_t *network)
{
    const char *reason = json_string_value(json_object_get(network, "reason"));
    const char *address = json_string_value(json_object_get(network, "address"));
    const char *name = json_string_value(json_object_get(network, "interface"));

    fprintf(file,
            "Network (WRING_BIND, else WRING_IFACE, else the interface that reaches the root):\n");
    fprintf(file, "  rule        %s\n", json_string_value(json_object_get(network, "rule")));
    if (reason[0] != '\0')
        fprintf(file, "  address     none: %s\n", reason);
    else
        fprintf(file, "  address     %s%s%s\n", address, name[0] != '\0' ? " on " : "", name);
    fprintf(file, "  ports       %s\n", json_string_value(json_object_get(network, "ports")));
    fprintf(file, "  interfaces  %s\n\n",
            json_string_value(json_object_get(network, "interfaces")));
}

/* ---- launcher ---- */

/* Which launcher this process sees, and what a session would take from it. */

/** Keeps the reason instead of printing it. @param arg  [WRING_LAUNCHER_TEXT] */
static void keep_reason(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)module;
    if (level == WRING_LOG_ERROR)
        snprintf(arg, WRING_LAUNCHER_TEXT, "%s", text);
}

static const char *key_source(const struct wring_config *config,
                              const struct wring_launched *launched)
{
    if (config->key[0] != '\0')
        return "WRING_KEY";
    if (config->key_file[0] != '\0')
        return "WRING_KEY_FILE";
    return launched->exchange != NULL ? "launcher" : "none";
}

/** Where ranks would meet, as far as this process knows alone. @param text out, [bytes] */
static void write_root(const struct wring_config *config, const struct wring_launched *launched,
                       char *text, size_t bytes)
{
    struct wring_ports configured = {0}, ports;
    char root[WRING_LAUNCHER_ROOT];
    struct wring_log silent = {.fn = NULL, .level = WRING_LOG_ERROR};

    text[0] = '\0';
    if (launched->size == 1)
        return;
    if (config->root[0] != '\0') {
        bool is_whole = wring_launcher_root(config, NULL, root) == WRING_OK;
        snprintf(text, bytes, "%s", is_whole ? root : config->root);
    } else if (launched->exchange != NULL) {
        snprintf(text, bytes, "rank 0 tells by %s", launched->exchange->name);
    } else if (launched->host[0] != '\0' &&
               wring_ports_read(&silent, config->ports, &configured) == WRING_OK) {
        ports = wring_launcher_ports(&configured, launched->job);
        snprintf(text, bytes, "%s:%u-%u",
                 wring_launched_here(launched) ? "127.0.0.1" : launched->host, ports.first,
                 ports.last);
    }
}

static json_t *number_or_null(int32_t number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

json_t *wring_info_launcher(const struct wring_config *config)
{
    char reason[WRING_LAUNCHER_TEXT] = "", root[WRING_LAUNCHER_ROOT];
    struct wring_log log = {.fn = keep_reason, .arg = reason, .level = WRING_LOG_ERROR};
    struct wring_launched launched = {.rank = 0, .size = 1, .local_rank = -1, .local_size = -1};
    bool usable = wring_launcher_find(config, &log, &launched) == WRING_OK;

    write_root(config, &launched, root, sizeof(root));
    return json_pack("{s:o, s:b, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:s}", "name",
                     launched.name != NULL ? json_string(launched.name) : json_null(), "usable",
                     usable, "reason", wring_json_text(reason), "exchange",
                     launched.exchange != NULL ? json_string(launched.exchange->name) : json_null(),
                     "rank", (int)launched.rank, "size", (int)launched.size, "local_rank",
                     number_or_null(launched.local_rank), "local_size",
                     number_or_null(launched.local_size), "root", wring_json_text(root), "key",
                     key_source(config, &launched));
}

/* ---- rdma ---- */

/* RDMA devices: what each port is, what its device can do, and which would be used now. */

static json_t *describe_gids(const struct verbs_port *port)
{
    json_t *gids = json_array();
    char text[VERBS_GID_TEXT];

    for (unsigned i = 0; i < port->n_gids; i++) {
        const struct verbs_gid *gid = &port->gids[i];
        json_array_append_new(gids,
                              json_pack("{s:i, s:s, s:s}", "index", gid->index, "type",
                                        wring_verbs_gid_type_text((enum verbs_gid_type)gid->type),
                                        "address", wring_verbs_gid_text(gid->bytes, text)));
    }
    return gids;
}

static json_t *describe_pkeys(const struct verbs_port *port)
{
    json_t *pkeys = json_array();

    for (unsigned i = 0; i < port->n_pkeys; i++)
        if (port->pkeys[i] != 0)
            json_array_append_new(pkeys, json_sprintf("0x%04x", port->pkeys[i]));
    return pkeys;
}

static json_t *describe_caps(const struct verbs_caps *can)
{
    return json_pack(
        "{s:b, s:b, s:b, s:I, s:I, s:o}", "extended_cq", can->extended_cq, "wr_calls",
        can->wr_calls, "dmabuf", can->dmabuf, "inline_bytes", (json_int_t)can->inline_bytes,
        "max_queue_pairs", (json_int_t)can->max_queue_pairs, "max_region_bytes",
        can->max_region_bytes <= INT64_MAX ? json_integer((json_int_t)can->max_region_bytes)
                                           : json_null() /* no limit */);
}

static const char *locality_word(enum verbs_locality locality)
{
    switch (locality) {
    case VERBS_LOCALITY_UNKNOWN:
        return "unknown";
    case VERBS_LOCALITY_NEAR:
        return "near";
    case VERBS_LOCALITY_FAR:
        return "far";
    }
    return "unknown";
}

/** The number of the rail that a port would be; JSON null where it would be none. */
static json_t *rail_of(const struct verbs_survey *survey, const struct verbs_port *port)
{
    for (size_t i = 0; i < survey->n_rails; i++)
        if (survey->rails[i].port == port->number &&
            strcmp(survey->rails[i].device, port->device) == 0)
            return json_integer((json_int_t)i);
    return json_null();
}

static json_t *describe_port(const struct verbs_survey *survey, size_t index)
{
    const struct verbs_port *port = &survey->table.ports[index];
    json_t *json =
        json_pack("{s:s, s:i, s:o, s:o}", "device", port->device, "port", port->number, "rail",
                  rail_of(survey, port), "why", wring_json_text(survey->why[index]));

    if (json == NULL || port->trouble[0] != '\0')
        return json;
    json_t *more =
        json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o}", "state",
                  wring_verbs_state_text(port->state), "link", wring_verbs_link_text(port->link),
                  "gbit", port->mbit > 0 ? json_real(port->mbit / 1e3) : json_null(), "mtu_bytes",
                  (int)port->mtu, "max_mtu_bytes", (int)port->max_mtu, "lid", port->lid, "place",
                  locality_word(port->locality), "numa",
                  port->numa >= 0 ? json_integer(port->numa) : json_null(), "vendor",
                  json_sprintf("0x%06x", port->vendor), "gids", describe_gids(port), "pkeys",
                  describe_pkeys(port), "abilities", describe_caps(&port->can));
    json_object_update(json, more);
    json_decref(more);
    return json;
}

json_t *wring_info_rdma(const struct wring_config *config)
{
    struct verbs_survey survey;
    json_t *ports = json_array();

    wring_verbs_survey(config, &survey);
    for (size_t i = 0; i < survey.table.n; i++)
        json_array_append_new(ports, describe_port(&survey, i));
    json_t *rdma =
        json_pack("{s:o, s:o, s:o, s:i, s:o}", "asked", wring_json_text(config->verbs_devices),
                  "unmatched", wring_json_text(survey.unmatched), "reason",
                  wring_json_text(survey.reason), "rails", (int)survey.n_rails, "ports", ports);
    wring_verbs_survey_finish(&survey);
    return rdma;
}

/* ---- rdma show ---- */

/* RDMA devices, for people. */

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void add_number(struct wring_table *table, json_t *object, const char *key)
{
    json_t *number = json_object_get(object, key);
    if (json_is_integer(number))
        wring_table_cell(table, "%lld", (long long)json_integer_value(number));
    else if (json_is_number(number))
        wring_table_cell(table, "%g", json_number_value(number));
    else
        wring_table_cell(table, "%s", json_is_null(number) ? "unknown" : "");
}

static void add_name(struct wring_table *table, json_t *port)
{
    wring_table_cell(table, "%s:%lld", text_of(port, "device"),
                     (long long)json_integer_value(json_object_get(port, "port")));
}

static void show_ports(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {
        {"port", WRING_ALIGN_LEFT},    {"link", WRING_ALIGN_LEFT}, {"state", WRING_ALIGN_LEFT},
        {"Gbit/s", WRING_ALIGN_RIGHT}, {"MTU", WRING_ALIGN_RIGHT}, {"place", WRING_ALIGN_LEFT},
        {"rail", WRING_ALIGN_LEFT},    {"why", WRING_ALIGN_LEFT},
    };
    struct wring_table *table = wring_table_create(columns, 8);
    json_t *port;
    size_t i;

    json_array_foreach(ports, i, port)
    {
        json_t *rail = json_object_get(port, "rail");
        add_name(table, port);
        wring_table_cell(table, "%s", text_of(port, "link"));
        wring_table_cell(table, "%s", text_of(port, "state"));
        add_number(table, port, "gbit");
        add_number(table, port, "mtu_bytes");
        wring_table_cell(table, "%s", text_of(port, "place"));
        if (json_is_integer(rail))
            wring_table_cell(table, "%lld", (long long)json_integer_value(rail));
        else
            wring_table_cell(table, "no");
        wring_table_cell(table, "%s", text_of(port, "why"));
    }
    wring_table_finish(table, file);
}

static void show_gids(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {{"port", WRING_ALIGN_LEFT},
                                                        {"GID index", WRING_ALIGN_RIGHT},
                                                        {"type", WRING_ALIGN_LEFT},
                                                        {"address", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 4);
    json_t *port, *gid;
    size_t i, j;

    json_array_foreach(ports, i, port) json_array_foreach(json_object_get(port, "gids"), j, gid)
    {
        add_name(table, port);
        add_number(table, gid, "index");
        wring_table_cell(table, "%s", text_of(gid, "type"));
        wring_table_cell(table, "%s", text_of(gid, "address"));
    }
    wring_table_finish(table, file);
}

static void add_ability(struct wring_table *table, json_t *can, const char *key)
{
    wring_table_cell(table, "%s", json_is_true(json_object_get(can, key)) ? "yes" : "no");
}

/** A line for each device: its ports can do the same. */
static void show_caps(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {
        {"device", WRING_ALIGN_LEFT},        {"extended CQ", WRING_ALIGN_LEFT},
        {"ibv_wr_*", WRING_ALIGN_LEFT},      {"dma-buf", WRING_ALIGN_LEFT},
        {"inline bytes", WRING_ALIGN_RIGHT}, {"queue pairs", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 6);
    const char *last = "";
    json_t *port;
    size_t i;

    json_array_foreach(ports, i, port)
    {
        json_t *can = json_object_get(port, "abilities");
        if (can == NULL || strcmp(last, text_of(port, "device")) == 0)
            continue;
        last = text_of(port, "device");
        wring_table_cell(table, "%s", last);
        add_ability(table, can, "extended_cq");
        add_ability(table, can, "wr_calls");
        add_ability(table, can, "dmabuf");
        add_number(table, can, "inline_bytes");
        add_number(table, can, "max_queue_pairs");
    }
    wring_table_finish(table, file);
}

void wring_info_show_rdma(FILE *file, json_t *rdma)
{
    json_t *ports = json_object_get(rdma, "ports");
    const char *asked = text_of(rdma, "asked");

    if (json_array_size(ports) == 0) {
        fprintf(file, "RDMA: %s\n\n", text_of(rdma, "reason"));
        return;
    }
    if (asked[0] != '\0')
        fprintf(file, "RDMA ports, WRING_VERBS_DEVICES=%s:\n", asked);
    else
        fprintf(file, "RDMA ports, and which of them verbs would use (WRING_VERBS_DEVICES):\n");
    if (text_of(rdma, "unmatched")[0] != '\0')
        fprintf(file, "  there is no %s\n", text_of(rdma, "unmatched"));
    show_ports(file, ports);
    show_gids(file, ports);
    show_caps(file, ports);
    fputc('\n', file);
}
