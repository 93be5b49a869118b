/* SPDX-License-Identifier: Apache-2.0 */
/* A call of 64 MiB is cancelled while its peer stands still in the midst of it: either its memory
 * is the caller's, and no byte of it changes any more, or the call says that it is not. The same of
 * a bucket's step, of sends and receives. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

/** Does no byte change for a while, in which the peer goes on? */
static void look(struct procs_rank *rank, unsigned char *bytes, size_t n)
{
    uint64_t until_ns = wring_deadline_in(LOOK_NS);
    memset(bytes, PATTERN, n);
    size_t changed = n;
    while (changed == n && wring_now_ns() < until_ns) {
        changed = find_changed(bytes, n);
        pause_ms(20);
    }
    procs_say(rank, changed == n ? "no byte has changed" : "byte %zu has changed", changed);
}

static int run_canceller(struct procs_rank *rank, struct wring_session *session, float *data,
                         struct wring_group *group)
{
    struct wring_request *request;

    enum wring_status status =
        wring_allreduce(group, data, data, ELEMS, WRING_F32, WRING_SUM, NULL, &request);
    if (status != WRING_OK)
        return 4;
    pause_ms(100);
    uint64_t began_ns = wring_now_ns();
    status = wring_request_cancel(request);
    double ms = (double)(wring_now_ns() - began_ns) / 1e6;
    procs_say(rank, "cancel: %s, %s", wring_status_text(status), ms < 10000 ? "in time" : "late");
    printf("64 MiB, peer stopped: %s after %.1f ms\n", wring_status_text(status), ms);
    if (status == WRING_OK)
        look(rank, (unsigned char *)data, ELEMS * sizeof(*data));
    status = wring_request_wait(request, 60 * WRING_NS_PER_S, NULL);
    procs_say(rank, "wait: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

/** It stands still soon after its call has begun. */
static int run_stopped(struct procs_rank *rank, struct wring_session *session, float *data,
                       struct wring_group *group)
{
    struct wring_request *request;
    enum wring_status status =
        wring_allreduce(group, data, data, ELEMS, WRING_F32, WRING_SUM, NULL, &request);

    if (status == WRING_OK) {
        pause_ms(5);
        kill(getpid(), SIGSTOP);
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
    int code = rank->rank == 0 ? run_canceller(rank, session, data, group)
                               : run_stopped(rank, session, data, group);
    free(data);
    return code;
}

/* ---- a bucket ---- */

static struct wring_bucket *make_bucket(struct wring_session *session, float **data)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket;
    const uint32_t both[] = {0, 1};
    void *memory;

    if (wring_buffer_alloc(session, ELEMS * sizeof(**data), &memory) != WRING_OK ||
        wring_group_create(wring_session_world(session), both, 2, 1, WRING_FOREVER,
                           &params.group) != WRING_OK)
        return NULL;
    *data = params.data = memory;
    params.name = "large";
    params.elems = ELEMS;
    if (wring_bucket_register(session, &params, &bucket) != WRING_OK ||
        wring_session_commit(session) != WRING_OK || wring_bucket_post(bucket) != WRING_OK ||
        wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL) != WRING_OK)
        return NULL;
    return bucket;
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

/** Post until a step is under way when the peer stands still. */
static bool catch_in_step(struct wring_bucket *bucket, pid_t peer)
{
    for (int i = 0; i < TRIES; i++) {
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

/** One whose peer stands still, and may write into its data once it goes on. */
static int cancel_bucket(struct procs_rank *rank, struct wring_session *session,
                         struct wring_bucket *bucket, float *data, pid_t peer)
{
    if (!catch_in_step(bucket, peer))
        return 4;
    uint64_t began_ns = wring_now_ns();
    enum wring_status status = wring_bucket_cancel(bucket);
    double ms = (double)(wring_now_ns() - began_ns) / 1e6;
    procs_say(rank, "cancel: %s, %s", wring_status_text(status),
              ms >= 50 && ms < 10000 ? "in time" : "late");
    printf("bucket of 64 MiB, peer stopped: %s after %.1f ms\n", wring_status_text(status), ms);
    wring_buffer_free(session, data); /* it is there nevertheless, whatever the peer writes */
    kill(peer, SIGCONT);
    uint64_t until_ns = wring_deadline_in(60 * WRING_NS_PER_S);
    while (status == WRING_ERR_BUSY && wring_now_ns() < until_ns)
        status = wring_bucket_cancel(bucket);
    procs_say(rank, "later: %s", wring_status_text(status));
    look(rank, (unsigned char *)data, ELEMS * sizeof(*data));
    status = wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL);
    procs_say(rank, "wait: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

/** It stands still in the midst of each, as far as that can be told. */
static int stop_in_steps(struct procs_rank *rank, struct wring_session *session,
                         struct wring_bucket *bucket)
{
    enum wring_status status = WRING_OK;
    for (int i = 0; i < TRIES && status == WRING_OK; i++) {
        status = wring_bucket_post(bucket);
        if (status != WRING_OK)
            break;
        pause_ms(1);
        kill(getpid(), SIGSTOP);
        status = wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL);
    }
    procs_say(rank, "peer: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

static int run_bucket(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    float *data = NULL;
    (void)arg;

    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    struct wring_bucket *bucket = make_bucket(session, &data);
    pid_t peer = bucket != NULL ? exchange_pids(session, rank->rank) : 0;
    if (peer == 0)
        return 3;
    return rank->rank == 0 ? cancel_bucket(rank, session, bucket, data, peer)
                           : stop_in_steps(rank, session, bucket);
}

/** The peer goes on in the midst of the look. */
static void wake(const struct procs_job *job)
{
    uint64_t until_ns = wring_deadline_in(DEADLINE_S * WRING_NS_PER_S);
    while (!stands_still(job->pids[1]) && wring_now_ns() < until_ns)
        pause_ms(1);
    pause_ms(700);
    kill(job->pids[1], SIGCONT);
}

static void run_over(const char *provider)
{
    const char *settings[] = {provider, NULL};
    struct procs_job job = {.ranks = 2, .settings = settings, .run = run, .meddle = wake};

    CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", provider);
    CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%s: %d, %d", provider, job.codes[0],
          job.codes[1]);
    bool ours = strstr(job.texts[0], "cancel: success, in time") != NULL &&
                strstr(job.texts[0], "no byte has changed") != NULL;
    bool busy = strstr(job.texts[0], "cancel: object in use, in time") != NULL;
    CHECK(ours || busy, "%s: %s", provider, job.texts[0]);
    CHECK(strstr(job.texts[0], "wait: cancelled") != NULL, "%s: %s", provider, job.texts[0]);
    CHECK(strstr(job.texts[1], "peer: cancelled") != NULL, "%s: %s", provider, job.texts[1]);
}

static void a_bucket_is_given_up(void)
{
    static const char *const ways[] = {"WRING_PROVIDER=shm", "WRING_PROVIDER=tcp"};
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {ways[i], NULL};
        struct procs_job job = {.ranks = 2, .settings = settings, .run = run_bucket};
        CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", ways[i]);
        CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%s: %d, %d", ways[i], job.codes[0],
              job.codes[1]);
        bool busy = strstr(job.texts[0], "cancel: object in use, in time") != NULL;
        CHECK(busy && strstr(job.texts[0], "later: success") != NULL, "%s: %s", ways[i],
              job.texts[0]);
        CHECK(strstr(job.texts[0], "no byte has changed") != NULL, "%s: %s", ways[i], job.texts[0]);
        CHECK(strstr(job.texts[0], "wait: cancelled") != NULL, "%s: %s", ways[i], job.texts[0]);
        CHECK(strstr(job.texts[1], "peer: cancelled") != NULL, "%s: %s", ways[i], job.texts[1]);
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
    drive(world, 100); /* let it be matched, and granted */
    bool ours = give_up(rank, received, "receive");
    give_up(rank, sent, "send");
    if (!ours)
        wring_buffer_free(session, in); /* there has to be something that the peer writes into */
    kill(peer, SIGCONT);
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
    drive(world, 100); /* the offer leaves */
    kill(own, SIGSTOP);
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
    static const char *const ways[] = {"WRING_PROVIDER=shm", "WRING_PROVIDER=tcp"};
    static const char *const receive[] = {"receive: object in use, in time", /* it is mapped */
                                          "receive: success, in time"};      /* and revoked */
    static const char *const memory[] = {"freed memory is there", "no byte has changed"};
    static const char *const send[] = {"send: object in use, in time", /* which the peer may read */
                                       "send: success, in time"};
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {ways[i], "WRING_PROGRESS=caller", NULL};
        struct procs_job job = {.ranks = 2, .settings = settings, .run = run_messages};
        CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", ways[i]);
        CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%s: %d, %d", ways[i], job.codes[0],
              job.codes[1]);
        check_messages(&job, receive[i], memory[i], send[i]);
    }
}

/* ---- a message of which a part is there, and the next frame has begun ---- */

static uint64_t received_by(struct wring_session *session)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    wring_session_stats(session, &stats);
    return stats.wire_bytes_received;
}

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
    kill(peer, SIGCONT);
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

    for (int i = 0; i < TRIES && status == WRING_OK; i++) {
        struct wring_request *sent;
        if (wring_send(world, out, MESSAGE, 0, 2, NULL, &sent) != WRING_OK)
            return 4;
        pause_ms(1 + i % 10);
        kill(getpid(), SIGSTOP);
        status = wring_request_wait(sent, 60 * WRING_NS_PER_S, NULL);
    }
    procs_say(rank, "peer: %s", wring_status_text(status));
    status = wring_barrier(world, NULL, NULL);
    procs_say(rank, "goes on: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

static int run_midst(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    (void)arg;

    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    pid_t peer = exchange_pids(session, rank->rank);
    if (peer == 0)
        return 3;
    return rank->rank == 0 ? give_up_in_midst(rank, session, peer)
                           : stop_in_messages(rank, session);
}

static void a_message_is_given_up_in_its_midst(void)
{
    const char *settings[] = {"WRING_PROVIDER=tcp", NULL};
    struct procs_job job = {.ranks = 2, .settings = settings, .run = run_midst};

    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%d, %d", job.codes[0], job.codes[1]);
    CHECK(strstr(job.texts[0], "receive: success, in time") != NULL, "%s", job.texts[0]);
    CHECK(strstr(job.texts[0], "receive ended: cancelled") != NULL, "%s", job.texts[0]);
    CHECK(strstr(job.texts[0], "no byte has changed") != NULL, "%s", job.texts[0]);
    CHECK(strstr(job.texts[1], "peer: cancelled") != NULL, "%s", job.texts[1]);
    for (int i = 0; i < 2; i++)
        CHECK(strstr(job.texts[i], "goes on: success") != NULL, "%s", job.texts[i]);
}

static const struct wring_test_case cases[] = {
    {"messages_are_given_up", messages_are_given_up},
    {"a_message_is_given_up_in_its_midst", a_message_is_given_up_in_its_midst},
    {"a_bucket_is_given_up", a_bucket_is_given_up},
    {"a_stopped_peer_writes_nothing_more", a_stopped_peer_writes_nothing_more},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
