/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets that travel as one, each posted and waited for by a thread of its own: the last post
 * sends all of them, whichever thread makes it. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "tests/collective/planned_tensors.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define STEPS 60
#define WAIT_NS (60 * WRING_NS_PER_S)

static const struct part all_in_one[] = {{TENSORS, "none", "auto"}, {0}};

/** One thread's tensor. */
struct worker {
    pthread_t thread;
    struct wring_bucket *bucket;
    float *data;
    uint64_t elems;
    const char *name;
    pthread_barrier_t *posted; /* a wait that comes before a mate's post is an error */
};

static void *work(void *arg)
{
    const struct worker *worker = arg;

    for (unsigned step = 1; step <= STEPS; step++) {
        for (uint64_t i = 0; i < worker->elems; i++)
            worker->data[i] = (float)step;
        CHECK(wring_bucket_post(worker->bucket) == WRING_OK, "%s: post", worker->name);
        pthread_barrier_wait(worker->posted);
        enum wring_status status = WRING_ERR_AGAIN;
        for (int i = 0; i < 3 && status == WRING_ERR_AGAIN; i++)
            status = wring_bucket_test(worker->bucket, NULL);
        if (status == WRING_ERR_AGAIN)
            status = wring_bucket_wait(worker->bucket, WAIT_NS, NULL);
        CHECK(status == WRING_OK, "%s, step %u: %s", worker->name, step, wring_status_text(status));
        CHECK(worker->data[0] == 2.0f * (float)step &&
                  worker->data[worker->elems - 1] == 2.0f * (float)step,
              "%s, step %u: %g", worker->name, step, (double)worker->data[worker->elems - 1]);
    }
    return NULL;
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    const bool *apart = arg;
    struct tensors tensors;
    struct worker workers[TENSORS];
    pthread_barrier_t posted;
    (void)rank;

    REQUIRE(make_tensors(session, *apart, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    pthread_barrier_init(&posted, NULL, TENSORS);
    for (int t = 0; t < TENSORS; t++) {
        workers[t] = (struct worker){.bucket = tensors.buckets[t],
                                     .data = tensors.data[t],
                                     .elems = sizes[t],
                                     .name = names[t],
                                     .posted = &posted};
        REQUIRE(pthread_create(&workers[t].thread, NULL, work, &workers[t]) == 0, "thread");
    }
    for (int t = 0; t < TENSORS; t++)
        pthread_join(workers[t].thread, NULL);
    pthread_barrier_destroy(&posted);
}

static void threads_share_a_merged_step(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=shm", "WRING_PROVIDER=tcp"};
    struct plan_of what = {.parts = all_in_one, .ranks = 2, .names = names, .executor = ""};
    char plan[64];

    write_plan(&what, plan, sizeof(plan));
    for (int i = 0; i < 4; i++) {
        const char *settings[] = {providers[i % 2], plan, NULL};
        bool apart = i < 2;
        struct wring_test_job job = {
            .ranks = 2, .settings = settings, .arg = &apart, .run = run_rank};
        wring_test_run_ranks(&job);
    }
    remove_plan(plan);
}

static const struct wring_test_case cases[] = {
    {"threads_share_a_merged_step", threads_share_a_merged_step},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
