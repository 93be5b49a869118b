/* SPDX-License-Identifier: Apache-2.0 */
/* How the data of an offer travels: it is read where it lies, or put to where it was granted. */
#include "transport/message/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/clock.h"

#define GRANTS_MAX (((uint32_t)1 << WRING_SEQUENCE_BITS) - 1) /* that immediates tell apart */
#define OFFER_BITS 20 /* of an id; the rest counts how often these were used */
#define OFFERS_STEP ((uint32_t)1 << OFFER_BITS)
#define OFFERS_MAX (OFFERS_STEP / 2)
#define POOL_SLOTS 16
#define READ_BYTES ((uint64_t)1 << 20)  /* in one go, before others have their turn */
#define READS_MAX 16                    /* messages that are read in turn in one go */
#define IMPORT_NS (10 * WRING_NS_PER_S) /* a region may be told of a little later than its key */

/** Into a list by priority, behind its equals. */
static void insert_by_priority(struct wring_message **list, struct wring_message *message)
{
    while (*list != NULL && (*list)->priority <= message->priority)
        list = &(*list)->next;
    message->next = *list;
    *list = message;
}

static void remove_from_list(struct wring_message **list, const struct wring_message *message)
{
    while (*list != NULL && *list != message)
        list = &(*list)->next;
    if (*list != NULL)
        *list = message->next;
}

/* ---- offers ---- */

static bool grow_offers(struct wring_messenger *messenger)
{
    uint32_t n = messenger->n_offers, grown = n > 0 ? 2 * n : 64;
    if (grown > OFFERS_MAX)
        return false;
    struct wring_message **offers = realloc(messenger->offers, grown * sizeof(*offers));
    if (offers == NULL)
        return false;
    messenger->offers = offers;
    uint32_t *free_offers = realloc(messenger->free_offers, grown * sizeof(*free_offers));
    if (free_offers == NULL)
        return false;
    messenger->free_offers = free_offers;
    for (uint32_t i = grown; i > n; i--) {
        offers[i - 1] = NULL;
        free_offers[messenger->n_free_offers++] = i;
    }
    messenger->n_offers = grown;
    return true;
}

static struct wring_message **offer_entry(const struct wring_messenger *messenger, uint32_t id)
{
    return &messenger->offers[(id & (OFFERS_STEP - 1)) - 1];
}

/** Our offer of that id, which a peer has said; NULL: there is none. */
static struct wring_message *find_own_offer(const struct wring_message_peer *peer, uint32_t id)
{
    const struct wring_messenger *messenger = peer->messenger;
    uint32_t at = id & (OFFERS_STEP - 1);
    struct wring_message *message =
        at > 0 && at <= messenger->n_offers ? *offer_entry(messenger, id) : NULL;
    return message != NULL && message->id == id && message->peer == peer ? message : NULL;
}

uint32_t wring_transfer_offer(struct wring_messenger *messenger, struct wring_message *message)
{
    if (messenger->n_free_offers == 0 && !grow_offers(messenger))
        return 0;
    message->id = messenger->free_offers[--messenger->n_free_offers];
    *offer_entry(messenger, message->id) = message;
    return message->id;
}

void wring_transfer_withdraw(struct wring_messenger *messenger, struct wring_message *message)
{
    if (message->id == 0)
        return;
    *offer_entry(messenger, message->id) = NULL;
    /* what is still said of this one must not be taken for the next one's */
    messenger->free_offers[messenger->n_free_offers++] = message->id + OFFERS_STEP;
    message->id = 0;
}

/** Our offer that a peer names. NULL, and the peer is refused: there is none. */
static struct wring_message *find_offer_or_refuse(struct wring_message_peer *peer, uint32_t id)
{
    struct wring_message *message = find_own_offer(peer, id);
    if (message != NULL && message->state >= WRING_MESSAGE_OFFERED)
        return message;
    wring_message_refuse(peer, "word of a message that it was not offered");
    return NULL;
}

/* ---- the receiver ---- */

static void say_done(struct wring_message_peer *peer, uint32_t id, enum wring_status status)
{
    wring_message_peer_say(peer, &(struct wring_message_say){
                                     .kind = WRING_RECORD_DONE, .id = id, .tag = (uint64_t)status});
}

static bool grow_grants(struct wring_messenger *messenger)
{
    uint32_t n = messenger->n_grants, grown = n > 0 ? 2 * n : 32;
    grown = grown < GRANTS_MAX ? grown : GRANTS_MAX;
    if (grown == n)
        return false;
    struct wring_message_granted *grants = realloc(messenger->grants, grown * sizeof(*grants));
    if (grants == NULL)
        return false;
    messenger->grants = grants;
    messenger->n_grants = grown;
    for (uint32_t i = grown; i > n; i--) {
        grants[i - 1] = (struct wring_message_granted){.next_free = messenger->free_grant};
        messenger->free_grant = i;
    }
    return true;
}

/** @return NULL: there are as many already as can be told apart, or no memory */
static struct wring_message_granted *new_grant(struct wring_messenger *messenger)
{
    if (messenger->free_grant == 0 && !grow_grants(messenger))
        return NULL;
    struct wring_message_granted *grant = &messenger->grants[messenger->free_grant - 1];
    messenger->free_grant = grant->next_free;
    *grant = (struct wring_message_granted){0};
    return grant;
}

static void free_grant(struct wring_messenger *messenger, struct wring_message_granted *grant)
{
    if (grant->region != NULL)
        grant->region->provider->ops->region_destroy(grant->region);
    if (grant->slot != NULL)
        messenger->slots[messenger->n_slots++] = grant->slot;
    *grant = (struct wring_message_granted){.next_free = messenger->free_grant};
    messenger->free_grant = (uint32_t)(grant - messenger->grants) + 1;
}

/** Tell the sender where it may put that part. */
static void say_grant(struct wring_message *receive, const struct wring_message_granted *grant,
                      struct wring_region *region, const void *target)
{
    struct wring_messenger *messenger = receive->peer->messenger;
    struct wring_message_say say = {.kind = WRING_RECORD_GRANT, .id = receive->remote};

    say.grant.at = grant->at;
    say.grant.bytes = grant->bytes;
    say.grant.total = receive->length;
    say.grant.offset = (uint64_t)((uintptr_t)target - (uintptr_t)region->base);
    say.grant.grant = (uint32_t)(grant - messenger->grants);
    say.grant.pool = grant->slot != NULL;
    say.grant.key_bytes = (uint16_t)region->provider->ops->region_export(region, say.grant.key);
    wring_message_peer_say(receive->peer, &say);
}

/** Grant all of it at once, in its own memory. @return false: there are too many grants */
static bool grant_memory(struct wring_message *receive, struct wring_region *region, bool borrowed)
{
    struct wring_message_granted *grant = new_grant(receive->peer->messenger);
    if (grant == NULL)
        return false;
    grant->receive = receive;
    grant->peer = receive->peer;
    grant->bytes = receive->length;
    grant->region = borrowed ? NULL : region;
    receive->granted = receive->length;
    receive->state = WRING_MESSAGE_FILLING;
    say_grant(receive, grant, region, receive->buf);
    return true;
}

/** Registered memory: all of it. @return false: it is not */
static bool grant_registered(struct wring_message *receive)
{
    const struct wring_block *block = receive->block;
    struct wring_region *region =
        block != NULL ? block->regions[receive->peer->peer->device] : NULL;
    return region != NULL && grant_memory(receive, region, true);
}

/** Where registration costs nothing: for this message alone, which can be revoked. @return false:
 *  it does */
static bool grant_for_once(struct wring_message *receive)
{
    const struct wring_device *device = wring_message_device(receive->peer);
    struct wring_memory memory = {
        .base = receive->buf, .bytes = receive->length, .kind = WRING_MEMORY_HOST, .fd = -1};
    struct wring_region *region;

    if (!wring_device_registers_freely(device) ||
        device->provider->ops->region_create(device->provider, &memory, &region) != WRING_OK)
        return false;
    if (grant_memory(receive, region, false))
        return true;
    device->provider->ops->region_destroy(region);
    return false;
}

static void begin_wanting(struct wring_messenger *messenger, struct wring_message *receive)
{
    receive->state = WRING_MESSAGE_WANTING;
    insert_by_priority(&messenger->wanting, receive);
}

static void end_read(struct wring_messenger *messenger, struct wring_message *receive)
{
    say_done(receive->peer, receive->remote, WRING_OK);
    wring_message_finish_receive(messenger, receive);
}

/**
 * Read a share of it where its sender has it.
 * @return bytes read; -1: we may not, or no longer
 */
static int64_t read_share(struct wring_message *receive)
{
    uint64_t left = receive->length - receive->granted,
             most = left < READ_BYTES ? left : READ_BYTES;
    struct iovec local = {(uint8_t *)receive->buf + receive->granted, (size_t)most};
    struct iovec remote = {(void *)(uintptr_t)(receive->address + receive->granted), (size_t)most};
    ssize_t got = process_vm_readv(receive->peer->pid, &local, 1, &remote, 1, 0);
    if (got <= 0)
        return -1;
    receive->granted += (uint64_t)got;
    wring_count(&wring_messenger_fabric(receive->peer->messenger)->bytes_received, (uint64_t)got);
    return got;
}

/** @return whether it has ended */
static bool read_next_share(struct wring_messenger *messenger, struct wring_message *receive)
{
    if (read_share(receive) < 0) { /* what has come so far is put once more */
        remove_from_list(&messenger->reading, receive);
        receive->granted = 0;
        begin_wanting(messenger, receive);
        return false;
    }
    if (receive->granted < receive->length)
        return false;
    remove_from_list(&messenger->reading, receive);
    end_read(messenger, receive);
    return true;
}

bool wring_transfer_begin(struct wring_messenger *messenger, struct wring_message *receive)
{
    if (receive->length == 0) {
        end_read(messenger, receive);
        return true;
    }
    if (wring_message_is_on_device(receive)) { /* it can be had in no other way */
        if (!grant_registered(receive))
            wring_message_no_memory(messenger);
        return false;
    }
    if (grant_for_once(receive) || grant_registered(receive))
        return false;
    if (receive->peer->readable) {
        receive->state = WRING_MESSAGE_READING;
        insert_by_priority(&messenger->reading, receive);
        return receive->length <= READ_BYTES && read_next_share(messenger, receive);
    }
    begin_wanting(messenger, receive);
    return false;
}

static bool make_pool(struct wring_messenger *messenger)
{
    size_t bytes = (size_t)messenger->engine->config->chunk_bytes;

    messenger->slots = calloc(POOL_SLOTS, sizeof(*messenger->slots));
    if (messenger->slots == NULL ||
        wring_block_alloc(wring_messenger_fabric(messenger), POOL_SLOTS * bytes,
                          &messenger->pool) != WRING_OK)
        return false;
    messenger->slot_bytes = bytes;
    for (uint32_t i = POOL_SLOTS; i > 0; i--)
        messenger->slots[messenger->n_slots++] =
            (uint8_t *)messenger->pool.memory.base + (i - 1) * bytes;
    return true;
}

/** The receive that is next: by priority, then by piece, then by rank. */
static struct wring_message *next_wanting(const struct wring_messenger *messenger)
{
    struct wring_message *best = messenger->wanting;
    for (struct wring_message *at = best; at != NULL && at->priority == best->priority;
         at = at->next)
        if (at->granted < best->granted ||
            (at->granted == best->granted && at->peer->rank < best->peer->rank))
            best = at;
    return best;
}

/** Grant a slot for a piece. @return false: none is free */
static bool grant_slot(struct wring_messenger *messenger, struct wring_message *receive)
{
    struct wring_message_granted *grant = messenger->n_slots > 0 ? new_grant(messenger) : NULL;
    if (grant == NULL)
        return false;
    uint64_t left = receive->length - receive->granted;
    grant->receive = receive;
    grant->peer = receive->peer;
    grant->slot = messenger->slots[--messenger->n_slots];
    grant->at = receive->granted;
    grant->bytes = left < messenger->slot_bytes ? left : messenger->slot_bytes;
    receive->granted += grant->bytes;
    if (receive->granted == receive->length) {
        remove_from_list(&messenger->wanting, receive);
        receive->state = WRING_MESSAGE_FILLING;
    }
    say_grant(receive, grant, messenger->pool.regions[receive->peer->peer->device], grant->slot);
    return true;
}

bool wring_transfer_receive(struct wring_messenger *messenger)
{
    bool any = messenger->reading != NULL;
    unsigned n = 0;

    for (struct wring_message *at = messenger->reading, *next; at != NULL && n < READS_MAX;
         at = next, n++) {
        next = at->next;
        read_next_share(messenger, at);
    }
    if (messenger->wanting != NULL && messenger->pool.fabric == NULL && !make_pool(messenger)) {
        wring_message_no_memory(messenger);
        return any;
    }
    while (messenger->wanting != NULL && grant_slot(messenger, next_wanting(messenger)))
        any = true;
    return any;
}

static void drop_grants_of(struct wring_messenger *messenger, const struct wring_message *receive)
{
    for (uint32_t i = 0; i < messenger->n_grants; i++)
        if (messenger->grants[i].receive == receive)
            free_grant(messenger, &messenger->grants[i]);
}

/** One that was given up, here or there, ends once all that its sender has put is here. NULL is
 *  fine. */
static void settle_receive(struct wring_messenger *messenger, struct wring_message *receive)
{
    if (receive == NULL || receive->state != WRING_MESSAGE_ENDING ||
        receive->moved != receive->limit)
        return;
    drop_grants_of(messenger, receive);
    if (receive->again)
        wring_incoming_receive_again(messenger, receive);
    else
        wring_message_finish(messenger, receive, WRING_ERR_CANCELLED);
}

void wring_transfer_arrived(struct wring_message_peer *peer, uint32_t number, size_t bytes)
{
    struct wring_messenger *messenger = peer->messenger;
    struct wring_message_granted *grant =
        number < messenger->n_grants ? &messenger->grants[number] : NULL;

    if (grant == NULL || grant->peer != peer || bytes > grant->bytes - grant->come) {
        wring_message_refuse(peer, "%zu bytes of a message that it was not granted", bytes);
        return;
    }
    struct wring_message *receive = grant->receive;
    grant->come += bytes;
    if (receive != NULL)
        receive->moved += bytes;
    if (grant->come < grant->bytes) {
        settle_receive(messenger, receive);
        return;
    }
    if (receive != NULL) {
        if (grant->slot != NULL && receive->buf != NULL)
            memcpy((uint8_t *)receive->buf + grant->at, grant->slot, (size_t)grant->bytes);
        receive->finished += grant->bytes;
    }
    free_grant(messenger, grant);
    if (receive != NULL && receive->finished == receive->length)
        wring_message_finish_receive(messenger, receive);
    else
        settle_receive(messenger, receive);
}

/* ---- the sender ---- */

static void settle_send(struct wring_message *message);

/** All of it has left. */
static void end_send(struct wring_message_peer *peer, struct wring_message *message,
                     enum wring_status status)
{
    remove_from_list(&peer->granted, message);
    wring_transfer_withdraw(peer->messenger, message);
    wring_message_finish(peer->messenger, message, status);
}

void wring_transfer_heard_done(struct wring_message_peer *peer, uint32_t id, uint64_t status)
{
    struct wring_message *message = find_offer_or_refuse(peer, id);
    if (message == NULL)
        return;
    if (message->state == WRING_MESSAGE_LEFT && !message->confirmed) {
        message->confirmed = true;
        if (status != WRING_OK) {
            settle_send(message);
            return;
        }
    } else if (message->state != WRING_MESSAGE_OFFERED) {
        wring_message_refuse(peer, "an end of a message that has none yet");
        return;
    }
    if (status == WRING_OK)
        wring_count(&wring_messenger_fabric(peer->messenger)->bytes_sent, message->bytes);
    bool given_up = status == WRING_OK || status == WRING_ERR_CANCELLED;
    /* else it has given its group back, or closes */
    end_send(peer, message, given_up ? (enum wring_status)status : WRING_ERR_PEER);
}

static bool is_grant_sound(const struct wring_message *message,
                           const struct wring_record_grant *grant)
{
    bool first = message->state == WRING_MESSAGE_OFFERED;
    return grant->at == message->told && grant->bytes > 0 && grant->total <= message->bytes &&
           grant->bytes <= grant->total - grant->at && (first || grant->total == message->length) &&
           grant->grant < GRANTS_MAX && grant->key_bytes > 0 &&
           grant->key_bytes <= WRING_REGION_KEY_MAX;
}

static struct wring_message_grant *keep_grant(struct wring_messenger *messenger,
                                              const struct wring_record_grant *record)
{
    struct wring_message_grant *grant = messenger->free_grants;
    if (grant != NULL) {
        messenger->free_grants = grant->next;
    } else {
        grant = calloc(1, sizeof(*grant));
        if (grant == NULL) {
            wring_message_no_memory(messenger);
            return NULL;
        }
        grant->next_all = messenger->all_grants;
        messenger->all_grants = grant;
    }
    grant->next = NULL;
    grant->record = *record;
    grant->put = grant->until_ns = grant->under_way = 0;
    return grant;
}

void wring_transfer_heard_grant(struct wring_message_peer *peer, uint32_t id,
                                const struct wring_record_grant *record)
{
    struct wring_message *message = find_offer_or_refuse(peer, id);
    if (message == NULL)
        return;
    if (message->state == WRING_MESSAGE_LEFT)
        return; /* the receiver has not heard of that yet */
    if (message->state == WRING_MESSAGE_STOPPED || !is_grant_sound(message, record)) {
        wring_message_refuse(peer, "a malformed grant for a message");
        return;
    }
    struct wring_message_grant *grant = keep_grant(peer->messenger, record);
    if (grant == NULL)
        return;
    if (message->state == WRING_MESSAGE_OFFERED) {
        message->state = WRING_MESSAGE_GRANTED;
        message->length = record->total;
        message->last_grant = &message->grants;
        insert_by_priority(&peer->granted, message);
    }
    message->told += record->bytes;
    *message->last_grant = grant;
    message->last_grant = &grant->next;
}

/** The region that it names. @return WRING_ERR_AGAIN: not yet */
static enum wring_status import_grant(struct wring_message_peer *peer,
                                      struct wring_message_grant *grant)
{
    struct wring_remote **remote = grant->record.pool ? &peer->pool : &grant->remote;
    if (*remote != NULL)
        return WRING_OK;
    grant->provider = peer->peer->conn->provider;
    enum wring_status status = peer->peer->conn->provider->ops->remote_import(
        peer->peer->conn, grant->record.key, grant->record.key_bytes, remote);
    if (status != WRING_ERR_FRAME && status != WRING_ERR_CLOSED) /* unknown so far */
        return status;
    if (grant->until_ns == 0)
        grant->until_ns = wring_deadline_in(IMPORT_NS);
    return wring_now_ns() < grant->until_ns ? WRING_ERR_AGAIN : WRING_ERR_FRAME;
}

/** All puts of a grant are done. */
static void end_grant(struct wring_message_peer *peer, struct wring_message_grant *grant)
{
    struct wring_messenger *messenger = peer->messenger;
    if (grant->remote != NULL)
        wring_message_device(peer)->provider->ops->remote_release(grant->remote);
    grant->remote = NULL;
    grant->next = messenger->free_grants;
    messenger->free_grants = grant;
}

void wring_transfer_put_done(struct wring_message_peer *peer, struct wring_message_put *put)
{
    struct wring_message *message = put->message;
    struct wring_message_grant *grant = put->grant;

    message->finished += put->bytes;
    wring_message_put_free(peer->messenger, put);
    if (--grant->under_way == 0 && grant->put == grant->record.bytes)
        end_grant(peer, grant);
    if (message->finished == message->length)
        end_send(peer, message, WRING_OK);
    else if (message->state != WRING_MESSAGE_GRANTED)
        settle_send(message);
}

/** Put the next piece of a grant that is imported. Errors: as a put's. */
static enum wring_status put_piece(struct wring_message_peer *peer, struct wring_message *message,
                                   struct wring_message_grant *grant)
{
    struct wring_messenger *messenger = peer->messenger;
    struct wring_fabric *fabric = wring_messenger_fabric(messenger);
    const struct wring_device *device = wring_message_device(peer);
    uint64_t left = grant->record.bytes - grant->put, most = messenger->engine->config->chunk_bytes;
    const uint8_t *data = (const uint8_t *)message->buf + grant->record.at + grant->put;
    struct wring_region *region =
        message->block != NULL ? message->block->regions[peer->peer->device] : NULL;
    bool staged = region == NULL && !device->caps.local_any;
    struct wring_message_put *put = wring_message_put_take(messenger, message, staged);

    if (put == NULL)
        return WRING_ERR_AGAIN;
    put->grant = grant;
    put->bytes = (size_t)(left < most ? left : most);
    if (staged) {
        memcpy(put->stage, data, put->bytes);
        region = messenger->stages.regions[peer->peer->device];
    }
    enum wring_status status = wring_fabric_put(
        fabric, peer->peer, region, staged ? put->stage : data,
        grant->record.pool ? peer->pool : grant->remote, grant->record.offset + grant->put,
        put->bytes, WRING_MESSAGE_CHANNEL << WRING_SEQUENCE_BITS | (grant->record.grant + 1),
        (uint64_t)(uintptr_t)put | WRING_MESSAGE_COOKIE);
    if (status != WRING_OK) {
        wring_message_put_free(messenger, put);
        return status;
    }
    grant->put += put->bytes;
    message->moved += put->bytes;
    grant->under_way++;
    if (grant->put == grant->record.bytes) { /* the next one's turn */
        message->grants = grant->next;
        if (message->grants == NULL)
            message->last_grant = &message->grants;
    }
    if (peer->peer->put_copies)
        wring_transfer_put_done(peer, put);
    return WRING_OK;
}

static enum wring_status put_next_piece(struct wring_message_peer *peer,
                                        struct wring_message *message)
{
    enum wring_status status = import_grant(peer, message->grants);
    if (status == WRING_ERR_FRAME) {
        wring_message_refuse(peer, "a grant that leads nowhere");
        return WRING_ERR_AGAIN;
    }
    return status == WRING_OK ? put_piece(peer, message, message->grants) : status;
}

bool wring_transfer_send(struct wring_message_peer *peer)
{
    bool any = false;
    if (peer->peer->state != WRING_PEER_READY)
        return false;
    for (struct wring_message *at = peer->granted, *next; at != NULL; at = next) {
        next = at->next;
        while (at != NULL && at->grants != NULL) {
            bool last = at->told == at->length && at->grants->next == NULL &&
                        at->grants->record.bytes - at->grants->put <=
                            peer->messenger->engine->config->chunk_bytes;
            enum wring_status status = put_next_piece(peer, at);
            if (status == WRING_ERR_AGAIN)
                return any;
            if (status != WRING_OK) {
                wring_fabric_put_failed(peer->peer, status);
                return any;
            }
            any = true;
            at = last ? NULL : at; /* it may have ended with that */
        }
    }
    return any;
}

/* ---- what is given up ---- */

/** Nothing more of it is put. */
static void stop_puts(struct wring_message *message)
{
    struct wring_message_peer *peer = message->peer;

    remove_from_list(&peer->granted, message);
    while (message->grants != NULL) {
        struct wring_message_grant *grant = message->grants;
        message->grants = grant->next;
        grant->record.bytes = grant->put; /* what is under way of it ends it */
        if (grant->under_way == 0)
            end_grant(peer, grant);
    }
    message->last_grant = &message->grants;
}

/** One that was given up, here or there, ends once nothing of it is under way any more. */
static void settle_send(struct wring_message *message)
{
    bool answered = message->state == WRING_MESSAGE_STOPPED || message->confirmed;
    if (answered && message->finished == message->moved)
        end_send(message->peer, message, WRING_ERR_CANCELLED);
}

static void cancel_send(struct wring_message *message)
{
    if (message->state == WRING_MESSAGE_GRANTED && message->moved == message->length)
        return; /* all of it has left */
    stop_puts(message);
    message->state = WRING_MESSAGE_LEFT;
    wring_message_peer_say(message->peer,
                           &(struct wring_message_say){.kind = WRING_RECORD_WITHDRAW,
                                                       .id = message->id,
                                                       .context = message->context->id,
                                                       .tag = message->moved});
}

/** The sender is to put no more into granted memory. @param limit  bytes that it has put;
 *  UINT64_MAX: the sender is yet to say */
static void stop_receive(struct wring_messenger *messenger, struct wring_message *receive,
                         uint64_t limit)
{
    remove_from_list(&messenger->reading, receive);
    remove_from_list(&messenger->wanting, receive);
    receive->state = WRING_MESSAGE_ENDING;
    receive->limit = limit;
    settle_receive(messenger, receive);
}

static void cancel_receive(struct wring_messenger *messenger, struct wring_message *receive)
{
    bool granted = receive->state == WRING_MESSAGE_FILLING ||
                   (receive->state == WRING_MESSAGE_WANTING && receive->granted > 0);

    receive->again = false;
    if (receive->state == WRING_MESSAGE_ENDING) {
        return; /* its message was taken back, and is about to be gone */
    }
    if (granted) {
        wring_message_peer_say(
            receive->peer,
            &(struct wring_message_say){.kind = WRING_RECORD_RECALL, .id = receive->remote});
        stop_receive(messenger, receive, UINT64_MAX);
        return;
    }
    say_done(receive->peer, receive->remote, WRING_ERR_CANCELLED);
    stop_receive(messenger, receive, 0);
}

void wring_transfer_cancel(struct wring_messenger *messenger, struct wring_message *message)
{
    if (message->state == WRING_MESSAGE_LEFT || message->state == WRING_MESSAGE_STOPPED)
        return;
    if (message->is_send)
        cancel_send(message);
    else
        cancel_receive(messenger, message);
}

/** The receive that has taken an offer of a peer's; NULL: none has, or it has ended. */
static struct wring_message *find_receive(const struct wring_message_peer *peer, uint32_t id)
{
    struct wring_message *at = peer->messenger->newest;
    while (at != NULL && (at->is_send || at->peer != peer || at->remote != id))
        at = at->older;
    return at;
}

void wring_transfer_heard_withdraw(struct wring_message_peer *peer, uint64_t context, uint32_t id,
                                   uint64_t put)
{
    struct wring_messenger *messenger = peer->messenger;
    struct wring_message *receive = id > 0 ? find_receive(peer, id) : NULL;

    if (receive == NULL) {
        if (wring_incoming_withdrawn(peer, context, id))
            say_done(peer, id, WRING_ERR_CANCELLED);
        return; /* else it has been answered already */
    }
    bool ending = receive->state == WRING_MESSAGE_ENDING;
    bool reading = receive->state == WRING_MESSAGE_READING;
    if (put < (reading ? 0 : receive->moved) || put > (reading ? 0 : receive->granted)) {
        wring_message_refuse(peer, "a malformed word of a message that it takes back");
        return;
    }
    say_done(peer, id, WRING_ERR_CANCELLED);
    receive->remote = 0; /* which may name another one from now on */
    receive->again = !ending;
    stop_receive(messenger, receive, put);
}

void wring_transfer_heard_recall(struct wring_message_peer *peer, uint32_t id)
{
    struct wring_message *message = find_own_offer(peer, id);

    if (message == NULL || message->state != WRING_MESSAGE_GRANTED ||
        message->moved == message->length)
        return; /* it had left, or was taken back, before we heard that */
    stop_puts(message);
    message->state = WRING_MESSAGE_STOPPED;
    wring_message_peer_say(
        peer,
        &(struct wring_message_say){.kind = WRING_RECORD_STOPPED, .id = id, .tag = message->moved});
    settle_send(message);
}

void wring_transfer_heard_stopped(struct wring_message_peer *peer, uint32_t id, uint64_t put)
{
    struct wring_message *receive = id > 0 ? find_receive(peer, id) : NULL;

    if (receive == NULL || receive->state != WRING_MESSAGE_ENDING || receive->limit != UINT64_MAX ||
        put < receive->moved || put > receive->granted) {
        wring_message_refuse(peer, "word of puts that it was not asked to stop");
        return;
    }
    receive->remote = 0;
    receive->limit = put;
    settle_receive(peer->messenger, receive);
}

/** Does a peer put straight into its memory? */
static bool is_granted_own_memory(const struct wring_messenger *messenger,
                                  const struct wring_message *receive)
{
    for (uint32_t i = 0; i < messenger->n_grants; i++) {
        const struct wring_message_granted *grant = &messenger->grants[i];
        if (grant->receive == receive && grant->slot == NULL && !grant->revoked)
            return true;
    }
    return false;
}

void wring_transfer_revoke(struct wring_messenger *messenger, const struct wring_message *receive)
{
    for (uint32_t i = 0; i < messenger->n_grants; i++) {
        struct wring_message_granted *grant = &messenger->grants[i];
        struct wring_region *region = grant->region;
        if (grant->receive != receive || region == NULL ||
            region->provider->ops->region_revoke(region) != WRING_OK)
            continue;
        grant->region = NULL;
        grant->revoked = true; /* what comes is counted, and nothing else */
    }
}

bool wring_transfer_is_exposed(const struct wring_messenger *messenger,
                               const struct wring_message *message)
{
    if (!message->is_send)
        return is_granted_own_memory(messenger, message);
    bool may_be_read = message->state == WRING_MESSAGE_LEFT && !message->confirmed &&
                       message->moved == 0 &&
                       wring_message_device(message->peer)->caps.same_host_only;
    return may_be_read || (message->moved != message->finished &&
                           wring_fabric_copy_sources(message->peer->peer) != WRING_OK);
}

static void replace_in(struct wring_message **list, struct wring_message *from,
                       struct wring_message *to)
{
    while (*list != NULL && *list != from)
        list = &(*list)->next;
    if (*list != NULL)
        *list = to;
}

void wring_transfer_hand_on(struct wring_messenger *messenger, struct wring_message *from,
                            struct wring_message *to)
{
    if (from->grants == NULL)
        to->last_grant = &to->grants;
    if (from->is_send && from->id > 0)
        *offer_entry(messenger, from->id) = to;
    replace_in(&from->peer->granted, from, to);
    for (struct wring_message_put *at = messenger->all_puts; at != NULL; at = at->next_all)
        if (at->message == from)
            at->message = to;
    for (uint32_t i = 0; i < messenger->n_grants; i++)
        if (messenger->grants[i].receive == from)
            messenger->grants[i].receive = to;
}

/* ---- the end ---- */

void wring_transfer_drop(struct wring_messenger *messenger, struct wring_message *message)
{
    if (message->is_send && message->peer == NULL) {
        wring_incoming_withdraw_own(messenger, message);
    } else if (message->is_send) {
        wring_transfer_withdraw(messenger, message);
        while (message->grants != NULL) {
            struct wring_message_grant *grant = message->grants;
            message->grants = grant->next;
            end_grant(message->peer, grant);
        }
    } else if (message->state == WRING_MESSAGE_POSTED) {
        wring_match_remove(&message->receive.link);
    } else if (message->state == WRING_MESSAGE_FILLING || message->state == WRING_MESSAGE_WANTING ||
               message->state == WRING_MESSAGE_ENDING) {
        drop_grants_of(messenger, message);
    }
}

void wring_transfer_finish(struct wring_messenger *messenger)
{
    while (messenger->all_puts != NULL) {
        struct wring_message_put *put = messenger->all_puts;
        messenger->all_puts = put->next_all;
        free(put);
    }
    while (messenger->all_grants != NULL) {
        struct wring_message_grant *grant = messenger->all_grants;
        messenger->all_grants = grant->next_all;
        if (grant->remote != NULL) /* its provider outlives its connection */
            grant->provider->ops->remote_release(grant->remote);
        free(grant);
    }
    for (uint32_t i = 0; i < messenger->n_grants; i++)
        if (messenger->grants[i].region != NULL)
            free_grant(messenger, &messenger->grants[i]);
    wring_block_finish(&messenger->pool);
    wring_block_finish(&messenger->stages);
    free(messenger->free_stages);
    free(messenger->free_pieces);
    free(messenger->slots);
    free(messenger->grants);
    free(messenger->offers);
    free(messenger->free_offers);
}
