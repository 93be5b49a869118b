/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The MPI library of this process, declared in our own words.
 *
 * There are three ways in which MPI libraries write handles: MPICH's int, Open MPI's pointers to
 * objects, and the pointers of the MPI 5 standard ABI, whose constants are small numbers. An
 * argument takes a register or eight bytes of the stack in each of these, so all functions are
 * declared with pointer-sized handles, and what a library leaves in the upper half of an int is cut
 * off by wring_mpi_handle(). In memory handles have their own size: wring_mpi_read_handle().
 *
 * Which library it is, is found at the first call. Threads: safe; what is found never changes.
 */
#ifndef WRING_DROPIN_MPI_ABI_H
#define WRING_DROPIN_MPI_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/types.h>

typedef uintptr_t wring_mpi_handle_t;

#define MPI_SUCCESS 0
#define H wring_mpi_handle_t
#define COPY_FN int (*)(H, int, void *, void *, void *, int *)
#define DELETE_FN int (*)(H, int, void *, void *)

/** The library's functions that this one calls, by their name without PMPI_. Those in the second
 *  list are not in all libraries. */
#define WRING_MPI_FUNCTIONS(X)                                                           \
    X(Init, (int *, char ***))                                                           \
    X(Init_thread, (int *, char ***, int, int *))                                        \
    X(Initialized, (int *))                                                              \
    X(Finalized, (int *))                                                                \
    X(Abort, (H, int))                                                                   \
    X(Comm_size, (H, int *))                                                             \
    X(Comm_rank, (H, int *))                                                             \
    X(Comm_group, (H, void *))                                                           \
    X(Group_free, (void *))                                                              \
    X(Group_translate_ranks, (H, int, const int *, H, int *))                            \
    X(Comm_test_inter, (H, int *))                                                       \
    X(Comm_call_errhandler, (H, int))                                                    \
    X(Comm_set_errhandler, (H, H))                                                       \
    X(Comm_get_errhandler, (H, void *))                                                  \
    X(Errhandler_free, (void *))                                                         \
    X(Comm_create_keyval, (COPY_FN, DELETE_FN, int *, void *))                           \
    X(Comm_set_attr, (H, int, void *))                                                   \
    X(Comm_dup, (H, void *))                                                             \
    X(Comm_idup, (H, void *, void *))                                                    \
    X(Comm_dup_with_info, (H, H, void *))                                                \
    X(Comm_split, (H, int, int, void *))                                                 \
    X(Comm_split_type, (H, int, int, H, void *))                                         \
    X(Comm_create, (H, H, void *))                                                       \
    X(Comm_create_group, (H, H, int, void *))                                            \
    X(Cart_create, (H, int, const int *, const int *, int, void *))                      \
    X(Cart_sub, (H, const int *, void *))                                                \
    X(Graph_create, (H, int, const int *, const int *, int, void *))                     \
    X(Dist_graph_create,                                                                 \
      (H, int, const int *, const int *, const int *, const int *, H, int, void *))      \
    X(Dist_graph_create_adjacent,                                                        \
      (H, int, const int *, const int *, int, const int *, const int *, H, int, void *)) \
    X(Intercomm_merge, (H, int, void *))                                                 \
    X(Type_size, (H, int *))                                                             \
    X(Type_get_extent, (H, ptrdiff_t *, ptrdiff_t *))                                    \
    X(Pack, (const void *, int, H, void *, int, int *, H))                               \
    X(Pack_size, (int, H, H, int *))                                                     \
    X(Unpack, (const void *, int, int *, void *, int, H, H))                             \
    X(Add_error_class, (int *))                                                          \
    X(Add_error_code, (int, int *))                                                      \
    X(Add_error_string, (int, const char *))                                             \
    X(Iprobe, (int, int, H, int *, void *))                                              \
    X(Grequest_start,                                                                    \
      (int (*)(void *, void *), int (*)(void *), int (*)(void *, int), void *, void *))  \
    X(Grequest_complete, (H))                                                            \
    X(Status_set_elements, (void *, H, int))                                             \
    X(Status_set_cancelled, (void *, int))                                               \
    X(Wait, (void *, void *))                                                            \
    X(Waitall, (int, void *, void *))                                                    \
    X(Waitany, (int, void *, int *, void *))                                             \
    X(Waitsome, (int, void *, int *, int *, void *))                                     \
    X(Test, (void *, int *, void *))                                                     \
    X(Testall, (int, void *, int *, void *))                                             \
    X(Testany, (int, void *, int *, int *, void *))                                      \
    X(Testsome, (int, void *, int *, int *, void *))                                     \
    X(Request_free, (void *))                                                            \
    X(Request_get_status, (H, int *, void *))                                            \
    X(Cancel, (void *))                                                                  \
    X(Start, (void *))                                                                   \
    X(Startall, (int, void *))                                                           \
    X(Send, (const void *, int, H, int, int, H))                                         \
    X(Isend, (const void *, int, H, int, int, H, void *))                                \
    X(Recv, (void *, int, H, int, int, H, void *))                                       \
    X(Recv_init, (void *, int, H, int, int, H, void *))                                  \
    X(Allreduce, (const void *, void *, int, H, H, H))                                   \
    X(Reduce, (const void *, void *, int, H, H, int, H))                                 \
    X(Reduce_scatter, (const void *, void *, const int *, H, H, H))                      \
    X(Reduce_scatter_block, (const void *, void *, int, H, H, H))                        \
    X(Allgather, (const void *, int, H, void *, int, H, H))                              \
    X(Alltoall, (const void *, int, H, void *, int, H, H))                               \
    X(Bcast, (void *, int, H, int, H))                                                   \
    X(Barrier, (H))                                                                      \
    X(Iallreduce, (const void *, void *, int, H, H, H, void *))                          \
    X(Ireduce, (const void *, void *, int, H, H, int, H, void *))                        \
    X(Ireduce_scatter, (const void *, void *, const int *, H, H, H, void *))             \
    X(Ireduce_scatter_block, (const void *, void *, int, H, H, H, void *))               \
    X(Iallgather, (const void *, int, H, void *, int, H, H, void *))                     \
    X(Ialltoall, (const void *, int, H, void *, int, H, H, void *))                      \
    X(Ibcast, (void *, int, H, int, H, void *))                                          \
    X(Ibarrier, (H, void *))                                                             \
    X(Iallgatherv, (const void *, int, H, void *, const int *, const int *, H, H, void *))

#define WRING_MPI_LATER_FUNCTIONS(X)                                                      \
    X(Abi_get_version, (int *, int *))                                                    \
    X(Pack_c, (const void *, int64_t, H, void *, int64_t, int64_t *, H))                  \
    X(Unpack_c, (const void *, int64_t, int64_t *, void *, int64_t, H, H))                \
    X(Allreduce_c, (const void *, void *, int64_t, H, H, H))                              \
    X(Reduce_c, (const void *, void *, int64_t, H, H, int, H))                            \
    X(Reduce_scatter_c, (const void *, void *, const int64_t *, H, H, H))                 \
    X(Reduce_scatter_block_c, (const void *, void *, int64_t, H, H, H))                   \
    X(Allgather_c, (const void *, int64_t, H, void *, int64_t, H, H))                     \
    X(Alltoall_c, (const void *, int64_t, H, void *, int64_t, H, H))                      \
    X(Bcast_c, (void *, int64_t, H, int, H))                                              \
    X(Iallreduce_c, (const void *, void *, int64_t, H, H, H, void *))                     \
    X(Ireduce_c, (const void *, void *, int64_t, H, H, int, H, void *))                   \
    X(Ireduce_scatter_c, (const void *, void *, const int64_t *, H, H, H, void *))        \
    X(Ireduce_scatter_block_c, (const void *, void *, int64_t, H, H, H, void *))          \
    X(Iallgather_c, (const void *, int64_t, H, void *, int64_t, H, H, void *))            \
    X(Ialltoall_c, (const void *, int64_t, H, void *, int64_t, H, H, void *))             \
    X(Ibcast_c, (void *, int64_t, H, int, H, void *))                                     \
    X(Allreduce_init, (const void *, void *, int, H, H, H, H, void *))                    \
    X(Reduce_init, (const void *, void *, int, H, H, int, H, H, void *))                  \
    X(Reduce_scatter_init, (const void *, void *, const int *, H, H, H, H, void *))       \
    X(Reduce_scatter_block_init, (const void *, void *, int, H, H, H, H, void *))         \
    X(Allgather_init, (const void *, int, H, void *, int, H, H, H, void *))               \
    X(Alltoall_init, (const void *, int, H, void *, int, H, H, H, void *))                \
    X(Bcast_init, (void *, int, H, int, H, H, void *))                                    \
    X(Barrier_init, (H, H, void *))                                                       \
    X(Allreduce_init_c, (const void *, void *, int64_t, H, H, H, H, void *))              \
    X(Reduce_init_c, (const void *, void *, int64_t, H, H, int, H, H, void *))            \
    X(Reduce_scatter_init_c, (const void *, void *, const int64_t *, H, H, H, H, void *)) \
    X(Reduce_scatter_block_init_c, (const void *, void *, int64_t, H, H, H, H, void *))   \
    X(Allgather_init_c, (const void *, int64_t, H, void *, int64_t, H, H, H, void *))     \
    X(Alltoall_init_c, (const void *, int64_t, H, void *, int64_t, H, H, H, void *))      \
    X(Bcast_init_c, (void *, int64_t, H, int, H, H, void *))                              \
    X(Comm_f2c, (int))                                                                    \
    X(Type_f2c, (int))                                                                    \
    X(Op_f2c, (int))                                                                      \
    X(Request_get_status_all, (int, const void *, int *, void *))                         \
    X(Request_get_status_any, (int, const void *, int *, int *, void *))                  \
    X(Request_get_status_some, (int, const void *, int *, int *, void *))

struct wring_pmpi {
#define MEMBER(name, args) int(*name) args;
    WRING_MPI_FUNCTIONS(MEMBER)
    WRING_MPI_LATER_FUNCTIONS(MEMBER)
#undef MEMBER
};

/** A predefined type. */
struct wring_mpi_type {
    H handle;
    enum wring_dtype dtype;
    bool reduces; /* and may be reduced as dtype */
    uint32_t bytes;
    bool dense; /* elements follow each other without gaps */
};

enum wring_mpi_kind {
    WRING_MPI_MPICH, /* MPICH and what keeps its ABI: Intel MPI, MVAPICH, Cray */
    WRING_MPI_OPENMPI,
    WRING_MPI_STANDARD, /* the ABI of MPI 5 */
};

#define WRING_MPI_TYPES 512 /* slots of a hash table */
#define WRING_MPI_OPS 16

struct wring_mpi_abi {
    enum wring_mpi_kind kind;
    const char *name;
    struct wring_pmpi pmpi;
    H comm_world, comm_self, comm_null, request_null, errors_return;
    H byte, u64, sum; /* a type of bytes, of 64-bit integers, and their sum */
    void *in_place;
    void *status_ignore; /* of arrays as well */
    size_t handle_bytes; /* in memory */
    size_t status_bytes;
    size_t status_source, status_tag, status_error; /* offsets */
    int any_source, any_tag, undefined;
    int err_other, err_request, err_in_status, err_pending, err_no_mem;
    struct wring_mpi_type types[WRING_MPI_TYPES];
    struct {
        H handle;
        enum wring_op op;
    } ops[WRING_MPI_OPS];
    size_t n_ops;
};

extern struct wring_mpi_abi wring_mpi_abi;

/** Find the library, once. A process that has none is told so and ends. */
void wring_mpi_find(void);

/** What was found; types are looked up by wring_mpi_learn_types(). */
const struct wring_mpi_abi *wring_mpi_library(void);

/** This library's file. Other copies of it in the process call it, too. */
__attribute__((visibility("default"))) const char *wring_mpi_library_path(void);

/** The file of another copy that comes before this one in LD_PRELOAD. NULL: there is none */
const char *wring_mpi_other_copy(void);

/** After MPI_Init: sizes of predefined types. */
void wring_mpi_learn_types(void);

/** A handle as an argument has it. */
static inline H wring_mpi_handle(H argument)
{
    return wring_mpi_abi.kind == WRING_MPI_MPICH ? (uint32_t)argument : argument;
}

static inline H wring_mpi_read_handle(const void *array, size_t i)
{
    return wring_mpi_abi.kind == WRING_MPI_MPICH ? ((const uint32_t *)array)[i]
                                                 : ((const uintptr_t *)array)[i];
}

static inline void wring_mpi_write_handle(void *array, size_t i, H handle)
{
    if (wring_mpi_abi.kind == WRING_MPI_MPICH)
        ((uint32_t *)array)[i] = (uint32_t)handle;
    else
        ((uintptr_t *)array)[i] = handle;
}

/** The slot of a handle, or where it would be: NULL only of a full table. */
static inline struct wring_mpi_type *wring_mpi_type_slot(H handle)
{
    size_t at = (handle >> 6 ^ handle) % WRING_MPI_TYPES;
    while (wring_mpi_abi.types[at].handle != handle && wring_mpi_abi.types[at].handle != 0)
        at = (at + 1) % WRING_MPI_TYPES;
    return &wring_mpi_abi.types[at];
}

/** A predefined type; NULL: it is derived, or none. */
static inline const struct wring_mpi_type *wring_mpi_type(H argument)
{
    H handle = wring_mpi_handle(argument);
    const struct wring_mpi_type *type = wring_mpi_type_slot(handle);
    return type->handle == handle && handle != 0 ? type : NULL;
}

/** @return false: the operation is none of wring's */
static inline bool wring_mpi_op(H argument, enum wring_op *out)
{
    H handle = wring_mpi_handle(argument);
    for (size_t i = 0; i < wring_mpi_abi.n_ops; i++)
        if (wring_mpi_abi.ops[i].handle == handle) {
            *out = wring_mpi_abi.ops[i].op;
            return true;
        }
    return false;
}

#undef H
#undef COPY_FN
#undef DELETE_FN

#endif
