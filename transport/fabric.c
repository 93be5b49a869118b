/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/fabric.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "transport/control.h"
#include "transport/control_tree.h"
#include "transport/fabric_connect.h"
#include "transport/liveness.h"

#define WRING_MODULE "fabric"
#define EVENTS_PER_POLL 32
#define POLLS_PER_TICK 16

enum wring_status wring_fabric_create(const struct wring_fabric_params *params,
                                      struct wring_fabric **out)
{
    struct wring_fabric *fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL)
        return WRING_ERR_NO_MEMORY;
    fabric->config = params->config;
    fabric->log = params->log;
    fabric->handler = params->handler;
    fabric->rank = params->rank;
    fabric->size = params->size;
    memcpy(fabric->job, params->job, sizeof(fabric->job));
    fabric->peers = calloc(params->size, sizeof(*fabric->peers));
    if (fabric->peers == NULL) {
        wring_fabric_destroy(fabric);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < params->size; i++)
        fabric->peers[i].rank = i, fabric->peers[i].fabric = fabric;

    enum wring_status status = wring_fabric_open(fabric, params);
    if (status != WRING_OK) {
        wring_fabric_destroy(fabric);
        return status;
    }
    *out = fabric;
    return WRING_OK;
}

void wring_fabric_destroy(struct wring_fabric *fabric)
{
    if (fabric == NULL)
        return;
    for (uint32_t i = 0; i < fabric->size && fabric->peers != NULL; i++)
        wring_peer_drop(&fabric->peers[i]);
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        fabric->devices[i].provider->ops->close(fabric->devices[i].provider);
    wring_control_tree_destroy(fabric->tree);
    free(fabric->peers);
    wring_blobs_finish(&fabric->blobs);
    free(fabric);
}

static void on_closed(struct wring_fabric *fabric, struct wring_peer *peer,
                      const struct wring_event *event)
{
    char text[WRING_TEXT_MAX];
    snprintf(text, sizeof(text), "%s", event->text != NULL ? event->text : "no reason given");
    enum wring_status cause = event->status;

    wring_peer_drop(peer);
    if (cause != WRING_ERR_FRAME) /* it may have said why before it went; else we alone know */
        wring_liveness_look(fabric);
    if (peer->left || fabric->state >= WRING_FABRIC_FAILING)
        return;
    if (fabric->state == WRING_FABRIC_JOINING) {
        bool told = cause == WRING_ERR_AUTH || cause == WRING_ERR_SYSTEM;
        wring_connect_failed(fabric, told ? cause : WRING_ERR_PEER, peer,
                             "no connection to rank %" PRIu32 " over %s: %s", peer->rank,
                             fabric->devices[peer->device].name, text);
        return;
    }
    if (cause == WRING_ERR_SYSTEM || cause == WRING_ERR_NO_MEMORY) {
        wring_fabric_fail(fabric, cause, (int32_t)fabric->rank,
                          "rank %" PRIu32 " cannot go on with rank %" PRIu32 " (%s): %s",
                          fabric->rank, peer->rank, fabric->devices[peer->device].name, text);
        return;
    }
    wring_fabric_fail(fabric, cause == WRING_ERR_AUTH ? WRING_ERR_AUTH : WRING_ERR_PEER,
                      (int32_t)peer->rank, "rank %" PRIu32 " is lost (%s): %s", peer->rank,
                      fabric->devices[peer->device].name, text);
}

static void on_message(struct wring_fabric *fabric, struct wring_peer *peer,
                       const struct wring_event *event)
{
    struct wring_control control;
    if (event->bytes >= sizeof(uint32_t) && wring_get_u32(event->data) == WRING_CONTROL_RING) {
        if (fabric->state == WRING_FABRIC_WORKING)
            fabric->handler.ring(fabric->handler.arg, peer, event->data, event->bytes);
        return;
    }
    if (!wring_control_parse(event->data, event->bytes, &control)) {
        wring_fabric_fail(fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          "rank %" PRIu32 " sent a malformed control message of %zu bytes",
                          peer->rank, event->bytes);
        return;
    }
    void *arg = fabric->handler.arg;
    if (control.kind == WRING_CONTROL_CREDIT)
        fabric->handler.credit(arg, peer, control.a, control.b, control.c);
    else if (control.kind == WRING_CONTROL_CALL)
        fabric->handler.call(arg, peer, control.a, control.b, control.c, control.text);
    else if (control.kind == WRING_CONTROL_STANDSTILL)
        fabric->handler.standstill(arg, peer, control.a, control.b, control.c, control.text);
    else if (wring_control_is_of_groups(control.kind))
        fabric->handler.group(arg, peer, &control);
    else
        wring_liveness_heard(fabric, peer, &control);
}

/** Of a peer that is connected. */
static void on_event(struct wring_fabric *fabric, struct wring_peer *peer,
                     const struct wring_event *event)
{
    peer->heard_ns = fabric->tick_ns;
    if (event->kind == WRING_EVENT_CLOSED) {
        on_closed(fabric, peer, event);
    } else if (event->kind == WRING_EVENT_MESSAGE) {
        on_message(fabric, peer, event);
    } else if (fabric->state == WRING_FABRIC_WORKING) {
        if (event->kind == WRING_EVENT_ARRIVED) {
            wring_count(&fabric->bytes_received, event->bytes);
            peer->arrivals++;
            fabric->handler.arrived(fabric->handler.arg, peer, event->imm, event->bytes);
        } else if (event->kind == WRING_EVENT_PUT_DONE) {
            fabric->handler.put_done(fabric->handler.arg, peer, event->cookie);
        }
    }
}

static void dispatch(struct wring_fabric *fabric, uint32_t device, struct wring_event *event)
{
    if (event->conn == NULL) /* refused meanwhile */
        return;
    struct wring_peer *peer = event->conn->user;
    if (peer != NULL && peer->state == WRING_PEER_READY && event->conn == peer->conn)
        on_event(fabric, peer, event);
    else if (wring_connect_event(fabric, device, event))
        on_event(fabric, peer, event);
}

static void dispatch_all(struct wring_fabric *fabric, uint32_t device, struct wring_event *events,
                         size_t n)
{
    fabric->events = events;
    fabric->n_events = n;
    for (size_t e = 0; e < n; e++)
        dispatch(fabric, device, &events[e]);
    fabric->n_events = 0;
}

/** To read the clock takes as long as all the rest of a poll. */
static void tick(struct wring_fabric *fabric)
{
    fabric->ticked = !fabric->moving || ++fabric->unticked == POLLS_PER_TICK;
    if (!fabric->ticked)
        return;
    fabric->unticked = 0;
    fabric->tick_ns = wring_now_ns();
}

/** What few polls have to do. @return true if anything came */
static bool do_chores(struct wring_fabric *fabric)
{
    bool armed = fabric->armed, owes_welcomes = fabric->owes_welcomes;
    fabric->has_chores = fabric->armed = fabric->owes_welcomes = false;
    if (owes_welcomes)
        wring_connect_welcome(fabric);
    return armed && wring_liveness_look(fabric);
}

bool wring_fabric_poll(struct wring_fabric *fabric)
{
    struct wring_event events[EVENTS_PER_POLL];
    uint32_t n_devices = fabric->state == WRING_FABRIC_FAILED ? 0 : fabric->n_devices;
    bool any = false;

    tick(fabric);
    fabric->round++;
    for (uint32_t i = 0; i < n_devices; i++) {
        struct wring_provider *provider = fabric->devices[i].provider;
        size_t n = provider->ops->poll(provider, events, EVENTS_PER_POLL);
        if (n == 0)
            continue;
        dispatch_all(fabric, i, events, n);
        any = true;
    }
    if (fabric->has_chores)
        any |= do_chores(fabric);
    if (fabric->tick_ns >= fabric->due_ns)
        any |= wring_liveness_tick(fabric);
    fabric->moving = any;
    return any;
}

void wring_fabric_arm(struct wring_fabric *fabric, struct wring_wait_set *set)
{
    fabric->armed = fabric->has_chores = true;
    if (fabric->tree != NULL)
        wring_control_tree_arm(fabric->tree, set);
    if (fabric->state == WRING_FABRIC_FAILED)
        return;
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        fabric->devices[i].provider->ops->arm(fabric->devices[i].provider, set);
    uint64_t next = wring_liveness_deadline(fabric);
    if (next < set->deadline_ns)
        set->deadline_ns = next;
}

enum wring_status wring_fabric_reach(struct wring_fabric *fabric, struct wring_peer *peer)
{
    return peer->state == WRING_PEER_READY ? WRING_OK : wring_connect_dial(fabric, peer);
}

enum wring_status wring_fabric_send_credit(struct wring_fabric *fabric, struct wring_peer *peer,
                                           uint32_t channel, uint32_t generation, uint32_t sequence)
{
    (void)fabric;
    struct wring_control control = {
        .kind = WRING_CONTROL_CREDIT, .a = channel, .b = generation, .c = sequence};
    return wring_control_send(peer, &control);
}

enum wring_status wring_fabric_put(struct wring_fabric *fabric, struct wring_peer *peer,
                                   struct wring_region *region, const void *local,
                                   struct wring_remote *remote, uint64_t remote_offset,
                                   size_t bytes, uint32_t imm, uint64_t cookie)
{
    if (peer->state != WRING_PEER_READY)
        return wring_fabric_reach(fabric, peer);
    if (peer->put_copies) {
        cookie = WRING_NO_PUT_DONE;
        peer->window.bytes = peer->put_round == fabric->round ? peer->window.bytes : 0;
        peer->put_round = fabric->round;
    }
    if (!wring_put_window_admits(&peer->window, bytes))
        return WRING_ERR_AGAIN;

    enum wring_status status = peer->conn->provider->ops->put(peer->conn, region, local, remote,
                                                              remote_offset, bytes, imm, cookie);
    if (status != WRING_OK)
        return status;
    wring_put_window_begin(&peer->window, bytes);
    peer->sent_ns = fabric->tick_ns;
    peer->puts++;
    wring_count(&fabric->bytes_sent, bytes);
    wring_count(&fabric->puts_sent, 1);
    return WRING_OK;
}

enum wring_status wring_fabric_copy_sources(const struct wring_peer *peer)
{
    if (peer->state != WRING_PEER_READY || peer->put_copies)
        return WRING_OK;
    return peer->conn->provider->ops->copy_sources(peer->conn);
}
