/* SPDX-License-Identifier: Apache-2.0 */
/** Weights that members follow by differences to a base: what they tell each other, and when. */
#include "compress/delta.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/group/group.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "delta"

#define CUT (32 * WRING_DELTA_RUN) /* bytes that a second cache holds twice */
#define END_NS WRING_NS_PER_S      /* a call that is given up ends sooner */

/** What the root tells first. */
struct head {
    uint64_t version, bytes;
    uint64_t base_hash, hash; /* of the weights before and afterwards */
    uint64_t has_code, code_bytes, code_hash;
};

/** What a member can do with that; the least of all members' counts. */
enum verdict {
    MISMATCHED,
    TAKES_COPY,
    TAKES_CODE,
};

/** What calls read and write. */
struct exchange {
    struct head head;
    int32_t mine, least; /* verdicts: this member's, and of all */
};

struct wring_delta {
    struct wring_group *group;
    enum wring_cpu_tier tier;
    unsigned char *data; /* the caller's */
    uint64_t bytes;
    uint32_t root;
    uint64_t version;
    unsigned char *base; /* at the root: what the others hold, as far as it knows ... */
    uint64_t base_hash;  /* ... and its hash */
    /* The session's memory: calls that are given up may reach for it until the session ends. */
    struct exchange *exchange;
    unsigned char *code; /* [room]: kept for the next broadcast */
    size_t room;
};

static bool is_root(const struct wring_delta *delta)
{
    return delta->group->members.me == delta->root;
}

static const struct wring_log *session_log(const struct wring_delta *delta)
{
    return &delta->group->session->log;
}

/* ---- create ---- */

static enum wring_status check_arguments(const struct wring_group *group, const void *data,
                                         uint64_t bytes, uint32_t root)
{
    struct wring_session *session = group->session;

    if (root >= group->members.n) {
        wring_error(&session->log, "root %" PRIu32 ": the group has members 0 to %" PRIu32, root,
                    group->members.n - 1);
        return WRING_ERR_INVALID;
    }
    if (bytes > SIZE_MAX / 2 || (bytes > 0 && data == NULL)) {
        wring_error(&session->log, "%" PRIu64 " bytes at %p: give the weights' memory", bytes,
                    data);
        return WRING_ERR_INVALID;
    }
    const struct wring_block *block = wring_buffer_find(session, data, (size_t)bytes);
    if (block == NULL || block->memory.kind != WRING_MEMORY_DEVICE)
        return WRING_OK;
    wring_error(&session->log, "the weights are in a device's memory: give a copy in this "
                               "process's own");
    return WRING_ERR_UNSUPPORTED;
}

/** The root's copy. */
static enum wring_status keep_base(struct wring_delta *delta)
{
    delta->base = malloc(delta->bytes > 0 ? (size_t)delta->bytes : 1);
    if (delta->base == NULL) {
        wring_error(session_log(delta), "no memory for the base, %" PRIu64 " bytes", delta->bytes);
        return WRING_ERR_NO_MEMORY;
    }
    if (delta->bytes > 0)
        memcpy(delta->base, delta->data, (size_t)delta->bytes);
    delta->base_hash = wring_delta_hash(WRING_DELTA_HASH, delta->data, delta->bytes);
    return WRING_OK;
}

static enum wring_status create_inside(struct wring_group *group, void *data, uint64_t bytes,
                                       uint32_t root, struct wring_delta **out)
{
    enum wring_status status = check_arguments(group, data, bytes, root);
    if (status != WRING_OK)
        return status;

    struct wring_delta *delta = calloc(1, sizeof(*delta));
    if (delta == NULL)
        return WRING_ERR_NO_MEMORY;
    delta->group = group;
    delta->data = data;
    delta->bytes = bytes;
    delta->root = root;
    delta->tier = wring_cpu_best();
    wring_cpu_tier_parse(group->session->config.cpu, &delta->tier);
    status =
        wring_buffer_alloc(group->session, sizeof(*delta->exchange), (void **)&delta->exchange);
    if (status == WRING_OK && is_root(delta))
        status = keep_base(delta);
    if (status != WRING_OK) {
        wring_delta_destroy(delta);
        return status;
    }
    *out = delta;
    return WRING_OK;
}

enum wring_status wring_delta_create(struct wring_group *group, void *data, uint64_t bytes,
                                     uint32_t root, struct wring_delta **out)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, create_inside(group, data, bytes, root, out));
}

void wring_delta_destroy(struct wring_delta *delta)
{
    if (delta == NULL)
        return;
    wring_buffer_free(delta->group->session, delta->exchange);
    wring_buffer_free(delta->group->session, delta->code);
    free(delta->base);
    free(delta);
}

/* ---- the root's part ---- */

/** @return whether there is room for a code of so many bytes, whose first `used` stay */
static bool make_room(struct wring_delta *delta, size_t used, size_t bytes)
{
    if (bytes <= delta->room)
        return true;
    size_t most = wring_delta_bound(delta->bytes), wish = bytes + bytes / 2;
    size_t room = wish < most ? wish : most;
    void *code;
    if (wring_buffer_alloc(delta->group->session, room, &code) != WRING_OK)
        return false;
    if (used > 0)
        memcpy(code, delta->code, used);
    wring_buffer_free(delta->group->session, delta->code);
    delta->code = code;
    delta->room = room;
    return true;
}

/** Encode the part of the weights at `at`, which becomes the base's. @return whether that gains */
static bool encode_part(struct wring_delta *delta, uint64_t at, uint64_t n, struct head *head)
{
    const unsigned char *now = delta->data + at;
    size_t used = (size_t)head->code_bytes;

    if (!make_room(delta, used, used + wring_delta_bound(n)))
        return false;
    size_t more = wring_delta_encode(delta->tier, delta->base + at, now, n, delta->code + used);
    head->code_bytes += more;
    return head->code_bytes < delta->bytes - delta->bytes / 16 &&
           wring_delta_apply(delta->tier, delta->base + at, delta->base + at, n, delta->code + used,
                             more) == WRING_OK;
}

/** Encode all, as far as that gains. The base becomes the weights. */
static void make_code(struct wring_delta *delta, struct head *head)
{
    *head = (struct head){.version = delta->version + 1,
                          .bytes = delta->bytes,
                          .base_hash = delta->base_hash,
                          .hash = WRING_DELTA_HASH,
                          .has_code = delta->bytes > 0};
    for (uint64_t at = 0, n; at < delta->bytes; at += n) {
        n = delta->bytes - at < CUT ? delta->bytes - at : CUT;
        head->hash = wring_delta_hash(head->hash, delta->data + at, n);
        if (head->has_code && encode_part(delta, at, n, head))
            continue;
        head->has_code = 0;
        memcpy(delta->base + at, delta->data + at, (size_t)n);
    }
    if (head->has_code)
        head->code_hash = wring_delta_hash(WRING_DELTA_HASH, delta->code, head->code_bytes);
    delta->base_hash = head->hash;
}

/* ---- the other members' part ---- */

static enum verdict judge(struct wring_delta *delta, const struct head *head, uint64_t hash)
{
    if (head->bytes != delta->bytes) {
        wring_error(session_log(delta),
                    "these are %" PRIu64 " bytes of weights, and %" PRIu64
                    " at the root: create it with as many on all members",
                    delta->bytes, head->bytes);
        return MISMATCHED;
    }
    if (head->has_code == 0 || head->code_bytes > wring_delta_bound(delta->bytes) ||
        head->base_hash != hash)
        return TAKES_COPY;
    return make_room(delta, 0, (size_t)head->code_bytes) ? TAKES_CODE : TAKES_COPY;
}

static enum wring_status refuse(const struct wring_delta *delta, const char *what)
{
    wring_error(session_log(delta), "%s: the next broadcast sends a copy", what);
    return WRING_ERR_FRAME;
}

static enum wring_status take_code(struct wring_delta *delta, const struct head *head)
{
    size_t bytes = (size_t)head->code_bytes;

    if (is_root(delta))
        return WRING_OK;
    if (wring_delta_hash(WRING_DELTA_HASH, delta->code, bytes) != head->code_hash)
        return refuse(delta, "the difference came with another hash than the root says");
    if (wring_delta_apply(delta->tier, delta->data, delta->data, delta->bytes, delta->code,
                          bytes) != WRING_OK)
        return refuse(delta, "the difference is malformed");
    return WRING_OK;
}

static enum wring_status take_copy(const struct wring_delta *delta, const struct head *head)
{
    if (is_root(delta) ||
        wring_delta_hash(WRING_DELTA_HASH, delta->data, delta->bytes) == head->hash)
        return WRING_OK;
    return refuse(delta, "the copy has another hash than the root says, whose weights must not "
                         "change meanwhile");
}

/* ---- all ---- */

/** Its memory stays until the session ends, if a peer may still need it. */
static void give_up(struct wring_delta *delta, struct wring_request *request)
{
    if (wring_request_cancel(request) == WRING_OK)
        return;
    wring_buffer_keep(delta->group->session, delta->exchange);
    if (delta->code != NULL)
        wring_buffer_keep(delta->group->session, delta->code);
}

/** Wait for a call of the group, which is given up when the time is over. */
static enum wring_status await(struct wring_delta *delta, struct wring_request *request,
                               uint64_t deadline_ns)
{
    uint64_t left = WRING_FOREVER;

    if (deadline_ns != WRING_NEVER) {
        uint64_t now = wring_now_ns();
        left = deadline_ns > now ? deadline_ns - now : 0;
    }
    enum wring_status status = wring_request_wait(request, left, NULL);
    if (status != WRING_ERR_TIMEOUT)
        return status;
    give_up(delta, request);
    status = wring_request_wait(request, END_NS, NULL);
    return status == WRING_ERR_CANCELLED ? WRING_ERR_TIMEOUT : status;
}

static enum wring_status broadcast(struct wring_delta *delta, void *buf, uint64_t bytes,
                                   uint64_t deadline_ns)
{
    struct wring_request *request;
    enum wring_status status =
        wring_broadcast(delta->group, buf, bytes, delta->root, NULL, &request);
    return status == WRING_OK ? await(delta, request, deadline_ns) : status;
}

static enum wring_status send_code(struct wring_delta *delta, const struct head *head,
                                   uint64_t deadline_ns)
{
    enum wring_status status = broadcast(delta, delta->code, head->code_bytes, deadline_ns);
    return status == WRING_OK ? take_code(delta, head) : status;
}

static enum wring_status send_copy(struct wring_delta *delta, const struct head *head,
                                   uint64_t deadline_ns)
{
    enum wring_status status = broadcast(delta, delta->data, delta->bytes, deadline_ns);
    return status == WRING_OK ? take_copy(delta, head) : status;
}

/** All hear what the root has, and what the least of them can do with it. @param hash  of this
 *  member's weights */
static enum wring_status agree(struct wring_delta *delta, uint64_t hash, uint64_t deadline_ns)
{
    struct exchange *exchange = delta->exchange;
    struct wring_request *request;
    enum wring_status status =
        broadcast(delta, &exchange->head, sizeof(exchange->head), deadline_ns);
    if (status != WRING_OK)
        return status;
    exchange->mine = (int32_t)judge(delta, &exchange->head, hash);
    status = wring_allreduce(delta->group, &exchange->mine, &exchange->least, 1, WRING_I32,
                             WRING_MIN, NULL, &request);
    return status == WRING_OK ? await(delta, request, deadline_ns) : status;
}

/** NULL: the caller does not ask. */
static enum wring_status give_result(const struct wring_delta_result *ours,
                                     struct wring_delta_result *theirs)
{
    static const struct wring_versioned_struct sized = {"struct wring_delta_result",
                                                        sizeof(struct wring_delta_result),
                                                        sizeof(struct wring_delta_result)};
    return theirs != NULL ? wring_versioned_struct_write(&sized, ours, theirs) : WRING_OK;
}

static enum wring_status broadcast_inside(struct wring_delta *delta, uint64_t timeout_ns,
                                          struct wring_delta_result *result)
{
    struct wring_delta_result ours = {.version = delta->version};
    struct exchange *exchange = delta->exchange;
    uint64_t hash;

    enum wring_status status = give_result(&ours, result);
    if (status != WRING_OK)
        return status;
    if (is_root(delta)) {
        hash = delta->base_hash;
        make_code(delta, &exchange->head);
    } else {
        hash = wring_delta_hash(WRING_DELTA_HASH, delta->data, delta->bytes);
    }
    uint64_t deadline_ns = wring_deadline_in(timeout_ns);
    status = agree(delta, hash, deadline_ns);
    if (status != WRING_OK)
        return status;
    if (exchange->least == MISMATCHED)
        return WRING_ERR_MISMATCH;
    const struct head head = exchange->head; /* what was agreed on */
    bool whole = exchange->least != TAKES_CODE;
    if (delta->bytes > 0)
        status =
            whole ? send_copy(delta, &head, deadline_ns) : send_code(delta, &head, deadline_ns);
    if (status != WRING_OK)
        return status;
    ours.version = delta->version = head.version;
    ours.whole = whole;
    ours.bytes = whole ? delta->bytes : head.code_bytes;
    return give_result(&ours, result);
}

enum wring_status wring_delta_broadcast(struct wring_delta *delta, uint64_t timeout_ns,
                                        struct wring_delta_result *result)
{
    struct wring_session *session = delta->group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, broadcast_inside(delta, timeout_ns, result));
}
