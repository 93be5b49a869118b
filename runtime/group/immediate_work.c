/* SPDX-License-Identifier: Apache-2.0 */
/* What each call is in terms of the state machines. */
#include "runtime/group/immediate_work.h"

#include <inttypes.h>
#include <stdlib.h>

#include "compress/codec.h"
#include "compress/reduce.h"
#include "runtime/buffer.h"
#include "runtime/request.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "group"

static const struct wring_versioned_struct call_sized = {
    "struct wring_call",
    sizeof(struct wring_call),
    sizeof(struct wring_call),
};

/** The options of a call; NULL stands for none. */
static enum wring_status read_call_options(struct wring_immediate *call,
                                           const struct wring_call *how)
{
    call->has_how = how != NULL;
    if (how == NULL || wring_versioned_struct_read(&call_sized, how, &call->how))
        return WRING_OK;
    return wring_versioned_struct_refuse(&call_sized, how, &call->group->session->log);
}

static bool is_aligned_to_dtype(const void *data, enum wring_dtype dtype)
{
    return data != NULL && (uintptr_t)data % wring_dtype_align(dtype) == 0;
}

static enum wring_status check_count(const struct wring_immediate *call, uint64_t elems)
{
    if (elems <= UINT64_MAX / 64 / call->group->members.n)
        return WRING_OK;
    wring_error(&call->group->session->log,
                "immediate call: %" PRIu64 " elements of %zu bytes for each of %" PRIu32
                " members are more than memory can hold",
                elems, wring_dtype_bytes(call->dtype), call->group->members.n);
    return WRING_ERR_INVALID;
}

/** Does memory of so many elements begin where other memory has not ended? */
static bool has_overlap(const struct wring_immediate *call)
{
    uintptr_t in = (uintptr_t)call->in, out = (uintptr_t)call->out;
    size_t size = wring_dtype_bytes(call->dtype);
    bool apart = in < out ? out - in >= call->in_elems * size : in - out >= call->out_elems * size;

    return !apart && call->in != call->alias && call->in_elems > 0 && call->out_elems > 0;
}

static enum wring_status check_memory(const struct wring_immediate *call)
{
    const struct wring_log *log = &call->group->session->log;

    if ((call->in_elems > 0 && !is_aligned_to_dtype(call->in, call->dtype)) ||
        (call->out_elems > 0 && !is_aligned_to_dtype(call->out, call->dtype))) {
        wring_error(log, "immediate call: memory must be %zu-byte aligned and not NULL",
                    wring_dtype_align(call->dtype));
        return WRING_ERR_INVALID;
    }
    if (!has_overlap(call))
        return WRING_OK;
    wring_error(log, "%s: in and out overlap otherwise than the call allows: give memory apart",
                wring_call_name(call->kind));
    return WRING_ERR_INVALID;
}

static bool is_reduction(const struct wring_immediate *call)
{
    return wring_call_reduces(call->kind);
}

static enum wring_status check_op(const struct wring_immediate *call)
{
    const struct wring_log *log = &call->group->session->log;
    const char *name = wring_call_name(call->kind), *op = wring_op_name(call->op);
    bool premul = is_reduction(call) && call->op == WRING_PREMUL_SUM;
    bool typed = call->kind != WRING_CALL_BROADCAST && call->how.dtype != 0;

    if (is_reduction(call) && !wring_op_takes(call->op, call->dtype))
        wring_error(log, "%s: there is no %s of %s: wring/types.h lists what is", name, op,
                    wring_dtype_name(call->dtype));
    else if (premul && !call->has_how)
        wring_error(log, "%s: %s needs the factor in a struct wring_call", name, op);
    else if (!premul && call->how.factor != 0)
        wring_error(log, "%s: a factor is for premul_sum alone: leave it 0", name);
    else if (typed)
        wring_error(log, "%s: a call's dtype is for a broadcast alone: leave it 0", name);
    else
        return WRING_OK;
    return WRING_ERR_INVALID;
}

static enum wring_status check_call(const struct wring_immediate *call)
{
    if (wring_dtype_bytes(call->dtype) == 0) {
        wring_error(&call->group->session->log, "immediate call: unknown dtype");
        return WRING_ERR_INVALID;
    }
    enum wring_status status = check_count(call, call->elems);
    return status == WRING_OK ? check_memory(call) : status;
}

/** Is what was reduced encoded once more? */
static bool sends_back(const struct wring_immediate *call)
{
    return call->kind == WRING_CALL_ALLREDUCE || call->kind == WRING_CALL_REDUCE;
}

static enum wring_status find_codec(const struct wring_immediate *call,
                                    const struct wring_codec **out)
{
    enum wring_op op = call->op == WRING_PREMUL_SUM ? WRING_SUM : call->op;
    enum wring_status status =
        wring_group_codec(call->group, call->how.codec, call->dtype, op, out);
    if (status != WRING_OK || *out == NULL || sends_back(call))
        return status;
    const struct wring_codec_info *info = wring_codec_info(*out);
    if (info->rounds > 0) {
        wring_error(
            &call->group->session->log,
            "codec %s has rounds, which only an allreduce and a reduce have: call one, or use "
            "another",
            info->spec);
        return WRING_ERR_UNSUPPORTED;
    }
    if (!(info->flags & WRING_CODEC_TWO_WAYS))
        return status;
    const struct wring_codec_info *in = wring_codec_info(wring_codec_way(*out, 0));
    wring_error(&call->group->session->log,
                "codec %s has a way back, which only an allreduce and a reduce have: use %s",
                info->spec, in != info ? in->spec : "another");
    return WRING_ERR_UNSUPPORTED;
}

/** Chunks that fit a slot when encoded. */
static enum wring_status make_call_partition(const struct wring_immediate *call,
                                             struct wring_work *work)
{
    struct wring_group *group = call->group;
    size_t slot_bytes = group->scatter.slot_bytes;
    struct wring_partition *partition = &work->partition;

    *partition = wring_partition_make(call->elems, (uint32_t)wring_dtype_bytes(call->dtype),
                                      group->members.n, work->codec, slot_bytes);
    if (work->codec == NULL ||
        (wring_codec_piece_bytes(work->codec, partition->chunk_elems) <= slot_bytes &&
         partition->chunk_elems <= wring_partition_most(slot_bytes)))
        return WRING_OK;
    wring_error(&group->session->log,
                "codec %s needs larger pieces than immediate calls of %" PRIu32
                " ranks have (%zu bytes): register a bucket",
                wring_codec_info(work->codec)->spec, group->members.n, slot_bytes);
    return WRING_ERR_UNSUPPORTED;
}

/** What the other members are to call as well. */
static struct wring_op_check make_op_check(const struct wring_immediate *call,
                                           const struct wring_work *work)
{
    return (struct wring_op_check){
        .kind = call->kind,
        .dtype = call->dtype,
        .op = call->op,
        .root = call->root,
        .elems = call->elems,
        .codec = work->codec != NULL ? wring_codec_info(work->codec)->identity : "none",
    };
}

/** Registered memory in which so many elements lie. @return whether pieces have to be staged */
static bool find_block(const struct wring_immediate *call, const void *data, uint64_t elems,
                       const struct wring_block **out)
{
    struct wring_session *session = call->group->session;

    *out = wring_buffer_find(session, data, elems * wring_dtype_bytes(call->dtype));
    return !wring_block_sendable(session->fabric, *out);
}

/** Where pieces of our contribution, and of sums, can be sent from. */
static void set_work_blocks(const struct wring_immediate *call, struct wring_work *work)
{
    if (wring_block_sendable(call->group->session->fabric, NULL))
        return; /* from anywhere */
    work->in_staged = find_block(call, call->in, call->in_elems, &work->in_block);
    work->out_staged = find_block(call, call->out, call->out_elems, &work->out_block);
}

/**
 * What is summed is what we contribute times our factor: where the result goes, if that has room
 * for it, else in memory of the call's own.
 */
static enum wring_status premultiply_input(struct wring_immediate *call, struct wring_work *work)
{
    const struct wring_session *session = call->group->session;
    void *product = call->out;

    if (call->op != WRING_PREMUL_SUM || call->in_elems == 0)
        return WRING_OK;
    if (call->out_elems < call->in_elems)
        product = work->memory = malloc(call->in_elems * wring_dtype_bytes(call->dtype));
    if (product == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_scale(call->dtype, product, call->in, call->in_elems, call->how.factor,
                session->config.cpu);
    work->in = call->in = product;
    return WRING_OK;
}

/** What all calls have in common. */
static enum wring_status begin_work(struct wring_immediate *call, struct wring_work *work)
{
    *work = (struct wring_work){
        .dtype = call->dtype,
        .op = call->op == WRING_PREMUL_SUM ? WRING_SUM : call->op,
        .in = call->in,
        .out = call->out,
        .root = WRING_EVERYBODY,
        .priority = call->how.priority,
        .result_bytes = call->out_elems * wring_dtype_bytes(call->dtype),
    };
    enum wring_status status = check_call(call);
    if (status == WRING_OK)
        status = find_codec(call, &work->codec);
    if (status == WRING_OK)
        status = make_call_partition(call, work);
    if (status == WRING_OK)
        status = premultiply_input(call, work);
    if (status != WRING_OK)
        return status;
    work->call = make_op_check(call, work);
    set_work_blocks(call, work);
    return WRING_OK;
}

/** The engine has nothing to do in a group of one; what comes out is what went in. */
static void copy_in_to_out(const struct wring_immediate *call)
{
    if (call->group->members.n == 1 && call->elems > 0 && call->out != call->in)
        memmove(call->out, call->in, call->elems * wring_dtype_bytes(call->dtype));
}

static enum wring_status begin_allreduce(struct wring_immediate *call, struct wring_work *work)
{
    call->in_elems = call->out_elems = call->elems;
    call->alias = call->out;
    enum wring_status status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    copy_in_to_out(call);
    return WRING_OK;
}

/** Elements of the first n runs. */
static uint64_t elems_of_runs(const uint64_t *runs, uint32_t n)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < n; i++)
        elems += runs[i];
    return elems;
}

static uint64_t longest_run(const uint64_t *runs, uint32_t n)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < n; i++)
        elems = runs[i] > elems ? runs[i] : elems;
    return elems;
}

/** Where a member's run begins in memory of all. */
static uint64_t own_begin(const struct wring_immediate *call)
{
    uint32_t me = call->group->members.me;
    return call->in_runs != NULL ? elems_of_runs(call->in_runs, me) : call->elems * me;
}

/** A member's run in memory of all; anywhere, where counts are more than there is. */
static const void *own_run(const struct wring_immediate *call, const void *all)
{
    uintptr_t begin = (uintptr_t)all + own_begin(call) * wring_dtype_bytes(call->dtype);
    return all != NULL ? (const void *)begin : NULL;
}

static enum wring_status begin_reduce_scatter(struct wring_immediate *call, struct wring_work *work)
{
    call->in_elems = call->elems * call->group->members.n;
    call->out_elems = call->elems;
    call->alias = own_run(call, call->in) == call->out ? call->in : NULL;
    enum wring_status status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    work->partition.each = true;
    work->out_origin = call->elems * call->group->members.me;
    copy_in_to_out(call);
    return WRING_OK;
}

static enum wring_status begin_allgather(struct wring_immediate *call, struct wring_work *work)
{
    call->in_elems = call->elems;
    call->out_elems = call->elems * call->group->members.n;
    call->alias = own_run(call, call->out);
    enum wring_status status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    work->to_all = true;
    work->partition.each = true;
    work->in_origin = call->elems * call->group->members.me;
    copy_in_to_out(call);
    return WRING_OK;
}

/** All members know how long the runs are. */
static enum wring_status check_runs(const struct wring_immediate *call)
{
    if (call->in_runs != NULL)
        return WRING_OK;
    wring_error(&call->group->session->log, "%s: elems must name the elements of each member's run",
                wring_call_name(call->kind));
    return WRING_ERR_INVALID;
}

/** What the others are to have alike. */
static void describe_runs(const struct wring_immediate *call, struct wring_work *work)
{
    work->in_runs = call->in_runs;
    work->partition.each = true;
    work->call.elems = elems_of_runs(call->in_runs, call->group->members.n);
    work->call.runs = wring_call_runs(call->in_runs, call->group->members.n);
}

static enum wring_status begin_reduce_scatterv(struct wring_immediate *call,
                                               struct wring_work *work)
{
    const struct wring_members *members = &call->group->members;
    enum wring_status status = check_runs(call);
    if (status != WRING_OK)
        return status;
    call->elems = longest_run(call->in_runs, members->n);
    call->in_elems = elems_of_runs(call->in_runs, members->n);
    call->out_elems = call->in_runs[members->me];
    call->alias = own_run(call, call->in) == call->out ? call->in : NULL;
    status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    describe_runs(call, work);
    work->out_origin = own_begin(call);
    copy_in_to_out(call);
    return WRING_OK;
}

static enum wring_status begin_allgatherv(struct wring_immediate *call, struct wring_work *work)
{
    const struct wring_members *members = &call->group->members;
    enum wring_status status = check_runs(call);
    if (status != WRING_OK)
        return status;
    call->elems = longest_run(call->in_runs, members->n);
    call->in_elems = call->in_runs[members->me];
    call->out_elems = elems_of_runs(call->in_runs, members->n);
    call->alias = own_run(call, call->out);
    status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    describe_runs(call, work);
    work->to_all = true;
    work->in_origin = own_begin(call);
    copy_in_to_out(call);
    return WRING_OK;
}

/** What two members exchange they alone know, so each sends the other a piece that is not full. */
static enum wring_status check_alltoallv(const struct wring_immediate *call)
{
    const struct wring_log *log = &call->group->session->log;
    uint32_t me = call->group->members.me;

    if (call->in_runs == NULL || call->out_runs == NULL)
        wring_error(log, "alltoallv: in_elems and out_elems must name the elements of each run");
    else if (call->in_runs[me] != call->out_runs[me])
        wring_error(log,
                    "alltoallv: member %" PRIu32 " has %" PRIu64 " elements for itself in in_elems "
                    "and %" PRIu64 " in out_elems: name the same",
                    me, call->in_runs[me], call->out_runs[me]);
    else
        return WRING_OK;
    return WRING_ERR_INVALID;
}

static enum wring_status begin_alltoallv(struct wring_immediate *call, struct wring_work *work)
{
    uint32_t n = call->group->members.n;
    enum wring_status status = check_alltoallv(call);
    if (status != WRING_OK)
        return status;
    uint64_t in = longest_run(call->in_runs, n), out = longest_run(call->out_runs, n);
    call->elems = in > out ? in : out;
    call->in_elems = elems_of_runs(call->in_runs, n);
    call->out_elems = elems_of_runs(call->out_runs, n);
    call->alias = n == 1 ? call->out : NULL;
    status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    if (work->codec != NULL) {
        wring_error(&call->group->session->log,
                    "alltoallv takes no codec, as codec %s, whose codes do not tell how many "
                    "elements the sender had: use none, or alltoall",
                    wring_codec_info(work->codec)->spec);
        return WRING_ERR_UNSUPPORTED;
    }
    work->in_runs = call->in_runs;
    work->out_runs = call->out_runs;
    work->partition.each = work->partition.told = true;
    work->call.elems = 0;
    copy_in_to_out(call);
    return WRING_OK;
}

static enum wring_status begin_alltoall(struct wring_immediate *call, struct wring_work *work)
{
    call->in_elems = call->out_elems = call->elems * call->group->members.n;
    call->alias = call->group->members.n == 1 ? call->out : NULL;
    enum wring_status status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    work->partition.each = true;
    copy_in_to_out(call);
    return WRING_OK;
}

static enum wring_status check_root(const struct wring_immediate *call)
{
    if (call->root < call->group->members.n)
        return WRING_OK;
    wring_error(&call->group->session->log,
                "%s: there is no root %" PRIu32 " in a group of %" PRIu32,
                wring_call_name(call->kind), call->root, call->group->members.n);
    return WRING_ERR_INVALID;
}

static enum wring_status begin_reduce(struct wring_immediate *call, struct wring_work *work)
{
    enum wring_status status = check_root(call);
    if (status != WRING_OK)
        return status;
    call->in_elems = call->elems;
    call->out_elems = wring_immediate_is_root(call) ? call->elems : 0;
    call->alias = wring_immediate_is_root(call) ? call->out : NULL;
    status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    work->root = call->root;
    work->to_root = true;
    copy_in_to_out(call);
    return WRING_OK;
}

static enum wring_status begin_gather(struct wring_immediate *call, struct wring_work *work)
{
    enum wring_status status = check_root(call);
    if (status != WRING_OK)
        return status;
    call->in_elems = call->elems;
    call->out_elems = wring_immediate_is_root(call) ? call->elems * call->group->members.n : 0;
    call->alias = wring_immediate_is_root(call) ? own_run(call, call->out) : NULL;
    status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    work->root = call->root;
    work->to_root = true;
    work->partition.each = true;
    work->in_origin = call->elems * call->root; /* the root's shard is what goes to it */
    copy_in_to_out(call);
    return WRING_OK;
}

static enum wring_status begin_scatter(struct wring_immediate *call, struct wring_work *work)
{
    enum wring_status status = check_root(call);
    if (status != WRING_OK)
        return status;
    call->in_elems = wring_immediate_is_root(call) ? call->elems * call->group->members.n : 0;
    call->out_elems = call->elems;
    call->alias =
        wring_immediate_is_root(call) && own_run(call, call->in) == call->out ? call->in : NULL;
    status = begin_work(call, work);
    if (status != WRING_OK)
        return status;
    work->root = call->root;
    work->partition.each = true;
    work->out_origin = call->elems * call->root; /* the root's shard is what comes from it */
    copy_in_to_out(call);
    return WRING_OK;
}

static enum wring_status check_broadcast(const struct wring_immediate *call, uint64_t bytes)
{
    const struct wring_log *log = &call->group->session->log;

    if (bytes > UINT64_MAX / 64 / call->group->members.n) {
        wring_error(log,
                    "immediate call: a broadcast of %" PRIu64 " bytes is more than memory can hold",
                    bytes);
        return WRING_ERR_INVALID;
    }
    if (bytes > 0 && call->out == NULL) {
        wring_error(log, "broadcast: memory must not be NULL");
        return WRING_ERR_INVALID;
    }
    return check_root(call);
}

/** With a codec a broadcast's bytes are elements; else they are of any kind, at any place. */
static enum wring_status cut_broadcast(const struct wring_immediate *call, uint64_t bytes,
                                       struct wring_work *work)
{
    if (work->codec == NULL) {
        work->partition = wring_partition_make(bytes, 1, 1, NULL, call->group->gather.slot_bytes);
        return WRING_OK;
    }
    if (bytes % wring_dtype_bytes(call->dtype) != 0) {
        wring_error(&call->group->session->log,
                    "broadcast: %" PRIu64
                    " bytes are no whole elements of %s, which codec %s takes",
                    bytes, wring_dtype_name(call->dtype), wring_codec_info(work->codec)->spec);
        return WRING_ERR_INVALID;
    }
    enum wring_status status = check_call(call);
    if (status == WRING_OK)
        status = make_call_partition(call, work);
    work->partition.shards = 1;
    return status;
}

/** Its elements are bytes, until a codec takes them as of a type. */
static enum wring_status begin_broadcast(struct wring_immediate *call, struct wring_work *work)
{
    uint64_t bytes = call->elems;

    call->dtype = call->how.dtype;
    call->alias = call->out;
    *work = (struct wring_work){
        .in = call->in,
        .out = call->out,
        .root = call->root,
        .to_all = true,
        .priority = call->how.priority,
        .result_bytes = bytes,
    };
    enum wring_status status = check_broadcast(call, bytes);
    if (status == WRING_OK)
        status = find_codec(call, &work->codec);
    if (work->codec == NULL)
        call->dtype = WRING_F32; /* as good as any */
    size_t elem_bytes = wring_dtype_bytes(call->dtype);
    call->elems = call->in_elems = call->out_elems = bytes / elem_bytes;
    if (status == WRING_OK)
        status = cut_broadcast(call, bytes, work);
    if (status != WRING_OK)
        return status;
    work->call = make_op_check(call, work);
    work->call.elems = bytes;
    work->dtype = call->dtype;
    call->in_elems = call->out_elems = (bytes + elem_bytes - 1) / elem_bytes;
    set_work_blocks(call, work);
    return WRING_OK;
}

static enum wring_status begin_barrier(struct wring_immediate *call, struct wring_work *work)
{
    struct wring_group *group = call->group;

    if (call->how.codec != NULL && strcmp(call->how.codec, "none") != 0) {
        wring_error(&group->session->log, "barrier: it has nothing that codec %s could encode",
                    call->how.codec);
        return WRING_ERR_INVALID;
    }
    *work = (struct wring_work){
        .call = {.kind = WRING_CALL_BARRIER, .codec = "none"},
        .partition = wring_partition_make(0, 1, group->members.n, NULL, group->gather.slot_bytes),
        .root = WRING_EVERYBODY,
        .priority = call->how.priority,
        .sync = true,
    };
    return WRING_OK;
}

enum wring_status wring_immediate_begin(struct wring_immediate *call, const struct wring_call *how,
                                        struct wring_work *work)
{
    static enum wring_status (*const begins[])(struct wring_immediate *, struct wring_work *) = {
        [WRING_CALL_ALLREDUCE] = begin_allreduce,
        [WRING_CALL_REDUCE_SCATTER] = begin_reduce_scatter,
        [WRING_CALL_ALLGATHER] = begin_allgather,
        [WRING_CALL_ALLTOALL] = begin_alltoall,
        [WRING_CALL_BROADCAST] = begin_broadcast,
        [WRING_CALL_BARRIER] = begin_barrier,
        [WRING_CALL_REDUCE] = begin_reduce,
        [WRING_CALL_GATHER] = begin_gather,
        [WRING_CALL_SCATTER] = begin_scatter,
        [WRING_CALL_ALLGATHERV] = begin_allgatherv,
        [WRING_CALL_REDUCE_SCATTERV] = begin_reduce_scatterv,
        [WRING_CALL_ALLTOALLV] = begin_alltoallv,
    };

    enum wring_status status = read_call_options(call, how);
    work->memory = NULL; /* all else is set at once */
    if (status == WRING_OK)
        status = check_op(call);
    return status == WRING_OK ? begins[call->kind](call, work) : status;
}

enum wring_status wring_immediate_begin_again(struct wring_immediate *call,
                                              const struct wring_work *kept,
                                              struct wring_work *work)
{
    call->in_elems = call->out_elems = call->elems;
    call->alias = call->out;
    enum wring_status status = check_memory(call);
    if (status != WRING_OK)
        return status;
    *work = *kept;
    work->in = call->in;
    work->out = call->out;
    set_work_blocks(call, work);
    copy_in_to_out(call);
    return WRING_OK;
}
