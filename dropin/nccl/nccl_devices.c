/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The devices that NCCL sees: each port of an RDMA device that verbs can use, so that NCCL pairs
 * adapters with GPUs by the PCI tree; or, where there is none, the host's network as one device.
 *
 * A port moves device memory by itself if its adapter and the CUDA driver both have dma-bufs, or if
 * the kernel translates addresses of that memory for adapters (nvidia_peermem). Everywhere else
 * NCCL copies through host memory of its own, as it does for sockets.
 */
#include "dropin/nccl/nccl_own.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "transport/providers/providers.h"
#include "transport/providers/verbs/library.h"
#include "transport/providers/verbs/select.h"

#define UNKNOWN_MBPS 10000 /* as NCCL itself takes where an interface does not say */
#define STAGED "host memory: NCCL stages"

bool wring_nccl_names(const char *list, const char *name)
{
    size_t bytes = strlen(name);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, bytes) == 0 && (at[bytes] == '\0' || at[bytes] == ','))
            return true;
    }
    return false;
}

/** The number at the beginning of a file; 0: there is none. */
static int read_number(const char *path)
{
    int number = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &number) != 1 || number < 0)
        number = 0;
    fclose(file);
    return number;
}

static int fastest_rdma_mbps(void)
{
    glob_t found;
    int best = 0;

    if (glob("/sys/class/infiniband/*/ports/*/rate", 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int gbps = read_number(found.gl_pathv[i]); /* "100 Gb/sec (4X EDR)" */
        best = gbps > best ? gbps : best;
    }
    globfree(&found);
    return best < 1000000 ? best * 1000 : 0;
}

/** A number of this host's device that is the same in all of its processes. */
static uint64_t make_guid(const char *name)
{
    char text[192] = "";
    uint64_t hash = 14695981039346656037u;

    if (!wring_host_identity(text, sizeof(text) - 100))
        snprintf(text, sizeof(text), "%s", wring_nccl_own.address);
    size_t at = strlen(text);
    snprintf(text + at, sizeof(text) - at, "/%s", name);
    for (const char *byte = text; *byte != '\0'; byte++)
        hash = (hash ^ (uint8_t)*byte) * 1099511628211u;
    return hash;
}

/** Where a device hangs in the PCI tree. @param class  "net" or "infiniband" */
static void find_pci_path(const char *class, const char *name, char *out, size_t bytes)
{
    char path[160];

    snprintf(path, sizeof(path), "/sys/class/%s/%.96s/device", class, name);
    char *real = realpath(path, NULL);
    snprintf(out, bytes, "%s", real != NULL && strlen(real) < bytes ? real : "");
    free(real);
}

/* ---- the network as a whole ---- */

static void add_network_device(bool rdma, const char *interface)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    struct wring_nccl_device *device = &own->devices[0];
    char path[128];

    *device = (struct wring_nccl_device){.name = "wring", .guid = make_guid(interface)};
    snprintf(device->about, sizeof(device->about), "%s", STAGED);
    device->speed_mbps = rdma ? fastest_rdma_mbps() : 0;
    if (device->speed_mbps == 0 && interface[0] != '\0') {
        snprintf(path, sizeof(path), "/sys/class/net/%.64s/speed", interface);
        device->speed_mbps = read_number(path);
    }
    if (device->speed_mbps == 0)
        device->speed_mbps = UNKNOWN_MBPS;
    own->n_devices = 1;
}

/* ---- ports ---- */

/** May sessions use verbs? */
static bool uses_verbs(void)
{
    const struct wring_config *config = &wring_nccl_own.config;
    const struct wring_provider_ops *verbs = &wring_provider_verbs;
    char reason[256];

    if (strcmp(config->nccl_devices, "one") == 0)
        return false;
    if (strcmp(config->provider, "auto") != 0)
        return wring_nccl_names(config->provider, verbs->name);
    return verbs->probe(reason, sizeof(reason)) == WRING_OK &&
           verbs->suits(config, reason, sizeof(reason)) == WRING_OK;
}

/** Alone it would be a rail: far ones count as well, since NCCL weighs distance itself. */
static bool is_usable(struct verbs_port *port)
{
    const struct wring_config *config = &wring_nccl_own.config;
    const struct verbs_table table = {.ports = port, .n = 1};
    const struct verbs_wish wish = {.devices = config->verbs_devices,
                                    .rails = 1,
                                    .gid_index = (int)config->verbs_gid_index,
                                    .pkey = (uint16_t)config->verbs_pkey};
    struct verbs_choice choice[VERBS_RAILS_MAX];
    char why[1][VERBS_WHY];

    return wring_verbs_choose(&table, &wish, choice, why) == 1;
}

static void add_setting(struct wring_nccl_device *device, const char *name, const char *value)
{
    snprintf(device->settings[device->n_settings++], WRING_NCCL_SETTING, "%s=%s", name, value);
}

static void add_port_device(const struct verbs_port *port, bool exported)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    struct wring_nccl_device *device = &own->devices[own->n_devices++];
    char exactly[WRING_NCCL_NAME + 2];

    *device = (struct wring_nccl_device){.port = port->number, .speed_mbps = (int)port->mbit};
    snprintf(device->name, sizeof(device->name), "%s:%u", port->device, port->number);
    device->guid = make_guid(device->name);
    find_pci_path("infiniband", port->device, device->pci_path, sizeof(device->pci_path));
    if (device->speed_mbps == 0)
        device->speed_mbps = UNKNOWN_MBPS;
    device->dmabuf = port->can.dmabuf && exported;
    device->addresses = wring_verbs_takes_addresses(own->config.verbs_peermem);
    device->cuda = device->dmabuf || device->addresses;
    snprintf(device->about, sizeof(device->about), "%s",
             device->dmabuf      ? "GPUDirect by dma-buf"
             : device->addresses ? "GPUDirect by nvidia_peermem"
             : !port->can.dmabuf ? STAGED " (the adapter takes no dma-buf)"
                                 : STAGED " (no CUDA driver that exports dma-bufs is loaded)");
    snprintf(exactly, sizeof(exactly), "=%s", device->name);
    add_setting(device, "WRING_VERBS_DEVICES", exactly);
    if (device->cuda) /* no other provider moves device memory */
        add_setting(device, "WRING_PROVIDER", "verbs");
}

/** In the order in which the user names them. */
static void add_listed_ports(const struct verbs_survey *survey)
{
    const char *list = wring_nccl_own.config.verbs_devices;
    const struct verbs_table *table = &survey->table;
    bool exported = wring_devices_export_dmabufs();

    if (wring_verbs_list_fault(list) != NULL)
        return; /* which each session says */
    for (int wanted = 0; wanted <= WRING_NCCL_DEVICES; wanted++)
        for (size_t i = 0; i < table->n && wring_nccl_own.n_devices < WRING_NCCL_DEVICES; i++) {
            struct verbs_port *port = &table->ports[i];
            int preference = wring_verbs_match(list, port->device, port->number);
            bool turn = preference == wanted ||
                        (wanted == WRING_NCCL_DEVICES && preference > WRING_NCCL_DEVICES);
            if (turn && is_usable(port))
                add_port_device(port, exported);
        }
}

/** What its links are told. They prove their handle's key, as the settings know by one being there.
 */
static void configure_device(struct wring_nccl_device *device)
{
    char name[64];

    device->config = wring_nccl_own.config;
    snprintf(device->config.key, sizeof(device->config.key), "%s", "of the handle");
    for (unsigned i = 0; i < device->n_settings; i++) {
        const char *equals = strchr(device->settings[i], '=');
        snprintf(name, sizeof(name), "%.*s", (int)(equals - device->settings[i]),
                 device->settings[i]);
        wring_config_set(&device->config, &wring_nccl_own.log, name, equals + 1);
    }
}

/* ---- several ports as one ---- */

/** NCCL keeps its numbers as long as the plugin is loaded. */
struct fused {
    int n, parts[WRING_NCCL_PARTS];
    char names[WRING_NCCL_PARTS][WRING_NCCL_NAME];
};

static unsigned list_fused(struct fused *out)
{
    const struct wring_nccl_own *own = &wring_nccl_own;
    unsigned n = 0;

    for (int i = own->n_real; i < own->n_devices; i++, n++) {
        out[n].n = own->devices[i].n_parts;
        memcpy(out[n].parts, own->devices[i].parts, sizeof(out[n].parts));
        for (int part = 0; part < out[n].n; part++)
            memcpy(out[n].names[part], own->devices[out[n].parts[part]].name, WRING_NCCL_NAME);
    }
    return n;
}

/** Names of the parts, with something between them. @return false: they are too long */
static bool join_names(int n, const int *parts, const char *between, char *out, size_t bytes)
{
    size_t at = 0;

    for (int i = 0; i < n && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%s", i > 0 ? between : "",
                               wring_nccl_own.devices[parts[i]].name);
    return at < bytes;
}

/** The parts are real ones. @return false: their names are too long */
static bool add_fused(int n, const int *parts)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    struct wring_nccl_device *device = &own->devices[own->n_devices];
    char name[WRING_NCCL_NAME] = "", list[WRING_CONFIG_TEXT] = "=", rails[8];

    if (!join_names(n, parts, "+", name, sizeof(name)) ||
        !join_names(n, parts, ",", list + 1, sizeof(list) - 1))
        return false;
    *device = own->devices[parts[0]];
    memcpy(device->name, name, sizeof(name));
    device->guid = make_guid(device->name);
    device->n_parts = n;
    memcpy(device->parts, parts, (size_t)n * sizeof(parts[0]));
    for (int i = 1; i < n; i++) {
        device->speed_mbps += own->devices[parts[i]].speed_mbps;
        device->dmabuf &= own->devices[parts[i]].dmabuf;
        device->addresses &= own->devices[parts[i]].addresses;
    }
    if (device->cuda && !device->dmabuf && !device->addresses)
        snprintf(device->about, sizeof(device->about), "%s", STAGED " (one of its ports does not)");
    device->cuda = device->dmabuf || device->addresses;
    snprintf(rails, sizeof(rails), "%d", n);
    device->n_settings = 0;
    add_setting(device, "WRING_VERBS_DEVICES", list);
    add_setting(device, "WRING_VERBS_RAILS", rails);
    if (device->cuda)
        add_setting(device, "WRING_PROVIDER", "verbs");
    configure_device(device);
    own->n_devices++; /* last: other threads read what is below it */
    return true;
}

/** Those of before, if their parts are where they were. */
static void add_fused_again(const struct fused *fused, unsigned n)
{
    const struct wring_nccl_own *own = &wring_nccl_own;

    for (unsigned i = 0; i < n && own->n_devices < WRING_NCCL_DEVICES; i++) {
        bool there = true;
        for (int part = 0; part < fused[i].n && there; part++)
            there = fused[i].parts[part] < own->n_real &&
                    strcmp(own->devices[fused[i].parts[part]].name, fused[i].names[part]) == 0;
        if (!there || !add_fused(fused[i].n, fused[i].parts))
            return; /* numbers of those that follow would differ */
    }
}

/** @return NULL, or what is wrong with it */
static const char *find_fault_of_parts(int n, const int *parts)
{
    const struct wring_nccl_own *own = &wring_nccl_own;

    if (n < 1 || n > WRING_NCCL_PARTS)
        return "it has between 1 and 8 parts";
    for (int i = 0; i < n; i++) {
        if (parts[i] < 0 || parts[i] >= own->n_real)
            return "a part is no device, or made of several itself";
        if (own->devices[parts[i]].n_settings == 0)
            return "only ports of RDMA devices can be parts";
        for (int j = 0; j < i; j++)
            if (parts[i] == parts[j])
                return "a part is there twice";
    }
    return NULL;
}

/** @return its number; -1: there is none */
static int find_fused(int n, const int *parts)
{
    const struct wring_nccl_own *own = &wring_nccl_own;

    for (int i = 0; i < own->n_devices; i++)
        if (own->devices[i].n_parts == n &&
            memcmp(own->devices[i].parts, parts, (size_t)n * sizeof(parts[0])) == 0)
            return i;
    return -1;
}

int wring_nccl_devices_fuse(int *out, int n, const int *parts)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    int code = wring_nccl_check_device(0);

    if (code != WRING_NCCL_SUCCESS)
        return code;
    pthread_mutex_lock(&own->mutex);
    const char *fault = find_fault_of_parts(n, parts);
    int made = fault == NULL ? find_fused(n, parts) : -1;
    bool is_new = fault == NULL && made < 0;
    if (is_new && own->n_devices == WRING_NCCL_DEVICES)
        fault = "there are as many devices as can be";
    else if (is_new && !add_fused(n, parts))
        fault = "the names of its parts are too long";
    else if (is_new)
        made = own->n_devices - 1;
    pthread_mutex_unlock(&own->mutex);
    if (fault != NULL) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: no device can be made of those %d: %s", n,
                       fault);
        return WRING_NCCL_INVALID_USAGE;
    }
    if (is_new)
        wring_nccl_say(WRING_NCCL_LOG_INFO, "wring: device %d: %s, %d Mbit/s, %s", made,
                       own->devices[made].name, own->devices[made].speed_mbps,
                       own->devices[made].about);
    *out = made;
    return WRING_NCCL_SUCCESS;
}

void wring_nccl_devices_find(bool rdma, const char *interface)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    struct fused fused[WRING_NCCL_DEVICES];
    struct verbs_survey survey;
    unsigned n_fused = list_fused(fused);

    own->n_devices = 0;
    if (uses_verbs()) {
        wring_verbs_survey(&own->config, &survey);
        add_listed_ports(&survey);
        wring_verbs_survey_finish(&survey);
    }
    if (own->n_devices == 0)
        add_network_device(rdma, interface);
    own->n_real = own->n_devices;
    for (int i = 0; i < own->n_real; i++) {
        own->devices[i].n_parts = 1;
        own->devices[i].parts[0] = i;
        configure_device(&own->devices[i]);
    }
    add_fused_again(fused, n_fused);
}

int wring_nccl_check_device(int device)
{
    struct wring_nccl_own *own = &wring_nccl_own;

    pthread_mutex_lock(&own->mutex);
    bool begun = own->users > 0 || own->lasting_users > 0;
    int n = own->n_devices;
    pthread_mutex_unlock(&own->mutex);
    if (begun && device >= 0 && device < n)
        return WRING_NCCL_SUCCESS;
    if (begun)
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: there is no device %d: there are %d", device,
                       n);
    else
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: device %d is used before init()", device);
    return begun ? WRING_NCCL_INVALID_ARGUMENT : WRING_NCCL_INVALID_USAGE;
}
