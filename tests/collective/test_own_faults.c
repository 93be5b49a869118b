/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that are plugged in and misbehave: an executor that fails, a provider that takes all. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/lib/wrapped_executor.h"

#define ELEMS 100000

/** Runs jobs as they come and lets one kind of them fail, as a device would. */
struct failing {
    struct wrapped_executor wrapped;
    struct wring_executor_ops ops;
    enum wring_job_kind kind;
    enum wring_status status;
};

static void failing_submit(struct wring_executor *base, struct wring_job *const *jobs, size_t n)
{
    struct failing *failing = (struct failing *)base;
    wrapped_executor_ops.submit(base, jobs, n);
    for (size_t i = 0; i < n; i++)
        if (jobs[i]->kind == failing->kind)
            jobs[i]->result.status = failing->status;
}

/** What goes wrong, and where. */
struct fault {
    enum wring_job_kind kind;
    enum wring_status status;
    const char *codec, *want; /* of the message */
};

/** Give rank 1 an executor that fails. */
static void plug_in(struct wring_session *session, const struct fault *fault)
{
    struct failing *failing = calloc(1, sizeof(*failing));
    REQUIRE(failing != NULL, "no memory");
    failing->ops = wrapped_executor_ops;
    failing->ops.name = "failing";
    failing->ops.at_once = true;
    failing->ops.submit = failing_submit;
    failing->wrapped.base.ops = &failing->ops;
    failing->wrapped.inner = session->executor;
    failing->kind = fault->kind;
    failing->status = fault->status;
    wring_progress_lock(session->progress);
    session->executor = session->engine->queues[0].executor = &failing->wrapped.base;
    wring_progress_unlock(session->progress);
}

static void sum_with_fault(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct fault *fault = arg;
    struct wring_error_detail detail = {.rank = -2};
    struct wring_bucket *bucket;
    float *data = calloc(ELEMS, sizeof(*data));
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .codec = fault->codec};
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
              wring_session_commit(session) == WRING_OK,
          "commit");
    if (rank == 1)
        plug_in(session, fault);
    enum wring_status status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    /* what rank 1 decodes last is its own affair: others may be through, and hear of it next */
    if (status == WRING_OK && rank != 1 && fault->kind == WRING_JOB_DECODE)
        status = wring_barrier(wring_session_world(session), NULL, NULL);
    CHECK(status != WRING_OK, "rank %u: all is well", rank);
    CHECK(wring_session_error(session, &detail) != WRING_OK && detail.rank == 1,
          "rank %u blames %d: %s", rank, (int)detail.rank, detail.text);
    CHECK(strstr(detail.text, fault->want) != NULL && strstr(detail.text, "sent a piece") == NULL,
          "rank %u, no '%s' in: %s", rank, fault->want, detail.text);
    CHECK(rank != 1 || status == fault->status, "rank 1: %s", wring_status_text(status));
    free(data);
}

static void executors_are_blamed_for_their_own_errors(void)
{
    static const struct fault faults[] = {
        {WRING_JOB_ENCODE, WRING_ERR_DEVICE, "int8",
         "executor failing of rank 1 could not encode a piece"},
        {WRING_JOB_ENCODE, WRING_ERR_FRAME, "int8",
         "executor failing of rank 1 could not encode a piece"},
        {WRING_JOB_REDUCE, WRING_ERR_NO_MEMORY, "int8",
         "executor failing of rank 1 could not reduce a piece"},
        {WRING_JOB_REDUCE, WRING_ERR_DEVICE, "none",
         "executor failing of rank 1 could not reduce a piece"},
        {WRING_JOB_DECODE, WRING_ERR_DEVICE, "int8",
         "executor failing of rank 1 could not decode a piece"},
    };
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_BYPASS=never", NULL};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct fault fault = faults[i];
        struct wring_test_job job = {
            .ranks = 3, .settings = settings, .arg = &fault, .run = sum_with_fault};
        wring_test_run_ranks(&job);
    }
}

#define ENTRIES (sizeof(((struct wring_wait_set *)NULL)->fds) / sizeof(struct pollfd))

/** As a provider with many sockets would: takes all places that are left. */
static struct {
    struct wring_provider_ops ops;
    void (*arm)(struct wring_provider *, struct wring_wait_set *);
    int never;       /* readable */
    atomic_uint set; /* times */
    atomic_uint first;
} greedy;

static void greedy_arm(struct wring_provider *provider, struct wring_wait_set *set)
{
    unsigned n = set->n, first = atomic_load(&greedy.first);
    while (n < first && !atomic_compare_exchange_weak(&greedy.first, &first, n))
        ;
    greedy.arm(provider, set);
    while (set->n < ENTRIES)
        set->fds[set->n++] = (struct pollfd){.fd = greedy.never, .events = POLLIN};
    atomic_fetch_add(&greedy.set, 1);
}

static void sum_greedily(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_fabric *fabric = session->fabric;
    struct wring_bucket *bucket;
    float *data = calloc(ELEMS, sizeof(*data));
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .codec = "bf16"};
    (void)arg;
    CHECK(fabric->n_devices == 1, "%u devices", fabric->n_devices);
    wring_progress_lock(session->progress);
    fabric->devices[0].provider->ops = &greedy.ops;
    wring_progress_unlock(session->progress);
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
              wring_session_commit(session) == WRING_OK,
          "commit");
    for (unsigned step = 0; step < 20; step++) {
        for (size_t i = 0; i < ELEMS; i++)
            data[i] = (float)rank;
        if (rank == 0)
            usleep(3000); /* so that the other one sleeps */
        CHECK(wring_bucket_post(bucket) == WRING_OK &&
                  wring_bucket_wait(bucket, WRING_FOREVER, NULL) == WRING_OK &&
                  data[ELEMS - 1] == 1,
              "rank %u, step %u: %g", rank, step, data[ELEMS - 1]);
    }
    CHECK(atomic_load(&greedy.first) >= 1, "a provider comes before what wakes the library");
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    free(data);
}

/** The library's own descriptors have their places, and it still sleeps and wakes. */
static void providers_may_take_all_entries(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=pool:1",
                                           "WRING_SPIN=0", "WRING_BYPASS=never", NULL};
    greedy.ops = *wring_provider_find("tcp");
    greedy.arm = greedy.ops.arm;
    greedy.ops.arm = greedy_arm;
    greedy.never = eventfd(0, EFD_CLOEXEC);
    atomic_store(&greedy.first, ENTRIES);
    struct wring_test_job job = {.ranks = 2, .settings = settings, .run = sum_greedily};
    wring_test_run_ranks(&job);
    CHECK(atomic_load(&greedy.set) > 0, "nobody slept");
    close(greedy.never);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"executors_are_blamed_for_their_own_errors", executors_are_blamed_for_their_own_errors},
        {"providers_may_take_all_entries", providers_may_take_all_entries},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
