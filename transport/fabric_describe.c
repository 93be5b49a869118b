/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/fabric_describe.h"

#include <errno.h>
#include <string.h>

#include "base/host.h"
#include "base/log.h"

#define WRING_MODULE "fabric"

/** The machine, however many hosts it counts as, and the cores that we may run on there. */
static void describe_cores(struct wring_writer *out)
{
    char machine[WRING_CONFIG_TEXT];
    cpu_set_t cores;

    if (!wring_host_identity(machine, sizeof(machine)))
        machine[0] = '\0';
    machine[strcspn(machine, "/")] = '\0';
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        CPU_ZERO(&cores); /* more cores than fit: then there are enough */
    wring_write_sized(out, machine, strlen(machine));
    wring_write_sized(out, &cores, sizeof(cores));
}

static bool parse_cores(struct wring_reader *reader, struct wring_description *out)
{
    size_t bytes;
    wring_read_text(reader, out->machine, sizeof(out->machine));
    const void *cores = wring_read_sized(reader, &bytes);
    if (cores == NULL || bytes != sizeof(out->cores))
        return false;
    memcpy(&out->cores, cores, bytes);
    return true;
}

void wring_fabric_describe(const struct wring_fabric *fabric, struct wring_writer *out)
{
    char host[WRING_CONFIG_TEXT];

    if (!wring_host_of_rank(fabric->config->node, fabric->rank, host, sizeof(host)))
        wring_warn(fabric->log,
                   "this host cannot be told from others, and counts as one of its own: %s; "
                   "WRING_NODE names it",
                   WRING_REFUSED("open of /proc/sys/kernel/random/boot_id"));
    wring_write_sized(out, host, strlen(host));
    describe_cores(out);
    wring_write_u32(out, fabric->n_devices);
    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        const struct wring_device *device = &fabric->devices[i];
        wring_write_sized(out, device->name, strlen(device->name));
        wring_write_sized(out, device->address, device->address_bytes);
    }
    wring_write_sized(out, fabric->lacks, strlen(fabric->lacks));
    struct wring_control_tree_place place = {NULL, 0};
    if (fabric->tree != NULL)
        place = wring_control_tree_place(fabric->tree);
    wring_write_sized(out, place.address, place.bytes);
}

bool wring_description_read(const struct wring_blobs *blobs, uint32_t rank,
                            struct wring_description *out)
{
    struct wring_reader reader = {blobs->storage + blobs->offsets[rank],
                                  blobs->offsets[rank + 1] - blobs->offsets[rank], false};
    wring_read_text(&reader, out->host, sizeof(out->host));
    if (!parse_cores(&reader, out))
        return false;
    out->n_devices = wring_read_u32(&reader);
    if (out->n_devices > WRING_DEVICES_MAX)
        return false;
    for (uint32_t i = 0; i < out->n_devices; i++) {
        wring_read_text(&reader, out->devices[i].name, sizeof(out->devices[i].name));
        out->devices[i].address = wring_read_sized(&reader, &out->devices[i].address_bytes);
    }
    wring_read_text(&reader, out->lacks, sizeof(out->lacks));
    out->tree.address = wring_read_sized(&reader, &out->tree.bytes);
    return !reader.failed && reader.bytes == 0;
}

int wring_description_find(const struct wring_description *description, const char *name)
{
    for (uint32_t i = 0; i < description->n_devices; i++)
        if (strcmp(description->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}
