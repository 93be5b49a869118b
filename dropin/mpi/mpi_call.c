/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a collective of MPI's is to wring, if it is anything.
 *
 * All members have to answer alike whether wring serves a call, so only what MPI has alike on all
 * of them is asked: the communicator, and of a reduction type, operation and count. What processes
 * send and receive elsewhere may be put together differently on each of them, out of other types;
 * there bytes alone count, and types with gaps are packed.
 */
#include "dropin/mpi/mpi_own.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PACK_MOST (1 << 30) /* bytes that the MPI packs in one go */

/* ---- moving data ---- */

static void *copy_bytes(const void *data, size_t bytes)
{
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy != NULL && bytes > 0)
        memcpy(copy, data, bytes);
    return copy;
}

/** How many elements at once, so that the MPI's int holds their bytes. */
static int64_t pack_step(int64_t count, uint64_t bytes)
{
    uint64_t each = bytes / (uint64_t)count;
    uint64_t step = each > 0 && each < PACK_MOST ? PACK_MOST / each : 1;
    return (uint64_t)count < step ? count : (int64_t)step;
}

/** One element after the other, without gaps, as a process with a plain type has them. */
static bool pack_elements(const void *data, int64_t count, wring_mpi_handle_t type, uint64_t bytes,
                          uint8_t *out)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    ptrdiff_t lower = 0, extent = 0;
    int64_t step = pack_step(count, bytes);
    uint64_t each = bytes / (uint64_t)count;

    if (pmpi->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS)
        return false;
    for (int64_t i = 0; i < count; i += step) {
        int n = (int)(count - i < step ? count - i : step), at = 0;
        uint64_t room = each * (uint64_t)n;
        const uint8_t *from = (const uint8_t *)data + i * extent;
        if (room > INT_MAX ||
            pmpi->Pack(from, n, type, out, (int)room, &at, wring_mpi_own.control) != MPI_SUCCESS ||
            (uint64_t)at != room)
            return false;
        out += room;
    }
    return true;
}

static bool unpack_elements(const uint8_t *in, void *data, int64_t count, wring_mpi_handle_t type,
                            uint64_t bytes)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    ptrdiff_t lower = 0, extent = 0;
    int64_t step = pack_step(count, bytes);
    uint64_t each = bytes / (uint64_t)count;

    if (pmpi->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS)
        return false;
    for (int64_t i = 0; i < count; i += step) {
        int n = (int)(count - i < step ? count - i : step), at = 0;
        uint64_t room = each * (uint64_t)n;
        uint8_t *to = (uint8_t *)data + i * extent;
        if (room > INT_MAX ||
            pmpi->Unpack(in, (int)room, &at, to, n, type, wring_mpi_own.control) != MPI_SUCCESS)
            return false;
        in += room;
    }
    return true;
}

/* ---- reductions ---- */

static bool is_in_place(const void *data)
{
    return data == wring_mpi_abi.in_place;
}

static bool is_aligned_to_dtype(const void *data, enum wring_dtype dtype)
{
    return (uintptr_t)data % wring_dtype_align(dtype) == 0;
}

/** MPI allows memory that is not aligned to its elements. */
static bool align_memory(struct wring_mpi_call *call, size_t in_bytes, size_t out_bytes)
{
    bool same = call->in == call->out;
    if (!is_aligned_to_dtype(call->in, call->dtype)) {
        call->in = call->after.in = copy_bytes(call->in, in_bytes);
        if (call->in == NULL)
            return false;
    }
    if (call->out == NULL || is_aligned_to_dtype(call->out, call->dtype))
        return true;
    call->after.move_to = call->out;
    call->after.move_bytes = out_bytes;
    call->after.out = same && in_bytes == out_bytes ? NULL : malloc(out_bytes);
    call->out = call->after.out != NULL ? call->after.out : call->after.in;
    call->after.move_from = call->out;
    return call->out != NULL;
}

/** Of a reduction. @param elems  all that are summed */
static const char *find_codec(const struct wring_mpi_call *call, uint64_t elems)
{
    return wring_call_codecs_find(&wring_mpi_own.codecs, call->kind, call->dtype, call->op, elems);
}

static enum wring_mpi_reason set_reduction(const struct wring_mpi_args *args,
                                           struct wring_mpi_call *call)
{
    const struct wring_mpi_type *type = wring_mpi_type(args->out_type);
    if (type == NULL || !type->reduces)
        return WRING_MPI_TYPE;
    call->dtype = type->dtype;
    if (!wring_mpi_op(args->op, &call->op) || !wring_op_takes(call->op, call->dtype) ||
        (call->dtype == WRING_BOOL && call->op != WRING_LAND && call->op != WRING_LOR))
        return WRING_MPI_OP;
    return WRING_MPI_SERVED;
}

static enum wring_mpi_reason prepare_allreduce(const struct wring_mpi_args *args,
                                               const struct wring_mpi_comm *comm,
                                               struct wring_mpi_call *call,
                                               enum wring_status *failed)
{
    enum wring_mpi_reason reason = set_reduction(args, call);
    bool rooted = call->kind == WRING_MPI_REDUCE;

    if (reason != WRING_MPI_SERVED)
        return reason;
    if (args->out_count <= 0)
        return args->out_count == 0 ? WRING_MPI_EMPTY : WRING_MPI_ARGUMENT;
    if (rooted && (args->root < 0 || (uint32_t)args->root >= comm->n))
        return WRING_MPI_ARGUMENT;
    call->root = rooted ? (uint32_t)args->root : 0;
    call->elems = (uint64_t)args->out_count;
    call->in = is_in_place(args->in) ? args->out : args->in;
    call->out = rooted && call->root != comm->me ? NULL : args->out;
    call->codec = find_codec(call, call->elems);
    size_t bytes = call->elems * wring_dtype_bytes(call->dtype);
    if (!align_memory(call, bytes, bytes))
        *failed = WRING_ERR_NO_MEMORY;
    return WRING_MPI_SERVED;
}

/** What a process has in memory of all begins there, and what comes of it goes to the front. */
static enum wring_status set_scattered(const struct wring_mpi_args *args,
                                       struct wring_mpi_call *call, uint64_t total, uint64_t begin,
                                       uint64_t elems)
{
    size_t size = wring_dtype_bytes(call->dtype);

    call->codec = find_codec(call, total);
    if (!is_in_place(args->in)) {
        call->in = args->in;
        call->out = args->out;
        return align_memory(call, total * size, elems * size) ? WRING_OK : WRING_ERR_NO_MEMORY;
    }
    call->in = args->out;
    if (!is_aligned_to_dtype(call->in, call->dtype))
        call->in = call->after.in = copy_bytes(call->in, total * size);
    if (call->in == NULL)
        return WRING_ERR_NO_MEMORY;
    if (begin == 0 && call->in == args->out) {
        call->out = args->out;
        return WRING_OK;
    }
    /* what stands there behind the result is the program's, and stays */
    call->out = call->after.out = malloc(elems > 0 ? elems * size : 1);
    if (call->out == NULL)
        return WRING_ERR_NO_MEMORY;
    call->after.move_from = call->out;
    call->after.move_to = args->out;
    call->after.move_bytes = elems * size;
    return WRING_OK;
}

static enum wring_mpi_reason prepare_scatter_block(const struct wring_mpi_args *args,
                                                   const struct wring_mpi_comm *comm,
                                                   struct wring_mpi_call *call,
                                                   enum wring_status *failed)
{
    enum wring_mpi_reason reason = set_reduction(args, call);
    if (reason != WRING_MPI_SERVED)
        return reason;
    if (args->out_count <= 0)
        return args->out_count == 0 ? WRING_MPI_EMPTY : WRING_MPI_ARGUMENT;
    call->elems = (uint64_t)args->out_count;
    *failed = set_scattered(args, call, call->elems * comm->n, call->elems * comm->me, call->elems);
    return WRING_MPI_SERVED;
}

static int64_t scatter_count_at(const struct wring_mpi_args *args, uint32_t i)
{
    return args->wide ? ((const int64_t *)args->counts)[i] : ((const int *)args->counts)[i];
}

static enum wring_mpi_reason prepare_scatter(const struct wring_mpi_args *args,
                                             const struct wring_mpi_comm *comm,
                                             struct wring_mpi_call *call, enum wring_status *failed)
{
    uint64_t total = 0, begin = 0;
    enum wring_mpi_reason reason = set_reduction(args, call);

    if (reason != WRING_MPI_SERVED)
        return reason;
    if (args->counts == NULL)
        return WRING_MPI_ARGUMENT;
    for (uint32_t i = 0; i < comm->n; i++) {
        if (scatter_count_at(args, i) < 0)
            return WRING_MPI_ARGUMENT;
        begin = i == comm->me ? total : begin;
        total += (uint64_t)scatter_count_at(args, i);
    }
    if (total == 0)
        return WRING_MPI_EMPTY;
    call->runs = malloc(comm->n * sizeof(*call->runs));
    if (call->runs == NULL) {
        *failed = WRING_ERR_NO_MEMORY;
        return WRING_MPI_SERVED;
    }
    for (uint32_t i = 0; i < comm->n; i++)
        call->runs[i] = (uint64_t)scatter_count_at(args, i);
    *failed = set_scattered(args, call, total, begin, call->runs[comm->me]);
    return WRING_MPI_SERVED;
}

/* ---- moves ---- */

/** Bytes of so many elements. @param dense  out: they follow each other without gaps
 *  @return false: the arguments are for the MPI to judge */
static bool measure_bytes(wring_mpi_handle_t handle, int64_t count, uint64_t *bytes, bool *dense)
{
    const struct wring_mpi_type *type = wring_mpi_type(handle);
    int size = 0;

    if (count < 0)
        return false;
    if (type != NULL)
        size = (int)type->bytes;
    else if (wring_mpi_abi.pmpi.Type_size(handle, &size) != MPI_SUCCESS || size < 0)
        return false;
    *dense = type != NULL && type->dense;
    *bytes = (uint64_t)size * (uint64_t)count;
    return true;
}

/** What we contribute, without gaps. */
static bool take_input(struct wring_mpi_call *call, const void *data, int64_t count,
                       wring_mpi_handle_t type, uint64_t bytes, bool dense)
{
    call->in = data;
    if (dense)
        return true;
    call->in = call->after.in = malloc(bytes > 0 ? bytes : 1);
    return call->in != NULL &&
           (bytes == 0 || pack_elements(data, count, type, bytes, call->after.in));
}

static bool take_output(struct wring_mpi_call *call, void *data, int64_t count,
                        wring_mpi_handle_t type, uint64_t bytes, bool dense)
{
    call->out = data;
    if (dense)
        return true;
    call->out = call->after.out = malloc(bytes > 0 ? bytes : 1);
    call->after.unpack_to = data;
    call->after.unpack_count = count;
    call->after.unpack_type = type;
    call->after.unpack_bytes = bytes;
    return call->out != NULL;
}

static enum wring_mpi_reason prepare_bcast(const struct wring_mpi_args *args,
                                           const struct wring_mpi_comm *comm,
                                           struct wring_mpi_call *call, enum wring_status *failed)
{
    bool dense, done;

    if (!measure_bytes(args->out_type, args->out_count, &call->elems, &dense) || args->root < 0 ||
        (uint32_t)args->root >= comm->n)
        return WRING_MPI_ARGUMENT;
    if (call->elems == 0)
        return WRING_MPI_EMPTY;
    call->root = (uint32_t)args->root;
    if (call->root == comm->me) {
        done = take_input(call, args->out, args->out_count, args->out_type, call->elems, dense);
        call->out = dense ? args->out : call->after.in;
    } else {
        done = take_output(call, args->out, args->out_count, args->out_type, call->elems, dense);
    }
    *failed = done ? WRING_OK : WRING_ERR_NO_MEMORY;
    return WRING_MPI_SERVED;
}

static const void *element_address(const void *data, int64_t i, wring_mpi_handle_t type)
{
    ptrdiff_t lower = 0, extent = 0;
    wring_mpi_abi.pmpi.Type_get_extent(type, &lower, &extent);
    return (const uint8_t *)data + i * extent;
}

/** What goes to or comes from one member, whose types may differ at both ends. */
struct run {
    bool in_place, in_dense, out_dense;
    int64_t in_count;
    wring_mpi_handle_t in_type;
    uint64_t bytes;
};

static enum wring_mpi_reason measure_run(const struct wring_mpi_args *args, struct run *run)
{
    uint64_t in_bytes;

    run->in_place = is_in_place(args->in);
    run->in_count = run->in_place ? args->out_count : args->in_count;
    run->in_type = run->in_place ? args->out_type : args->in_type;
    if (!measure_bytes(args->out_type, args->out_count, &run->bytes, &run->out_dense) ||
        !measure_bytes(run->in_type, run->in_count, &in_bytes, &run->in_dense) ||
        in_bytes != run->bytes)
        return WRING_MPI_ARGUMENT;
    return run->bytes == 0 ? WRING_MPI_EMPTY : WRING_MPI_SERVED;
}

static enum wring_mpi_reason prepare_allgather(const struct wring_mpi_args *args,
                                               const struct wring_mpi_comm *comm,
                                               struct wring_mpi_call *call,
                                               enum wring_status *failed)
{
    struct run run;
    enum wring_mpi_reason reason = measure_run(args, &run);

    if (reason != WRING_MPI_SERVED)
        return reason;
    uint64_t bytes = call->elems = run.bytes;
    const void *in = args->in;
    if (run.in_place)
        in = run.out_dense ? (const uint8_t *)args->out + bytes * comm->me
                           : element_address(args->out, run.in_count * comm->me, run.in_type);
    bool done = take_input(call, in, run.in_count, run.in_type, bytes, run.in_dense) &&
                take_output(call, args->out, args->out_count * comm->n, args->out_type,
                            bytes * comm->n, run.out_dense);
    *failed = done ? WRING_OK : WRING_ERR_NO_MEMORY;
    return WRING_MPI_SERVED;
}

static enum wring_mpi_reason prepare_alltoall(const struct wring_mpi_args *args,
                                              const struct wring_mpi_comm *comm,
                                              struct wring_mpi_call *call,
                                              enum wring_status *failed)
{
    struct run run;
    enum wring_mpi_reason reason = measure_run(args, &run);

    if (reason != WRING_MPI_SERVED)
        return reason;
    uint64_t bytes = call->elems = run.bytes;
    uint64_t all = bytes * comm->n;
    bool done = take_input(call, run.in_place ? args->out : args->in, run.in_count * comm->n,
                           run.in_type, all, run.in_dense);
    if (done && run.in_place && run.in_dense) /* what is sent must stay while others' comes */
        done = (call->in = call->after.in = copy_bytes(args->out, all)) != NULL;
    done = done && take_output(call, args->out, args->out_count * comm->n, args->out_type, all,
                               run.out_dense);
    *failed = done ? WRING_OK : WRING_ERR_NO_MEMORY;
    return WRING_MPI_SERVED;
}

enum wring_mpi_reason wring_mpi_prepare(const struct wring_mpi_args *args,
                                        const struct wring_mpi_comm *comm,
                                        struct wring_mpi_call *call, enum wring_status *failed)
{
    *call = (struct wring_mpi_call){.kind = args->kind, .dtype = WRING_BYTE};
    *failed = WRING_OK;
    switch (args->kind) {
    case WRING_MPI_ALLREDUCE:
    case WRING_MPI_REDUCE:
        return prepare_allreduce(args, comm, call, failed);
    case WRING_MPI_REDUCE_SCATTER:
        return prepare_scatter(args, comm, call, failed);
    case WRING_MPI_REDUCE_SCATTER_BLOCK:
        return prepare_scatter_block(args, comm, call, failed);
    case WRING_MPI_ALLGATHER:
        return prepare_allgather(args, comm, call, failed);
    case WRING_MPI_ALLTOALL:
        return prepare_alltoall(args, comm, call, failed);
    case WRING_MPI_BCAST:
        return prepare_bcast(args, comm, call, failed);
    case WRING_MPI_BARRIER:
        return WRING_MPI_SERVED;
    }
    return WRING_MPI_ARGUMENT;
}

/* ---- running ---- */

enum wring_status wring_mpi_issue(struct wring_group *group, const struct wring_mpi_call *call,
                                  struct wring_request **request)
{
    struct wring_call coded = WRING_CALL_INIT;
    const struct wring_call *how = call->codec != NULL ? &coded : NULL;

    coded.codec = call->codec;
    if (how != NULL)
        wring_mpi_count_coded(call->kind);
    switch (call->kind) {
    case WRING_MPI_ALLREDUCE:
        return wring_allreduce(group, call->in, call->out, call->elems, call->dtype, call->op, how,
                               request);
    case WRING_MPI_REDUCE:
        return wring_reduce(group, call->in, call->out, call->elems, call->dtype, call->op,
                            call->root, how, request);
    case WRING_MPI_REDUCE_SCATTER:
        return wring_reduce_scatterv(group, call->in, call->out, call->runs, call->dtype, call->op,
                                     how, request);
    case WRING_MPI_REDUCE_SCATTER_BLOCK:
        return wring_reduce_scatter(group, call->in, call->out, call->elems, call->dtype, call->op,
                                    how, request);
    case WRING_MPI_ALLGATHER:
        return wring_allgather(group, call->in, call->out, call->elems, call->dtype, NULL, request);
    case WRING_MPI_ALLTOALL:
        return wring_alltoall(group, call->in, call->out, call->elems, call->dtype, NULL, request);
    case WRING_MPI_BCAST:
        return wring_broadcast(group, call->out, call->elems, call->root, NULL, request);
    case WRING_MPI_BARRIER:
        return wring_barrier(group, NULL, request);
    }
    return WRING_ERR_INVALID;
}

enum wring_status wring_mpi_finish(struct wring_mpi_call *call, enum wring_status status)
{
    if (status == WRING_OK && call->after.unpack_to != NULL &&
        !unpack_elements(call->after.out, call->after.unpack_to, call->after.unpack_count,
                         call->after.unpack_type, call->after.unpack_bytes))
        status = WRING_ERR_INVALID;
    if (status == WRING_OK && call->after.move_bytes > 0)
        memmove(call->after.move_to, call->after.move_from, call->after.move_bytes);
    free(call->after.in);
    free(call->after.out);
    free(call->runs);
    call->after.in = call->after.out = NULL;
    call->runs = NULL;
    return status;
}

static bool pass_to_mpi(enum wring_mpi_call_kind kind, enum wring_mpi_reason reason)
{
    wring_mpi_count(kind, reason);
    return false;
}

/** @return why a call is the MPI's */
static enum wring_mpi_reason find_comm_and_prepare(const struct wring_mpi_args *args, bool meets,
                                                   struct wring_mpi_comm **comm,
                                                   struct wring_mpi_call *call,
                                                   enum wring_status *failed)
{
    if (wring_mpi_own.session == NULL)
        return WRING_MPI_NO_SESSION;
    *comm = wring_mpi_comm_find(args->comm, meets);
    if (*comm == NULL)
        return meets ? WRING_MPI_ARGUMENT : WRING_MPI_UNSEEN;
    if (atomic_load_explicit(&(*comm)->state, memory_order_acquire) == WRING_MPI_COMM_PASSED)
        return (*comm)->reason;
    return wring_mpi_prepare(args, *comm, call, failed);
}

bool wring_mpi_run(const struct wring_mpi_args *args, int *code)
{
    struct wring_mpi_call call;
    struct wring_mpi_comm *comm;
    enum wring_status status;
    enum wring_mpi_reason reason = find_comm_and_prepare(args, true, &comm, &call, &status);
    if (reason != WRING_MPI_SERVED)
        return pass_to_mpi(args->kind, reason);
    wring_mpi_count(args->kind, WRING_MPI_SERVED);
    if (status == WRING_OK)
        status = wring_mpi_comm_await(comm);
    if (status == WRING_OK)
        status = wring_mpi_issue(comm->group, &call, NULL);
    status = wring_mpi_finish(&call, status);
    *code = status == WRING_OK ? MPI_SUCCESS : wring_mpi_fail(comm->handle, status);
    return true;
}

bool wring_mpi_run_plain(const void *in, void *out, int64_t count, wring_mpi_handle_t type_handle,
                         wring_mpi_handle_t op_handle, wring_mpi_handle_t comm_handle, int *code)
{
    const struct wring_mpi_own *own = &wring_mpi_own;
    enum wring_op op;

    if (own->session == NULL || own->codecs.of[WRING_MPI_ALLREDUCE].spec[0] != '\0' || count <= 0)
        return false;
    struct wring_mpi_comm *comm = wring_mpi_comm_find(comm_handle, false);
    const struct wring_mpi_type *type = wring_mpi_type(type_handle);
    if (comm == NULL || type == NULL || !type->reduces || type->dtype == WRING_BOOL ||
        atomic_load_explicit(&comm->state, memory_order_acquire) != WRING_MPI_COMM_READY ||
        !wring_mpi_op(op_handle, &op) || !wring_op_takes(op, type->dtype))
        return false;
    const void *from = is_in_place(in) ? out : in;
    if (!is_aligned_to_dtype(from, type->dtype) || !is_aligned_to_dtype(out, type->dtype))
        return false;
    wring_mpi_count(WRING_MPI_ALLREDUCE, WRING_MPI_SERVED);
    enum wring_status status =
        wring_allreduce(comm->group, from, out, (uint64_t)count, type->dtype, op, NULL, NULL);
    *code = status == WRING_OK ? MPI_SUCCESS : wring_mpi_fail(comm->handle, status);
    return true;
}

bool wring_mpi_begin(const struct wring_mpi_args *args, void *request, int *code)
{
    struct wring_mpi_call call;
    struct wring_mpi_comm *comm;
    enum wring_status status;
    enum wring_mpi_reason reason = find_comm_and_prepare(args, false, &comm, &call, &status);
    if (reason != WRING_MPI_SERVED)
        return pass_to_mpi(args->kind, reason);
    wring_mpi_count(args->kind, WRING_MPI_SERVED);
    if (status == WRING_OK) {
        *code = wring_mpi_pending_start(comm, &call, request);
        return true;
    }
    wring_mpi_finish(&call, status);
    *code = wring_mpi_fail(comm->handle, status);
    return true;
}

bool wring_mpi_last(const struct wring_mpi_args *args, void *request, int *code)
{
    struct wring_mpi_call call;
    struct wring_mpi_comm *comm;
    enum wring_status status;
    enum wring_mpi_reason reason = find_comm_and_prepare(args, true, &comm, &call, &status);
    if (reason != WRING_MPI_SERVED)
        return pass_to_mpi(args->kind, reason);
    wring_mpi_finish(&call, WRING_ERR_CANCELLED); /* it is prepared anew by each MPI_Start */
    *code = status == WRING_OK ? wring_mpi_lasting_create(comm, args, request)
                               : wring_mpi_fail(comm->handle, status);
    return true;
}
