/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose application has an event loop of its own: it sleeps on the session's descriptor, and
 * neither waits nor tests before that says so. */
#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 2
#define STEPS 20
#define SMALL 16u
#define LARGE 300000u
#define WAIT_NS (60 * WRING_NS_PER_S)
#define LATE_MAX 8 /* completions that may be told late: no more are under way */

struct loop {
    struct wring_session *session;
    int fd;
    unsigned turns, idle; /* of the loop; of them, those that slept until the deadline */
    uint64_t until_ns;
};

static bool is_readable(const struct loop *loop)
{
    struct pollfd one = {loop->fd, POLLIN, 0};
    return poll(&one, 1, 0) == 1;
}

/** Readable, as soon as whoever ended it comes to say so: a waiter may see the end before. */
static bool becomes_readable(const struct loop *loop)
{
    struct pollfd one = {loop->fd, POLLIN, 0};
    return poll(&one, 1, (int)(WAIT_NS / WRING_NS_PER_MS)) == 1;
}

/** Serve it until it is silent: once, and again for what ended before and is told only now. */
static bool falls_silent(const struct loop *loop)
{
    for (int i = 0; i < LATE_MAX; i++) {
        wring_session_progress(loop->session);
        if (!is_readable(loop))
            return true;
    }
    return false;
}

/** Sleep as long as the session allows, and serve it. @return false: too long has nothing ended */
static bool turn(struct loop *loop)
{
    struct pollfd one = {loop->fd, POLLIN, 0};
    uint64_t next_ns = wring_session_next_ns(loop->session);
    uint64_t ms = next_ns / WRING_NS_PER_MS + (next_ns % WRING_NS_PER_MS > 0);

    int ready = poll(&one, 1, ms < 2000 ? (int)ms : 2000);
    loop->turns++;
    loop->idle += ready == 0;
    enum wring_status status = wring_session_progress(loop->session);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    return status == WRING_OK && wring_now_ns() < loop->until_ns;
}

static void on_done(void *arg, const struct wring_result *result)
{
    CHECK(result->status == WRING_OK, "%s", wring_status_text(result->status));
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static struct wring_bucket *add(struct wring_session *session, const char *name, uint64_t elems,
                                atomic_uint *calls)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;

    params.name = name;
    params.elems = elems;
    params.done = calls != NULL ? on_done : NULL;
    params.done_arg = calls;
    CHECK(wring_buffer_alloc(session, elems * sizeof(float), &params.data) == WRING_OK, "alloc");
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    return bucket;
}

/** A bucket without a callback is over once the descriptor has told so. */
static void await_bucket(struct loop *loop, struct wring_bucket *bucket)
{
    enum wring_status status;
    while ((status = wring_bucket_test(bucket, NULL)) == WRING_ERR_AGAIN)
        if (!turn(loop))
            break;
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
}

/** Callbacks alone say what is over: nothing is tested, so nothing but the loop drives. */
static void await_calls(struct loop *loop, const atomic_uint *calls, unsigned n)
{
    while (atomic_load(calls) < n)
        if (!turn(loop))
            break;
    CHECK(atomic_load(calls) == n, "%u calls, not %u", atomic_load(calls), n);
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t elems[] = {SMALL, LARGE, SMALL, LARGE};
    static const char *const names[] = {"small", "large", "small, told", "large, told"};
    struct wring_group *world = wring_session_world(session);
    struct loop loop = {.session = session, .until_ns = wring_deadline_in(WAIT_NS)};
    struct wring_bucket *buckets[4];
    atomic_uint calls[3] = {0};
    float data[8] = {0};
    const bool *threaded = arg;

    loop.fd = wring_session_fd(session);
    REQUIRE(loop.fd > 2 && wring_session_fd(session) == loop.fd, "descriptor %d", loop.fd);
    for (int i = 0; i < 4; i++)
        buckets[i] = add(session, names[i], elems[i], i >= 2 ? &calls[i - 2] : NULL);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    CHECK((wring_session_next_ns(session) == WRING_FOREVER) == *threaded, "next deadline");
    for (unsigned step = 1; step <= STEPS; step++) {
        struct wring_call how = {.struct_bytes = sizeof(how), .done = on_done};
        struct wring_request *request;
        how.done_arg = &calls[2];
        REQUIRE(wring_allreduce(world, data, data, 8, WRING_F32, WRING_SUM, &how, &request) ==
                    WRING_OK,
                "call");
        for (int i = 0; i < 4; i++)
            REQUIRE(wring_bucket_post(buckets[(i + (int)rank) % 4]) == WRING_OK, "post");
        await_calls(&loop, &calls[0], step);
        await_calls(&loop, &calls[1], step);
        await_bucket(&loop, buckets[0]);
        await_bucket(&loop, buckets[1]);
        await_calls(&loop, &calls[2], step);
        CHECK(wring_request_test(request, NULL) == WRING_OK, "called, and not done");
    }
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (*threaded) { /* nothing more ends: it falls silent, once it has been served */
        CHECK(falls_silent(&loop), "readable for nothing");
        REQUIRE(wring_bucket_post(buckets[0]) == WRING_OK, "post");
        CHECK(wring_bucket_wait(buckets[0], WAIT_NS, NULL) == WRING_OK, "wait");
        CHECK(becomes_readable(&loop), "it ended, and that is not told");
        CHECK(falls_silent(&loop), "still readable");
    }
    CHECK(loop.idle < loop.turns, "rank %u: all of %u turns slept through", rank, loop.turns);
}

static void run(const char *provider, const char *progress, bool threaded)
{
    const char *settings[] = {provider, progress, NULL};
    struct wring_test_job job = {
        .ranks = RANKS, .settings = settings, .arg = &threaded, .run = run_rank};
    wring_test_run_ranks(&job);
}

static void with_a_thread(void)
{
    run("WRING_PROVIDER=shm", "WRING_PROGRESS=thread", true);
    run("WRING_PROVIDER=tcp", "WRING_PROGRESS=thread", true);
}

static void without_one(void)
{
    run("WRING_PROVIDER=shm", "WRING_PROGRESS=caller", false);
    run("WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", false);
}

static const struct wring_test_case cases[] = {
    {"with_a_thread", with_a_thread},
    {"without_one", without_one},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
