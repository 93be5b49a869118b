/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives without a registered bucket. */
#include <stdlib.h>

#include "runtime/group/immediate_select.h"
#include "runtime/group/immediate_work.h"
#include "runtime/request.h"

#define SCRATCH_ALIGN 64

/** Sums of codes that the root is to have are made in memory of the group's, from the first such
 *  call on. */
static enum wring_status make_sums_of_codes(struct wring_immediate *call,
                                            const struct wring_work *work)
{
    struct wring_group *group = call->group;

    if (work->algorithm != WRING_REDUCE_TWO_SHOT || work->codec == NULL ||
        wring_immediate_is_root(call))
        return WRING_OK;
    pthread_mutex_lock(&group->mutex);
    enum wring_status status = wring_collective_make_sums(&group->collective);
    pthread_mutex_unlock(&group->mutex);
    return status;
}

/** Bytes of an element of partial sums that are not made in `out`: they travel in another type, or
 *  this member has none. 0: there are no such sums. */
static size_t partial_bytes(const struct wring_immediate *call, const struct wring_work *work)
{
    bool tree = work->algorithm == WRING_REDUCE_TREE;

    if (work->codec != NULL || (!tree && !wring_algorithm_has_partners(work->algorithm)))
        return 0;
    if (wring_algorithm_widens(work->dtype, work->op))
        return sizeof(float);
    return tree && !wring_immediate_is_root(call) ? work->partition.elem_bytes : 0;
}

/** Make memory of the call's own for partial sums or blocks, at the end of any that it has. */
static enum wring_status make_scratch(const struct wring_immediate *call, struct wring_work *work)
{
    size_t used = work->memory != NULL ? call->in_elems * wring_dtype_bytes(call->dtype) : 0;
    size_t begin = (used + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;

    work->scratch_bytes = (size_t)work->partition.elems * partial_bytes(call, work) +
                          wring_relay_scratch_bytes(work, call->group->members.n) +
                          wring_bruck_scratch_bytes(work, call->group->members.n);
    if (work->scratch_bytes == 0)
        return WRING_OK;
    uint8_t *memory = realloc(work->memory, begin + work->scratch_bytes);
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    if (used > 0)
        work->in = memory;
    work->memory = memory;
    work->scratch = memory + begin;
    return WRING_OK;
}

/** Is it one of those that are kept? */
static bool is_plain(const struct wring_immediate *call, const struct wring_call *how)
{
    return call->kind == WRING_CALL_ALLREDUCE && how == NULL;
}

/** As start_call(), of a plain call of which one like it was made before. */
static enum wring_status start_kept_call(struct wring_immediate *call,
                                         const struct wring_work *kept,
                                         struct wring_request **request)
{
    struct wring_work work;
    enum wring_status status = wring_immediate_begin_again(call, kept, &work);
    if (status == WRING_OK)
        status = make_scratch(call, &work);
    if (status != WRING_OK)
        return status;
    return wring_request_start(call->group, &work, &call->how, request);
}

static enum wring_status start_call(struct wring_immediate *call, const struct wring_call *how,
                                    struct wring_request **request)
{
    struct wring_work work;
    const struct wring_work *kept = NULL;

    if (is_plain(call, how))
        kept = wring_immediate_find_kept(call->group, call->elems, call->dtype, call->op);
    if (kept != NULL)
        return start_kept_call(call, kept, request);
    enum wring_status status = wring_immediate_begin(call, how, &work);
    if (status == WRING_OK) {
        wring_immediate_select(call->group, &work);
        status = make_sums_of_codes(call, &work);
    }
    if (status == WRING_OK && is_plain(call, how) && work.codec == NULL)
        wring_immediate_keep(call->group, &work);
    if (status == WRING_OK)
        status = make_scratch(call, &work);
    if (status != WRING_OK) {
        free(work.memory);
        return status;
    }
    return wring_request_start(call->group, &work, &call->how, request);
}

static enum wring_status run_call(struct wring_immediate *call, const struct wring_call *how,
                                  struct wring_request **request)
{
    struct wring_session *session = call->group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, start_call(call, how, request));
}

static struct wring_immediate make_call(enum wring_call_kind kind, struct wring_group *group,
                                        const void *in, void *out)
{
    return (struct wring_immediate){.kind = kind, .group = group, .in = in, .out = out};
}

enum wring_status wring_allreduce(struct wring_group *group, const void *in, void *out,
                                  uint64_t elems, enum wring_dtype dtype, enum wring_op op,
                                  const struct wring_call *how, struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_ALLREDUCE, group, in, out);
    call.elems = elems;
    call.dtype = dtype;
    call.op = op;
    return run_call(&call, how, request);
}

enum wring_status wring_reduce(struct wring_group *group, const void *in, void *out, uint64_t elems,
                               enum wring_dtype dtype, enum wring_op op, uint32_t root,
                               const struct wring_call *how, struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_REDUCE, group, in, out);
    call.elems = elems;
    call.dtype = dtype;
    call.op = op;
    call.root = root;
    return run_call(&call, how, request);
}

enum wring_status wring_reduce_scatter(struct wring_group *group, const void *in, void *out,
                                       uint64_t elems, enum wring_dtype dtype, enum wring_op op,
                                       const struct wring_call *how, struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_REDUCE_SCATTER, group, in, out);
    call.elems = elems;
    call.dtype = dtype;
    call.op = op;
    return run_call(&call, how, request);
}

enum wring_status wring_allgather(struct wring_group *group, const void *in, void *out,
                                  uint64_t elems, enum wring_dtype dtype,
                                  const struct wring_call *how, struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_ALLGATHER, group, in, out);
    call.elems = elems;
    call.dtype = dtype;
    return run_call(&call, how, request);
}

enum wring_status wring_alltoall(struct wring_group *group, const void *in, void *out,
                                 uint64_t elems, enum wring_dtype dtype,
                                 const struct wring_call *how, struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_ALLTOALL, group, in, out);
    call.elems = elems;
    call.dtype = dtype;
    return run_call(&call, how, request);
}

enum wring_status wring_reduce_scatterv(struct wring_group *group, const void *in, void *out,
                                        const uint64_t *elems, enum wring_dtype dtype,
                                        enum wring_op op, const struct wring_call *how,
                                        struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_REDUCE_SCATTERV, group, in, out);
    call.in_runs = elems;
    call.dtype = dtype;
    call.op = op;
    return run_call(&call, how, request);
}

enum wring_status wring_allgatherv(struct wring_group *group, const void *in, void *out,
                                   const uint64_t *elems, enum wring_dtype dtype,
                                   const struct wring_call *how, struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_ALLGATHERV, group, in, out);
    call.in_runs = elems;
    call.dtype = dtype;
    return run_call(&call, how, request);
}

enum wring_status wring_gather(struct wring_group *group, const void *in, void *out, uint64_t elems,
                               enum wring_dtype dtype, uint32_t root, const struct wring_call *how,
                               struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_GATHER, group, in, out);
    call.elems = elems;
    call.dtype = dtype;
    call.root = root;
    return run_call(&call, how, request);
}

enum wring_status wring_scatter(struct wring_group *group, const void *in, void *out,
                                uint64_t elems, enum wring_dtype dtype, uint32_t root,
                                const struct wring_call *how, struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_SCATTER, group, in, out);
    call.elems = elems;
    call.dtype = dtype;
    call.root = root;
    return run_call(&call, how, request);
}

enum wring_status wring_alltoallv(struct wring_group *group, const void *in,
                                  const uint64_t *in_elems, void *out, const uint64_t *out_elems,
                                  enum wring_dtype dtype, const struct wring_call *how,
                                  struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_ALLTOALLV, group, in, out);
    call.in_runs = in_elems;
    call.out_runs = out_elems;
    call.dtype = dtype;
    return run_call(&call, how, request);
}

enum wring_status wring_broadcast(struct wring_group *group, void *buf, uint64_t bytes,
                                  uint32_t root, const struct wring_call *how,
                                  struct wring_request **request)
{
    struct wring_immediate call = make_call(WRING_CALL_BROADCAST, group, buf, buf);
    call.elems = bytes;
    call.root = root;
    return run_call(&call, how, request);
}

enum wring_status wring_barrier(struct wring_group *group, const struct wring_call *how,
                                struct wring_request **request)
{
    struct wring_immediate call = {.kind = WRING_CALL_BARRIER, .group = group};
    return run_call(&call, how, request);
}
