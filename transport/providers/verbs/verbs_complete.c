/* SPDX-License-Identifier: Apache-2.0 */
/** From completions to events. */
#include "transport/providers/verbs/verbs_complete.h"

#include <stdio.h>

#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_post.h"

/** Requests complete in the order of their path: this one, and all before it. */
static void complete_up_to(struct verbs_path *path, uint32_t end)
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
    return !path->dead && path->posted - path->tail > path->unsignalled;
}

static void take_receive(struct verbs_path *path, const struct verbs_completion *completion)
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

/** What a user can do about it. */
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

/** Is it the path that does not work, rather than what was asked of it? */
static bool is_lost(enum ibv_wc_status status)
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
    if (is_lost(completion->status))
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
        if (path->dead) /* the peer says what has come */
            wring_verbs_revive_complete(path, completion);
        else
            complete_up_to(path, good ? position + 1 : position);
    } else if (good) {
        take_receive(path, completion);
    }
    if (!good && !path->dead)
        fail_by_wc(path, completion);
}

static struct wring_event event_of_news(struct verbs_conn *conn)
{
    struct wring_event event = {.kind = WRING_EVENT_CONNECTED, .conn = &conn->base};
    if (conn->accepted) {
        event.kind = WRING_EVENT_ACCEPTED;
        event.data = wring_auth_hello(&conn->stream.auth, &event.bytes);
    }
    conn->news = false;
    return event;
}

/** The next message of ours that is complete, if it was a put. */
static bool next_done(struct verbs_conn *conn, struct wring_event *event)
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

static const struct verbs_arrival *head_of(const struct verbs_path *path)
{
    return path->taken != path->surfaced ? &path->arrivals[path->surfaced % VERBS_RECEIVES] : NULL;
}

/** The receives of a message go back to be posted; what lies in them is read until the next call */
static struct wring_event event_of_message(struct verbs_conn *conn, bool striped, uint64_t bytes)
{
    const struct verbs_set *set = &conn->in_set;
    struct verbs_path *home = set->paths[wring_verbs_home(&set->stripes, conn->delivered)];
    const struct verbs_arrival *first = head_of(home);
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
static bool next_arrived(struct verbs_conn *conn, struct wring_event *event)
{
    const struct verbs_arrival *heads[VERBS_PATHS_MAX];
    const struct verbs_set *set = &conn->in_set;
    unsigned home = wring_verbs_home(&set->stripes, conn->delivered);
    uint64_t bytes;
    if (head_of(set->paths[home]) == NULL)
        return false;
    for (unsigned i = 0; i < set->stripes.paths; i++)
        heads[i] = head_of(set->paths[i]);
    enum verbs_gathered what = wring_verbs_gather(&set->stripes, conn->delivered, heads, &bytes);
    if (what == VERBS_MISFIT)
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "stripes that do not belong together");
    if (what != VERBS_WHOLE)
        return false;
    bool striped =
        !heads[home]->is_message && wring_verbs_is_striped(&set->stripes, heads[home]->bytes);
    *event = event_of_message(conn, striped, bytes);
    return true;
}

/** Take turns, so that neither kind keeps the other waiting. */
static bool next_event(struct verbs_conn *conn, struct wring_event *event)
{
    conn->done_next = !conn->done_next;
    if (conn->done_next)
        return next_done(conn, event) || next_arrived(conn, event);
    return next_arrived(conn, event) || next_done(conn, event);
}

/** Receives whose bytes nobody reads any more are posted anew. */
static void renew_receives(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths && conn->state == VERBS_OPEN; i++) {
        int error = conn->paths[i]->dead ? 0 : wring_verbs_path_post_receives(conn->paths[i]);
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
    wring_verbs_spread_again(conn);
    if (conn->state != VERBS_OPEN) /* or requests would wait that nobody posts */
        return;
    wring_verbs_give_credits(conn);
    wring_verbs_conn_post(conn);
}

size_t wring_verbs_conn_events(struct verbs_conn *conn, struct wring_event *events, size_t max)
{
    size_t n = 0;
    bool more = true;
    if (conn->news && n < max)
        events[n++] = event_of_news(conn);
    while (n < max && more && conn->state >= VERBS_OPEN && conn->state <= VERBS_DRAINING) {
        more = next_event(conn, &events[n]);
        n += more;
    }
    wring_verbs_resync_step(conn, !more);
    wring_verbs_revive_step(conn);
    if (conn->state == VERBS_DRAINING && !more && is_drained(conn))
        wring_verbs_conn_stop(conn);
    if (conn->state == VERBS_DEAD && !conn->told_closed && n < max) {
        conn->told_closed = true;
        events[n++] = (struct wring_event){.kind = WRING_EVENT_CLOSED,
                                           .conn = &conn->base,
                                           .status = conn->status,
                                           .text = conn->text};
    }
    return n;
}
