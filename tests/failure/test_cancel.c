/* SPDX-License-Identifier: Apache-2.0 */
/* A call of 64 MiB is cancelled while its peer stands still in the midst of it: either its memory
 * is the caller's, and no byte of it changes any more, or the call says that it is not. The same of
 * a bucket's step, of sends and receives. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define ELEMS ((size_t)16 << 20) /* of four bytes */
#define PATTERN 0x5a
#define LOOK_NS WRING_NS_PER_S
#define DEADLINE_S 60
#define TRIES 100
#define JOBS 5 /* until one is given up in its midst */

/** What both ranks see: shall the peer stand still no more? It may end the step that we give up
 *  before it hears of that, begin the next one, and stand still where nobody wakes it. */
static atomic_bool *let_go;

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * (long)WRING_NS_PER_MS}, NULL);
}

static size_t find_changed(const unsigned char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && bytes[i] == PATTERN)
        i++;
    return i;
}

static bool stands_still(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (file != NULL)
        fclose(file);
    return state == 'T';
}

/** Until the peer wakes us. */
static void stand_still(void)
{
    if (!atomic_load(let_go))
        kill(getpid(), SIGSTOP);
}

/** The peer, which stands still, goes on for good. */
static void release(pid_t peer)
{
    atomic_store(let_go, true);
    kill(peer, SIGCONT);
}

/** A rank says that what was to be given up had ended by itself, and nothing else is wrong. */
static bool has_missed(const struct procs_job *job, const char *peer)
{
    bool ended = strstr(job->texts[0], "ended: success") != NULL ||
                 (peer != NULL && strstr(job->texts[1], peer) != NULL);
    return ended && job->codes[0] == 0 && job->codes[1] == 0 &&
           strstr(job->texts[0], "is written to") == NULL;
}

/** A job of two ranks, of which none stands still yet; again where a rank says that what was to be
 *  given up had ended by itself, as a thread that had no processor may have been about to end it.
 *  @param peer  how rank 1 says so; NULL: rank 0 alone does */
static bool run_job(struct procs_job *job, const char *peer)
{
    bool ended = true, missed = true;
    for (int i = 0; i < JOBS && ended && missed; i++) {
        atomic_store(let_go, false);
        ended = procs_run(job, DEADLINE_S);
        missed = has_missed(job, peer);
    }
    return ended;
}

/** Does no byte of the pattern change for a while, in which the peer goes on? */
static void watch(struct procs_rank *rank, const unsigned char *bytes, size_t n)
{
    uint64_t until_ns = wring_deadline_in(LOOK_NS);
    size_t changed = n;
    while (changed == n && wring_now_ns() < until_ns) {
        changed = find_changed(bytes, n);
        pause_ms(20);
    }
    procs_say(rank, changed == n ? "no byte has changed" : "byte %zu is written to", changed);
}

static void look(struct procs_rank *rank, unsigned char *bytes, size_t n)
{
    memset(bytes, PATTERN, n);
    watch(rank, bytes, n);
}

static pid_t exchange_pids(struct wring_session *session, uint32_t rank)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_request *sent;
    pid_t own = getpid(), other = 0;

    if (wring_send(world, &own, sizeof(own), 1 - rank, 1, NULL, &sent) != WRING_OK ||
        wring_recv(world, &other, sizeof(other), 1 - rank, 1, NULL, NULL) != WRING_OK ||
        wring_request_wait(sent, WRING_FOREVER, NULL) != WRING_OK)
        return 0;
    /* rank 1 stops itself later, by when rank 0 has its number: a send that has ended may not have
     * left yet */
    enum wring_status heard = rank == 0 ? wring_send(world, NULL, 0, 1, 9, NULL, NULL)
                                        : wring_recv(world, NULL, 0, 0, 9, NULL, NULL);
    return heard == WRING_OK ? other : 0;
}

/** Until the peer stands still, and our part goes on no further: sockets take what they have room
 *  for. @return TIMEOUT: it is under way; else its end, and the peer goes on */
static enum wring_status await_stop(struct wring_request *request, pid_t peer)
{
    while (!stands_still(peer))
        pause_ms(1);
    pause_ms(20);
    enum wring_status status = wring_request_wait(request, 0, NULL);
    if (status != WRING_ERR_TIMEOUT)
        kill(peer, SIGCONT);
    return status;
}

/* ---- a call ---- */

/** Call until one is under way when the peer stands still. */
static struct wring_request *catch_in_call(struct wring_group *group, float *data, pid_t peer)
{
    struct wring_request *request;

    for (int i = 0; i < TRIES; i++) {
        if (wring_allreduce(group, data, data, ELEMS, WRING_F32, WRING_SUM, NULL, &request) !=
            WRING_OK)
            return NULL;
        enum wring_status status = await_stop(request, peer);
        if (status != WRING_OK)
            return status == WRING_ERR_TIMEOUT ? request : NULL;
    }
    return NULL;
}

static int run_canceller(struct procs_rank *rank, struct wring_session *session, float *data,
                         struct wring_group *group, pid_t peer)
{
    struct wring_request *request = catch_in_call(group, data, peer);

    if (request == NULL)
        return 4;
    uint64_t began_ns = wring_now_ns();
    enum wring_status status = wring_request_cancel(request);
    double ms = (double)(wring_now_ns() - began_ns) / 1e6;
    procs_say(rank, "cancel: %s, %s", wring_status_text(status), ms < 10000 ? "in time" : "late");
    printf("64 MiB, peer stopped: %s after %.1f ms\n", wring_status_text(status), ms);
    memset(data, PATTERN, ELEMS * sizeof(*data));
    release(peer);
    if (status == WRING_OK)
        watch(rank, (unsigned char *)data, ELEMS * sizeof(*data));
    status = wring_request_wait(request, 60 * WRING_NS_PER_S, NULL);
    procs_say(rank, "ended: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

/** It stands still soon after each of its calls has begun. */
static int run_stopped(struct procs_rank *rank, struct wring_session *session, float *data,
                       struct wring_group *group)
{
    enum wring_status status = WRING_OK;

    for (int i = 0; i < TRIES && status == WRING_OK; i++) {
        struct wring_request *request;
        status = wring_allreduce(group, data, data, ELEMS, WRING_F32, WRING_SUM, NULL, &request);
        if (status != WRING_OK)
            break;
        pause_ms(1 + i % 10);
        stand_still();
        status = wring_request_wait(request, 60 * WRING_NS_PER_S, NULL);
    }
    procs_say(rank, "peer: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

static int run(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    struct wring_group *group;
    const uint32_t both[] = {0, 1};
    float *data = calloc(ELEMS, sizeof(*data));
    (void)arg;

    if (data == NULL || wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    if (wring_group_create(wring_session_world(session), both, 2, 1, WRING_FOREVER, &group) !=
            WRING_OK ||
        wring_barrier(group, NULL, NULL) != WRING_OK)
        return 3;
    pid_t peer = exchange_pids(session, rank->rank);
    if (peer == 0)
        return 3;
    int code = rank->rank == 0 ? run_canceller(rank, session, data, group, peer)
                               : run_stopped(rank, session, data, group);
    free(data);
    return code;
}

/* ---- a bucket ---- */

#define LARGE_CHUNKS "WRING_CHUNK_BYTES=8388608"

struct variant {
    const char *settings[4];
    uint64_t bytes;     /* that the peer has of a step when it stands still; 0: it waits a moment */
    const char *cancel; /* what that comes to */
};

static const struct variant bucket_variants[] = {
    {{"WRING_PROVIDER=shm"}, 0, "cancel: object in use, in time"},
    {{"WRING_PROVIDER=tcp", LARGE_CHUNKS}, ELEMS * 3 / 2, "cancel: success, in time"},
    {{"WRING_PROVIDER=tcp", LARGE_CHUNKS, "WRING_TCP_CHECKSUM=on"},
     ELEMS * 3 / 2,
     "cancel: success, in time"},
};

static void fill(float *data, float value)
{
    for (size_t i = 0; i < ELEMS; i++)
        data[i] = value;
}

/** @return elements that are neither of these */
static size_t count_others(const float *data, float one, float other)
{
    size_t n = 0;
    for (size_t i = 0; i < ELEMS; i++)
        n += data[i] != one && data[i] != other;
    return n;
}

/** What a rank contributes; two of them make the sum 3. */
static float part_of(const struct procs_rank *rank)
{
    return (float)(rank->rank + 1);
}

/** In a new group of both, which has this tag. Its first step is right. */
static struct wring_bucket *make_bucket(struct procs_rank *rank, struct wring_session *session,
                                        float *data, uint64_t tag)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket;
    const uint32_t both[] = {0, 1};

    if (data == NULL || wring_group_create(wring_session_world(session), both, 2, tag,
                                           WRING_FOREVER, &params.group) != WRING_OK)
        return NULL;
    params.name = "large";
    params.data = data;
    params.elems = ELEMS;
    fill(data, part_of(rank));
    if (wring_bucket_register(session, &params, &bucket) != WRING_OK ||
        wring_session_commit(session) != WRING_OK || wring_bucket_post(bucket) != WRING_OK ||
        wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL) != WRING_OK ||
        count_others(data, 3, 3) > 0)
        return NULL;
    return bucket;
}

static float *alloc_data(struct wring_session *session)
{
    void *memory;
    return wring_buffer_alloc(session, ELEMS * sizeof(float), &memory) == WRING_OK ? memory : NULL;
}

/** The session does: after the bucket that was given up comes one of another group. */
static void go_on(struct procs_rank *rank, struct wring_session *session,
                  struct wring_bucket *bucket, float *data)
{
    enum wring_status status = wring_bucket_drop(bucket);
    bool right = status == WRING_OK && make_bucket(rank, session, data, 2) != NULL;
    procs_say(rank, "goes on: %s, %s", wring_status_text(status), right ? "right" : "wrong");
}

/** Post until a step is under way when the peer stands still. */
static bool catch_in_step(struct wring_bucket *bucket, float *data, pid_t peer)
{
    for (int i = 0; i < TRIES; i++) {
        fill(data, 1);
        if (wring_bucket_post(bucket) != WRING_OK)
            return false;
        while (!stands_still(peer))
            pause_ms(1);
        pause_ms(20); /* our part of it goes on as far as it can */
        if (wring_bucket_test(bucket, NULL) == WRING_ERR_AGAIN)
            return true;
        kill(peer, SIGCONT);
        if (wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL) != WRING_OK)
            return false;
    }
    return false;
}

/** One whose peer stands still, and may write into its data once it goes on. Ours at once is what
 *  we write to, while puts from there are on their way. */
static int cancel_bucket(struct procs_rank *rank, struct wring_session *session,
                         struct wring_bucket *bucket, float *data, pid_t peer)
{
    if (!catch_in_step(bucket, data, peer))
        return 4;
    uint64_t began_ns = wring_now_ns();
    enum wring_status status = wring_bucket_cancel(bucket);
    double ms = (double)(wring_now_ns() - began_ns) / 1e6;
    bool ours = status == WRING_OK;
    procs_say(rank, "cancel: %s, %s", wring_status_text(status),
              (ours || ms >= 50) && ms < 10000 ? "in time" : "late");
    printf("bucket of 64 MiB, peer stopped: %s after %.1f ms\n", wring_status_text(status), ms);
    if (ours)
        memset(data, PATTERN, ELEMS * sizeof(*data));
    else
        wring_buffer_free(session, data); /* it is there nevertheless, whatever the peer writes */
    release(peer);
    uint64_t until_ns = wring_deadline_in(60 * WRING_NS_PER_S);
    while (status == WRING_ERR_BUSY && wring_now_ns() < until_ns)
        status = wring_bucket_cancel(bucket);
    procs_say(rank, "later: %s", wring_status_text(status));
    look(rank, (unsigned char *)data, ELEMS * sizeof(*data));
    status = wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL);
    procs_say(rank, "ended: %s", wring_status_text(status));
    if (status != WRING_OK) /* else the peer does not know that it was given up */
        go_on(rank, session, bucket, ours ? data : alloc_data(session));
    wring_session_close(session);
    return 0;
}

static uint64_t received_by(struct wring_session *session)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    wring_session_stats(session, &stats);
    return stats.wire_bytes_received;
}

/** Until so much of a step has come, or a moment where nothing comes by the wire. */
static void await_midst(struct wring_session *session, struct wring_bucket *bucket, uint64_t until,
                        int i)
{
    if (until == 0)
        pause_ms(1 + i % 10);
    while (until > 0 && received_by(session) < until &&
           wring_bucket_test(bucket, NULL) == WRING_ERR_AGAIN)
        sched_yield();
}

/** It stands still in the midst of each, as far as that can be told. */
static int stop_in_steps(struct procs_rank *rank, struct wring_session *session,
                         struct wring_bucket *bucket, float *data, uint64_t bytes)
{
    enum wring_status status = WRING_OK;
    for (int i = 0; i < TRIES && status == WRING_OK; i++) {
        uint64_t until = bytes > 0 ? received_by(session) + bytes : 0;
        fill(data, 2);
        status = wring_bucket_post(bucket);
        if (status != WRING_OK)
            break;
        await_midst(session, bucket, until, i);
        stand_still();
        status = wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL);
    }
    procs_say(rank, "peer: %s", wring_status_text(status));
    uint64_t until_ns = wring_deadline_in(60 * WRING_NS_PER_S);
    do
        status = wring_bucket_cancel(bucket);
    while (status == WRING_ERR_BUSY && wring_now_ns() < until_ns);
    procs_say(rank, "peer's data: %s, %zu elements are nobody's", wring_status_text(status),
              count_others(data, 2, 3));
    go_on(rank, session, bucket, data);
    wring_session_close(session);
    return 0;
}

static int run_bucket(struct procs_rank *rank, void *arg)
{
    const struct variant *variant = arg;
    struct wring_session *session;

    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    float *data = alloc_data(session);
    struct wring_bucket *bucket = make_bucket(rank, session, data, 1);
    pid_t peer = bucket != NULL ? exchange_pids(session, rank->rank) : 0;
    if (peer == 0)
        return 3;
    return rank->rank == 0 ? cancel_bucket(rank, session, bucket, data, peer)
                           : stop_in_steps(rank, session, bucket, data, variant->bytes);
}

static void run_over(const char *provider)
{
    const char *settings[] = {provider, NULL};
    struct procs_job job = {.ranks = 2, .settings = settings, .run = run};

    CHECK(run_job(&job, NULL), "%s: hangs", provider);
    CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%s: %d, %d", provider, job.codes[0],
          job.codes[1]);
    CHECK(strstr(job.texts[0], "cancel: success, in time") != NULL, "%s: %s", provider,
          job.texts[0]);
    CHECK(strstr(job.texts[0], "no byte has changed") != NULL, "%s: %s", provider, job.texts[0]);
    CHECK(strstr(job.texts[0], "ended: cancelled") != NULL, "%s: %s", provider, job.texts[0]);
    CHECK(strstr(job.texts[1], "peer: cancelled") != NULL, "%s: %s", provider, job.texts[1]);
}

static void check_bucket(const struct procs_job *job, const char *variant, const char *cancel)
{
    const char *text = job->texts[0], *peer = job->texts[1];

    CHECK(job->codes[0] == 0 && job->codes[1] == 0, "%s: %d, %d", variant, job->codes[0],
          job->codes[1]);
    CHECK(strstr(text, cancel) != NULL, "%s: %s", variant, text);
    CHECK(strstr(text, "later: success") != NULL, "%s: %s", variant, text);
    CHECK(strstr(text, "no byte has changed") != NULL, "%s: %s", variant, text);
    CHECK(strstr(text, "ended: cancelled") != NULL, "%s: %s", variant, text);
    CHECK(strstr(text, "goes on: success, right") != NULL, "%s: %s", variant, text);
    CHECK(strstr(peer, "peer: cancelled") != NULL, "%s: %s", variant, peer);
    CHECK(strstr(peer, "peer's data: success, 0 elements are nobody's") != NULL, "%s: %s", variant,
          peer);
    CHECK(strstr(peer, "goes on: success, right") != NULL, "%s: %s", variant, peer);
}

/** Over tcp its key is revoked; in memory that the peer has mapped it has to be asked. Frames of 8
 *  MiB are more than sockets hold, so that one is cut either way. */
static void a_bucket_is_given_up(void)
{
    for (size_t i = 0; i < sizeof(bucket_variants) / sizeof(bucket_variants[0]); i++) {
        struct procs_job job = {.ranks = 2,
                                .settings = bucket_variants[i].settings,
                                .run = run_bucket,
                                .arg = (void *)&bucket_variants[i]};
        CHECK(run_job(&job, NULL), "%s: hangs", bucket_variants[i].settings[0]);
        check_bucket(&job, bucket_variants[i].settings[0], bucket_variants[i].cancel);
    }
}

static void a_stopped_peer_writes_nothing_more(void)
{
    run_over("WRING_PROVIDER=shm");
    run_over("WRING_PROVIDER=tcp");
}

/* ---- messages ---- */

#define MESSAGE ((size_t)32 << 20)
#define PART ((uint64_t)64 << 10) /* no less, and it is no record of a ring */

/** Of a message that the peer takes part in, and stands still. @return whether memory is ours */
static bool give_up(struct procs_rank *rank, struct wring_request *request, const char *what)
{
    uint64_t began_ns = wring_now_ns();
    enum wring_status status = wring_request_cancel(request);
    double ms = (double)(wring_now_ns() - began_ns) / 1e6;
    procs_say(rank, "%s: %s, %s", what, wring_status_text(status), ms < 10000 ? "in time" : "late");
    printf("%s, peer stopped: %s after %.1f ms\n", what, wring_status_text(status), ms);
    enum wring_status ended = wring_request_wait(request, 60 * WRING_NS_PER_S, NULL);
    procs_say(rank, "%s ended: %s", what, wring_status_text(ended));
    return status == WRING_OK;
}

/** For a while, by a receive that nobody sends for. */
static void drive(struct wring_group *world, uint64_t ms)
{
    struct wring_request *request;
    if (wring_recv(world, NULL, 0, WRING_ANY_SOURCE, 77, NULL, &request) != WRING_OK ||
        wring_request_wait(request, ms * WRING_NS_PER_MS, NULL) != WRING_ERR_TIMEOUT)
        return;
    wring_request_cancel(request);
    wring_request_wait(request, 0, NULL);
}

/** Often enough for what is there, whenever this process gets a core. */
static void drive_on(struct wring_group *world)
{
    for (int i = 0; i < 10; i++)
        drive(world, 20);
}

/** A receive into memory of wring's, which the peer has been granted, and a send that it has been
 *  offered. */
static int give_up_messages(struct procs_rank *rank, struct wring_session *session)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_request *received, *sent;
    void *in, *out;
    pid_t peer;

    if (wring_buffer_alloc(session, MESSAGE, &in) != WRING_OK ||
        wring_buffer_alloc(session, MESSAGE, &out) != WRING_OK ||
        wring_send(world, NULL, 0, 1, 1, NULL, NULL) != WRING_OK)
        return 4;
    if (wring_recv(world, &peer, sizeof(peer), 1, 1, NULL, NULL) != WRING_OK)
        return 5;
    while (!stands_still(peer)) /* then it has offered its message */
        drive(world, 20);
    if (wring_recv(world, in, MESSAGE, 1, 2, NULL, &received) != WRING_OK ||
        wring_send(world, out, MESSAGE, 1, 3, NULL, &sent) != WRING_OK)
        return 4;
    drive_on(world); /* let it be matched, and granted */
    bool ours = give_up(rank, received, "receive");
    give_up(rank, sent, "send");
    if (!ours)
        wring_buffer_free(session, in); /* there has to be something that the peer writes into */
    release(peer);
    if (ours) {
        look(rank, in, MESSAGE);
    } else {
        memset(in, PATTERN, MESSAGE);
        procs_say(rank, "freed memory is there");
    }
    wring_send(world, NULL, 0, 1, 4, NULL, NULL);
    wring_barrier(world, NULL, NULL);
    if (!ours)
        memset(in, PATTERN, MESSAGE);
    wring_session_close(session);
    return 0;
}

/** It stands still once it has offered its message: nobody drives it. */
static int offer_and_stop(struct procs_rank *rank, struct wring_session *session)
{
    struct wring_group *world = wring_session_world(session);
    static char out[MESSAGE];
    struct wring_request *sent;

    pid_t own = getpid();

    if (wring_recv(world, NULL, 0, 0, 1, NULL, NULL) != WRING_OK ||
        wring_send(world, &own, sizeof(own), 0, 1, NULL, NULL) != WRING_OK ||
        wring_send(world, out, MESSAGE, 0, 2, NULL, &sent) != WRING_OK)
        return 4;
    drive_on(world); /* the offer leaves */
    stand_still();
    wring_recv(world, NULL, 0, 0, 4, NULL, NULL);
    wring_request_cancel(sent); /* if no receive took it */
    enum wring_status status = wring_request_wait(sent, 60 * WRING_NS_PER_S, NULL);
    procs_say(rank, "peer: %s", wring_status_text(status));
    status = wring_barrier(world, NULL, NULL);
    procs_say(rank, "goes on: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

static int run_messages(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    (void)arg;

    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    return rank->rank == 0 ? give_up_messages(rank, session) : offer_and_stop(rank, session);
}

static void check_messages(const struct procs_job *job, const char *receive, const char *memory,
                           const char *send)
{
    const char *text = job->texts[0];
    CHECK(strstr(text, receive) != NULL && strstr(text, memory) != NULL, "%s", text);
    CHECK(strstr(text, send) != NULL, "%s", text);
    CHECK(strstr(text, "receive ended: cancelled") != NULL, "%s", text);
    CHECK(strstr(text, "send ended: cancelled") != NULL, "%s", text);
    CHECK(strstr(job->texts[1], "peer: cancelled") != NULL, "%s", job->texts[1]);
    CHECK(strstr(job->texts[1], "goes on: success") != NULL, "%s", job->texts[1]);
}

static void messages_are_given_up(void)
{
    static const char *const variants[] = {"WRING_PROVIDER=shm", "WRING_PROVIDER=tcp"};
    static const char *const receive[] = {"receive: object in use, in time", /* it is mapped */
                                          "receive: success, in time"};      /* and revoked */
    static const char *const memory[] = {"freed memory is there", "no byte has changed"};
    static const char *const send[] = {"send: object in use, in time", /* which the peer may read */
                                       "send: success, in time"};
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {variants[i], "WRING_PROGRESS=caller", NULL};
        struct procs_job job = {.ranks = 2, .settings = settings, .run = run_messages};
        CHECK(run_job(&job, NULL), "%s: hangs", variants[i]);
        CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%s: %d, %d", variants[i], job.codes[0],
              job.codes[1]);
        check_messages(&job, receive[i], memory[i], send[i]);
    }
}

/* ---- a message of which a part is there, and the next frame has begun ---- */

/** Begin to receive until a message is there in part when the peer stands still. */
static struct wring_request *catch_in_message(struct wring_session *session, unsigned char *in,
                                              pid_t peer)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_request *request;

    for (int i = 0; i < TRIES; i++) {
        uint64_t before = received_by(session);
        if (wring_recv(world, in, MESSAGE, 1, 2, NULL, &request) != WRING_OK)
            return NULL;
        while (!stands_still(peer))
            pause_ms(1);
        pause_ms(20); /* what the kernel has of it comes */
        enum wring_status status = wring_request_wait(request, 0, NULL);
        if (status == WRING_ERR_TIMEOUT && received_by(session) >= before + PART)
            return request;
        kill(peer, SIGCONT);
        if (status == WRING_ERR_TIMEOUT)
            status = wring_request_wait(request, 60 * WRING_NS_PER_S, NULL);
        if (status != WRING_OK)
            return NULL;
    }
    return NULL;
}

static int give_up_in_midst(struct procs_rank *rank, struct wring_session *session, pid_t peer)
{
    unsigned char *in = malloc(MESSAGE);
    struct wring_request *request = in != NULL ? catch_in_message(session, in, peer) : NULL;

    if (request == NULL)
        return 4;
    bool ours = give_up(rank, request, "receive");
    release(peer);
    if (ours) {
        look(rank, in, MESSAGE);
        free(in); /* by then the peer has put the rest of its frame */
    }
    enum wring_status status = wring_barrier(wring_session_world(session), NULL, NULL);
    procs_say(rank, "goes on: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

static int stop_in_messages(struct procs_rank *rank, struct wring_session *session)
{
    struct wring_group *world = wring_session_world(session);
    static char out[MESSAGE];
    enum wring_status status = WRING_OK;

    for (int i = 0; i < TRIES && status == WRING_OK && !atomic_load(let_go); i++) {
        struct wring_request *sent;
        if (wring_send(world, out, MESSAGE, 0, 2, NULL, &sent) != WRING_OK)
            return 4;
        pause_ms(1 + i % 10);
        stand_still();
        status = wring_request_wait(sent, 60 * WRING_NS_PER_S, NULL);
    }
    procs_say(rank, "peer: %s", wring_status_text(status));
    status = wring_barrier(world, NULL, NULL);
    procs_say(rank, "goes on: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

/** What each of two ranks does, of which rank 1 stands still in the middle. */
struct pair {
    int (*give_up)(struct procs_rank *rank, struct wring_session *session, pid_t peer);
    int (*stop)(struct procs_rank *rank, struct wring_session *session);
};

static int run_pair(struct procs_rank *rank, void *arg)
{
    const struct pair *pair = arg;
    struct wring_session *session;

    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    pid_t peer = exchange_pids(session, rank->rank);
    if (peer == 0)
        return 3;
    return rank->rank == 0 ? pair->give_up(rank, session, peer) : pair->stop(rank, session);
}

static void a_message_is_given_up_in_its_midst(void)
{
    const char *settings[] = {"WRING_PROVIDER=tcp", NULL};
    struct pair pair = {give_up_in_midst, stop_in_messages};
    struct procs_job job = {.ranks = 2, .settings = settings, .run = run_pair, .arg = &pair};

    CHECK(run_job(&job, "peer: success"), "hangs");
    CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%d, %d", job.codes[0], job.codes[1]);
    CHECK(strstr(job.texts[0], "receive: success, in time") != NULL, "%s", job.texts[0]);
    CHECK(strstr(job.texts[0], "receive ended: cancelled") != NULL, "%s", job.texts[0]);
    CHECK(strstr(job.texts[0], "no byte has changed") != NULL, "%s", job.texts[0]);
    CHECK(strstr(job.texts[1], "peer: cancelled") != NULL, "%s", job.texts[1]);
    for (int i = 0; i < 2; i++)
        CHECK(strstr(job.texts[i], "goes on: success") != NULL, "%s", job.texts[i]);
}

/* ---- a message that is half put ---- */

/** Send until a message is on its way when the peer stands still. */
static struct wring_request *catch_in_send(struct wring_session *session, unsigned char *out,
                                           pid_t peer)
{
    struct wring_request *request;

    for (int i = 0; i < TRIES; i++) {
        memset(out, 1, MESSAGE);
        if (wring_send(wring_session_world(session), out, MESSAGE, 1, 2, NULL, &request) !=
            WRING_OK)
            return NULL;
        enum wring_status status = await_stop(request, peer);
        if (status != WRING_OK)
            return status == WRING_ERR_TIMEOUT ? request : NULL;
    }
    return NULL;
}

static int give_up_half_put(struct procs_rank *rank, struct wring_session *session, pid_t peer)
{
    unsigned char *out = malloc(MESSAGE);
    struct wring_request *request = out != NULL ? catch_in_send(session, out, peer) : NULL;

    if (request == NULL)
        return 4;
    if (give_up(rank, request, "send")) {
        memset(out, PATTERN, MESSAGE);
        free(out);
    }
    release(peer);
    struct wring_group *world = wring_session_world(session);
    enum wring_status status = wring_send(world, NULL, 0, 1, 2, NULL, NULL);
    if (status == WRING_OK)
        status = wring_barrier(world, NULL, NULL);
    procs_say(rank, "goes on: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

/** The receive of what is taken back takes the next message, which is empty. */
static int stop_in_receives(struct procs_rank *rank, struct wring_session *session)
{
    struct wring_group *world = wring_session_world(session);
    static unsigned char in[MESSAGE];
    enum wring_status status = WRING_OK;
    struct wring_result result = WRING_RESULT_INIT;

    for (int i = 0; i < TRIES && status == WRING_OK && (i == 0 || result.bytes > 0); i++) {
        struct wring_request *received;
        uint64_t until = received_by(session) + PART;
        if (wring_recv(world, in, MESSAGE, 0, 2, NULL, &received) != WRING_OK)
            return 4;
        do
            status = wring_request_wait(received, 0, &result);
        while (status == WRING_ERR_TIMEOUT && received_by(session) < until && sched_yield() == 0);
        stand_still();
        if (status == WRING_ERR_TIMEOUT)
            status = wring_request_wait(received, 60 * WRING_NS_PER_S, &result);
    }
    size_t put = 0;
    while (put < MESSAGE && in[put] < 2)
        put++;
    procs_say(rank, "peer: %s, %zu bytes are as they were sent", wring_status_text(status), put);
    status = wring_barrier(world, NULL, NULL);
    procs_say(rank, "goes on: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

static void a_message_is_given_up_half_put(void)
{
    static const char *const checks[] = {"WRING_TCP_CHECKSUM=off", "WRING_TCP_CHECKSUM=on"};
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {"WRING_PROVIDER=tcp", checks[i], NULL};
        struct pair pair = {give_up_half_put, stop_in_receives};
        struct procs_job job = {.ranks = 2, .settings = settings, .run = run_pair, .arg = &pair};

        CHECK(run_job(&job, NULL), "hangs");
        CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%d, %d", job.codes[0], job.codes[1]);
        CHECK(strstr(job.texts[0], "send: success, in time") != NULL, "%s", job.texts[0]);
        CHECK(strstr(job.texts[0], "send ended: cancelled") != NULL, "%s", job.texts[0]);
        CHECK(strstr(job.texts[1], "peer: success, 33554432 bytes are as") != NULL, "%s",
              job.texts[1]);
        for (int rank = 0; rank < 2; rank++)
            CHECK(strstr(job.texts[rank], "goes on: success") != NULL, "%s", job.texts[rank]);
    }
}

static const struct wring_test_case cases[] = {
    {"messages_are_given_up", messages_are_given_up},
    {"a_message_is_given_up_in_its_midst", a_message_is_given_up_in_its_midst},
    {"a_message_is_given_up_half_put", a_message_is_given_up_half_put},
    {"a_bucket_is_given_up", a_bucket_is_given_up},
    {"a_stopped_peer_writes_nothing_more", a_stopped_peer_writes_nothing_more},
    {0},
};

int main(int argc, char **argv)
{
    let_go = mmap(NULL, sizeof(*let_go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (let_go == MAP_FAILED)
        return 1;
    return wring_test_main(argc, argv, cases);
}
