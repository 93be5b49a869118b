/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What is to be sent: a message becomes a request on each path that it takes. Requests gather in
 * their path's ring and are posted together.
 */
#include "transport/providers/verbs/verbs_post.h"

#include <stdio.h>
#include <string.h>

#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_remote.h"

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
    return (last && (awaited || conn->state == VERBS_RESYNC ||
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
    while (path->head != path->posted && !path->dead) {
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

void wring_verbs_conn_post(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths && conn->state == VERBS_OPEN; i++)
        post_path(conn->paths[i]);
}

static struct verbs_request *add_request(struct verbs_path *path)
{
    return &path->requests[path->head++ % VERBS_REQUESTS];
}

/** What the peer says of its receives; it cannot have posted more than all that we used up. */
static bool has_credit(struct verbs_path *path)
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
static bool has_credits(struct verbs_conn *conn, bool striped)
{
    const struct verbs_set *set = &conn->out_set;
    if (!striped)
        return has_credit(set->paths[wring_verbs_home(&set->stripes, conn->spread)]);
    for (unsigned i = 0; i < set->stripes.paths; i++)
        if (!has_credit(set->paths[i]))
            return false;
    return true;
}

bool wring_verbs_has_credits(struct verbs_conn *conn)
{
    return has_credits(conn, conn->out_set.stripes.paths > 1);
}

/** May a message be posted? */
static enum wring_status room_for(struct verbs_conn *conn, uint64_t bytes)
{
    if (!wring_verbs_stands(conn) || conn->state == VERBS_RESYNC)
        return WRING_ERR_AGAIN;
    if (conn->state != VERBS_OPEN)
        return WRING_ERR_CLOSED;
    if (conn->next - conn->done >= VERBS_MESSAGES || conn->spread != conn->next)
        return WRING_ERR_AGAIN;
    conn->starved = !has_credits(conn, wring_verbs_is_striped(&conn->out_set.stripes, bytes));
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
static void spread_next(struct verbs_conn *conn)
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

void wring_verbs_spread_again(struct verbs_conn *conn)
{
    while (conn->state == VERBS_OPEN && conn->spread != conn->next) {
        const struct verbs_message *message = &conn->messages[conn->spread % VERBS_MESSAGES];
        conn->starved = !has_credits(conn, is_striped(conn, message));
        if (conn->starved || conn->state != VERBS_OPEN)
            return;
        spread_next(conn);
    }
}

/** A path whose batch is full does not wait for the next poll. */
static void post_full(struct verbs_conn *conn)
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
    enum wring_status status = room_for(conn, bytes);
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
    spread_next(conn);
    verbs->counters.puts++;
    verbs->counters.put_bytes += bytes;
    post_full(conn);
    return WRING_OK;
}

enum wring_status wring_verbs_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct verbs_conn *conn = (struct verbs_conn *)base;
    struct verbs_provider *verbs = wring_verbs_of(conn);
    if (bytes == 0 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = room_for(conn, 0);
    if (status != WRING_OK)
        return status;

    struct verbs_message *message = &conn->messages[conn->next % VERBS_MESSAGES];
    uint8_t *slot = conn->buffers->sends[conn->next % VERBS_MESSAGES];
    *message =
        (struct verbs_message){.local = memcpy(slot, data, bytes), .bytes = bytes, .remote = 0};
    for (unsigned i = 0; i < verbs->n_rails; i++)
        message->lkeys[i] = conn->pin->mrs[i]->lkey;
    conn->next++;
    spread_next(conn);
    verbs->counters.sends++;
    verbs->counters.control_bytes += bytes;
    wring_verbs_conn_post(conn); /* the caller may leave after it */
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

void wring_verbs_give_credits(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++) {
        struct verbs_path *path = conn->paths[i];
        if (!path->dead && path->receives - path->told >= CREDIT_STEP &&
            path->head - path->tail < VERBS_REQUESTS)
            write_credits(path);
    }
}
