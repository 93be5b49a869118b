/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Links: the paths between our process and others, by a device of each. One has dialled the other;
 * both ask for connections over it.
 *
 * A link opens in steps, none of which waits: the two meet (nccl_meet.h), each opens providers and
 * tells the other how they are reached, the one that came dials, and both say that connection
 * requests are listened for. So any number of links open side by side, in all directions.
 */
#include "dropin/nccl/nccl_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"

/* A connection request: conn u32, the asker's device u32, listen u64, process [16], name [96]. */
#define HELLO_DEVICE 4
#define HELLO_LISTEN 8
#define HELLO_PROCESS 16
#define HELLO_NAME 32

#define PAUSE_NS (50 * WRING_NS_PER_US)
#define FAREWELL_NS (2 * WRING_NS_PER_S) /* for all peers to answer */
#define PART_NS (500 * WRING_NS_PER_MS)  /* and to hear a good-bye */

_Static_assert(HELLO_NAME + WRING_NCCL_NAME == WRING_NCCL_HELLO_BYTES, "a name fits in");

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

static enum wring_status send_word(struct wring_nccl_link *link, enum word word)
{
    return wring_nccl_path_send(&link->path, NULL, 0, tag_of(word, link->path.rank), false,
                                &link->said[word]);
}

static enum wring_status expect_word(struct wring_nccl_link *link, enum word word)
{
    return wring_nccl_path_recv(&link->path, NULL, 0, tag_of(word, 1 - link->path.rank),
                                &link->heard[word]);
}

/** @return whether it is said, or has been heard, and is not under way any more */
static bool take_if_ended(struct wring_nccl_link *link, struct wring_nccl_message **word)
{
    return *word == NULL || wring_nccl_path_look(&link->path, word, NULL) != WRING_ERR_AGAIN;
}

static enum wring_status expect_hello(struct wring_nccl_link *link, struct wring_nccl_hello *hello)
{
    return wring_nccl_path_recv(&link->path, hello->bytes, sizeof(hello->bytes),
                                tag_of(WORD_HELLO, 1 - link->path.rank), &hello->message);
}

static void end_meeting(struct wring_nccl_link *link)
{
    wring_nccl_meet_end(&link->meeting);
    free(link->own.data);
    link->own = (struct wring_writer){0};
}

/** It does not come to stand. */
static void fail_link(struct wring_nccl_link *link, enum wring_status status, const char *why)
{
    link->status = status;
    snprintf(link->why, sizeof(link->why), "%s", why);
    end_meeting(link);
    atomic_store(&link->state, WRING_NCCL_FAILED);
}

static void fail_link_by_path(struct wring_nccl_link *link, enum wring_status status)
{
    char why[256];

    wring_nccl_path_why(&link->path, why, sizeof(why));
    fail_link(link, status, why);
}

/** @return false: it has failed, and the other end hears why */
static bool open_path(struct wring_nccl_link *link, uint32_t rank)
{
    struct wring_nccl_meeting *meeting = &link->meeting;
    char why[256] = "";
    const void *ignored;
    size_t bytes;

    link->has_path = true;
    wring_nccl_path_init(&link->path, &link->device->config, link->what, rank);
    enum wring_status status =
        wring_nccl_path_open(&link->path, link->key, meeting->job, meeting->local, &link->own);
    if (status == WRING_OK) {
        wring_nccl_meet_tell(meeting, WRING_OK, "", &link->own);
        return true;
    }
    wring_nccl_path_why(&link->path, why, sizeof(why));
    wring_nccl_meet_tell(meeting, status, why, &(struct wring_writer){0});
    wring_nccl_meet_hear(meeting, &ignored, &bytes);
    fail_link(link, status, why);
    return false;
}

/**
 * From now on connection requests come into memory of ours, even if their sender has left when we
 * look; and so do ours, once the peer has said that it is as far.
 */
static enum wring_status expect_greetings(struct wring_nccl_link *link)
{
    enum wring_status status = WRING_OK;

    for (unsigned i = 0; i < WRING_NCCL_HELLOS && status == WRING_OK; i++)
        status = expect_hello(link, &link->hellos[i]);
    if (status == WRING_OK)
        status = expect_word(link, WORD_FAREWELL);
    return status == WRING_OK ? expect_word(link, WORD_WELCOME) : status;
}

/** The two know of each other: connect. @return false: not yet, or it has failed */
static bool join_path(struct wring_nccl_link *link)
{
    const void *description;
    size_t bytes;

    enum wring_status status = wring_nccl_meet_hear(&link->meeting, &description, &bytes);
    if (status == WRING_ERR_AGAIN)
        return false;
    if (status != WRING_OK) {
        fail_link(link, status, link->meeting.why);
        return false;
    }
    status = wring_nccl_path_join(&link->path, &link->own, description, bytes);
    if (status == WRING_OK)
        status = expect_greetings(link);
    if (status != WRING_OK)
        fail_link_by_path(link, status);
    link->greets = status == WRING_OK;
    return link->greets;
}

/** The side that came dials; each greets over the connection. The other end leaves the meeting once
 *  it has heard our welcome, which we say over a connection that stands. */
static void try_to_end_opening(struct wring_nccl_link *link)
{
    bool stands = wring_nccl_path_stands(&link->path);
    enum wring_status status = wring_nccl_path_status(&link->path);

    if (status == WRING_OK && stands && !link->welcomes) {
        status = send_word(link, WORD_WELCOME);
        link->welcomes = true;
    }
    if (status != WRING_OK)
        fail_link_by_path(link, status);
    else if (link->welcomes && take_if_ended(link, &link->said[WORD_WELCOME]) &&
             take_if_ended(link, &link->heard[WORD_WELCOME])) {
        end_meeting(link);
        atomic_store(&link->state, WRING_NCCL_OPEN);
    } else if (!stands && wring_nccl_meet_is_left(&link->meeting))
        fail_link(link, WRING_ERR_PEER, "the other process has gone");
    else if (wring_now_ns() >= link->meeting.deadline_ns)
        fail_link(link, WRING_ERR_TIMEOUT, "it did not connect in time (WRING_JOIN_TIMEOUT)");
}

/** Go on with a link that opens. */
static void go_on_opening(struct wring_nccl_link *link)
{
    if (!link->meeting.proven) {
        enum wring_status status = wring_nccl_meet_prove(&link->meeting);
        if (status != WRING_OK && status != WRING_ERR_AGAIN)
            fail_link(link, status, link->meeting.why);
        if (status != WRING_OK)
            return;
    }
    if (!link->has_path && !open_path(link, 1))
        return;
    if (link->greets || join_path(link))
        try_to_end_opening(link);
}

static struct wring_nccl_link *add_link(const struct wring_nccl_handle *handle, int device,
                                        uint32_t rank)
{
    struct wring_nccl_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    link->device = &wring_nccl_own.devices[device];
    link->listen = handle->listen;
    memcpy(link->root, handle->root, sizeof(link->root));
    wring_nccl_key_of(handle, link->key);
    snprintf(link->name, sizeof(link->name), rank == 0 ? "who comes to %s" : "%s", handle->root);
    snprintf(link->what, sizeof(link->what), "link with %s", link->name);
    link->next = wring_nccl_own.links;
    wring_nccl_own.links = link;
    return link;
}

void wring_nccl_link_serve(const struct wring_nccl_listen *listen,
                           const struct wring_nccl_meeting *meeting)
{
    struct wring_nccl_link *link = add_link(&listen->handle, listen->handle.device, 0);
    if (link == NULL) {
        wring_descriptor_close(meeting->fd); /* who came tries again */
        return;
    }
    link->meeting = *meeting;
    link->meeting.deadline_ns = wring_deadline_in(wring_nccl_own.config.join_timeout_ns);
    open_path(link, 0);
}

static bool note_whether_works(struct wring_nccl_link *link)
{
    if (!link->broken && atomic_load(&link->state) == WRING_NCCL_OPEN &&
        wring_nccl_path_is_gone(&link->path))
        link->broken = true; /* its peer has ended, and is another process now */
    return !link->broken;
}

static bool leads_to(const struct wring_nccl_link *link, const struct wring_nccl_handle *handle,
                     int device)
{
    return link->knows_process && link->peer_device == handle->device &&
           link->device == &wring_nccl_own.devices[device] &&
           memcmp(link->process, handle->process, WRING_NCCL_PROCESS) == 0;
}

struct wring_nccl_link *wring_nccl_link_to(const struct wring_nccl_handle *handle, int device)
{
    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next)
        if (leads_to(at, handle, device) && note_whether_works(at))
            return at;
    struct wring_nccl_link *link = wring_nccl_watch_start() ? add_link(handle, device, 1) : NULL;
    if (link == NULL)
        return NULL;
    wring_nccl_meet_dial(&link->meeting, link->root, link->key,
                         wring_deadline_in(wring_nccl_own.config.join_timeout_ns));
    memcpy(link->process, handle->process, WRING_NCCL_PROCESS);
    link->peer_device = handle->device;
    link->knows_process = true;
    wring_nccl_watch_wake();
    return link;
}

static const char *remedy_for_status(enum wring_status status)
{
    switch (status) {
    case WRING_ERR_VERSION:
        return "; install one release of wring on all hosts";
    case WRING_ERR_AUTH:
        return "; set the same WRING_KEY or WRING_KEY_FILE on all hosts";
    case WRING_ERR_PEER:
    case WRING_ERR_TIMEOUT:
    case WRING_ERR_ADDRESS:
        return "; WRING_IFACE or WRING_BIND names the network that all hosts are on";
    default:
        return "";
    }
}

int wring_nccl_link_failed(struct wring_nccl_link *link)
{
    if (!link->broken) {
        link->broken = true;
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: no link with %s: %s%s%s%s", link->name,
                       wring_status_text(link->status), link->why[0] != '\0' ? ": " : "", link->why,
                       remedy_for_status(link->status));
    }
    return wring_nccl_code_of(link->status);
}

/* ---- connection requests ---- */

/** Hostile bytes, which the peer can send all the same. @return false: no memory */
static bool read_hello(struct wring_nccl_link *link, const uint8_t *bytes)
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
        &wring_nccl_own.devices[listen->handle.device] != link->device) {
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

static void hear_hellos(struct wring_nccl_link *link)
{
    for (;;) {
        struct wring_nccl_hello *hello = &link->hellos[link->next_hello];
        struct wring_message_end end;
        if (hello->message == NULL)
            return; /* there comes none any more */
        enum wring_status status = wring_nccl_path_look(&link->path, &hello->message, &end);
        if (status == WRING_ERR_AGAIN)
            return;
        if (status != WRING_OK || end.bytes != sizeof(hello->bytes) ||
            !read_hello(link, hello->bytes) || expect_hello(link, hello) != WRING_OK)
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
    wring_put_u32(hello->bytes + HELLO_DEVICE, (uint32_t)(link->device - wring_nccl_own.devices));
    wring_put_u64(hello->bytes + HELLO_LISTEN, listen);
    memcpy(hello->bytes + HELLO_PROCESS, wring_nccl_own.process, WRING_NCCL_PROCESS);
    memcpy(hello->bytes + HELLO_NAME, wring_nccl_own.name, WRING_NCCL_NAME);
    *conn = new;
    enum wring_status status =
        wring_nccl_path_send(&link->path, hello->bytes, sizeof(hello->bytes),
                             tag_of(WORD_HELLO, link->path.rank), false, &hello->message);
    wring_nccl_path_drive(&link->path);
    return status;
}

void wring_nccl_link_refuse(struct wring_nccl_link *link, uint32_t conn)
{
    static const uint8_t refusal[8] = {WRING_NCCL_NOTICE_REFUSED};
    struct wring_nccl_message *message; /* freed with the path */

    if (note_whether_works(link))
        wring_nccl_path_send(&link->path, refusal, sizeof(refusal),
                             wring_nccl_tag(WRING_NCCL_CLASS_NOTICE, 1 - link->path.rank, conn, 0),
                             false, &message);
}

/* ---- looking after all ---- */

static void settle_closed_comms(struct wring_nccl_link *link)
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

static void hear_farewell(struct wring_nccl_link *link)
{
    if (link->heard[WORD_FAREWELL] == NULL)
        return;
    enum wring_status status = wring_nccl_path_look(&link->path, &link->heard[WORD_FAREWELL], NULL);
    if (status != WRING_OK)
        return;
    atomic_store(&link->left, true);
    send_word(link, WORD_ANSWER);
}

static void pass_on_failure(struct wring_nccl_link *link)
{
    if (link->broken || !link->has_path || link->path.rank == 1)
        return; /* who came hears of it as it asks again */
    struct wring_nccl_listen *listen = wring_nccl_listen_of(link->listen);
    if (listen != NULL)
        listen->failed = wring_nccl_code_of(link->status);
    wring_nccl_link_failed(link);
}

static void poll_link(struct wring_nccl_link *link)
{
    switch (atomic_load(&link->state)) {
    case WRING_NCCL_OPEN:
        hear_hellos(link);
        hear_farewell(link);
        settle_closed_comms(link);
        break;
    case WRING_NCCL_FAILED:
        pass_on_failure(link);
        break;
    default:
        break;
    }
}

/** It failed, and nobody uses it. */
static bool is_useless(struct wring_nccl_link *link)
{
    return link->broken && link->comms == NULL && link->n_arrivals == 0 &&
           atomic_load(&link->state) != WRING_NCCL_OPENING &&
           !(link->has_path && wring_nccl_path_is_failing(&link->path));
}

static void free_link(struct wring_nccl_link *link)
{
    end_meeting(link);
    wring_nccl_regions_part(link);
    if (link->has_path) {
        wring_nccl_path_part(&link->path);
        wring_nccl_path_close(&link->path);
    }
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

void wring_nccl_links_go_on(const struct wring_nccl_watch *watch)
{
    uint64_t now = wring_now_ns();

    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next) {
        if (at->has_path && wring_nccl_path_is_due(&at->path, watch, now))
            atomic_store(&at->path.watched, false);
        if (atomic_load(&at->state) == WRING_NCCL_OPENING)
            go_on_opening(at);
    }
}

void wring_nccl_links_watch(struct wring_nccl_watch *watch)
{
    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next) {
        int state = atomic_load(&at->state);
        if (state == WRING_NCCL_OPENING)
            wring_nccl_meet_watch(&at->meeting, watch);
        if (state == WRING_NCCL_OPENING && at->greets) /* no caller is there yet */
            atomic_store(&at->path.visited, false);
        if (state == WRING_NCCL_OPEN || at->greets)
            wring_nccl_path_watch(&at->path, watch);
    }
}

/* ---- the end ---- */

/** What we have said last is on its way, and a link that closes may be faster. */
static void say_farewell(struct wring_nccl_link *link)
{
    if (atomic_load(&link->state) == WRING_NCCL_OPEN &&
        expect_word(link, WORD_ANSWER) == WRING_OK && send_word(link, WORD_FAREWELL) != WRING_OK)
        link->heard[WORD_ANSWER] = NULL; /* freed with the path */
}

/** Drive all that wait for an answer. @return whether any does */
static bool drive_unanswered(void)
{
    bool waits = false;

    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next) {
        if (atomic_load(&at->state) != WRING_NCCL_OPEN)
            continue;
        wring_nccl_path_drive_alone(&at->path);
        hear_farewell(at);
        waits |= !wring_nccl_path_is_gone(&at->path) && !take_if_ended(at, &at->heard[WORD_ANSWER]);
    }
    return waits;
}

static bool have_parted(void)
{
    bool all = true;

    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next)
        all &= !at->has_path || wring_nccl_path_has_parted(&at->path);
    return all;
}

bool wring_nccl_links_are_used(void)
{
    for (const struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next) {
        bool dials = at->meeting.dials && atomic_load(&at->state) == WRING_NCCL_OPENING;
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

    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next)
        say_farewell(at);
    while (drive_unanswered() && wring_now_ns() < deadline_ns)
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    for (struct wring_nccl_link *at = wring_nccl_own.links; at != NULL; at = at->next)
        if (at->has_path)
            wring_nccl_path_part(&at->path);
    deadline_ns = wring_deadline_in(PART_NS);
    while (!have_parted() && wring_now_ns() < deadline_ns)
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    while (wring_nccl_own.links != NULL) {
        struct wring_nccl_link *link = wring_nccl_own.links;
        wring_nccl_own.links = link->next;
        free_link(link);
    }
}
