/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps in place: whoever is there sums what it finds, whatever the other callers do after their
 * posts.
 */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/bucket.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60 * WRING_NS_PER_S)
#define ELEMS 1024
#define TURNS 100
#define ABSENCES 3

static const char *const by_thread[] = {"WRING_PROVIDER=shm", NULL};
static const char *const by_callers[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL};

static const uint32_t ranks[] = {2, 4};

struct pair {
    struct wring_session *session;
    uint32_t ranks;
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
    struct pair pair = {.session = session, .ranks = wring_session_size(session)};
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
        CHECK(pair->data[which][i] == (float)((int)pair->ranks * (i + which)),
              "bucket %d, element %d: %g", which, i, (double)pair->data[which][i]);
}

static void wait(const struct pair *pair, int which)
{
    enum wring_status status = wring_bucket_wait(pair->buckets[which], WAIT_NS, NULL);
    REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
    check(pair, which);
}

static void await(atomic_int *value, int least)
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (atomic_load(value) < least && wring_now_ns() < limit)
        sched_yield();
    CHECK(atomic_load(value) >= least, "the other ranks' waits do not end");
}

/** Rank 0 posts and computes, and comes back when all others have the sum, which do without it. */
static void absent(struct wring_session *session, uint32_t rank, void *arg)
{
    atomic_int *ended = arg;
    struct pair pair = make_pair(session);

    for (int i = 0; i < ABSENCES; i++) {
        post(&pair, 0);
        if (rank == 0)
            await(ended, (i + 1) * (int)(pair.ranks - 1));
        wait(&pair, 0);
        if (rank > 0)
            atomic_fetch_add(ended, 1);
    }
}

static void run_all_variants(void (*run)(struct wring_session *, uint32_t, void *))
{
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        for (int threads = 0; threads < 2; threads++) {
            atomic_int ended = 0;
            wring_test_run_ranks(
                &(struct wring_test_job){.ranks = ranks[i],
                                         .settings = threads ? by_thread : by_callers,
                                         .run = run,
                                         .arg = &ended});
        }
}

static void who_computes_is_done_for(void)
{
    run_all_variants(absent);
}

/** Each waits first for what the other waits for last. */
static void cross(struct wring_session *session, uint32_t rank, void *arg)
{
    struct pair pair = make_pair(session);
    (void)arg;

    for (int i = 0; i < TURNS; i++) {
        post(&pair, 0);
        post(&pair, 1);
        wait(&pair, rank == 0);
        wait(&pair, rank != 0);
    }
}

/** A call comes between post and wait, on one of them. */
static void interrupt(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct pair pair = make_pair(session);
    (void)arg;

    for (int i = 0; i < TURNS; i++) {
        post(&pair, 0);
        if (rank > 0)
            wait(&pair, 0);
        CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
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
    CHECK(wring_barrier(wring_session_world(pair->session), NULL, NULL) == WRING_OK, "barrier");
    if (rank > 0)
        post(pair, 0);
    wait(pair, 0);
}

/** One asks again and again, the other waits for any of several. */
static void ask(struct wring_session *session, uint32_t rank, void *arg)
{
    struct pair pair = make_pair(session);
    size_t index;
    (void)arg;

    post_twice(&pair, rank);
    for (int i = 0; i < TURNS; i++) {
        enum wring_status status;
        post(&pair, 0);
        if (rank == 0)
            while ((status = wring_bucket_test(pair.buckets[0], NULL)) == WRING_ERR_AGAIN)
                sched_yield();
        else
            status = wring_wait_any(&(struct wring_waitable){.bucket = pair.buckets[0]}, 1, WAIT_NS,
                                    &index, NULL);
        REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
        check(&pair, 0);
    }
}

static void waits_in_any_order(void)
{
    run_all_variants(cross);
}

static void calls_come_between(void)
{
    run_all_variants(interrupt);
}

static void asked_for_instead(void)
{
    run_all_variants(ask);
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
        REQUIRE(wring_bucket_wait(buckets[i], WAIT_NS, NULL) == WRING_OK, "wait");
        for (uint64_t k = 0; k < elems[i]; k++)
            CHECK(data[i][k] ==
                      (float)(k + (uint64_t)step) / (i % 2 ? wring_session_size(session) : 1),
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
    run_all_variants(sizes);
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
