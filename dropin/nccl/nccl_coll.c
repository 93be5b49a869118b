/* SPDX-License-Identifier: Apache-2.0 */
/**
 * CollNet: a session of all ranks of a communicator, one a node, and its immediate calls.
 *
 * NCCL takes a NULL comm for a network without collectives, so connect() answers with a comm at
 * once. Its session opens in the background; calls answer "ask again" until it has.
 */
#include "dropin/nccl/nccl_own.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "transport/bootstrap/rendezvous.h"

#define REQUESTS 64                   /* under way */
#define PART_NS (30 * WRING_NS_PER_S) /* for others that live to come to an end, too */

/** A session of CollNet, which a thread of its own opens. */
struct opening {
    /* set before */
    const struct wring_nccl_device *device; /* by which it goes */
    uint32_t rank, size;
    char root[WRING_NCCL_ROOT]; /* of rank 0 */
    int root_fd;     /* rank 0: its listening socket, borrowed until it is over; else -1 */
    uint64_t listen; /* of rank 0's process: names the job */
    char key[WRING_CONFIG_TEXT];
    char what[WRING_NCCL_NAME + 16]; /* for log lines: "CollNet of 4 ranks at 10.0.0.2:4711" */

    /* of it */
    pthread_t thread;
    bool joinable;
    atomic_bool cancelled;
    atomic_int state;
    enum wring_status status; /* WRING_NCCL_FAILED */
    char why[256];            /* the last error that wring logged */
    pthread_mutex_t why_mutex;
    struct wring_log log;
    struct wring_bootstrap *bootstrap;
    struct wring_session *session;
    struct wring_group *world;
};

struct coll_request {
    struct coll_request *next; /* free */
    struct coll *coll;
    struct wring_request *under_way;
    uint64_t *runs; /* of calls with a window: the lengths */
    uint64_t bytes; /* of the result here */
    int failed;     /* NCCL's code */
};

struct coll {
    struct coll *next;
    struct opening opening;
    struct wring_nccl_listen *listen; /* rank 0, while its socket is used */
    int failed;                       /* NCCL's code */
    unsigned under_way;
    uint64_t coded[WRING_CALL_CODECS]; /* sums that travelled encoded, by operation */
    struct coll_request *free;
    struct coll_request requests[REQUESTS];
};

static struct coll *colls; /* under the mutex */

/* ---- types and operations ---- */

/** @return -1: wring has none such */
static int to_wring_dtype(int dtype)
{
    static const enum wring_dtype dtypes[] = {
        [WRING_NCCL_INT8] = WRING_I8,     [WRING_NCCL_UINT8] = WRING_U8,
        [WRING_NCCL_INT32] = WRING_I32,   [WRING_NCCL_UINT32] = WRING_U32,
        [WRING_NCCL_INT64] = WRING_I64,   [WRING_NCCL_UINT64] = WRING_U64,
        [WRING_NCCL_FLOAT16] = WRING_F16, [WRING_NCCL_FLOAT32] = WRING_F32,
        [WRING_NCCL_FLOAT64] = WRING_F64, [WRING_NCCL_BFLOAT16] = WRING_BF16,
    };
    return dtype >= 0 && dtype <= WRING_NCCL_BFLOAT16 ? (int)dtypes[dtype] : -1;
}

static int to_wring_op(int op)
{
    static const enum wring_op ops[] = {
        [WRING_NCCL_SUM] = WRING_SUM,
        [WRING_NCCL_PROD] = WRING_PROD,
        [WRING_NCCL_MAX] = WRING_MAX,
        [WRING_NCCL_MIN] = WRING_MIN,
    };
    return op >= 0 && op <= WRING_NCCL_MIN ? (int)ops[op] : -1;
}

static bool is_reduction_served(int dtype, int op)
{
    int d = to_wring_dtype(dtype), o = to_wring_op(op);
    return d >= 0 && o >= 0 && wring_op_takes((enum wring_op)o, (enum wring_dtype)d);
}

int wring_nccl_coll_support(int dtype, int op, int *supported)
{
    *supported = is_reduction_served(dtype, op);
    return WRING_NCCL_SUCCESS;
}

/* ---- codecs of sums ---- */

enum operation {
    ALLREDUCE,
    REDUCE_SCATTER,
};

static const struct wring_call_codecs_dropin sums = {
    "libnccl-net-wring.so",
    "WRING_NCCL_CODEC",
    "WRING_NCCL_CODEC_MIN",
    {[ALLREDUCE] = {"allreduce", true}, [REDUCE_SCATTER] = {"reduce_scatter", false}},
};

enum wring_status wring_nccl_coll_read_codecs(void)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    return wring_call_codecs_read(&own->codecs, &sums, &own->config, own->config.nccl_codec,
                                  own->config.nccl_codec_min, &own->log);
}

/** Not before there is a CollNet: rules may be those of another user of wring in this process. */
static int check_codecs(int rank)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    enum wring_status status =
        wring_call_codecs_check(&own->codecs, &sums, own->config.cpu, &own->log);

    if (status == WRING_OK && rank == 0 && !own->told_of_rules) {
        own->told_of_rules = true;
        wring_call_codecs_warn(&own->codecs, &sums, own->config.codec_rules, &own->log);
    }
    return wring_nccl_code_of(status);
}

void wring_nccl_coll_show_codecs(char *text, size_t bytes)
{
    const struct wring_call_codec *codecs = wring_nccl_own.codecs.of;
    const char *in = codecs[ALLREDUCE].spec, *part = codecs[REDUCE_SCATTER].spec;

    if (in[0] == '\0' && part[0] == '\0')
        snprintf(text, bytes, "exact");
    else
        snprintf(text, bytes, "by codec: allreduce %s, reduce_scatter %s",
                 in[0] != '\0' ? in : "none", part[0] != '\0' ? part : "none");
}

/** All ranks decide alike, since all have the same codecs and pass the same arguments. */
static const char *choose_codec(struct coll *coll, enum operation operation, enum wring_dtype dtype,
                                enum wring_op op, uint64_t elems)
{
    const char *spec = wring_call_codecs_find(&wring_nccl_own.codecs, operation, dtype, op, elems);
    coll->coded[operation] += spec != NULL;
    return spec;
}

/* ---- its session: a thread opens it, since NCCL's must not wait ---- */

/** What wring says of one session among many: we say what becomes of it, and quote the reason. */
static void log_and_keep_error(void *arg, enum wring_log_level level, const char *module,
                               const char *text)
{
    struct opening *opening = arg;

    if (level == WRING_LOG_ERROR) {
        pthread_mutex_lock(&opening->why_mutex);
        snprintf(opening->why, sizeof(opening->why), "%s", text);
        pthread_mutex_unlock(&opening->why_mutex);
    }
    wring_nccl_say(level == WRING_LOG_DEBUG ? WRING_NCCL_LOG_TRACE : WRING_NCCL_LOG_INFO,
                   "wring: %s: %s: %s", opening->what, module, text);
}

/** Why a session fails, in one line. @param text out, [bytes] */
static void copy_why(struct opening *opening, char *text, size_t bytes)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;

    if (atomic_load(&opening->state) == WRING_NCCL_OPEN &&
        wring_session_error(opening->session, &detail) != WRING_OK) {
        snprintf(text, bytes, "%s", detail.text);
        return;
    }
    pthread_mutex_lock(&opening->why_mutex);
    snprintf(text, bytes, "%s", opening->why);
    pthread_mutex_unlock(&opening->why_mutex);
}

static bool is_cancelled(void *arg)
{
    return atomic_load(&((struct opening *)arg)->cancelled);
}

static enum wring_status open_bootstrap(struct opening *opening, uint64_t deadline_ns)
{
    struct wring_cancel cancel = {is_cancelled, opening};
    char job[32];

    if (opening->size == 1)
        return wring_bootstrap_local_create(1, &opening->bootstrap);
    snprintf(job, sizeof(job), "nccl %" PRIu64, opening->listen);
    struct wring_rendezvous_params params = {
        .log = &opening->log,
        .rank = opening->rank,
        .size = opening->size,
        .root = opening->root,
        .job = job,
        .root_fd = opening->root_fd,
        .key = opening->key,
        .deadline_ns = deadline_ns,
        .cancel = &cancel,
    };
    return wring_rendezvous_create(&params, &opening->bootstrap);
}

static enum wring_status open_session(struct opening *opening)
{
    const struct wring_nccl_own *own = &wring_nccl_own;
    const char *settings[2 + 2 + 3 + 1] = {"WRING_PROGRESS=thread", "WRING_PLAN="};
    unsigned n = 2;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;

    for (unsigned i = 0; i < own->n_settings; i++)
        settings[n++] = own->settings[i];
    for (unsigned i = 0; i < opening->device->n_settings; i++) /* they come after, and count */
        settings[n++] = opening->device->settings[i];
    uint64_t deadline_ns = wring_deadline_in(wring_nccl_own.config.join_timeout_ns);
    enum wring_status status = open_bootstrap(opening, deadline_ns);
    if (status != WRING_OK)
        return status;
    params.bootstrap = opening->bootstrap;
    params.key = opening->key;
    params.settings = settings;
    params.log = log_and_keep_error;
    params.log_arg = opening;
    status = wring_session_open(&params, &opening->session);
    if (status != WRING_OK)
        return status;
    opening->world = wring_session_world(opening->session);
    return wring_call_codecs_agree(&own->codecs, &sums, opening->session);
}

static void *open_in_thread(void *arg)
{
    struct opening *opening = arg;

    opening->status = open_session(opening);
    atomic_store(&opening->state,
                 opening->status == WRING_OK ? WRING_NCCL_OPEN : WRING_NCCL_FAILED);
    return NULL;
}

/** Begin. @return false: no thread */
static bool start_opening_thread(struct opening *opening)
{
    opening->log = (struct wring_log){log_and_keep_error, opening, WRING_LOG_INFO};
    atomic_init(&opening->cancelled, false);
    atomic_init(&opening->state, WRING_NCCL_OPENING);
    pthread_mutex_init(&opening->why_mutex, NULL);
    int error = wring_thread_create(&opening->thread, open_in_thread, opening);
    if (error != 0) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: no thread to open %s: %s", opening->what,
                       strerror(error));
        pthread_mutex_destroy(&opening->why_mutex);
        return false;
    }
    opening->joinable = true;
    return true;
}

/** Close its session; one that is still opened is called off. Waits for its thread. */
static void finish_opening(struct opening *opening)
{
    if (!opening->joinable)
        return;
    atomic_store(&opening->cancelled, true);
    pthread_join(opening->thread, NULL);
    wring_session_close(opening->session);
    if (opening->bootstrap != NULL)
        opening->bootstrap->ops->close(opening->bootstrap);
    pthread_mutex_destroy(&opening->why_mutex);
    opening->joinable = false;
}

/* ---- connecting ---- */

/** All handles are wring's. @return NCCL's code */
static int read_handles(void *handles[], int ranks, struct wring_nccl_handle *first)
{
    struct wring_nccl_handle other;
    int code = wring_nccl_handle_read(handles[0], WRING_NCCL_COLLECTIVES, 0, first);

    for (int i = 1; i < ranks && code == WRING_NCCL_SUCCESS; i++)
        code = wring_nccl_handle_read(handles[i], WRING_NCCL_COLLECTIVES, i, &other);
    return code;
}

/** Rank 0's socket. The mutex is held. @return NCCL's code */
static int take_listen_socket(struct coll *coll, const struct wring_nccl_handle *first,
                              void *listen)
{
    struct wring_nccl_listen *found = wring_nccl_listen_find(listen);

    if (found == NULL || found->fd < 0 || found->serves || found->handle.listen != first->listen) {
        wring_nccl_say(
            WRING_NCCL_LOG_WARN,
            "wring: CollNet: rank 0 connects with a listen comm that is closed, in use or "
            "not that of its handle");
        return WRING_NCCL_INVALID_ARGUMENT;
    }
    coll->listen = found;
    coll->opening.root_fd = found->fd;
    found->serves = true;
    return WRING_NCCL_SUCCESS;
}

static void give_socket_back(struct coll *coll)
{
    if (coll->listen != NULL)
        wring_nccl_listen_served(coll->listen);
    coll->listen = NULL;
}

/** The mutex is held. @return NCCL's code */
static int start_opening(struct coll *coll, const struct wring_nccl_handle *first, void *listen)
{
    struct opening *opening = &coll->opening;

    int code = opening->rank == 0 && opening->size > 1 ? take_listen_socket(coll, first, listen)
                                                       : WRING_NCCL_SUCCESS;
    if (code != WRING_NCCL_SUCCESS)
        return code;
    if (!start_opening_thread(opening)) {
        give_socket_back(coll);
        return WRING_NCCL_SYSTEM_ERROR;
    }
    coll->next = colls;
    colls = coll;
    return WRING_NCCL_SUCCESS;
}

/** @param device  of the listen comm that this rank passed */
static struct coll *coll_new(const struct wring_nccl_handle *first, int device, int ranks, int rank)
{
    struct coll *coll = calloc(1, sizeof(*coll));
    if (coll == NULL)
        return NULL;
    struct opening *opening = &coll->opening;
    opening->device = &wring_nccl_own.devices[device];
    opening->rank = (uint32_t)rank;
    opening->size = (uint32_t)ranks;
    opening->root_fd = -1;
    opening->listen = first->listen;
    memcpy(opening->root, first->root, sizeof(opening->root));
    wring_nccl_key_of(first, opening->key);
    snprintf(opening->what, sizeof(opening->what), "CollNet of %d ranks at %s", ranks, first->root);
    for (int i = 0; i < REQUESTS; i++) {
        coll->requests[i].coll = coll;
        coll->requests[i].next = coll->free;
        coll->free = &coll->requests[i];
    }
    return coll;
}

/** The device that NCCL listens by. One that is closed already: the first. */
static int listen_device(const void *listen)
{
    pthread_mutex_lock(&wring_nccl_own.mutex);
    const struct wring_nccl_listen *found = wring_nccl_listen_find(listen);
    int device = found != NULL ? found->handle.device : 0;
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    return device;
}

int wring_nccl_coll_connect(void *handles[], int ranks, int rank, void *listen, void **comm)
{
    struct wring_nccl_handle first;

    *comm = NULL;
    if (handles == NULL || ranks < 1 || rank < 0 || rank >= ranks) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: CollNet: there is no rank %d among %d", rank,
                       ranks);
        return WRING_NCCL_INVALID_ARGUMENT;
    }
    int code = read_handles(handles, ranks, &first);
    if (code != WRING_NCCL_SUCCESS)
        return code;
    struct coll *coll = coll_new(&first, listen_device(listen), ranks, rank);
    if (coll == NULL)
        return WRING_NCCL_SYSTEM_ERROR;
    pthread_mutex_lock(&wring_nccl_own.mutex);
    code = check_codecs(rank);
    if (code == WRING_NCCL_SUCCESS)
        code = start_opening(coll, &first, listen);
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    if (code == WRING_NCCL_SUCCESS)
        *comm = coll;
    else
        free(coll);
    return code;
}

/** Others may still need what we have put on its way for a call that has ended here. */
static void part_by_barrier(struct coll *coll)
{
    struct wring_request *request;

    if (atomic_load(&coll->opening.state) == WRING_NCCL_OPEN && coll->under_way == 0 &&
        coll->failed == WRING_NCCL_SUCCESS &&
        wring_barrier(coll->opening.world, NULL, &request) == WRING_OK)
        wring_request_wait(request, PART_NS, NULL);
}

/** Whether codecs took effect, in a log line. */
static void say_counts(struct coll *coll)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;

    if (atomic_load(&coll->opening.state) != WRING_NCCL_OPEN ||
        wring_session_stats(coll->opening.session, &stats) != WRING_OK)
        return;
    wring_nccl_say(WRING_NCCL_LOG_INFO,
                   "wring: %s, rank %" PRIu32 ": sent %" PRIu64 " bytes; of its calls %" PRIu64
                   " allreduce and %" PRIu64 " reduce_scatter were encoded",
                   coll->opening.what, coll->opening.rank, stats.wire_bytes_sent,
                   coll->coded[ALLREDUCE], coll->coded[REDUCE_SCATTER]);
}

static void free_coll(struct coll *coll)
{
    finish_opening(&coll->opening);
    for (int i = 0; i < REQUESTS; i++)
        free(coll->requests[i].runs);
    free(coll);
}

int wring_nccl_coll_close(void *comm)
{
    struct coll **at = &colls, *coll;

    pthread_mutex_lock(&wring_nccl_own.mutex);
    while (*at != NULL && *at != comm)
        at = &(*at)->next;
    coll = *at;
    if (coll != NULL)
        *at = coll->next;
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    if (coll == NULL) /* the plugin was finalized before */
        return WRING_NCCL_SUCCESS;
    struct wring_nccl_listen *listen = coll->listen;
    part_by_barrier(coll);
    say_counts(coll);
    free_coll(coll);
    pthread_mutex_lock(&wring_nccl_own.mutex);
    if (listen != NULL)
        wring_nccl_listen_served(listen);
    wring_nccl_own.leave();
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    return WRING_NCCL_SUCCESS;
}

void wring_nccl_colls_finish(void)
{
    for (struct coll *at = colls; at != NULL; at = at->next)
        atomic_store(&at->opening.cancelled, true);
    while (colls != NULL) {
        struct coll *coll = colls;
        colls = coll->next;
        free_coll(coll);
    }
}

bool wring_nccl_colls_are_open(void)
{
    return colls != NULL;
}

/* ---- calls ---- */

static int fail_coll_by_status(struct coll *coll, enum wring_status status)
{
    char why[256];

    if (coll->failed == WRING_NCCL_SUCCESS) {
        coll->failed = wring_nccl_code_of(status);
        copy_why(&coll->opening, why, sizeof(why));
        wring_nccl_say(
            WRING_NCCL_LOG_WARN, "wring: %s, rank %" PRIu32 ": %s%s%s (device 0 of %s, %s)",
            coll->opening.what, coll->opening.rank, wring_status_text(status),
            why[0] != '\0' ? ": " : "", why, wring_nccl_own.address, wring_nccl_own.providers);
    }
    return coll->failed;
}

/** A request, once the session is there. @param out NULL: ask again @return NCCL's code */
static int begin_request(struct coll *coll, struct coll_request **out)
{
    int state = atomic_load(&coll->opening.state);

    *out = NULL;
    if (state != WRING_NCCL_OPENING && coll->listen != NULL) {
        pthread_mutex_lock(&wring_nccl_own.mutex);
        give_socket_back(coll);
        pthread_mutex_unlock(&wring_nccl_own.mutex);
    }
    if (state == WRING_NCCL_FAILED)
        return fail_coll_by_status(coll, coll->opening.status);
    if (coll->failed != WRING_NCCL_SUCCESS || state == WRING_NCCL_OPENING || coll->free == NULL)
        return coll->failed;
    *out = coll->free;
    coll->free = (*out)->next;
    coll->under_way++;
    (*out)->failed = WRING_NCCL_SUCCESS;
    return WRING_NCCL_SUCCESS;
}

static void give_request_back(struct coll_request *request)
{
    struct coll *coll = request->coll;

    coll->under_way--;
    free(request->runs);
    request->runs = NULL;
    request->next = coll->free;
    coll->free = request;
}

/** It has been handed to wring, or not. @return NCCL's code */
static int finish_begin(struct coll_request *request, enum wring_status status, void **out)
{
    if (status != WRING_OK) {
        give_request_back(request);
        return fail_coll_by_status(request->coll, status);
    }
    *out = request;
    return WRING_NCCL_SUCCESS;
}

static int refuse_reduction(int dtype, int op)
{
    wring_nccl_say(WRING_NCCL_LOG_WARN,
                   "wring: CollNet: no reduction %d of type %d: reduceSupport says which there are",
                   op, dtype);
    return WRING_NCCL_INVALID_ARGUMENT;
}

/** As begin_request(), of a reduction, if it is one of those that there are. */
static int begin_reduction(struct coll *coll, int dtype_, int op_, enum wring_dtype *dtype,
                           enum wring_op *op, struct coll_request **out)
{
    *out = NULL;
    if (!is_reduction_served(dtype_, op_))
        return refuse_reduction(dtype_, op_);
    *dtype = (enum wring_dtype)to_wring_dtype(dtype_);
    *op = (enum wring_op)to_wring_op(op_);
    return begin_request(coll, out);
}

int wring_nccl_iallreduce(void *comm, void *in, void *out, size_t elems, int dtype_, int op_,
                          void **out_request)
{
    struct coll *coll = comm;
    struct coll_request *request;
    struct wring_call how = WRING_CALL_INIT;
    enum wring_dtype dtype;
    enum wring_op op;

    *out_request = NULL;
    int code = begin_reduction(coll, dtype_, op_, &dtype, &op, &request);
    if (request == NULL)
        return code;
    request->bytes = elems * wring_dtype_bytes(dtype);
    how.codec = choose_codec(coll, ALLREDUCE, dtype, op, elems);
    return finish_begin(
        request,
        wring_allreduce(coll->opening.world, in, out, elems, dtype, op, &how, &request->under_way),
        out_request);
}

/** What of each rank's block lies in a window. @param unit  bytes of an element
 *  @return false: it is no window, which is logged, or no memory */
static bool cut_window_into_runs(struct coll_request *request, size_t block, size_t window,
                                 size_t bytes, size_t unit)
{
    const struct opening *opening = &request->coll->opening;
    uint64_t end = (uint64_t)window + bytes;

    if (block == 0 || end < window || (end + block - 1) / block > opening->size ||
        block % unit != 0 || window % unit != 0 || bytes % unit != 0) {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: CollNet: a window of %zu bytes at %zu is not one of %" PRIu32
                       " blocks of %zu bytes",
                       bytes, window, opening->size, block);
        return false;
    }
    request->runs = malloc(opening->size * sizeof(*request->runs));
    if (request->runs == NULL)
        return false;
    for (uint32_t i = 0; i < opening->size; i++) {
        uint64_t from = (uint64_t)i * block, to = from + block;
        from = from > window ? from : window;
        to = to < end ? to : end;
        request->runs[i] = to > from ? (to - from) / unit : 0;
    }
    request->bytes = request->runs[opening->rank] * unit;
    return true;
}

int wring_nccl_iallgather(void *comm, void *in, void *out, size_t bytes_per_rank, size_t window,
                          size_t window_bytes, void **out_request)
{
    struct coll *coll = comm;
    struct coll_request *request;

    *out_request = NULL;
    int code = begin_request(coll, &request);
    if (request == NULL)
        return code;
    if (!cut_window_into_runs(request, bytes_per_rank, window, window_bytes, 1)) {
        give_request_back(request);
        return WRING_NCCL_INVALID_ARGUMENT;
    }
    request->bytes = window_bytes;
    return finish_begin(request,
                        wring_allgatherv(coll->opening.world, in, out, request->runs, WRING_BYTE,
                                         NULL, &request->under_way),
                        out_request);
}

int wring_nccl_ireducescatter(void *comm, void *in, void *out, size_t bytes_per_rank, size_t window,
                              size_t window_bytes, int dtype_, int op_, void **out_request)
{
    struct coll *coll = comm;
    struct coll_request *request;
    struct wring_call how = WRING_CALL_INIT;
    enum wring_dtype dtype;
    enum wring_op op;

    *out_request = NULL;
    int code = begin_reduction(coll, dtype_, op_, &dtype, &op, &request);
    if (request == NULL)
        return code;
    if (!cut_window_into_runs(request, bytes_per_rank, window, window_bytes,
                              wring_dtype_bytes(dtype))) {
        give_request_back(request);
        return WRING_NCCL_INVALID_ARGUMENT;
    }
    how.codec =
        choose_codec(coll, REDUCE_SCATTER, dtype, op, window_bytes / wring_dtype_bytes(dtype));
    return finish_begin(request,
                        wring_reduce_scatterv(coll->opening.world, in, out, request->runs, dtype,
                                              op, &how, &request->under_way),
                        out_request);
}

int wring_nccl_coll_test(void *request_, int *done, int *bytes)
{
    struct coll_request *request = request_;

    *done = 0;
    if (request->failed != WRING_NCCL_SUCCESS)
        return request->failed;
    enum wring_status status = wring_request_test(request->under_way, NULL);
    if (status == WRING_ERR_AGAIN)
        return WRING_NCCL_SUCCESS;
    if (status != WRING_OK) {
        request->under_way = NULL;
        request->failed = fail_coll_by_status(request->coll, status);
        return request->failed;
    }
    if (bytes != NULL)
        *bytes = request->bytes < INT_MAX ? (int)request->bytes : INT_MAX;
    *done = 1;
    give_request_back(request);
    return WRING_NCCL_SUCCESS;
}
