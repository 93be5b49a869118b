/* SPDX-License-Identifier: Apache-2.0 */
/**
 * wring: gradient buckets, exchanged between the ranks of a training job and squeezed on the way.
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
 * Threads: a session's setup calls (open, register, commit, close, groups) come from one thread at
 * a time. Post, test and wait may come from any thread, one at a time per bucket or request.
 * Several sessions, also several ranks of one job, may live in one process.
 *
 * Failure: a rank that dies, hangs or is cut off ends the session on every rank. The pending and
 * all later calls return WRING_ERR_PEER at once, and wring_session_error() says who and why.
 */
#ifndef WRING_WRING_H
#define WRING_WRING_H

#include <stddef.h>
#include <stdint.h>

#include <wring/log.h>
#include <wring/status.h>
#include <wring/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WRING_FOREVER UINT64_MAX
#define WRING_NAME_MAX 64 /* bytes of a bucket's name, its NUL included */

struct wring_session;
struct wring_bucket;
struct wring_group;
struct wring_request;
struct wring_bootstrap; /* see wring_session_params.bootstrap */

/**
 * Where this rank stands in the job. Zero defaults everywhere: what is left out comes from the
 * WRING_ variables and from the launcher (wring run, Open MPI, MPICH, Slurm, torchrun).
 */
struct wring_session_params {
    const char *provider; /* WRING_PROVIDER: "auto", "tcp", "shm", … */
    const char *root;     /* WRING_ROOT: "host:port" of rank 0's rendezvous */
    const char *key;      /* WRING_KEY: the job's secret */
    uint32_t rank, size;  /* size 0: from the environment */
    int root_fd;          /* rank 0, > 0: a listening TCP socket to use; the session owns it */
    uint64_t seed;        /* of the job's random numbers; equal on all ranks */
    struct wring_bootstrap *bootstrap; /* another way to meet; see bootstrap.h. Borrowed */
    wring_log_fn log;                  /* NULL: standard error */
    void *log_arg;
    const char *const *settings; /* further "WRING_X=value" texts, NULL-terminated, over the
                                    environment's; NULL: none */
};
#define WRING_SESSION_PARAMS_INIT \
    {                             \
        0                         \
    }

/**
 * Join the job: meet all ranks, prove the key, connect. Collective.
 *
 * Blocks until every rank is there or WRING_JOIN_TIMEOUT has passed.
 * Errors: WRING_ERR_INVALID (a setting), WRING_ERR_PEER (a rank never joined: the log line names
 * it), WRING_ERR_AUTH, WRING_ERR_ADDRESS, WRING_ERR_MISMATCH (versions), WRING_ERR_SYSTEM.
 */
enum wring_status wring_session_open(const struct wring_session_params *params,
                                     struct wring_session **out);

/** Leave. Never blocks for long: peers are told, pending work is dropped. NULL is fine. */
void wring_session_close(struct wring_session *session);

uint32_t wring_session_rank(const struct wring_session *session);
uint32_t wring_session_size(const struct wring_session *session);

/**
 * Memory that every provider in use can move without a copy. Zeroed; freed with the session or by
 * wring_buffer_free() while no bucket uses it.
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_buffer_alloc(struct wring_session *session, size_t bytes, void **out);

/**
 * Make foreign memory known: providers that can then move it without a copy, as buffers from
 * wring_buffer_alloc(). Others, and all foreign memory that is not registered, are staged: copied
 * into slots of the library's own and sent from there.
 *
 * The memory stays the caller's, who keeps it mapped until wring_buffer_free() or the end of the
 * session, and frees it only then.
 * Errors: WRING_ERR_INVALID (NULL or no bytes), WRING_ERR_NO_MEMORY (a memory lock limit, too).
 */
enum wring_status wring_buffer_register(struct wring_session *session, void *data, size_t bytes);

/** Free what alloc gave, or forget what was registered at that address. NULL is fine. */
void wring_buffer_free(struct wring_session *session, void *data);

struct wring_bucket_params {
    const char *name; /* unique in the session; ranks agree on it */
    void *data;       /* [elems]; any memory that lives until the session is closed */
    uint64_t elems;   /* 0 is fine */
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec; /* spec, NULL = "none"; others take sums and averages of f32 only */
    enum wring_scheme scheme;
    int32_t priority;          /* smaller leaves first */
    struct wring_group *group; /* NULL: all ranks */
};

/**
 * Announce a bucket. Local; takes effect at the next commit.
 * Errors: WRING_ERR_INVALID (name, codec spec), WRING_ERR_UNSUPPORTED (a codec for that type or
 * operation), WRING_ERR_BUSY (a bucket is under way).
 */
enum wring_status wring_bucket_register(struct wring_session *session,
                                        const struct wring_bucket_params *params,
                                        struct wring_bucket **out);

/**
 * Agree on all buckets and make their slots ready. Collective; may be repeated while idle.
 * Errors: WRING_ERR_MISMATCH (the log line names both ranks and what differs), WRING_ERR_BUSY,
 * WRING_ERR_PEER, WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_session_commit(struct wring_session *session);

/**
 * Hand the filled bucket over. Returns at once; the data belongs to wring until wait or test says
 * that it is done. Ranks may post their buckets in any order.
 * Errors: WRING_ERR_INVALID (not committed), WRING_ERR_BUSY (posted already), WRING_ERR_PEER.
 */
enum wring_status wring_bucket_post(struct wring_bucket *bucket);

/** Done? WRING_OK, WRING_ERR_AGAIN, or why it failed. Makes a little progress. */
enum wring_status wring_bucket_test(struct wring_bucket *bucket);

/** Wait until done. Errors: WRING_ERR_TIMEOUT (still under way), WRING_ERR_PEER, … */
enum wring_status wring_bucket_wait(struct wring_bucket *bucket, uint64_t timeout_ns);

/**
 * Make a group. Collective over the whole session: every rank calls, with the group it will be in.
 * A rank may be in any number of groups, with operations under way in all of them.
 * @param ranks  [n] ascending session ranks, the caller's among them; n = 0: in no group
 * @param out    NULL when n is 0
 */
enum wring_status wring_group_create(struct wring_session *session, const uint32_t *ranks,
                                     uint32_t n, struct wring_group **out);
void wring_group_destroy(struct wring_group *group);

/** The group of all ranks; lives as long as the session. */
struct wring_group *wring_session_world(struct wring_session *session);

/*
 * Immediate calls. All members of a group call the same ones, with the same counts, types,
 * operations and codecs, in the same order. Several may be under way: those of one group run one
 * after the other, those of different groups side by side. Buffers may be any memory (foreign
 * memory: see wring_buffer_register()), aligned to their elements, and belong to wring until the
 * request is done. NULL request: the call waits.
 *
 * codec is a spec without +ef, NULL = "none"; others take f32 only, and sums and averages.
 * Errors: WRING_ERR_INVALID (memory, type, spec), WRING_ERR_UNSUPPORTED (a codec for that type or
 * operation, or one that keeps a residual), WRING_ERR_NO_MEMORY, WRING_ERR_PEER.
 */

/** buf, [elems], becomes the reduction of all members' buf, with the same bits on each. */
enum wring_status wring_allreduce(struct wring_group *group, void *buf, uint64_t elems,
                                  enum wring_dtype dtype, enum wring_op op, const char *codec,
                                  struct wring_request **request);

/**
 * Member m ends with the reduction of everyone's m-th run of elems. What a member contributes to
 * its own run, and the result, are not encoded.
 * @param in   [members * elems]
 * @param out  [elems]; may be the member's own run in `in`, else it does not overlap
 */
enum wring_status wring_reduce_scatter(struct wring_group *group, const void *in, void *out,
                                       uint64_t elems, enum wring_dtype dtype, enum wring_op op,
                                       const char *codec, struct wring_request **request);

/**
 * Everyone ends with all contributions, in rank order, with the same bits on each: with a codec a
 * member, too, takes what its own contribution decodes to. Each is encoded once.
 * @param in   [elems]; may be the member's own place in out, else it does not overlap
 * @param out  [members * elems]
 */
enum wring_status wring_allgather(struct wring_group *group, const void *in, void *out,
                                  uint64_t elems, enum wring_dtype dtype, const char *codec,
                                  struct wring_request **request);

/**
 * Run m of a member's in goes to member m, where it becomes the run of that member in out. What
 * stays with a member is not encoded.
 * @param in, out  [members * elems] each, not overlapping
 */
enum wring_status wring_alltoall(struct wring_group *group, const void *in, void *out,
                                 uint64_t elems, enum wring_dtype dtype, const char *codec,
                                 struct wring_request **request);

/** Everyone's buf becomes that of the root, a member's index in the group. */
enum wring_status wring_broadcast(struct wring_group *group, void *buf, uint64_t bytes,
                                  uint32_t root, struct wring_request **request);

/** Returns when all members have called it. */
enum wring_status wring_barrier(struct wring_group *group);

/** As for buckets. On WRING_OK and on failure the request is freed and must not be used again. */
enum wring_status wring_request_test(struct wring_request *request);
enum wring_status wring_request_wait(struct wring_request *request, uint64_t timeout_ns);

/** Why the session failed. */
struct wring_error_detail {
    enum wring_status status;
    int32_t rank;   /* whose fault it was; -1 where no rank's */
    char text[256]; /* one line */
};

/** WRING_OK while the session works; else its failure, with the detail. Threads: safe. */
enum wring_status wring_session_error(struct wring_session *session,
                                      struct wring_error_detail *detail);

/** Counters since open. */
struct wring_session_stats {
    uint64_t wire_bytes_sent, wire_bytes_received; /* payload of puts */
    uint64_t puts_sent;
    uint64_t steps;           /* bucket and immediate operations finished */
    uint64_t progress_cpu_ns; /* used by the progress thread, inline codecs included */
    uint64_t waiter_cpu_ns;   /* used by callers while they made progress in a wait */
    uint64_t executor_cpu_ns; /* used by the executor's own threads */
};
void wring_session_stats(struct wring_session *session, struct wring_session_stats *out);

#ifdef __cplusplus
}
#endif
#endif
