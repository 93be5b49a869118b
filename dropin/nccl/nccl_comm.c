/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Connections: messages of one process to another one, with NCCL's rules on top of wring's.
 *
 * An irecv() is a receive for each of its buffers, by tag, and a notice to the sender that
 * names their tags and sizes. So the sender knows which irecv() is the head: the first that is not
 * full. A send takes a buffer of its tag there, or is asked for again. That is the order in which
 * wring matches messages, too: those of one tag, as they were posted.
 *
 * A small message leaves although no irecv() is known. It ends once its buffer is known: like that
 * the sender sees as well as the receiver that a message was larger than its buffer.
 *
 * A notice has kind u32, n u32, and for each buffer tag u32, bytes u64 (with NOTED, and ON_DEVICE);
 * the last word of a sender is one, too, without buffers. After a change of these, the handle or a
 * connection request, raise FORMAT of nccl_handle.c.
 *
 * A message for a buffer in device memory, or for one that is not known on a device that has such
 * memory, is offered: its sender may not be the one to copy it.
 *
 * Each side says when it closes, and what is left of a connection waits for the other side's word,
 * so that no message of a connection that is gone stays with the link.
 */
#include "dropin/nccl/nccl_own.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define EAGER_BYTES ((size_t)8 << 10)

/* ---- failures ---- */

/** The connection is over. @return NCCL's code */
static int fail_comm(struct wring_nccl_comm *comm, int code, const char *what)
{
    if (comm->failed == WRING_NCCL_SUCCESS) {
        comm->failed = code;
        wring_nccl_say(
            WRING_NCCL_LOG_WARN, "wring: %s %s: %s (device %s at %s, %s, connection %" PRIu32 ")",
            comm->sends ? "sending to" : "receiving from", comm->link->name, what,
            comm->link->device->name, wring_nccl_own.address, wring_nccl_own.providers, comm->conn);
    }
    return comm->failed;
}

/** wring ended something so. */
static int fail_comm_by_status(struct wring_nccl_comm *comm, enum wring_status status)
{
    char why[256], what[512];

    wring_nccl_path_why(&comm->link->path, why, sizeof(why));
    snprintf(what, sizeof(what), "%s%s%s", wring_status_text(status), why[0] != '\0' ? ": " : "",
             why);
    return fail_comm(comm, wring_nccl_code_of(status), what);
}

static int fail_comm_closed(struct wring_nccl_comm *comm)
{
    return fail_comm(comm, WRING_NCCL_REMOTE_ERROR,
                     "the peer has closed its side before all that is under way came through");
}

static int say_too_large(struct wring_nccl_request *request, uint64_t bytes, uint64_t room, int tag)
{
    const struct wring_nccl_comm *comm = request->comm;

    if (request->failed == WRING_NCCL_SUCCESS)
        wring_nccl_say(
            WRING_NCCL_LOG_WARN,
            "wring: %s %s: a message of %" PRIu64 " bytes with tag %d is larger than its "
            "receive of %" PRIu64 " bytes: ranks disagree on the size of a collective, "
            "or on NCCL_BUFFSIZE and the like",
            comm->sends ? "sending to" : "receiving from", comm->link->name, bytes, tag, room);
    request->failed = WRING_NCCL_INVALID_USAGE;
    return request->failed;
}

/* ---- requests ---- */

/** Drive the link a little, if nobody else does. */
static void drive_link(const struct wring_nccl_comm *comm)
{
    wring_nccl_path_drive(&comm->link->path);
}

/** How something ended; it is gone then. WRING_ERR_AGAIN: it has not ended. */
static enum wring_status take_message_end(const struct wring_nccl_comm *comm,
                                          struct wring_nccl_message **message,
                                          struct wring_message_end *end)
{
    return wring_nccl_path_look(&comm->link->path, message, end);
}

/** NULL: all are under way. */
static struct wring_nccl_request *take_request(struct wring_nccl_comm *comm, unsigned n)
{
    struct wring_nccl_request *request = comm->free;
    unsigned most = comm->sends ? WRING_NCCL_SENDS : WRING_NCCL_RECVS;
    if (request == NULL || (n > 0 && comm->n_busy == most))
        return NULL;
    comm->free = request->next;
    comm->n_busy += n > 0;
    *request = (struct wring_nccl_request){.comm = comm, .busy = true, .n = n};
    return request;
}

static void give_request_back(struct wring_nccl_request *request)
{
    struct wring_nccl_comm *comm = request->comm;
    wring_nccl_pack_end(request);
    comm->n_busy -= request->n > 0;
    request->busy = false;
    request->next = comm->free;
    comm->free = request;
}

/** Nothing is under way there any more. */
static bool take_if_ended(const struct wring_nccl_comm *comm, struct wring_nccl_message **message)
{
    return *message == NULL || take_message_end(comm, message, NULL) != WRING_ERR_AGAIN;
}

/** Its memory is the caller's after this. */
static void cancel_message(const struct wring_nccl_comm *comm, struct wring_nccl_message **message)
{
    wring_nccl_path_cancel(&comm->link->path, message);
}

/** A receive of the connection's. */
static enum wring_status post_receive(const struct wring_nccl_comm *comm,
                                      enum wring_nccl_class class, int tag, void *data,
                                      uint64_t bytes, struct wring_nccl_message **message)
{
    return wring_nccl_path_recv(&comm->link->path, data, bytes, wring_nccl_tag_of(comm, class, tag),
                                message);
}

/* ---- making and closing ---- */

static struct wring_nccl_comm *comm_new(struct wring_nccl_link *link, bool sends)
{
    unsigned n = sends ? WRING_NCCL_SENDS : WRING_NCCL_RECVS + WRING_NCCL_FLUSHES;
    struct wring_nccl_comm *comm = calloc(1, sizeof(*comm) + n * sizeof(comm->requests[0]));
    if (comm == NULL)
        return NULL;
    comm->link = link;
    comm->sends = sends;
    comm->n_requests = n;
    comm->last_early = &comm->early;
    for (unsigned i = 0; i < n; i++) {
        comm->requests[i].comm = comm;
        give_request_back(&comm->requests[i]);
    }
    comm->next = link->comms;
    link->comms = comm;
    return comm;
}

static enum wring_status post_notice_receive(struct wring_nccl_comm *comm,
                                             struct wring_nccl_notice *notice)
{
    return post_receive(comm, WRING_NCCL_CLASS_NOTICE, 0, notice->bytes, sizeof(notice->bytes),
                        &notice->message);
}

/** Over an open link. The mutex is held. NULL: no memory */
static struct wring_nccl_comm *ask_for_connection(struct wring_nccl_link *link, uint64_t listen)
{
    struct wring_nccl_comm *comm = comm_new(link, true);
    if (comm == NULL)
        return NULL;
    comm->asker = link->path.rank;
    enum wring_status status = wring_nccl_link_ask(link, listen, &comm->ask, &comm->conn);
    for (unsigned i = 0; i < WRING_NCCL_NOTICES && status == WRING_OK; i++)
        status = post_notice_receive(comm, &comm->notices[i]);
    if (status != WRING_OK)
        fail_comm_by_status(comm, status);
    return comm;
}

int wring_nccl_connect(int device, void *handle, void **send_comm)
{
    struct wring_nccl_handle to;
    struct wring_nccl_comm *comm = NULL;

    *send_comm = NULL;
    int code = wring_nccl_check_device(device);
    if (code == WRING_NCCL_SUCCESS)
        code = wring_nccl_handle_read(handle, WRING_NCCL_MESSAGES, -1, &to);
    if (code != WRING_NCCL_SUCCESS)
        return code;
    pthread_mutex_lock(&wring_nccl_own.mutex);
    wring_nccl_links_poll();
    struct wring_nccl_link *link = wring_nccl_link_to(&to, device);
    int state = link != NULL ? atomic_load(&link->state) : WRING_NCCL_FAILED;
    if (link == NULL)
        code = WRING_NCCL_SYSTEM_ERROR;
    else if (state == WRING_NCCL_FAILED)
        code = wring_nccl_link_failed(link);
    else if (state == WRING_NCCL_OPEN && (comm = ask_for_connection(link, to.listen)) == NULL)
        code = WRING_NCCL_SYSTEM_ERROR;
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    *send_comm = comm;
    return code;
}

static struct wring_nccl_comm *take_arrival(struct wring_nccl_listen *listen)
{
    struct wring_nccl_arrival *arrival = listen->arrivals;
    struct wring_nccl_comm *comm = comm_new(arrival->link, false);
    if (comm == NULL)
        return NULL;
    listen->arrivals = arrival->next;
    if (listen->arrivals == NULL)
        listen->last = &listen->arrivals;
    arrival->link->n_arrivals--;
    comm->asker = 1 - comm->link->path.rank;
    comm->conn = arrival->conn;
    free(arrival);
    enum wring_status status = post_receive(comm, WRING_NCCL_CLASS_END, 0, comm->peers.bytes,
                                            sizeof(comm->peers.bytes), &comm->peers.message);
    if (status != WRING_OK)
        fail_comm_by_status(comm, status);
    return comm;
}

int wring_nccl_accept(void *listen, void **recv_comm)
{
    struct wring_nccl_comm *comm = NULL;
    int code = WRING_NCCL_SUCCESS;

    *recv_comm = NULL;
    pthread_mutex_lock(&wring_nccl_own.mutex);
    wring_nccl_links_poll();
    struct wring_nccl_listen *found = wring_nccl_listen_find(listen);
    if (found == NULL || found->handle.purpose != WRING_NCCL_MESSAGES)
        code = WRING_NCCL_INVALID_ARGUMENT;
    else if (found->arrivals != NULL)
        code = (comm = take_arrival(found)) != NULL ? code : WRING_NCCL_SYSTEM_ERROR;
    else
        code = found->failed;
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    *recv_comm = comm;
    return code;
}

static void cancel_requests(struct wring_nccl_comm *comm)
{
    for (unsigned i = 0; i < comm->n_requests; i++) {
        struct wring_nccl_request *request = &comm->requests[i];
        for (unsigned k = 0; request->busy && k < request->n; k++)
            cancel_message(comm, &request->under_way[k]);
        cancel_message(comm, &request->note);
        wring_nccl_pack_end(request);
    }
    comm->queue = NULL;
}

/** Tell the other side that nothing comes any more. */
static void say_closed(struct wring_nccl_comm *comm)
{
    enum wring_nccl_class class = comm->sends ? WRING_NCCL_CLASS_END : WRING_NCCL_CLASS_NOTICE;

    wring_put_u32(comm->last.bytes, WRING_NCCL_NOTICE_CLOSED);
    enum wring_status status =
        wring_nccl_path_send(&comm->link->path, comm->last.bytes, 8,
                             wring_nccl_tag_of(comm, class, 0), false, &comm->last.message);
    if (status != WRING_OK && comm->failed == WRING_NCCL_SUCCESS)
        comm->failed = wring_nccl_code_of(status);
}

void wring_nccl_comm_free(struct wring_nccl_comm *comm)
{
    free(comm->notes);
    free(comm);
}

int wring_nccl_close(void *comm_)
{
    struct wring_nccl_comm *comm = comm_;

    if (comm == NULL)
        return WRING_NCCL_SUCCESS;
    if (comm->link == NULL) {
        wring_nccl_comm_free(comm);
        return WRING_NCCL_SUCCESS;
    }
    cancel_requests(comm);
    pthread_mutex_lock(&wring_nccl_own.mutex);
    wring_nccl_regions_leave(comm);
    say_closed(comm);
    comm->closed = true;
    wring_nccl_links_poll();
    wring_nccl_own.leave();
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    return WRING_NCCL_SUCCESS;
}

/* ---- what the receiver says ---- */

/** A send is for that buffer. */
static void aim_at_buffer(struct wring_nccl_request *request, const struct wring_nccl_slots *slots,
                          const struct wring_nccl_slot *slot)
{
    request->group = slots->group;
    request->buffer = (uint32_t)(slot - slots->slot);
    request->noted = slot->noted;
}

/** A buffer of the peer's is known: it may be an early message's. */
static void match_early(struct wring_nccl_comm *comm, const struct wring_nccl_slots *slots,
                        struct wring_nccl_slot *slot)
{
    struct wring_nccl_request **at = &comm->early;
    while (*at != NULL && (*at)->tag != slot->tag)
        at = &(*at)->next;
    struct wring_nccl_request *request = *at;
    if (request == NULL)
        return;
    *at = request->next;
    if (*at == NULL && comm->last_early == &request->next)
        comm->last_early = at;
    slot->taken = true;
    request->early = false;
    request->too_large = request->bytes[0] > slot->bytes;
    request->room[0] = slot->bytes;
    aim_at_buffer(request, slots, slot);
    if (request->noted && !request->too_large && !request->queued) {
        enum wring_status status = wring_nccl_say_note(request);
        if (status != WRING_OK)
            fail_comm_by_status(comm, status);
    }
}

static void drop_full_slots(struct wring_nccl_comm *comm)
{
    while (comm->n_posted > 0 &&
           comm->posted[comm->first_posted].taken == comm->posted[comm->first_posted].n) {
        comm->first_posted = (comm->first_posted + 1) % WRING_NCCL_RECVS;
        comm->n_posted--;
    }
}

/** Hostile bytes. @return false: they are no notice of a peer that keeps to the rules */
static bool read_posted_buffers(struct wring_nccl_comm *comm, const uint8_t *bytes,
                                uint64_t n_bytes)
{
    uint32_t n = wring_get_u32(bytes + 4);

    if (n < 1 || n > WRING_NCCL_GROUPED || n_bytes != 8 + 12 * n ||
        comm->n_posted == WRING_NCCL_RECVS)
        return false;
    unsigned at = (comm->first_posted + comm->n_posted) % WRING_NCCL_RECVS;
    struct wring_nccl_slots *slots = &comm->posted[at];
    *slots = (struct wring_nccl_slots){.group = comm->n_groups++, .n = n};
    comm->n_posted++;
    for (uint32_t i = 0; i < n; i++) {
        struct wring_nccl_slot *slot = &slots->slot[i];
        slot->tag = (int)wring_get_u32(bytes + 8 + 12 * i);
        slot->bytes = wring_get_u64(bytes + 12 + 12 * i);
        slot->noted = (slot->bytes & WRING_NCCL_NOTED) != 0;
        slot->on_device = (slot->bytes & WRING_NCCL_ON_DEVICE) != 0;
        slot->bytes &= ~(WRING_NCCL_NOTED | WRING_NCCL_ON_DEVICE);
        match_early(comm, slots, slot);
        slots->taken += slot->taken;
    }
    drop_full_slots(comm);
    return true;
}

static void read_notice(struct wring_nccl_comm *comm, const uint8_t *bytes, uint64_t n_bytes)
{
    uint32_t kind = n_bytes >= 8 ? wring_get_u32(bytes) : 0;

    if (kind == WRING_NCCL_NOTICE_CLOSED || kind == WRING_NCCL_NOTICE_REFUSED)
        comm->ended = true;
    if (kind == WRING_NCCL_NOTICE_REFUSED && !comm->closed)
        fail_comm(comm, WRING_NCCL_REMOTE_ERROR, "nobody listens there any more");
    else if (kind == WRING_NCCL_NOTICE_POSTED && !read_posted_buffers(comm, bytes, n_bytes))
        fail_comm(comm, WRING_NCCL_REMOTE_ERROR, "the peer has sent a malformed notice");
    else if (kind < WRING_NCCL_NOTICE_POSTED || kind > WRING_NCCL_NOTICE_REFUSED)
        fail_comm(comm, WRING_NCCL_REMOTE_ERROR, "the peer has sent an unknown notice");
}

/** Nothing more is heard of the peer: it has left in order, or is lost. */
static void lose_peer(struct wring_nccl_comm *comm, enum wring_status status)
{
    if (atomic_load(&comm->link->left))
        comm->gone = true;
    else if (comm->closed)
        comm->failed = wring_nccl_code_of(status);
    else
        fail_comm_by_status(comm, status);
}

static void hear_notices(struct wring_nccl_comm *comm)
{
    while (comm->failed == WRING_NCCL_SUCCESS && !comm->ended) {
        struct wring_nccl_notice *notice = &comm->notices[comm->next_notice];
        struct wring_message_end end;
        if (notice->message == NULL)
            return; /* that was the last one */
        enum wring_status status = take_message_end(comm, &notice->message, &end);
        if (status == WRING_ERR_AGAIN)
            return;
        if (status == WRING_OK) {
            read_notice(comm, notice->bytes, end.bytes);
            if (!comm->ended && !comm->gone)
                status = post_notice_receive(comm, notice);
        }
        if (status != WRING_OK)
            lose_peer(comm, status);
        comm->next_notice = (comm->next_notice + 1) % WRING_NCCL_NOTICES;
    }
}

/** A receiver: has the sender closed? */
static void hear_peer_end(struct wring_nccl_comm *comm)
{
    if (comm->peers.message == NULL)
        return;
    enum wring_status status = take_message_end(comm, &comm->peers.message, NULL);
    if (status == WRING_ERR_AGAIN)
        return;
    if (status == WRING_OK)
        comm->ended = true;
    else
        lose_peer(comm, status);
}

/** In a receiver: take the notes that have arrived about the data in its buffers. */
static void hear_notes(struct wring_nccl_comm *comm)
{
    while (comm->n_notes > 0 && comm->failed == WRING_NCCL_SUCCESS) {
        struct wring_nccl_note *note = &comm->notes[comm->first_note];
        struct wring_message_end end;
        enum wring_status status = take_message_end(comm, &note->message, &end);
        if (status == WRING_ERR_AGAIN)
            return;
        comm->first_note = (comm->first_note + 1) % WRING_NCCL_NOTES;
        comm->n_notes--;
        if (status != WRING_OK)
            lose_peer(comm, status);
        else if (!wring_nccl_take_note(comm, note->bytes, end.bytes))
            fail_comm(comm, WRING_NCCL_REMOTE_ERROR, "the peer has sent a malformed note");
    }
}

/** One for each buffer that asks for it: so it is heard even if its sender has left by then. */
static enum wring_status post_note_receives(struct wring_nccl_request *request)
{
    struct wring_nccl_comm *comm = request->comm;
    enum wring_status status = WRING_OK;

    if (comm->notes == NULL)
        comm->notes = calloc(WRING_NCCL_NOTES, sizeof(*comm->notes));
    if (comm->notes == NULL)
        return WRING_ERR_NO_MEMORY;
    for (unsigned i = 0; i < request->n && status == WRING_OK; i++) {
        if (!request->unpack->landings[i].wanted || comm->n_notes == WRING_NCCL_NOTES)
            continue;
        struct wring_nccl_note *note =
            &comm->notes[(comm->first_note + comm->n_notes) % WRING_NCCL_NOTES];
        status = post_receive(comm, WRING_NCCL_CLASS_NOTICE, 0, note->bytes, sizeof(note->bytes),
                              &note->message);
        comm->n_notes += status == WRING_OK;
    }
    return status;
}

/** The peer says nothing more. */
static bool is_peer_finished(const struct wring_nccl_comm *comm)
{
    return comm->ended || comm->gone || comm->failed != WRING_NCCL_SUCCESS;
}

bool wring_nccl_comm_settle(struct wring_nccl_comm *comm)
{
    bool said = take_if_ended(comm, &comm->last.message);

    said &= take_if_ended(comm, &comm->ask.message);
    if (comm->sends)
        hear_notices(comm);
    else
        hear_peer_end(comm);
    if (!is_peer_finished(comm))
        return false;
    for (unsigned i = 0; i < WRING_NCCL_NOTICES; i++) {
        if (comm->sends)
            cancel_message(comm, &comm->notices[i].message);
        said &= take_if_ended(comm, &comm->notices[i].message);
    }
    for (; comm->n_notes > 0; comm->n_notes--) {
        cancel_message(comm, &comm->notes[comm->first_note].message);
        comm->first_note = (comm->first_note + 1) % WRING_NCCL_NOTES;
    }
    cancel_message(comm, &comm->peers.message);
    return said;
}

/* ---- sending ---- */

/** A buffer for that tag in the head. */
static struct wring_nccl_slot *hear_and_find_slot(struct wring_nccl_comm *comm, int tag)
{
    if (comm->failed == WRING_NCCL_SUCCESS)
        hear_notices(comm);
    if (comm->n_posted == 0)
        return NULL;
    struct wring_nccl_slots *head = &comm->posted[comm->first_posted];
    for (unsigned i = 0; i < head->n; i++)
        if (!head->slot[i].taken && head->slot[i].tag == tag)
            return &head->slot[i];
    return NULL;
}

/** Post the queued sends whose codes are ready. */
static void send_queued(struct wring_nccl_comm *comm)
{
    if (comm->queue == NULL || comm->failed != WRING_NCCL_SUCCESS)
        return;
    enum wring_status status = wring_nccl_queue_go_on(comm);
    if (status != WRING_OK)
        fail_comm_by_status(comm, status);
}

static int send_to_slot(struct wring_nccl_comm *comm, struct wring_nccl_slot *slot,
                        const void *data, size_t bytes, int tag, void **out)
{
    struct wring_nccl_request *request = take_request(comm, 1);
    if (request == NULL)
        return WRING_NCCL_SUCCESS;
    request->bytes[0] = bytes;
    request->tag = tag;
    request->data = data;
    request->offered = comm->link->device->cuda && (slot == NULL || slot->on_device);
    if (slot != NULL) {
        request->too_large = bytes > slot->bytes;
        request->room[0] = slot->bytes;
        aim_at_buffer(request, &comm->posted[comm->first_posted], slot);
        wring_nccl_pack(request);
    }
    enum wring_status status = WRING_OK;
    if (request->task != NULL || comm->queue != NULL)
        wring_nccl_queue(request);
    else
        status = wring_nccl_post_send(request);
    if (status != WRING_OK) {
        if (request->under_way[0] == NULL)
            give_request_back(request);
        return fail_comm_by_status(comm, status);
    }
    if (slot != NULL) {
        slot->taken = true;
        comm->posted[comm->first_posted].taken++;
        drop_full_slots(comm);
    } else {
        request->early = true;
        *comm->last_early = request;
        comm->last_early = &request->next;
        request->next = NULL;
    }
    drive_link(comm); /* it leaves now, even if nobody calls for a while */
    *out = request;
    return WRING_NCCL_SUCCESS;
}

int wring_nccl_isend(void *comm_, void *data, size_t bytes, int tag, void *mhandle, void **request)
{
    struct wring_nccl_comm *comm = comm_;
    struct wring_nccl_slot *slot;

    *request = NULL;
    if (comm->link == NULL)
        return comm->failed;
    if (bytes > WRING_NCCL_BYTES_MAX) {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: a message of %zu bytes: maxP2pBytes allows %zu at most", bytes,
                       WRING_NCCL_BYTES_MAX);
        return WRING_NCCL_INVALID_ARGUMENT;
    }
    if (!wring_nccl_region_holds(comm, mhandle, data, bytes))
        return WRING_NCCL_INVALID_ARGUMENT;
    send_queued(comm);
    slot = hear_and_find_slot(comm, tag);
    if (slot == NULL) {
        drive_link(comm);
        slot = hear_and_find_slot(comm, tag);
    }
    if (comm->failed != WRING_NCCL_SUCCESS)
        return comm->failed;
    if (comm->ended || comm->gone)
        return fail_comm_closed(comm);
    if (slot == NULL && (comm->n_posted > 0 || bytes > EAGER_BYTES))
        return WRING_NCCL_SUCCESS;
    return send_to_slot(comm, slot, data, bytes, tag, request);
}

/* ---- receiving ---- */

static void write_notice(const struct wring_nccl_comm *comm, struct wring_nccl_notice *notice,
                         int n, void **data, const size_t *bytes, const int *tags)
{
    wring_put_u32(notice->bytes, WRING_NCCL_NOTICE_POSTED);
    wring_put_u32(notice->bytes + 4, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        bool noted = wring_nccl_wants_note(comm, data[i], bytes[i]);
        bool device = wring_nccl_is_on_device(comm, data[i], bytes[i]);
        wring_put_u32(notice->bytes + 8 + 12 * i, (uint32_t)tags[i]);
        wring_put_u64(notice->bytes + 12 + 12 * i, bytes[i] | (noted ? WRING_NCCL_NOTED : 0) |
                                                       (device ? WRING_NCCL_ON_DEVICE : 0));
    }
}

static enum wring_status post_receives(struct wring_nccl_request *request, void **data,
                                       const size_t *bytes, const int *tags)
{
    struct wring_nccl_comm *comm = request->comm;
    struct wring_nccl_notice *notice = &comm->notices[comm->next_notice];
    enum wring_status status = WRING_OK;

    for (unsigned i = 0; i < request->n; i++)
        request->room[i] = bytes[i];
    request->group = comm->n_groups++;
    if (!wring_nccl_unpack_begin(request, data))
        return WRING_ERR_NO_MEMORY;
    if (request->unpack != NULL)
        status = post_note_receives(request);
    for (unsigned i = 0; i < request->n && status == WRING_OK; i++) {
        status = post_receive(comm, WRING_NCCL_CLASS_DATA, tags[i], data[i], bytes[i],
                              &request->under_way[i]);
    }
    if (status != WRING_OK)
        return status;
    write_notice(comm, notice, (int)request->n, data, bytes, tags);
    comm->next_notice = (comm->next_notice + 1) % WRING_NCCL_NOTICES;
    return wring_nccl_path_send(&comm->link->path, notice->bytes, 8 + 12 * (uint64_t)request->n,
                                wring_nccl_tag_of(comm, WRING_NCCL_CLASS_NOTICE, 0), false,
                                &notice->message);
}

int wring_nccl_irecv(void *comm_, int n, void **data, const size_t *bytes, const int *tags,
                     void **mhandles, void **out)
{
    struct wring_nccl_comm *comm = comm_;

    *out = NULL; /* also where it said that its completion is optional */
    if (comm->failed != WRING_NCCL_SUCCESS)
        return comm->failed;
    if (n < 1 || n > WRING_NCCL_GROUPED) {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: a receive of %d buffers: maxRecvs allows 1 to %d", n,
                       WRING_NCCL_GROUPED);
        return WRING_NCCL_INVALID_ARGUMENT;
    }
    for (int i = 0; mhandles != NULL && i < n; i++)
        if (!wring_nccl_region_holds(comm, mhandles[i], data[i], bytes[i]))
            return WRING_NCCL_INVALID_ARGUMENT;
    struct wring_nccl_message **said = &comm->notices[comm->next_notice].message;
    if (!take_if_ended(comm, said)) {
        drive_link(comm);
        if (!take_if_ended(comm, said))
            return WRING_NCCL_SUCCESS;
    }
    struct wring_nccl_request *request = take_request(comm, (unsigned)n);
    if (request == NULL)
        return WRING_NCCL_SUCCESS;
    enum wring_status status = post_receives(request, data, bytes, tags);
    if (status != WRING_OK) /* what is posted of it is given up as the comm is closed */
        return fail_comm_by_status(comm, status);
    *out = request;
    return WRING_NCCL_SUCCESS;
}

/* ---- the end of either ---- */

/** A buffer has been filled. @return whether it is as it was sent now, or never will be */
static bool unpack_buffer(struct wring_nccl_request *request, unsigned i)
{
    if (request->unpack == NULL || request->failed != WRING_NCCL_SUCCESS)
        return true;
    enum wring_status status = wring_nccl_unpack(request, i);
    if (status == WRING_ERR_FRAME)
        request->failed =
            fail_comm(request->comm, WRING_NCCL_REMOTE_ERROR, "the peer has sent a malformed code");
    else if (status != WRING_OK && status != WRING_ERR_AGAIN)
        request->failed = fail_comm_by_status(request->comm, status);
    return status != WRING_ERR_AGAIN;
}

/** @return whether nothing of it is under way any more */
static bool test_parts(struct wring_nccl_request *request)
{
    struct wring_nccl_comm *comm = request->comm;
    bool all = !request->queued && take_if_ended(comm, &request->note);

    for (unsigned i = 0; i < request->n; i++) {
        struct wring_message_end end;
        if (request->under_way[i] == NULL) {
            all &= unpack_buffer(request, i);
            continue;
        }
        enum wring_status status = take_message_end(comm, &request->under_way[i], &end);
        if (status == WRING_ERR_AGAIN) {
            all = false;
            continue;
        }
        if (status == WRING_ERR_TRUNCATED)
            say_too_large(request, end.bytes, request->room[i], (int)(uint32_t)end.tag);
        else if (status != WRING_OK)
            request->failed = fail_comm_by_status(comm, status);
        else if (!comm->sends)
            request->bytes[i] = end.bytes;
        all &= unpack_buffer(request, i);
    }
    return all;
}

/** A send has left: is there room for it? @return whether that is known */
static bool hear_whether_room(struct wring_nccl_request *request)
{
    if (request->early)
        hear_notices(request->comm);
    if (request->early) /* a peer that closed in order had all it wanted */
        return request->comm->gone;
    if (request->too_large)
        say_too_large(request, request->bytes[0], request->room[0], request->tag);
    return true;
}

/** @return whether it has ended */
static bool test_flush(struct wring_nccl_request *request)
{
    enum wring_status status = wring_nccl_flush_look(request);

    if (status == WRING_ERR_AGAIN)
        return false;
    if (status != WRING_OK)
        request->failed = fail_comm_by_status(request->comm, status);
    return true;
}

static bool test_request(struct wring_nccl_request *request)
{
    if (request->flushed != NULL)
        return test_flush(request);
    send_queued(request->comm);
    hear_notes(request->comm);
    return test_parts(request) &&
           (!request->comm->sends ||
            (hear_whether_room(request) && take_if_ended(request->comm, &request->note)));
}

/** It goes on: or can it not? @return whether it has ended after all */
static bool hear_whether_ended(struct wring_nccl_request *request)
{
    struct wring_nccl_comm *comm = request->comm;

    if (comm->sends)
        hear_notices(comm);
    else
        hear_peer_end(comm);
    if (!is_peer_finished(comm))
        return false;
    if (test_request(request))
        return true; /* it had come before */
    if (wring_nccl_is_unpacking(request))
        return false;
    request->failed = comm->failed != WRING_NCCL_SUCCESS ? comm->failed : fail_comm_closed(comm);
    return true;
}

int wring_nccl_test(void *request_, int *done, int *bytes)
{
    struct wring_nccl_request *request = request_;

    *done = 0;
    if (request->comm->link == NULL)
        return request->comm->failed;
    if (request->failed != WRING_NCCL_SUCCESS)
        return request->failed;
    bool over = test_request(request);
    if (!over && request->failed == WRING_NCCL_SUCCESS) {
        drive_link(request->comm);
        over = test_request(request);
    }
    if (!over && request->failed == WRING_NCCL_SUCCESS && request->flushed == NULL)
        over = hear_whether_ended(request);
    if (request->failed != WRING_NCCL_SUCCESS)
        return request->failed;
    if (!over)
        return WRING_NCCL_SUCCESS;
    for (unsigned i = 0; bytes != NULL && i < request->n; i++)
        bytes[i] = request->bytes[i] < INT_MAX ? (int)request->bytes[i] : INT_MAX;
    *done = 1;
    give_request_back(request);
    return WRING_NCCL_SUCCESS;
}

int wring_nccl_iflush(void *comm_, int n, void **data, int *bytes, void **mhandles, void **out)
{
    struct wring_nccl_comm *comm = comm_;
    const struct wring_nccl_region *region;
    const void *at;

    *out = NULL; /* which says that nothing need be done */
    if (comm->failed != WRING_NCCL_SUCCESS)
        return comm->failed;
    if (!wring_nccl_flush_aim(comm, n, data, bytes, mhandles, &region, &at))
        return WRING_NCCL_SUCCESS;
    struct wring_nccl_request *request = take_request(comm, 0);
    if (request == NULL) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: more than %d flushes of a connection",
                       WRING_NCCL_FLUSHES);
        return WRING_NCCL_INTERNAL_ERROR;
    }
    request->flushed = region;
    request->flushed_at = at;
    *out = request;
    return WRING_NCCL_SUCCESS;
}
