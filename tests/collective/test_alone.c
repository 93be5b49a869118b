/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps in place between two ranks: each is needed twice, and somebody must come the second time,
 * whatever the callers do after their posts.
 */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/progress/progress_state.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 2
#define WAIT_NS (60 * WRING_NS_PER_S)
#define ELEMS 1024
#define LEARN 64
#define TURNS 100
#define ABSENCES 3

static const char *const by_thread[] = {"WRING_PROVIDER=shm", NULL};
static const char *const by_callers[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL};

struct pair {
    struct wring_session *session;
    struct wring_bucket *buckets[2];
    float *data[2];
};

static struct wring_bucket *add(struct wring_session *session, const char *name, uint64_t elems,
                                enum wring_op op, float **data)
{
    struct wring_bucket *bucket = NULL;
    CHECK(wring_buffer_alloc(session, elems * sizeof(float), (void **)data) == WRING_OK, "alloc");
    struct wring_bucket_params params = {.name = name, .data = *data, .elems = elems, .op = op};
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register %s", name);
    return bucket;
}

static struct pair make_pair(struct wring_session *session)
{
    struct pair pair = {.session = session};
    pair.buckets[0] = add(session, "a", ELEMS, WRING_SUM, &pair.data[0]);
    pair.buckets[1] = add(session, "b", ELEMS, WRING_SUM, &pair.data[1]);
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    return pair;
}

static void post(const struct pair *pair, int which)
{
    for (int i = 0; i < ELEMS; i++)
        pair->data[which][i] = (float)(i + which);
    REQUIRE(wring_bucket_post(pair->buckets[which]) == WRING_OK, "post");
}

static void check(const struct pair *pair, int which)
{
    for (int i = 0; i < ELEMS; i++)
        CHECK(pair->data[which][i] == (float)(RANKS * (i + which)), "bucket %d, element %d: %g",
              which, i, (double)pair->data[which][i]);
}

static void wait(const struct pair *pair, int which)
{
    enum wring_status status = wring_bucket_wait(pair->buckets[which], WAIT_NS);
    REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
    check(pair, which);
}

static bool stood(const struct pair *pair)
{
    return atomic_load(&pair->session->progress->stood) > 0;
}

/** Post and wait at once, until a step of either rank has gone past the engine; then it will again.
 */
static void learn(const struct pair *pair)
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    float both = 0;

    while (both < RANKS && wring_now_ns() < limit) {
        for (int i = 0; i < LEARN; i++) {
            post(pair, 0);
            wait(pair, 0);
        }
        both = stood(pair);
        REQUIRE(wring_allreduce(wring_session_world(pair->session), &both, 1, WRING_F32, WRING_SUM,
                                NULL, NULL) == WRING_OK,
                "allreduce");
    }
    CHECK(both == RANKS, "no step stands alone");
}

static void await(atomic_int *value, int least)
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (atomic_load(value) < least && wring_now_ns() < limit)
        sched_yield();
    CHECK(atomic_load(value) >= least, "the other rank's wait does not end");
}

/** Rank 0 posts and computes, and comes back when rank 1 has the sum: its thread did the rest. */
static void absent(struct wring_session *session, uint32_t rank, void *arg)
{
    atomic_int *ended = arg;
    struct pair pair = make_pair(session);

    for (int i = 0; i < ABSENCES; i++) {
        learn(&pair);
        post(&pair, 0);
        if (rank == 0)
            await(ended, i + 1);
        wait(&pair, 0);
        if (rank == 1)
            atomic_store(ended, i + 1);
    }
}

static void who_computes_is_done_for(void)
{
    atomic_int ended = 0;
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = RANKS, .settings = by_thread, .run = absent, .arg = &ended});
}

/** Each waits first for what the other waits for last. */
static void cross(struct wring_session *session, uint32_t rank, void *arg)
{
    struct pair pair = make_pair(session);
    (void)arg;

    learn(&pair);
    for (int i = 0; i < TURNS; i++) {
        post(&pair, 0);
        post(&pair, 1);
        wait(&pair, rank == 0);
        wait(&pair, rank == 1);
    }
}

/** A call comes between post and wait, on one of them. */
static void interrupt(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct pair pair = make_pair(session);
    (void)arg;

    learn(&pair);
    for (int i = 0; i < TURNS; i++) {
        post(&pair, 0);
        if (rank == 1)
            wait(&pair, 0);
        CHECK(wring_barrier(world) == WRING_OK, "barrier");
        if (rank == 0)
            wait(&pair, 0);
    }
}

/** A step that only one has posted cannot be posted again. */
static void post_twice(const struct pair *pair, uint32_t rank)
{
    if (rank == 0) {
        post(pair, 0);
        CHECK(wring_bucket_post(pair->buckets[0]) == WRING_ERR_BUSY, "posted twice");
    }
    CHECK(wring_barrier(wring_session_world(pair->session)) == WRING_OK, "barrier");
    if (rank == 1)
        post(pair, 0);
    wait(pair, 0);
}

/** One asks again and again, the other waits for any of several. */
static void ask(struct wring_session *session, uint32_t rank, void *arg)
{
    struct pair pair = make_pair(session);
    size_t index;
    (void)arg;

    learn(&pair);
    post_twice(&pair, rank);
    for (int i = 0; i < TURNS; i++) {
        enum wring_status status;
        post(&pair, 0);
        if (rank == 0)
            while ((status = wring_bucket_test(pair.buckets[0])) == WRING_ERR_AGAIN)
                sched_yield();
        else
            status = wring_wait_any(pair.buckets, 1, WAIT_NS, &index);
        REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
        check(&pair, 0);
    }
}

static void run_both_ways(void (*run)(struct wring_session *, uint32_t, void *))
{
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = RANKS, .settings = by_thread, .run = run});
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = RANKS, .settings = by_callers, .run = run});
}

static void waits_in_any_order(void)
{
    run_both_ways(cross);
}

static void calls_come_between(void)
{
    run_both_ways(interrupt);
}

static void asked_for_instead(void)
{
    run_both_ways(ask);
}

/** Shards of all lengths, on either side of what fits one hop; what ran is told. */
static void sizes(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t elems[] = {256, 257, 300, 1000, 2055, 4096, 16384, 16385};
    enum {
        SIZES = sizeof(elems) / sizeof(elems[0])
    };
    struct wring_bucket *buckets[SIZES];
    float *data[SIZES];
    (void)arg;

    for (int i = 0; i < SIZES; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        buckets[i] = add(session, name, elems[i], i % 2 ? WRING_AVG : WRING_MAX, &data[i]);
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int step = 0; step < 2 * WRING_STEPS_PER_TIMED * SIZES; step++) {
        int i = step % SIZES;
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        for (uint64_t k = 0; k < elems[i]; k++)
            data[i][k] = (float)(rank == k % 2) * (float)(k + (uint64_t)step);
        REQUIRE(wring_bucket_post(buckets[i]) == WRING_OK, "post");
        REQUIRE(wring_bucket_wait(buckets[i], WAIT_NS) == WRING_OK, "wait");
        for (uint64_t k = 0; k < elems[i]; k++)
            CHECK(data[i][k] == (float)(k + (uint64_t)step) / (i % 2 ? RANKS : 1),
                  "%llu elements, element %llu: %g", (unsigned long long)elems[i],
                  (unsigned long long)k, (double)data[i][k]);
        REQUIRE(wring_bucket_stats(buckets[i], &stats) == WRING_OK, "stats");
        bool in_place = elems[i] > 256;
        CHECK(stats.in_place == in_place &&
                  strcmp(stats.scheme, in_place ? "direct" : "indivisible") == 0,
              "%llu elements: %s", (unsigned long long)elems[i], stats.scheme);
    }
}

static void sums_of_all_sizes(void)
{
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = RANKS, .settings = by_thread, .run = sizes});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"who_computes_is_done_for", who_computes_is_done_for},
        {"waits_in_any_order", waits_in_any_order},
        {"calls_come_between", calls_come_between},
        {"asked_for_instead", asked_for_instead},
        {"sums_of_all_sizes", sums_of_all_sizes},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
