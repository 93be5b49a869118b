/* SPDX-License-Identifier: Apache-2.0 */
/* A group is aborted while a device still works for a call of it: the memory is the caller's once
 * that job has ended, and not before. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/lib/wrapped_executor.h"

#define WAIT_NS (60 * WRING_NS_PER_S)
#define ELEMS 300u
#define SPOILT 0xA5

/** A device that does not end the first job of a kind before it is told to. */
struct holding {
    struct wrapped_executor wrapped;
    struct wring_executor_ops ops;
    enum wring_job_kind kind;
    struct wring_job *job;
    atomic_bool has, let_go;
};

static void holding_submit(struct wring_executor *base, struct wring_job *const *jobs, size_t n)
{
    struct holding *holding = (struct holding *)base;
    for (size_t i = 0; i < n; i++) {
        if (jobs[i]->kind != holding->kind || atomic_load(&holding->has)) {
            wrapped_executor_ops.submit(base, &jobs[i], 1);
            continue;
        }
        holding->job = jobs[i];
        atomic_store(&holding->has, true);
    }
}

static size_t holding_poll(struct wring_executor *base, struct wring_job **done, size_t max)
{
    struct holding *holding = (struct holding *)base;
    if (holding->job != NULL && atomic_load(&holding->let_go)) {
        wrapped_executor_ops.submit(base, &holding->job, 1);
        holding->job = NULL;
    }
    return wrapped_executor_ops.poll(base, done, max);
}

/** So that it is polled again. */
static void holding_arm(struct wring_executor *base, struct wring_wait_set *set)
{
    (void)base;
    set->busy = true;
}

/** The session frees it. */
static struct holding *plug_in(struct wring_session *session, enum wring_job_kind kind)
{
    struct holding *holding = calloc(1, sizeof(*holding));
    CHECK(holding != NULL, "no memory");
    if (holding == NULL)
        return NULL;
    holding->ops = wrapped_executor_ops;
    holding->ops.submit = holding_submit;
    holding->ops.poll = holding_poll;
    holding->ops.arm = holding_arm;
    holding->wrapped.base.ops = &holding->ops;
    holding->wrapped.inner = session->executor;
    holding->kind = kind;
    wring_progress_lock(session->progress);
    session->executor = session->engine->queues[0].executor = &holding->wrapped.base;
    wring_progress_unlock(session->progress);
    return holding;
}

/** Data[0] is what it contributes, in its place in the result. */
static void abort_at_work(struct wring_session *session, struct wring_group *group,
                          enum wring_job_kind kind)
{
    static const struct wring_call how = {.codec = "bf16"};
    static float data[2 * ELEMS];
    struct wring_request *request;
    struct holding *holding = plug_in(session, kind);
    uint64_t until_ns = wring_deadline_in(WAIT_NS);

    REQUIRE(holding != NULL, "memory");
    REQUIRE(wring_allgather(group, data, data, ELEMS, WRING_F32, &how, &request) == WRING_OK,
            "allgather");
    while (!atomic_load(&holding->has) && wring_now_ns() < until_ns)
        CHECK(wring_request_test(request, NULL) == WRING_ERR_AGAIN, "it has ended");
    CHECK(atomic_load(&holding->has), "there is no job");
    enum wring_status status = wring_group_abort(group);
    CHECK(status == WRING_ERR_BUSY, "aborted while the device is at work: %s",
          wring_status_text(status));
    atomic_store(&holding->let_go, true);
    while ((status = wring_group_abort(group)) == WRING_ERR_BUSY && wring_now_ns() < until_ns)
        sched_yield();
    CHECK(status == WRING_OK, "aborted after it: %s", wring_status_text(status));
    CHECK(wring_request_wait(request, WAIT_NS, NULL) == WRING_ERR_CANCELLED, "the call");
    memset(data, SPOILT, sizeof(data));
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    for (size_t i = 0; i < sizeof(data); i++)
        CHECK(((unsigned char *)data)[i] == SPOILT, "byte %zu has changed", i);
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    uint32_t both[] = {0, 1};
    struct wring_group *group;

    REQUIRE(wring_group_create(wring_session_world(session), both, 2, 1, WAIT_NS, &group) ==
                WRING_OK,
            "group");
    REQUIRE(wring_barrier(group, NULL, NULL) == WRING_OK, "barrier");
    REQUIRE(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK,
            "both have left the group's");
    if (rank == 0)
        abort_at_work(session, group, *(enum wring_job_kind *)arg);
    else
        CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    wring_group_destroy(group);
}

static void run(enum wring_job_kind kind)
{
    static const char *const settings[][3] = {
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=thread", NULL},
        {"WRING_PROVIDER=tcp", "WRING_PROGRESS=thread", NULL},
        {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", NULL},
    };

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct wring_test_job job = {
            .ranks = 2, .settings = settings[i], .arg = &kind, .run = run_rank};
        wring_test_run_ranks(&job);
    }
}

static void while_it_encodes(void)
{
    run(WRING_JOB_ENCODE);
}

/** Its own piece, which is on its way to the other rank meanwhile. */
static void while_it_decodes_its_own(void)
{
    run(WRING_JOB_DECODE);
}

static const struct wring_test_case cases[] = {
    {"while_it_encodes", while_it_encodes},
    {"while_it_decodes_its_own", while_it_decodes_its_own},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
