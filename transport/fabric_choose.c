/* SPDX-License-Identifier: Apache-2.0 */
/* Which device reaches which peer: every rank comes to the same choice from what all have said. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "transport/fabric_describe.h"

#define WRING_MODULE "fabric"
#define WINDOW_MIN_BYTES (512u << 10)

static int find_own(const struct wring_fabric *fabric, const char *name)
{
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        if (strcmp(fabric->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}

/** What all ranks have together. */
struct survey {
    struct wring_description *all;   /* [size] */
    bool for_all[WRING_DEVICES_MAX]; /* of ours: every rank has it, and it reaches every host */
    uint32_t lacking;                /* the first rank that goes without something; size: none */
    char apart[2 * WRING_TEXT_MAX];  /* whom a device of ours does not connect, and why; or "" */
};

/** Does a device of ours reach from one rank to another? Both have it. @param why out, where not */
static bool reaches(const struct wring_fabric *fabric, uint32_t device,
                    const struct wring_description *one, const struct wring_description *other,
                    char *why, size_t bytes)
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

static bool all_have(const struct wring_fabric *fabric, const struct survey *survey,
                     uint32_t device)
{
    for (uint32_t rank = 0; rank < fabric->size; rank++)
        if (wring_description_find(&survey->all[rank], fabric->devices[device].name) < 0)
            return false;
    return true;
}

/** Between all ranks of different hosts. All have it. The first two that it does not are told. */
static bool reaches_all(const struct wring_fabric *fabric, struct survey *survey, uint32_t device)
{
    char why[WRING_TEXT_MAX] = "";
    for (uint32_t i = 0; i < fabric->size; i++)
        for (uint32_t j = i + 1; j < fabric->size; j++) {
            const struct wring_description *one = &survey->all[i], *other = &survey->all[j];
            if (strcmp(one->host, other->host) == 0 ||
                reaches(fabric, device, one, other, why, sizeof(why)))
                continue;
            if (survey->apart[0] == '\0')
                snprintf(survey->apart, sizeof(survey->apart),
                         "%s does not connect ranks %" PRIu32 " and %" PRIu32 ": %s",
                         fabric->devices[device].name, i, j, why);
            return false;
        }
    return true;
}

/** @param out  on success survey->all is the caller's to free */
static enum wring_status take_survey(const struct wring_fabric *fabric,
                                     const struct wring_blobs *blobs, struct survey *out)
{
    *out = (struct survey){.lacking = fabric->size};
    out->all = calloc(fabric->size, sizeof(out->all[0]));
    if (out->all == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t rank = 0; rank < fabric->size; rank++) {
        if (!wring_description_read(blobs, rank, &out->all[rank])) {
            wring_error(fabric->log, "rank %" PRIu32 " described itself in malformed bytes", rank);
            free(out->all);
            return WRING_ERR_FRAME;
        }
        if (out->all[rank].lacks[0] != '\0' && out->lacking == fabric->size)
            out->lacking = rank;
    }
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        out->for_all[i] = !fabric->devices[i].caps.same_host_only && all_have(fabric, out, i) &&
                          reaches_all(fabric, out, i);
    return WRING_OK;
}

/**
 * The first device of the lower rank that the higher one has and that reaches: both agree. What
 * leads to other hosts is one device for all, where there is one that serves every rank.
 * @param why out, [bytes], where there is none: what is in the way, or ""
 */
static int common_device(const struct wring_fabric *fabric, const struct survey *survey,
                         const struct wring_description *lower,
                         const struct wring_description *higher, char *why, size_t bytes)
{
    int second_best = -1;
    why[0] = '\0';
    for (uint32_t i = 0; i < lower->n_devices; i++) {
        const char *name = lower->devices[i].name;
        int own = find_own(fabric, name);
        if (own < 0 || wring_description_find(higher, name) < 0)
            continue;
        bool same_host_only = fabric->devices[own].caps.same_host_only;
        if (same_host_only && strcmp(lower->host, higher->host) != 0)
            continue;
        if (!reaches(fabric, (uint32_t)own, lower, higher, why, bytes))
            continue;
        if (same_host_only || survey->for_all[own])
            return own;
        second_best = second_best < 0 ? own : second_best;
    }
    return second_best;
}

/** What may be under way to a peer at first, and at most where that shows to be too little. */
static struct wring_put_window make_window(const struct wring_fabric *fabric,
                                           const struct wring_provider_caps *caps)
{
    size_t chunk_bytes = fabric->config->chunk_bytes;
    size_t limit = 2 * chunk_bytes > WINDOW_MIN_BYTES ? 2 * chunk_bytes : WINDOW_MIN_BYTES;
    size_t most = caps->put_acked ? 8 * limit : limit;
    return (struct wring_put_window){.limit = limit, .most = most};
}

void wring_fabric_renew_windows(struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->size; i++) {
        struct wring_peer *peer = &fabric->peers[i];
        if (i == fabric->rank)
            continue;
        const struct wring_put_window window =
            make_window(fabric, &fabric->devices[peer->device].caps);
        peer->window.limit = window.limit;
        peer->window.most = window.most;
    }
}

void wring_fabric_take_device(struct wring_fabric *fabric, struct wring_peer *peer, uint32_t device)
{
    peer->device = device;
    peer->put_copies = fabric->devices[device].caps.put_copies;
    peer->window = make_window(fabric, &fabric->devices[device].caps);
}

static void take_address(const struct wring_fabric *fabric, struct wring_peer *peer,
                         const struct wring_description *other)
{
    int theirs = wring_description_find(other, fabric->devices[peer->device].name);
    peer->address = other->devices[theirs].address;
    peer->address_bytes = other->devices[theirs].address_bytes;
}

/** @return index of ours, or -1 */
static int next_device(const struct wring_fabric *fabric, const char *after,
                       const struct wring_description *lower,
                       const struct wring_description *higher)
{
    char why[WRING_TEXT_MAX];
    for (uint32_t i = (uint32_t)wring_description_find(lower, after) + 1; i < lower->n_devices;
         i++) {
        int own = find_own(fabric, lower->devices[i].name);
        if (own >= 0 && !fabric->devices[own].caps.same_host_only &&
            wring_description_find(higher, lower->devices[i].name) >= 0 &&
            reaches(fabric, (uint32_t)own, lower, higher, why, sizeof(why)))
            return own;
    }
    return -1;
}

bool wring_fabric_choose_next(struct wring_fabric *fabric, struct wring_peer *peer)
{
    const struct wring_blobs *blobs = &fabric->blobs;
    uint32_t low = peer->rank < fabric->rank ? peer->rank : fabric->rank;
    uint32_t high = peer->rank < fabric->rank ? fabric->rank : peer->rank;
    struct wring_description *both = calloc(2, sizeof(*both));
    int device = -1;

    if (both != NULL && wring_description_read(blobs, low, &both[0]) &&
        wring_description_read(blobs, high, &both[1]))
        device = next_device(fabric, fabric->devices[peer->device].name, &both[0], &both[1]);
    if (device >= 0) {
        wring_fabric_take_device(fabric, peer, (uint32_t)device);
        take_address(fabric, peer, &both[peer->rank == high]);
    }
    free(both);
    return device >= 0;
}

static enum wring_status choose_for(struct wring_fabric *fabric, const struct survey *survey,
                                    struct wring_peer *peer)
{
    char why[WRING_TEXT_MAX];
    uint32_t low = peer->rank < fabric->rank ? peer->rank : fabric->rank;
    uint32_t high = peer->rank < fabric->rank ? fabric->rank : peer->rank;
    const struct wring_description *other = &survey->all[peer->rank];
    int device =
        common_device(fabric, survey, &survey->all[low], &survey->all[high], why, sizeof(why));
    if (device < 0) {
        wring_error(fabric->log,
                    "ranks %" PRIu32 " and %" PRIu32
                    " have no provider in common that reaches from one to the other%s%s; see "
                    "WRING_PROVIDER",
                    low, high, why[0] != '\0' ? ": " : "", why);
        return WRING_ERR_UNSUPPORTED;
    }
    wring_fabric_take_device(fabric, peer, (uint32_t)device);
    take_address(fabric, peer, other);
    return WRING_OK;
}

/** The share of our cores that a rank takes, as far as it can be known: it uses its own alike. */
static double load_of(const struct wring_description *own, const struct wring_description *other)
{
    cpu_set_t both;
    CPU_AND(&both, &own->cores, &other->cores);
    if (strcmp(own->machine, other->machine) != 0 || CPU_COUNT(&both) == 0)
        return 0;
    return (double)CPU_COUNT(&both) / CPU_COUNT(&other->cores);
}

static uint32_t node_of(const struct survey *survey, uint32_t rank)
{
    uint32_t first = 0;
    while (strcmp(survey->all[first].host, survey->all[rank].host) != 0)
        first++;
    return first;
}

/** It runs on cores of this machine, and on none of ours. */
static bool is_beside(const struct wring_description *own, const struct wring_description *other)
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
                   survey->lacking, survey->all[survey->lacking].lacks);
    else if (name != NULL && survey->apart[0] != '\0')
        wring_info(fabric->log, "%s leads to other hosts: %s", name, survey->apart);
    else if (name != NULL)
        wring_info(fabric->log, "%s leads to other hosts", name);
}

enum wring_status wring_fabric_choose(struct wring_fabric *fabric, const struct wring_blobs *blobs)
{
    struct survey survey;
    enum wring_status status = take_survey(fabric, blobs, &survey);
    if (status != WRING_OK)
        return status;
    const struct wring_description *own = &survey.all[fabric->rank];
    double load = 0;
    for (uint32_t i = 0; i < fabric->size && status == WRING_OK; i++) {
        load += load_of(own, &survey.all[i]);
        fabric->peers[i].beside = is_beside(own, &survey.all[i]);
        fabric->peers[i].node = node_of(&survey, i);
        if (i != fabric->rank)
            status = choose_for(fabric, &survey, &fabric->peers[i]);
    }
    if (status == WRING_OK) {
        fabric->crowded = load > CPU_COUNT(&own->cores);
        tell_choice(fabric, &survey);
        close_unused(fabric);
    }
    free(survey.all);
    return status;
}
