/* SPDX-License-Identifier: Apache-2.0 */
/* A call of 64 MiB is cancelled while its peer stands still in the midst of it: either its memory
 * is the caller's, and no byte of it changes any more, or the call says that it is not. */
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

/** One whose peer stands still, and may write into its data once it goes on. */
static int cancel_bucket(struct procs_rank *rank, struct wring_session *session,
                         struct wring_bucket *bucket, float *data)
{
    if (wring_bucket_post(bucket) != WRING_OK)
        return 4;
    pause_ms(100);
    uint64_t began_ns = wring_now_ns();
    enum wring_status status = wring_bucket_cancel(bucket);
    double ms = (double)(wring_now_ns() - began_ns) / 1e6;
    procs_say(rank, "cancel: %s, %s", wring_status_text(status), ms < 10000 ? "in time" : "late");
    printf("bucket of 64 MiB, peer stopped: %s after %.1f ms\n", wring_status_text(status), ms);
    if (status == WRING_ERR_BUSY) { /* it is there nevertheless, whatever the peer writes */
        wring_buffer_free(session, data);
        pause_ms(1000);
        memset(data, PATTERN, ELEMS * sizeof(*data));
        for (int i = 0; i < 1000 && status == WRING_ERR_BUSY; i++)
            status = wring_bucket_cancel(bucket);
        procs_say(rank, "later: %s", wring_status_text(status));
    }
    look(rank, (unsigned char *)data, ELEMS * sizeof(*data));
    status = wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL);
    procs_say(rank, "wait: %s", wring_status_text(status));
    wring_session_close(session);
    return 0;
}

static int stop_in_step(struct procs_rank *rank, struct wring_session *session,
                        struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post(bucket);
    if (status == WRING_OK) {
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
    if (bucket == NULL)
        return 3;
    return rank->rank == 0 ? cancel_bucket(rank, session, bucket, data)
                           : stop_in_step(rank, session, bucket);
}

/** The peer goes on in the midst of the look. */
static void wake(const struct procs_job *job)
{
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
        struct procs_job job = {
            .ranks = 2, .settings = settings, .run = run_bucket, .meddle = wake};
        CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", ways[i]);
        CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%s: %d, %d", ways[i], job.codes[0],
              job.codes[1]);
        bool ours = strstr(job.texts[0], "cancel: success, in time") != NULL;
        bool busy = strstr(job.texts[0], "cancel: object in use, in time") != NULL &&
                    strstr(job.texts[0], "later: success") != NULL;
        CHECK((ours || busy) && strstr(job.texts[0], "no byte has changed") != NULL, "%s: %s",
              ways[i], job.texts[0]);
    }
}

static void a_stopped_peer_writes_nothing_more(void)
{
    run_over("WRING_PROVIDER=shm");
    run_over("WRING_PROVIDER=tcp");
}

/* ---- messages ---- */

#define MESSAGE ((size_t)32 << 20)

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
    if (ours) {
        look(rank, in, MESSAGE);
    } else { /* the peer goes on meanwhile, and there has to be something that it writes into */
        wring_buffer_free(session, in);
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

static void wake_later(const struct procs_job *job)
{
    pause_ms(1500);
    kill(job->pids[1], SIGCONT);
}

static void check_messages(const struct procs_job *job, const char *receive, const char *send)
{
    const char *text = job->texts[0];
    bool ours = strstr(text, "receive: success, in time") != NULL &&
                strstr(text, "no byte has changed") != NULL;
    bool busy = strstr(text, receive) != NULL && strstr(text, "freed memory is there") != NULL;
    CHECK(ours || busy, "%s", text);
    CHECK(strstr(text, "send: success, in time") != NULL || strstr(text, send) != NULL, "%s", text);
    CHECK(strstr(text, "receive ended: cancelled") != NULL, "%s", text);
    CHECK(strstr(text, "send ended: cancelled") != NULL, "%s", text);
    CHECK(strstr(job->texts[1], "peer: cancelled") != NULL, "%s", job->texts[1]);
    CHECK(strstr(job->texts[1], "goes on: success") != NULL, "%s", job->texts[1]);
}

static void messages_are_given_up(void)
{
    static const char *const ways[] = {"WRING_PROVIDER=shm", "WRING_PROVIDER=tcp"};
    static const char *const busy[] = {"send: object in use, in time", "-"}; /* no tcp peer reads */
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {ways[i], "WRING_PROGRESS=caller", NULL};
        struct procs_job job = {
            .ranks = 2, .settings = settings, .run = run_messages, .meddle = wake_later};
        CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", ways[i]);
        CHECK(job.codes[0] == 0 && job.codes[1] == 0, "%s: %d, %d", ways[i], job.codes[0],
              job.codes[1]);
        check_messages(&job, "receive: object in use, in time", busy[i]);
    }
}

static const struct wring_test_case cases[] = {
    {"messages_are_given_up", messages_are_given_up},
    {"a_bucket_is_given_up", a_bucket_is_given_up},
    {"a_stopped_peer_writes_nothing_more", a_stopped_peer_writes_nothing_more},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
