/* SPDX-License-Identifier: Apache-2.0 */
/* How one connection comes about. */
#include "transport/fabric_connect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "transport/control.h"
#include "transport/control_tree.h"
#include "transport/fabric.h"
#include "transport/roster.h"

#define WRING_MODULE "fabric"

#define WINDOW_MIN_BYTES (512u << 10)

/* ---- peers that are met ---- */

/** Bytes of puts that may be under way to a peer: at first, and at most if that is too little. Of a
 *  connection that has several sockets none is to wait for bytes that the others have. */
static struct wring_put_window make_window(const struct wring_fabric *fabric,
                                           const struct wring_peer *peer)
{
    const struct wring_provider_caps *caps = &fabric->devices[peer->device].caps;
    unsigned sockets =
        peer->conn != NULL && peer->conn->path.sockets > 0 ? peer->conn->path.sockets : 1;
    size_t chunk_bytes = fabric->config->chunk_bytes;
    size_t limit = 2 * chunk_bytes > WINDOW_MIN_BYTES ? 2 * chunk_bytes : WINDOW_MIN_BYTES;
    limit *= sockets;
    size_t most = caps->put_acked ? 8 * limit : limit;
    return (struct wring_put_window){.limit = limit, .most = most};
}

static void renew_window(struct wring_peer *peer)
{
    const struct wring_put_window window = make_window(peer->fabric, peer);

    peer->window.limit = window.limit;
    peer->window.most = window.most;
}

void wring_fabric_renew_windows(struct wring_fabric *fabric)
{
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        renew_window(peer);
}

/** The peer has come by another device of ours than we should have dialled. */
static void fabric_take_device(struct wring_fabric *fabric, struct wring_peer *peer,
                               uint32_t device)
{
    int choice = wring_roster_device(&fabric->roster, fabric->rank, peer->rank);
    atomic_store_explicit(&peer->detour, choice == (int)device ? 0 : device + 1,
                          memory_order_relaxed);
    peer->device = device;
    peer->put_copies = fabric->devices[device].caps.put_copies;
    peer->window = make_window(fabric, peer);
}

/** It runs on cores of this machine, and on none of ours. */
static bool is_beside(const struct wring_description *own, const struct wring_description *other)
{
    cpu_set_t both;
    CPU_AND(&both, &own->cores, &other->cores);
    return strcmp(own->machine, other->machine) == 0 && CPU_COUNT(&both) == 0 &&
           CPU_COUNT(&own->cores) > 0 && CPU_COUNT(&other->cores) > 0;
}

static void set_peer_address(const struct wring_fabric *fabric, struct wring_peer *peer,
                             const struct wring_description *other)
{
    int theirs = wring_description_find(other, fabric->devices[peer->device].name);
    peer->address = other->devices[theirs].address;
    peer->address_bytes = other->devices[theirs].address_bytes;
}

/** Fill in its description. It was read before, and was sound. @return false: no memory
 */
static bool read_peer(struct wring_fabric *fabric, struct wring_peer *peer)
{
    struct wring_description *both = calloc(2, sizeof(*both));
    if (both == NULL || !wring_description_read(&fabric->blobs, fabric->rank, &both[0]) ||
        !wring_description_read(&fabric->blobs, peer->rank, &both[1])) {
        free(both);
        return false;
    }
    int device = wring_roster_device(&fabric->roster, fabric->rank, peer->rank);
    fabric_take_device(fabric, peer, (uint32_t)device);
    set_peer_address(fabric, peer, &both[1]);
    peer->beside = is_beside(&both[0], &both[1]);
    free(both);
    return true;
}

/** There is something for it, or from it: now it costs memory, and time at every look. */
static bool meet_peer(struct wring_fabric *fabric, struct wring_peer *peer)
{
    if (peer->met)
        return true;
    if (!read_peer(fabric, peer))
        return false;
    peer->met = true;
    peer->left |= fabric->deaf;
    peer->next_met = fabric->met;
    fabric->met = peer;
    return true;
}

/**
 * The next device for a peer that the one it has does not reach. Its device, address and window
 * become those. @return false: there is none, and nothing has changed
 */
static bool fabric_choose_next(struct wring_fabric *fabric, struct wring_peer *peer)
{
    int device = wring_roster_next_device(fabric, peer->rank, peer->device);
    struct wring_description *other = device >= 0 ? calloc(1, sizeof(*other)) : NULL;
    if (other == NULL || !wring_description_read(&fabric->blobs, peer->rank, other)) {
        free(other);
        return false;
    }
    fabric_take_device(fabric, peer, (uint32_t)device);
    set_peer_address(fabric, peer, other);
    free(other);
    return true;
}

/* ---- connect ---- */

#define REDIAL_NS (20 * WRING_NS_PER_MS)
#define GRACE_NS (200 * WRING_NS_PER_MS) /* for the tree to say that nobody is there any more */

/** Disconnect; events of it that came in the same poll and are yet to be handled lose their conn.
 */
static void disconnect_conn(struct wring_fabric *fabric, struct wring_conn *conn)
{
    if (conn == NULL)
        return;
    for (size_t i = 0; i < fabric->n_events; i++)
        if (fabric->events[i].conn == conn)
            fabric->events[i].conn = NULL;
    conn->provider->ops->disconnect(conn);
}

/** Nothing but the connection that is used is left. */
static void end_dial(struct wring_peer *peer)
{
    if (peer->dial == NULL)
        return;
    disconnect_conn(peer->fabric, peer->dial->spare);
    free(peer->dial);
    peer->dial = NULL;
    peer->owes_welcome = false;
}

static void drop_connection(struct wring_peer *peer, enum wring_peer_state state)
{
    end_dial(peer);
    disconnect_conn(peer->fabric, peer->conn);
    peer->conn = NULL;
    peer->window.bytes = 0;
    peer->state = state;
}

void wring_peer_drop(struct wring_peer *peer)
{
    drop_connection(peer, WRING_PEER_GONE);
    peer->fabric->any_left = true;
}

void wring_connect_cancel(struct wring_peer *peer)
{
    if (peer->state == WRING_PEER_CONNECTING && !peer->dial->taken)
        drop_connection(peer, WRING_PEER_NONE);
}

void wring_connect_failed(struct wring_fabric *fabric, enum wring_status status,
                          const struct wring_peer *peer, const char *format, ...)
{
    char text[3 * WRING_TEXT_MAX];
    va_list args;
    va_start(args, format);
    wring_number_vprint(text, sizeof(text), format, args);
    va_end(args);
    if (fabric->state != WRING_FABRIC_JOINING) {
        wring_fabric_fail(fabric, status, (int32_t)peer->rank, "%s", text);
        return;
    }
    if (fabric->mishap.status != WRING_OK)
        return;
    fabric->mishap.status = status;
    memcpy(fabric->mishap.text, text, sizeof(text));
}

/* ---- the side that accepts ---- */

static void say_welcome(struct wring_fabric *fabric, struct wring_peer *peer)
{
    const struct wring_control welcome = {.kind = WRING_CONTROL_WELCOME};
    peer->owes_welcome = wring_control_say(peer->conn, &welcome) == WRING_ERR_AGAIN;
    if (peer->owes_welcome)
        fabric->owes_welcomes = fabric->has_chores = true;
}

void wring_connect_welcome(struct wring_fabric *fabric)
{
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        if (peer->owes_welcome)
            say_welcome(fabric, peer);
}

static bool begin_dial(struct wring_peer *peer)
{
    if (peer->dial == NULL)
        peer->dial = calloc(1, sizeof(*peer->dial));
    if (peer->dial == NULL)
        return false;
    if (peer->state == WRING_PEER_NONE)
        peer->dial->began_ns = wring_now_ns();
    peer->state = WRING_PEER_CONNECTING;
    return true;
}

/** Use what the peer has dialled. */
static void use_dialled_conn(struct wring_fabric *fabric, struct wring_peer *peer,
                             struct wring_conn *conn, uint32_t device)
{
    if (!begin_dial(peer)) {
        disconnect_conn(fabric, conn);
        return;
    }
    disconnect_conn(fabric, peer->conn); /* both have dialled: ours goes */
    peer->conn = conn;
    peer->dial->taken = true;
    peer->dial->redial_ns = 0;
    if (peer->device != device)
        fabric_take_device(fabric, peer, device);
    say_welcome(fabric, peer);
}

/** By the device that both chose, or by one that is taken where that does not reach. */
static bool may_come_by(const struct wring_fabric *fabric, const struct wring_peer *peer,
                        uint32_t device)
{
    return peer->device == device || !fabric->devices[device].caps.same_host_only;
}

/** @return NULL: it is none of this job's */
static struct wring_peer *find_caller(struct wring_fabric *fabric, const struct wring_event *event)
{
    struct wring_reader hello = {event->data, event->bytes, false};
    uint32_t rank = wring_read_u32(&hello);
    const void *job = wring_read(&hello, sizeof(fabric->job));

    if (hello.failed || memcmp(job, fabric->job, sizeof(fabric->job)) != 0 ||
        rank >= fabric->size || rank == fabric->rank)
        return NULL;
    struct wring_peer *peer = wring_fabric_peer(fabric, rank);
    return meet_peer(fabric, peer) ? peer : NULL;
}

/** The job fails, and we close soon. Peers that use a connection have heard why; whoever began to
 *  use one now would see us go without a word, and take us for the cause. The tree tells it. */
static bool is_too_late(const struct wring_fabric *fabric)
{
    return fabric->state >= WRING_FABRIC_FAILING && fabric->tree != NULL;
}

static void on_accepted(struct wring_fabric *fabric, uint32_t device, struct wring_event *event)
{
    if (is_too_late(fabric)) {
        disconnect_conn(fabric, event->conn);
        return;
    }
    struct wring_peer *peer = find_caller(fabric, event);
    if (peer == NULL || peer->state >= WRING_PEER_READY || !may_come_by(fabric, peer, device)) {
        if (peer == NULL || peer->state < WRING_PEER_READY) /* else a dial that came to nothing */
            wring_warn(fabric->log, "refused a connection that is not one of this job's");
        disconnect_conn(fabric, event->conn);
        return;
    }
    event->conn->user = peer;
    bool ours_stays = peer->state == WRING_PEER_CONNECTING && !peer->dial->taken &&
                      peer->conn != NULL && fabric->rank > peer->rank;
    if (!ours_stays) {
        use_dialled_conn(fabric, peer, event->conn, device);
        return;
    }
    disconnect_conn(peer->fabric, peer->dial->spare);
    peer->dial->spare = event->conn;
    peer->dial->spare_device = device;
}

/* ---- the side that dials ---- */

/** @return WRING_OK: it is under way */
static enum wring_status dial_peer(struct wring_fabric *fabric, struct wring_peer *peer)
{
    struct wring_provider *provider = fabric->devices[peer->device].provider;
    uint8_t hello[sizeof(uint32_t) + sizeof(fabric->job)];

    wring_put_u32(hello, fabric->rank);
    memcpy(hello + sizeof(uint32_t), fabric->job, sizeof(fabric->job));
    enum wring_status status = provider->ops->connect(provider, peer->address, peer->address_bytes,
                                                      hello, sizeof(hello), &peer->conn);
    if (status == WRING_OK)
        peer->conn->user = peer;
    return status;
}

/** Our dial came to nothing, and there is no other way. */
static void give_up_dial(struct wring_fabric *fabric, struct wring_peer *peer,
                         enum wring_status status, const char *why, const char *remedy)
{
    const struct wring_dial *dial = peer->dial;
    bool told =
        status == WRING_ERR_AUTH || status == WRING_ERR_SYSTEM || status == WRING_ERR_NO_MEMORY;
    if (!peer->left)
        wring_connect_failed(fabric, told ? status : WRING_ERR_PEER, peer,
                             "no connection to rank %" PRIu32 " over %s: %s%s%s%s", peer->rank,
                             fabric->devices[peer->device].name, why,
                             dial->second ? "; nor over " : "", dial->second ? dial->first : "",
                             remedy);
    wring_peer_drop(peer);
}

/** Is another dial worth a try? Not where the peer was there, and refused us. */
static bool may_try_again(enum wring_status status)
{
    return status == WRING_ERR_ADDRESS || status == WRING_ERR_PEER || status == WRING_ERR_TIMEOUT ||
           status == WRING_ERR_DEVICE || status == WRING_ERR_UNSUPPORTED;
}

/**
 * A peer that is busy, or whose application does not call, answers late; one that has too many at
 * its door closes, and one that has left or died is nowhere: of that the tree tells, and of why,
 * also if we have dialled for long by then.
 * @return false: this device has been tried for long enough
 */
static bool redial_later(struct wring_fabric *fabric, struct wring_peer *peer,
                         enum wring_status status)
{
    bool is_there = status == WRING_ERR_TIMEOUT || status == WRING_ERR_PEER;
    struct wring_dial *dial = peer->dial;
    uint64_t now_ns = wring_now_ns();
    uint64_t patience_ns = is_there ? fabric->config->peer_timeout_ns : GRACE_NS;
    uint64_t since_ns = is_there || dial->there_ns == 0 ? dial->began_ns : dial->there_ns;

    if (now_ns - since_ns >= patience_ns)
        return false;
    if (is_there)
        dial->there_ns = now_ns;
    dial->redial_ns = now_ns + REDIAL_NS;
    fabric->owes_dials = true;
    return true;
}

/** Once, the next device that both have. @return false: there is none */
static bool try_next_device(struct wring_fabric *fabric, struct wring_peer *peer, const char *why)
{
    struct wring_dial *now = peer->dial;
    const struct wring_device *from = &fabric->devices[peer->device];

    if (now->second || !fabric_choose_next(fabric, peer))
        return false;
    now->second = true;
    now->began_ns = wring_now_ns();
    now->there_ns = 0;
    snprintf(now->first, sizeof(now->first), "%s: %s", from->name, why);
    uint32_t low = peer->rank < fabric->rank ? peer->rank : fabric->rank;
    uint32_t high = peer->rank < fabric->rank ? fabric->rank : peer->rank;
    wring_log_line(
        fabric->log, fabric->told_apart ? WRING_LOG_INFO : WRING_LOG_WARN, WRING_MODULE,
        "ranks %" PRIu32 " and %" PRIu32 " %s %s: %s; they use %s, which is slower%s", low, high,
        from->caps.same_host_only ? "are on one host and cannot use" : "cannot be connected over",
        from->name, why, fabric->devices[peer->device].name,
        from->caps.same_host_only
            ? ". Run them as one user in one namespace, or give them different WRING_NODE"
            : "");
    fabric->told_apart = true;
    return true;
}

/** Our dial ended. @param why  of the event that said so: void after the next call below */
static void on_undialled(struct wring_fabric *fabric, struct wring_peer *peer,
                         enum wring_status status, const char *why)
{
    struct wring_conn *spare = peer->dial->spare;
    uint32_t spare_device = peer->dial->spare_device;
    const char *remedy = "";

    peer->dial->spare = NULL;
    if (spare != NULL) {
        use_dialled_conn(fabric, peer, spare, spare_device);
        return;
    }
    if (peer->left || fabric->state >= WRING_FABRIC_FAILING) {
        wring_peer_drop(peer);
        return;
    }
    if (may_try_again(status) && redial_later(fabric, peer, status))
        return;
    if (may_try_again(status) && !peer->dial->second) {
        bool near_only = fabric->devices[peer->device].caps.same_host_only;
        if (try_next_device(fabric, peer, why)) {
            status = dial_peer(fabric, peer);
            if (status == WRING_OK)
                return;
            why = wring_status_text(status);
        } else if (near_only) {
            remedy = "; there is no other provider that both have: see WRING_PROVIDER";
        }
    }
    give_up_dial(fabric, peer, status, why, remedy);
}

enum wring_status wring_connect_dial(struct wring_fabric *fabric, struct wring_peer *peer)
{
    if (peer->state == WRING_PEER_CONNECTING)
        return WRING_ERR_AGAIN;
    if (!meet_peer(fabric, peer))
        return WRING_ERR_NO_MEMORY;
    if (peer->state == WRING_PEER_NONE && peer->left)
        peer->state = WRING_PEER_GONE;
    if (peer->state == WRING_PEER_GONE || fabric->state >= WRING_FABRIC_FAILING)
        return WRING_ERR_CLOSED;
    if (!begin_dial(peer))
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = dial_peer(fabric, peer);
    if (status != WRING_OK)
        on_undialled(fabric, peer, status, wring_status_text(status));
    return peer->state == WRING_PEER_GONE ? WRING_ERR_CLOSED : WRING_ERR_AGAIN;
}

enum wring_status wring_fabric_reach(struct wring_fabric *fabric, struct wring_peer *peer)
{
    return peer->state == WRING_PEER_READY ? WRING_OK : wring_connect_dial(fabric, peer);
}

enum wring_status wring_control_deliver(struct wring_fabric *fabric, struct wring_peer *peer,
                                        const struct wring_control *control)
{
    return peer->state == WRING_PEER_READY ? wring_control_send(peer, control)
                                           : wring_connect_dial(fabric, peer);
}

void wring_connect_redial(struct wring_fabric *fabric)
{
    fabric->owes_dials = false;
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met) {
        if (peer->dial == NULL || peer->dial->redial_ns == 0)
            continue;
        if (fabric->tick_ns < peer->dial->redial_ns && !peer->left) {
            fabric->owes_dials = true;
            continue;
        }
        peer->dial->redial_ns = 0;
        enum wring_status status = peer->left ? WRING_ERR_PEER : dial_peer(fabric, peer);
        if (status != WRING_OK)
            on_undialled(fabric, peer, status, wring_status_text(status));
    }
}

/* ---- both ---- */

static void set_peer_ready(struct wring_fabric *fabric, struct wring_peer *peer)
{
    bool dialled = !peer->dial->taken;

    end_dial(peer);
    renew_window(peer);
    peer->state = WRING_PEER_READY;
    peer->heard_ns = peer->sent_ns = fabric->tick_ns;
    atomic_fetch_add_explicit(&fabric->changes, 1, memory_order_release);
    if (dialled) /* the other end waits for a word of ours */
        wring_control_send(peer, &(struct wring_control){.kind = WRING_CONTROL_HEARTBEAT});
    peer->owes_bye = fabric->deaf;
}

static void on_closed(struct wring_fabric *fabric, struct wring_peer *peer,
                      struct wring_event *event)
{
    enum wring_status status = event->status;
    char why[WRING_TEXT_MAX];
    snprintf(why, sizeof(why), "%s", event->text != NULL ? event->text : "no reason given");

    bool spare = event->conn == peer->dial->spare;
    disconnect_conn(fabric, event->conn);
    if (spare) {
        peer->dial->spare = NULL;
        return;
    }
    peer->conn = NULL;
    if (!peer->dial->taken) {
        on_undialled(fabric, peer, status, why);
    } else if (status == WRING_ERR_PEER) {
        drop_connection(peer,
                        WRING_PEER_NONE); /* it has given up before it heard that we take it */
    } else {
        /* to the peer it stands, and only we know what is wrong with it: the tree tells it */
        wring_peer_drop(peer);
        wring_connect_failed(fabric, WRING_ERR_PEER, peer, "rank %" PRIu32 " is lost (%s): %s",
                             peer->rank, fabric->devices[peer->device].name, why);
    }
}

bool wring_connect_event(struct wring_fabric *fabric, uint32_t device, struct wring_event *event)
{
    struct wring_peer *peer = event->conn->user;
    if (peer == NULL && event->kind == WRING_EVENT_ACCEPTED) {
        on_accepted(fabric, device, event);
        return false;
    }
    if (peer == NULL || peer->dial == NULL ||
        (event->conn != peer->conn && event->conn != peer->dial->spare)) {
        disconnect_conn(fabric, event->conn);
        return false;
    }
    if (event->kind == WRING_EVENT_CLOSED) {
        on_closed(fabric, peer, event);
        return false;
    }
    if (event->kind == WRING_EVENT_CONNECTED || event->conn == peer->dial->spare)
        return false;
    if (!peer->dial->taken && is_too_late(fabric)) {
        wring_peer_drop(peer);
        return false;
    }
    set_peer_ready(fabric, peer);
    return true;
}
