/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives without a registered bucket: what each is in terms of the state machines. */
#include "runtime/buffer.h"
#include "runtime/group/immediate_scheme.h"
#include "runtime/request.h"

#include <inttypes.h>

#define WRING_MODULE "group"

/** One call. */
struct call {
    enum wring_call_kind kind;
    struct wring_group *group;
    const void *in;
    void *out;
    uint64_t elems;
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec; /* spec or NULL */
    bool sends_back;   /* what was reduced is encoded once more */
};

static bool is_placed(const void *data, enum wring_dtype dtype)
{
    return data != NULL && (uintptr_t)data % wring_dtype_bytes(dtype) == 0;
}

static enum wring_status check_call(const struct call *call)
{
    const struct wring_log *log = &call->group->session->log;

    if (wring_dtype_bytes(call->dtype) == 0 || (unsigned)call->op >= WRING_OPS) {
        wring_error(log, "immediate call: unknown dtype or op");
        return WRING_ERR_INVALID;
    }
    if (call->elems > UINT64_MAX / 64 / call->group->members.n) {
        wring_error(log,
                    "immediate call: %" PRIu64 " elements of %zu bytes for each of %" PRIu32
                    " members are more than memory can hold",
                    call->elems, wring_dtype_bytes(call->dtype), call->group->members.n);
        return WRING_ERR_INVALID;
    }
    if (call->elems > 0 &&
        (!is_placed(call->in, call->dtype) || !is_placed(call->out, call->dtype))) {
        wring_error(log, "immediate call: memory must be %zu-byte aligned and not NULL",
                    wring_dtype_bytes(call->dtype));
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

static enum wring_status find_codec(const struct call *call, const struct wring_codec **out)
{
    enum wring_status status =
        wring_group_codec(call->group, call->codec, call->dtype, call->op, out);
    if (status != WRING_OK || *out == NULL || call->sends_back ||
        !(wring_codec_info(*out)->flags & WRING_CODEC_TWO_WAYS))
        return status;
    wring_error(&call->group->session->log,
                "codec %s has a way back, which only an allreduce has: use %s",
                wring_codec_info(*out)->spec, wring_codec_info(wring_codec_way(*out, 0))->spec);
    return WRING_ERR_UNSUPPORTED;
}

/** Chunks that fit a slot when encoded. */
static enum wring_status cut(const struct call *call, struct wring_work *work)
{
    struct wring_group *group = call->group;
    size_t slot_bytes = group->scatter.slot_bytes;
    struct wring_geometry *geometry = &work->geometry;

    *geometry = wring_geometry_make(call->elems, (uint32_t)wring_dtype_bytes(call->dtype),
                                    group->members.n, work->codec, slot_bytes);
    if (work->codec == NULL ||
        (wring_codec_bound(work->codec, geometry->chunk_elems) <= slot_bytes &&
         geometry->chunk_elems <= wring_geometry_most(slot_bytes)))
        return WRING_OK;
    wring_error(&group->session->log,
                "codec %s needs larger pieces than immediate calls of %" PRIu32
                " ranks have (%zu bytes): register a bucket",
                wring_codec_info(work->codec)->spec, group->members.n, slot_bytes);
    return WRING_ERR_UNSUPPORTED;
}

/** What the other members are to call as well. */
static struct wring_call describe(const struct call *call, const struct wring_work *work)
{
    return (struct wring_call){
        .kind = call->kind,
        .dtype = call->dtype,
        .op = call->op,
        .elems = call->elems,
        .codec = work->codec != NULL ? wring_codec_info(work->codec)->spec : "none",
    };
}

/** Where pieces of our contribution can be sent from. @param bytes of all of it */
static void find_memory(struct wring_session *session, struct wring_work *work, size_t bytes)
{
    if (wring_block_sendable(session->fabric, NULL))
        return; /* from anywhere */
    work->block = wring_buffer_find(session, work->in, bytes);
    work->staged = !wring_block_sendable(session->fabric, work->block);
}

/**
 * What all calls have in common.
 * @param contributed  elements of our contribution
 */
static enum wring_status begin(const struct call *call, uint64_t contributed,
                               struct wring_work *work)
{
    *work = (struct wring_work){
        .dtype = call->dtype,
        .op = call->op,
        .in = call->in,
        .out = call->out,
        .root = WRING_EVERYBODY,
    };
    enum wring_status status = check_call(call);
    if (status == WRING_OK)
        status = find_codec(call, &work->codec);
    if (status == WRING_OK)
        status = cut(call, work);
    if (status != WRING_OK)
        return status;
    work->call = describe(call, work);
    find_memory(call->group->session, work, contributed * wring_dtype_bytes(call->dtype));
    return WRING_OK;
}

/** The engine has nothing to do in a group of one; what comes out is what went in. */
static void copy_alone(const struct call *call)
{
    if (call->group->members.n == 1 && call->elems > 0 && call->out != call->in)
        memmove(call->out, call->in, call->elems * wring_dtype_bytes(call->dtype));
}

static enum wring_status allreduce(struct wring_group *group, void *buf, uint64_t elems,
                                   enum wring_dtype dtype, enum wring_op op, const char *codec,
                                   struct wring_request **out)
{
    struct call call = {WRING_CALL_ALLREDUCE, group, buf, buf, elems, dtype, op, codec, true};
    struct wring_work work;
    enum wring_status status = begin(&call, elems, &work);
    if (status != WRING_OK)
        return status;
    work.ops = wring_immediate_choose(group, &work);
    return wring_request_start(group, &work, out);
}

enum wring_status wring_allreduce(struct wring_group *group, void *buf, uint64_t elems,
                                  enum wring_dtype dtype, enum wring_op op, const char *codec,
                                  struct wring_request **out)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, allreduce(group, buf, elems, dtype, op, codec, out));
}

static enum wring_status reduce_scatter(struct wring_group *group, const void *in, void *out,
                                        uint64_t elems, enum wring_dtype dtype, enum wring_op op,
                                        const char *codec, struct wring_request **request)
{
    struct call call = {WRING_CALL_REDUCE_SCATTER, group, in, out, elems, dtype, op, codec, false};
    struct wring_work work;
    enum wring_status status = begin(&call, elems * group->members.n, &work);
    if (status != WRING_OK)
        return status;
    work.ops = &wring_sharded;
    work.keep = true;
    work.geometry.each = true;
    work.out_origin = elems * group->members.me;
    copy_alone(&call);
    return wring_request_start(group, &work, request);
}

enum wring_status wring_reduce_scatter(struct wring_group *group, const void *in, void *out,
                                       uint64_t elems, enum wring_dtype dtype, enum wring_op op,
                                       const char *codec, struct wring_request **request)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session,
                               reduce_scatter(group, in, out, elems, dtype, op, codec, request));
}

static enum wring_status allgather(struct wring_group *group, const void *in, void *out,
                                   uint64_t elems, enum wring_dtype dtype, const char *codec,
                                   struct wring_request **request)
{
    struct call call = {
        WRING_CALL_ALLGATHER, group, in, out, elems, dtype, WRING_SUM, codec, false};
    struct wring_work work;
    enum wring_status status = begin(&call, elems, &work);
    if (status != WRING_OK)
        return status;
    work.ops = &wring_exchange;
    work.to_all = true;
    work.geometry.each = true;
    work.in_origin = elems * group->members.me;
    copy_alone(&call);
    return wring_request_start(group, &work, request);
}

enum wring_status wring_allgather(struct wring_group *group, const void *in, void *out,
                                  uint64_t elems, enum wring_dtype dtype, const char *codec,
                                  struct wring_request **request)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, allgather(group, in, out, elems, dtype, codec, request));
}

static enum wring_status alltoall(struct wring_group *group, const void *in, void *out,
                                  uint64_t elems, enum wring_dtype dtype, const char *codec,
                                  struct wring_request **request)
{
    struct call call = {WRING_CALL_ALLTOALL, group, in, out, elems, dtype, WRING_SUM, codec, false};
    struct wring_work work;
    enum wring_status status = begin(&call, elems * group->members.n, &work);
    if (status != WRING_OK)
        return status;
    if (in == out && elems > 0 && group->members.n > 1) {
        wring_error(&group->session->log, "alltoall: in and out must not overlap");
        return WRING_ERR_INVALID;
    }
    work.ops = &wring_exchange;
    work.geometry.each = true;
    copy_alone(&call);
    return wring_request_start(group, &work, request);
}

enum wring_status wring_alltoall(struct wring_group *group, const void *in, void *out,
                                 uint64_t elems, enum wring_dtype dtype, const char *codec,
                                 struct wring_request **request)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, alltoall(group, in, out, elems, dtype, codec, request));
}

static enum wring_status check_broadcast(const struct call *call, uint64_t bytes, uint32_t root)
{
    if (bytes > UINT64_MAX / 64 / call->group->members.n) {
        wring_error(&call->group->session->log,
                    "immediate call: a broadcast of %" PRIu64 " bytes is more than memory can hold",
                    bytes);
        return WRING_ERR_INVALID;
    }
    const struct wring_log *log = &call->group->session->log;

    if (root >= call->group->members.n) {
        wring_error(log, "broadcast: there is no root %" PRIu32 " in a group of %" PRIu32, root,
                    call->group->members.n);
        return WRING_ERR_INVALID;
    }
    if (bytes > 0 && call->out == NULL) {
        wring_error(log, "broadcast: memory must not be NULL");
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/** With a codec a broadcast's bytes are float32; else they are of any kind, at any place. */
static enum wring_status cut_broadcast(const struct call *call, uint64_t bytes,
                                       struct wring_work *work)
{
    if (work->codec == NULL) {
        work->geometry = wring_geometry_make(bytes, 1, 1, NULL, call->group->gather.slot_bytes);
        return WRING_OK;
    }
    if (bytes % sizeof(float) != 0) {
        wring_error(&call->group->session->log,
                    "broadcast: %" PRIu64 " bytes are no whole float32, which codec %s takes",
                    bytes, wring_codec_info(work->codec)->spec);
        return WRING_ERR_INVALID;
    }
    enum wring_status status = check_call(call);
    if (status == WRING_OK)
        status = cut(call, work);
    work->geometry.shards = 1;
    return status;
}

static enum wring_status broadcast(struct wring_group *group, void *buf, uint64_t bytes,
                                   uint32_t root, const char *codec, struct wring_request **request)
{
    uint64_t floats = bytes / sizeof(float);
    struct call call = {
        WRING_CALL_BROADCAST, group, buf, buf, floats, WRING_F32, WRING_SUM, codec, false};
    struct wring_work work = {
        .ops = &wring_exchange,
        .in = buf,
        .out = buf,
        .root = root,
        .to_all = true,
    };
    enum wring_status status = check_broadcast(&call, bytes, root);
    if (status == WRING_OK)
        status = find_codec(&call, &work.codec);
    if (status == WRING_OK)
        status = cut_broadcast(&call, bytes, &work);
    if (status != WRING_OK)
        return status;
    work.call = describe(&call, &work);
    work.call.elems = bytes;
    work.call.root = root;
    find_memory(group->session, &work, bytes);
    return wring_request_start(group, &work, request);
}

enum wring_status wring_broadcast(struct wring_group *group, void *buf, uint64_t bytes,
                                  uint32_t root, const char *codec, struct wring_request **request)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, broadcast(group, buf, bytes, root, codec, request));
}

enum wring_status wring_barrier(struct wring_group *group)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    struct wring_work work = {
        .ops = wring_immediate_flat(group),
        .call = {.kind = WRING_CALL_BARRIER, .codec = "none"},
        .geometry = wring_geometry_make(0, 1, group->members.n, NULL, group->gather.slot_bytes),
        .sync = true,
    };
    return wring_session_leave(session, wring_request_start(group, &work, NULL));
}
