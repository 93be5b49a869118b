/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of buckets that are given up, and groups with buckets that are aborted, in every way in
 * which a bucket can travel. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60 * WRING_NS_PER_S)
#define PATTERN 0x5a
#define KINDS 4
#define RANKS_MAX 4

/** One on a board, one in place, one that goes straight into place, one by a codec. */
static const uint64_t elems_of[KINDS] = {16, 2000, 300000, 100000};
static const char *const codec_of[KINDS] = {NULL, NULL, NULL, "fp16"};

struct config {
    const char *name;
    uint32_t ranks, per_node;
    const char *settings[4];
};

static const struct config configs[] = {
    {"shm", 2, 0, {"WRING_PROVIDER=shm"}},
    {"tcp", 3, 0, {"WRING_PROVIDER=tcp"}},
    {"caller", 2, 0, {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller"}},
    {"pool", 2, 0, {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool:1"}},
    {"delayed", 2, 0, {"WRING_PROVIDER=tcp", "WRING_FAULT=delay=1ms"}},
    {"nodes", 4, 2, {"WRING_SCHEME=hierarchical"}},
};

/** What ranks tell each other here is no business of the library's. */
struct story {
    pthread_barrier_t ready;
    unsigned turns;
    bool aborts; /* a group, and not one step */
};

struct rank {
    struct wring_session *session;
    struct wring_group *group;
    struct wring_bucket *buckets[KINDS];
    float *data[KINDS];
};

static void meet(const struct rank *rank, struct story *story)
{
    CHECK(wring_barrier(wring_session_world(rank->session), NULL, NULL) == WRING_OK, "barrier");
    pthread_barrier_wait(&story->ready);
}

static struct wring_bucket *add(struct rank *rank, unsigned kind, struct wring_group *group)
{
    static const char *const names[KINDS] = {"board", "shards", "placed", "coded"};
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    void *data = rank->data[kind];

    params.name = group != NULL ? names[kind] : "of all ranks";
    params.elems = elems_of[kind];
    params.codec = codec_of[kind];
    params.group = group;
    params.data = data;
    CHECK(wring_bucket_register(rank->session, &params, &bucket) == WRING_OK, "register");
    return bucket;
}

/* In long calls, of which a race detector sees all bytes at once. */
static void set(float *data, uint64_t n, float value)
{
    data[0] = value;
    for (uint64_t done = 1, more; done < n; done += more) {
        more = n - done < done ? n - done : done;
        memcpy(data + done, data, more * sizeof(*data));
    }
}

static bool holds(const float *data, uint64_t n, float value)
{
    return data[0] == value && memcmp(data, data + 1, (n - 1) * sizeof(*data)) == 0;
}

static size_t find_changed(const void *data, size_t n)
{
    const unsigned char *bytes = data;
    size_t i = 0;
    if (bytes[0] == PATTERN && memcmp(bytes, bytes + 1, n - 1) == 0)
        return n;
    while (i < n && bytes[i] == PATTERN)
        i++;
    return i;
}

/** In every other turn it is of the C library, and its checkers see who uses it too long. */
static void make_data(struct rank *rank, unsigned turn)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        size_t bytes = elems_of[kind] * sizeof(float);
        void *memory = NULL;
        if (turn % 2 == 1)
            memory = malloc(bytes);
        else
            CHECK(wring_buffer_alloc(rank->session, bytes, &memory) == WRING_OK, "alloc");
        REQUIRE(memory != NULL, "no memory");
        rank->data[kind] = memory;
    }
}

static void make_group(struct rank *rank, uint64_t tag)
{
    uint32_t all[RANKS_MAX] = {0, 1, 2, 3}, n = wring_session_size(rank->session);
    CHECK(wring_group_create(wring_session_world(rank->session), all, n, tag, WAIT_NS,
                             &rank->group) == WRING_OK,
          "group");
    for (unsigned kind = 0; kind < KINDS; kind++)
        rank->buckets[kind] = add(rank, kind, rank->group);
    CHECK(wring_session_commit(rank->session) == WRING_OK, "commit");
}

/** A peer may be late with its word: it comes. */
static void until_ours(const struct rank *rank, const struct story *story, unsigned kind)
{
    uint64_t until_ns = wring_deadline_in(WAIT_NS);
    enum wring_status status;
    do
        status = story->aborts ? wring_group_abort(rank->group)
                               : wring_bucket_cancel(rank->buckets[kind]);
    while (status == WRING_ERR_BUSY && wring_now_ns() < until_ns);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
}

struct waiter {
    struct wring_bucket *bucket;
    enum wring_status status;
    unsigned variant;
    bool waits;
    pthread_t thread;
};

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;
    struct wring_waitable any = {.bucket = waiter->bucket};
    struct wring_result result = WRING_RESULT_INIT;
    size_t index;

    switch (waiter->variant % 4) {
    case 0:
        waiter->status = wring_bucket_wait(waiter->bucket, WAIT_NS, NULL);
        break;
    case 1:
        waiter->status = wring_bucket_wait(waiter->bucket, WAIT_NS, &result);
        break;
    case 2:
        waiter->status = wring_wait_any(&any, 1, WAIT_NS, &index, &result);
        break;
    default:
        while ((waiter->status = wring_bucket_test(waiter->bucket, NULL)) == WRING_ERR_AGAIN)
            sched_yield();
        break;
    }
    return NULL;
}

/** Steps that end as ever. */
static void run_steps(struct rank *rank)
{
    float n = (float)wring_session_size(rank->session);

    for (unsigned step = 0; step < 3; step++)
        for (unsigned kind = 0; kind < KINDS; kind++) {
            set(rank->data[kind], elems_of[kind], 1);
            CHECK(wring_bucket_post(rank->buckets[kind]) == WRING_OK, "post");
            CHECK(wring_bucket_wait(rank->buckets[kind], WAIT_NS, NULL) == WRING_OK, "wait");
            CHECK(holds(rank->data[kind], elems_of[kind], n), "a sum");
        }
}

/** Post, and have a thread wait. */
static void begin(struct rank *rank, unsigned kind, struct waiter *waiter)
{
    waiter->status = wring_bucket_post(rank->buckets[kind]);
    CHECK(waiter->status == WRING_OK || waiter->status == WRING_ERR_CANCELLED, "%s",
          wring_status_text(waiter->status));
    waiter->waits = waiter->status == WRING_OK;
    if (waiter->waits)
        pthread_create(&waiter->thread, NULL, waiter_main, waiter);
}

/** @param may  it may have ended before it was given up */
static void end(struct rank *rank, unsigned kind, struct waiter *waiter, bool may)
{
    float n = (float)wring_session_size(rank->session);

    if (waiter->waits)
        pthread_join(waiter->thread, NULL);
    CHECK(waiter->status == WRING_ERR_CANCELLED || (may && waiter->status == WRING_OK),
          "kind %u: %s", kind, wring_status_text(waiter->status));
    if (waiter->status == WRING_OK)
        CHECK(holds(rank->data[kind], elems_of[kind], n), "a sum of kind %u", kind);
}

/** Steps of all buckets are given up while threads wait for them: those of rank 0, for which nobody
 *  else posts, or of all ranks at once. */
static void run_turn(struct rank *rank, struct story *story, unsigned turn)
{
    uint32_t index = wring_session_rank(rank->session), n = wring_session_size(rank->session);
    unsigned victim = turn % KINDS;
    bool all_post = turn / KINDS % 2 == 1;
    struct waiter waiters[KINDS];

    make_data(rank, turn);
    make_group(rank, turn);
    run_steps(rank);
    meet(rank, story);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        set(rank->data[kind], elems_of[kind], 1);
        waiters[kind] = (struct waiter){
            .bucket = rank->buckets[kind], .variant = turn + kind, .status = WRING_ERR_CANCELLED};
        if (index == 0 || all_post)
            begin(rank, kind, &waiters[kind]);
    }
    if (index == turn % n || !all_post)
        until_ours(rank, story, victim);
    for (unsigned kind = 0; kind < KINDS; kind++)
        end(rank, kind, &waiters[kind], all_post);
    meet(rank, story);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        until_ours(rank, story, kind);
        memset(rank->data[kind], PATTERN, elems_of[kind] * sizeof(float));
    }
    if (story->aborts || (index == 0 && !all_post))
        CHECK(wring_bucket_post(rank->buckets[victim]) == WRING_ERR_CANCELLED, "post");
    meet(rank, story);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        size_t bytes = elems_of[kind] * sizeof(float);
        size_t changed = find_changed(rank->data[kind], bytes);
        CHECK(changed == bytes, "kind %u: byte %zu has changed", kind, changed);
        if (turn % 2 == 1)
            free(rank->data[kind]); /* the bucket is there still */
    }
}

/** The session goes on, with what is left of it. */
static void go_on(struct rank *rank, struct story *story, unsigned turn)
{
    uint32_t n = wring_session_size(rank->session);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        enum wring_status status = wring_bucket_drop(rank->buckets[kind]);
        CHECK(status == WRING_OK, "drop: %s", wring_status_text(status));
    }
    CHECK(wring_session_commit(rank->session) == WRING_OK, "commit");
    for (unsigned kind = 0; kind < KINDS && turn % 2 == 0; kind++)
        wring_buffer_free(rank->session, rank->data[kind]);
    make_data(rank, 0);
    struct wring_bucket *other = add(rank, 2, NULL);
    CHECK(wring_session_commit(rank->session) == WRING_OK, "commit");
    wring_group_destroy(rank->group);
    set(rank->data[2], elems_of[2], 2);
    CHECK(wring_bucket_post(other) == WRING_OK, "post");
    CHECK(wring_bucket_wait(other, WAIT_NS, NULL) == WRING_OK, "wait");
    CHECK(holds(rank->data[2], elems_of[2], 2 * (float)n), "a sum");
    CHECK(wring_bucket_drop(other) == WRING_OK, "drop");
    meet(rank, story);
    CHECK(wring_session_commit(rank->session) == WRING_OK, "commit");
    for (unsigned kind = 0; kind < KINDS; kind++)
        wring_buffer_free(rank->session, rank->data[kind]);
}

static void run_rank(struct wring_session *session, uint32_t index, void *arg)
{
    struct story *story = arg;
    struct rank rank = {.session = session};
    (void)index;

    for (unsigned turn = 0; turn < story->turns; turn++) {
        run_turn(&rank, story, turn);
        go_on(&rank, story, turn);
    }
}

static void run_story(bool aborts)
{
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        const struct config *config = &configs[i];
        unsigned before = wring_test_failures();
        struct story story = {.turns = 2 * KINDS, .aborts = aborts};
        struct wring_test_job job = {.ranks = config->ranks,
                                     .ranks_per_node = config->per_node,
                                     .settings = config->settings,
                                     .run = run_rank,
                                     .arg = &story};
        pthread_barrier_init(&story.ready, NULL, config->ranks);
        uint64_t began_ns = wring_now_ns();
        wring_test_run_ranks(&job);
        printf("%s: %.2f s\n", config->name, (double)(wring_now_ns() - began_ns) / 1e9);
        pthread_barrier_destroy(&story.ready);
        CHECK(wring_test_failures() == before, "... %s", config->name);
    }
}

static void steps_are_given_up(void)
{
    run_story(false);
}

static void groups_are_aborted(void)
{
    run_story(true);
}

static const struct wring_test_case cases[] = {
    {"steps_are_given_up", steps_are_given_up},
    {"groups_are_aborted", groups_are_aborted},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
