/* SPDX-License-Identifier: Apache-2.0 */
/* How the mesh comes to stand: the higher rank connects to the lower one. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "transport/fabric.h"

#define WRING_MODULE "fabric"
#define EVENTS_PER_POLL 32
#define LOOK_NS (50 * WRING_NS_PER_MS) /* between two looks at who has ended */
#define BLAME_NS WRING_NS_PER_S        /* for the bootstrap to say whose fault a loss is */

/** A connection that came to nothing. */
struct mishap {
    enum wring_status status; /* WRING_OK: none */
    char text[2 * WRING_TEXT_MAX];
    const struct wring_blobs *blobs; /* what all ranks said of themselves */
    bool told_apart;                 /* of a peer on this host that shares no memory with us */
};

static enum wring_status connect_peer(struct wring_fabric *fabric, struct wring_peer *peer,
                                      struct mishap *mishap)
{
    struct wring_provider *provider = fabric->devices[peer->device].provider;
    uint8_t hello[sizeof(uint32_t) + sizeof(fabric->job)];

    wring_put_u32(hello, fabric->rank);
    memcpy(hello + sizeof(uint32_t), fabric->job, sizeof(fabric->job));
    enum wring_status status = provider->ops->connect(provider, peer->address, peer->address_bytes,
                                                      hello, sizeof(hello), &peer->conn);
    if (status == WRING_OK) {
        peer->conn->user = peer;
        return WRING_OK;
    }
    mishap->status = status;
    snprintf(mishap->text, sizeof(mishap->text), "cannot connect to rank %" PRIu32 " over %s: %s",
             peer->rank, fabric->devices[peer->device].name, wring_status_text(status));
    return status;
}

/** Choose devices for all peers and connect to those of lower rank. */
static enum wring_status begin(struct wring_fabric *fabric, const struct wring_blobs *blobs,
                               struct mishap *mishap)
{
    enum wring_status status = wring_fabric_choose(fabric, blobs);
    for (uint32_t i = 0; status == WRING_OK && i < fabric->rank; i++)
        status = connect_peer(fabric, &fabric->peers[i], mishap);
    return status;
}

/** By the device that both chose, or by the one that the peer falls back to. */
static bool may_come_by(const struct wring_fabric *fabric, const struct wring_peer *peer,
                        uint32_t device)
{
    return peer->device == device || (fabric->devices[peer->device].caps.same_host_only &&
                                      !fabric->devices[device].caps.same_host_only);
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
        rank <= fabric->rank || peer->conn != NULL || !may_come_by(fabric, peer, device)) {
        wring_warn(fabric->log, "refused a connection that is not one of this job's");
        wring_events_refuse(event, n);
        return;
    }
    if (peer->device != device)
        wring_fabric_take_device(fabric, peer, device);
    event->conn->user = peer;
    peer->conn = event->conn;
    peer->connected = true;
}

static const char *text_of(const struct wring_event *event)
{
    return event->text != NULL ? event->text : "no reason given";
}

/**
 * A peer that counts as being on this host, and shares no memory with us: it is of another user, or
 * in another namespace than it seems. What leads to other hosts leads there, too. The higher rank,
 * which connects, decides it; the lower one sees it come by another device.
 * @return WRING_ERR_UNSUPPORTED where there is no other device in common
 */
static enum wring_status fall_back(struct wring_fabric *fabric, struct wring_peer *peer,
                                   struct wring_event *event, size_t n, struct mishap *mishap)
{
    const char *from = fabric->devices[peer->device].name;
    char why[WRING_TEXT_MAX];

    snprintf(why, sizeof(why), "%s", text_of(event));
    if (!wring_fabric_choose_next(fabric, mishap->blobs, peer))
        return WRING_ERR_UNSUPPORTED;
    wring_log_line(
        fabric->log, mishap->told_apart ? WRING_LOG_INFO : WRING_LOG_WARN, WRING_MODULE,
        "ranks %" PRIu32 " and %" PRIu32
        " are on one host and cannot use %s: %s; they use %s, which is slower. Run them as "
        "one user in one namespace, or give them different WRING_NODE",
        peer->rank, fabric->rank, from, why, fabric->devices[peer->device].name);
    mishap->told_apart = true;
    wring_events_refuse(event, n);
    peer->conn = NULL;
    return connect_peer(fabric, peer, mishap);
}

/** Did a connection of ours to a peer on this host not come to stand, for what it is, not for what
 *  it said? */
static bool is_out_of_reach(const struct wring_fabric *fabric, const struct wring_peer *peer,
                            const struct wring_event *event)
{
    return !peer->connected && peer->rank < fabric->rank &&
           fabric->devices[peer->device].caps.same_host_only &&
           (event->status == WRING_ERR_ADDRESS || event->status == WRING_ERR_PEER);
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
        const char *remedy = "";
        if (is_out_of_reach(fabric, peer, event)) {
            enum wring_status status = fall_back(fabric, peer, event, n, mishap);
            if (status != WRING_ERR_UNSUPPORTED)
                return status;
            remedy = "; there is no other provider that both have: see WRING_PROVIDER";
        }
        bool told = event->status == WRING_ERR_AUTH || event->status == WRING_ERR_SYSTEM;
        mishap->status = told ? event->status : WRING_ERR_PEER;
        snprintf(mishap->text, sizeof(mishap->text),
                 "no connection to rank %" PRIu32 " over %s: %s%s", peer->rank,
                 fabric->devices[device].name, text_of(event), remedy);
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
    struct mishap mishap = {.status = WRING_OK, .blobs = blobs};

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
