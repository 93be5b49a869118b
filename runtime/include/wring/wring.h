/* SPDX-License-Identifier: Apache-2.0 */
/**
 * wring: gradient buckets, exchanged between the ranks of a training job and compressed on the way.
 *
 *     struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
 *     wring_session_open(&params, &session);
 *     wring_buffer_alloc(session, bytes, &grad);
 *     wring_bucket_register(session, &(struct wring_bucket_params){
 *         .name = "layer3.weight", .data = grad, .elems = n, .op = WRING_AVG}, &bucket);
 *     wring_session_commit(session);
 *     for (;;) {
 *         ... fill grad ...
 *         wring_bucket_post(bucket);
 *         ... compute something else ...
 *         wring_bucket_wait(bucket, WRING_FOREVER);
 *     }
 *     wring_session_close(session);
 *
 * Threads: a session's setup calls (open, register, commit, close) come from one thread at a time.
 * Groups may be made by several threads at once. Post, test and wait may come from any thread, one
 * at a time per bucket or request. wring_session_close() may be called while other threads are
 * inside the session: their calls return WRING_ERR_CLOSED. Several sessions, also several ranks of
 * one job, may live in one process.
 *
 * A program's own event loop watches wring_session_fd() instead of waiting.
 *
 * Failure: a rank that dies, hangs or is cut off ends the session on every rank. The pending and
 * all later calls return WRING_ERR_PEER at once, and wring_session_error() says who and why. The
 * other ranks may go on by wring_session_shrink(). A step
 * in which all ranks are alive and none can go on ends the session, too, with rank -1. A rank that
 * is slow, or has not posted, never ends it.
 *
 * Processes: a session belongs to the process that opened it. In a child that fork() makes, each
 * call on it returns WRING_ERR_INVALID and changes nothing; wring_session_close(),
 * wring_group_destroy() and wring_buffer_free() return and do nothing. The child may open a session
 * of its own, and may exec. It holds none of the session's sockets or ports: the other ranks see
 * this rank's death at once, even if its child lives on.
 *
 * A child may read the memory that wring_buffer_alloc() gave its parent. The child's writes there
 * stay its own. The child may or may not see later writes of the parent or its peers. So a child
 * that writes a checkpoint needs memory that the parent leaves alone until the child has read it,
 * or a copy made before the fork. vfork() and posix_spawn() are fine. A child of clone() without
 * fork() must exec before anything else.
 *
 * Signals: threads of the library block all signals except those that a thread brings upon itself
 * (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS). Descriptors of the library are never 0, 1
 * or 2, even where the program has closed these.
 */
#ifndef WRING_WRING_H
#define WRING_WRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/log.h>
#include <wring/memory.h>
#include <wring/status.h>
#include <wring/types.h>

/*
 * Structs that the library reads or fills begin with struct_bytes, their size as the program was
 * compiled. So later releases can add fields at their end, and programs that do not know these
 * fields still run. Start from the struct's _INIT, which sets struct_bytes and leaves all else
 * zero. A struct_bytes of 0 stands for the fields of the first release, so a literal of only these
 * needs no more.
 *
 * A field that the library lacks must be zero, else the call returns WRING_ERR_INVALID. After a
 * call that fills a struct, struct_bytes says how many bytes it filled.
 */
#ifdef __cplusplus
extern "C++" { /* even where this header is included inside extern "C" */
template <class T> inline T wring_sized()
{
    T sized = T();
    sized.struct_bytes = sizeof(T);
    return sized;
}
}
#define WRING_SIZED(type) wring_sized<type>()
#else
#define WRING_SIZED(type)            \
    {                                \
        .struct_bytes = sizeof(type) \
    }
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

#define WRING_FOREVER UINT64_MAX

/**
 * Bytes of stack that a thread needs to call the library, without its own signal handlers.
 * wring_session_open() and wring_session_commit() look up hosts, load drivers and plan, and need
 * WRING_STACK_PLANNING. With WRING_PLAN=auto every call may plan.
 */
#define WRING_STACK_MIN ((size_t)64 << 10)
#define WRING_STACK_PLANNING ((size_t)256 << 10)

struct wring_session;
struct wring_bucket;
struct wring_group;
struct wring_request;
struct wring_delta;
struct wring_codec_ops; /* see wring_session_params.codecs */
struct wring_bootstrap; /* see wring_session_params.bootstrap */

/**
 * Where this rank stands in the job. Every field may be zero: its value then comes from the WRING_
 * variables and from the launcher (wring run, Open MPI, MPICH, Slurm, torchrun). Start from
 * WRING_SESSION_PARAMS_INIT, which sets struct_bytes. On every rank wring_session_open() takes over
 * root_fd: it closes the descriptor once the ranks have met, and if the session does not open. It
 * leaves open the descriptor that WRING_ROOT_FD names.
 */
struct wring_session_params {
    size_t struct_bytes;
    const char *provider; /* WRING_PROVIDER: "auto", "tcp", "shm", … */
    const char *root;     /* WRING_ROOT: "host:port" of rank 0, or several, "host:port,…" */
    const char *key;      /* WRING_KEY: the job's secret, of any length; "": see WRING_KEY_FILE */
    uint32_t rank, size;  /* size 0: from the environment */
    int root_fd;          /* rank 0, > 0: a listening TCP socket to use; the session owns it */
    uint64_t seed;        /* of the job's random numbers; equal on all ranks */
    struct wring_bootstrap *bootstrap; /* another way to meet: <wring/bootstrap.h>. Borrowed */
    wring_log_fn log;                  /* NULL: standard error */
    void *log_arg;
    const char *const *settings; /* further "WRING_X=value" texts, NULL-terminated, over the
                                    environment's; NULL: none */
    const struct wring_codec_ops *const *codecs; /* the program's own, NULL-terminated; NULL: none.
                                    Borrowed until the session is closed. See <wring/codec.h> */
};
#define WRING_SESSION_PARAMS_INIT WRING_SIZED(struct wring_session_params)

/**
 * Join the job: meet all ranks, prove the key, connect. Collective.
 *
 * Rank and size come from params, else from WRING_RANK and WRING_SIZE, else from the launcher that
 * started the process. Without any of these it is a job of one. A launcher that cannot be used is
 * an error (WRING_ERR_UNSUPPORTED). Under PMIx and PMI all ranks of the launcher's job open the
 * same sessions, in the same order; the launcher's client begins with the first and ends as the
 * process exits.
 *
 * The key is all bytes of WRING_KEY_FILE but line ends at its end. The call refuses a file that
 * others than its owner may use, that is no regular file, or that has less than 16 bytes or more
 * than 64 KiB.
 *
 * Blocks until every rank is there or WRING_JOIN_TIMEOUT has passed.
 * Errors: WRING_ERR_INVALID (a setting, an own codec), WRING_ERR_PEER (a rank never joined: the log
 * line names it), WRING_ERR_AUTH, WRING_ERR_ADDRESS, WRING_ERR_MISMATCH (a rank given twice,
 * another size), WRING_ERR_VERSION (another wire version), WRING_ERR_SYSTEM.
 */
enum wring_status wring_session_open(const struct wring_session_params *params,
                                     struct wring_session **out);

/**
 * Leave the job. Peers are told, and pending work is dropped. NULL is fine.
 *
 * Other threads may be inside calls on the session, its buckets, groups and requests. A call that
 * waits returns WRING_ERR_CLOSED within 100 ms. If codec jobs are running, it returns once they
 * have ended. A call that begins during close returns WRING_ERR_CLOSED at once. Close returns once
 * all calls have left.
 *
 * Close frees the session, its buckets and groups, and the memory of wring_buffer_alloc(). It also
 * frees each request, in any state, that nobody waited for. No call may begin after close returns.
 *
 * Close has no deadline for codec jobs, because they still use the application's memory. After one
 * second it logs the name of the executor that it waits for.
 *
 * If peers do not listen, because none of their threads makes progress, close gives them half a
 * second to hear the good-bye. If the job has failed just now, they get as long to hear why, and
 * calls that wait return after that. The log function must not call it.
 */
void wring_session_close(struct wring_session *session);

/**
 * End all that is under way in a session, on every rank. Waiting calls return WRING_ERR_CANCELLED,
 * and so do all later calls but wring_session_error() and wring_session_close(). The other ranks
 * hear of it at once; their calls return the same, and wring_session_error() names this rank.
 *
 * As after each failure of a session, a peer that has not heard of it yet may still write into the
 * memory of pending steps, calls and receives. Keep that memory until wring_session_close() has
 * returned. A call that waits for a step returns only after the step's codec jobs have ended.
 *
 * Errors: WRING_ERR_CLOSED (another thread closes the session). Threads: safe, also inside a
 * callback and beside waits of other threads, which give way.
 */
enum wring_status wring_session_abort(struct wring_session *session);

/**
 * Go on without ranks that are lost. Every rank that is left calls it after a call of the session
 * has failed, with WRING_ERR_PEER or WRING_ERR_CANCELLED. They agree which ranks are left, without
 * a launcher and whichever ranks are lost, and get a session of their own: ranks 0 to m - 1 in the
 * order that they had. The old session is closed on success.
 *
 * Buckets and memory move: all pointers of wring_bucket_register() and wring_buffer_alloc(), and
 * what wring_buffer_register() was told of, are the new session's, and the buckets are committed
 * there. Groups and requests end with the old session. wring_bucket_steps() says with which step to
 * go on; it is the same on all ranks. A rank that had completed one more is to do that again.
 *
 * A step that failed may have overwritten part of its input, and changed what its codec holds back.
 * A bucket with `out` never changes its input. With WRING_ROLLBACK=on the call gives every other
 * bucket its input back, and what its codec held back before that step. Without, the program fills
 * the bucket again, and a residual begins anew, which is logged.
 *
 * Only a quorum goes on: more than half of the ranks, or half of them with rank 0, or else all but
 * ranks whose host says that their process is gone. So if a network parts, one side at most goes
 * on. Ranks that live and do not call are waited for, at most half of the time.
 *
 * @param timeout_ns  for all of it; 0: WRING_JOIN_TIMEOUT
 * @param out         out, on success; else the session stays, and wring_session_close() is all that
 *                    it is good for, once the program has given up
 *
 * Errors: WRING_ERR_PEER (no quorum, or the others go on without this rank; the log line says
 * which), WRING_ERR_TIMEOUT, WRING_ERR_INVALID (the session has not failed, or has one rank),
 * WRING_ERR_UNSUPPORTED (a bucket belongs to a group; the lost ranks lie in more than 8 places
 * among the others), WRING_ERR_ADDRESS, WRING_ERR_NO_MEMORY, those of wring_session_open().
 *
 * Threads: a setup call. No other thread uses the session, or what belongs to it, meanwhile.
 */
enum wring_status wring_session_shrink(struct wring_session *session, uint64_t timeout_ns,
                                       struct wring_session **out);

/**
 * Let newcomers in. Every rank of a session that works calls it at the same place between steps,
 * with nothing under way. A newcomer is a process that opens its session with WRING_JOIN and the
 * job's key: its wring_session_open() waits at the door of a rank (WRING_DOOR, WRING_DOOR_FD) until
 * the ranks call this. It then registers the same buckets, and commits while the others are inside
 * this call.
 *
 * If somebody waits, all get a new session, as with wring_session_shrink(): buckets and memory
 * move. Ranks keep their numbers, and newcomers get those behind them. Next all ranks, newcomers
 * too, call wring_session_share(). If nobody waits, *out is the session itself; that takes as long
 * as an allreduce of 4 bytes. At most 64 newcomers come in at a time, by at most 4 doors.
 *
 * @param timeout_ns  for all of it; 0: WRING_JOIN_TIMEOUT
 * @param out         out, on success; the old session is closed if it is another one. After an
 *                    error the session stays: if it works, commit it again before the next step
 *
 * Errors: as of wring_session_shrink(), WRING_ERR_BUSY (a step is under way), WRING_ERR_PEER also
 * if a rank is lost: shrink the session then.
 *
 * Threads: a setup call. No other thread uses the session, or what belongs to it, meanwhile.
 */
enum wring_status wring_session_grow(struct wring_session *session, uint64_t timeout_ns,
                                     struct wring_session **out);

/**
 * Give all ranks what rank 0 has: the program's own state, such as weights, the buckets' steps, and
 * arrays that codecs share. Collective, after a commit and with nothing under way. Ranks compare
 * SHA-256 sums before and after. If all are equal, nothing is sent.
 *
 * A program that calls it once its first commit is done needs nothing else for newcomers: they come
 * the same way. Then wring_bucket_steps() is equal on all ranks.
 *
 * @param state  in on rank 0, out on the others, [bytes]; the same number on all. NULL, 0: none
 *
 * Errors: WRING_ERR_FRAME (the sums differ after the broadcast), WRING_ERR_INVALID (not committed),
 * WRING_ERR_BUSY, WRING_ERR_PEER, WRING_ERR_MISMATCH (other bytes on a rank), WRING_ERR_SYSTEM.
 *
 * Threads: a setup call.
 */
enum wring_status wring_session_share(struct wring_session *session, void *state, size_t bytes);

/**
 * A descriptor for the application's event loop (poll, epoll, libuv). The loop watches whether it
 * is readable, and then calls wring_session_progress(). It is level-triggered. The application
 * never reads it or closes it.
 *
 *   - WRING_PROGRESS=thread: it is readable when a step or request has ended since the last
 *     wring_session_progress().
 *   - WRING_PROGRESS=caller: also when a provider needs service, after each post, and after calls
 *     of other threads. The loop also calls wring_session_progress() after
 *     wring_session_next_ns() at the latest.
 *
 * It reports requests, and buckets that are committed after the first call of this function. It may
 * be readable although nothing has ended.
 *
 * @return the descriptor, the same in each call; -1 if the system has none, which is logged, or if
 * another thread closes the session
 *
 * Threads: a setup call.
 */
int wring_session_fd(struct wring_session *session);

/**
 * Serve wring_session_fd() without waiting. With WRING_PROGRESS=caller this moves collectives on
 * and calls callbacks. A later test sees each step and request that had ended before.
 * @return WRING_OK, or why the session failed
 *
 * Threads: safe.
 */
enum wring_status wring_session_progress(struct wring_session *session);

/**
 * How long an event loop may sleep on wring_session_fd(), in nanoseconds from now. WRING_FOREVER
 * with WRING_PROGRESS=thread; 0 if wring_session_progress() is due. Threads: safe.
 */
uint64_t wring_session_next_ns(struct wring_session *session);

/** This process's rank, 0-based, and the number of ranks in the job. Threads: safe. */
uint32_t wring_session_rank(const struct wring_session *session);
uint32_t wring_session_size(const struct wring_session *session);

/**
 * Memory that every provider in use can move without a copy. It is zeroed and aligned to pages. The
 * session's end frees it, or wring_buffer_free() while no bucket uses it. Buffers share descriptors
 * and registrations, so there may be thousands, one for each parameter. The library gives freed
 * memory out again; it returns to the system with the last buffer beside it.
 * Errors: WRING_ERR_NO_MEMORY. Threads: safe.
 */
enum wring_status wring_buffer_alloc(struct wring_session *session, size_t bytes, void **out);

/**
 * Register foreign memory. Providers that can do so then move it without a copy, like buffers of
 * wring_buffer_alloc(). For other providers the library copies it into its own slots and sends it
 * from there, as it does with all foreign memory that is not registered.
 *
 * The library finds out by itself whether the pointer is one of a CUDA device: it asks the driver,
 * if the process has loaded libcuda.so.1 already. Device memory needs a provider that registers it.
 * No provider of this version does so without a dma-buf, so the call refuses it. Managed memory and
 * pinned memory of the host count as the host's.
 *
 * The memory stays the caller's. The caller keeps it mapped until wring_buffer_free() or the end of
 * the session, and frees it only then.
 * Errors: WRING_ERR_INVALID (NULL or no bytes), WRING_ERR_NO_MEMORY (a memory lock limit, too),
 * WRING_ERR_UNSUPPORTED (device memory; the log line names the provider).
 */
enum wring_status wring_buffer_register(struct wring_session *session, void *data, size_t bytes);

/** Free a buffer of wring_buffer_alloc(), or forget the memory registered there. NULL is fine. */
void wring_buffer_free(struct wring_session *session, void *data);

/** How an operation ended. Start from WRING_RESULT_INIT. */
struct wring_result {
    size_t struct_bytes;
    enum wring_status status;
    int32_t rank;   /* the rank at fault; of a receive: its sender; -1: no rank */
    uint64_t tag;   /* of a message; 0: collectives have none */
    uint64_t bytes; /* of the result that this member has in memory now, or of the message as it
                       was sent; 0 after an error */
};
#define WRING_RESULT_INIT WRING_SIZED(struct wring_result)

/**
 * A completion callback: a bucket's step or a request has ended. It is called once for each, after
 * the result is written, so that test inside it already sees the end.
 *
 * It runs in a thread that makes progress, and wring holds no lock meanwhile. That is the session's
 * thread, or any thread within wait, test, wring_wait_any(), wring_session_close() or a call
 * without a request. Callbacks of one session never run at the same time. They may run after wait
 * or test have returned the same end. During these calls a thread must not hold a lock that a
 * callback takes.
 *
 * It may post, test, abort and start calls with a request. It may not wait, commit, make a group,
 * start a call without a request or close the session: these return WRING_ERR_INVALID (close
 * returns at once) and log why. The program still has to test or wait for a request once, inside
 * the callback or later, which frees it. Before close returns, it calls the callbacks of all that
 * is under way, with WRING_ERR_CLOSED.
 *
 * @param arg     done_arg of the bucket or call
 * @param result  borrowed for the call
 */
typedef void (*wring_done_fn)(void *arg, const struct wring_result *result);

/** A bucket to be registered. All fields but name and data may be zero; start from
 * WRING_BUCKET_PARAMS_INIT. */
struct wring_bucket_params {
    size_t struct_bytes;
    const char *name; /* unique in the session; ranks agree on it */
    void *data;       /* [elems]; any memory, which the caller keeps as long as the bucket exists. A
                         step reads it, and writes the result there unless `out` is given */
    uint64_t elems;   /* 0 is fine */
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec; /* spec; NULL: as WRING_CODEC_RULES says, which is "none" without it. Codecs
                          take sums and averages of f32, f16 and bf16. Commit bypasses it if it
                          measures that it saves no time: WRING_BYPASS */
    enum wring_scheme scheme;
    int32_t priority;          /* smaller leaves first */
    struct wring_group *group; /* NULL: all ranks */
    struct {
        uint64_t rows, columns; /* of `elems` together, row after row; zeros: no matrix. Codecs see
                                   it, unless a plan merges the bucket with others */
    } shape;
    wring_done_fn done; /* called after each step; NULL: no callback */
    void *done_arg;
    const char *executor; /* runs the bucket's codec work and sums: "inline", "pool", "pool:N",
                             "pool:cores=LIST", as WRING_EXECUTOR has it; NULL: the session's.
                             Ranks agree on it. Never changes a bit of a result. A bucket that names
                             one takes no part in WRING_PLAN=auto */
    void *out;     /* [elems]; the result goes there, and data is never written to; NULL: into data.
                      Does not overlap data. A step that peers read or sum in place, or that travels
                      with other buckets, first copies data there, in the thread that posts */
    double factor; /* WRING_PREMUL_SUM: of this rank's contribution (0: it adds nothing), else 0.
                      The thread that posts writes the products to the result's place */
};
#define WRING_BUCKET_PARAMS_INIT WRING_SIZED(struct wring_bucket_params)

/**
 * Register a bucket. Local; takes effect at the next commit.
 *
 * The call makes the executor that a bucket names. The executor lives as long as the session, which
 * has at most 16; buckets that name the same share it. Data may be memory of a CUDA device only if
 * the executor works on that device. No executor of this version does, so the call refuses such
 * data.
 * Errors: WRING_ERR_INVALID (name, shape, codec spec, executor), WRING_ERR_UNSUPPORTED (a codec for
 * that type or operation, or data out of the executor's reach), WRING_ERR_BUSY (a bucket is under
 * way).
 */
enum wring_status wring_bucket_register(struct wring_session *session,
                                        const struct wring_bucket_params *params,
                                        struct wring_bucket **out);

/**
 * Agree on all buckets and make their slots ready. Collective; may be repeated while idle.
 *
 * All ranks together decide here which buckets' codecs run, by the time of steps with and without
 * them (docs/which-codec.md). For that they make a few trial steps for each codec of a group that
 * the session has not measured yet. WRING_BYPASS=never lets all codecs run.
 * Errors: WRING_ERR_MISMATCH (the log line names both ranks and what differs), WRING_ERR_BUSY,
 * WRING_ERR_PEER, WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_session_commit(struct wring_session *session);

/**
 * Hand the filled bucket over. Returns at once; the data belongs to wring until wait or test says
 * that it is done. Ranks may post their buckets in any order. A small raw bucket over shm completes
 * only inside wait or test; until then another post returns WRING_ERR_BUSY. With WRING_PLAN=auto
 * the first post of an iteration now and then waits for all ranks, to agree on a plan
 * (docs/planning.md).
 * Errors: WRING_ERR_INVALID (not committed), WRING_ERR_BUSY (posted already), WRING_ERR_PEER.
 */
enum wring_status wring_bucket_post(struct wring_bucket *bucket);

/**
 * Post a bucket whose data the application's work in a device's stream still fills. The step begins
 * once all earlier work in the stream is over. Never blocks, and calls nothing on the host.
 * @param stream  borrowed for the call; its struct_bytes is set
 * Errors: as wring_bucket_post(). WRING_ERR_UNSUPPORTED: the bucket's executor works on no device,
 * like all executors of this version; nothing is posted, and a log line says so.
 */
enum wring_status wring_bucket_post_on(struct wring_bucket *bucket,
                                       const struct wring_stream *stream);

/**
 * Have a device's stream wait for a bucket. Later work in the stream begins once the posted step is
 * over. Never blocks.
 * @param stream  as for wring_bucket_post_on()
 * Errors: as wring_bucket_wait(), never WRING_ERR_TIMEOUT; WRING_ERR_UNSUPPORTED as
 * wring_bucket_post_on().
 */
enum wring_status wring_bucket_wait_on(struct wring_bucket *bucket,
                                       const struct wring_stream *stream);

/**
 * Ask whether a bucket is done: WRING_OK, WRING_ERR_AGAIN, or why it failed. Makes a little
 * progress.
 * @param result  out, if the step has ended; its struct_bytes is set before. May be NULL
 */
enum wring_status wring_bucket_test(struct wring_bucket *bucket, struct wring_result *result);

/** Wait until a bucket is done. Errors: WRING_ERR_TIMEOUT (still under way), WRING_ERR_PEER, … */
enum wring_status wring_bucket_wait(struct wring_bucket *bucket, uint64_t timeout_ns,
                                    struct wring_result *result);

/** How many steps a bucket has made, counted on after a loaded state and after
 *  wring_session_shrink(). It is not under way. */
uint64_t wring_bucket_steps(const struct wring_bucket *bucket);

/** A posted bucket or a request; an entry with neither is passed over. */
struct wring_waitable {
    struct wring_bucket *bucket;
    struct wring_request *request;
};

/**
 * Wait until one of several posted buckets and requests of one session is done, and say which. A
 * failed one counts as done. The call frees the request that it reports. Clear the entry before the
 * next call; the others go on. If several are done, calls hand them out in turn, so that none waits
 * for ever.
 *
 * @param entries  [n]
 * @param index    out: of the entry that is done; n if all entries are empty
 * @param result   out, of that entry; its struct_bytes is set before. May be NULL
 * @return how that entry ended. WRING_ERR_TIMEOUT: none did; WRING_ERR_INVALID: one of them is
 * not committed, belongs to another session, or has both a bucket and a request. Also
 * WRING_ERR_INVALID: a plan merges each of them with a bucket that is not posted yet
 */
enum wring_status wring_wait_any(const struct wring_waitable *entries, size_t n,
                                 uint64_t timeout_ns, size_t *index, struct wring_result *result);

/**
 * Give up a bucket's step. If this rank knows of one under way, it aborts the bucket's group as
 * wring_group_abort() does, because the other members would wait for it. The step ends with
 * WRING_ERR_CANCELLED. If any member has aborted the group before, the call tells whether the
 * bucket's data is the caller's.
 *
 * @return WRING_OK: the data is the caller's, and no byte of it changes any more. Over tcp the call
 * waits for no other member. WRING_ERR_BUSY: a peer has not said within 50 ms that it writes
 * nothing more into it. Then keep the data until the session is closed, or until the same call
 * succeeds; wring_buffer_free() keeps memory of wring_buffer_alloc() until the session is closed.
 * Also WRING_ERR_CLOSED
 *
 * Threads: one call at a time for a bucket. Another thread may test or wait meanwhile, which then
 * returns. Also inside a callback. Not beside setup calls.
 */
enum wring_status wring_bucket_cancel(struct wring_bucket *bucket);

/**
 * Take a bucket back before the next commit, which removes it. Its data may be freed after that
 * commit. Every rank of its group drops it, or the commit fails.
 * Errors: WRING_ERR_BUSY (under way).
 */
enum wring_status wring_bucket_drop(struct wring_bucket *bucket);

/**
 * Make a group of members of another one. Only the members of the new group call this. They pass
 * the same ranks in the same order, and the same tag. The order numbers the members: ranks[0]
 * becomes member 0. A rank may be in any number of groups, with operations under way in all of
 * them. Collectives of other groups go on meanwhile.
 *
 * The tag tells apart groups of the same ranks that are made at the same time: several threads may
 * make groups at once if each has a tag of its own. The same ranks and tag may be used again later;
 * that makes another group.
 *
 * A group that nobody uses takes little memory. Its first operation allocates the memory that it
 * receives into.
 *
 * @param parent      the group that has the members; the new group stays if it is destroyed later
 * @param ranks       [n] members' numbers in the parent, in any order, each once; the caller's own
 *                    is among them
 * @param timeout_ns  how long to wait for the others; WRING_FOREVER: until they come or one is lost
 *
 * Threads: safe. Errors: WRING_ERR_INVALID (ranks); WRING_ERR_TIMEOUT (the log names a rank that
 * did not call; the parent stays usable, and all may try again); WRING_ERR_MISMATCH (members differ
 * in a setting; the log names both); WRING_ERR_BUSY (another thread makes one of the same ranks and
 * tag); WRING_ERR_NO_MEMORY; WRING_ERR_PEER.
 */
enum wring_status wring_group_create(struct wring_group *parent, const uint32_t *ranks, uint32_t n,
                                     uint64_t tag, uint64_t timeout_ns, struct wring_group **out);

/**
 * Give a group back; the other members need not. If no request or bucket uses the group, the
 * library frees it at once. If one does, its collectives go on, and the library frees the group
 * after the last of them is gone. Before a member destroys the group, it makes all the calls that
 * the others make; otherwise they wait for it. The library drops pieces that come later, and the
 * session goes on. NULL is fine.
 */
void wring_group_destroy(struct wring_group *group);

#define WRING_WHERE_TEXT 216 /* of wring_group_where(), its NUL included */

/**
 * Ask where the members of a group are, for instance when a call takes too long. One rank, rank 0
 * as a rule, asks all ranks and waits up to 0.4 s for answers. With WRING_PROGRESS=caller a rank
 * answers only while it is in a call. The rank that asks logs a table: the call or bucket step that
 * each of up to 16 ranks has posted last in the group, and who is behind. It does so every 10 s at
 * most for a group. Members may ask at once, and the group may have been aborted.
 *
 * @param timeout_ns  1 s is enough
 * @param text        out: one line that says who is behind. [bytes]; WRING_WHERE_TEXT is enough
 *
 * Threads: safe, not inside a callback. Errors: WRING_ERR_TIMEOUT (no answer: the rank that asks
 * the others is stopped or does not call), those of the session's failure, after which ranks have
 * logged a table anyway, WRING_ERR_INVALID, WRING_ERR_CLOSED.
 */
enum wring_status wring_group_where(struct wring_group *group, uint64_t timeout_ns, char *text,
                                    size_t bytes);

/**
 * End all collective calls and bucket steps of a group, on all of its members. Pending calls and
 * steps end with WRING_ERR_CANCELLED, and so do all later calls and posts. Sends and receives go
 * on. After that the program can only drop the group's buckets and destroy the group. The next
 * wring_session_commit() waits until no peer writes into these buckets, and fails if one of them
 * was not dropped. The session and its other groups go on.
 *
 * @return WRING_OK: no rank reads or writes this rank's memory of the group's calls and buckets any
 * more. Over tcp the call waits for no other member. WRING_ERR_BUSY: a peer has not taken within
 * 50 ms all that is on its way to it, or, if the group has buckets, has not said within that time
 * that it writes nothing more. Then keep the memory of its buckets, and of the calls that were
 * under way, until the session is closed, or until the same call succeeds; wring_buffer_free()
 * keeps it, too. Each other member learns by the same call whether its own memory is free. Also
 * WRING_ERR_CLOSED
 *
 * Threads: safe, also inside a callback and beside posts, tests and waits of other threads, which
 * give way. If the group has buckets, not beside setup calls.
 */
enum wring_status wring_group_abort(struct wring_group *group);

/** The group of all ranks; lives as long as the session. */
struct wring_group *wring_session_world(struct wring_session *session);

/** Options of an immediate call; NULL stands for the defaults. Start from WRING_CALL_INIT. The call
 * copies what it needs. */
struct wring_call {
    size_t struct_bytes;
    const char *codec; /* spec; NULL: "none" */
    double factor;     /* WRING_PREMUL_SUM: of this rank's contribution; otherwise 0 */
    int32_t priority;  /* smaller leaves first, among groups; calls of one group keep their order */
    wring_done_fn done; /* called at its end; NULL: no callback */
    void *done_arg;
    enum wring_dtype dtype; /* what a broadcast with a codec has: WRING_F32, which is 0, F16 or
                               BF16. Other calls name theirs, and leave it 0 */
};
#define WRING_CALL_INIT WRING_SIZED(struct wring_call)

/*
 * Immediate calls. All members of a group call the same ones, with the same counts, types,
 * operations and codecs, in the same order. Several may be under way: those of one group run one
 * after the other, those of different groups side by side. Buffers may be any memory (foreign
 * memory: see wring_buffer_register()), aligned to their elements, and belong to wring until the
 * request is done. A call with request NULL waits for its end.
 *
 * If a call has in and out, they are the same memory in one way only, which each call states; else
 * they do not overlap. wring never writes to an in that is not also the call's out.
 *
 * A codec takes f32, f16 and bf16, and of the reductions sums (premul_sum among them) and averages.
 * It keeps no residual (no +ef). "in>out" has a meaning for wring_allreduce() and wring_reduce()
 * alone. After an allreduce, allgather or broadcast all members have the same bits. A group of one
 * copies in to out, times the factor if there is one.
 *
 * WRING_PREMUL_SUM multiplies in the thread that calls. It writes the products to out if out has as
 * many elements as in, else to memory that it allocates for the time of the call.
 *
 * A call chooses its scheme by size and codec, and never a hierarchical one: WRING_SCHEME is for
 * buckets. The first allreduce in which it would apply logs that, once in a session. To sum within
 * nodes first, register a bucket, or make three calls in groups of your own. These are
 * wring_reduce_scatter() within a node, wring_allreduce() among the members in the same place of
 * all nodes, and wring_allgather() within the node.
 *
 * If a member makes another call than the others in the same place, the session ends. The requests
 * of all members end with WRING_ERR_MISMATCH, also those of earlier calls that were not done yet,
 * and wring_session_error() says who calls what. Nobody waits for ever. But if a member passes no
 * elements and the others some, that member may hear of it only in a later call.
 *
 * Errors: WRING_ERR_INVALID (memory, type, an operation that is none of the type's, spec, factor),
 * WRING_ERR_UNSUPPORTED (a codec for that type or operation, or one that keeps a residual),
 * WRING_ERR_MISMATCH (see above; or members differ in a setting: then nothing has begun and the
 * session goes on), WRING_ERR_NO_MEMORY, WRING_ERR_PEER.
 */

/**
 * out becomes the reduction of all members' in, with the same bits on each.
 * @param in   [elems]
 * @param out  [elems]; may be `in`, else it does not overlap
 */
enum wring_status wring_allreduce(struct wring_group *group, const void *in, void *out,
                                  uint64_t elems, enum wring_dtype dtype, enum wring_op op,
                                  const struct wring_call *how, struct wring_request **request);

/**
 * The root, a member's index in the group, ends with the reduction of all members' in. It has the
 * bits that wring_allreduce() would give. The others end when their contributions have left them.
 * @param in   [elems]
 * @param out  [elems] at the root, where it may be `in`, else it does not overlap; the other
 *             members' out is ignored
 */
enum wring_status wring_reduce(struct wring_group *group, const void *in, void *out, uint64_t elems,
                               enum wring_dtype dtype, enum wring_op op, uint32_t root,
                               const struct wring_call *how, struct wring_request **request);

/**
 * Member m ends with the reduction of everyone's m-th run of elems. Neither a member's contribution
 * to its own run nor the result is encoded.
 * @param in   [members * elems]
 * @param out  [elems]; may be the member's own run in `in`, else it does not overlap
 */
enum wring_status wring_reduce_scatter(struct wring_group *group, const void *in, void *out,
                                       uint64_t elems, enum wring_dtype dtype, enum wring_op op,
                                       const struct wring_call *how,
                                       struct wring_request **request);

/**
 * As wring_reduce_scatter(), with runs of any lengths. Member m ends with the reduction of
 * everyone's m-th run, whose elems[m] elements follow those of run m - 1. All members name the same
 * lengths, which may be 0. With a codec elements count from the beginning of each run.
 * @param in     [sum of elems]
 * @param out    [elems[m]]; may be the member's own run in `in`, else it does not overlap
 * @param elems  [members]; must stay until the request is done
 */
enum wring_status wring_reduce_scatterv(struct wring_group *group, const void *in, void *out,
                                        const uint64_t *elems, enum wring_dtype dtype,
                                        enum wring_op op, const struct wring_call *how,
                                        struct wring_request **request);

/**
 * Everyone ends with all contributions, in rank order, with the same bits on each. Each
 * contribution is encoded once; with a codec a member decodes its own as well.
 * @param in   [elems]; may be the member's own place in out, else it does not overlap
 * @param out  [members * elems]
 */
enum wring_status wring_allgather(struct wring_group *group, const void *in, void *out,
                                  uint64_t elems, enum wring_dtype dtype,
                                  const struct wring_call *how, struct wring_request **request);

/**
 * As wring_allgather(), with elems[m] elements of member m. All members name the same lengths,
 * which may be 0. With a codec elements count from the beginning of each contribution.
 * @param in     [elems[m]]; may be the member's own place in out, else it does not overlap
 * @param out    [sum of elems]
 * @param elems  [members]; must stay until the request is done
 */
enum wring_status wring_allgatherv(struct wring_group *group, const void *in, void *out,
                                   const uint64_t *elems, enum wring_dtype dtype,
                                   const struct wring_call *how, struct wring_request **request);

/**
 * The root, a member's index in the group, ends with all contributions, in rank order. The root's
 * own contribution is not encoded.
 * @param in   [elems]; at the root it may be the root's own place in out, else it does not overlap
 * @param out  [members * elems] at the root; the other members' out is ignored
 */
enum wring_status wring_gather(struct wring_group *group, const void *in, void *out, uint64_t elems,
                               enum wring_dtype dtype, uint32_t root, const struct wring_call *how,
                               struct wring_request **request);

/**
 * Run m of the root's in goes to member m. The root is a member's index in the group. Its own run
 * is not encoded.
 * @param in   [members * elems] at the root; the other members' in is ignored
 * @param out  [elems]; at the root it may be the root's own run in `in`, else it does not overlap
 */
enum wring_status wring_scatter(struct wring_group *group, const void *in, void *out,
                                uint64_t elems, enum wring_dtype dtype, uint32_t root,
                                const struct wring_call *how, struct wring_request **request);

/**
 * Run m of a member's in goes to member m, where it becomes the run of that member in out. A
 * member's run for itself is not encoded.
 * @param in, out  [members * elems] each, not overlapping
 */
enum wring_status wring_alltoall(struct wring_group *group, const void *in, void *out,
                                 uint64_t elems, enum wring_dtype dtype,
                                 const struct wring_call *how, struct wring_request **request);

/**
 * As wring_alltoall(), with runs of any lengths. The in_elems[m] elements of a member's run m,
 * which follow those of run m - 1, go to member m. There they become the run of that member in out.
 * So a member names for another in in_elems the length that the other names for it in out_elems; it
 * may be 0. Each two members exchange a message at least. A codec is refused:
 * WRING_ERR_UNSUPPORTED.
 *
 * Only the two of them know how much they exchange. If they name different lengths, the session
 * ends as if members made different calls, and wring_session_error() names the two.
 * @param in         [sum of in_elems], not overlapping out
 * @param in_elems   [members]; must stay until the request is done, as must out_elems
 * @param out        [sum of out_elems]
 * @param out_elems  [members]; for the member itself as in in_elems
 */
enum wring_status wring_alltoallv(struct wring_group *group, const void *in,
                                  const uint64_t *in_elems, void *out, const uint64_t *out_elems,
                                  enum wring_dtype dtype, const struct wring_call *how,
                                  struct wring_request **request);

/**
 * Everyone's buf becomes that of the root, a member's index in the group. With a codec buf holds
 * elements of how->dtype: the root encodes it once, and every member, the root too, ends with the
 * same decoded bits. A group of one leaves buf as it is.
 * @param buf    [bytes]
 * @param bytes  with a codec whole elements
 */
enum wring_status wring_broadcast(struct wring_group *group, void *buf, uint64_t bytes,
                                  uint32_t root, const struct wring_call *how,
                                  struct wring_request **request);

/** Done when all members have called it. A codec is refused: WRING_ERR_INVALID. */
enum wring_status wring_barrier(struct wring_group *group, const struct wring_call *how,
                                struct wring_request **request);

/*
 * Messages between two members of a group. A receive names a member and a tag, or any of either;
 * a member's name is its index in the group.
 *
 * A message goes to the first receive posted that fits it. If several messages of one sender fit a
 * receive, it takes the one sent first, whatever their sizes. A receive of any source serves the
 * senders in turn: with n senders, it takes a message that fits after at most n - 1 of others.
 * Messages of different groups never meet. Messages and collectives of one group may be under way
 * side by side.
 *
 * A send is done when its buffer may be used again. Messages of up to WRING_EAGER_BYTES leave at
 * once, while the receiver has room for them. Larger ones leave when a receive has taken them. A
 * receiver keeps at most WRING_UNEXPECTED_BYTES of messages that no receive waits for. Beyond that
 * it keeps the names of 4,096 messages for each sender, and then sends wait.
 *
 * Messages may lie in any memory and have any number of bytes, also 0. A member may send to itself.
 * Memory of wring_buffer_alloc() and wring_buffer_register() is faster.
 *
 * A receive of any source waits for other members: once all of them have closed their sessions it
 * ends with WRING_ERR_PEER, although a message of the member's own could still come. To receive
 * such a message, name its source.
 *
 * If a message is longer than its receive, it fills the receive's memory and the receive ends with
 * WRING_ERR_TRUNCATED. The send ends well, and the session goes on.
 *
 * The priority in `how` orders the messages that do not leave at once. A codec is refused.
 *
 * The result of a receive has the sender in `rank`, and the tag and the bytes of the message as it
 * was sent, also with WRING_ERR_TRUNCATED. With request NULL a call waits, and gives no result.
 *
 * Threads: safe; messages that several threads send to one member have no order.
 * Errors: WRING_ERR_INVALID (member, tag, memory), WRING_ERR_UNSUPPORTED (a codec),
 * WRING_ERR_NO_MEMORY, WRING_ERR_TRUNCATED, WRING_ERR_PEER (also if the other member has closed
 * its session or, before it received, destroyed the group), WRING_ERR_CLOSED.
 */
#define WRING_ANY_SOURCE UINT32_MAX
#define WRING_ANY_TAG UINT64_MAX /* no message has this tag */

/**
 * Send a message.
 * @param buf  [bytes]; left alone until the send is done
 * @param to   a member's index in the group
 */
enum wring_status wring_send(struct wring_group *group, const void *buf, uint64_t bytes,
                             uint32_t to, uint64_t tag, const struct wring_call *how,
                             struct wring_request **request);

/**
 * Receive a message.
 * @param buf    [bytes]: room for so much
 * @param from   a member's index in the group, or WRING_ANY_SOURCE
 * @param tag    or WRING_ANY_TAG
 */
enum wring_status wring_recv(struct wring_group *group, void *buf, uint64_t bytes, uint32_t from,
                             uint64_t tag, const struct wring_call *how,
                             struct wring_request **request);

/**
 * Test or wait for a request, as for buckets. WRING_OK and failures free the request, which must
 * not be used again; WRING_ERR_AGAIN and WRING_ERR_TIMEOUT leave it. wring_session_close() frees
 * requests that nobody waited for to their end.
 * @param result  out, once the request has ended; its struct_bytes is set before. May be NULL
 */
enum wring_status wring_request_test(struct wring_request *request, struct wring_result *result);
enum wring_status wring_request_wait(struct wring_request *request, uint64_t timeout_ns,
                                     struct wring_result *result);

/**
 * Give up a request. It ends with WRING_ERR_CANCELLED, unless it has ended before. The program
 * still has to test or wait for it once.
 *
 * For a collective call this aborts the group as wring_group_abort() does, because the other
 * members would wait for the call. A send or receive is given up alone. It ends at once if the
 * other side has no part in it yet: a receive that has taken no message, a send that has not left.
 * Else wring asks the other side, which has 50 ms to answer. If it answers, a message of more than
 * WRING_EAGER_BYTES has come on both sides or is cancelled on both. A send whose receiver gave up
 * then ends with WRING_ERR_CANCELLED; a receive whose message was taken back takes the next one
 * that fits. Without an answer in time, the request ends nevertheless.
 *
 * @return WRING_OK: its memory is the caller's, and no byte of it changes any more, or it had ended
 * before. WRING_ERR_BUSY: a peer may still need the memory. Then keep it until the session is
 * closed; wring_buffer_free() keeps memory of wring_buffer_alloc() until then. A request whose turn
 * had not come, a receive that has taken no message, and a request that goes by tcp are never busy.
 * WRING_ERR_NO_MEMORY: it goes on. Other errors: those of wring_group_abort()
 *
 * Threads: as test and wait, one call at a time for a request; also inside a callback. To make a
 * thread that waits for it return, call wring_group_abort().
 */
enum wring_status wring_request_cancel(struct wring_request *request);

/** What a wring_delta_broadcast() did. Start from WRING_DELTA_RESULT_INIT. */
struct wring_delta_result {
    size_t struct_bytes;
    uint64_t version; /* that all members have now: how many broadcasts the root has made */
    uint64_t bytes;   /* that the root sent each member: of the difference, or of the copy */
    uint64_t whole;   /* 1: a copy; 0: a difference */
};
#define WRING_DELTA_RESULT_INIT WRING_SIZED(struct wring_delta_result)

/**
 * Weights that one member changes again and again, and all others follow, as from a trainer to
 * inference workers. Each wring_delta_broadcast() sends the difference of the root's weights to
 * their version before, byte for byte. It is small where few elements of bf16 or f16 change, and
 * those by little; bytes of any other meaning are as right.
 *
 * Do not use it for float32 weights that an optimizer steps: nearly all of them change, and take
 * almost as many bytes as a wring_broadcast() of them.
 *
 * The root keeps a copy of the weights, as they are now: its base. Others keep none. If their
 * weights are the same already, as after loading one checkpoint, the first broadcast is a
 * difference, too.
 *
 * @param group  a group that lives as long as the object, or longer. Each member makes an object;
 *               that takes no message
 * @param data   [bytes], in memory that the processor can read and write; borrowed
 * @param bytes  the same at all members
 * @param root   a member's index in the group, the same at all members
 *
 * Errors: WRING_ERR_INVALID (root, or no data), WRING_ERR_UNSUPPORTED (a device's memory),
 * WRING_ERR_NO_MEMORY (for the copy).
 *
 * Source: wring's own. Bytes in FORMAT.md, "delta", and WIRE.md, "Broadcasts of differences"; the
 * hash is after NH of UMAC (Black and others, 1999).
 */
enum wring_status wring_delta_create(struct wring_group *group, void *data, uint64_t bytes,
                                     uint32_t root, struct wring_delta **out);

/**
 * All members' data becomes the root's. All members call it, in the same order among the group's
 * immediate calls, and it waits for its end.
 *
 * The other members hash their data first. If one of them does not hold the root's base, byte for
 * byte, all take a copy of the weights in place of a difference: a member that came anew, or that
 * changed its data, needs no call of its own. A difference that takes as much as a copy is replaced
 * by one, too. It is checked by a hash and only then applied, in place: data is as before until all
 * of it has come. A copy goes straight into data, whose bytes are undefined if the call fails.
 *
 * @param timeout_ns  how long to wait for the others; WRING_FOREVER: until they come or one is lost
 * @param result      out; may be NULL
 *
 * Errors: WRING_ERR_TIMEOUT (the call is given up, which aborts the group as wring_request_cancel()
 * does: the object is of no more use, and data stays until the session is closed),
 * WRING_ERR_MISMATCH (members name other bytes; nothing has changed), WRING_ERR_FRAME (a hash is
 * wrong at this member: its data is as before or, of a copy, undefined; the next broadcast is a
 * copy), and those of wring_broadcast().
 */
enum wring_status wring_delta_broadcast(struct wring_delta *delta, uint64_t timeout_ns,
                                        struct wring_delta_result *result);

/** Free the object, and the root's copy, before its group. No call uses it any more. NULL is fine.
 */
void wring_delta_destroy(struct wring_delta *delta);

/** Why the session failed. Start from WRING_ERROR_DETAIL_INIT. */
struct wring_error_detail {
    size_t struct_bytes;
    enum wring_status status;
    int32_t rank;   /* the rank at fault; -1: no rank */
    char text[256]; /* one line */
};
#define WRING_ERROR_DETAIL_INIT WRING_SIZED(struct wring_error_detail)

/**
 * Why the session failed: WRING_OK while it works, else its failure. In a forked child it is
 * WRING_ERR_INVALID, with a text that says so; WRING_ERR_CLOSED while another thread closes it.
 * @param detail  out, after a failure; its struct_bytes is set before. May be NULL
 *
 * Threads: safe.
 */
enum wring_status wring_session_error(struct wring_session *session,
                                      struct wring_error_detail *detail);

/** Counters since a session was opened. Start from WRING_SESSION_STATS_INIT. */
struct wring_session_stats {
    size_t struct_bytes;
    uint64_t wire_bytes_sent, wire_bytes_received; /* payload of puts */
    uint64_t puts_sent;
    uint64_t steps;           /* bucket and immediate operations finished */
    uint64_t sleeps;          /* of callers and progress thread, after WRING_SPIN without a move */
    uint64_t progress_cpu_ns; /* used by the progress thread, inline codecs included */
    uint64_t
        waiter_cpu_ns; /* used by callers while they waited, since stats were first asked for */
    uint64_t executor_cpu_ns; /* used by the executor's own threads */

    /* measured as the session opened, alike on all ranks */
    uint64_t round_trip_ns; /* the longest way between neighbours in the control tree and back; 0:
                               all are within a millisecond */
    uint64_t piece_bytes;   /* of large pieces of immediate calls whose members may be so far apart
                             */
    uint64_t sites;         /* at which ranks stand, as WRING_SITE says or was measured; 0: hosts
                               are all there is */
};
#define WRING_SESSION_STATS_INIT WRING_SIZED(struct wring_session_stats)

/**
 * Take the counters of a session since it was opened.
 * @param out  its struct_bytes is set before
 *
 * Errors: WRING_ERR_INVALID (it is not set). Threads: safe.
 */
enum wring_status wring_session_stats(struct wring_session *session,
                                      struct wring_session_stats *out);

/** How one bucket's steps ran since it was registered, and their cost on this rank. If a plan fuses
 * it with others, all of these together since the last commit. Start from WRING_BUCKET_STATS_INIT.
 */
struct wring_bucket_stats {
    size_t struct_bytes;
    const char *codec;  /* canonical spec of the codec that runs, "none" if it is bypassed; lives
                           as long as the bucket */
    const char *scheme; /* "divisible", "indivisible", "direct" (raw shards), "doubling", "halving"
                           (raw sums of many ranks, exchanged two by two), "ring", "none" (one
                           rank);
                           "hierarchical-direct", … of the collective between nodes */
    const char *algorithm; /* of its steps: "eager", "eager-board", "eager-in-place", "one-shot",
                              "two-shot", "two-shot-placed", "two-shot-direct", "doubling",
                              "halving", "halving-placed", "one-shot-bruck", "ring",
                              "ring-placed", "hierarchical" */
    const char *order;     /* of its sums: "members", as enum wring_op says, or "nodes": within each
                              node, then over the nodes; or "ring". "ring-measured": in which order
                              it passes sites was measured as the session opened */
    const char *executor;  /* of its jobs: "inline", "pool:2", ...; lives as long as the
                              bucket */
    char provider[48];     /* "shm"; "shm,tcp" if wring reaches members in different ways */
    bool in_place;         /* sums are written straight into the members' data */
    uint64_t piece_elems;  /* of a full piece */
    uint64_t steps;
    uint64_t wire_bytes_sent; /* payload of puts; data that peers read in place does not count */
    uint64_t steps_ns;        /* from begin to end, all steps added up */
    uint64_t codec_ns;        /* the part for encoding, decoding and reducing, on any thread */
    double residual_rms;      /* held back by error feedback now; NAN without */

    /* What encoding loses: |x - decode(encode(x))|^2 / |x|^2. x is the data that this rank encodes,
       the residual included. wring measures one piece in turn, every WRING_STATS_EVERY steps. 0 if
       nothing is encoded; NAN if nothing was measured */
    double error;          /* of this rank's contributions, over all pieces measured */
    double error_last;     /* of the last one alone */
    double error_back;     /* of the sums that this rank encodes again; all pieces */
    uint64_t error_pieces; /* contributions measured */

    uint32_t n_cores; /* on how many processors this bucket's codec work ran */
    char cores[44];   /* which, by the system's numbers: "0,2-3"; ",..." at the end if more */

    /* the last commit's choice, see WRING_BYPASS */
    const char *codec_asked;                  /* canonical spec of the codec as registered */
    uint64_t with_codec_ns, without_codec_ns; /* predicted time of a step; 0: none */

    uint64_t state_bytes; /* that this rank keeps for the codec between steps: the residual, the
                             codec's own arrays, and copies of both with WRING_ROLLBACK=on */

    uint64_t round_trip_ns; /* to the member that is farthest and back, where that widened the
                               window; 0: all are near, or WRING_WINDOW was set */
    uint32_t window;        /* pieces that each peer may send this rank before it needs a credit */

    uint64_t sums_cut; /* numbers of sums that this rank made and cut off, as thc:sums=saturate does
                          where they are too large: what they lack is in no residual */
};
#define WRING_BUCKET_STATS_INIT WRING_SIZED(struct wring_bucket_stats)

/**
 * Take a bucket's statistics. This reads the whole residual, so do not call it in every step.
 * @param out  its struct_bytes is set before
 *
 * Errors: WRING_ERR_INVALID (not committed, or a struct_bytes that is no size of it),
 * WRING_ERR_BUSY (under way).
 */
enum wring_status wring_bucket_stats(struct wring_bucket *bucket, struct wring_bucket_stats *out);

/**
 * Save a session's state for a checkpoint: all that it needs besides the model. These are this
 * rank's residuals of buckets with error feedback, its arrays of codecs (struct wring_codec_state),
 * and the buckets' steps. Every rank saves its own, between the same two steps.
 *
 * After a failure the residuals are those after the last step that all buckets completed, if
 * WRING_ROLLBACK=on kept them. Ranks may then differ by one step; the state's steps tell.
 *
 * @param state  out, [*bytes]; NULL: only ask how many bytes are needed
 * @param bytes  in: room; out: written, or needed
 * Errors: WRING_ERR_BUSY (a bucket is under way), WRING_ERR_INVALID (not committed, or too little
 * room), WRING_ERR_PEER (a failed step has changed a residual and none was kept).
 */
enum wring_status wring_session_save_state(struct wring_session *session, void *state,
                                           size_t *bytes);

/**
 * Take over a saved state, after the commit and before the next step. Buckets are found by name.
 * States of the layout before, which hold residuals alone, leave arrays of codecs as they are.
 *
 * From another rank's state the call takes the arrays that all ranks share. For the elements that
 * this rank owns now, it also takes residuals of sums and owners' arrays of codecs. It takes
 * nothing else. So a job that has another number of ranks than before loads every old rank's state
 * on every rank. The residuals that removed ranks kept of their own contributions are lost.
 *
 * Errors: WRING_ERR_FRAME (no state, or damaged), WRING_ERR_MISMATCH (a bucket of another size or
 * codec; the log line names both), WRING_ERR_BUSY, WRING_ERR_INVALID. Nothing is taken then.
 */
enum wring_status wring_session_load_state(struct wring_session *session, const void *state,
                                           size_t bytes);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
