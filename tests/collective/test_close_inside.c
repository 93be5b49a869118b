/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are inside a session as another thread begins to close it: what they have begun ends
 * before they return. That thread stands still meanwhile, as a busy machine may have it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/session/session.h"
#include "tests/collective/planned_tensors.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/lib/wrapped_executor.h"

#define WAIT_NS (60 * WRING_NS_PER_S)

/* ---- buckets that travel as one ---- */

static const struct part all_in_one[] = {{TENSORS, "onebit+ef", "auto"}, {0}};

static void fill(const struct tensors *tensors, float value)
{
    for (int t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < sizes[t]; i++)
            tensors->data[t][i] = value;
}

static void check_sums(const struct tensors *tensors, float want)
{
    for (int t = 0; t < TENSORS; t++)
        CHECK(tensors->data[t][sizes[t] - 1] == want, "%s holds %g, not %g", names[t],
              tensors->data[t][sizes[t] - 1], want);
}

static void step(const struct tensors *tensors)
{
    for (int t = 0; t < TENSORS; t++)
        CHECK(wring_bucket_post(tensors->buckets[t]) == WRING_OK, "post");
    for (int t = 0; t < TENSORS; t++)
        CHECK(wring_bucket_wait(tensors->buckets[t], WAIT_NS, NULL) == WRING_OK, "wait");
}

/** The last one of a step is posted, tested and waited for by calls that are inside. */
static void step_inside(struct wring_session *session, const struct tensors *tensors,
                        atomic_bool *both)
{
    for (int t = 1; t < TENSORS; t++)
        CHECK(wring_bucket_post(tensors->buckets[t]) == WRING_OK, "post");
    REQUIRE(wring_session_enter(session) == WRING_OK, "enter");
    wring_callers_close(&session->callers);
    enum wring_status status = wring_bucket_post_inside(tensors->buckets[0]);
    CHECK(status == WRING_OK, "the last post: %s", wring_status_text(status));
    status = wring_bucket_test_inside(tensors->buckets[0]);
    CHECK(status == WRING_ERR_AGAIN, "tested under way: %s", wring_status_text(status));
    status = wring_bucket_wait_inside(tensors->buckets[0], 1);
    CHECK(status == WRING_ERR_TIMEOUT, "waited for under way: %s", wring_status_text(status));
    atomic_store(both, true);
    for (int t = 0; t < TENSORS; t++) {
        status = wring_bucket_wait_inside(tensors->buckets[t], WAIT_NS);
        CHECK(status == WRING_OK, "%s: %s", names[t], wring_status_text(status));
    }
    wring_session_leave(session, WRING_OK);
}

static void run_joined(struct wring_session *session, uint32_t rank, void *arg)
{
    atomic_bool *both = arg;
    struct tensors tensors;
    uint64_t until_ns = wring_deadline_in(WAIT_NS);

    REQUIRE(make_tensors(session, true, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    fill(&tensors, 1);
    step(&tensors);
    check_sums(&tensors, 2);
    fill(&tensors, 5);
    if (rank == 0) {
        step_inside(session, &tensors, both);
    } else {
        while (!atomic_load(both) && wring_now_ns() < until_ns)
            usleep(100);
        step(&tensors);
    }
    check_sums(&tensors, 10);
}

static void joined_steps_end_first(void)
{
    struct plan_of what = {.parts = all_in_one, .ranks = 2, .names = names, .executor = ""};
    char plan[64];

    write_plan(&what, plan, sizeof(plan));
    for (int i = 0; i < 2; i++) {
        const char *settings[] = {i == 0 ? "WRING_PROVIDER=shm" : "WRING_PROVIDER=tcp", plan,
                                  "WRING_ROLLBACK=on", NULL};
        atomic_bool both = false;
        struct wring_test_job job = {
            .ranks = 2, .settings = settings, .arg = &both, .run = run_joined};
        wring_test_run_ranks(&job);
    }
    remove_plan(plan);
}

/* ---- the trials of a commit ---- */

#define ELEMS 100000
#define POLLS 2000 /* for which a job takes: more than calls that do not wait for it have */

/** A device: the first encoding begins as the session is being closed, and takes a while. */
struct slow {
    struct wrapped_executor wrapped;
    struct wring_executor_ops ops;
    struct wring_session *session;
    struct wring_job *held;
    unsigned polls; /* since then */
    bool over;
    atomic_bool *told; /* if not NULL, it takes until that is set, or until `until_ns` */
    uint64_t until_ns;
};

static void slow_submit(struct wring_executor *base, struct wring_job *const *jobs, size_t n)
{
    struct slow *slow = (struct slow *)base;
    for (size_t i = 0; i < n; i++) {
        if (jobs[i]->kind != WRING_JOB_ENCODE || slow->held != NULL || slow->over) {
            wrapped_executor_ops.submit(base, &jobs[i], 1);
            continue;
        }
        slow->held = jobs[i];
        if (slow->told == NULL)
            wring_callers_close(&slow->session->callers);
    }
}

static bool is_due(struct slow *slow)
{
    if (slow->told != NULL)
        return atomic_load(slow->told) || wring_now_ns() >= slow->until_ns;
    return ++slow->polls == POLLS;
}

static size_t slow_poll(struct wring_executor *base, struct wring_job **done, size_t max)
{
    struct slow *slow = (struct slow *)base;
    if (slow->held != NULL && is_due(slow)) {
        slow->over = true;
        wrapped_executor_ops.submit(base, &slow->held, 1);
        slow->held = NULL;
    }
    return wrapped_executor_ops.poll(base, done, max);
}

/** So that it is polled again. */
static void slow_arm(struct wring_executor *base, struct wring_wait_set *set)
{
    (void)base;
    set->busy = true;
}

static struct slow *plug_in(struct wring_session *session)
{
    struct slow *slow = calloc(1, sizeof(*slow));
    CHECK(slow != NULL, "no memory");
    if (slow == NULL)
        return NULL;
    slow->ops = wrapped_executor_ops;
    slow->ops.name = "slow";
    slow->ops.submit = slow_submit;
    slow->ops.poll = slow_poll;
    slow->ops.arm = slow_arm;
    slow->wrapped.base.ops = &slow->ops;
    slow->wrapped.inner = session->executor;
    slow->session = session;
    wring_progress_lock(session->progress);
    session->executor = session->engine->queues[0].executor = &slow->wrapped.base;
    wring_progress_unlock(session->progress);
    return slow;
}

static void commit_beside(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *bucket;
    float *data = (float *)arg + rank * ELEMS;
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .codec = "onebit+ef"};
    struct slow *slow = rank == 0 ? plug_in(session) : NULL;

    REQUIRE(rank != 0 || slow != NULL, "memory");
    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    enum wring_status status = wring_session_commit(session);
    if (rank == 0) {
        CHECK(status == WRING_ERR_CLOSED, "commit: %s", wring_status_text(status));
        CHECK(slow->over, "no job has ended: %s",
              slow->held != NULL ? "commit returned before it" : "none has begun");
    } else {
        CHECK(status == WRING_ERR_PEER, "commit of the other: %s", wring_status_text(status));
    }
}

/** The trials' buckets and memory go once no job touches them. */
static void trials_end_first(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller",
                                           "WRING_BYPASS=auto", "WRING_ROLLBACK=on", NULL};
    float *data = calloc(2 * ELEMS, sizeof(*data));
    struct wring_test_job job = {
        .ranks = 2, .settings = settings, .arg = data, .run = commit_beside};

    REQUIRE(data != NULL, "memory");
    wring_test_run_ranks(&job);
    free(data);
}

/* ---- a device that does not end its jobs ---- */

#define STUCK_NS (10 * WRING_NS_PER_S) /* unless somebody is told */

struct stuck {
    float data[2][ELEMS];
    atomic_bool told;
    atomic_uint lines;
};

static void look_for_executor(void *arg, enum wring_log_level level, const char *module,
                              const char *text)
{
    struct stuck *stuck = arg;
    (void)level, (void)module;
    if (strstr(text, "executor slow has not ended 1 codec jobs") == NULL)
        return;
    atomic_fetch_add(&stuck->lines, 1);
    atomic_store(&stuck->told, true);
}

static void leave_job_behind(struct wring_session *session, uint32_t rank, void *arg)
{
    struct stuck *stuck = arg;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = {
        .name = "b", .data = stuck->data[rank], .elems = 1000, .codec = "int8"};

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (rank != 0)
        return;
    struct slow *slow = plug_in(session);
    REQUIRE(slow != NULL, "memory");
    slow->told = &stuck->told;
    slow->until_ns = wring_deadline_in(STUCK_NS);
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(slow->held != NULL, "there is no job");
}

static void close_says_whom_it_waits_for(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", NULL};
    struct stuck *stuck = calloc(1, sizeof(*stuck));
    struct wring_test_job job = {.ranks = 2,
                                 .settings = settings,
                                 .arg = stuck,
                                 .run = leave_job_behind,
                                 .log = look_for_executor,
                                 .log_arg = stuck};

    REQUIRE(stuck != NULL, "memory");
    wring_test_run_ranks(&job);
    CHECK(atomic_load(&stuck->lines) == 1, "%u lines name the executor",
          atomic_load(&stuck->lines));
    free(stuck);
}

/* ---- what the other rank hears ---- */

/** How far both are. */
struct ended {
    float data[2][ELEMS];
    atomic_bool gone, posted;
    atomic_uint blames; /* log lines */
};

static void await(atomic_bool *flag)
{
    uint64_t until_ns = wring_deadline_in(WAIT_NS);
    while (!atomic_load(flag) && wring_now_ns() < until_ns)
        usleep(100);
    CHECK(atomic_load(flag), "the other does not come");
}

static void look_for_blame(void *arg, enum wring_log_level level, const char *module,
                           const char *text)
{
    struct ended *ended = arg;
    (void)level, (void)module;
    if (strstr(text, "belong") != NULL || strstr(text, "gave up") != NULL)
        atomic_fetch_add(&ended->blames, 1);
}

/** Rank 0 has ended all steps and its channels go, as in a commit that is turned out; then comes
 *  what rank 1 sends there. */
static void send_to_nobody(struct wring_session *session, uint32_t rank, void *arg)
{
    struct ended *ended = arg;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = {
        .name = "b", .data = ended->data[rank], .elems = ELEMS, .codec = "int8"};

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (rank == 0) {
        wring_progress_stop(session->progress);
        wring_progress_lock(session->progress);
        wring_engine_remove_channel(session->engine, &bucket->scatter);
        wring_engine_remove_channel(session->engine, &bucket->gather);
        wring_progress_unlock(session->progress);
        atomic_store(&ended->gone, true);
        await(&ended->posted);
        return;
    }
    await(&ended->gone);
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    atomic_store(&ended->posted, true);
    enum wring_status status = wring_bucket_wait(bucket, WAIT_NS, NULL);
    CHECK(status == WRING_ERR_PEER, "wait: %s", wring_status_text(status));
    wring_session_error(session, &detail);
    CHECK(detail.rank == 0 && strstr(detail.text, "closed its session") != NULL,
          "rank 1 blames %d: %s", (int)detail.rank, detail.text);
}

static void nobody_is_blamed_for_what_comes_late(void)
{
    static const char *const settings[][3] = {
        {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", NULL},
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct ended *ended = calloc(1, sizeof(*ended));
        struct wring_test_job job = {.ranks = 2,
                                     .settings = settings[i],
                                     .arg = ended,
                                     .run = send_to_nobody,
                                     .log = look_for_blame,
                                     .log_arg = ended};
        REQUIRE(ended != NULL, "memory");
        wring_test_run_ranks(&job);
        CHECK(atomic_load(&ended->blames) == 0, "%s: %u lines blame a rank that did nothing",
              settings[i][0], atomic_load(&ended->blames));
        free(ended);
    }
}

static const struct wring_test_case cases[] = {
    {"joined_steps_end_first", joined_steps_end_first},
    {"trials_end_first", trials_end_first},
    {"close_says_whom_it_waits_for", close_says_whom_it_waits_for},
    {"nobody_is_blamed_for_what_comes_late", nobody_is_blamed_for_what_comes_late},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
