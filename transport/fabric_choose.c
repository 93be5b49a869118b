/* SPDX-License-Identifier: Apache-2.0 */
/* Which device reaches which peer: every rank comes to the same choice from what all have said. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "base/host.h"
#include "transport/fabric.h"

#define WRING_MODULE "fabric"
#define INFLIGHT_MIN_BYTES (512u << 10)

struct description {
    char host[WRING_CONFIG_TEXT];
    char machine[WRING_CONFIG_TEXT];
    cpu_set_t cores;
    uint32_t n_devices;
    struct {
        char name[WRING_NAME_BYTES];
        const void *address;
        size_t address_bytes;
    } devices[WRING_DEVICES_MAX];
    char lacks[WRING_TEXT_MAX]; /* what it goes without, and why */
};

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

static bool parse_cores(struct wring_reader *reader, struct description *out)
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

    if (fabric->config->node[0] != '\0')
        snprintf(host, sizeof(host), "node:%.*s", (int)sizeof(host) - 6, fabric->config->node);
    else if (!wring_host_identity(host, sizeof(host)))
        snprintf(host, sizeof(host), "rank:%" PRIu32, fabric->rank); /* like nobody else */
    wring_write_sized(out, host, strlen(host));
    describe_cores(out);
    wring_write_u32(out, fabric->n_devices);
    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        const struct wring_device *device = &fabric->devices[i];
        wring_write_sized(out, device->name, strlen(device->name));
        wring_write_sized(out, device->address, device->address_bytes);
    }
    wring_write_sized(out, fabric->lacks, strlen(fabric->lacks));
}

static bool parse(const struct wring_blobs *blobs, uint32_t rank, struct description *out)
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
    return !reader.failed && reader.bytes == 0;
}

static int find_device(const struct description *description, const char *name)
{
    for (uint32_t i = 0; i < description->n_devices; i++)
        if (strcmp(description->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int find_own(const struct wring_fabric *fabric, const char *name)
{
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        if (strcmp(fabric->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}

/** What all ranks have together. */
struct survey {
    uint32_t holders[WRING_DEVICES_MAX]; /* by our devices: how many ranks have it */
    uint32_t lacking;           /* the first rank that goes without something; size: none */
    char lacks[WRING_TEXT_MAX]; /* what, and why */
};

static enum wring_status take_survey(const struct wring_fabric *fabric,
                                     const struct wring_blobs *blobs, struct survey *out)
{
    struct description one;
    *out = (struct survey){.lacking = fabric->size};
    for (uint32_t rank = 0; rank < fabric->size; rank++) {
        if (!parse(blobs, rank, &one)) {
            wring_error(fabric->log, "rank %" PRIu32 " described itself in malformed bytes", rank);
            return WRING_ERR_FRAME;
        }
        for (uint32_t i = 0; i < fabric->n_devices; i++)
            out->holders[i] += find_device(&one, fabric->devices[i].name) >= 0;
        if (one.lacks[0] != '\0' && out->lacking == fabric->size) {
            out->lacking = rank;
            memcpy(out->lacks, one.lacks, sizeof(out->lacks));
        }
    }
    return WRING_OK;
}

/**
 * The first device of the lower rank that the higher one has and that reaches: both agree. What
 * leads to other hosts is one device for all, where there is one that every rank has.
 */
static int common_device(const struct wring_fabric *fabric, const struct survey *survey,
                         const struct description *lower, const struct description *higher)
{
    int second_best = -1;
    for (uint32_t i = 0; i < lower->n_devices; i++) {
        const char *name = lower->devices[i].name;
        int own = find_own(fabric, name);
        if (own < 0 || find_device(higher, name) < 0)
            continue;
        bool same_host_only = fabric->devices[own].caps.same_host_only;
        if (same_host_only && strcmp(lower->host, higher->host) != 0)
            continue;
        if (same_host_only || survey->holders[own] == fabric->size)
            return own;
        second_best = second_best < 0 ? own : second_best;
    }
    return second_best;
}

/**
 * What may be under way to a peer: as little as keeps the link busy, as what is urgent waits behind
 * it. An acknowledgement comes late where it stands in line behind the peer's own pieces.
 */
static size_t inflight_max(const struct wring_fabric *fabric,
                           const struct wring_provider_caps *caps)
{
    size_t bytes = fabric->config->chunk_bytes * (caps->put_acked ? 4 : 2);
    return bytes > INFLIGHT_MIN_BYTES ? bytes : INFLIGHT_MIN_BYTES;
}

static enum wring_status choose_for(struct wring_fabric *fabric, const struct survey *survey,
                                    const struct description *own, const struct description *other,
                                    struct wring_peer *peer)
{
    bool is_lower = peer->rank < fabric->rank;
    int device = common_device(fabric, survey, is_lower ? other : own, is_lower ? own : other);
    if (device < 0) {
        wring_error(fabric->log,
                    "ranks %" PRIu32 " and %" PRIu32
                    " have no provider in common that reaches from "
                    "one to the other; see WRING_PROVIDER",
                    fabric->rank, peer->rank);
        return WRING_ERR_UNSUPPORTED;
    }
    int theirs = find_device(other, fabric->devices[device].name);
    peer->device = (uint32_t)device;
    peer->put_copies = fabric->devices[device].caps.put_copies;
    peer->inflight_max = inflight_max(fabric, &fabric->devices[device].caps);
    peer->address = other->devices[theirs].address;
    peer->address_bytes = other->devices[theirs].address_bytes;
    return WRING_OK;
}

/** The share of our cores that a rank takes, as far as it can be known: it uses its own alike. */
static double load_of(const struct description *own, const struct description *other)
{
    cpu_set_t both;
    CPU_AND(&both, &own->cores, &other->cores);
    if (strcmp(own->machine, other->machine) != 0 || CPU_COUNT(&both) == 0)
        return 0;
    return (double)CPU_COUNT(&both) / CPU_COUNT(&other->cores);
}

/** It runs on cores of this machine, and on none of ours. */
static bool is_beside(const struct description *own, const struct description *other)
{
    cpu_set_t both;
    CPU_AND(&both, &own->cores, &other->cores);
    return strcmp(own->machine, other->machine) == 0 && CPU_COUNT(&both) == 0 &&
           CPU_COUNT(&own->cores) > 0 && CPU_COUNT(&other->cores) > 0;
}

static bool is_used(const struct wring_fabric *fabric, uint32_t device)
{
    for (uint32_t i = 0; i < fabric->size; i++)
        if (i != fabric->rank && fabric->peers[i].device == device)
            return true;
    return false;
}

/** What was taken unasked and serves nobody registers no memory either. */
static void close_unused(struct wring_fabric *fabric)
{
    for (uint32_t i = fabric->n_devices; i-- > 0;) {
        if (!fabric->devices[i].optional || is_used(fabric, i))
            continue;
        fabric->devices[i].provider->ops->close(fabric->devices[i].provider);
        fabric->n_devices--;
        for (uint32_t d = i; d < fabric->n_devices; d++)
            fabric->devices[d] = fabric->devices[d + 1];
        for (uint32_t p = 0; p < fabric->size; p++)
            fabric->peers[p].device -= fabric->peers[p].device > i;
    }
}

/** Rank 0 says for all what leads to other hosts, and what would but for whom. */
static void tell_choice(const struct wring_fabric *fabric, const struct survey *survey)
{
    const char *name = NULL;
    for (uint32_t i = 1; fabric->rank == 0 && i < fabric->size && name == NULL; i++)
        if (!fabric->devices[fabric->peers[i].device].caps.same_host_only)
            name = fabric->devices[fabric->peers[i].device].name;
    if (name != NULL && survey->lacking < fabric->size)
        wring_info(fabric->log, "%s leads to other hosts: rank %" PRIu32 " goes without %s", name,
                   survey->lacking, survey->lacks);
    else if (name != NULL)
        wring_info(fabric->log, "%s leads to other hosts", name);
}

enum wring_status wring_fabric_choose(struct wring_fabric *fabric, const struct wring_blobs *blobs)
{
    struct survey survey;
    struct description own, other;
    enum wring_status status = take_survey(fabric, blobs, &survey);
    if (status != WRING_OK || !parse(blobs, fabric->rank, &own))
        return status;
    double load = 0;
    for (uint32_t i = 0; i < fabric->size && status == WRING_OK; i++) {
        if (!parse(blobs, i, &other))
            return WRING_ERR_FRAME;
        load += load_of(&own, &other);
        fabric->peers[i].beside = is_beside(&own, &other);
        if (i != fabric->rank)
            status = choose_for(fabric, &survey, &own, &other, &fabric->peers[i]);
    }
    if (status != WRING_OK)
        return status;
    fabric->crowded = load > CPU_COUNT(&own.cores);
    tell_choice(fabric, &survey);
    close_unused(fabric);
    return WRING_OK;
}
