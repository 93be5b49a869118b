/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that nobody waits for, in every state: closing frees them. And groups that are destroyed
 * before their requests were waited for. Sanitizers see what is lost or used too late. */
#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define REQUESTS 500
#define DEADLINE_NS (60 * WRING_NS_PER_S)
#define LEAK_BYTES (40u << 10) /* less than half of what the requests of a rank take */

static const char *const providers[][3] = {
    {"WRING_PROVIDER=shm", NULL},
    {"WRING_PROVIDER=tcp", NULL},
    {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", NULL},
};

#define PROVIDERS (sizeof(providers) / sizeof(providers[0]))

struct held {
    float data[REQUESTS][4];
    struct wring_request *requests[REQUESTS];
};

/** @return how many: all, unless the other rank has left and was heard to */
static size_t start(struct wring_group *group, struct held *held)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        enum wring_status status = wring_allreduce(group, held->data[i], held->data[i], 4,
                                                   WRING_F32, WRING_SUM, NULL, &held->requests[i]);
        CHECK(status == WRING_OK || status == WRING_ERR_PEER, "request %zu: %s", i,
              wring_status_text(status));
        if (status != WRING_OK)
            return i;
    }
    return REQUESTS;
}

static void wait_for(struct held *held, size_t i, enum wring_status want)
{
    enum wring_status status = wring_request_wait(held->requests[i], DEADLINE_NS, NULL);
    CHECK(status == want, "request %zu: %s", i, wring_status_text(status));
}

/** What the ranks' own memory and sessions leave behind. */
static size_t in_use(void)
{
    return mallinfo2().uordblks;
}

/** Twice, as the first time leaves behind what is made once for a process. */
static void run_everywhere(void (*run)(struct wring_session *, uint32_t, void *), uint32_t ranks)
{
    struct held *held = calloc(ranks, sizeof(*held));

    REQUIRE(held != NULL, "memory");
    for (size_t i = 0; i < PROVIDERS; i++) {
        struct wring_test_job job = {
            .ranks = ranks, .settings = providers[i], .run = run, .arg = held};
        wring_test_run_ranks(&job);
        size_t before = in_use();
        wring_test_run_ranks(&job);
        size_t after = in_use();
        CHECK(after < before + LEAK_BYTES, "%s: %zu bytes more", providers[i][0], after - before);
    }
    free(held);
}

/** The other rank makes none of the calls: one runs, and all others wait behind it. */
static void leave_unmet(struct wring_session *session, uint32_t rank, void *arg)
{
    if (rank == 0)
        start(wring_session_world(session), &((struct held *)arg)[0]);
}

static void running_and_waiting(void)
{
    run_everywhere(leave_unmet, 2);
}

static void leave_done(struct wring_session *session, uint32_t rank, void *arg)
{
    struct held *held = &((struct held *)arg)[rank];

    REQUIRE(start(wring_session_world(session), held) == REQUESTS, "requests");
    wait_for(held, REQUESTS - 1, WRING_OK); /* so all have ended, as they run in turn */
    for (size_t i = 0; i < REQUESTS / 4; i++)
        wait_for(held, 2 * i, WRING_OK); /* some are waited for */
    wring_barrier(wring_session_world(session), NULL, NULL);
}

static void done(void)
{
    run_everywhere(leave_done, 2);
}

/** Rank 1 leaves in the middle: the session of the others fails. */
static void leave_failed(struct wring_session *session, uint32_t rank, void *arg)
{
    struct held *held = &((struct held *)arg)[rank];

    if (rank == 1)
        return;
    size_t n = start(wring_session_world(session), held);
    for (size_t i = 0; i < n; i += 2)
        wait_for(held, i, WRING_ERR_PEER);
}

static void failed(void)
{
    run_everywhere(leave_failed, 3);
}

/** The group is destroyed while requests run and wait: they end as if it were there. */
static void destroy_early(struct wring_session *session, uint32_t rank, void *arg)
{
    struct held *held = &((struct held *)arg)[rank];
    uint32_t both[] = {0, 1};
    struct wring_group *world = wring_session_world(session), *group = NULL, *next = NULL;

    REQUIRE(wring_group_create(world, both, 2, 0, DEADLINE_NS, &group) == WRING_OK, "group");
    for (size_t i = 0; i < REQUESTS; i++)
        held->data[i][0] = (float)(rank + i);
    REQUIRE(start(group, held) == REQUESTS, "requests");
    wring_group_destroy(group);
    for (size_t i = 0; i < REQUESTS; i++) {
        wait_for(held, i, WRING_OK);
        CHECK(held->data[i][0] == (float)(2 * i + 1), "request %zu", i);
    }
    REQUIRE(wring_group_create(world, both, 2, 0, DEADLINE_NS, &next) == WRING_OK,
            "group after it");
    CHECK(wring_barrier(next, NULL, NULL) == WRING_OK, "barrier");
    wring_group_destroy(next);
}

static void of_a_destroyed_group(void)
{
    run_everywhere(destroy_early, 2);
}

/** And nobody waits for them at all. */
static void destroy_and_leave(struct wring_session *session, uint32_t rank, void *arg)
{
    struct held *held = &((struct held *)arg)[rank];
    uint32_t both[] = {0, 1};
    struct wring_group *world = wring_session_world(session), *group = NULL;

    REQUIRE(wring_group_create(world, both, 2, 0, DEADLINE_NS, &group) == WRING_OK, "group");
    if (rank == 0)
        start(group, held);
    wring_group_destroy(group);
}

static void of_a_destroyed_group_left(void)
{
    run_everywhere(destroy_and_leave, 2);
}

/** Buckets of a destroyed group go on until they are dropped. */
static void destroy_beside_bucket(struct wring_session *session, uint32_t rank, void *arg)
{
    struct held *held = &((struct held *)arg)[rank];
    uint32_t both[] = {0, 1};
    struct wring_group *world = wring_session_world(session), *group = NULL, *next = NULL;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    REQUIRE(wring_group_create(world, both, 2, 0, DEADLINE_NS, &group) == WRING_OK, "group");
    params.name = "b";
    params.data = held->data;
    params.elems = 4;
    params.group = group;
    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    wring_group_destroy(group);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(bucket, DEADLINE_NS, NULL) == WRING_OK, "wait");
    CHECK(wring_bucket_drop(bucket) == WRING_OK, "drop");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    REQUIRE(wring_group_create(world, both, 2, 0, DEADLINE_NS, &next) == WRING_OK,
            "group after it");
    wring_group_destroy(next);
}

static void bucket_of_a_destroyed_group(void)
{
    run_everywhere(destroy_beside_bucket, 2);
}

static const struct wring_test_case cases[] = {
    {"running_and_waiting", running_and_waiting},
    {"done", done},
    {"failed", failed},
    {"of_a_destroyed_group", of_a_destroyed_group},
    {"of_a_destroyed_group_left", of_a_destroyed_group_left},
    {"bucket_of_a_destroyed_group", bucket_of_a_destroyed_group},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
