/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/roster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"

#define WRING_MODULE "fabric"
#define SEVERAL UINT32_MAX /* hosts */

/* ---- what a rank says of itself ---- */

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
    size_t bytes = sizeof(cores);
    while (bytes > 0 && ((const uint8_t *)&cores)[bytes - 1] == 0)
        bytes--;
    wring_write_sized(out, machine, strlen(machine));
    wring_write_sized(out, &cores, bytes);
}

static bool parse_cores(struct wring_reader *reader, struct wring_description *out)
{
    size_t bytes;
    wring_read_text(reader, out->machine, sizeof(out->machine));
    const void *cores = wring_read_sized(reader, &bytes);
    CPU_ZERO(&out->cores);
    if (reader->failed || bytes > sizeof(out->cores))
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
    wring_write_sized(out, fabric->config->site, strlen(fabric->config->site));
    describe_cores(out);
    wring_write_u32(out, fabric->n_devices);
    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        const struct wring_device *device = &fabric->devices[i];
        wring_write_sized(out, device->name, strlen(device->name));
        wring_write_sized(out, device->address, device->address_bytes);
    }
    wring_write_sized(out, fabric->lacks, strlen(fabric->lacks));
    struct wring_control_tree_endpoint endpoint = {NULL, 0};
    if (fabric->tree != NULL)
        endpoint = wring_control_tree_endpoint(fabric->tree);
    wring_write_sized(out, endpoint.address, endpoint.bytes);
}

bool wring_description_read(const struct wring_blobs *blobs, uint32_t rank,
                            struct wring_description *out)
{
    struct wring_reader reader = {blobs->storage + blobs->offsets[rank],
                                  blobs->offsets[rank + 1] - blobs->offsets[rank], false};
    wring_read_text(&reader, out->host, sizeof(out->host));
    wring_read_text(&reader, out->site, sizeof(out->site));
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

/* ---- kinds ---- */

/** Ranks that have the same devices, which reach alike. */
struct kind {
    uint32_t rank; /* the first of them */
    uint32_t node; /* on which all of them are; SEVERAL */
    uint64_t hash;
    struct wring_description of; /* the first */
};

/** A roster while it is made. */
struct making {
    struct wring_fabric *fabric;
    struct wring_roster *roster;
    struct wring_description one; /* of the rank that is looked at */
    struct kind *kinds;
    uint32_t *table; /* [mask + 1] rank + 1 by its host or site; 0: free */
    uint32_t mask;
    bool sited;                      /* a rank names its site */
    bool for_all[WRING_DEVICES_MAX]; /* of ours: every rank has it, and it reaches every host */
    uint32_t lacking;                /* the first rank that goes without something; size: none */
    char lacks[WRING_TEXT_MAX];
    char apart[2 * WRING_TEXT_MAX]; /* ranks that a device does not connect, and why; or "" */
    double load;                    /* of our cores */
};

static int find_own_device(const struct wring_fabric *fabric, const char *name)
{
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        if (strcmp(fabric->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}

/** What of a device's address decides whom it reaches. We have the device, or nobody asks. */
static size_t reach_of(const struct wring_fabric *fabric, const struct wring_description *of,
                       uint32_t device, const void **kind)
{
    int own = find_own_device(fabric, of->devices[device].name);
    *kind = "";
    if (own < 0)
        return 0;
    struct wring_provider *provider = fabric->devices[own].provider;
    return provider->ops->reach_kind(provider, of->devices[device].address,
                                     of->devices[device].address_bytes, kind);
}

static uint64_t hash_kind(const struct wring_fabric *fabric, const struct wring_description *of)
{
    uint64_t hash = wring_fold(WRING_FNV64, of->n_devices);
    for (uint32_t i = 0; i < of->n_devices; i++) {
        const void *kind;
        size_t bytes = reach_of(fabric, of, i, &kind);
        hash = wring_fnv64(hash, of->devices[i].name, strlen(of->devices[i].name) + 1);
        hash = wring_fnv64(wring_fold(hash, bytes), kind, bytes);
    }
    return hash;
}

static bool is_of_kind(const struct wring_fabric *fabric, const struct wring_description *one,
                       const struct wring_description *other)
{
    if (one->n_devices != other->n_devices)
        return false;
    for (uint32_t i = 0; i < one->n_devices; i++) {
        const void *a, *b;
        size_t bytes = reach_of(fabric, one, i, &a);
        if (strcmp(one->devices[i].name, other->devices[i].name) != 0 ||
            reach_of(fabric, other, i, &b) != bytes || (bytes > 0 && memcmp(a, b, bytes) != 0))
            return false;
    }
    return true;
}

/** @return the kind of making->one; -1: no memory */
static int find_kind(struct making *making, uint32_t rank)
{
    struct wring_roster *roster = making->roster;
    uint64_t hash = hash_kind(making->fabric, &making->one);
    for (uint32_t k = 0; k < roster->n_kinds; k++)
        if (making->kinds[k].hash == hash &&
            is_of_kind(making->fabric, &making->kinds[k].of, &making->one))
            return (int)k;
    uint32_t n = roster->n_kinds;
    if ((n & (n - 1)) == 0) {
        struct kind *grown = realloc(making->kinds, (n == 0 ? 1 : 2 * n) * sizeof(*grown));
        if (grown == NULL)
            return -1;
        making->kinds = grown;
    }
    making->kinds[n] = (struct kind){.rank = rank, .hash = hash, .of = making->one};
    making->kinds[n].node = wring_roster_node(roster, rank);
    roster->n_kinds++;
    return (int)n;
}

/** An array that has one value for all so far gets one for each. @return false: no memory */
static bool tell_apart(uint32_t **array, uint32_t size)
{
    if (*array == NULL)
        *array = calloc(size, sizeof(**array));
    return *array != NULL;
}

/** @return whether there is memory */
static bool note_kind(struct making *making, uint32_t rank)
{
    struct wring_roster *roster = making->roster;
    int kind = find_kind(making, rank);
    if (kind < 0 || (kind > 0 && !tell_apart(&roster->kinds, making->fabric->size)))
        return false;
    if (roster->kinds != NULL)
        roster->kinds[rank] = (uint32_t)kind;
    if (making->kinds[kind].node != wring_roster_node(roster, rank))
        making->kinds[kind].node = SEVERAL;
    return true;
}

/* ---- hosts ---- */

/** Where a rank is: its host, or its site if it names one. Its description is sound. */
struct place {
    const void *name;
    size_t bytes;
    bool site;
};

static struct place place_of(const struct making *making, uint32_t rank, bool sites)
{
    const struct wring_blobs *blobs = &making->fabric->blobs;
    struct wring_reader reader = {blobs->storage + blobs->offsets[rank],
                                  blobs->offsets[rank + 1] - blobs->offsets[rank], false};
    struct place host = {.site = false}, site = {.site = true};
    host.name = wring_read_sized(&reader, &host.bytes);
    site.name = wring_read_sized(&reader, &site.bytes);
    return sites && site.bytes > 0 ? site : host;
}

/** The first rank at the place of that one, which is later than all that were asked about. */
static uint32_t first_at_place(struct making *making, uint32_t rank, bool sites)
{
    const struct place place = place_of(making, rank, sites);
    uint32_t at = (uint32_t)wring_fnv64(WRING_FNV64, place.name, place.bytes) & making->mask;
    for (; making->table[at] != 0; at = (at + 1) & making->mask) {
        const struct place other = place_of(making, making->table[at] - 1, sites);
        if (other.site == place.site && other.bytes == place.bytes &&
            memcmp(place.name, other.name, place.bytes) == 0)
            return making->table[at] - 1;
    }
    making->table[at] = rank + 1;
    return rank;
}

static bool note_host(struct making *making, uint32_t rank)
{
    struct wring_roster *roster = making->roster;
    uint32_t first = first_at_place(making, rank, false);
    if (first != 0 && !tell_apart(&roster->nodes, making->fabric->size))
        return false;
    if (roster->nodes != NULL)
        roster->nodes[rank] = first;
    return true;
}

/** Once all hosts are known, and if any rank names a site. @return whether there is memory */
static bool note_sites(struct making *making)
{
    struct wring_roster *roster = making->roster;
    uint32_t size = making->fabric->size, n = 0;

    if (!making->sited)
        return true;
    if (!tell_apart(&roster->sites, size))
        return false;
    memset(making->table, 0, ((size_t)making->mask + 1) * sizeof(*making->table));
    for (uint32_t rank = 0; rank < size; rank++) {
        roster->sites[rank] = first_at_place(making, rank, true);
        n += roster->sites[rank] == rank;
    }
    wring_info(making->fabric->log, "the job's ranks are at %" PRIu32 " sites, as WRING_SITE says",
               n);
    return true;
}

/* ---- which devices there are for all ---- */

/** Does a device of ours reach from one rank to another? Both have it. @param why out, where not */
static bool can_device_reach(const struct wring_fabric *fabric, uint32_t device,
                             const struct wring_description *one,
                             const struct wring_description *other, char *why, size_t bytes)
{
    const struct wring_device *ours = &fabric->devices[device];
    int a = wring_description_find(one, ours->name), b = wring_description_find(other, ours->name);
    enum wring_status status = ours->provider->ops->reaches(
        ours->provider, one->devices[a].address, one->devices[a].address_bytes,
        other->devices[b].address, other->devices[b].address_bytes, why, bytes);
    if (status == WRING_ERR_FRAME)
        snprintf(why, bytes, "a malformed address");
    return status == WRING_OK;
}

static bool all_have_device(const struct making *making, uint32_t device)
{
    for (uint32_t k = 0; k < making->roster->n_kinds; k++)
        if (wring_description_find(&making->kinds[k].of, making->fabric->devices[device].name) < 0)
            return false;
    return true;
}

/** Is some rank of one kind on another host than some rank of the other? */
static bool are_apart(const struct kind *one, const struct kind *other)
{
    return one->node == SEVERAL || one->node != other->node;
}

/** Between all ranks of different hosts. All have it. The first kinds that it does not are told. */
static bool check_reaches_all(struct making *making, uint32_t device)
{
    const struct wring_fabric *fabric = making->fabric;
    char why[WRING_TEXT_MAX] = "";
    for (uint32_t i = 0; i < making->roster->n_kinds; i++)
        for (uint32_t j = i; j < making->roster->n_kinds; j++) {
            const struct kind *one = &making->kinds[i], *other = &making->kinds[j];
            if (!are_apart(one, other) ||
                can_device_reach(fabric, device, &one->of, &other->of, why, sizeof(why)))
                continue;
            if (making->apart[0] == '\0')
                snprintf(making->apart, sizeof(making->apart),
                         "%s does not connect ranks %" PRIu32 " and %" PRIu32 ": %s",
                         fabric->devices[device].name, one->rank, other->rank, why);
            return false;
        }
    return true;
}

/* ---- the choice ---- */

/**
 * The first device of the lower rank that the higher one has and that reaches: both agree. One
 * device leads all ranks to other hosts, where there is one that serves every rank.
 * @param near they are on one host
 * @param why  out, [bytes], where there is none: what is in the way, or ""
 */
static int common_device(const struct making *making, const struct wring_description *lower,
                         const struct wring_description *higher, bool near, char *why, size_t bytes)
{
    const struct wring_fabric *fabric = making->fabric;
    int second_best = -1;
    why[0] = '\0';
    for (uint32_t i = 0; i < lower->n_devices; i++) {
        const char *name = lower->devices[i].name;
        int own = find_own_device(fabric, name);
        if (own < 0 || wring_description_find(higher, name) < 0)
            continue;
        bool same_host_only = fabric->devices[own].caps.same_host_only;
        if (same_host_only && !near)
            continue;
        if (!can_device_reach(fabric, (uint32_t)own, lower, higher, why, bytes))
            continue;
        if (same_host_only || making->for_all[own])
            return own;
        second_best = second_best < 0 ? own : second_best;
    }
    return second_best;
}

static int choose_device(const struct making *making, uint32_t kind, bool lower, bool near,
                         char *why, size_t bytes)
{
    const struct wring_roster *roster = making->roster;
    const struct wring_description *own = &making->kinds[roster->own_kind].of;
    const struct wring_description *other = &making->kinds[kind].of;
    return common_device(making, lower ? other : own, lower ? own : other, near, why, bytes);
}

static bool make_choices(struct making *making)
{
    struct wring_roster *roster = making->roster;
    char why[WRING_TEXT_MAX];
    roster->choices = calloc(roster->n_kinds, sizeof(*roster->choices));
    for (uint32_t k = 0; k < roster->n_kinds && roster->choices != NULL; k++)
        for (int i = 0; i < 4; i++)
            roster->choices[k].device[i] =
                (int8_t)choose_device(making, k, i & 1, i >> 1, why, sizeof(why));
    return roster->choices != NULL;
}

/** Every rank is reached. @param used out: by which devices of ours */
static enum wring_status check_choices(struct making *making, bool *used)
{
    struct wring_fabric *fabric = making->fabric;
    char why[WRING_TEXT_MAX];
    for (uint32_t i = 0; i < fabric->size; i++) {
        if (i == fabric->rank)
            continue;
        int device = wring_roster_device(&fabric->roster, fabric->rank, i);
        if (device >= 0) {
            used[device] = true;
            continue;
        }
        bool lower = i < fabric->rank, near = wring_roster_node(&fabric->roster, i) ==
                                              wring_roster_node(&fabric->roster, fabric->rank);
        choose_device(making, wring_roster_kind(&fabric->roster, i), lower, near, why, sizeof(why));
        wring_error(fabric->log,
                    "ranks %" PRIu32 " and %" PRIu32
                    " have no provider in common that reaches from one to the other%s%s; see "
                    "WRING_PROVIDER",
                    lower ? i : fabric->rank, lower ? fabric->rank : i, why[0] != '\0' ? ": " : "",
                    why);
        return WRING_ERR_UNSUPPORTED;
    }
    return WRING_OK;
}

/** Close optional devices that reach no peer, so that no memory is registered with them. */
static void close_unused_devices(struct wring_fabric *fabric, const bool *used)
{
    struct wring_roster *roster = &fabric->roster;
    for (uint32_t i = fabric->n_devices; i-- > 0;) {
        if (!fabric->devices[i].optional || used[i])
            continue;
        fabric->devices[i].provider->ops->close(fabric->devices[i].provider);
        fabric->n_devices--;
        for (uint32_t d = i; d < fabric->n_devices; d++)
            fabric->devices[d] = fabric->devices[d + 1];
        for (uint32_t k = 0; k < roster->n_kinds; k++)
            for (int c = 0; c < 4; c++) {
                int8_t *device = &roster->choices[k].device[c];
                *device = *device == (int)i ? -1 : (int8_t)(*device - (*device > (int)i));
            }
    }
}

/** Rank 0 logs for all which device leads to other hosts, and why another one does not. */
static void log_device_choice(const struct making *making)
{
    const struct wring_fabric *fabric = making->fabric;
    const char *name = NULL;
    for (uint32_t i = 1; fabric->rank == 0 && i < fabric->size && name == NULL; i++) {
        int device = wring_roster_device(&fabric->roster, 0, i);
        if (!fabric->devices[device].caps.same_host_only)
            name = fabric->devices[device].name;
    }
    if (name != NULL && making->lacking < fabric->size)
        wring_info(fabric->log, "%s leads to other hosts: rank %" PRIu32 " goes without %s", name,
                   making->lacking, making->lacks);
    else if (name != NULL && making->apart[0] != '\0')
        wring_info(fabric->log, "%s leads to other hosts: %s", name, making->apart);
    else if (name != NULL)
        wring_info(fabric->log, "%s leads to other hosts", name);
}

/** The share of our cores that a rank takes, as far as it can be known: it uses its own alike. */
static double core_share(const struct wring_description *own, const struct wring_description *other)
{
    cpu_set_t both;
    if (strcmp(own->machine, other->machine) != 0)
        return 0;
    CPU_AND(&both, &own->cores, &other->cores);
    return CPU_COUNT(&both) == 0 ? 0 : (double)CPU_COUNT(&both) / CPU_COUNT(&other->cores);
}

/** One look at each rank. */
static enum wring_status look_at_all(struct making *making, const struct wring_description *own)
{
    struct wring_fabric *fabric = making->fabric;
    for (uint32_t rank = 0; rank < fabric->size; rank++) {
        struct wring_description *one = &making->one;
        if (!wring_description_read(&fabric->blobs, rank, one)) {
            wring_error(fabric->log, "rank %" PRIu32 " described itself in malformed bytes", rank);
            return WRING_ERR_FRAME;
        }
        if (!note_host(making, rank) || !note_kind(making, rank))
            return WRING_ERR_NO_MEMORY;
        making->sited |= one->site[0] != '\0';
        making->load += core_share(own, one);
        if (one->lacks[0] != '\0' && making->lacking == fabric->size) {
            making->lacking = rank;
            memcpy(making->lacks, one->lacks, sizeof(making->lacks));
        }
    }
    making->roster->own_kind = wring_roster_kind(making->roster, fabric->rank);
    return note_sites(making) ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static enum wring_status make_roster(struct making *making, const struct wring_description *own)
{
    struct wring_fabric *fabric = making->fabric;
    bool used[WRING_DEVICES_MAX] = {false};
    enum wring_status status = look_at_all(making, own);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        making->for_all[i] = !fabric->devices[i].caps.same_host_only &&
                             all_have_device(making, i) && check_reaches_all(making, i);
    if (!make_choices(making))
        return WRING_ERR_NO_MEMORY;
    status = check_choices(making, used);
    if (status != WRING_OK)
        return status;
    /* simulated ranks have as many cores as they are */
    double load = wring_clock_here() == NULL ? making->load : 0;
    fabric->crowded = load > CPU_COUNT(&own->cores);
    fabric->turns = (uint32_t)(load / CPU_COUNT(&own->cores));
    log_device_choice(making);
    close_unused_devices(fabric, used);
    return WRING_OK;
}

enum wring_status wring_roster_make(struct wring_fabric *fabric)
{
    struct making *making = calloc(1, sizeof(*making));
    struct wring_description *own = calloc(1, sizeof(*own));
    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (making != NULL && own != NULL) {
        *making = (struct making){
            .fabric = fabric, .roster = &fabric->roster, .lacking = fabric->size, .mask = 1};
        while (making->mask < 2 * fabric->size)
            making->mask = 2 * making->mask + 1;
        making->table = calloc((size_t)making->mask + 1, sizeof(*making->table));
    }
    if (making != NULL && making->table != NULL) {
        /* a malformed one of our own is told as any other */
        wring_description_read(&fabric->blobs, fabric->rank, own);
        status = make_roster(making, own);
    }
    if (making != NULL) {
        free(making->table);
        free(making->kinds);
    }
    free(making);
    free(own);
    return status;
}

void wring_roster_finish(struct wring_roster *roster)
{
    free(roster->nodes);
    free(roster->sites);
    free(roster->places);
    free(roster->kinds);
    free(roster->choices);
    *roster = (struct wring_roster){0};
}

/* ---- another device ---- */

static int next_device(const struct wring_fabric *fabric, const char *after,
                       const struct wring_description *lower,
                       const struct wring_description *higher)
{
    char why[WRING_TEXT_MAX];
    for (uint32_t i = (uint32_t)wring_description_find(lower, after) + 1; i < lower->n_devices;
         i++) {
        int own = find_own_device(fabric, lower->devices[i].name);
        if (own >= 0 && !fabric->devices[own].caps.same_host_only &&
            wring_description_find(higher, lower->devices[i].name) >= 0 &&
            can_device_reach(fabric, (uint32_t)own, lower, higher, why, sizeof(why)))
            return own;
    }
    return -1;
}

int wring_roster_next_device(const struct wring_fabric *fabric, uint32_t rank, uint32_t device)
{
    struct wring_description *both = calloc(2, sizeof(*both));
    uint32_t low = rank < fabric->rank ? rank : fabric->rank;
    uint32_t high = rank < fabric->rank ? fabric->rank : rank;
    int next = -1;
    if (both != NULL && wring_description_read(&fabric->blobs, low, &both[0]) &&
        wring_description_read(&fabric->blobs, high, &both[1]))
        next = next_device(fabric, fabric->devices[device].name, &both[0], &both[1]);
    free(both);
    return next;
}
