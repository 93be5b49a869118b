/* SPDX-License-Identifier: Apache-2.0 */
/* Incoming records out of peers' rings, and which receive takes them. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "transport/message/inside.h"
#include "transport/message/match.h"

#define WRING_MODULE "message"

static void init_list(struct wring_match_link *list)
{
    list->next = list->previous = list;
}

static void insert_before(struct wring_match_link *at, struct wring_match_link *link)
{
    link->next = at;
    link->previous = at->previous;
    at->previous->next = link;
    at->previous = link;
}

enum wring_status wring_match_init(struct wring_match *match, uint32_t sources)
{
    *match = (struct wring_match){.sources = sources};
    match->source = calloc(sources > 0 ? sources : 1, sizeof(*match->source));
    if (match->source == NULL)
        return WRING_ERR_NO_MEMORY;
    init_list(&match->any);
    return WRING_OK;
}

/** A source of which something is to be listed: of most of many nothing ever is. */
static struct wring_match_source *use_source(struct wring_match *match, uint32_t i)
{
    struct wring_match_source *source = &match->source[i];
    if (source->posted.next == NULL) {
        init_list(&source->posted);
        init_list(&source->arrived);
    }
    return source;
}

static bool is_empty(const struct wring_match_link *list)
{
    return list->next == NULL || list->next == list;
}

void wring_match_finish(struct wring_match *match)
{
    free(match->source);
    *match = (struct wring_match){0};
}

void wring_match_remove(struct wring_match_link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = link->previous = link;
}

static bool tags_fit(uint64_t wanted, uint64_t tag)
{
    return wanted == WRING_MATCH_ANY_TAG || wanted == tag;
}

/** A source's first message that fits, or NULL. */
static struct wring_match_arrival *first_fitting_arrival(const struct wring_match_source *source,
                                                         uint64_t tag)
{
    for (struct wring_match_link *at = source->arrived.next; at != NULL && at != &source->arrived;
         at = at->next) {
        struct wring_match_arrival *arrival = (struct wring_match_arrival *)at;
        if (tags_fit(tag, arrival->tag))
            return arrival;
    }
    return NULL;
}

static void note_served(struct wring_match *match, uint32_t source)
{
    match->source[source].served = ++match->services;
}

/** Of the sources that have a message which fits, the one served least recently. */
static struct wring_match_arrival *pick_fairest_arrival(struct wring_match *match, uint64_t tag)
{
    struct wring_match_arrival *best = NULL;
    for (uint32_t i = 0; i < match->sources; i++) {
        const struct wring_match_source *source = &match->source[i];
        if (is_empty(&source->arrived) ||
            (best != NULL && source->served >= match->source[best->source].served))
            continue;
        struct wring_match_arrival *fit = first_fitting_arrival(source, tag);
        best = fit != NULL ? fit : best;
    }
    if (best != NULL)
        note_served(match, best->source);
    return best;
}

static struct wring_match_arrival *unlink_matched(struct wring_match *match,
                                                  const struct wring_match_receive *receive)
{
    struct wring_match_arrival *arrival =
        receive->source == WRING_MATCH_ANY_SOURCE
            ? pick_fairest_arrival(match, receive->tag)
            : first_fitting_arrival(&match->source[receive->source], receive->tag);
    if (arrival != NULL)
        wring_match_remove(&arrival->link);
    return arrival;
}

static struct wring_match_link *receive_list(struct wring_match *match,
                                             const struct wring_match_receive *receive)
{
    return receive->source == WRING_MATCH_ANY_SOURCE ? &match->any
                                                     : &use_source(match, receive->source)->posted;
}

struct wring_match_arrival *wring_match_post(struct wring_match *match,
                                             struct wring_match_receive *receive)
{
    receive->order = match->orders++;
    struct wring_match_arrival *arrival = unlink_matched(match, receive);
    if (arrival == NULL)
        insert_before(receive_list(match, receive), &receive->link);
    return arrival;
}

struct wring_match_arrival *wring_match_post_again(struct wring_match *match,
                                                   struct wring_match_receive *receive)
{
    struct wring_match_arrival *arrival = unlink_matched(match, receive);
    if (arrival != NULL)
        return arrival;
    struct wring_match_link *list = receive_list(match, receive), *at = list->next;
    while (at != list && ((struct wring_match_receive *)at)->order < receive->order)
        at = at->next;
    insert_before(at, &receive->link);
    return NULL;
}

static struct wring_match_receive *first_fitting_receive(struct wring_match_link *list,
                                                         uint64_t tag)
{
    for (struct wring_match_link *at = list->next; at != NULL && at != list; at = at->next) {
        struct wring_match_receive *receive = (struct wring_match_receive *)at;
        if (tags_fit(receive->tag, tag))
            return receive;
    }
    return NULL;
}

struct wring_match_receive *wring_match_find(struct wring_match *match, uint32_t source,
                                             uint64_t tag)
{
    struct wring_match_receive *own = first_fitting_receive(&match->source[source].posted, tag);
    struct wring_match_receive *any = first_fitting_receive(&match->any, tag);
    struct wring_match_receive *first =
        own == NULL || (any != NULL && any->order < own->order) ? any : own;
    if (first == NULL)
        return NULL;
    if (first == any)
        note_served(match, source);
    wring_match_remove(&first->link);
    return first;
}

void wring_match_keep(struct wring_match *match, struct wring_match_arrival *arrival)
{
    insert_before(&use_source(match, arrival->source)->arrived, &arrival->link);
}

/** The first of all listed receives (messages), in no order; NULL: there is none. */
static struct wring_match_arrival *match_first_arrival(const struct wring_match *match)
{
    for (uint32_t i = 0; match->source != NULL && i < match->sources; i++)
        if (wring_match_has_arrivals(match, i))
            return (struct wring_match_arrival *)match->source[i].arrived.next;
    return NULL;
}

/* ---- what comes ---- */

#define FREE_BYTES_MOST ((size_t)1 << 20)

/* ---- messages that wait for a receive ---- */

/** Room in steps: those of doubled sizes up to 1 KiB, then whole KiB. */
static unsigned room_class(size_t bytes)
{
    unsigned class = 0;
    if (bytes > 1024)
        return 5 + (unsigned)((bytes + 1023) / 1024);
    for (size_t room = 32; bytes > 0 && room < bytes; room *= 2)
        class ++;
    return bytes > 0 ? class + 1 : 0;
}

static size_t class_bytes(unsigned class)
{
    if (class > 6)
        return (size_t)(class - 5) * 1024;
    return class > 0 ? (size_t)32 << (class - 1) : 0;
}

static struct wring_message_arrival *new_arrival(struct wring_messenger *messenger, size_t bytes)
{
    unsigned class = room_class(bytes);
    struct wring_message_arrival *arrival = messenger->free_arrivals[class];

    if (arrival != NULL) {
        messenger->free_arrivals[class] = arrival->next;
        messenger->free_bytes -= sizeof(*arrival) + class_bytes(class);
    } else {
        arrival = malloc(sizeof(*arrival) + class_bytes(class));
    }
    if (arrival == NULL) {
        wring_message_no_memory(messenger);
        return NULL;
    }
    *arrival = (struct wring_message_arrival){.room = bytes};
    return arrival;
}

/** No receive takes it any more, or one has: its room is its sender's again. */
static void release_arrival(struct wring_messenger *messenger,
                            struct wring_message_arrival *arrival)
{
    struct wring_message_peer *peer = arrival->peer;
    unsigned class = room_class(arrival->room);
    size_t bytes = sizeof(*arrival) + class_bytes(class);

    if (arrival->offered)
        peer->offers_gone++;
    else if (arrival->own == NULL)
        peer->held -= wring_message_cost(arrival->bytes);
    wring_message_peer_credit(peer);
    if (messenger->free_bytes + bytes > FREE_BYTES_MOST) {
        free(arrival);
        return;
    }
    messenger->free_bytes += bytes;
    arrival->next = messenger->free_arrivals[class];
    messenger->free_arrivals[class] = arrival;
}

/** List it, where its group is made already. */
static void keep_arrival(struct wring_message_arrival *arrival)
{
    struct wring_message_context *context = arrival->context;
    if (context->ranks != NULL) {
        wring_match_keep(&context->match, &arrival->match);
        return;
    }
    arrival->next = NULL;
    *context->last_early = arrival;
    context->last_early = &arrival->next;
}

/* ---- receives ---- */

static void note_message_end(struct wring_message *receive, uint32_t member, uint64_t tag,
                             uint64_t bytes)
{
    receive->end = (struct wring_message_end){member, tag, bytes};
    receive->length = bytes < receive->bytes ? bytes : receive->bytes;
}

/** Its message is here: copy it, and end it. */
static void copy_and_finish(struct wring_messenger *messenger, struct wring_message *receive,
                            const void *data)
{
    if (receive->length > 0 && wring_message_is_on_device(receive)) {
        wring_error(messenger->engine->log,
                    "a receive in device memory got a message that came with its offer: member "
                    "%" PRIu32 " must send it from device memory, too",
                    receive->end.member);
        wring_message_finish(messenger, receive, WRING_ERR_UNSUPPORTED);
        return;
    }
    if (receive->length > 0)
        memcpy(receive->buf, data, (size_t)receive->length);
    wring_message_finish_receive(messenger, receive);
}

/** A receive has taken the offer of a peer. @return whether it has ended */
static bool begin_offered(struct wring_messenger *messenger, struct wring_message *receive,
                          struct wring_message_peer *peer, uint32_t id, uint64_t address)
{
    receive->peer = peer;
    receive->remote = id;
    receive->address = address;
    return wring_transfer_begin(messenger, receive);
}

/** A receive has taken a message that waited. @return whether it has ended */
static bool deliver_arrival(struct wring_messenger *messenger, struct wring_message *receive,
                            struct wring_message_arrival *arrival)
{
    struct wring_message *own = arrival->own;

    note_message_end(receive, arrival->match.source, arrival->match.tag, arrival->bytes);
    if (arrival->offered) {
        struct wring_message_peer *peer = arrival->peer;
        uint32_t id = arrival->id;
        uint64_t address = arrival->address;
        release_arrival(messenger, arrival);
        return begin_offered(messenger, receive, peer, id, address);
    }
    copy_and_finish(messenger, receive, own != NULL ? own->buf : arrival->data);
    release_arrival(messenger, arrival);
    if (own != NULL)
        wring_message_finish(messenger, own, WRING_OK);
    return true;
}

bool wring_incoming_receive(struct wring_messenger *messenger, struct wring_message *receive)
{
    struct wring_message_context *context = receive->context;

    receive->state = WRING_MESSAGE_POSTED;
    receive->receive.source = receive->member;
    receive->receive.tag = receive->tag;
    if (receive->member != WRING_MATCH_ANY_SOURCE && receive->member != context->me &&
        wring_message_peer_find(messenger, context->ranks[receive->member]) == NULL)
        wring_message_no_memory(messenger);
    struct wring_match_arrival *arrival = wring_match_post(&context->match, &receive->receive);
    return arrival != NULL &&
           deliver_arrival(messenger, receive, (struct wring_message_arrival *)arrival);
}

bool wring_incoming_send_own(struct wring_messenger *messenger, struct wring_message *send)
{
    struct wring_message_context *context = send->context;
    struct wring_match_receive *match = wring_match_find(&context->match, context->me, send->tag);

    if (match != NULL) {
        struct wring_message *receive = wring_message_of(match);
        note_message_end(receive, context->me, send->tag, send->bytes);
        copy_and_finish(messenger, receive, send->buf);
        wring_message_finish(messenger, send, WRING_OK);
        return true;
    }
    struct wring_message_peer *self =
        wring_message_peer_find(messenger, wring_messenger_fabric(messenger)->rank);
    uint64_t cost = wring_message_cost(send->bytes);
    bool copied = self != NULL && send->bytes <= messenger->eager_bytes &&
                  self->held + cost <= WRING_PEER_UNEXPECTED;
    struct wring_message_arrival *arrival =
        self != NULL ? new_arrival(messenger, copied ? (size_t)send->bytes : 0) : NULL;
    if (arrival == NULL) {
        wring_message_no_memory(messenger);
        return false;
    }
    arrival->match.source = context->me;
    arrival->match.tag = send->tag;
    arrival->context = context;
    arrival->peer = self;
    arrival->bytes = send->bytes;
    arrival->own = copied ? NULL : send;
    send->state = WRING_MESSAGE_OFFERED;
    self->held += copied ? cost : 0;
    if (copied && send->bytes > 0)
        memcpy(arrival->data, send->buf, (size_t)send->bytes);
    keep_arrival(arrival);
    if (copied)
        wring_message_finish(messenger, send, WRING_OK);
    return copied;
}

void wring_incoming_withdraw_own(struct wring_messenger *messenger,
                                 const struct wring_message *send)
{
    struct wring_match_link *list = &send->context->match.source[send->context->me].arrived;
    for (struct wring_match_link *at = list->next; at != NULL && at != list; at = at->next) {
        struct wring_message_arrival *arrival = (struct wring_message_arrival *)at;
        if (arrival->own != send)
            continue;
        wring_match_remove(at);
        release_arrival(messenger, arrival);
        return;
    }
}

void wring_incoming_receive_again(struct wring_messenger *messenger, struct wring_message *receive)
{
    receive->peer = NULL;
    receive->remote = 0;
    receive->granted = receive->finished = receive->moved = 0;
    receive->state = WRING_MESSAGE_POSTED;
    struct wring_match_arrival *arrival =
        wring_match_post_again(&receive->context->match, &receive->receive);
    if (arrival != NULL)
        deliver_arrival(messenger, receive, (struct wring_message_arrival *)arrival);
}

static bool is_offer_of(const struct wring_message_arrival *arrival,
                        const struct wring_message_peer *peer, uint32_t id)
{
    return arrival->offered && arrival->peer == peer && arrival->id == id;
}

/** Of a group that is not made here yet. */
static struct wring_message_arrival *unlink_early_offer(struct wring_message_context *context,
                                                        const struct wring_message_peer *peer,
                                                        uint32_t id)
{
    struct wring_message_arrival **at = &context->early;
    while (*at != NULL && !is_offer_of(*at, peer, id))
        at = &(*at)->next;
    struct wring_message_arrival *found = *at;
    if (found == NULL)
        return NULL;
    *at = found->next;
    if (*at == NULL)
        context->last_early = at;
    return found;
}

static struct wring_message_arrival *unlink_listed_offer(struct wring_message_context *context,
                                                         const struct wring_message_peer *peer,
                                                         uint32_t id)
{
    for (uint32_t i = 0; i < context->match.sources; i++) {
        struct wring_match_link *list = &context->match.source[i].arrived;
        for (struct wring_match_link *at = list->next;
             context->ranks[i] == peer->rank && at != NULL && at != list; at = at->next) {
            struct wring_message_arrival *arrival = (struct wring_message_arrival *)at;
            if (arrival->own != NULL || !is_offer_of(arrival, peer, id))
                continue;
            wring_match_remove(at);
            return arrival;
        }
    }
    return NULL;
}

bool wring_incoming_withdrawn(struct wring_message_peer *peer, uint64_t id_of_context, uint32_t id)
{
    struct wring_message_context *context =
        wring_message_context_find(peer->messenger, id_of_context);
    struct wring_message_arrival *found = NULL;

    if (context != NULL)
        found = context->ranks == NULL ? unlink_early_offer(context, peer, id)
                                       : unlink_listed_offer(context, peer, id);
    if (found == NULL)
        return false;
    release_arrival(peer->messenger, found);
    return true;
}

/* ---- records ---- */

/** A record's head behind its mark. */
struct head {
    uint8_t kind, zero;
    uint16_t small;
    uint32_t id;
    uint64_t context, tag;
};

/** The group that it is for. NULL: it was destroyed, or there is no memory. */
static struct wring_message_context *find_or_expect_context(struct wring_messenger *messenger,
                                                            uint64_t id)
{
    struct wring_message_context *context = wring_message_context_find(messenger, id);
    if (context != NULL || wring_message_context_is_gone(messenger, id))
        return context;
    context = wring_message_context_expect(messenger, id);
    if (context == NULL)
        wring_message_no_memory(messenger);
    return context;
}

static bool is_member(const struct wring_message_context *context,
                      const struct wring_message_peer *peer, uint32_t member)
{
    return member < context->match.sources && context->ranks[member] == peer->rank;
}

/** The receive that takes what a member of a group has sent, if there is one. @return false: the
 *  sender is no such member */
static bool match_or_refuse(struct wring_message_peer *peer, struct wring_message_context *context,
                            uint32_t member, uint64_t tag, struct wring_message **receive)
{
    *receive = NULL;
    if (context->ranks == NULL)
        return true;
    if (!is_member(context, peer, member)) {
        wring_message_refuse(peer, "a message in a group that it is not in");
        return false;
    }
    struct wring_match_receive *found = wring_match_find(&context->match, member, tag);
    if (found != NULL)
        *receive = wring_message_of(found);
    return true;
}

static struct wring_message_arrival *new_waiting_arrival(struct wring_message_peer *peer,
                                                         struct wring_message_context *context,
                                                         uint32_t member, uint64_t tag, size_t room)
{
    struct wring_message_arrival *arrival = new_arrival(peer->messenger, room);
    if (arrival == NULL)
        return NULL;
    arrival->match.source = member;
    arrival->match.tag = tag;
    arrival->context = context;
    arrival->peer = peer;
    return arrival;
}

static void take_eager(struct wring_message_peer *peer, const struct head *head, const void *data)
{
    struct wring_messenger *messenger = peer->messenger;
    uint64_t cost = wring_message_cost(head->small);
    struct wring_message *receive;

    peer->eager_come += cost;
    if ((int64_t)(peer->eager_limit - peer->eager_come) < 0) {
        wring_message_refuse(peer, "more messages than it may");
        return;
    }
    if (peer->in_mapped)
        wring_count(&wring_messenger_fabric(messenger)->bytes_received, head->small);
    struct wring_message_context *context = find_or_expect_context(messenger, head->context);
    if (context == NULL || !match_or_refuse(peer, context, head->id, head->tag, &receive))
        return;
    if (receive != NULL) {
        note_message_end(receive, head->id, head->tag, head->small);
        copy_and_finish(messenger, receive, data);
        return;
    }
    struct wring_message_arrival *arrival =
        new_waiting_arrival(peer, context, head->id, head->tag, head->small);
    if (arrival == NULL)
        return;
    arrival->bytes = head->small;
    memcpy(arrival->data, data, head->small);
    peer->held += cost;
    keep_arrival(arrival);
}

static void say_done(struct wring_message_peer *peer, uint32_t id, enum wring_status status)
{
    wring_message_peer_say(peer, &(struct wring_message_say){
                                     .kind = WRING_RECORD_DONE, .id = id, .tag = (uint64_t)status});
}

static void take_offer(struct wring_message_peer *peer, const struct head *head,
                       const struct wring_record_offer *offer)
{
    struct wring_messenger *messenger = peer->messenger;
    struct wring_message *receive;

    if (++peer->offers_come - peer->offers_gone > WRING_PEER_OFFERS || head->id == 0) {
        wring_message_refuse(peer, "more offers of messages than it may");
        return;
    }
    struct wring_message_context *context = find_or_expect_context(messenger, head->context);
    if (context == NULL) {
        peer->offers_gone++;
        say_done(peer, head->id, WRING_ERR_CLOSED);
        return;
    }
    if (!match_or_refuse(peer, context, offer->member, head->tag, &receive))
        return;
    if (receive != NULL) {
        peer->offers_gone++;
        note_message_end(receive, offer->member, head->tag, offer->bytes);
        begin_offered(messenger, receive, peer, head->id, offer->address);
        return;
    }
    struct wring_message_arrival *arrival =
        new_waiting_arrival(peer, context, offer->member, head->tag, 0);
    if (arrival == NULL)
        return;
    arrival->offered = true;
    arrival->id = head->id;
    arrival->bytes = offer->bytes;
    arrival->address = offer->address;
    keep_arrival(arrival);
}

/** Bytes that follow a head; SIZE_MAX: there is no such record. */
static size_t bytes_behind(const struct head *head)
{
    switch (head->kind) {
    case WRING_RECORD_EAGER:
        return head->small <= WRING_MESSAGE_EAGER_MAX ? head->small : SIZE_MAX;
    case WRING_RECORD_OFFER:
        return sizeof(struct wring_record_offer);
    case WRING_RECORD_GRANT:
        return sizeof(struct wring_record_grant);
    case WRING_RECORD_SKIP:
    case WRING_RECORD_DONE:
    case WRING_RECORD_WITHDRAW:
    case WRING_RECORD_RECALL:
    case WRING_RECORD_STOPPED:
        return 0;
    default:
        return SIZE_MAX;
    }
}

static void take_record(struct wring_message_peer *peer, const struct head *head, const void *data)
{
    struct wring_record_offer offer;
    struct wring_record_grant grant;

    switch (head->kind) {
    case WRING_RECORD_EAGER:
        take_eager(peer, head, data);
        return;
    case WRING_RECORD_OFFER:
        memcpy(&offer, data, sizeof(offer));
        take_offer(peer, head, &offer);
        return;
    case WRING_RECORD_GRANT:
        memcpy(&grant, data, sizeof(grant));
        wring_transfer_heard_grant(peer, head->id, &grant);
        return;
    case WRING_RECORD_DONE:
        wring_transfer_heard_done(peer, head->id, head->tag);
        return;
    case WRING_RECORD_WITHDRAW:
        wring_transfer_heard_withdraw(peer, head->context, head->id, head->tag);
        return;
    case WRING_RECORD_RECALL:
        wring_transfer_heard_recall(peer, head->id);
        return;
    case WRING_RECORD_STOPPED:
        wring_transfer_heard_stopped(peer, head->id, head->tag);
        return;
    default:
        return;
    }
}

/** Is there a record? */
static bool has_record_come(const struct wring_message_peer *peer,
                            const struct wring_record *record)
{
    if (!peer->in_mapped && peer->announced == 0)
        return false;
    return atomic_load_explicit(&record->mark, memory_order_acquire) ==
           wring_record_mark(peer->secret, peer->in_at);
}

/** @return false: there was none */
static bool take_next_record(struct wring_message_peer *peer)
{
    uint64_t at = peer->in_at % WRING_RING_LINES;
    const uint8_t *line = peer->in_lines + at * WRING_RING_LINE;
    struct head head;

    if (!has_record_come(peer, (const struct wring_record *)line)) {
        if (!peer->in_mapped && peer->announced > 0)
            wring_message_refuse(peer, "a record of messages without its mark");
        return false;
    }
    memcpy(&head, line + sizeof(uint64_t), sizeof(head));
    size_t behind = bytes_behind(&head);
    uint32_t lines = behind != SIZE_MAX ? wring_record_lines(behind) : 0;
    if (lines == 0 || lines > WRING_RING_LINES - at) {
        wring_message_refuse(peer, "a malformed record of messages (kind %u)", head.kind);
        return false;
    }
    if (!peer->in_mapped)
        peer->announced--;
    peer->in_at += head.kind == WRING_RECORD_SKIP ? WRING_RING_LINES - at : lines;
    take_record(peer, &head, line + WRING_RECORD_HEAD);
    return wring_messenger_fabric(peer->messenger)->state == WRING_FABRIC_WORKING;
}

bool wring_incoming_take(struct wring_message_peer *peer)
{
    bool any = take_next_record(peer);
    if (any || peer->owes_credit)
        wring_message_peer_credit(peer);
    return any;
}

/* ---- groups come and go ---- */

void wring_incoming_adopt(struct wring_messenger *messenger, struct wring_message_context *context)
{
    struct wring_message_arrival *early = context->early;
    context->early = NULL;
    context->last_early = &context->early;
    while (early != NULL) {
        struct wring_message_arrival *next = early->next;
        if (is_member(context, early->peer, early->match.source)) {
            keep_arrival(early);
        } else {
            wring_message_refuse(early->peer, "a message in a group that it is not in");
            release_arrival(messenger, early);
        }
        early = next;
    }
}

static void drop_arrival(struct wring_messenger *messenger, struct wring_message_arrival *arrival)
{
    if (arrival->own != NULL)
        wring_message_finish(messenger, arrival->own, WRING_ERR_CLOSED);
    else if (arrival->offered)
        say_done(arrival->peer, arrival->id, WRING_ERR_CLOSED);
    release_arrival(messenger, arrival);
}

void wring_incoming_forget(struct wring_messenger *messenger, struct wring_message_context *context)
{
    while (context->early != NULL) {
        struct wring_message_arrival *next = context->early->next;
        drop_arrival(messenger, context->early);
        context->early = next;
    }
    for (struct wring_match_arrival *at;
         context->match.source != NULL && (at = match_first_arrival(&context->match)) != NULL;) {
        wring_match_remove(&at->link);
        drop_arrival(messenger, (struct wring_message_arrival *)at);
    }
}
