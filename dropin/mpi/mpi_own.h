/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What libwring_mpi.so knows of its process: one rank of an MPI job, with one session of wring, and
 * a group of wring's for each communicator that is used.
 *
 * An MPI gives a process one rank, so this is a library of one process and has variables of it.
 * Threads: all functions may be called by several threads at once, as far as the MPI allows that.
 */
#ifndef WRING_DROPIN_MPI_OWN_H
#define WRING_DROPIN_MPI_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "dropin/mpi/mpi_abi.h"
#include "runtime/call_codecs.h"
#include <wring/wring.h>

#define WRING_MODULE "mpi"

/**
 * A function that programs call of their MPI. It has the MPI's second name as well: the Fortran of
 * Open MPI calls C by it, and so do tools that measure programs.
 */
#define WRING_MPI_EXPORT(name, ...)                                                           \
    __attribute__((visibility("default"))) int MPI_##name(__VA_ARGS__);                       \
    __attribute__((visibility("default"), alias("MPI_" #name))) int PMPI_##name(__VA_ARGS__); \
    int MPI_##name(__VA_ARGS__)

/** The same for a function that Open MPI 4 calls MPIX_. */
#define WRING_MPI_EXPORT_X(name, ...)                                                          \
    __attribute__((visibility("default"), alias("MPI_" #name))) int MPIX_##name(__VA_ARGS__);  \
    __attribute__((visibility("default"), alias("MPI_" #name))) int PMPIX_##name(__VA_ARGS__); \
    WRING_MPI_EXPORT(name, __VA_ARGS__)

/** What a call is to MPI. */
enum wring_mpi_call_kind {
    WRING_MPI_ALLREDUCE,
    WRING_MPI_REDUCE,
    WRING_MPI_REDUCE_SCATTER,
    WRING_MPI_REDUCE_SCATTER_BLOCK,
    WRING_MPI_ALLGATHER,
    WRING_MPI_ALLTOALL,
    WRING_MPI_BCAST,
    WRING_MPI_BARRIER,
};
#define WRING_MPI_CALLS 8

/** Why a call is the MPI's. All members of a communicator answer alike. */
enum wring_mpi_reason {
    WRING_MPI_SERVED = 0, /* it is wring's */
    WRING_MPI_NO_SESSION,
    WRING_MPI_ALONE,
    WRING_MPI_INTER,
    WRING_MPI_FOREIGN,
    WRING_MPI_UNSEEN,
    WRING_MPI_TYPE,
    WRING_MPI_OP,
    WRING_MPI_EMPTY,
    WRING_MPI_ARGUMENT,
};
#define WRING_MPI_REASONS 10

enum wring_mpi_comm_state {
    WRING_MPI_COMM_PASSED,  /* all calls on it are the MPI's */
    WRING_MPI_COMM_KNOWN,   /* its members have agreed on a tag */
    WRING_MPI_COMM_FORMING, /* a thread makes its group */
    WRING_MPI_COMM_READY,
    WRING_MPI_COMM_FAILED,
};

struct wring_mpi_pending;

/** A communicator. */
struct wring_mpi_comm {
    wring_mpi_handle_t handle;
    struct wring_mpi_comm *next;  /* in its slot of the table */
    atomic_int users;             /* the table, and each call under way */
    atomic_int state;             /* changed under the mutex */
    enum wring_mpi_reason reason; /* of WRING_MPI_COMM_PASSED */
    enum wring_status failed;     /* of WRING_MPI_COMM_FAILED */
    uint32_t n, me;
    uint32_t *ranks; /* [n] in MPI_COMM_WORLD */
    uint64_t tag;
    struct wring_group *group;
    bool whole;                    /* the group is the session's */
    bool freed;                    /* by the program */
    struct wring_mpi_comm *origin; /* of a twin; else NULL */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct wring_mpi_pending *first, *last; /* calls that wait for the group, in order */
    struct wring_mpi_comm *forming;         /* the next one of those that a thread forms */
};

/** A call's arguments, as MPI has them. */
struct wring_mpi_args {
    enum wring_mpi_call_kind kind;
    const void *in;
    void *out; /* of a bcast the buffer */
    int64_t in_count, out_count;
    wring_mpi_handle_t in_type, out_type; /* of a reduction out_type alone */
    wring_mpi_handle_t op;
    int root;
    const void *counts; /* of a reduce-scatter, [n] int or int64_t */
    bool wide;          /* they are int64_t */
    wring_mpi_handle_t comm;
};

/** What is made of it for wring. */
struct wring_mpi_call {
    enum wring_mpi_call_kind kind;
    const void *in;
    void *out;
    uint64_t elems;
    uint64_t *runs; /* of a reduce-scatter; its own */
    enum wring_dtype dtype;
    enum wring_op op;
    uint32_t root;
    const char *codec; /* NULL: exact */
    struct {
        void *in, *out; /* memory in the place of the program's; its own */
        void *move_to;  /* the result goes there from `move_from` */
        const void *move_from;
        size_t move_bytes;
        void *unpack_to; /* or is unpacked there, from `out` */
        int64_t unpack_count;
        wring_mpi_handle_t unpack_type;
        uint64_t unpack_bytes;
    } after;
};

/** A call that MPI_I… or MPI_Start began. */
struct wring_mpi_pending {
    struct wring_mpi_pending *next;      /* of all */
    struct wring_mpi_pending *next_wait; /* of those that wait for their group */
    struct wring_mpi_comm *comm;
    struct wring_mpi_call call;
    struct wring_request *request; /* once its group took it */
    atomic_bool begun;             /* `request` is there, or `failed` */
    enum wring_status failed;
    bool held;                         /* a thread waits for it */
    atomic_int users;                  /* the list of pending calls, and the MPI's request */
    wring_mpi_handle_t handle;         /* the MPI's request */
    atomic_int code;                   /* how it ended, for the MPI */
    struct wring_mpi_lasting *lasting; /* NULL: it is of no persistent request */
};

/** The process. */
struct wring_mpi_own {
    struct wring_session *session; /* NULL: all calls are the MPI's */
    wring_mpi_handle_t control;    /* a copy of MPI_COMM_WORLD, of our own */
    wring_mpi_handle_t alone;      /* a copy of MPI_COMM_SELF, likewise */
    wring_mpi_handle_t group;      /* of MPI_COMM_WORLD */
    uint32_t rank, size;
    int keyval;
    struct wring_log log;
    uint64_t join_timeout_ns;
    struct wring_call_codecs codecs; /* of sums, by enum wring_mpi_call_kind */
    bool stats;
    char iface[256];  /* WRING_IFACE */
    char address[64]; /* that reaches other hosts; "": there are none */
    struct wring_mpi_comm *world;
    atomic_uint forming;   /* threads that make groups */
    atomic_uint unsettled; /* calls under way that a wait has to see to */
};
extern struct wring_mpi_own wring_mpi_own;

/* ---- mpi_job.c ---- */

/** After MPI_Init: open the session. @return MPI's code */
int wring_mpi_open(void);

/** Let the MPI go on: called by threads that wait in wring. */
void wring_mpi_poke(void *arg);

/** Threads of our own make no call of the MPI's. */
void wring_mpi_be_silent(void);

/** Hand a failure to the communicator's error handler. @return MPI's code of it */
int wring_mpi_fail(wring_mpi_handle_t comm, enum wring_status status);
int wring_mpi_code(enum wring_status status);

/* ---- mpi_meet.c ---- */

/** Copy MPI_COMM_WORLD together with all ranks. Errors are logged. */
enum wring_status wring_mpi_meet(uint64_t deadline_ns);

/** Exchanges over that copy; its `at_fault` is another rank once that one has said that it fails.
 */
struct wring_bootstrap *wring_mpi_bootstrap(void);

/** How opening went: on one rank, then on all of them. */
struct wring_mpi_verdict {
    enum wring_status status;
    uint32_t rank;     /* that fails first by itself */
    uint32_t n_causes; /* ranks that fail by themselves */
    char text[512];    /* why, "": see the status */
};

/**
 * Once, after all exchanges or the first that failed: the ranks tell each other how they fared.
 * Collective, where the MPI works.
 * @param verdict  of this rank, then of all
 * @param say      called if it is no success; no rank leaves before all have called it
 */
void wring_mpi_conclude(struct wring_mpi_verdict *verdict, uint64_t deadline_ns,
                        void (*say)(const struct wring_mpi_verdict *verdict));

/* ---- mpi_comm.c ---- */

enum wring_status wring_mpi_comms_open(void);

/** The communicator of that handle; one that is not known becomes so if `meets`, by a collective
 *  call of the MPI's on it. NULL: none. */
struct wring_mpi_comm *wring_mpi_comm_find(wring_mpi_handle_t handle, bool meets);

/** A communicator was made by all its members, who are all here. */
void wring_mpi_comm_made(wring_mpi_handle_t handle);

/** The same processes with a group of their own: persistent collectives match by the order in which
 *  they were made, and may be started in any. Collective. NULL: it could not be made. */
struct wring_mpi_comm *wring_mpi_comm_twin(struct wring_mpi_comm *comm);

/** Whose error handler hears of failures. */
wring_mpi_handle_t wring_mpi_comm_to_blame(const struct wring_mpi_comm *comm);

void wring_mpi_comm_hold(struct wring_mpi_comm *comm);
void wring_mpi_comm_release(struct wring_mpi_comm *comm);

/** Its group is there afterwards, and what waited for it has begun; blocks. */
enum wring_status wring_mpi_comm_await(struct wring_mpi_comm *comm);

/** Begin a call once the group is there; never blocks. */
void wring_mpi_comm_queue(struct wring_mpi_comm *comm, struct wring_mpi_pending *pending);

/** Before the session closes: no thread makes a group afterwards. */
void wring_mpi_comms_stop(void);

/* ---- mpi_call.c ---- */

/** Make of MPI's arguments what wring is to do. @return why not */
enum wring_mpi_reason wring_mpi_prepare(const struct wring_mpi_args *args,
                                        const struct wring_mpi_comm *comm,
                                        struct wring_mpi_call *call, enum wring_status *failed);

/** Begin it; `request` NULL: and wait for its end. */
enum wring_status wring_mpi_issue(struct wring_group *group, const struct wring_mpi_call *call,
                                  struct wring_request **request);

/** Its result goes where the program wants it; frees what the call has. */
enum wring_status wring_mpi_finish(struct wring_mpi_call *call, enum wring_status status);

/** A whole call. @return false: it is the MPI's */
bool wring_mpi_run(const struct wring_mpi_args *args, int *code);

/** Run an exact allreduce that needs no preparation, in fewer instructions.
 *  @return false: nothing was done, and wring_mpi_run() must decide */
bool wring_mpi_run_plain(const void *in, void *out, int64_t count, wring_mpi_handle_t type,
                         wring_mpi_handle_t op, wring_mpi_handle_t comm, int *code);

/** Begin a call, or make a persistent request for it. @return false: it is the MPI's */
bool wring_mpi_begin(const struct wring_mpi_args *args, void *request, int *code);
bool wring_mpi_last(const struct wring_mpi_args *args, void *request, int *code);

/* ---- mpi_request.c ---- */

/** Begin a prepared call for a new request of the MPI's. @return MPI's code */
int wring_mpi_pending_start(struct wring_mpi_comm *comm, const struct wring_mpi_call *call,
                            void *request);

/** Make a persistent request for a call. @return MPI's code */
int wring_mpi_lasting_create(struct wring_mpi_comm *comm, const struct wring_mpi_args *args,
                             void *request);

/* ---- mpi_count.c ---- */

void wring_mpi_count(enum wring_mpi_call_kind kind, enum wring_mpi_reason reason);

/** One of those that are served travels encoded. */
void wring_mpi_count_coded(enum wring_mpi_call_kind kind);

/** Rank 0 says what all ranks' calls came to. Collective over the control communicator. */
void wring_mpi_counts_print(void);

#endif
