/* SPDX-License-Identifier: Apache-2.0 */
/* How the mesh comes to stand: the higher rank connects to the lower one. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/host.h"
#include "transport/fabric.h"

#define WRING_MODULE "fabric"
#define EVENTS_PER_POLL 32
#define LOOK_NS (50 * WRING_NS_PER_MS) /* between two looks at who has ended */
#define BLAME_NS WRING_NS_PER_S        /* for the bootstrap to say whose fault a loss is */

/** A connection that came to nothing. */
struct mishap {
    enum wring_status status; /* WRING_OK: none */
    char text[2 * WRING_TEXT_MAX];
};

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
}

static bool parse(const struct wring_blobs *blobs, uint32_t rank, struct description *out)
{
    struct wring_reader reader = {blobs->storage + blobs->offsets[rank],
                                  blobs->offsets[rank + 1] - blobs->offsets[rank], false};
    wring_read_text(&reader, out->host, sizeof(out->host));
    wring_read_text(&reader, out->machine, sizeof(out->machine));
    size_t cores_bytes;
    const void *cores = wring_read_sized(&reader, &cores_bytes);
    if (cores == NULL || cores_bytes != sizeof(out->cores))
        return false;
    memcpy(&out->cores, cores, cores_bytes);
    out->n_devices = wring_read_u32(&reader);
    if (out->n_devices > WRING_DEVICES_MAX)
        return false;
    for (uint32_t i = 0; i < out->n_devices; i++) {
        wring_read_text(&reader, out->devices[i].name, sizeof(out->devices[i].name));
        out->devices[i].address = wring_read_sized(&reader, &out->devices[i].address_bytes);
    }
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

/** The first device of the lower rank that the higher one has and that reaches: both agree. */
static const char *common_device(const struct wring_fabric *fabric, const struct description *lower,
                                 const struct description *higher)
{
    for (uint32_t i = 0; i < lower->n_devices; i++) {
        const char *name = lower->devices[i].name;
        int own = find_own(fabric, name);
        if (own < 0 || find_device(higher, name) < 0)
            continue;
        if (fabric->devices[own].caps.same_host_only && strcmp(lower->host, higher->host) != 0)
            continue;
        return name;
    }
    return NULL;
}

static enum wring_status connect_peer(struct wring_fabric *fabric, struct wring_peer *peer,
                                      const void *address, size_t address_bytes,
                                      struct mishap *mishap)
{
    struct wring_provider *provider = fabric->devices[peer->device].provider;
    uint8_t hello[sizeof(uint32_t) + sizeof(fabric->job)];

    wring_put_u32(hello, fabric->rank);
    memcpy(hello + sizeof(uint32_t), fabric->job, sizeof(fabric->job));
    enum wring_status status =
        provider->ops->connect(provider, address, address_bytes, hello, sizeof(hello), &peer->conn);
    if (status == WRING_OK) {
        peer->conn->user = peer;
        return WRING_OK;
    }
    mishap->status = status;
    snprintf(mishap->text, sizeof(mishap->text), "cannot connect to rank %" PRIu32 " over %s: %s",
             peer->rank, fabric->devices[peer->device].name, wring_status_text(status));
    return status;
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

/** Choose devices for all peers and connect to those of lower rank. */
static enum wring_status begin(struct wring_fabric *fabric, const struct wring_blobs *blobs,
                               struct mishap *mishap)
{
    struct description own, other;
    if (!parse(blobs, fabric->rank, &own))
        return WRING_ERR_FRAME;
    double load = load_of(&own, &own);
    for (uint32_t i = 0; i < fabric->size; i++) {
        struct wring_peer *peer = &fabric->peers[i];
        if (i == fabric->rank)
            continue;
        if (!parse(blobs, i, &other)) {
            wring_error(fabric->log, "rank %" PRIu32 " described itself in malformed bytes", i);
            return WRING_ERR_FRAME;
        }
        load += load_of(&own, &other);
        const char *name = i < fabric->rank ? common_device(fabric, &other, &own)
                                            : common_device(fabric, &own, &other);
        if (name == NULL) {
            wring_error(fabric->log,
                        "ranks %" PRIu32 " and %" PRIu32 " have no provider in common that "
                        "reaches from one to the other; see WRING_PROVIDER",
                        fabric->rank, i);
            return WRING_ERR_UNSUPPORTED;
        }
        peer->device = (uint32_t)find_own(fabric, name);
        peer->put_copies = fabric->devices[peer->device].caps.put_copies;
        int theirs = find_device(&other, name);
        if (i < fabric->rank) {
            enum wring_status status = connect_peer(fabric, peer, other.devices[theirs].address,
                                                    other.devices[theirs].address_bytes, mishap);
            if (status != WRING_OK)
                return status;
        }
    }
    fabric->crowded = load > CPU_COUNT(&own.cores);
    return WRING_OK;
}

/** The first of n events. */
static void on_accepted(struct wring_fabric *fabric, uint32_t device, struct wring_event *event,
                        size_t n)
{
    struct wring_reader hello = {event->data, event->bytes, false};
    uint32_t rank = wring_read_u32(&hello);
    const void *job = wring_read(&hello, sizeof(fabric->job));
    struct wring_peer *peer = rank < fabric->size ? &fabric->peers[rank] : NULL;

    if (hello.failed || memcmp(job, fabric->job, sizeof(fabric->job)) != 0 || peer == NULL ||
        rank <= fabric->rank || peer->conn != NULL || peer->device != device) {
        wring_warn(fabric->log, "refused a connection that is not one of this job's");
        wring_events_refuse(event, n);
        return;
    }
    event->conn->user = peer;
    peer->conn = event->conn;
    peer->connected = true;
}

static enum wring_status on_event(struct wring_fabric *fabric, uint32_t device,
                                  struct wring_event *event, size_t n, struct mishap *mishap)
{
    if (event->conn == NULL) /* refused meanwhile */
        return WRING_OK;
    struct wring_peer *peer = event->conn->user;
    if (event->kind == WRING_EVENT_ACCEPTED) {
        on_accepted(fabric, device, event, n);
    } else if (event->kind == WRING_EVENT_CONNECTED) {
        peer->connected = true;
    } else if (event->kind == WRING_EVENT_CLOSED && peer != NULL) {
        mishap->status = event->status == WRING_ERR_AUTH ? WRING_ERR_AUTH : WRING_ERR_PEER;
        snprintf(mishap->text, sizeof(mishap->text),
                 "no connection to rank %" PRIu32 " over %s: %s", peer->rank,
                 fabric->devices[device].name,
                 event->text != NULL ? event->text : "no reason given");
        return mishap->status;
    }
    return WRING_OK;
}

static uint32_t first_missing(const struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->size; i++)
        if (i != fabric->rank && !fabric->peers[i].connected)
            return i;
    return fabric->size;
}

static enum wring_status poll_devices(struct wring_fabric *fabric, bool *any, struct mishap *mishap)
{
    struct wring_event events[EVENTS_PER_POLL];
    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        struct wring_provider *provider = fabric->devices[i].provider;
        size_t n = provider->ops->poll(provider, events, EVENTS_PER_POLL);
        *any |= n > 0;
        for (size_t e = 0; e < n; e++) {
            enum wring_status status = on_event(fabric, i, &events[e], n - e, mishap);
            if (status != WRING_OK)
                return status;
        }
    }
    return WRING_OK;
}

/** Nothing came: sleep until something does, but look after the other ranks too. */
static enum wring_status rest(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap,
                              struct wring_wait_set *set, uint64_t deadline_ns)
{
    uint64_t now = wring_now_ns();
    enum wring_status status = bootstrap->ops->check(bootstrap);
    if (status != WRING_OK)
        return status;
    if (now >= deadline_ns) {
        wring_error(fabric->log, "rank %" PRIu32 " did not connect in time (WRING_JOIN_TIMEOUT)",
                    first_missing(fabric));
        return WRING_ERR_PEER;
    }
    if (set->deadline_ns > now + LOOK_NS)
        set->deadline_ns = now + LOOK_NS;
    wring_wait_set_sleep(set);
    return WRING_OK;
}

static enum wring_status await_mesh(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap,
                                    uint64_t deadline_ns, struct mishap *mishap)
{
    enum wring_status status = WRING_OK;
    while (status == WRING_OK && first_missing(fabric) < fabric->size) {
        bool any = false;
        struct wring_wait_set set = {.deadline_ns = deadline_ns};
        for (uint32_t i = 0; i < fabric->n_devices; i++)
            fabric->devices[i].provider->ops->arm(fabric->devices[i].provider, &set);
        status = poll_devices(fabric, &any, mishap);
        if (status == WRING_OK && !any)
            status = rest(fabric, bootstrap, &set, deadline_ns);
    }
    return status;
}

/**
 * A connection was lost: is its rank at fault, or did that one leave because another has ended?
 * The bootstrap knows who ended, and tells all ranks of the same one; who goes without waiting for
 * its word would look like the one at fault to others.
 */
static enum wring_status blame(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap,
                               const struct mishap *mishap)
{
    uint64_t until_ns = wring_now_ns() + BLAME_NS;
    while (wring_now_ns() < until_ns) {
        struct wring_wait_set pause = {.deadline_ns = wring_now_ns() + LOOK_NS};
        enum wring_status status = bootstrap->ops->check(bootstrap);
        if (status != WRING_OK)
            return status;
        wring_wait_set_sleep(&pause);
    }
    wring_error(fabric->log, "%s", mishap->text);
    return mishap->status;
}

enum wring_status wring_fabric_connect(struct wring_fabric *fabric,
                                       struct wring_bootstrap *bootstrap,
                                       const struct wring_blobs *blobs, uint64_t deadline_ns)
{
    struct mishap mishap = {.status = WRING_OK};

    enum wring_status status = begin(fabric, blobs, &mishap);
    if (status == WRING_OK)
        status = await_mesh(fabric, bootstrap, deadline_ns, &mishap);
    if (mishap.status != WRING_OK)
        return blame(fabric, bootstrap, &mishap);
    if (status != WRING_OK)
        return status;

    fabric->tick_ns = fabric->judged_ns = wring_now_ns();
    for (uint32_t i = 0; i < fabric->size; i++)
        fabric->peers[i].heard_ns = fabric->peers[i].sent_ns = fabric->tick_ns;
    fabric->state = WRING_FABRIC_WORKING;
    return WRING_OK;
}
