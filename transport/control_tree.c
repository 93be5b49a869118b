/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/control_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "transport/control.h"
#include "transport/control_link.h"
#include "transport/departures.h"
#include "transport/fates.h"
#include "transport/providers/providers.h"

#define WRING_MODULE "tree"
#define EVENTS_PER_POLL 32
#define REDIAL_NS (50 * WRING_NS_PER_MS)
#define MARK "tree" /* ends the hello: a port of another kind is not the tree's */
#define LOOK "look" /* the same of a rank that only wants to know whether anybody is there */
#define LAST "last" /* the same of one that leaves, and says what else nobody may know */
#define SEEKS_MAX 8 /* such dials at a time */
#define ORPHAN_NS \
    (5 * WRING_NS_PER_MS) /* until a rank whose parent has left looks for another: it may leave */
#define STAY_NS (2 * WRING_NS_PER_MS) /* that who leaves stays for those below: they may, too */
#define FAREWELL_NS \
    (10 * WRING_NS_PER_MS) /* that a root which leaves waits for others to come to it */

struct wring_control_tree {
    const struct wring_config *config;
    const struct wring_log *log;
    struct wring_config connections; /* the same, but that each connection has one socket: messages
                                        of control need no more on any way */
    struct wring_control_tree_handler handler;
    struct wring_provider *provider;
    uint32_t rank, size;
    uint8_t job[16], address[WRING_ADDRESS_MAX];
    size_t address_bytes;
    bool (*find)(const void *arg, uint32_t rank, struct wring_control_tree_endpoint *out);
    struct wring_fates fates;
    struct wring_control_link *links;
    struct wring_departures news; /* what neighbours are yet to be told */
    uint64_t looked_ns;
    uint64_t redial_ns, dialled_ns; /* when to dial again, 0: not; since when we have */
    uint64_t left_ns;
    bool leaving, failed;
    bool owes;                    /* we leave, and nobody has taken what we know */
    struct wring_control failure; /* told to all, and to each that connects later */
    uint32_t failure_from;
};

/* ---- who is where ---- */

static struct wring_control_link *find_link(const struct wring_control_tree *tree, uint32_t rank)
{
    struct wring_control_link *link = tree->links;
    while (link != NULL && (link->rank != rank || link->seeks || link->parting))
        link = link->next;
    return link;
}

static struct wring_control_link *find_parent_link(const struct wring_control_tree *tree)
{
    struct wring_control_link *link = tree->links;
    while (link != NULL && !link->up)
        link = link->next;
    return link;
}

/** The neighbour by which a rank is reached: the child under which it began, or the parent. */
static struct wring_control_link *find_next_hop(const struct wring_control_tree *tree, uint32_t to)
{
    for (uint32_t at = to;; at = wring_fates_first_parent(at)) {
        struct wring_control_link *link = at != tree->rank ? find_link(tree, at) : NULL;
        if (link != NULL)
            return link;
        if (at == 0 || at == tree->rank)
            return find_parent_link(tree);
    }
}

/* ---- sending ---- */

static void dial_parent(struct wring_control_tree *tree);

/** @param except  who told us; NULL: nobody did */
static void send_to_other_links(struct wring_control_tree *tree, uint32_t from,
                                const struct wring_control *control,
                                const struct wring_control_link *except)
{
    for (struct wring_control_link *link = tree->links; link != NULL; link = link->next)
        if (link != except && link->open)
            wring_control_link_send(link, from, WRING_CONTROL_TREE_ALL, control);
}

/** @return false: one is known already */
static bool note_failure(struct wring_control_tree *tree, uint32_t from,
                         const struct wring_control *control)
{
    if (control->kind != WRING_CONTROL_ABORT || tree->failed)
        return false;
    tree->failed = true;
    tree->failure = *control;
    tree->failure_from = from;
    /* cut it to the room */
    tree->failure.text[sizeof(control->text) - 1 - WRING_CONTROL_LINK_HEAD] = '\0';
    if (tree->redial_ns != 0)
        tree->redial_ns = 1; /* now: who has no parent is to hear it soon */
    return true;
}

void wring_control_tree_tell(struct wring_control_tree *tree, const struct wring_control *control)
{
    if (note_failure(tree, tree->rank, control))
        send_to_other_links(tree, tree->rank, &tree->failure, NULL);
}

/* ---- who has left ---- */

/** Does our way up lead there? Then it passes on itself all that it tells us. */
static bool is_our_parent(const struct wring_control_tree *tree, uint32_t rank)
{
    const struct wring_control_link *up = find_parent_link(tree);
    return up != NULL && up->open && up->rank == rank;
}

/** Is there something that our last good-bye was not behind? */
static bool has_untold(const struct wring_control_tree *tree)
{
    for (uint32_t i = 0; i < tree->news.n; i++)
        if (!is_our_parent(tree, tree->news.list[i].from))
            return true;
    return false;
}

/** A rank has left, as a neighbour says: itself, or another one. */
static void note_departure(struct wring_control_tree *tree, uint32_t rank, uint32_t from,
                           uint64_t now_ns)
{
    const struct wring_control bye = {.kind = WRING_CONTROL_BYE};

    if (tree->fates.of[rank] != WRING_FATE_ALIVE &&
        (tree->fates.of[rank] != WRING_FATE_LOST || tree->failed))
        return;
    wring_fates_set(&tree->fates, rank, WRING_FATE_LEFT);
    wring_departures_add(&tree->news, rank, from, now_ns);
    tree->owes |= tree->leaving && !is_our_parent(tree, from);
    tree->handler.heard(tree->handler.arg, rank, &bye);
}

/** It leaves, and may close its connection: we see to it that what it knew is known. */
static void on_bye(struct wring_control_tree *tree, struct wring_control_link *link,
                   uint64_t now_ns)
{
    link->bye = true;
    wring_control_link_send(link, tree->rank, link->rank,
                            &(struct wring_control){.kind = WRING_CONTROL_BYE_ACK});
    note_departure(tree, link->rank, link->rank, now_ns);
}

/** @return false: malformed */
static bool on_left(struct wring_control_tree *tree, struct wring_control_link *link,
                    const struct wring_control *control, uint64_t now_ns)
{
    struct wring_reader reader = {control->body, control->bytes, false};
    struct wring_range range;

    while (reader.bytes > 0) {
        if (!wring_ranges_next(&reader, tree->size, &range))
            return false;
        for (uint32_t rank = range.first; rank <= range.last; rank++)
            if (rank != tree->rank)
                note_departure(tree, rank, link->rank, now_ns);
    }
    if (control->a == 1)
        on_bye(tree, link, now_ns);
    return control->a <= 1;
}

/** It has heard what we knew when we left. If it stays, it tells others; and if it leaves itself it
 *  does, where it is above us. */
static void on_bye_heard(struct wring_control_tree *tree, struct wring_control_link *link)
{
    link->owed -= link->owed > 0;
    if (link->owed == 0 && !has_untold(tree) && (link->up || !link->bye))
        tree->owes = false;
}

enum wring_status wring_control_tree_send(struct wring_control_tree *tree, uint32_t to,
                                          const struct wring_control *control)
{
    struct wring_control_link *hop =
        tree->fates.of[to] == WRING_FATE_ALIVE ? find_next_hop(tree, to) : NULL;
    if (hop == NULL && tree->fates.of[to] == WRING_FATE_ALIVE && tree->redial_ns != 0) {
        dial_parent(tree); /* it need not wait any more */
        hop = find_next_hop(tree, to);
    }
    return hop != NULL ? wring_control_link_send(hop, tree->rank, to, control) : WRING_ERR_CLOSED;
}

bool wring_control_tree_is_root(const struct wring_control_tree *tree)
{
    return wring_fates_choose_parent(&tree->fates) == tree->rank;
}

void wring_control_tree_spread(struct wring_control_tree *tree, const struct wring_control *control)
{
    send_to_other_links(tree, tree->rank, control, NULL);
}

void wring_control_tree_raise(struct wring_control_tree *tree, uint32_t from,
                              const struct wring_control *control)
{
    struct wring_control_link *up = find_parent_link(tree);
    if (up != NULL && up->open)
        wring_control_link_send(up, from, WRING_CONTROL_TREE_ROOT, control);
}

uint32_t wring_control_tree_parent(const struct wring_control_tree *tree)
{
    const struct wring_control_link *up = find_parent_link(tree);
    return up != NULL && up->open ? up->rank : tree->rank;
}

struct wring_path wring_control_tree_way_up(const struct wring_control_tree *tree)
{
    const struct wring_control_link *up = find_parent_link(tree);
    return up != NULL && up->open ? up->conn->path : (struct wring_path){0};
}

/* ---- links ---- */

/** @return the link whose connection is under way; NULL: there can be none now */
static struct wring_control_link *dial(struct wring_control_tree *tree, uint32_t rank, bool up,
                                       const char *mark)
{
    uint8_t hello[sizeof(uint32_t) + sizeof(tree->job) + sizeof(MARK) - 1];
    struct wring_control_link *link = wring_control_link_create(&tree->links, rank, up);

    wring_put_u32(hello, tree->rank);
    memcpy(hello + sizeof(uint32_t), tree->job, sizeof(tree->job));
    memcpy(hello + sizeof(uint32_t) + sizeof(tree->job), mark, sizeof(MARK) - 1);
    enum wring_status status = WRING_ERR_NO_MEMORY;
    struct wring_control_tree_endpoint endpoint;
    if (link != NULL && tree->find(tree->handler.arg, rank, &endpoint))
        status = tree->provider->ops->connect(tree->provider, endpoint.address, endpoint.bytes,
                                              hello, sizeof(hello), &link->conn);
    if (status == WRING_OK) {
        link->conn->user = link;
        return link;
    }
    wring_control_link_destroy(&tree->links, link);
    return NULL;
}

static void dial_parent(struct wring_control_tree *tree)
{
    uint32_t parent = tree->leaving ? wring_fates_choose_heir(&tree->fates)
                                    : wring_fates_choose_parent(&tree->fates);

    tree->redial_ns = 0;
    if (parent == tree->rank || (tree->leaving && (!tree->owes || tree->failed)))
        return;
    if (dial(tree, parent, true, tree->leaving ? LAST : MARK) == NULL)
        tree->redial_ns = wring_deadline_in(REDIAL_NS);
}

void wring_control_tree_seek(struct wring_control_tree *tree, uint32_t rank)
{
    uint32_t seeks = 0;

    for (const struct wring_control_link *at = tree->links; at != NULL; at = at->next) {
        seeks += at->seeks;
        if (at->rank == rank && (at->seeks || at->open))
            return;
    }
    if (seeks == SEEKS_MAX || tree->fates.of[rank] == WRING_FATE_GONE || tree->leaving)
        return;
    struct wring_control_link *link = dial(tree, rank, false, LOOK);
    if (link != NULL)
        link->seeks = true;
}

/** Somebody is there, or nobody can say; else the rank is gone. */
static void end_seeking(struct wring_control_tree *tree, struct wring_control_link *link,
                        enum wring_status status)
{
    if (status == WRING_ERR_ADDRESS)
        wring_fates_set(&tree->fates, link->rank, WRING_FATE_GONE);
    wring_control_link_destroy(&tree->links, link);
}

bool wring_control_tree_is_lost(const struct wring_control_tree *tree, uint32_t rank)
{
    return tree->fates.of[rank] != WRING_FATE_ALIVE;
}

int wring_control_tree_hold_port(const struct wring_control_tree *tree)
{
    return wring_tcp_hold_port(tree->provider);
}

bool wring_control_tree_is_gone(const struct wring_control_tree *tree, uint32_t rank)
{
    return tree->fates.of[rank] == WRING_FATE_GONE;
}

/** It stands: say so, and all that has happened so far. */
static void open_link(struct wring_control_tree *tree, struct wring_control_link *link,
                      uint64_t now_ns)
{
    const struct wring_control beat = {.kind = WRING_CONTROL_HEARTBEAT};

    link->open = true;
    link->heard_ns = now_ns;
    wring_control_link_send(link, tree->rank, link->rank, &beat);
    if (link->parting)
        return;
    wring_departures_introduce(&tree->fates, link, tree->leaving);
    if (tree->failed)
        wring_control_link_send(link, tree->failure_from, WRING_CONTROL_TREE_ALL, &tree->failure);
}

/** A dial of ours to a rank above came to nothing. Nobody is there: go on to the next one. It does
 *  not answer in time: again, as it may be one whose application calls seldom. */
static void on_undialled(struct wring_control_tree *tree, uint32_t rank, enum wring_status status,
                         const char *text)
{
    uint64_t now_ns = wring_now_ns();
    bool again = status != WRING_ERR_ADDRESS && status != WRING_ERR_AUTH &&
                 now_ns - tree->dialled_ns < tree->config->peer_timeout_ns;
    bool joins = rank == wring_fates_first_parent(tree->rank) && !tree->failed && !tree->leaving;

    if (again) {
        tree->redial_ns = now_ns + REDIAL_NS;
        return;
    }
    if (tree->fates.of[rank] == WRING_FATE_ALIVE) {
        wring_fates_set(&tree->fates, rank, WRING_FATE_LOST);
        if (joins)
            tree->handler.lost(tree->handler.arg, rank, status, text);
    }
    tree->dialled_ns = now_ns;
    dial_parent(tree);
}

/** Nobody is behind a connection that has never said anything: it was given up before it stood.
 *  Only a parent that we are to join is lost by that. */
static void lose_link(struct wring_control_tree *tree, struct wring_control_link *link,
                      enum wring_status status, const char *text)
{
    uint32_t rank = link->rank;
    bool up = link->up, bye = link->bye,
         stood = link->heard || (up && rank == wring_fates_first_parent(tree->rank));

    wring_control_link_destroy(&tree->links, link);
    if (up && !stood && !tree->leaving) {
        on_undialled(tree, rank, status, text);
        return;
    }
    if (tree->fates.of[rank] == WRING_FATE_ALIVE && (tree->leaving ? up : stood && !bye)) {
        wring_fates_set(&tree->fates, rank, WRING_FATE_LOST);
        if (!tree->leaving)
            tree->handler.lost(tree->handler.arg, rank, status, text);
    }
    if (!up)
        return;
    tree->dialled_ns = wring_now_ns();
    if (bye && !tree->leaving)
        tree->redial_ns = tree->dialled_ns + ORPHAN_NS;
    else
        dial_parent(tree);
}

/* ---- events ---- */

/** Events of a connection that is about to go lose their conn. */
static void forget_events(struct wring_event *events, size_t n, const struct wring_conn *conn)
{
    for (size_t i = 0; i < n; i++)
        if (events[i].conn == conn)
            events[i].conn = NULL;
}

/** Does it end with that mark, and is it of another rank of this job? */
static bool read_hello(const struct wring_control_tree *tree, const struct wring_event *event,
                       const char *mark, uint32_t *rank)
{
    struct wring_reader hello = {event->data, event->bytes, false};
    *rank = wring_read_u32(&hello);
    const void *job = wring_read(&hello, sizeof(tree->job));
    const void *end = wring_read(&hello, sizeof(MARK) - 1);

    return !hello.failed && memcmp(job, tree->job, sizeof(tree->job)) == 0 &&
           memcmp(end, mark, sizeof(MARK) - 1) == 0 && *rank != tree->rank && *rank < tree->size;
}

/** A rank that is to be below us. @return the link; NULL: it may not be, or is already */
static struct wring_control_link *accept_child(struct wring_control_tree *tree,
                                               struct wring_event *events, size_t n)
{
    uint32_t rank;

    if (!read_hello(tree, &events[0], MARK, &rank) || rank < tree->rank)
        return NULL;
    struct wring_control_link *link = find_link(tree, rank);
    if (link != NULL && link->heard)
        return NULL;
    if (link != NULL) { /* given up before it stood */
        forget_events(events, n, link->conn);
        wring_control_link_destroy(&tree->links, link);
    }
    return wring_control_link_create(&tree->links, rank, false);
}

/** A rank that leaves, and knows nobody else. @return the link, or NULL */
static struct wring_control_link *accept_last_words(struct wring_control_tree *tree,
                                                    const struct wring_event *event)
{
    uint32_t rank;
    struct wring_control_link *link = read_hello(tree, event, LAST, &rank)
                                          ? wring_control_link_create(&tree->links, rank, false)
                                          : NULL;

    if (link != NULL)
        link->parting = true;
    return link;
}

/** The first of n events. */
static void on_accepted(struct wring_control_tree *tree, struct wring_event *events, size_t n,
                        uint64_t now_ns)
{
    struct wring_conn *conn = events[0].conn;
    struct wring_control_link *link = accept_child(tree, events, n);
    uint32_t rank;

    if (link == NULL)
        link = accept_last_words(tree, &events[0]);
    if (link == NULL) {
        if (!read_hello(tree, &events[0], LOOK, &rank))
            wring_warn(tree->log, "refused a connection that is not one of this job's");
        forget_events(events, n, conn);
        conn->provider->ops->disconnect(conn);
        return;
    }
    conn->user = link;
    link->conn = conn;
    open_link(tree, link, now_ns);
}

/** Does it go up and down the tree without being kept there? */
static bool is_passed_on(enum wring_control_kind kind)
{
    return kind == WRING_CONTROL_FLIGHT || kind == WRING_CONTROL_MEMBER;
}

static void on_told_all(struct wring_control_tree *tree, struct wring_control_link *link,
                        uint32_t from, const struct wring_control *control)
{
    if (!is_passed_on(control->kind) && !note_failure(tree, from, control))
        return;
    send_to_other_links(tree, from, control, link);
    tree->handler.heard(tree->handler.arg, from, control);
}

/** @return false: malformed */
static bool on_told_us(struct wring_control_tree *tree, struct wring_control_link *link,
                       uint32_t from, const struct wring_control *control, uint64_t now_ns)
{
    if (control->kind == WRING_CONTROL_BYE_ACK)
        on_bye_heard(tree, link);
    else if (control->kind == WRING_CONTROL_BYE && from == link->rank)
        on_bye(tree, link, now_ns);
    else if (control->kind == WRING_CONTROL_LEFT)
        return on_left(tree, link, control, now_ns);
    else if (control->kind != WRING_CONTROL_HEARTBEAT && control->kind != WRING_CONTROL_BYE)
        tree->handler.heard(tree->handler.arg, from, control);
    return true;
}

/** It goes on, and everyone on the way hears it. Messages from above do not go back there. */
static void on_raised(struct wring_control_tree *tree, const struct wring_control_link *link,
                      uint32_t from, const struct wring_control *control)
{
    if (link->up || !is_passed_on(control->kind))
        return;
    wring_control_tree_raise(tree, from, control);
    tree->handler.heard(tree->handler.arg, from, control);
}

/** @return false: malformed */
static bool on_message(struct wring_control_tree *tree, struct wring_control_link *link,
                       const struct wring_event *event, uint64_t now_ns)
{
    struct wring_reader reader = {event->data, event->bytes, false};
    uint32_t from = wring_read_u32(&reader), to = wring_read_u32(&reader);
    struct wring_control control;

    if (reader.failed || from >= tree->size ||
        !wring_control_parse(reader.data, reader.bytes, &control))
        return false;
    link->heard = true;
    link->heard_ns = now_ns;
    if (to == WRING_CONTROL_TREE_ALL) {
        on_told_all(tree, link, from, &control);
    } else if (to == WRING_CONTROL_TREE_ROOT) {
        on_raised(tree, link, from, &control);
    } else if (to == tree->rank) {
        return on_told_us(tree, link, from, &control, now_ns);
    } else if (to < tree->size) {
        struct wring_control_link *hop = find_next_hop(tree, to);
        if (hop != NULL && hop != link)
            wring_control_link_send(hop, from, to, &control);
    }
    return true;
}

/** The first of n events. */
static void on_event(struct wring_control_tree *tree, struct wring_event *events, size_t n,
                     uint64_t now_ns)
{
    struct wring_event *event = &events[0];
    struct wring_control_link *link = event->conn != NULL ? event->conn->user : NULL;

    if (event->conn == NULL)
        return;
    if (event->kind == WRING_EVENT_ACCEPTED) {
        on_accepted(tree, events, n, now_ns);
    } else if (link->seeks && event->kind != WRING_EVENT_MESSAGE) {
        enum wring_status status = event->kind == WRING_EVENT_CLOSED ? event->status : WRING_OK;
        forget_events(events, n, link->conn);
        end_seeking(tree, link, status);
    } else if (event->kind == WRING_EVENT_CONNECTED) {
        open_link(tree, link, now_ns);
    } else if (event->kind == WRING_EVENT_CLOSED) {
        char text[WRING_TEXT_MAX];
        enum wring_status status = event->status;
        snprintf(text, sizeof(text), "%s", event->text != NULL ? event->text : "no reason given");
        forget_events(events, n, link->conn);
        if (link->open) {
            lose_link(tree, link, status, text);
        } else {
            uint32_t rank = link->rank;
            wring_control_link_destroy(&tree->links, link);
            on_undialled(tree, rank, status, text);
        }
    } else if (event->kind == WRING_EVENT_MESSAGE && !on_message(tree, link, event, now_ns)) {
        forget_events(events, n, link->conn);
        lose_link(tree, link, WRING_ERR_FRAME, "it sent a malformed control message");
    }
}

/** @return false: it is gone */
static bool tend_link(struct wring_control_tree *tree, struct wring_control_link *link,
                      uint64_t now_ns)
{
    const struct wring_control beat = {.kind = WRING_CONTROL_HEARTBEAT};
    if (!link->open)
        return true;
    if (now_ns > link->heard_ns && now_ns - link->heard_ns > tree->config->peer_timeout_ns) {
        lose_link(tree, link, WRING_ERR_TIMEOUT, "");
        return false;
    }
    wring_control_link_flush(link, now_ns);
    if (now_ns > link->sent_ns && now_ns - link->sent_ns >= tree->config->heartbeat_ns &&
        link->first == NULL)
        wring_control_link_send(link, tree->rank, link->rank, &beat);
    return true;
}

/** Have all neighbours answered our good-byes? Until then news wait: they are many. */
static bool is_answered(const struct wring_control_tree *tree)
{
    for (const struct wring_control_link *link = tree->links; link != NULL; link = link->next)
        if (link->open && link->owed > 0)
            return false;
    return true;
}

/** We leave, and have no neighbour that takes what we know. */
static void find_heir(struct wring_control_tree *tree, uint64_t now_ns)
{
    bool waits = wring_fates_choose_parent(&tree->fates) == tree->rank &&
                 now_ns < tree->left_ns + FAREWELL_NS;

    if (!tree->owes || tree->fates.alive == 0 || tree->failed || tree->redial_ns != 0 || waits)
        return;
    for (const struct wring_control_link *link = tree->links; link != NULL; link = link->next)
        if (link->up || link->owed > 0)
            return;
    dial_parent(tree);
}

/** If nobody made progress for a while, the others' silence is ours. */
static void tend_links(struct wring_control_tree *tree, uint64_t now_ns)
{
    uint64_t absent = now_ns - tree->looked_ns;
    bool changed = false;

    tree->looked_ns = now_ns;
    for (struct wring_control_link *link = tree->links; link != NULL; link = link->next)
        link->heard_ns += absent >= tree->config->heartbeat_ns ? absent : 0;
    for (struct wring_control_link *link = tree->links, *next; link != NULL && !changed;
         link = next) {
        next = link->next;
        changed = !tend_link(tree, link, now_ns); /* the others next time */
    }
    if (tree->redial_ns != 0 && now_ns >= tree->redial_ns)
        dial_parent(tree);
    if (tree->leaving)
        find_heir(tree, now_ns);
}

bool wring_control_tree_poll(struct wring_control_tree *tree, uint64_t now_ns)
{
    struct wring_event events[EVENTS_PER_POLL];
    size_t n = tree->provider->ops->poll(tree->provider, events, EVENTS_PER_POLL);

    for (size_t i = 0; i < n; i++)
        on_event(tree, &events[i], n - i, now_ns);
    if (now_ns - tree->looked_ns >= WRING_CONTROL_TREE_LOOK_NS)
        tend_links(tree, now_ns);
    if (tree->news.n > 0 && (now_ns >= tree->news.due_ns || (tree->leaving && is_answered(tree))))
        wring_departures_tell(&tree->news, tree->links, tree->rank, tree->leaving, now_ns);
    return n > 0;
}

static void wake_by(struct wring_wait_set *set, uint64_t deadline_ns)
{
    if (deadline_ns < set->deadline_ns)
        set->deadline_ns = deadline_ns;
}

void wring_control_tree_arm(struct wring_control_tree *tree, struct wring_wait_set *set)
{
    tree->provider->ops->arm(tree->provider, set);
    wake_by(set, tree->looked_ns + tree->config->heartbeat_ns / 2);
    if (tree->redial_ns != 0)
        wake_by(set, tree->redial_ns);
    if (tree->news.n > 0)
        wake_by(set, tree->news.due_ns);
    if (tree->leaving)
        wake_by(set, tree->looked_ns + WRING_CONTROL_TREE_LOOK_NS);
    for (const struct wring_control_link *link = tree->links; link != NULL; link = link->next)
        if (link->first != NULL && link->open)
            wake_by(set, tree->looked_ns + WRING_CONTROL_TREE_LOOK_NS);
}

/* ---- the tree's life ---- */

enum wring_status wring_control_tree_create(const struct wring_control_tree_params *params,
                                            struct wring_control_tree **out)
{
    struct wring_control_tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL)
        return WRING_ERR_NO_MEMORY;
    tree->config = params->config;
    tree->log = params->log;
    tree->connections = *params->config;
    snprintf(tree->connections.tcp_sockets, sizeof(tree->connections.tcp_sockets), "1");
    tree->handler = params->handler;
    tree->find = params->find;
    tree->rank = params->rank;
    tree->size = params->size;
    memcpy(tree->job, params->job, sizeof(tree->job));
    struct wring_provider_params provider = {
        .log = params->log,
        .config = &tree->connections,
        .bind = params->bind,
        .rank = params->rank,
        .size = params->size,
    };
    memcpy(provider.secret, params->secret, WRING_SECRET_BYTES);
    enum wring_status status = wring_departures_init(&tree->news, params->size);
    if (status == WRING_OK)
        status = wring_fates_init(&tree->fates, params->rank, params->size);
    if (status == WRING_OK)
        status = wring_provider_for_control()->open(&provider, &tree->provider);
    if (status == WRING_OK)
        status = tree->provider->ops->listen(tree->provider, tree->address, &tree->address_bytes);
    if (status != WRING_OK) {
        wring_control_tree_destroy(tree);
        return status;
    }
    *out = tree;
    return WRING_OK;
}

struct wring_control_tree_endpoint wring_control_tree_endpoint(
    const struct wring_control_tree *tree)
{
    return (struct wring_control_tree_endpoint){tree->address, tree->address_bytes};
}

size_t wring_control_tree_link_bytes(const struct wring_control_tree *tree)
{
    struct wring_provider_caps caps;
    tree->provider->ops->capabilities(tree->provider, &caps);
    return sizeof(struct wring_control_link) + caps.conn_bytes;
}

void wring_control_tree_join(struct wring_control_tree *tree)
{
    tree->dialled_ns = tree->looked_ns = wring_now_ns();
    dial_parent(tree);
}

uint32_t wring_control_tree_missing(const struct wring_control_tree *tree)
{
    const struct wring_control_link *up = find_parent_link(tree);
    if (tree->rank != 0 && (up == NULL || !up->heard))
        return wring_fates_first_parent(tree->rank);
    uint64_t first = (uint64_t)tree->rank * WRING_CONTROL_TREE_FAN + 1;
    for (uint64_t i = first; i < first + WRING_CONTROL_TREE_FAN && i < tree->size; i++) {
        const struct wring_control_link *link = find_link(tree, (uint32_t)i);
        if (link == NULL || !link->heard)
            return (uint32_t)i;
    }
    return tree->size;
}

bool wring_control_tree_is_neighbour(const struct wring_control_tree *tree, uint32_t rank)
{
    const struct wring_control_link *link = find_link(tree, rank);
    return link != NULL && link->heard;
}

void wring_control_tree_leave(struct wring_control_tree *tree)
{
    if (tree->leaving)
        return;
    tree->leaving = tree->owes = true;
    wring_fates_set(&tree->fates, tree->rank, WRING_FATE_LEFT);
    wring_departures_tell(&tree->news, tree->links, tree->rank, tree->leaving, wring_now_ns());
    for (struct wring_control_link *link = tree->links; link != NULL; link = link->next)
        if (link->open && !link->parting && link->owed == 0)
            wring_departures_say_bye(link, tree->rank);
    tree->left_ns = wring_now_ns();
    if (find_parent_link(tree) == NULL) /* it need not wait any more */
        tree->redial_ns = 0;
    find_heir(tree, tree->left_ns);
}

size_t wring_control_tree_state_bytes(uint32_t ranks)
{
    const struct wring_control_tree *tree = NULL;
    return ranks * (sizeof(*tree->fates.of) + sizeof(*tree->news.list));
}

bool wring_control_tree_has_left(const struct wring_control_tree *tree)
{
    bool waits =
        wring_now_ns() < tree->left_ns + STAY_NS && !wring_fates_have_all_below_left(&tree->fates);
    return is_answered(tree) && (!waits || tree->failed) &&
           (!tree->owes || tree->fates.alive == 0 || tree->failed);
}

void wring_control_tree_destroy(struct wring_control_tree *tree)
{
    if (tree == NULL)
        return;
    while (tree->links != NULL)
        wring_control_link_destroy(&tree->links, tree->links);
    if (tree->provider != NULL)
        tree->provider->ops->close(tree->provider);
    wring_fates_finish(&tree->fates);
    wring_departures_finish(&tree->news);
    free(tree);
}
