/* SPDX-License-Identifier: Apache-2.0 */
/* The messenger: the messages under way in all contexts, and the functions that drive it. */
#include "transport/message/inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/parse.h"
#include "base/spin.h"

#define WRING_MODULE "message"
#define RECORDS_PER_POLL 16 /* of each peer, before all else has its turn */

enum wring_status wring_messenger_create(struct wring_engine *engine, struct wring_messenger **out)
{
    struct wring_fabric *fabric = engine->fabric;
    const struct wring_config *config = engine->config;
    struct wring_messenger *messenger = calloc(1, sizeof(*messenger));

    if (messenger == NULL)
        return WRING_ERR_NO_MEMORY;
    messenger->engine = engine;
    messenger->light = wring_fence_register();
    messenger->eager_bytes = (size_t)config->eager_bytes;
    uint64_t always = fabric->size * WRING_PEER_UNEXPECTED;
    messenger->extra_most =
        config->unexpected_bytes > always ? config->unexpected_bytes - always : 0;
    messenger->peers = calloc(fabric->size, sizeof(*messenger->peers));
    messenger->open = calloc(fabric->size, sizeof(*messenger->open));
    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (messenger->peers != NULL && messenger->open != NULL)
        status =
            getrandom(&messenger->cookie, sizeof(messenger->cookie), 0) == sizeof(messenger->cookie)
                ? WRING_OK
                : WRING_ERR_SYSTEM;
    if (status != WRING_OK) {
        free(messenger->peers);
        free(messenger->open);
        free(messenger);
        return status;
    }
    *out = engine->messenger = messenger;
    return WRING_OK;
}

static void free_arrivals(struct wring_messenger *messenger)
{
    for (size_t i = 0; i < sizeof(messenger->free_arrivals) / sizeof(messenger->free_arrivals[0]);
         i++)
        while (messenger->free_arrivals[i] != NULL) {
            struct wring_message_arrival *arrival = messenger->free_arrivals[i];
            messenger->free_arrivals[i] = arrival->next;
            free(arrival);
        }
}

void wring_messenger_destroy(struct wring_messenger *messenger)
{
    if (messenger == NULL)
        return;
    messenger->engine->messenger = NULL;
    for (size_t i = 0; i < WRING_CONTEXT_CHAINS; i++)
        while (messenger->contexts[i] != NULL)
            wring_message_context_destroy(messenger, messenger->contexts[i]);
    wring_transfer_finish(messenger);
    for (uint32_t i = 0; i < wring_messenger_fabric(messenger)->size; i++)
        wring_message_peer_destroy(messenger->peers[i]);
    for (uint32_t i = 0; i < messenger->n_ring_blocks; i++) {
        wring_block_finish(messenger->ring_blocks[i]);
        free(messenger->ring_blocks[i]);
    }
    free_arrivals(messenger);
    while (messenger->free_says != NULL) {
        struct wring_message_say *say = messenger->free_says;
        messenger->free_says = say->next;
        free(say);
    }
    free(messenger->peers);
    free(messenger->open);
    free(messenger);
}

void wring_message_refuse(const struct wring_message_peer *peer, const char *format, ...)
{
    char what[WRING_TEXT_MAX];
    va_list args;
    va_start(args, format);
    wring_number_vprint(what, sizeof(what), format, args);
    va_end(args);
    wring_fabric_fail(wring_messenger_fabric(peer->messenger), WRING_ERR_FRAME, (int32_t)peer->rank,
                      "rank %" PRIu32 " sent %s", peer->rank, what);
}

void wring_message_no_memory(struct wring_messenger *messenger)
{
    struct wring_fabric *fabric = wring_messenger_fabric(messenger);
    wring_fabric_fail(fabric, WRING_ERR_NO_MEMORY, (int32_t)fabric->rank,
                      "rank %" PRIu32 " has no memory for messages", fabric->rank);
}

/* ---- contexts ---- */

static struct wring_message_context **context_chain(struct wring_messenger *messenger, uint64_t id)
{
    return &messenger->contexts[id % WRING_CONTEXT_CHAINS];
}

struct wring_message_context *wring_message_context_find(struct wring_messenger *messenger,
                                                         uint64_t id)
{
    struct wring_message_context *context = *context_chain(messenger, id);
    while (context != NULL && context->id != id)
        context = context->next;
    return context;
}

bool wring_message_context_is_gone(const struct wring_messenger *messenger, uint64_t id)
{
    for (size_t i = 0; i < sizeof(messenger->gone) / sizeof(messenger->gone[0]); i++)
        if (messenger->gone[i] == id && id != 0)
            return true;
    return false;
}

struct wring_message_context *wring_message_context_expect(struct wring_messenger *messenger,
                                                           uint64_t id)
{
    struct wring_message_context *context = calloc(1, sizeof(*context));
    if (context == NULL)
        return NULL;
    struct wring_message_context **chain = context_chain(messenger, id);
    context->id = id;
    context->last_early = &context->early;
    context->next = *chain;
    *chain = context;
    return context;
}

enum wring_status wring_message_context_create(struct wring_messenger *messenger, uint64_t id,
                                               const uint32_t *ranks, uint32_t n, uint32_t me,
                                               struct wring_message_context **out)
{
    struct wring_message_context *context = wring_message_context_find(messenger, id);
    if (context == NULL)
        context = wring_message_context_expect(messenger, id);
    if (context == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_match_init(&context->match, n);
    if (status != WRING_OK)
        return status; /* what came early stays for another try */
    context->me = me;
    context->ranks = ranks;
    wring_incoming_adopt(messenger, context);
    *out = context;
    return WRING_OK;
}

void wring_message_context_destroy(struct wring_messenger *messenger,
                                   struct wring_message_context *context)
{
    if (context == NULL)
        return;
    struct wring_message_context **at = context_chain(messenger, context->id);
    while (*at != context)
        at = &(*at)->next;
    *at = context->next;
    messenger->gone[messenger->n_gone++ % (sizeof(messenger->gone) / sizeof(messenger->gone[0]))] =
        context->id;
    wring_incoming_forget(messenger, context);
    wring_match_finish(&context->match);
    free(context);
}

/* ---- messages ---- */

static void link_message(struct wring_messenger *messenger, struct wring_message *message)
{
    message->counted = true;
    message->newer = NULL;
    message->older = messenger->newest;
    if (messenger->newest != NULL)
        messenger->newest->newer = message;
    messenger->newest = message;
    messenger->engine->n_active++;
}

static void unlink_message(struct wring_messenger *messenger, struct wring_message *message)
{
    if (message->newer != NULL)
        message->newer->older = message->older;
    else
        messenger->newest = message->older;
    if (message->older != NULL)
        message->older->newer = message->newer;
    message->counted = false;
    messenger->engine->n_active--;
}

void wring_message_finish(struct wring_messenger *messenger, struct wring_message *message,
                          enum wring_status status)
{
    void (*ended)(struct wring_message *) = message->ended;

    if (message->counted)
        unlink_message(messenger, message);
    message->state = WRING_MESSAGE_ENDED;
    if (ended == NULL) {
        atomic_store_explicit(&message->status, (int)status, memory_order_release);
        return;
    }
    atomic_store_explicit(&message->status, (int)status, memory_order_relaxed);
    ended(message);
}

void wring_message_finish_receive(struct wring_messenger *messenger, struct wring_message *receive)
{
    bool all = receive->end.bytes <= receive->bytes;
    wring_message_finish(messenger, receive, all ? WRING_OK : WRING_ERR_TRUNCATED);
}

void wring_message_post(struct wring_messenger *messenger, struct wring_message *message)
{
    atomic_store_explicit(&message->status, WRING_ERR_AGAIN, memory_order_relaxed);
    atomic_store_explicit(&messenger->engine->talks, true, memory_order_relaxed);
    struct wring_message *head = atomic_load_explicit(&messenger->posted, memory_order_relaxed);
    do {
        message->next = head;
    } while (!atomic_compare_exchange_weak(&messenger->posted, &head, message));
}

static bool begin_message(struct wring_messenger *messenger, struct wring_message *message)
{
    const struct wring_message_context *context = message->context;
    bool ended = false;

    message->state = WRING_MESSAGE_NEW;
    message->counted = false;
    message->id = 0;
    message->finished = message->granted = message->told = message->moved = 0;
    message->confirmed = message->again = message->ghost = false;
    message->remote = 0;
    message->grants = NULL;
    message->peer = NULL;
    if (!message->is_send) {
        ended = wring_incoming_receive(messenger, message);
    } else if (message->member == context->me) {
        ended = wring_incoming_send_own(messenger, message);
    } else {
        struct wring_message_peer *peer =
            wring_message_peer_find(messenger, context->ranks[message->member]);
        if (peer != NULL)
            ended = wring_message_peer_send(peer, message);
        else
            wring_message_no_memory(messenger); /* it ends with all others */
    }
    if (!ended)
        link_message(messenger, message);
    return ended;
}

static struct wring_message *take_posted(struct wring_messenger *messenger)
{
    struct wring_message *newest =
        atomic_exchange_explicit(&messenger->posted, NULL, memory_order_acquire);
    struct wring_message *oldest = NULL;
    while (newest != NULL) {
        struct wring_message *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static bool begin_posted(struct wring_messenger *messenger)
{
    if (atomic_load_explicit(&messenger->posted, memory_order_relaxed) == NULL)
        return false;
    struct wring_message *oldest = take_posted(messenger);
    while (oldest != NULL) {
        struct wring_message *next = oldest->next;
        begin_message(messenger, oldest);
        oldest = next;
    }
    return true;
}

bool wring_message_begin(struct wring_messenger *messenger, struct wring_message *message)
{
    begin_posted(messenger);
    atomic_store_explicit(&messenger->engine->talks, true, memory_order_relaxed);
    atomic_store_explicit(&message->status, WRING_ERR_AGAIN, memory_order_relaxed);
    return begin_message(messenger, message);
}

/* ---- what is given up ---- */

void wring_message_cancel(struct wring_messenger *messenger, struct wring_message *message)
{
    begin_posted(messenger);
    if (message->state == WRING_MESSAGE_ENDED)
        return;
    bool waits = message->state == WRING_MESSAGE_QUEUED || message->state == WRING_MESSAGE_POSTED;
    if (!waits && message->peer != NULL) {
        wring_transfer_cancel(messenger, message);
        return;
    }
    if (message->state == WRING_MESSAGE_QUEUED)
        wring_message_peer_unqueue(message->peer, message);
    wring_transfer_drop(messenger, message);
    wring_message_finish(messenger, message, WRING_ERR_CANCELLED);
}

static void free_ghost(struct wring_message *ghost)
{
    free(ghost);
}

enum wring_status wring_message_abandon(struct wring_messenger *messenger,
                                        struct wring_message *message)
{
    struct wring_message *ghost = malloc(sizeof(*ghost));
    if (ghost == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_transfer_revoke(messenger, message);
    bool exposed = wring_transfer_is_exposed(messenger, message);
    memcpy(ghost, message, sizeof(*ghost));
    ghost->ghost = true;
    ghost->ended = free_ghost;
    ghost->context = NULL; /* which may be gone before */
    if (!exposed)
        ghost->buf = NULL;
    wring_transfer_hand_on(messenger, message, ghost);
    unlink_message(messenger, message);
    link_message(messenger, ghost);
    wring_message_finish(messenger, message, WRING_ERR_CANCELLED);
    return exposed ? WRING_ERR_BUSY : WRING_OK;
}

/* ---- progress ---- */

/** Something moves, so we do not sleep: nobody need wake us. */
static void disarm_messenger(struct wring_messenger *messenger)
{
    messenger->armed = false;
    for (uint32_t i = 0; i < messenger->n_open; i++)
        atomic_store_explicit(&messenger->open[i]->in->asleep, 0, memory_order_relaxed);
}

static bool poll_peer(struct wring_message_peer *peer)
{
    bool any = false;
    if (!peer->told || peer->opening_bytes > 0)
        any |= wring_message_peer_open(peer);
    if (peer->says != NULL || peer->sends != NULL || peer->owes_wake)
        any |= wring_message_peer_push(peer);
    if (peer->granted != NULL)
        any |= wring_transfer_send(peer);
    return any;
}

/** One record of each, so that receives of any source serve all in turn. @return whether there were
 *  any */
static bool take_one_each(struct wring_messenger *messenger)
{
    uint32_t n = messenger->n_open, at = messenger->turn;
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        at = at + 1 < n ? at + 1 : 0;
        any |= wring_incoming_take(messenger->open[at]);
    }
    messenger->turn = messenger->turn + 1 < n ? messenger->turn + 1 : 0;
    return any;
}

bool wring_messenger_poll(struct wring_messenger *messenger)
{
    bool any = begin_posted(messenger);
    for (unsigned i = 0; i < RECORDS_PER_POLL && take_one_each(messenger); i++)
        any = true;
    for (uint32_t i = 0; i < messenger->n_open; i++)
        any |= poll_peer(messenger->open[i]);
    if (messenger->reading != NULL || messenger->wanting != NULL)
        any |= wring_transfer_receive(messenger);
    if (any && messenger->armed)
        disarm_messenger(messenger);
    return any;
}

/** Does the peer that it waits for write into our rings itself? Only the engine sees records
 *  that providers bring. */
static bool comes_by_mapped_ring(const struct wring_messenger *messenger,
                                 const struct wring_message *message)
{
    const struct wring_message_context *context = message->context;
    const struct wring_message_peer *peer = message->peer;

    if (peer == NULL && message->member != WRING_MATCH_ANY_SOURCE)
        peer = messenger->peers[context->ranks[message->member]];
    if (peer != NULL || message->member != WRING_MATCH_ANY_SOURCE)
        return peer != NULL && peer->in_mapped;
    for (uint32_t i = 0; i < messenger->n_open; i++)
        if (!messenger->open[i]->in_mapped)
            return false;
    return true;
}

/** The thread that looks drives the messenger, too. Only the engine takes events from providers. */
bool wring_message_look(struct wring_messenger *messenger, const struct wring_message *message,
                        unsigned looks)
{
    if (!comes_by_mapped_ring(messenger, message))
        return false;
    for (unsigned i = 0; i < looks; i++) {
        bool any = take_one_each(messenger);
        if (atomic_load_explicit(&message->status, memory_order_relaxed) != WRING_ERR_AGAIN)
            return true;
        if (any || messenger->reading != NULL || message->state == WRING_MESSAGE_QUEUED)
            wring_messenger_poll(messenger);
        if (atomic_load_explicit(&message->status, memory_order_relaxed) != WRING_ERR_AGAIN)
            return true;
        if (message->state == WRING_MESSAGE_GRANTED || message->state == WRING_MESSAGE_WANTING ||
            message->state == WRING_MESSAGE_FILLING)
            return false;
        wring_spin_pause();
    }
    return false;
}

bool wring_messenger_is_idle(const struct wring_messenger *messenger)
{
    return messenger->newest == NULL &&
           atomic_load_explicit(&messenger->posted, memory_order_relaxed) == NULL;
}

bool wring_messenger_has_posted(const struct wring_messenger *messenger)
{
    return atomic_load(&messenger->posted) != NULL;
}

void wring_messenger_arm(struct wring_messenger *messenger)
{
    if (messenger->newest == NULL)
        return;
    for (uint32_t i = 0; i < messenger->n_open; i++)
        atomic_store_explicit(&messenger->open[i]->in->asleep, 1, memory_order_relaxed);
    messenger->armed = true;
    if (messenger->light)
        wring_fence_heavy();
    else
        wring_fence_full();
}

/** Nothing comes from it any more, and nothing gets there. */
static bool is_peer_gone(const struct wring_peer *peer)
{
    return peer->state == WRING_PEER_GONE || (peer->state == WRING_PEER_NONE && peer->left);
}

/** Have all others of a group left? One that has not is asked first the next time. @return the last
 *  of them */
static struct wring_peer *last_if_all_left(const struct wring_messenger *messenger,
                                           struct wring_message_context *context)
{
    struct wring_fabric *fabric = wring_messenger_fabric(messenger);
    uint32_t n = context->match.sources, last = context->me == n - 1 ? n - 2 : n - 1;

    if (n < 2)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (context->present != context->me &&
            !is_peer_gone(&fabric->peers[context->ranks[context->present]]))
            return NULL;
        context->present = (context->present + 1) % n;
    }
    return wring_fabric_peer(fabric, context->ranks[last]);
}

/** The peer that is gone, and without which the message cannot end; or NULL. */
static struct wring_peer *find_missing_peer(const struct wring_messenger *messenger,
                                            const struct wring_message *message)
{
    struct wring_message_context *context = message->context;
    if (message->ghost)
        return NULL;
    if (message->peer == NULL && message->member == WRING_MATCH_ANY_SOURCE)
        return last_if_all_left(messenger, context);
    uint32_t rank = message->peer != NULL ? message->peer->rank : context->ranks[message->member];
    struct wring_peer *peer = wring_fabric_peer(wring_messenger_fabric(messenger), rank);
    return rank != wring_messenger_fabric(messenger)->rank && is_peer_gone(peer) ? peer : NULL;
}

/** End messages that were given up and whose peer is gone: it does not answer any more. */
static void end_ghosts(struct wring_messenger *messenger)
{
    for (struct wring_message *at = messenger->newest, *older; at != NULL; at = older) {
        older = at->older;
        if (!at->ghost || !is_peer_gone(at->peer->peer))
            continue;
        wring_transfer_drop(messenger, at);
        wring_message_finish(messenger, at, WRING_ERR_CLOSED);
    }
}

void wring_messenger_check(struct wring_messenger *messenger)
{
    if (messenger->newest == NULL || !wring_messenger_fabric(messenger)->any_left)
        return;
    end_ghosts(messenger);
    for (struct wring_message *at = messenger->newest; at != NULL; at = at->older) {
        struct wring_peer *peer = find_missing_peer(messenger, at);
        if (peer == NULL)
            continue;
        wring_fabric_put_failed(peer, WRING_ERR_PEER);
        return;
    }
}

bool wring_messenger_end(struct wring_messenger *messenger, enum wring_status status)
{
    struct wring_message *posted = take_posted(messenger);
    bool any = posted != NULL || messenger->newest != NULL;

    for (struct wring_message *at = messenger->newest; at != NULL; at = at->older)
        wring_transfer_drop(messenger, at);
    for (uint32_t i = 0; i < messenger->n_open; i++) {
        struct wring_message_peer *peer = messenger->open[i];
        peer->sends = peer->granted = NULL;
        peer->last_send = &peer->sends;
    }
    messenger->reading = messenger->wanting = NULL;
    while (messenger->newest != NULL)
        wring_message_finish(messenger, messenger->newest, status);
    while (posted != NULL) {
        struct wring_message *next = posted->next;
        posted->counted = false;
        wring_message_finish(messenger, posted, status);
        posted = next;
    }
    return any;
}

/* ---- what the fabric hears ---- */

void wring_messenger_arrived(struct wring_messenger *messenger, struct wring_peer *fabric_peer,
                             uint32_t imm, size_t bytes)
{
    uint32_t grant = imm & ((1u << WRING_SEQUENCE_BITS) - 1);
    struct wring_message_peer *peer = messenger->peers[fabric_peer->rank];

    if (peer == NULL)
        wring_fabric_fail(wring_messenger_fabric(messenger), WRING_ERR_FRAME,
                          (int32_t)fabric_peer->rank,
                          "rank %" PRIu32 " sent a message into no ring", fabric_peer->rank);
    else if (grant > 0)
        wring_transfer_arrived(peer, grant - 1, bytes);
    else if (peer->in_mapped || bytes < WRING_RING_LINE || bytes % WRING_RING_LINE != 0)
        wring_message_refuse(peer, "%zu bytes that are no record of a message", bytes);
    else
        peer->announced++;
}

void wring_messenger_put_done(struct wring_messenger *messenger, struct wring_peer *fabric_peer,
                              uint64_t cookie)
{
    struct wring_message_put *put =
        (struct wring_message_put *)(uintptr_t)(cookie & ~(uint64_t)WRING_MESSAGE_COOKIE);

    wring_put_window_done(&fabric_peer->window, put->bytes);
    if (put->message != NULL || put->grant != NULL)
        wring_transfer_put_done(messenger->peers[fabric_peer->rank], put);
    else
        wring_message_put_free(messenger, put);
}
