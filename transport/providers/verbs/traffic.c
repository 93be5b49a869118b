/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sending: a message becomes a request on each path that it takes. Requests gather in their path's
 * ring and are posted together.
 */
#include <stdio.h>
#include <string.h>

#include "transport/providers/verbs/conn.h"
#include "transport/providers/verbs/memory.h"
#include "transport/providers/verbs/verbs.h"

#define CREDIT_STEP (VERBS_RECEIVES / 4) /* receives posted anew between two updates */
#define QUIET_MOST 16                    /* requests in a row that ask for no completion */
#define QUIET_BYTES (64 << 10)           /* of puts, likewise */

static uint32_t lkey_of(const struct verbs_path *path)
{
    return path->conn->pin->mrs[path->rail->index]->lkey;
}

/**
 * Does somebody wait for this to be complete? For a put; and for a control message where a put that
 * follows on another path is not done before it.
 */
static bool is_awaited(const struct verbs_path *path, const struct verbs_request *request)
{
    return request->kind == VERBS_PUT ||
           (request->kind == VERBS_SEND && path->conn->out_set.stripes.paths > 1);
}

/**
 * Completions are asked for where somebody waits for them, and often enough to free the rings. A
 * long put does not wait for those behind it: on a slow link they take long.
 */
static bool wants_completion(const struct verbs_path *path, bool last, bool awaited)
{
    const struct verbs_conn *conn = path->conn;
    return (last && (awaited || wring_verbs_is_agreeing(conn->state) ||
                     conn->next - conn->done >= VERBS_MESSAGES / 2)) ||
           path->unsignalled >= QUIET_MOST || path->unsignalled_bytes >= QUIET_BYTES;
}

static void mark_signalled(struct verbs_path *path, uint32_t n)
{
    struct wring_verbs_counters *counters = &path->rail->provider->counters;
    bool awaited = false;
    for (uint32_t i = 0; i < n; i++) {
        struct verbs_request *request = &path->requests[(path->posted + i) % VERBS_REQUESTS];
        awaited = awaited || is_awaited(path, request);
        path->unsignalled_bytes += request->kind == VERBS_PUT ? request->bytes : 0;
        request->signalled = wants_completion(path, i + 1 == n, awaited);
        path->unsignalled = request->signalled ? 0 : path->unsignalled + 1;
        path->unsignalled_bytes = request->signalled ? 0 : path->unsignalled_bytes;
        counters->signalled += request->signalled;
        counters->inlined += request->small;
        counters->copied_bytes += request->small && request->kind == VERBS_PUT ? request->bytes : 0;
    }
}

/** Post all that is pending on a path. */
static void post_path(struct verbs_path *path)
{
    struct wring_verbs_counters *counters = &path->rail->provider->counters;
    while (path->head != path->posted && wring_verbs_path_is_live(path->state)) {
        uint32_t pending = path->head - path->posted;
        uint32_t n = pending < VERBS_BATCH ? pending : VERBS_BATCH;
        mark_signalled(path, n);
        int error = path->rail->api->post(path, n);
        if (error != 0) {
            char why[VERBS_TEXT];
            snprintf(why, sizeof(why), "posting failed: %s", strerror(error));
            wring_verbs_path_fail(path, WRING_ERR_DEVICE, why);
            return;
        }
        path->posted += n;
        counters->requests += n;
        counters->doorbells++;
    }
}

/** Post what is pending on all paths. */
static void post_all_paths(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths && conn->state == VERBS_OPEN; i++)
        post_path(conn->paths[i]);
}

static struct verbs_request *add_request(struct verbs_path *path)
{
    return &path->requests[path->head++ % VERBS_REQUESTS];
}

/** Has the path a receive of the peer's left? The peer cannot have posted more than all that we
 *  used up. */
static bool check_path_credit(struct verbs_path *path)
{
    if (path->credits != path->sent)
        return true;
    uint32_t posted = __atomic_load_n(&path->conn->buffers->credits[path->index], __ATOMIC_ACQUIRE);
    if (posted != 0 && (int32_t)(posted - path->credits) > 0) {
        if (posted - path->sent <= VERBS_RECEIVES)
            path->credits = posted;
        else
            wring_verbs_conn_fail(path->conn, WRING_ERR_FRAME,
                                  "the peer gave credits for what was not sent");
    }
    return path->credits != path->sent;
}

/** For the next message that is to be spread. */
static bool check_message_credits(struct verbs_conn *conn, bool striped)
{
    const struct verbs_set *set = &conn->out_set;
    if (!striped)
        return check_path_credit(set->paths[wring_verbs_home(&set->stripes, conn->spread)]);
    for (unsigned i = 0; i < set->stripes.paths; i++)
        if (!check_path_credit(set->paths[i]))
            return false;
    return true;
}

bool wring_verbs_has_credits(struct verbs_conn *conn)
{
    return check_message_credits(conn, conn->out_set.stripes.paths > 1);
}

/** May a message be posted? */
static enum wring_status check_room(struct verbs_conn *conn, uint64_t bytes)
{
    if (!wring_verbs_stands(conn) || wring_verbs_is_agreeing(conn->state))
        return WRING_ERR_AGAIN;
    if (conn->state != VERBS_OPEN)
        return WRING_ERR_CLOSED;
    if (conn->next - conn->done >= VERBS_MESSAGES || conn->spread != conn->next)
        return WRING_ERR_AGAIN;
    conn->starved =
        !check_message_credits(conn, wring_verbs_is_striped(&conn->out_set.stripes, bytes));
    if (conn->state != VERBS_OPEN)
        return WRING_ERR_CLOSED;
    return conn->starved ? WRING_ERR_AGAIN : WRING_OK;
}

static void add_stripe(struct verbs_path *path, struct verbs_message *message, uint64_t number,
                       uint64_t offset, uint64_t bytes)
{
    *add_request(path) = (struct verbs_request){
        .kind = message->is_put ? VERBS_PUT : VERBS_SEND,
        .small = bytes <= path->inline_bytes && !message->on_device,
        .message = (uint32_t)number,
        .bytes = (uint32_t)bytes,
        .lkey = message->lkeys[path->rail->index],
        .rkey = message->rkeys[path->peer_rail],
        .imm = message->imm,
        .local = bytes > 0 ? (const uint8_t *)message->local + offset : NULL,
        .remote = message->remote + offset,
    };
    path->sent++;
    message->parts++;
}

static bool is_striped(const struct verbs_conn *conn, const struct verbs_message *message)
{
    return message->is_put && wring_verbs_is_striped(&conn->out_set.stripes, message->bytes);
}

/** Put the requests of the next message into the rings of its paths. */
static void spread_next_message(struct verbs_conn *conn)
{
    const struct verbs_set *set = &conn->out_set;
    uint64_t number = conn->spread++;
    struct verbs_message *message = &conn->messages[number % VERBS_MESSAGES];
    message->parts = 0;
    if (!is_striped(conn, message)) {
        add_stripe(set->paths[wring_verbs_home(&set->stripes, number)], message, number, 0,
                   message->bytes);
        return;
    }
    for (unsigned i = 0; i < set->stripes.paths; i++) {
        uint64_t offset;
        uint64_t bytes = wring_verbs_stripe(&set->stripes, number, message->bytes, i, &offset);
        add_stripe(set->paths[i], message, number, offset, bytes);
    }
}

/** After a path was lost: messages that the peer has not given out, as far as there are credits. */
static void spread_unsent_messages(struct verbs_conn *conn)
{
    while (conn->state == VERBS_OPEN && conn->spread != conn->next) {
        const struct verbs_message *message = &conn->messages[conn->spread % VERBS_MESSAGES];
        conn->starved = !check_message_credits(conn, is_striped(conn, message));
        if (conn->starved || conn->state != VERBS_OPEN)
            return;
        spread_next_message(conn);
    }
}

/** A path whose batch is full does not wait for the next poll. */
static void post_full_batches(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths && conn->state == VERBS_OPEN; i++)
        if (conn->paths[i]->head - conn->paths[i]->posted >= VERBS_BATCH)
            post_path(conn->paths[i]);
}

/** Nothing needs no memory. */
static bool lies_in(const struct wring_region *region, const void *local, size_t bytes)
{
    if (bytes == 0)
        return true;
    if (region == NULL)
        return false;
    size_t at = (size_t)((uintptr_t)local - (uintptr_t)region->base);
    return at <= region->bytes && bytes <= region->bytes - at;
}

enum wring_status wring_verbs_put(struct wring_conn *base, struct wring_region *region,
                                  const void *local, struct wring_remote *remote,
                                  uint64_t remote_offset, size_t bytes, uint32_t imm,
                                  uint64_t cookie)
{
    struct verbs_conn *conn = (struct verbs_conn *)base;
    struct verbs_provider *verbs = wring_verbs_of(conn);
    const struct verbs_remote *to = (const struct verbs_remote *)remote;
    bool there = remote->conn == base && remote_offset <= remote->bytes &&
                 bytes <= remote->bytes - remote_offset;
    if (!there || bytes > verbs->put_max_bytes || !lies_in(region, local, bytes))
        return WRING_ERR_INVALID;
    enum wring_status status = check_room(conn, bytes);
    if (status != WRING_OK)
        return status;

    struct verbs_message *message = &conn->messages[conn->next % VERBS_MESSAGES];
    message->is_put = true;
    message->on_device = bytes > 0 && ((const struct verbs_region *)region)->on_device;
    message->cookie = cookie;
    message->imm = imm;
    message->local = local;
    message->bytes = bytes;
    message->remote = to->key.address + remote_offset;
    for (unsigned i = 0; i < verbs->n_rails; i++)
        message->lkeys[i] = bytes > 0 ? wring_verbs_lkey(region, i) : 0;
    for (unsigned i = 0; i < conn->offer.n_rails; i++)
        message->rkeys[i] = to->key.rkeys[i];
    conn->next++;
    spread_next_message(conn);
    verbs->counters.puts++;
    verbs->counters.put_bytes += bytes;
    post_full_batches(conn);
    return WRING_OK;
}

enum wring_status wring_verbs_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct verbs_conn *conn = (struct verbs_conn *)base;
    struct verbs_provider *verbs = wring_verbs_of(conn);
    if (bytes == 0 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = check_room(conn, 0);
    if (status != WRING_OK)
        return status;

    struct verbs_message *message = &conn->messages[conn->next % VERBS_MESSAGES];
    uint8_t *slot = conn->buffers->sends[conn->next % VERBS_MESSAGES];
    *message =
        (struct verbs_message){.local = memcpy(slot, data, bytes), .bytes = bytes, .remote = 0};
    for (unsigned i = 0; i < verbs->n_rails; i++)
        message->lkeys[i] = conn->pin->mrs[i]->lkey;
    conn->next++;
    spread_next_message(conn);
    verbs->counters.sends++;
    verbs->counters.control_bytes += bytes;
    post_all_paths(conn); /* the caller may leave after it */
    return WRING_OK;
}

/** One path's turn to tell for all. */
static void write_credits(struct verbs_path *path)
{
    struct verbs_conn *conn = path->conn;
    *add_request(path) = (struct verbs_request){
        .kind = VERBS_CREDITS,
        .small = conn->n_paths * sizeof(conn->buffers->posted[0]) <= path->inline_bytes,
        .bytes = (uint32_t)(conn->n_paths * sizeof(conn->buffers->posted[0])),
        .lkey = lkey_of(path),
        .rkey = path->peer.credit_rkey,
        .local = conn->buffers->posted,
        .remote = path->peer.credit_address,
    };
    for (unsigned i = 0; i < conn->n_paths; i++)
        conn->paths[i]->told = conn->paths[i]->receives;
    wring_verbs_of(conn)->counters.credit_writes++;
}

void wring_verbs_ask_completion(struct verbs_path *path)
{
    write_credits(path);
    post_path(path);
}

int wring_verbs_send_nothing(struct verbs_path *path)
{
    struct wring_verbs_counters *counters = &path->rail->provider->counters;
    *add_request(path) = (struct verbs_request){
        .kind = VERBS_SEND,
        .signalled = true,
        .bytes = sizeof(path->conn->buffers->nothing),
        .lkey = lkey_of(path),
        .local = path->conn->buffers->nothing,
    };
    int error = path->rail->api->post(path, 1);
    path->posted = path->head;
    counters->requests++;
    counters->signalled++;
    counters->doorbells++;
    return error;
}

void wring_verbs_forget_credits(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++)
        conn->paths[i]->told = conn->paths[i]->receives - CREDIT_STEP;
}

/** Tell the peer how many receives there are anew, when enough of them are. */
static void give_credits(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++) {
        struct verbs_path *path = conn->paths[i];
        if (wring_verbs_path_is_live(path->state) && path->receives - path->told >= CREDIT_STEP &&
            path->head - path->tail < VERBS_REQUESTS)
            write_credits(path);
    }
}

/* ---- complete ---- */

/* From completions to events. */

/** Requests complete in the order of their path: this one, and all before it. */
static void complete_requests(struct verbs_path *path, uint32_t end)
{
    struct verbs_conn *conn = path->conn;
    for (; path->tail != end; path->tail++) {
        const struct verbs_request *request = &path->requests[path->tail % VERBS_REQUESTS];
        if (request->kind != VERBS_CREDITS)
            conn->messages[request->message % VERBS_MESSAGES].parts--;
    }
}

bool wring_verbs_path_is_owed(const struct verbs_path *path)
{
    return wring_verbs_path_is_live(path->state) && path->posted - path->tail > path->unsignalled;
}

static void record_arrival(struct verbs_path *path, const struct verbs_completion *completion)
{
    path->arrivals[path->taken++ % VERBS_RECEIVES] = (struct verbs_arrival){
        .bytes = completion->bytes, .imm = completion->imm, .is_message = !completion->has_imm};
}

static const char *kind_text(const struct verbs_path *path, uint64_t id)
{
    static const char *const texts[] = {
        [VERBS_PUT] = "write with immediate",
        [VERBS_SEND] = "send",
        [VERBS_CREDITS] = "write of credits",
    };
    if ((id & VERBS_RECEIVE_ID) != 0)
        return "receive";
    return texts[path->requests[(uint32_t)id % VERBS_REQUESTS].kind];
}

/** A hint for the user. */
static const char *hint_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return ", no answer (is the link up, can the GIDs reach each other?)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return ", the peer posted no receives";
    case IBV_WC_REM_ACCESS_ERR:
        return ", the peer's region is gone or smaller";
    case IBV_WC_LOC_PROT_ERR:
        return ", a region was destroyed while puts from it were under way";
    default:
        return "";
    }
}

static enum wring_status status_of_wc(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_WR_FLUSH_ERR:
        return WRING_ERR_PEER;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
        return WRING_ERR_FRAME;
    default:
        return WRING_ERR_DEVICE;
    }
}

/** Is it the path that does not work, rather than the request? */
static bool is_path_lost(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_LOC_QP_OP_ERR: /* soft-RoCE: no route */
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
        return true;
    default:
        return false;
    }
}

static void fail_by_wc(struct verbs_path *path, const struct verbs_completion *completion)
{
    char why[VERBS_TEXT];
    snprintf(why, sizeof(why), "%s: %s%s (status %d, vendor error 0x%x)",
             kind_text(path, completion->id),
             path->rail->provider->library.wc_status_str(completion->status),
             hint_of(completion->status), completion->status, completion->vendor_error);
    if (is_path_lost(completion->status))
        wring_verbs_path_fail(path, status_of_wc(completion->status), why);
    else
        wring_verbs_path_fatal(path, status_of_wc(completion->status), why);
}

void wring_verbs_path_complete(struct verbs_path *path, const struct verbs_completion *completion)
{
    uint32_t position = (uint32_t)completion->id;
    bool good = completion->status == IBV_WC_SUCCESS;
    path->conn->completions++;
    if ((completion->id & VERBS_RECEIVE_ID) == 0) {
        if (wring_verbs_path_is_live(path->state))
            complete_requests(path, good ? position + 1 : position);
        else /* the peer says what has come */
            wring_verbs_revive_complete(path, completion);
    } else if (good) {
        record_arrival(path, completion);
    }
    if (!good && wring_verbs_path_is_live(path->state))
        fail_by_wc(path, completion);
}

static struct wring_event take_news_event(struct verbs_conn *conn)
{
    struct wring_event event = {.kind = WRING_EVENT_CONNECTED, .conn = &conn->base};
    if (conn->accepted) {
        event.kind = WRING_EVENT_ACCEPTED;
        event.data = wring_auth_hello(&conn->oob.auth, &event.bytes);
    }
    conn->news = false;
    return event;
}

/** The next message of ours that is complete, if it was a put. */
static bool take_next_done(struct verbs_conn *conn, struct wring_event *event)
{
    while (conn->done != conn->next) {
        const struct verbs_message *message = &conn->messages[conn->done % VERBS_MESSAGES];
        if (message->parts > 0)
            return false;
        conn->done++;
        *event = (struct wring_event){
            .kind = WRING_EVENT_PUT_DONE, .conn = &conn->base, .cookie = message->cookie};
        if (message->is_put)
            return true;
    }
    return false;
}

static const struct verbs_arrival *head_arrival(const struct verbs_path *path)
{
    return path->taken != path->surfaced ? &path->arrivals[path->surfaced % VERBS_RECEIVES] : NULL;
}

/** The receives of a message go back to be posted; what lies in them is read until the next call */
static struct wring_event take_message_event(struct verbs_conn *conn, bool striped, uint64_t bytes)
{
    const struct verbs_set *set = &conn->in_set;
    struct verbs_path *home = set->paths[wring_verbs_home(&set->stripes, conn->delivered)];
    const struct verbs_arrival *first = head_arrival(home);
    struct wring_event event = {
        .kind = WRING_EVENT_ARRIVED, .conn = &conn->base, .bytes = bytes, .imm = first->imm};
    if (first->is_message) {
        event.kind = WRING_EVENT_MESSAGE;
        event.imm = 0;
        event.data = conn->buffers->receives[home->index][home->surfaced % VERBS_RECEIVES];
    }
    for (unsigned i = 0; i < set->stripes.paths; i++)
        set->paths[i]->surfaced += striped || set->paths[i] == home;
    conn->delivered++;
    return event;
}

/** The peer's next message, if it is all there. */
static bool take_next_arrived(struct verbs_conn *conn, struct wring_event *event)
{
    const struct verbs_arrival *heads[VERBS_PATHS_MAX];
    const struct verbs_set *set = &conn->in_set;
    unsigned home = wring_verbs_home(&set->stripes, conn->delivered);
    uint64_t bytes;
    if (head_arrival(set->paths[home]) == NULL)
        return false;
    for (unsigned i = 0; i < set->stripes.paths; i++)
        heads[i] = head_arrival(set->paths[i]);
    enum verbs_gathered what = wring_verbs_gather(&set->stripes, conn->delivered, heads, &bytes);
    if (what == VERBS_MISFIT)
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "stripes that do not belong together");
    if (what != VERBS_WHOLE)
        return false;
    bool striped =
        !heads[home]->is_message && wring_verbs_is_striped(&set->stripes, heads[home]->bytes);
    *event = take_message_event(conn, striped, bytes);
    return true;
}

/** Take turns, so that neither kind keeps the other waiting. */
static bool take_next_event(struct verbs_conn *conn, struct wring_event *event)
{
    conn->done_next = !conn->done_next;
    if (conn->done_next)
        return take_next_done(conn, event) || take_next_arrived(conn, event);
    return take_next_arrived(conn, event) || take_next_done(conn, event);
}

/** Receives whose bytes nobody reads any more are posted anew. */
static void renew_receives(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths && conn->state == VERBS_OPEN; i++) {
        bool is_live = wring_verbs_path_is_live(conn->paths[i]->state);
        int error = is_live ? wring_verbs_path_post_receives(conn->paths[i]) : 0;
        if (error != 0)
            wring_verbs_path_fail(conn->paths[i], WRING_ERR_DEVICE,
                                  "a receive request was refused");
    }
}

static bool is_drained(const struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (!conn->paths[i]->rail->drained)
            return false;
    return true;
}

void wring_verbs_conn_begin_poll(struct verbs_conn *conn)
{
    if (conn->state != VERBS_OPEN)
        return;
    renew_receives(conn);
    spread_unsent_messages(conn);
    if (conn->state != VERBS_OPEN) /* or requests would wait that nobody posts */
        return;
    give_credits(conn);
    post_all_paths(conn);
}

size_t wring_verbs_conn_events(struct verbs_conn *conn, struct wring_event *events, size_t max)
{
    size_t n = 0;
    bool more = true;
    if (conn->news && n < max)
        events[n++] = take_news_event(conn);
    while (n < max && more && conn->state >= VERBS_OPEN && conn->state <= VERBS_DRAINING) {
        more = take_next_event(conn, &events[n]);
        n += more;
    }
    wring_verbs_recovery_step(conn, !more);
    if (conn->state == VERBS_DRAINING && !more && is_drained(conn))
        wring_verbs_conn_stop(conn, VERBS_ON_DRAINED);
    if (conn->state == VERBS_DEAD && !conn->told_closed && n < max) {
        conn->told_closed = true;
        events[n++] = (struct wring_event){.kind = WRING_EVENT_CLOSED,
                                           .conn = &conn->base,
                                           .status = conn->status,
                                           .text = conn->text};
    }
    return n;
}
