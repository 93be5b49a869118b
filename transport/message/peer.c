/* SPDX-License-Identifier: Apache-2.0 */
/* A peer: how the two rings become known, what we write into its ring, and credits. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/control.h"
#include "transport/fabric_connect.h"
#include "transport/message/inside.h"

#define OPENING 1 /* what follows WRING_CONTROL_RING */
#define CREDIT 2
#define IMPORT_NS (10 * WRING_NS_PER_S) /* a region may be told of a little later than its key */
#define CREDIT_LINES (WRING_RING_LINES / 4)
#define CREDIT_COST (WRING_PEER_UNEXPECTED / 4)
#define CREDIT_OFFERS (WRING_PEER_OFFERS / 4)
#define FEW_OFFERS 64
#define STAGES 32 /* records that are being put */
#define PIECES 8  /* parts of messages, where they cannot be put from where they lie */

/* ---- our ring ---- */

/** @return the block that the next ring comes from; NULL: no memory */
static struct wring_block *ensure_ring_block(struct wring_messenger *messenger)
{
    struct wring_fabric *fabric = wring_messenger_fabric(messenger);
    uint32_t n = messenger->n_ring_blocks, per = fabric->size < 4 ? fabric->size : 4u << n / 4;

    if (messenger->rings_left > 0)
        return messenger->ring_blocks[n - 1];
    if (n == sizeof(messenger->ring_blocks) / sizeof(messenger->ring_blocks[0]))
        return NULL;
    struct wring_block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return NULL;
    if (wring_block_alloc_sparse(fabric, per * WRING_RING_BYTES, block) != WRING_OK) {
        free(block);
        return NULL;
    }
    messenger->ring_blocks[messenger->n_ring_blocks++] = block;
    messenger->rings_left = per;
    return block;
}

static bool make_ring(struct wring_message_peer *peer)
{
    struct wring_messenger *messenger = peer->messenger;
    const struct wring_block *block = ensure_ring_block(messenger);
    uint64_t secret;

    if (block == NULL || getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
        return false;
    messenger->rings_left--;
    peer->in = (struct wring_ring_head *)((uint8_t *)block->memory.base +
                                          messenger->rings_left * WRING_RING_BYTES);
    peer->in_lines = (const uint8_t *)(peer->in + 1);
    peer->secret = secret;
    atomic_store(&peer->in->secret, secret);
    atomic_store(&peer->in->fenced, !messenger->light);
    atomic_store(&peer->in->eager_limit, WRING_PEER_UNEXPECTED);
    atomic_store(&peer->in->offer_limit, WRING_PEER_OFFERS);
    peer->eager_limit = peer->eager_told = WRING_PEER_UNEXPECTED;
    peer->offers_told = WRING_PEER_OFFERS;
    return true;
}

static struct wring_message_peer *create_peer(struct wring_messenger *messenger, uint32_t rank)
{
    struct wring_fabric *fabric = wring_messenger_fabric(messenger);
    struct wring_message_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    peer->messenger = messenger;
    peer->peer = wring_fabric_peer(fabric, rank);
    peer->rank = rank;
    peer->last_say = &peer->says;
    peer->last_send = &peer->sends;
    peer->eager_may = WRING_PEER_UNEXPECTED;
    peer->offers_may = WRING_PEER_OFFERS;
    if (rank == fabric->rank || make_ring(peer))
        return peer;
    free(peer);
    return NULL;
}

struct wring_message_peer *wring_message_peer_find(struct wring_messenger *messenger, uint32_t rank)
{
    struct wring_message_peer *peer = messenger->peers[rank];
    if (peer != NULL)
        return peer;
    peer = create_peer(messenger, rank);
    if (peer == NULL)
        return NULL;
    messenger->peers[rank] = peer;
    if (rank != wring_messenger_fabric(messenger)->rank)
        messenger->open[messenger->n_open++] = peer;
    atomic_store_explicit(&messenger->engine->talks, true, memory_order_relaxed);
    return peer;
}

void wring_message_peer_destroy(struct wring_message_peer *peer)
{
    if (peer == NULL)
        return;
    const struct wring_provider_ops *ops = wring_message_device(peer)->provider->ops;
    ops->remote_release(peer->remote);
    ops->remote_release(peer->pool);
    while (peer->says != NULL) {
        struct wring_message_say *say = peer->says;
        peer->says = say->next;
        free(say);
    }
    free(peer);
}

/* ---- how they become known ---- */

static enum wring_status send_raw(struct wring_message_peer *peer, const void *data, size_t bytes)
{
    struct wring_peer *to = peer->peer;
    if (to->state != WRING_PEER_READY)
        return WRING_ERR_CLOSED;
    enum wring_status status = to->conn->provider->ops->send(to->conn, data, bytes);
    if (status == WRING_OK)
        to->sent_ns = wring_now_ns();
    return status;
}

static void send_opening(struct wring_message_peer *peer)
{
    struct wring_messenger *messenger = peer->messenger;
    const struct wring_block *block = NULL;
    struct wring_region *region;
    uint8_t message[WRING_SEND_MAX] = {0};
    uint32_t device = peer->peer->device, key_bytes;

    for (uint32_t i = 0; i < messenger->n_ring_blocks; i++) {
        const struct wring_memory *memory = &messenger->ring_blocks[i]->memory;
        uintptr_t at = (uintptr_t)peer->in - (uintptr_t)memory->base;
        if (at < memory->bytes)
            block = messenger->ring_blocks[i];
    }
    region = block->regions[device];
    peer->in_mapped = wring_message_device(peer)->caps.remote_map;
    peer->secret = peer->in_mapped ? peer->secret : 0;
    wring_put_u32(message, WRING_CONTROL_RING);
    wring_put_u32(message + 4, OPENING);
    wring_put_u32(message + 8, (uint32_t)getpid());
    wring_put_u32(message + 12, peer->in_mapped);
    wring_put_u64(message + 16, (uint64_t)(uintptr_t)&messenger->cookie);
    wring_put_u64(message + 24, messenger->cookie);
    wring_put_u64(message + 32, (uint64_t)((uintptr_t)peer->in - (uintptr_t)region->base));
    wring_put_u64(message + 40, WRING_RING_LINES);
    key_bytes = (uint32_t)region->provider->ops->region_export(region, message + 52);
    wring_put_u32(message + 48, key_bytes);
    enum wring_status status = send_raw(peer, message, 52 + key_bytes);
    peer->told = status != WRING_ERR_AGAIN;
}

/** It says where its ring is. */
static void heard_opening(struct wring_message_peer *peer, const void *data, size_t bytes)
{
    if (bytes < 52 || bytes > sizeof(peer->opening) || peer->opening_bytes > 0 || peer->heard) {
        wring_message_refuse(peer, "a malformed opening of its messages");
        return;
    }
    memcpy(peer->opening, data, bytes);
    peer->opening_bytes = bytes;
    peer->opening_until_ns = wring_deadline_in(IMPORT_NS);
}

/** May we read it? Ask the kernel for a number that the peer has told. */
static bool can_read_peer_memory(const struct wring_message_peer *peer, uint64_t address,
                                 uint64_t number)
{
    uint64_t found = 0;
    struct iovec local = {&found, sizeof(found)},
                 remote = {(void *)(uintptr_t)address, sizeof(found)};
    const struct wring_config *config = wring_messenger_fabric(peer->messenger)->config;

    return wring_message_device(peer)->caps.same_host_only && strcmp(config->cma, "auto") == 0 &&
           peer->pid > 0 &&
           process_vm_readv(peer->pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(found) &&
           found == number;
}

/** Its ring has been imported: map it, if both of us can. */
static enum wring_status map_ring(struct wring_message_peer *peer, bool wants_mapped)
{
    void *base;
    if (!wants_mapped)
        return WRING_OK;
    enum wring_status status =
        wring_message_device(peer)->provider->ops->remote_map(peer->remote, &base);
    if (status != WRING_OK)
        return status;
    peer->out = (struct wring_ring_head *)((uint8_t *)base + peer->remote_at);
    peer->out_lines = (uint8_t *)(peer->out + 1);
    peer->out_secret = atomic_load(&peer->out->secret);
    peer->fenced = !peer->messenger->light || atomic_load(&peer->out->fenced) != 0;
    return WRING_OK;
}

/** @return WRING_ERR_AGAIN: not yet */
static enum wring_status import_ring(struct wring_message_peer *peer)
{
    const uint8_t *message = peer->opening;
    uint32_t key_bytes = wring_get_u32(message + 48);
    uint64_t offset = wring_get_u64(message + 32), lines = wring_get_u64(message + 40);
    bool mapped = wring_get_u32(message + 12) != 0;

    if (key_bytes != peer->opening_bytes - 52 || lines != WRING_RING_LINES || offset % 128 != 0 ||
        mapped != wring_message_device(peer)->caps.remote_map)
        return WRING_ERR_FRAME;
    enum wring_status status = peer->peer->conn->provider->ops->remote_import(
        peer->peer->conn, message + 52, key_bytes, &peer->remote);
    bool unknown = status == WRING_ERR_FRAME || status == WRING_ERR_CLOSED; /* so far */
    if (unknown && wring_now_ns() < peer->opening_until_ns)
        return WRING_ERR_AGAIN;
    if (unknown)
        return WRING_ERR_FRAME;
    if (status != WRING_OK)
        return status;
    if (offset > peer->remote->bytes || WRING_RING_BYTES > peer->remote->bytes - offset)
        return WRING_ERR_FRAME;
    peer->remote_at = offset;
    peer->pid = (int32_t)wring_get_u32(message + 8);
    peer->readable =
        can_read_peer_memory(peer, wring_get_u64(message + 16), wring_get_u64(message + 24));
    return map_ring(peer, mapped);
}

bool wring_message_peer_open(struct wring_message_peer *peer)
{
    bool any = false;
    if (peer->peer->state == WRING_PEER_NONE)
        wring_connect_dial(wring_messenger_fabric(peer->messenger), peer->peer);
    if (peer->peer->state != WRING_PEER_READY)
        return false;
    if (!peer->told) {
        send_opening(peer);
        any |= peer->told;
    }
    if (peer->opening_bytes > 0 && !peer->heard) {
        enum wring_status status = import_ring(peer);
        if (status == WRING_OK) {
            peer->heard = any = true;
            peer->opening_bytes = 0;
        } else if (status != WRING_ERR_AGAIN) {
            wring_message_refuse(peer, "an opening of its messages that leads nowhere");
        }
    }
    return any;
}

/* ---- writing records ---- */

/** It sleeps, and has something to find: wake it. */
static void wake_peer(struct wring_message_peer *peer)
{
    if (peer->fenced)
        wring_fence_full();
    else
        wring_fence_light();
    if (atomic_load_explicit(&peer->out->asleep, memory_order_relaxed) == 0 && !peer->owes_wake)
        return;
    atomic_store_explicit(&peer->out->asleep, 0, memory_order_relaxed);
    struct wring_control control = {.kind = WRING_CONTROL_HEARTBEAT};
    peer->owes_wake = wring_control_send(peer->peer, &control) == WRING_ERR_AGAIN;
}

static bool needs_pieces(const struct wring_fabric *fabric)
{
    return !wring_block_sendable(fabric, NULL);
}

/** Memory that is put from. */
static bool make_stages(struct wring_messenger *messenger)
{
    struct wring_fabric *fabric = wring_messenger_fabric(messenger);
    uint32_t pieces = needs_pieces(fabric) ? PIECES : 0;
    size_t piece = (size_t)messenger->engine->config->chunk_bytes;

    messenger->free_stages = calloc(STAGES, sizeof(uint8_t *));
    messenger->free_pieces = calloc(PIECES, sizeof(uint8_t *));
    if (messenger->free_stages == NULL || messenger->free_pieces == NULL ||
        wring_block_alloc_source(fabric, STAGES * WRING_RECORD_MAX + pieces * piece,
                                 &messenger->stages) != WRING_OK)
        return false;
    uint8_t *at = messenger->stages.memory.base;
    for (uint32_t i = 0; i < pieces; i++, at += piece)
        messenger->free_pieces[messenger->n_free_pieces++] = at;
    for (uint32_t i = 0; i < STAGES; i++, at += WRING_RECORD_MAX)
        messenger->free_stages[messenger->n_free_stages++] = at;
    return true;
}

static struct wring_message_put *new_put(struct wring_messenger *messenger)
{
    struct wring_message_put *put = messenger->free_puts;
    if (put != NULL) {
        messenger->free_puts = put->next;
        return put;
    }
    put = calloc(1, sizeof(*put));
    if (put == NULL)
        return NULL;
    put->next_all = messenger->all_puts;
    messenger->all_puts = put;
    return put;
}

struct wring_message_put *wring_message_put_take(struct wring_messenger *messenger,
                                                 struct wring_message *message, bool staged)
{
    if (staged && messenger->stages.fabric == NULL && !make_stages(messenger)) {
        wring_message_no_memory(messenger);
        return NULL;
    }
    uint32_t *n = message == NULL ? &messenger->n_free_stages : &messenger->n_free_pieces;
    uint8_t **stages = message == NULL ? messenger->free_stages : messenger->free_pieces;
    if (staged && *n == 0)
        return NULL;
    struct wring_message_put *put = new_put(messenger);
    if (put == NULL)
        return NULL;
    put->message = message;
    put->grant = NULL;
    put->stage = staged ? stages[--*n] : NULL;
    return put;
}

void wring_message_put_free(struct wring_messenger *messenger, struct wring_message_put *put)
{
    if (put->stage != NULL && put->message == NULL)
        messenger->free_stages[messenger->n_free_stages++] = put->stage;
    else if (put->stage != NULL)
        messenger->free_pieces[messenger->n_free_pieces++] = put->stage;
    put->next = messenger->free_puts;
    messenger->free_puts = put;
}

/** Put what is staged to where the ring goes on. @return false: not now */
static bool put_record(struct wring_message_peer *peer, struct wring_message_put *put,
                       uint32_t lines)
{
    struct wring_messenger *messenger = peer->messenger;
    uint64_t at = peer->out_at % WRING_RING_LINES * WRING_RING_LINE;
    uint64_t offset = peer->remote_at + sizeof(struct wring_ring_head) + at;

    put->bytes = (size_t)lines * WRING_RING_LINE;
    enum wring_status status = wring_fabric_put(
        wring_messenger_fabric(messenger), peer->peer,
        messenger->stages.regions[peer->peer->device], put->stage, peer->remote, offset, put->bytes,
        WRING_MESSAGE_CHANNEL << 14, (uint64_t)(uintptr_t)put | WRING_MESSAGE_COOKIE);
    if (status == WRING_OK)
        peer->out_at += lines;
    if (status != WRING_OK || peer->peer->put_copies)
        wring_message_put_free(messenger, put);
    if (status != WRING_OK && status != WRING_ERR_AGAIN)
        wring_fabric_put_failed(peer->peer, status);
    return status == WRING_OK;
}

/** Is there so much room, as far as we know? */
static bool has_room(struct wring_message_peer *peer, uint64_t lines)
{
    if (peer->out_at + lines - peer->out_taken <= WRING_RING_LINES)
        return true;
    if (peer->out == NULL)
        return false;
    uint64_t taken = atomic_load_explicit(&peer->out->taken, memory_order_acquire);
    if (taken - peer->out_taken > peer->out_at - peer->out_taken)
        return false; /* it cannot have taken more than there was */
    peer->out_taken = taken;
    return peer->out_at + lines - peer->out_taken <= WRING_RING_LINES;
}

struct draft {
    struct wring_record *record;
    struct wring_message_put *put; /* NULL: the record lies in the ring */
    uint32_t lines;
};

/** Where the next record is to be written; not now: false. */
static bool start_draft(struct wring_message_peer *peer, uint32_t lines, struct draft *draft)
{
    *draft = (struct draft){.lines = lines};
    if (peer->out_lines != NULL) {
        draft->record = (struct wring_record *)(peer->out_lines +
                                                peer->out_at % WRING_RING_LINES * WRING_RING_LINE);
        return true;
    }
    draft->put = wring_message_put_take(peer->messenger, NULL, true);
    if (draft->put == NULL)
        return false;
    draft->record = (struct wring_record *)draft->put->stage;
    return true;
}

static bool show_record(struct wring_message_peer *peer, const struct draft *draft)
{
    uint64_t mark = wring_record_mark(peer->out_secret, peer->out_at);
    atomic_store_explicit(&draft->record->mark, mark, memory_order_release);
    if (draft->put != NULL)
        return put_record(peer, draft->put, draft->lines);
    peer->out_at += draft->lines;
    return true;
}

static void fill_record_head(struct wring_record *record, enum wring_record_kind kind, uint32_t id)
{
    record->kind = (uint8_t)kind;
    record->zero = 0;
    record->small = 0;
    record->id = id;
}

/** Room for a record of so many lines, at the front if it does not fit before the end. */
static bool begin_record(struct wring_message_peer *peer, uint32_t lines, struct draft *draft)
{
    uint64_t left = WRING_RING_LINES - peer->out_at % WRING_RING_LINES;
    if (lines <= left)
        return has_room(peer, lines) && start_draft(peer, lines, draft);
    if (!has_room(peer, left + lines) || !start_draft(peer, 1, draft))
        return false;
    uint64_t front = peer->out_at + left;
    fill_record_head(draft->record, WRING_RECORD_SKIP, 0);
    if (!show_record(peer, draft))
        return false;
    peer->out_at = front;
    return start_draft(peer, lines, draft);
}

static bool write_say(struct wring_message_peer *peer, const struct wring_message_say *say)
{
    bool grant = say->kind == WRING_RECORD_GRANT;
    struct draft draft;
    if (!begin_record(peer, wring_record_lines(grant ? sizeof(say->grant) : 0), &draft))
        return false;
    fill_record_head(draft.record, say->kind, say->id);
    draft.record->context = say->context;
    draft.record->tag = say->tag;
    if (grant)
        memcpy((uint8_t *)draft.record + WRING_RECORD_HEAD, &say->grant, sizeof(say->grant));
    return show_record(peer, &draft);
}

static bool write_eager(struct wring_message_peer *peer, const struct wring_message *send)
{
    struct draft draft;
    if (!begin_record(peer, wring_record_lines(send->bytes), &draft))
        return false;
    fill_record_head(draft.record, WRING_RECORD_EAGER, send->context->me);
    draft.record->small = (uint16_t)send->bytes;
    draft.record->context = send->context->id;
    draft.record->tag = send->tag;
    if (send->bytes > 0)
        memcpy((uint8_t *)draft.record + WRING_RECORD_HEAD, send->buf, send->bytes);
    return show_record(peer, &draft);
}

static bool write_offer(struct wring_message_peer *peer, const struct wring_message *send)
{
    struct wring_record_offer offer = {send->bytes, (uint64_t)(uintptr_t)send->buf,
                                       send->context->me, 0};
    struct draft draft;
    if (!begin_record(peer, 1, &draft))
        return false;
    fill_record_head(draft.record, WRING_RECORD_OFFER, send->id);
    draft.record->context = send->context->id;
    draft.record->tag = send->tag;
    memcpy((uint8_t *)draft.record + WRING_RECORD_HEAD, &offer, sizeof(offer));
    return show_record(peer, &draft);
}

/** Read from the peer's ring how much it lets us send. */
static void look_up_limits(struct wring_message_peer *peer)
{
    if (peer->out == NULL)
        return;
    peer->out_stopped = atomic_load_explicit(&peer->out->stopped, memory_order_acquire) != 0;
    peer->eager_may = atomic_load_explicit(&peer->out->eager_limit, memory_order_relaxed);
    peer->offers_may = atomic_load_explicit(&peer->out->offer_limit, memory_order_relaxed);
}

/** Does what it lets us send ahead hold one more? */
static bool may_be_eager(struct wring_message_peer *peer, uint64_t cost)
{
    if ((int64_t)(peer->eager_may - peer->eager_sent) >= (int64_t)cost)
        return true;
    look_up_limits(peer);
    return (int64_t)(peer->eager_may - peer->eager_sent) >= (int64_t)cost;
}

static bool may_offer(struct wring_message_peer *peer)
{
    if ((int32_t)(peer->offers_may - peer->offers_sent) > 0)
        return true;
    look_up_limits(peer);
    return (int32_t)(peer->offers_may - peer->offers_sent) > 0;
}

/** @return false: not now */
static bool push_send(struct wring_message_peer *peer, struct wring_message *send)
{
    struct wring_messenger *messenger = peer->messenger;
    uint64_t cost = wring_message_cost(send->bytes);
    bool offered = send->bytes > 0 && (send->offered || wring_message_is_on_device(send));
    bool small = send->bytes <= messenger->eager_bytes && !offered;

    if (small && may_be_eager(peer, cost)) {
        if (!write_eager(peer, send))
            return false;
        peer->eager_sent += cost;
        return true;
    }
    if ((small && !peer->out_stopped) || !may_offer(peer))
        return false;
    if (send->id == 0 && wring_transfer_offer(messenger, send) == 0) {
        wring_message_no_memory(messenger);
        return false;
    }
    if (!write_offer(peer, send))
        return false;
    peer->offers_sent++;
    send->state = WRING_MESSAGE_OFFERED;
    return true;
}

/** No record that waits has room: the peer is to make some, though it may wait for nothing of
 *  ours. */
static void ring_bell(struct wring_message_peer *peer)
{
    const struct wring_control life = {.kind = WRING_CONTROL_HEARTBEAT};
    if (peer->out != NULL && !peer->rang)
        peer->rang = wring_control_send(peer->peer, &life) != WRING_ERR_AGAIN;
}

static bool push_says(struct wring_message_peer *peer)
{
    struct wring_messenger *messenger = peer->messenger;
    bool any = false;

    while (peer->says != NULL && write_say(peer, peer->says)) {
        struct wring_message_say *say = peer->says;
        peer->says = say->next;
        if (peer->says == NULL)
            peer->last_say = &peer->says;
        say->next = messenger->free_says;
        messenger->free_says = say;
        any = true;
    }
    return any;
}

/** The send's record has been written. @return whether it has ended with that */
static bool finish_written_send(struct wring_message_peer *peer, struct wring_message *send)
{
    struct wring_messenger *messenger = peer->messenger;
    if (send->state != WRING_MESSAGE_QUEUED)
        return false;
    if (peer->out_lines != NULL)
        wring_count(&wring_messenger_fabric(messenger)->bytes_sent, send->bytes);
    wring_message_finish(messenger, send, WRING_OK);
    return true;
}

bool wring_message_peer_push(struct wring_message_peer *peer)
{
    if (!peer->heard)
        return false;
    bool any = push_says(peer);
    while (peer->says == NULL && peer->sends != NULL && push_send(peer, peer->sends)) {
        struct wring_message *send = peer->sends;
        peer->sends = send->next;
        if (peer->sends == NULL)
            peer->last_send = &peer->sends;
        finish_written_send(peer, send);
        any = true;
    }
    if (peer->out != NULL && (any || peer->owes_wake))
        wake_peer(peer);
    peer->rang = peer->rang && !any;
    if (!any && (peer->says != NULL || peer->sends != NULL))
        ring_bell(peer);
    return any;
}

void wring_message_peer_say(struct wring_message_peer *peer, const struct wring_message_say *what)
{
    struct wring_messenger *messenger = peer->messenger;
    struct wring_message_say *say = messenger->free_says;

    if (say != NULL)
        messenger->free_says = say->next;
    else
        say = malloc(sizeof(*say));
    if (say == NULL) {
        wring_message_no_memory(messenger);
        return;
    }
    *say = *what;
    say->next = NULL;
    *peer->last_say = say;
    peer->last_say = &say->next;
    wring_message_peer_push(peer);
}

void wring_message_peer_unqueue(struct wring_message_peer *peer, struct wring_message *message)
{
    struct wring_message **at = &peer->sends;
    while (*at != message)
        at = &(*at)->next;
    *at = message->next;
    if (*at == NULL)
        peer->last_send = at;
}

bool wring_message_peer_send(struct wring_message_peer *peer, struct wring_message *message)
{
    message->state = WRING_MESSAGE_QUEUED;
    message->peer = peer;
    message->next = NULL;
    if (peer->heard && peer->says == NULL && peer->sends == NULL && push_send(peer, message)) {
        peer->rang = false;
        if (peer->out != NULL)
            wake_peer(peer);
        return finish_written_send(peer, message);
    }
    *peer->last_send = message;
    peer->last_send = &message->next;
    if (peer->heard)
        ring_bell(peer);
    return false;
}

/* ---- credits ---- */

static void show_credit(struct wring_message_peer *peer)
{
    struct wring_ring_head *head = peer->in;
    uint32_t offers = peer->offers_gone + WRING_PEER_OFFERS;
    atomic_store_explicit(&head->eager_limit, peer->eager_limit, memory_order_relaxed);
    atomic_store_explicit(&head->offer_limit, offers, memory_order_relaxed);
    atomic_store_explicit(&head->stopped, peer->stopped, memory_order_release);
    atomic_store_explicit(&head->taken, peer->in_at, memory_order_release);
    if (peer->out != NULL)
        wake_peer(peer); /* it may sleep until there is room */
}

static bool send_credit(struct wring_message_peer *peer)
{
    uint8_t message[32];
    wring_put_u32(message, WRING_CONTROL_RING);
    wring_put_u32(message + 4, CREDIT);
    wring_put_u64(message + 8, peer->in_at);
    wring_put_u64(message + 16, peer->eager_limit);
    wring_put_u32(message + 24, peer->offers_gone + WRING_PEER_OFFERS);
    wring_put_u32(message + 28, peer->stopped);
    return send_raw(peer, message, sizeof(message)) != WRING_ERR_AGAIN;
}

/** Let the peer send more ahead, as far as there is room for messages that no receive waits for. */
static void renew_limit(struct wring_message_peer *peer)
{
    struct wring_messenger *messenger = peer->messenger;
    uint64_t most = wring_message_cost(WRING_MESSAGE_EAGER_MAX);
    uint64_t consumed = peer->eager_come - peer->held, limit = consumed + WRING_PEER_UNEXPECTED;
    uint64_t ahead = peer->eager_come + WRING_PEER_UNEXPECTED; /* what we should like to allow */

    messenger->extra -= peer->extra;
    if (peer->held > WRING_PEER_UNEXPECTED / 2 &&
        messenger->extra + (ahead - limit) <= messenger->extra_most)
        limit = ahead;
    if (limit > peer->eager_limit)
        peer->eager_limit = limit;
    uint64_t base = consumed + WRING_PEER_UNEXPECTED;
    peer->extra = peer->eager_limit > base ? peer->eager_limit - base : 0;
    messenger->extra += peer->extra;
    peer->stopped = peer->eager_limit - peer->eager_come < most;
}

static bool is_credit_due(const struct wring_message_peer *peer)
{
    uint64_t few = 2 * wring_message_cost(WRING_MESSAGE_EAGER_MAX);
    uint64_t eager = peer->eager_limit - peer->eager_told;
    uint32_t offers = peer->offers_gone + WRING_PEER_OFFERS - peer->offers_told;

    return peer->in_at - peer->in_told >= CREDIT_LINES || peer->stopped != peer->stopped_told ||
           peer->owes_credit || eager >= CREDIT_COST ||
           (eager > 0 && peer->eager_told - peer->eager_come < few) || offers >= CREDIT_OFFERS ||
           (offers > 0 && peer->offers_told - peer->offers_come < FEW_OFFERS);
}

bool wring_message_peer_credit(struct wring_message_peer *peer)
{
    if (peer->rank == wring_messenger_fabric(peer->messenger)->rank)
        return false;
    renew_limit(peer);
    if (!peer->told || !is_credit_due(peer))
        return false;
    if (peer->in_mapped)
        show_credit(peer);
    else
        peer->owes_credit = !send_credit(peer);
    if (peer->owes_credit)
        return false;
    peer->in_told = peer->in_at;
    peer->eager_told = peer->eager_limit;
    peer->offers_told = peer->offers_gone + WRING_PEER_OFFERS;
    peer->stopped_told = peer->stopped;
    return true;
}

static void heard_credit(struct wring_message_peer *peer, const uint8_t *message, size_t bytes)
{
    if (bytes != 32 || peer->out != NULL) {
        wring_message_refuse(peer, "malformed credits for its messages");
        return;
    }
    uint64_t taken = wring_get_u64(message + 8);
    if (taken - peer->out_taken > peer->out_at - peer->out_taken) {
        wring_message_refuse(peer, "credits for messages that it was not sent");
        return;
    }
    peer->out_taken = taken;
    peer->eager_may = wring_get_u64(message + 16);
    peer->offers_may = wring_get_u32(message + 24);
    peer->out_stopped = wring_get_u32(message + 28) != 0;
}

void wring_messenger_heard(struct wring_messenger *messenger, struct wring_peer *fabric_peer,
                           const void *data, size_t bytes)
{
    uint32_t what = bytes >= 8 ? wring_get_u32((const uint8_t *)data + 4) : 0;
    struct wring_message_peer *peer = wring_message_peer_find(messenger, fabric_peer->rank);

    if (peer == NULL)
        wring_message_no_memory(messenger);
    else if (what == OPENING)
        heard_opening(peer, data, bytes);
    else if (what == CREDIT)
        heard_credit(peer, data, bytes);
    else
        wring_message_refuse(peer, "a malformed word about messages");
}
