/* SPDX-License-Identifier: Apache-2.0 */
/* The provider "sim": connections, regions and puts of a simulation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "transport/providers/providers.h"
#include "transport/providers/sim/world.h"

#define WRING_MODULE "sim"
#define MARK 0x316D6973u /* "sim1" */
#define ADDRESS_BYTES 12
#define KEY_BYTES 16
#define PUT_MAX ((size_t)1 << 30)
#define PUT_DEPTH 64
#define MESSAGE_DEPTH 256
#define IDLE_NS WRING_NS_PER_MS /* a look at a network in which nothing happens takes that long */

enum conn_state {
    CONNECTING,
    STANDS,
    DEAD,
};

struct sim_conn {
    struct wring_conn base;
    struct sim_conn *next, **link; /* of its provider */
    struct sim_conn *peer;         /* NULL: there is none yet, or it is gone */
    enum conn_state state;
    uint32_t rank, peer_rank;
    uint32_t puts, messages;    /* under way */
    uint32_t held;              /* by frames */
    bool dropped;               /* by its owner: freed once nothing holds it */
    struct sim_frame *farewell; /* that disconnect sends, which may not fail */
};

struct sim_region {
    struct wring_region base;
    struct sim_region *next, **link;
    uint64_t id;
    bool revoked;
};

struct sim_remote {
    struct wring_remote base;
    uint64_t id;
};

struct sim_provider {
    struct wring_provider base;
    struct wring_sim *sim;
    struct sim_provider *next, **link; /* of its rank */
    uint32_t rank;
    uint32_t listener; /* its address; UINT32_MAX: it does not listen */
    bool cut;
    uint8_t secret[WRING_SECRET_BYTES];
    struct sim_conn *conns;
    struct sim_region *regions;
    struct sim_frame *first, **last; /* whose events are to be told */
    struct sim_frame *given;         /* and were, by the last poll */
};

static struct sim_provider *provider_of(const struct sim_conn *conn)
{
    return (struct sim_provider *)conn->base.provider;
}

/* ---- frames ---- */

static void release_conn(struct sim_conn *conn)
{
    if (conn == NULL || --conn->held > 0 || !conn->dropped)
        return;
    free(conn->farewell);
    free(conn);
}

static struct sim_conn *hold_conn(struct sim_conn *conn)
{
    if (conn != NULL)
        conn->held++;
    return conn;
}

static struct sim_frame *new_frame(enum sim_frame_kind kind, struct sim_conn *from,
                                   const void *data, size_t bytes)
{
    struct sim_frame *frame = calloc(1, sizeof(*frame) + bytes);
    if (frame == NULL)
        return NULL;
    frame->kind = kind;
    frame->from = hold_conn(from);
    frame->to = hold_conn(from->peer);
    frame->from_rank = from->rank;
    frame->to_rank = from->peer_rank;
    frame->wire_bytes = bytes;
    if (bytes > 0)
        memcpy(frame->data, data, bytes);
    return frame;
}

void wring_sim_free_frame(struct sim_frame *frame)
{
    if (frame == NULL)
        return;
    release_conn(frame->from);
    release_conn(frame->to);
    wring_sim_free_frame(frame->done);
    free(frame);
}

/** The owner of a connection is to be told; the frame is its provider's from now on. */
static void tell(struct sim_frame *frame, struct sim_conn *conn, enum wring_event_kind kind)
{
    struct sim_provider *provider = provider_of(conn);

    frame->next = NULL;
    frame->event.kind = kind;
    frame->event.conn = &conn->base;
    *provider->last = frame;
    provider->last = &frame->next;
    wring_sim_wake(provider->sim, &provider->sim->ranks[provider->rank]);
}

static void tell_closed(struct sim_frame *frame, struct sim_conn *conn, enum wring_status status,
                        const char *text)
{
    conn->state = DEAD;
    frame->event.status = status;
    frame->event.text = text;
    tell(frame, conn, WRING_EVENT_CLOSED);
}

/** Its last word, once. */
static void say_farewell(struct sim_conn *conn)
{
    struct sim_frame *frame = conn->farewell;

    if (frame == NULL || conn->peer == NULL || conn->state == DEAD)
        return;
    conn->farewell = NULL;
    frame->kind = SIM_CLOSE;
    frame->from = hold_conn(conn);
    frame->to = hold_conn(conn->peer);
    frame->from_rank = conn->rank;
    frame->to_rank = conn->peer_rank;
    wring_sim_send(provider_of(conn)->sim, frame);
}

/* ---- connections ---- */

static struct sim_conn *add_conn(struct sim_provider *provider, uint32_t peer_rank)
{
    struct sim_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->farewell = calloc(1, sizeof(*conn->farewell));
    if (conn->farewell == NULL) {
        free(conn);
        return NULL;
    }
    conn->base.provider = &provider->base;
    conn->rank = provider->rank;
    conn->peer_rank = peer_rank;
    conn->next = provider->conns;
    if (conn->next != NULL)
        conn->next->link = &conn->next;
    conn->link = &provider->conns;
    provider->conns = conn;
    return conn;
}

static enum wring_status sim_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct sim_provider *provider = (struct sim_provider *)base;
    struct wring_sim *sim = provider->sim;

    if (provider->listener != UINT32_MAX)
        return WRING_ERR_BUSY;
    if (sim->n_listeners == sim->listener_room) {
        uint32_t room = 2 * sim->listener_room + 64;
        struct sim_provider **listeners =
            reallocarray(sim->listeners, room, sizeof(struct sim_provider *));
        if (listeners == NULL)
            return WRING_ERR_NO_MEMORY;
        sim->listeners = listeners;
        sim->listener_room = room;
    }
    provider->listener = sim->n_listeners++;
    sim->listeners[provider->listener] = provider;
    wring_put_u32(address, MARK);
    wring_put_u32((uint8_t *)address + 4, provider->listener);
    wring_put_u32((uint8_t *)address + 8, provider->rank);
    *bytes = ADDRESS_BYTES;
    return WRING_OK;
}

/** @return false: it is none */
static bool read_address(const struct wring_sim *sim, const void *address, size_t bytes,
                         uint32_t *listener, uint32_t *rank)
{
    struct wring_reader reader = {address, bytes, false};
    uint32_t mark = wring_read_u32(&reader);

    *listener = wring_read_u32(&reader);
    *rank = wring_read_u32(&reader);
    return !reader.failed && reader.bytes == 0 && mark == MARK && *listener < sim->n_listeners &&
           *rank < sim->params.ranks;
}

static enum wring_status sim_reaches(struct wring_provider *base, const void *one, size_t one_bytes,
                                     const void *other, size_t other_bytes, char *reason,
                                     size_t bytes)
{
    const struct wring_sim *sim = ((struct sim_provider *)base)->sim;
    uint32_t listener, rank;
    bool both = read_address(sim, one, one_bytes, &listener, &rank) &&
                read_address(sim, other, other_bytes, &listener, &rank);

    if (!both)
        snprintf(reason, bytes, "a malformed address");
    return both ? WRING_OK : WRING_ERR_FRAME;
}

static enum wring_status sim_connect(struct wring_provider *base, const void *address,
                                     size_t address_bytes, const void *hello, size_t hello_bytes,
                                     struct wring_conn **out)
{
    struct sim_provider *provider = (struct sim_provider *)base;
    uint32_t listener, rank;

    if (!read_address(provider->sim, address, address_bytes, &listener, &rank))
        return WRING_ERR_FRAME;
    if (hello_bytes > WRING_HELLO_MAX)
        return WRING_ERR_INVALID;
    struct sim_conn *conn = add_conn(provider, rank);
    struct sim_frame *frame =
        conn != NULL ? new_frame(SIM_CONNECT, conn, hello, hello_bytes) : NULL;
    if (frame == NULL) {
        if (conn != NULL)
            wring_provider_sim.disconnect(&conn->base);
        return WRING_ERR_NO_MEMORY;
    }
    frame->listener = listener;
    if (provider->cut)
        tell_closed(frame, conn, WRING_ERR_PEER, "this rank has no network any more");
    else
        wring_sim_send(provider->sim, frame);
    *out = &conn->base;
    return WRING_OK;
}

/** Events of it are void. */
static void forget_events(struct sim_provider *provider, const struct sim_conn *conn)
{
    for (struct sim_frame **at = &provider->first; *at != NULL;) {
        struct sim_frame *frame = *at;
        if (frame->event.conn != &conn->base) {
            at = &frame->next;
            continue;
        }
        *at = frame->next;
        if (provider->last == &frame->next)
            provider->last = at;
        wring_sim_free_frame(frame);
    }
}

static void sim_disconnect(struct wring_conn *base)
{
    if (base == NULL)
        return;
    struct sim_conn *conn = (struct sim_conn *)base;

    say_farewell(conn);
    if (conn->peer != NULL && conn->peer->peer == conn)
        conn->peer->peer = NULL;
    *conn->link = conn->next;
    if (conn->next != NULL)
        conn->next->link = conn->link;
    hold_conn(conn);
    forget_events(provider_of(conn), conn);
    conn->dropped = true;
    release_conn(conn);
}

/* ---- arrivals ---- */

static void refuse(struct wring_sim *sim, struct sim_frame *frame, enum wring_status status,
                   const char *text)
{
    uint32_t rank = frame->from_rank;

    frame->kind = SIM_REFUSE;
    frame->to = frame->from;
    frame->from = NULL;
    frame->from_rank = frame->to_rank;
    frame->to_rank = rank;
    frame->wire_bytes = 0;
    frame->event.status = status;
    frame->event.text = text;
    wring_sim_send(sim, frame);
}

static void on_connect(struct wring_sim *sim, struct sim_frame *frame)
{
    struct sim_provider *listener = sim->listeners[frame->listener];
    struct sim_conn *from = frame->from;

    if (from->dropped || from->state == DEAD) {
        wring_sim_free_frame(frame);
        return;
    }
    if (listener == NULL) {
        refuse(sim, frame, WRING_ERR_ADDRESS, "nobody listens there");
        return;
    }
    if (memcmp(listener->secret, provider_of(from)->secret, WRING_SECRET_BYTES) != 0) {
        refuse(sim, frame, WRING_ERR_AUTH, "the other side has another key");
        return;
    }
    struct sim_conn *conn = add_conn(listener, from->rank);
    struct sim_frame *answer = NULL;
    if (conn != NULL) {
        conn->peer = from;
        answer = new_frame(SIM_ACCEPT, conn, NULL, 0);
    }
    if (answer == NULL) {
        if (conn != NULL)
            sim_disconnect(&conn->base);
        refuse(sim, frame, WRING_ERR_NO_MEMORY, "the other side has no memory");
        return;
    }
    from->peer = conn;
    conn->state = STANDS;
    wring_sim_send(sim, answer);
    frame->event.data = frame->data;
    frame->event.bytes = frame->wire_bytes;
    tell(frame, conn, WRING_EVENT_ACCEPTED);
}

/** Are all these bytes of the region? */
static bool lies_within(const struct wring_region *region, const void *local, size_t bytes)
{
    uintptr_t at = (uintptr_t)local - (uintptr_t)region->base;
    return at <= region->bytes && bytes <= region->bytes - at;
}

static struct sim_region *find_region(const struct sim_provider *provider, uint64_t id)
{
    struct sim_region *region = provider->regions;
    while (region != NULL && region->id != id)
        region = region->next;
    return region;
}

/** It is through: the source is free. */
static void end_put(struct sim_frame *frame)
{
    struct sim_frame *done = frame->done;

    frame->done = NULL;
    frame->from->puts--;
    if (frame->from->state == DEAD || frame->from->dropped)
        wring_sim_free_frame(done);
    else
        tell(done, frame->from, WRING_EVENT_PUT_DONE);
}

static void on_put(struct wring_sim *sim, struct sim_frame *frame)
{
    struct sim_conn *to = frame->to;
    struct sim_region *region = find_region(provider_of(to), frame->region);
    uint8_t *at = region != NULL ? (uint8_t *)region->base.base + frame->offset : NULL;

    if (frame->from->dropped) { /* its source may be gone */
        wring_sim_free_frame(frame);
        return;
    }
    if (region == NULL || !lies_within(&region->base, at, frame->wire_bytes)) {
        say_farewell(to);
        tell_closed(frame, to, WRING_ERR_FRAME, "it put where no region is");
        return;
    }
    if (frame->wire_bytes > 0 && !sim->params.empty && !region->revoked)
        memcpy(at, frame->source, frame->wire_bytes);
    frame->event.bytes = frame->wire_bytes;
    end_put(frame);
    tell(frame, to, WRING_EVENT_ARRIVED);
}

static void on_message(struct sim_frame *frame)
{
    frame->from->messages--;
    frame->event.data = frame->data;
    frame->event.bytes = frame->wire_bytes;
    tell(frame, frame->to, WRING_EVENT_MESSAGE);
}

void wring_sim_deliver(struct wring_sim *sim, struct sim_frame *frame)
{
    struct sim_conn *to = frame->to;

    if (frame->kind == SIM_CONNECT)
        on_connect(sim, frame);
    else if (frame->kind == SIM_OTHER)
        frame->arrived(frame->arg), wring_sim_free_frame(frame);
    else if (to->dropped || to->state == DEAD)
        wring_sim_free_frame(frame);
    else if (frame->kind == SIM_PUT)
        on_put(sim, frame);
    else if (frame->kind == SIM_MESSAGE)
        on_message(frame);
    else if (frame->kind == SIM_ACCEPT)
        to->state = STANDS, tell(frame, to, WRING_EVENT_CONNECTED);
    else if (frame->kind == SIM_REFUSE)
        tell_closed(frame, to, frame->event.status, frame->event.text);
    else
        tell_closed(frame, to, WRING_ERR_PEER, "the other side has closed it, or ended");
}

/* ---- memory ---- */

static enum wring_status sim_region_create(struct wring_provider *base,
                                           const struct wring_memory *memory,
                                           struct wring_region **out)
{
    struct sim_provider *provider = (struct sim_provider *)base;
    if (memory->kind == WRING_MEMORY_DEVICE)
        return WRING_ERR_UNSUPPORTED;
    struct sim_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_ERR_NO_MEMORY;
    region->base =
        (struct wring_region){.provider = base, .base = memory->base, .bytes = memory->bytes};
    region->id = ++provider->sim->next_region;
    region->next = provider->regions;
    if (region->next != NULL)
        region->next->link = &region->next;
    region->link = &provider->regions;
    provider->regions = region;
    *out = &region->base;
    return WRING_OK;
}

static void sim_region_destroy(struct wring_region *base)
{
    if (base == NULL)
        return;
    struct sim_region *region = (struct sim_region *)base;
    *region->link = region->next;
    if (region->next != NULL)
        region->next->link = region->link;
    free(region);
}

/** Its id stays known, until the provider closes. */
static enum wring_status sim_region_revoke(struct wring_region *base)
{
    ((struct sim_region *)base)->revoked = true;
    return WRING_OK;
}

static size_t sim_region_export(struct wring_region *base, void *key)
{
    wring_put_u64(key, ((struct sim_region *)base)->id);
    wring_put_u64((uint8_t *)key + 8, base->bytes);
    return KEY_BYTES;
}

static enum wring_status sim_remote_import(struct wring_conn *conn, const void *key,
                                           size_t key_bytes, struct wring_remote **out)
{
    if (key_bytes != KEY_BYTES)
        return WRING_ERR_FRAME;
    if (((const struct sim_conn *)conn)->state == CONNECTING)
        return WRING_ERR_AGAIN;
    struct sim_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    remote->base = (struct wring_remote){conn, wring_get_u64((const uint8_t *)key + 8)};
    remote->id = wring_get_u64(key);
    *out = &remote->base;
    return WRING_OK;
}

static void sim_remote_release(struct wring_remote *remote)
{
    free(remote);
}

/* ---- sending ---- */

static enum wring_status sim_put(struct wring_conn *base, struct wring_region *region,
                                 const void *local, struct wring_remote *remote,
                                 uint64_t remote_offset, size_t bytes, uint32_t imm,
                                 uint64_t cookie)
{
    struct sim_conn *conn = (struct sim_conn *)base;

    if (remote->conn != base || bytes > PUT_MAX || remote_offset > remote->bytes ||
        bytes > remote->bytes - remote_offset ||
        (region != NULL && bytes > 0 && !lies_within(region, local, bytes)))
        return WRING_ERR_INVALID;
    if (conn->state == DEAD || conn->peer == NULL)
        return WRING_ERR_CLOSED;
    if (conn->puts == PUT_DEPTH)
        return WRING_ERR_AGAIN;
    struct sim_frame *frame = new_frame(SIM_PUT, conn, NULL, 0);
    if (frame != NULL)
        frame->done = new_frame(SIM_PUT, conn, NULL, 0);
    if (frame == NULL || frame->done == NULL) {
        wring_sim_free_frame(frame);
        return WRING_ERR_NO_MEMORY;
    }
    frame->wire_bytes = bytes;
    frame->source = local;
    frame->region = ((struct sim_remote *)remote)->id;
    frame->offset = remote_offset;
    frame->event.imm = imm;
    frame->done->event.cookie = cookie;
    conn->puts++;
    wring_sim_send(provider_of(conn)->sim, frame);
    return WRING_OK;
}

static enum wring_status sim_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct sim_conn *conn = (struct sim_conn *)base;

    if (bytes == 0 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    if (conn->state == CONNECTING)
        return WRING_ERR_AGAIN;
    if (conn->state == DEAD || conn->peer == NULL)
        return WRING_ERR_CLOSED;
    if (conn->messages == MESSAGE_DEPTH)
        return WRING_ERR_AGAIN;
    struct sim_frame *frame = new_frame(SIM_MESSAGE, conn, data, bytes);
    if (frame == NULL)
        return WRING_ERR_NO_MEMORY;
    conn->messages++;
    wring_sim_send(provider_of(conn)->sim, frame);
    return WRING_OK;
}

/* ---- the provider ---- */

static enum wring_status sim_probe(char *reason, size_t bytes)
{
    if (wring_sim_here() != NULL)
        return WRING_OK;
    snprintf(reason, bytes, "for simulated ranks only: see wring bench scale");
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status sim_open(const struct wring_provider_params *params,
                                  struct wring_provider **out)
{
    struct wring_sim *sim = wring_sim_here();
    struct sim_provider *provider = sim != NULL ? calloc(1, sizeof(*provider)) : NULL;

    if (provider == NULL)
        return sim == NULL ? WRING_ERR_UNSUPPORTED : WRING_ERR_NO_MEMORY;
    provider->base.ops = &wring_provider_sim;
    provider->sim = sim;
    provider->rank = params->rank % sim->params.ranks;
    provider->listener = UINT32_MAX;
    provider->last = &provider->first;
    memcpy(provider->secret, params->secret, sizeof(provider->secret));
    struct sim_rank *rank = &sim->ranks[provider->rank];
    provider->cut = rank->killed;
    provider->next = rank->providers;
    if (provider->next != NULL)
        provider->next->link = &provider->next;
    provider->link = &rank->providers;
    rank->providers = provider;
    *out = &provider->base;
    return WRING_OK;
}

static void free_given(struct sim_provider *provider)
{
    while (provider->given != NULL) {
        struct sim_frame *frame = provider->given;
        provider->given = frame->next;
        wring_sim_free_frame(frame);
    }
}

static void stop_listening(struct sim_provider *provider)
{
    if (provider->listener != UINT32_MAX)
        provider->sim->listeners[provider->listener] = NULL;
}

static void sim_close(struct wring_provider *base)
{
    struct sim_provider *provider = (struct sim_provider *)base;
    if (provider == NULL)
        return;
    while (provider->conns != NULL)
        sim_disconnect(&provider->conns->base);
    while (provider->regions != NULL)
        sim_region_destroy(&provider->regions->base);
    free_given(provider);
    stop_listening(provider);
    *provider->link = provider->next;
    if (provider->next != NULL)
        provider->next->link = provider->link;
    explicit_bzero(provider->secret, sizeof(provider->secret));
    free(provider);
}

void wring_sim_cut_off(struct sim_rank *rank)
{
    for (struct sim_provider *at = rank->providers; at != NULL; at = at->next) {
        at->cut = true;
        stop_listening(at);
        at->listener = UINT32_MAX;
        for (struct sim_conn *conn = at->conns; conn != NULL; conn = conn->next) {
            struct sim_frame *frame = calloc(1, sizeof(*frame));
            bool told = conn->state == DEAD;
            say_farewell(conn);
            conn->state = DEAD;
            if (frame == NULL || told)
                free(frame);
            else
                tell_closed(frame, conn, WRING_ERR_PEER, "this rank has no network any more");
        }
    }
}

static void sim_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    (void)base;
    *out = (struct wring_provider_caps){
        .put_max_bytes = PUT_MAX,
        .put_depth = PUT_DEPTH,
        .local_any = true,
        .host_regions = true,
    };
}

/** Where no rank runs, time goes on while somebody looks. */
static void let_time_pass(struct sim_provider *provider)
{
    if (provider->sim->running == NULL && provider->first == NULL && !wring_sim_step(provider->sim))
        provider->sim->clock.now_ns += IDLE_NS;
}

static size_t sim_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct sim_provider *provider = (struct sim_provider *)base;
    size_t n = 0;

    free_given(provider);
    let_time_pass(provider);
    while (n < max && provider->first != NULL) {
        struct sim_frame *frame = provider->first;
        provider->first = frame->next;
        if (provider->first == NULL)
            provider->last = &provider->first;
        events[n++] = frame->event;
        frame->next = provider->given;
        provider->given = frame;
    }
    return n;
}

static void sim_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    const struct sim_provider *provider = (struct sim_provider *)base;
    const struct wring_sim *sim = provider->sim;

    if (provider->first != NULL)
        set->busy = true;
    else if (sim->running == NULL && sim->n_timers > 0 && sim->timers[0].at_ns < set->deadline_ns)
        set->deadline_ns = sim->timers[0].at_ns;
}

const struct wring_provider_ops wring_provider_sim = {
    .name = "sim",
    .doc = "a simulated network, for wring bench scale",
    .probe = sim_probe,
    .suits = wring_suits_always,
    .open = sim_open,
    .close = sim_close,
    .capabilities = sim_capabilities,
    .listen = sim_listen,
    .reaches = sim_reaches,
    .reach_kind = wring_reach_kind_none,
    .connect = sim_connect,
    .disconnect = sim_disconnect,
    .region_create = sim_region_create,
    .region_destroy = sim_region_destroy,
    .region_revoke = sim_region_revoke,
    .region_flush = wring_unsupported_region_flush,
    .memory_gone = wring_nothing_kept,
    .region_export = sim_region_export,
    .remote_import = sim_remote_import,
    .remote_release = sim_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = sim_put,
    .copy_sources = wring_unsupported_copy_sources,
    .send = sim_send,
    .spoil = wring_unsupported_spoil,
    .poll = sim_poll,
    .arm = sim_arm,
};
