/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives as C programs call them. */
#include "dropin/mpi/mpi_own.h"

#define H wring_mpi_handle_t
#define UNPACK(...) __VA_ARGS__

/** How the library is called where the call is its own; one that lacks the function cannot have
 *  been what the program was made for. */
#define PASS(name, args)                                                          \
    (wring_mpi_library()->pmpi.name != NULL ? wring_mpi_library()->pmpi.name args \
                                            : wring_mpi_abi.err_other)

/**
 * The forms of one collective: blocking, MPI_I…, MPI_…_init.
 * @param params  in brackets, up to the communicator; likewise args, as they are called on
 * @param fields  of struct wring_mpi_args
 */
#define FORMS(name, suffix, which, params, args, fields) \
    FORMS_AFTER(0, name, suffix, which, params, args, fields)
/** @param first  tried before, and sets `code` where it did the call */
#define FORMS_AFTER(first, name, suffix, which, params, args, fields)                       \
    WRING_MPI_EXPORT(name##suffix, UNPACK params H comm)                                    \
    {                                                                                       \
        int code;                                                                           \
        if (first)                                                                          \
            return code;                                                                    \
        struct wring_mpi_args call = {.kind = which, .comm = comm, UNPACK fields};          \
        return wring_mpi_run(&call, &code) ? code : PASS(name##suffix, (UNPACK args comm)); \
    }                                                                                       \
    WRING_MPI_EXPORT_X(name##_init##suffix, UNPACK params H comm, H info, void *request)    \
    {                                                                                       \
        struct wring_mpi_args call = {.kind = which, .comm = comm, UNPACK fields};          \
        int code;                                                                           \
        return wring_mpi_last(&call, request, &code)                                        \
                   ? code                                                                   \
                   : PASS(name##_init##suffix, (UNPACK args comm, info, request));          \
    }

#define BEGUN(name, which, params, args, fields)                                                 \
    WRING_MPI_EXPORT(name, UNPACK params H comm, void *request)                                  \
    {                                                                                            \
        struct wring_mpi_args call = {.kind = which, .comm = comm, UNPACK fields};               \
        int code;                                                                                \
        return wring_mpi_begin(&call, request, &code) ? code                                     \
                                                      : PASS(name, (UNPACK args comm, request)); \
    }

/* clang-format off */
#define REDUCTION(count_t) (const void *in, void *out, count_t count, H type, H op,)
#define REDUCTION_ARGS (in, out, count, type, op,)
#define REDUCTION_FIELDS (.in = in, .out = out, .out_count = count, .out_type = type, .op = op)

#define ROOTED(count_t) (const void *in, void *out, count_t count, H type, H op, int root,)
#define ROOTED_ARGS (in, out, count, type, op, root,)
#define ROOTED_FIELDS \
    (.in = in, .out = out, .out_count = count, .out_type = type, .op = op, .root = root)

#define SCATTER(count_t) (const void *in, void *out, const count_t *counts, H type, H op,)
#define SCATTER_ARGS (in, out, counts, type, op,)
#define SCATTER_FIELDS \
    (.in = in, .out = out, .counts = counts, .wide = sizeof(*counts) == 8, .out_type = type, .op = op)

#define MOVE(count_t) \
    (const void *in, count_t in_count, H in_type, void *out, count_t out_count, H out_type,)
#define MOVE_ARGS (in, in_count, in_type, out, out_count, out_type,)
#define MOVE_FIELDS \
    (.in = in, .in_count = in_count, .in_type = in_type, \
     .out = out, .out_count = out_count, .out_type = out_type)

#define BCAST(count_t) (void *data, count_t count, H type, int root,)
#define BCAST_ARGS (data, count, type, root,)
#define BCAST_FIELDS (.out = data, .out_count = count, .out_type = type, .root = root)

#define ALL_FORMS(name, begun, which, params, args, fields)      \
    FORMS(name, , which, params(int), args, fields)              \
    FORMS(name, _c, which, params(int64_t), args, fields)        \
    BEGUN(begun, which, params(int), args, fields)               \
    BEGUN(begun##_c, which, params(int64_t), args, fields)

#define PLAIN wring_mpi_run_plain(in, out, count, type, op, comm, &code)
FORMS_AFTER(PLAIN, Allreduce, , WRING_MPI_ALLREDUCE, REDUCTION(int), REDUCTION_ARGS, REDUCTION_FIELDS)
FORMS_AFTER(PLAIN, Allreduce, _c, WRING_MPI_ALLREDUCE, REDUCTION(int64_t), REDUCTION_ARGS, REDUCTION_FIELDS)
BEGUN(Iallreduce, WRING_MPI_ALLREDUCE, REDUCTION(int), REDUCTION_ARGS, REDUCTION_FIELDS)
BEGUN(Iallreduce_c, WRING_MPI_ALLREDUCE, REDUCTION(int64_t), REDUCTION_ARGS, REDUCTION_FIELDS)
ALL_FORMS(Reduce, Ireduce, WRING_MPI_REDUCE, ROOTED, ROOTED_ARGS, ROOTED_FIELDS)
ALL_FORMS(Reduce_scatter, Ireduce_scatter, WRING_MPI_REDUCE_SCATTER, SCATTER, SCATTER_ARGS, SCATTER_FIELDS)
ALL_FORMS(Reduce_scatter_block, Ireduce_scatter_block, WRING_MPI_REDUCE_SCATTER_BLOCK, REDUCTION, REDUCTION_ARGS, REDUCTION_FIELDS)
ALL_FORMS(Allgather, Iallgather, WRING_MPI_ALLGATHER, MOVE, MOVE_ARGS, MOVE_FIELDS)
ALL_FORMS(Alltoall, Ialltoall, WRING_MPI_ALLTOALL, MOVE, MOVE_ARGS, MOVE_FIELDS)
ALL_FORMS(Bcast, Ibcast, WRING_MPI_BCAST, BCAST, BCAST_ARGS, BCAST_FIELDS)
FORMS(Barrier, , WRING_MPI_BARRIER, (), (), (.root = 0))
BEGUN(Ibarrier, WRING_MPI_BARRIER, (), (), (.root = 0))
/* clang-format on */
