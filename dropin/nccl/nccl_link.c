/* SPDX-License-Identifier: Apache-2.0 */
/* Links: sessions of two, by a device of each, one of which has dialled the other. Both ask for
 * connections over it. */
#include "dropin/nccl/nccl_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "runtime/request.h"

/* A connection request: conn u32, the asker's device u32, listen u64, process [16], name [96]. */
#define HELLO_DEVICE 4
#define HELLO_LISTEN 8
#define HELLO_PROCESS 16
#define HELLO_NAME 32

#define FAREWELL_NS (2 * WRING_NS_PER_S) /* for all peers to answer */

_Static_assert(HELLO_NAME + WRING_NCCL_NAME == WRING_NCCL_HELLO_BYTES, "a name fits in");

static uint32_t peer_of(const struct wring_nccl_link *link)
{
    return 1 - link->opening.rank;
}

/* ---- opening one ---- */

/** What a link's ends say of the link itself. */
enum word {
    WORD_HELLO,    /* a connection request */
    WORD_WELCOME,  /* those are listened for */
    WORD_FAREWELL, /* this end is about to go */
    WORD_ANSWER,   /* all that came before the farewell is here */
};

static uint64_t tag_of(enum word word, uint32_t from)
{
    return wring_nccl_tag(WRING_NCCL_CLASS_HELLO, from, (uint32_t)word, 0);
}

static enum wring_status say(struct wring_nccl_link *link, enum word word,
                             struct wring_request **request)
{
    return wring_send(link->opening.world, NULL, 0, peer_of(link), tag_of(word, link->opening.rank),
                      NULL, request);
}

static enum wring_status await(struct wring_nccl_link *link, enum word word,
                               const struct wring_call *how, struct wring_request **request)
{
    return wring_recv(link->opening.world, NULL, 0, peer_of(link), tag_of(word, peer_of(link)), how,
                      request);
}

static enum wring_status await_hello(struct wring_nccl_link *link, struct wring_nccl_hello *hello)
{
    return wring_recv(link->opening.world, hello->bytes, sizeof(hello->bytes), peer_of(link),
                      tag_of(WORD_HELLO, peer_of(link)), NULL, &hello->request);
}

/** In whichever thread drives: the peer does not wait for calls of NCCL's here. */
static void on_farewell(void *arg, const struct wring_result *result)
{
    struct wring_nccl_link *link = arg;
    if (result->status != WRING_OK)
        return;
    atomic_store(&link->left, true);
    say(link, WORD_ANSWER, &link->farewells[1]);
}

/**
 * From now on connection requests come into memory of ours, even if their sender has left when we
 * look; and so do ours, once the peer has said that it is as far.
 */
static enum wring_status greet(void *owner, uint64_t deadline_ns)
{
    struct wring_nccl_link *link = owner;
    struct wring_call how = WRING_CALL_INIT;
    struct wring_request *sent = NULL, *heard = NULL;
    enum wring_status status = WRING_OK;

    how.done = on_farewell;
    how.done_arg = link;

    for (unsigned i = 0; i < WRING_NCCL_HELLOS && status == WRING_OK; i++)
        status = await_hello(link, &link->hellos[i]);
    if (status == WRING_OK)
        status = await(link, WORD_FAREWELL, &how, &link->farewells[0]);
    if (status == WRING_OK)
        status = say(link, WORD_WELCOME, &sent);
    if (status == WRING_OK)
        status = await(link, WORD_WELCOME, NULL, &heard);
    uint64_t now = wring_now_ns();
    uint64_t left_ns = deadline_ns > now ? deadline_ns - now : 0;
    if (status == WRING_OK)
        status = wring_request_wait(sent, left_ns, NULL);
    if (status == WRING_OK)
        status = wring_request_wait(heard, left_ns, NULL);
    return status;
}

static struct wring_nccl_link *add(const struct wring_nccl_handle *handle, int device,
                                   uint32_t rank, int fd)
{
    struct wring_nccl_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    struct wring_nccl_opening *opening = &link->opening;
    opening->device = &wring_nccl_own.devices[device];
    opening->rank = rank;
    opening->size = 2;
    opening->root_fd = fd;
    opening->listen = handle->listen;
    opening->greet = greet;
    opening->owner = link;
    memcpy(opening->root, handle->root, sizeof(opening->root));
    wring_nccl_key_of(handle, opening->key);
    snprintf(link->name, sizeof(link->name), rank == 0 ? "who comes to %s" : "%s", handle->root);
    snprintf(opening->what, sizeof(opening->what), "link with %s", link->name);
    if (!wring_nccl_opening_start(opening)) {
        free(link);
        return NULL;
    }
    link->next = wring_nccl_own.links;
    wring_nccl_own.links = link;
    return link;
}

void wring_nccl_link_serve(struct wring_nccl_listen *listen)
{
    struct wring_nccl_link *link = add(&listen->handle, listen->handle.device, 0, listen->fd);
    if (link == NULL)
        return; /* it is tried again */
    link->listen = listen;
    listen->serves = true;
}

static bool works(struct wring_nccl_link *link)
{
    if (!link->broken && atomic_load(&link->opening.state) == WRING_NCCL_OPEN &&
        wring_session_error(link->opening.session, NULL) != WRING_OK)
        link->broken = true; /* its peer has ended, and is another process now */
    return !link->broken;
}

static bool leads_to(const struct wring_nccl_link *link, const struct wring_nccl_handle *handle,
                     int device)
{
    return link->knows_process && link->peer_device == handle->device &&
           link->opening.device == &wring_nccl_own.devices[device] &&
           memcmp(link->process, handle->process, WRING_NCCL_PROCESS) == 0;
}

struct wring_nccl_link *wring_nccl_link_to(const struct wring_nccl_handle *handle, int device)
{
    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next)
        if (leads_to(at, handle, device) && works(at))
            return at;
    struct wring_nccl_link *link = add(handle, device, 1, -1);
    if (link == NULL)
        return NULL;
    memcpy(link->process, handle->process, WRING_NCCL_PROCESS);
    link->peer_device = handle->device;
    link->knows_process = true;
    return link;
}

static const char *remedy_of(enum wring_status status)
{
    switch (status) {
    case WRING_ERR_VERSION:
        return "; install one release of wring on all hosts";
    case WRING_ERR_PEER:
    case WRING_ERR_ADDRESS:
        return "; WRING_IFACE or WRING_BIND names the network that all hosts are on";
    default:
        return "";
    }
}

int wring_nccl_link_failed(struct wring_nccl_link *link)
{
    enum wring_status status = link->opening.status;
    char why[256];

    if (!link->broken) {
        link->broken = true;
        wring_nccl_why(&link->opening, why, sizeof(why));
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: no link with %s: %s%s%s%s", link->name,
                       wring_status_text(status), why[0] != '\0' ? ": " : "", why,
                       remedy_of(status));
    }
    return wring_nccl_code_of(status);
}

/* ---- connection requests ---- */

/** Hostile bytes, which the peer can send all the same. @return false: no memory */
static bool take_hello(struct wring_nccl_link *link, const uint8_t *bytes)
{
    uint32_t conn = wring_get_u32(bytes);
    struct wring_nccl_listen *listen = wring_nccl_listen_of(wring_get_u64(bytes + HELLO_LISTEN));

    if (!link->knows_process) {
        memcpy(link->process, bytes + HELLO_PROCESS, WRING_NCCL_PROCESS);
        link->peer_device = wring_get_u32(bytes + HELLO_DEVICE);
        memcpy(link->name, bytes + HELLO_NAME, WRING_NCCL_NAME);
        link->name[WRING_NCCL_NAME - 1] = '\0';
        wring_text_clean(link->name);
        link->knows_process = true;
    }
    if (listen == NULL || conn >= WRING_NCCL_CONNS_MAX ||
        listen->handle.purpose != WRING_NCCL_MESSAGES ||
        &wring_nccl_own.devices[listen->handle.device] != link->opening.device) {
        wring_nccl_link_refuse(link, conn % WRING_NCCL_CONNS_MAX);
        return true;
    }
    struct wring_nccl_arrival *arrival = malloc(sizeof(*arrival));
    if (arrival == NULL)
        return false;
    *arrival = (struct wring_nccl_arrival){.link = link, .conn = conn};
    *listen->last = arrival;
    listen->last = &arrival->next;
    link->n_arrivals++;
    return true;
}

static void hear(struct wring_nccl_link *link)
{
    for (;;) {
        struct wring_nccl_hello *hello = &link->hellos[link->next_hello];
        struct wring_result result = WRING_RESULT_INIT;
        if (hello->request == NULL || !wring_request_is_over(hello->request))
            return; /* nothing new, or there comes none any more */
        enum wring_status status = wring_request_test(hello->request, &result);
        hello->request = NULL;
        if (status != WRING_OK || result.bytes != sizeof(hello->bytes) ||
            !take_hello(link, hello->bytes) || await_hello(link, hello) != WRING_OK)
            link->broken = true;
        link->next_hello = (link->next_hello + 1) % WRING_NCCL_HELLOS;
    }
}

enum wring_status wring_nccl_link_ask(struct wring_nccl_link *link, uint64_t listen,
                                      struct wring_nccl_hello *hello, uint32_t *conn)
{
    if (link->n_conns == WRING_NCCL_CONNS_MAX)
        return WRING_ERR_NO_MEMORY;
    uint32_t new = link->n_conns++;
    memset(hello->bytes, 0, sizeof(hello->bytes));
    wring_put_u32(hello->bytes, new);
    wring_put_u32(hello->bytes + HELLO_DEVICE,
                  (uint32_t)(link->opening.device - wring_nccl_own.devices));
    wring_put_u64(hello->bytes + HELLO_LISTEN, listen);
    memcpy(hello->bytes + HELLO_PROCESS, wring_nccl_own.process, WRING_NCCL_PROCESS);
    memcpy(hello->bytes + HELLO_NAME, wring_nccl_own.name, WRING_NCCL_NAME);
    *conn = new;
    return wring_send(link->opening.world, hello->bytes, sizeof(hello->bytes), peer_of(link),
                      tag_of(WORD_HELLO, link->opening.rank), NULL, &hello->request);
}

void wring_nccl_link_refuse(struct wring_nccl_link *link, uint32_t conn)
{
    static const uint8_t refusal[8] = {WRING_NCCL_NOTICE_REFUSED};
    struct wring_request *request; /* freed with the session */

    if (works(link))
        wring_send(link->opening.world, refusal, sizeof(refusal), peer_of(link),
                   wring_nccl_tag(WRING_NCCL_CLASS_NOTICE, peer_of(link), conn, 0), NULL, &request);
}

/* ---- looking after all ---- */

static void settle_closed(struct wring_nccl_link *link)
{
    for (struct wring_nccl_comm **at = &link->comms; *at != NULL;) {
        struct wring_nccl_comm *comm = *at;
        if (comm->closed && wring_nccl_comm_settle(comm)) {
            *at = comm->next;
            wring_nccl_comm_free(comm);
        } else {
            at = &comm->next;
        }
    }
}

static void poll_link(struct wring_nccl_link *link)
{
    int state = atomic_load(&link->opening.state);

    if (state == WRING_NCCL_OPENING)
        return;
    if (link->listen != NULL) {
        if (state == WRING_NCCL_FAILED && link->opening.met)
            link->listen->failed = wring_nccl_code_of(link->opening.status);
        wring_nccl_listen_served(link->listen);
        link->listen = NULL;
    }
    if (state == WRING_NCCL_FAILED) {
        if (link->opening.rank == 0)
            wring_nccl_link_failed(link);
        return;
    }
    hear(link);
    settle_closed(link);
}

/** It failed, and nobody uses it. */
static bool is_useless(const struct wring_nccl_link *link)
{
    return link->broken && link->comms == NULL && link->n_arrivals == 0 &&
           atomic_load(&link->opening.state) != WRING_NCCL_OPENING;
}

static void free_link(struct wring_nccl_link *link)
{
    wring_nccl_regions_part(link);
    wring_nccl_opening_finish(&link->opening);
    while (link->comms != NULL) {
        struct wring_nccl_comm *comm = link->comms;
        link->comms = comm->next;
        for (unsigned i = 0; i < comm->n_requests; i++)
            wring_nccl_pack_end(&comm->requests[i]);
        comm->link = NULL;
        comm->failed = WRING_NCCL_INVALID_USAGE;
        if (comm->closed)
            wring_nccl_comm_free(comm);
    }
    free(link);
}

void wring_nccl_links_poll(void)
{
    for (struct wring_nccl_link **at = &wring_nccl_own.links; *at != NULL;) {
        struct wring_nccl_link *link = *at;
        poll_link(link);
        if (is_useless(link)) {
            *at = link->next;
            free_link(link);
        } else {
            at = &link->next;
        }
    }
}

/** What we have said last is on its way, and a session that closes may be faster. */
static void take_leave(struct wring_nccl_link *link)
{
    bool open = atomic_load(&link->opening.state) == WRING_NCCL_OPEN;

    if (!open || await(link, WORD_ANSWER, NULL, &link->farewells[3]) != WRING_OK)
        return;
    if (say(link, WORD_FAREWELL, &link->farewells[2]) != WRING_OK)
        link->farewells[3] = NULL; /* freed with the session */
}

static void await_answer(struct wring_nccl_link *link, uint64_t deadline_ns)
{
    uint64_t now = wring_now_ns();
    if (link->farewells[3] != NULL)
        wring_request_wait(link->farewells[3], deadline_ns > now ? deadline_ns - now : 0, NULL);
}

bool wring_nccl_links_are_used(void)
{
    for (const struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next) {
        bool dials = at->opening.rank == 1 && atomic_load(&at->opening.state) == WRING_NCCL_OPENING;
        if (dials || at->n_arrivals > 0)
            return true;
        for (const struct wring_nccl_comm *comm = at->comms; comm != NULL; comm = comm->next)
            if (!comm->closed)
                return true;
    }
    return false;
}

void wring_nccl_links_finish(void)
{
    uint64_t deadline_ns = wring_deadline_in(FAREWELL_NS);

    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next) {
        atomic_store(&at->opening.cancelled, true);
        take_leave(at);
    }
    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next)
        await_answer(at, deadline_ns);
    while (wring_nccl_own.links != NULL) {
        struct wring_nccl_link *link = wring_nccl_own.links;
        wring_nccl_own.links = link->next;
        free_link(link);
    }
}
