/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Messages that travel coded, without a loss: WRING_NCCL_LOSSLESS.
 *
 * A receiver that codes asks for a note about each large buffer (NOTED in its notice). The sender
 * says in it which buffer of which irecv() a message is for, and whether it is coded; the two
 * arrive in any order. A coded message lands in its buffer, is copied out of it and decoded into
 * it.
 *
 * Pinned cores code. NCCL's own threads hand work over and look later what has become of it.
 *
 * The sender codes what proves faster so. It compares how fast messages leave in windows of both
 * kinds in turn, keeps to the faster one for a while, and compares again.
 *
 * Whatever is sent behind a message that is still being coded waits in a queue, as messages of one
 * tag keep their order.
 *
 * A note has group u64, buffer u32, coded u32, bytes u64.
 */
#include "dropin/nccl/nccl_own.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "offload/pool.h"

#define CODED_MAX ((size_t)16 << 20) /* bytes of a message that is coded */
#define FINISHED 16                  /* jobs looked at in one go */
#define BUFFERED ((size_t)64 << 20)  /* codes of a connection's, in all */
#define WINDOW 24u                   /* messages that are compared with as many */
#define SKIPPED 8u                   /* of them, which overlap with those before */
#define WINDOWS 4u
#define KEPT 2000u /* messages until it is compared again */
#define GAIN 1.05

/* ---- the cores that code ---- */

static struct {
    pthread_mutex_t mutex; /* executors are called by one thread at a time */
    struct wring_executor *executor;
    struct wring_codec *codec;
} coder = {.mutex = PTHREAD_MUTEX_INITIALIZER};

enum wring_status wring_nccl_coder_open(void)
{
    const struct wring_nccl_own *own = &wring_nccl_own;
    char cores[24], why[256];

    if (own->config.nccl_lossless == 0 || coder.executor != NULL)
        return WRING_OK;
    snprintf(cores, sizeof(cores), "%d", (int)own->config.nccl_lossless);
    struct wring_pool_params params = {.cores = cores, .log = &own->log};
    enum wring_status status =
        wring_codec_create("lossless", own->config.cpu, NULL, why, sizeof(why), &coder.codec);
    if (status == WRING_OK)
        status = wring_executor_pool_create(&params, &coder.executor);
    if (status == WRING_OK)
        status = coder.executor->ops->reserve(
            coder.executor, wring_job_reserve_elems(CODED_MAX / sizeof(float), 1));
    if (status != WRING_OK) {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: WRING_NCCL_LOSSLESS=%s: no cores to code on: %s; 0 does without",
                       cores, wring_status_text(status));
        wring_nccl_coder_close();
    }
    return status;
}

void wring_nccl_coder_close(void)
{
    if (coder.executor != NULL)
        coder.executor->ops->destroy(coder.executor);
    wring_codec_destroy(coder.codec);
    coder.executor = NULL;
    coder.codec = NULL;
}

static size_t bound_of_code(size_t bytes)
{
    return wring_codec_bound(coder.codec, bytes / sizeof(float));
}

static void submit_task(struct wring_nccl_task *task)
{
    struct wring_job *job = &task->job;

    job->dtype = WRING_F32;
    job->divisor = 1;
    job->untimed = true;
    job->cookie = task;
    job->context.ranks = 2;
    job->context.elems = job->elems;
    atomic_store(&task->over, false);
    pthread_mutex_lock(&coder.mutex);
    coder.executor->ops->submit(coder.executor, &job, 1);
    pthread_mutex_unlock(&coder.mutex);
}

static void submit_encode(struct wring_nccl_task *task, const void *src, size_t bytes, void *code)
{
    task->job = (struct wring_job){.kind = WRING_JOB_ENCODE,
                                   .elems = bytes / sizeof(float),
                                   .src = src,
                                   .codec_out = coder.codec,
                                   .code = code};
    submit_task(task);
}

static void submit_read(struct wring_nccl_task *task, const void *data, size_t bytes,
                        const struct wring_codec *codec)
{
    task->source = (struct wring_source){.data = data, .bytes = bytes, .codec = codec};
    task->job.sources = &task->source;
    task->job.n_sources = 1;
    submit_task(task);
}

static void submit_decode(struct wring_nccl_task *task, const void *code, size_t code_bytes,
                          void *dst, size_t bytes)
{
    task->job =
        (struct wring_job){.kind = WRING_JOB_DECODE, .elems = bytes / sizeof(float), .dst = dst};
    submit_read(task, code, code_bytes, coder.codec);
}

static void submit_copy(struct wring_nccl_task *task, const void *src, void *dst, size_t bytes)
{
    task->job = (struct wring_job){.kind = WRING_JOB_COPY, .elems = bytes, .dst = dst};
    submit_read(task, src, bytes, NULL);
}

static bool is_task_over(struct wring_nccl_task *task)
{
    struct wring_job *finished[FINISHED];

    if (atomic_load_explicit(&task->over, memory_order_acquire))
        return true;
    if (pthread_mutex_trylock(&coder.mutex) != 0)
        return false;
    size_t n = coder.executor->ops->poll(coder.executor, finished, FINISHED);
    for (size_t i = 0; i < n; i++) {
        struct wring_nccl_task *other = finished[i]->cookie;
        atomic_store_explicit(&other->over, true, memory_order_release);
    }
    pthread_mutex_unlock(&coder.mutex);
    return atomic_load_explicit(&task->over, memory_order_acquire);
}

static void await_task(struct wring_nccl_task *task)
{
    const struct timespec pause = {0, 20000};

    while (!is_task_over(task)) /* it ends by itself: a core works on it */
        nanosleep(&pause, NULL);
}

/* ---- which is faster, coded or raw ---- */

static void start_window(struct wring_nccl_trial *trial, bool coded)
{
    trial->coded = coded;
    trial->ended = 0;
    trial->bytes = trial->busy_ns = 0;
}

static void decide_whether_to_code(struct wring_nccl_comm *comm)
{
    struct wring_nccl_trial *trial = &comm->trial;
    double raw = trial->speed[0], coded = trial->speed[1];

    trial->decided = true;
    start_window(trial, coded > GAIN * raw);
    wring_nccl_say(WRING_NCCL_LOG_INFO,
                   "wring: sending to %s, connection %" PRIu32 ": coded to %.2f of the bytes: "
                   "%.3f GB/s, as they are %.3f: messages travel %s",
                   comm->link->name, comm->conn,
                   (double)trial->code_bytes / (double)(trial->of_bytes + 1), coded, raw,
                   trial->coded ? "coded" : "as they are");
}

static void end_window(struct wring_nccl_comm *comm)
{
    struct wring_nccl_trial *trial = &comm->trial;
    double speed = (double)trial->bytes / (double)(trial->busy_ns + 1);

    if (trial->decided) {
        *trial =
            (struct wring_nccl_trial){.in_flight = trial->in_flight, .since_ns = trial->since_ns};
        return;
    }
    if (speed > trial->speed[trial->coded])
        trial->speed[trial->coded] = speed;
    if (++trial->window == WINDOWS)
        decide_whether_to_code(comm);
    else
        start_window(trial, trial->window % 2 != 0);
}

static void note_send_begun(struct wring_nccl_trial *trial)
{
    if (trial->in_flight++ == 0)
        trial->since_ns = wring_now_ns();
}

static void note_send_ended(struct wring_nccl_comm *comm, uint64_t bytes)
{
    struct wring_nccl_trial *trial = &comm->trial;
    uint64_t now = wring_now_ns();

    trial->in_flight--;
    trial->busy_ns += now - trial->since_ns;
    trial->since_ns = now;
    trial->bytes += bytes;
    trial->ended++;
    if (trial->ended == SKIPPED)
        trial->bytes = trial->busy_ns = 0;
    if (trial->ended == (trial->decided ? KEPT : WINDOW))
        end_window(comm);
}

/* ---- sending ---- */

static bool may_be_coded(const void *data, uint64_t bytes)
{
    const struct wring_config *config = &wring_nccl_own.config;
    return config->nccl_lossless > 0 && bytes >= config->nccl_lossless_min && bytes <= CODED_MAX &&
           bytes % sizeof(float) == 0 && (uintptr_t)data % sizeof(float) == 0;
}

/** Begin to code it. No memory: it travels as it is. */
static void begin_encode(struct wring_nccl_request *request)
{
    size_t bytes = (size_t)request->bytes[0], bound = bound_of_code(bytes);

    if (request->comm->buffered + bound > BUFFERED)
        return;
    request->task = calloc(1, sizeof(*request->task));
    request->code = malloc(bound);
    if (request->task == NULL || request->code == NULL) {
        free(request->task);
        free(request->code);
        request->task = NULL;
        request->code = NULL;
        return;
    }
    request->buffered = bound;
    request->comm->buffered += bound;
    submit_encode(request->task, request->data, bytes, request->code);
}

void wring_nccl_pack(struct wring_nccl_request *request)
{
    struct wring_nccl_comm *comm = request->comm;

    if (!request->noted || request->too_large || !may_be_coded(request->data, request->bytes[0]) ||
        wring_nccl_is_on_device(comm, request->data, request->bytes[0]))
        return;
    request->counted = true;
    note_send_begun(&comm->trial);
    if (comm->trial.coded)
        begin_encode(request);
}

/** Whether it was coded, and the code is shorter. */
static bool has_shorter_code(const struct wring_nccl_request *request)
{
    return request->task != NULL && request->task->job.result.status == WRING_OK &&
           request->task->job.result.code_bytes < request->bytes[0];
}

/** Send to the connection's other end. */
static enum wring_status send_to_peer(const struct wring_nccl_comm *comm,
                                      enum wring_nccl_class class, int tag, const void *data,
                                      uint64_t bytes, bool offered,
                                      struct wring_nccl_message **message)
{
    return wring_nccl_path_send(&comm->link->path, data, bytes, wring_nccl_tag_of(comm, class, tag),
                                offered, message);
}

enum wring_status wring_nccl_say_note(struct wring_nccl_request *request)
{
    wring_put_u64(request->note_bytes, request->group);
    wring_put_u32(request->note_bytes + 8, request->buffer);
    wring_put_u32(request->note_bytes + 12, has_shorter_code(request));
    wring_put_u64(request->note_bytes + 16, request->bytes[0]);
    return send_to_peer(request->comm, WRING_NCCL_CLASS_NOTICE, 0, request->note_bytes,
                        sizeof(request->note_bytes), false, &request->note);
}

enum wring_status wring_nccl_post_send(struct wring_nccl_request *request)
{
    bool coded = has_shorter_code(request);
    const void *data = coded ? request->code : request->data;
    uint64_t bytes = coded ? request->task->job.result.code_bytes : request->bytes[0];

    enum wring_status status = send_to_peer(request->comm, WRING_NCCL_CLASS_DATA, request->tag,
                                            data, bytes, request->offered, &request->under_way[0]);
    if (status == WRING_OK && request->noted && !request->too_large)
        status = wring_nccl_say_note(request);
    return status;
}

void wring_nccl_queue(struct wring_nccl_request *request)
{
    struct wring_nccl_comm *comm = request->comm;

    request->queued = true;
    request->behind = NULL;
    *(comm->queue != NULL ? &comm->last_queued->behind : &comm->queue) = request;
    comm->last_queued = request;
}

enum wring_status wring_nccl_queue_go_on(struct wring_nccl_comm *comm)
{
    enum wring_status status = WRING_OK;

    while (comm->queue != NULL && status == WRING_OK) {
        struct wring_nccl_request *first = comm->queue;
        if (first->task != NULL && !is_task_over(first->task))
            break;
        comm->queue = first->behind;
        first->queued = false;
        status = wring_nccl_post_send(first);
    }
    return status;
}

void wring_nccl_pack_end(struct wring_nccl_request *request)
{
    if (request->task != NULL) {
        await_task(request->task);
        request->comm->trial.of_bytes += request->bytes[0];
        request->comm->trial.code_bytes += request->task->job.result.code_bytes;
    }
    if (request->counted)
        note_send_ended(request->comm, request->bytes[0]);
    request->counted = false;
    request->comm->buffered -= request->buffered;
    request->buffered = 0;
    free(request->task);
    free(request->code);
    request->task = NULL;
    request->code = NULL;
    for (unsigned i = 0; request->unpack != NULL && i < WRING_NCCL_GROUPED; i++) {
        struct wring_nccl_landing *landing = &request->unpack->landings[i];
        if (landing->step != WRING_NCCL_LANDING)
            await_task(&landing->task);
        request->comm->buffered -= landing->buffered;
        free(landing->code);
    }
    free(request->unpack);
    request->unpack = NULL;
}

/* ---- receiving ---- */

bool wring_nccl_wants_note(const struct wring_nccl_comm *comm, const void *data, uint64_t room)
{
    const struct wring_config *config = &wring_nccl_own.config;
    return config->nccl_lossless > 0 && room >= config->nccl_lossless_min &&
           (uintptr_t)data % sizeof(float) == 0 && !wring_nccl_is_on_device(comm, data, room);
}

bool wring_nccl_unpack_begin(struct wring_nccl_request *request, void **data)
{
    bool wanted = false;

    for (unsigned i = 0; i < request->n; i++)
        wanted |= wring_nccl_wants_note(request->comm, data[i], request->room[i]);
    if (!wanted)
        return true;
    request->unpack = calloc(1, sizeof(*request->unpack));
    if (request->unpack == NULL)
        return false;
    for (unsigned i = 0; i < request->n; i++) {
        request->unpack->landings[i].to = data[i];
        request->unpack->landings[i].wanted =
            wring_nccl_wants_note(request->comm, data[i], request->room[i]);
    }
    return true;
}

static struct wring_nccl_request *find_request_of_group(struct wring_nccl_comm *comm,
                                                        uint64_t group)
{
    for (unsigned i = 0; i < comm->n_requests; i++)
        if (comm->requests[i].busy && comm->requests[i].n > 0 && comm->requests[i].group == group)
            return &comm->requests[i];
    return NULL;
}

bool wring_nccl_take_note(struct wring_nccl_comm *comm, const uint8_t *bytes, uint64_t n_bytes)
{
    if (n_bytes != WRING_NCCL_NOTE_BYTES)
        return false;
    uint64_t raw = wring_get_u64(bytes + 16);
    uint32_t buffer = wring_get_u32(bytes + 8), coded = wring_get_u32(bytes + 12);
    if (buffer >= WRING_NCCL_GROUPED || coded > 1)
        return false;
    struct wring_nccl_request *request = find_request_of_group(comm, wring_get_u64(bytes));
    if (request == NULL || request->failed != WRING_NCCL_SUCCESS)
        return true; /* its receive has failed before */
    if (request->unpack == NULL || !request->unpack->landings[buffer].wanted ||
        request->unpack->landings[buffer].noted || raw > request->room[buffer])
        return false;
    struct wring_nccl_landing *landing = &request->unpack->landings[buffer];
    landing->noted = true;
    landing->coded = coded != 0;
    landing->raw = raw;
    return !landing->coded ||
           (raw % sizeof(float) == 0 && raw >= sizeof(float) && raw <= CODED_MAX);
}

/** A code is here: bring it out of the way. @return false: no memory now */
static bool begin_copy_of_code(struct wring_nccl_comm *comm, struct wring_nccl_landing *landing,
                               uint64_t bytes)
{
    if (comm->buffered + bytes > BUFFERED || (landing->code = malloc(bytes)) == NULL)
        return false;
    landing->buffered = bytes;
    comm->buffered += bytes;
    landing->step = WRING_NCCL_COPYING;
    submit_copy(&landing->task, landing->to, landing->code, bytes);
    return true;
}

enum wring_status wring_nccl_unpack(struct wring_nccl_request *request, unsigned i)
{
    struct wring_nccl_landing *landing = &request->unpack->landings[i];
    uint64_t bytes = request->bytes[i]; /* that have come */

    if (!landing->wanted)
        return WRING_OK;
    if (!landing->noted)
        return WRING_ERR_AGAIN;
    if (!landing->coded)
        return landing->raw == bytes ? WRING_OK : WRING_ERR_FRAME;
    if (landing->step == WRING_NCCL_LANDING) {
        if (bytes == 0 || bytes >= landing->raw)
            return WRING_ERR_FRAME;
        begin_copy_of_code(request->comm, landing, bytes);
        return WRING_ERR_AGAIN;
    }
    if (!is_task_over(&landing->task))
        return WRING_ERR_AGAIN;
    if (landing->step == WRING_NCCL_COPYING) {
        landing->step = WRING_NCCL_DECODING;
        submit_decode(&landing->task, landing->code, bytes, landing->to, landing->raw);
        return WRING_ERR_AGAIN;
    }
    if (landing->task.job.result.status == WRING_OK)
        request->bytes[i] = landing->raw;
    landing->wanted = false; /* it has landed */
    return landing->task.job.result.status;
}

bool wring_nccl_is_unpacking(const struct wring_nccl_request *request)
{
    for (unsigned i = 0; request->unpack != NULL && i < request->n; i++)
        if (request->unpack->landings[i].wanted && request->unpack->landings[i].noted &&
            request->under_way[i] == NULL)
            return true;
    return false;
}
