/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/fabric.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "transport/control.h"
#include "transport/control_tree.h"
#include "transport/fabric_connect.h"
#include "transport/interface.h"
#include "transport/liveness.h"
#include "transport/providers/fault/fault.h"
#include "transport/providers/providers.h"
#include "transport/roster.h"

#define WRING_MODULE "fabric"

/* ---- open ---- */

/* Which providers this rank opens, and where they listen. */

static bool is_listed(const char *list, const char *name)
{
    struct wring_list_item item;
    while (wring_list_next(&list, &item))
        if (wring_list_item_is(&item, name))
            return true;
    return false;
}

/** @param text  out, [bytes], all providers' names, as one would write them */
static void write_provider_names(char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (const struct wring_provider_ops *const *ops = wring_provider_list(); *ops != NULL; ops++)
        if (n < bytes)
            n += (size_t)snprintf(text + n, bytes - n, "%s%s", n > 0 ? ", " : "", (*ops)->name);
}

/** "auto", or names of providers that there are. The first that is none is told. */
static enum wring_status check_provider_list(const struct wring_log *log, const char *list)
{
    char known[WRING_TEXT_MAX];
    struct wring_list_item item;

    write_provider_names(known, sizeof(known));
    for (const char *rest = list; wring_list_next(&rest, &item);) {
        const struct wring_provider_ops *const *ops = wring_provider_list();
        while (*ops != NULL && !wring_list_item_is(&item, (*ops)->name))
            ops++;
        if (*ops != NULL)
            continue;
        if (item.length == 0)
            wring_error(log, "WRING_PROVIDER=%s: a name is empty; there are %s, or auto alone",
                        list, known);
        else
            wring_error(log, "WRING_PROVIDER=%s: no provider '%.*s'; there are %s, or auto alone",
                        list, (int)item.length, item.text, known);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/**
 * Where network providers listen: at WRING_BIND, on WRING_IFACE, or where the rendezvous went.
 * @param address out, [WRING_INTERFACE_ADDRESS], filled if need be. Errors are logged.
 */
static enum wring_status choose_bind(const struct wring_fabric *fabric, const char *given,
                                     char *address, const char **out)
{
    const struct wring_config *config = fabric->config;
    *out = given[0] != '\0' ? given : NULL;
    if (config->iface[0] == '\0')
        return WRING_OK;
    if (config->bind[0] != '\0') {
        wring_error(fabric->log, "WRING_BIND=%s and WRING_IFACE=%s: set one of them", config->bind,
                    config->iface);
        return WRING_ERR_INVALID;
    }
    enum wring_status status = wring_interface_find(fabric->log, config->iface, given, address);
    if (status != WRING_OK)
        return status;
    if (config->key[0] == '\0' && strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0) {
        wring_error(fabric->log,
                    "WRING_IFACE=%s: without a key wring listens on loopback only: set the same "
                    "WRING_KEY or WRING_KEY_FILE on all ranks",
                    config->iface);
        return WRING_ERR_AUTH;
    }
    *out = address;
    return WRING_OK;
}

static enum wring_status open_device(struct wring_fabric *fabric,
                                     const struct wring_provider_ops *ops,
                                     const struct wring_fabric_params *params, const char *bind)
{
    struct wring_device device = {.name = ops->name};
    struct wring_provider_params provider_params = {
        .log = fabric->log,
        .config = fabric->config,
        .bind = bind,
        .rank = params->rank,
        .size = params->size,
    };
    memcpy(provider_params.secret, params->secret, WRING_SECRET_BYTES);

    enum wring_status status = ops->open(&provider_params, &device.provider);
    if (status != WRING_OK)
        return status;
    if (fabric->config->fault[0] != '\0') {
        struct wring_provider *inner = device.provider;
        status = wring_fault_wrap(fabric->config->fault, &provider_params, inner, &device.provider);
        if (status != WRING_OK) {
            inner->ops->close(inner);
            return status;
        }
    }
    device.provider->ops->capabilities(device.provider, &device.caps);
    status = device.provider->ops->listen(device.provider, device.address, &device.address_bytes);
    if (status != WRING_OK) {
        device.provider->ops->close(device.provider);
        return status;
    }
    fabric->devices[fabric->n_devices++] = device;
    return WRING_OK;
}

static void go_without_provider(struct wring_fabric *fabric, const struct wring_provider_ops *ops,
                                const char *reason)
{
    snprintf(fabric->lacks, sizeof(fabric->lacks), "%s: %s", ops->name, reason);
}

/** "auto": take a provider that does well here, go without one that need not be. */
static enum wring_status try_device(struct wring_fabric *fabric,
                                    const struct wring_provider_ops *ops,
                                    const struct wring_fabric_params *params, const char *bind)
{
    bool optional = ops->suits != wring_suits_always;
    char reason[WRING_TEXT_MAX] = "";
    if (ops->probe(reason, sizeof(reason)) != WRING_OK ||
        ops->suits(fabric->config, reason, sizeof(reason)) != WRING_OK) {
        go_without_provider(fabric, ops, reason);
        if (!optional)
            wring_warn(fabric->log, "this rank goes without %s: %s", ops->name, reason);
        return WRING_OK;
    }
    enum wring_status status = open_device(fabric, ops, params, bind);
    if (status == WRING_OK)
        fabric->devices[fabric->n_devices - 1].optional = optional;
    else if (optional)
        go_without_provider(fabric, ops, wring_status_text(status));
    return optional ? WRING_OK : status;
}

static enum wring_status open_named_device(struct wring_fabric *fabric,
                                           const struct wring_provider_ops *ops,
                                           const struct wring_fabric_params *params,
                                           const char *bind)
{
    char reason[WRING_TEXT_MAX] = "";
    if (ops->probe(reason, sizeof(reason)) == WRING_OK)
        return open_device(fabric, ops, params, bind);
    wring_error(fabric->log, "provider %s cannot work here: %s", ops->name, reason);
    return WRING_ERR_UNSUPPORTED;
}

/** Where a rank's control connections come in. */
static bool find_tree_endpoint(const void *arg, uint32_t rank,
                               struct wring_control_tree_endpoint *out)
{
    const struct wring_fabric *fabric = arg;
    struct wring_description *one = calloc(1, sizeof(*one));
    bool read = one != NULL && wring_description_read(&fabric->blobs, rank, one);
    if (read)
        *out = one->tree;
    free(one);
    return read;
}

/** By the rendezvous' addresses, whatever providers are used. */
static enum wring_status open_tree(struct wring_fabric *fabric,
                                   const struct wring_fabric_params *params)
{
    struct wring_control_tree_params tree = {
        .config = fabric->config,
        .log = fabric->log,
        .rank = params->rank,
        .size = params->size,
        .bind = params->bind[0] != '\0' ? params->bind : NULL,
        .handler = {fabric, wring_liveness_told, wring_liveness_lost},
        .find = find_tree_endpoint,
    };
    memcpy(tree.secret, params->secret, sizeof(tree.secret));
    memcpy(tree.job, params->job, sizeof(tree.job));
    return wring_control_tree_create(&tree, &fabric->tree);
}

/** Open the devices; for wring_fabric_create(). */
static enum wring_status fabric_open(struct wring_fabric *fabric,
                                     const struct wring_fabric_params *params)
{
    bool automatic = strcmp(params->provider, "auto") == 0;
    char address[WRING_INTERFACE_ADDRESS];
    const char *bind;
    enum wring_status status =
        automatic ? WRING_OK : check_provider_list(fabric->log, params->provider);
    if (status == WRING_OK)
        status = choose_bind(fabric, params->bind, address, &bind);

    for (const struct wring_provider_ops *const *ops = wring_provider_list();
         *ops != NULL && status == WRING_OK && fabric->n_devices < WRING_DEVICES_MAX; ops++) {
        if (automatic)
            status = try_device(fabric, *ops, params, bind);
        else if (is_listed(params->provider, (*ops)->name))
            status = open_named_device(fabric, *ops, params, bind);
    }
    if (status == WRING_OK && params->size > 1 && !params->treeless)
        status = open_tree(fabric, params);
    return status;
}

/* ---- fabric ---- */

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
    enum wring_status status = fabric_open(fabric, params);
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
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        wring_peer_drop(peer);
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        fabric->devices[i].provider->ops->close(fabric->devices[i].provider);
    wring_control_tree_destroy(fabric->tree);
    free(fabric->peers);
    wring_roster_finish(&fabric->roster);
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

/** Is it about groups, or the pieces of their calls? */
static bool is_of_groups(enum wring_control_kind kind)
{
    return (wring_control_has_body(kind) && kind != WRING_CONTROL_MEMBER &&
            kind != WRING_CONTROL_LEFT) ||
           kind == WRING_CONTROL_ASK || kind == WRING_CONTROL_GRANT || kind == WRING_CONTROL_SPARE;
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
    else if (is_of_groups(control.kind))
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

static void dispatch_event(struct wring_fabric *fabric, uint32_t device, struct wring_event *event)
{
    if (event->conn == NULL) /* refused meanwhile */
        return;
    struct wring_peer *peer = event->conn->user;
    if (peer != NULL && peer->state == WRING_PEER_READY && event->conn == peer->conn)
        on_event(fabric, peer, event);
    else if (wring_connect_event(fabric, device, event))
        on_event(fabric, peer, event);
}

static void dispatch_events(struct wring_fabric *fabric, uint32_t device,
                            struct wring_event *events, size_t n)
{
    fabric->events = events;
    fabric->n_events = n;
    for (size_t e = 0; e < n; e++)
        dispatch_event(fabric, device, &events[e]);
    fabric->n_events = 0;
}

/** To read the clock takes as long as all the rest of a poll. */
static void tick_clock(struct wring_fabric *fabric)
{
    fabric->ticked = !fabric->moving || ++fabric->unticked == POLLS_PER_TICK;
    if (!fabric->ticked)
        return;
    fabric->unticked = 0;
    fabric->tick_ns = wring_now_ns();
}

/** Chores that few polls have to do. @return true if anything came */
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

    tick_clock(fabric);
    fabric->polled++;
    for (uint32_t i = 0; i < n_devices; i++) {
        struct wring_provider *provider = fabric->devices[i].provider;
        size_t n = provider->ops->poll(provider, events, EVENTS_PER_POLL);
        if (n == 0)
            continue;
        dispatch_events(fabric, i, events, n);
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
        peer->window.bytes = peer->put_polled == fabric->polled ? peer->window.bytes : 0;
        peer->put_polled = fabric->polled;
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

void wring_fabric_put_failed(struct wring_peer *peer, enum wring_status status)
{
    if (peer->left)
        wring_fabric_fail(peer->fabric, WRING_ERR_PEER, (int32_t)peer->rank,
                          "rank %" PRIu32 " closed its session while others still exchange with it",
                          peer->rank);
    else
        wring_fabric_fail(peer->fabric, WRING_ERR_PEER, (int32_t)peer->rank,
                          "cannot send to rank %" PRIu32 ": %s", peer->rank,
                          wring_status_text(status));
}

/* ---- meet ---- */

/* How the control tree comes to stand as a session opens. */

#define LOOK_NS (50 * WRING_NS_PER_MS) /* between two looks for ranks that have ended */
#define BLAME_NS WRING_NS_PER_S        /* for the bootstrap to say whose fault a loss is */

static uint32_t first_missing_rank(const struct wring_fabric *fabric)
{
    return fabric->tree != NULL ? wring_control_tree_missing(fabric->tree) : fabric->size;
}

/** Nothing came: sleep until something does, but look after the other ranks too. */
static enum wring_status sleep_or_time_out(struct wring_fabric *fabric,
                                           struct wring_bootstrap *bootstrap,
                                           struct wring_wait_set *set, uint64_t deadline_ns)
{
    uint64_t now = wring_now_ns();
    enum wring_status status = bootstrap->ops->check(bootstrap);
    if (status != WRING_OK)
        return status;
    if (now >= deadline_ns) {
        wring_error(fabric->log, "rank %" PRIu32 " did not connect in time (WRING_JOIN_TIMEOUT)",
                    first_missing_rank(fabric));
        return WRING_ERR_PEER;
    }
    if (set->deadline_ns > now + LOOK_NS)
        set->deadline_ns = now + LOOK_NS;
    wring_wait_set_sleep(set);
    return WRING_OK;
}

/** The fabric's status so far. */
static enum wring_status status_so_far(const struct wring_fabric *fabric)
{
    enum wring_status status = wring_fabric_status(fabric);
    return status != WRING_OK ? status : fabric->mishap.status;
}

static enum wring_status await_tree(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap,
                                    uint64_t deadline_ns)
{
    enum wring_status status = status_so_far(fabric);
    while (status == WRING_OK && first_missing_rank(fabric) < fabric->size) {
        struct wring_wait_set set = {.deadline_ns = deadline_ns};
        wring_fabric_arm(fabric, &set);
        bool any = wring_fabric_poll(fabric);
        status = status_so_far(fabric);
        if (status == WRING_OK && !any)
            status = sleep_or_time_out(fabric, bootstrap, &set, deadline_ns);
    }
    return status;
}

/**
 * A connection was lost: is its rank at fault, or did that one leave because another has ended? The
 * bootstrap knows which rank ended, and tells all ranks of the same one. A rank that goes without
 * waiting for its word would look like the one at fault to others.
 */
static enum wring_status await_blame(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap)
{
    uint64_t until_ns = wring_now_ns() + BLAME_NS;
    while (wring_now_ns() < until_ns) {
        struct wring_wait_set pause = {.deadline_ns = wring_now_ns() + LOOK_NS};
        enum wring_status status = bootstrap->ops->check(bootstrap);
        if (status != WRING_OK)
            return status;
        wring_wait_set_sleep(&pause);
    }
    wring_error(fabric->log, "%s", fabric->mishap.text);
    return fabric->mishap.status;
}

/** The bootstrap has told us; others, who have joined already, hear it from us. */
static void tell_rank_at_fault(struct wring_fabric *fabric, const struct wring_bootstrap *bootstrap)
{
    if (bootstrap == NULL || bootstrap->at_fault < 0)
        return;
    fabric->failure = (struct wring_failure){WRING_ERR_PEER, bootstrap->at_fault, ""};
    snprintf(fabric->failure.text, sizeof(fabric->failure.text),
             "rank %" PRId32 " ended while ranks connected to each other", bootstrap->at_fault);
    wring_failure_tell(fabric);
}

struct wring_path wring_fabric_way_up(const struct wring_fabric *fabric)
{
    struct wring_path path = {0};
    struct wring_fault_schedule schedule;
    char why[WRING_TEXT_MAX];

    if (fabric->tree == NULL)
        return path;
    path = wring_control_tree_way_up(fabric->tree);
    if (fabric->config->fault[0] != '\0' &&
        wring_fault_parse(fabric->config->fault, &schedule, why, sizeof(why)))
        path = wring_fault_path(&schedule, path);
    return path;
}

uint64_t wring_fabric_measure_way(const struct wring_fabric *fabric, uint32_t rank,
                                  uint64_t deadline_ns)
{
    struct wring_control_tree_endpoint endpoint;

    if (!find_tree_endpoint(fabric, rank, &endpoint))
        return UINT64_MAX;
    return wring_tcp_measure_way(endpoint.address, endpoint.bytes, deadline_ns);
}

enum wring_status wring_fabric_connect(struct wring_fabric *fabric,
                                       struct wring_bootstrap *bootstrap, struct wring_blobs *blobs,
                                       uint64_t deadline_ns)
{
    fabric->blobs = *blobs;
    *blobs = (struct wring_blobs){0};
    enum wring_status status = wring_roster_make(fabric);
    if (status == WRING_OK && fabric->tree != NULL)
        wring_control_tree_join(fabric->tree);
    if (status == WRING_OK)
        status = await_tree(fabric, bootstrap, deadline_ns);
    if (fabric->mishap.status != WRING_OK)
        status = await_blame(fabric, bootstrap);
    if (status != WRING_OK) {
        tell_rank_at_fault(fabric, bootstrap);
        return status;
    }

    fabric->tick_ns = fabric->judged_ns = wring_now_ns();
    fabric->state = WRING_FABRIC_WORKING;
    return WRING_OK;
}

/* ---- leave ---- */

#define LEAVE_NS (500 * WRING_NS_PER_MS) /* how long a good-bye waits to be heard */

void wring_fabric_leave(struct wring_fabric *fabric)
{
    uint64_t deadline = wring_deadline_in(LEAVE_NS);

    while (fabric->state == WRING_FABRIC_WORKING && !wring_liveness_has_parted(fabric)) {
        if (wring_fabric_poll(fabric))
            continue;
        struct wring_wait_set set = {.deadline_ns = deadline};
        wring_fabric_arm(fabric, &set);
        if (wring_now_ns() >= deadline)
            return;
        if (!wring_fabric_poll(fabric))
            wring_wait_set_sleep(&set);
    }
}
