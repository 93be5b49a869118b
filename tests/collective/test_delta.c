/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights that others follow: whatever the members hold when they begin, all have the root's bytes
 * afterwards, by a difference where they can and a copy where they cannot.
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define N 60000 /* words, and a byte */
#define BYTES ((uint64_t)2 * N + 1)
#define RANKS_MAX 5
#define WAIT_NS (120 * WRING_NS_PER_S)

static unsigned char weights[RANKS_MAX][BYTES], want[RANKS_MAX][BYTES];

struct plan {
    const char *const *settings;
    uint32_t ranks, root;
};

/** The root's weights of a version: each differs from the one before in one word of `every`. */
static void fill(unsigned char *to, uint64_t version, uint32_t every)
{
    uint32_t random = 1;

    for (uint64_t i = 0; i < N; i++) {
        uint32_t value = wring_test_random(&random);
        uint16_t word = (uint16_t)(value >> 8);
        for (uint64_t v = 1; v <= version; v++)
            word = (uint16_t)(word + (value % every == v % every ? 1 : 0));
        memcpy(to + 2 * i, &word, sizeof(word));
    }
    to[2 * N] = (unsigned char)version;
}

static void barrier(struct wring_group *group)
{
    CHECK(wring_barrier(group, NULL, NULL) == WRING_OK, "barrier");
}

/** One broadcast. @param whole  whether a copy is expected */
static struct wring_delta_result follow(struct wring_delta *delta, struct wring_group *group,
                                        uint32_t rank, const char *what, bool whole)
{
    struct wring_delta_result result = WRING_DELTA_RESULT_INIT;
    enum wring_status status = wring_delta_broadcast(delta, WAIT_NS, &result);

    CHECK(status == WRING_OK, "%s: rank %u: %s", what, rank, wring_status_text(status));
    CHECK(memcmp(weights[rank], want[rank], BYTES) == 0, "%s: rank %u has other bytes", what, rank);
    CHECK((result.whole != 0) == whole && (!whole || result.bytes == BYTES),
          "%s: rank %u: %llu bytes, whole: %d", what, rank, (unsigned long long)result.bytes,
          (int)result.whole);
    barrier(group);
    return result;
}

/** A rank of a story: the root's weights are of version 0 at first, and all have loaded these. */
struct story {
    struct wring_group *world;
    struct wring_delta *delta;
    const struct plan *plan;
    uint32_t rank;
    bool root, odd; /* odd: one that is not the root, if there is another */
};

static void change_root(const struct story *story, uint64_t version)
{
    fill(want[story->rank], version, 43);
    if (story->root)
        fill(weights[story->rank], version, 43);
}

static struct wring_delta_result follow_story(const struct story *story, const char *what,
                                              bool whole)
{
    return follow(story->delta, story->world, story->rank, what, whole);
}

static void take_differences(const struct story *story)
{
    struct wring_delta_result result;

    for (uint64_t version = 1; version <= 3; version++) {
        change_root(story, version);
        result = follow_story(story, "a difference", false);
        CHECK(result.version == version, "version %llu", (unsigned long long)result.version);
        CHECK(result.bytes * 50 < BYTES, "%llu bytes", (unsigned long long)result.bytes);
    }
    result = follow_story(story, "nothing new", false);
    CHECK(result.bytes < 40, "%llu bytes of nothing", (unsigned long long)result.bytes);
}

/** One member does not hold the base: all take a copy, once. */
static void stray(const struct story *story)
{
    bool alone = story->plan->ranks == 1;

    if (story->odd)
        weights[story->rank][777] ^= 4;
    follow_story(story, "a bit is another", !alone);
    follow_story(story, "then on", false);

    change_root(story, 4);
    if (story->odd)
        fill(weights[story->rank], 1, 43); /* as from a checkpoint of long ago */
    follow_story(story, "an older base", !alone);
    change_root(story, 5);
    follow_story(story, "then on", false);

    change_root(story, 6);
    if (story->odd)
        fill(weights[story->rank], 6, 43);
    follow_story(story, "a newer one", !alone);
}

/** A member that was started again knows no version. */
static void come_anew(struct story *story)
{
    if (story->odd) {
        wring_delta_destroy(story->delta);
        story->delta = NULL;
        memset(weights[story->rank], 0, BYTES);
        CHECK(wring_delta_create(story->world, weights[story->rank], BYTES, story->plan->root,
                                 &story->delta) == WRING_OK,
              "create anew");
    }
    change_root(story, 7);
    struct wring_delta_result result =
        follow_story(story, "one that came anew", story->plan->ranks > 1);
    CHECK(result.version == 10, "version %llu", (unsigned long long)result.version);
}

/** A difference takes as much as a copy. */
static void replace_all(const struct story *story)
{
    for (uint64_t i = 0; i < BYTES; i++)
        want[story->rank][i] = (unsigned char)(i * i * 0x9E3779B1u >> 13);
    if (story->root)
        memcpy(weights[story->rank], want[story->rank], BYTES);
    follow_story(story, "all of it new", true);
}

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    struct story story = {.world = wring_session_world(session),
                          .plan = plan,
                          .rank = rank,
                          .root = rank == plan->root,
                          .odd = rank != plan->root && rank == (plan->root + 1) % plan->ranks};

    fill(weights[rank], 0, 43);
    REQUIRE(wring_delta_create(story.world, weights[rank], BYTES, plan->root, &story.delta) ==
                WRING_OK,
            "create");
    take_differences(&story);
    stray(&story);
    come_anew(&story);
    replace_all(&story);
    wring_delta_destroy(story.delta);
}

static void run_plan(struct plan plan)
{
    struct wring_test_job job = {
        .ranks = plan.ranks, .settings = plan.settings, .run = run, .arg = &plan};
    wring_test_run_ranks(&job);
}

static const char *const tcp[] = {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=16k", NULL};
static const char *const scalar[] = {"WRING_CPU=scalar", NULL};

static void follows(void)
{
    run_plan((struct plan){tcp, 2, 0});
    run_plan((struct plan){NULL, 3, 1});
    run_plan((struct plan){scalar, 5, 4});
    run_plan((struct plan){NULL, 1, 0});
}

/* ---- by the calls that it is made of ---- */

/** The root's word of WIRE.md's example. */
static const unsigned char head_bytes[56] = {
    2,    0,    0,    0,    0,    0,    0,    0,    40,   0,    0,    0,    0,    0,
    0,    0,    0x1B, 0x04, 0xF5, 0x94, 0x11, 0x1F, 0xFB, 0x2D, 0x1B, 0x04, 0xF5, 0x94,
    0x11, 0x1F, 0xFB, 0x2D, 1,    0,    0,    0,    0,    0,    0,    0,    1,    0,
    0,    0,    0,    0,    0,    0,    0x40, 0xDA, 0xA3, 0xBF, 0x67, 0x2F, 0xFF, 0xF6};

static void hear(struct wring_group *world, void *bytes, uint64_t n)
{
    struct wring_request *request = NULL;

    REQUIRE(wring_broadcast(world, bytes, n, 0, NULL, &request) == WRING_OK &&
                wring_request_wait(request, WAIT_NS, NULL) == WRING_OK,
            "broadcast");
}

/** A member that follows without wring_delta_broadcast(). */
static void follow_by_hand(struct wring_group *world, int32_t verdict, unsigned char *head)
{
    struct wring_request *request = NULL;
    unsigned char code[40] = {1};
    int32_t least = -1;

    hear(world, head, sizeof(head_bytes));
    REQUIRE(wring_allreduce(world, &verdict, &least, 1, WRING_I32, WRING_MIN, NULL, &request) ==
                    WRING_OK &&
                wring_request_wait(request, WAIT_NS, NULL) == WRING_OK,
            "allreduce");
    CHECK(least == verdict, "the least verdict is %d", (int)least);
    hear(world, code, verdict == 2 ? 1 : 40);
    CHECK(code[0] == 0, "another code or copy");
}

static void run_by_hand(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_delta_result result = WRING_DELTA_RESULT_INIT;
    struct wring_delta *delta = NULL;
    unsigned char zeros[40] = {0}, head[sizeof(head_bytes)];

    (void)arg;
    if (rank == 0)
        REQUIRE(wring_delta_create(world, zeros, sizeof(zeros), 0, &delta) == WRING_OK, "create");
    for (int32_t verdict = 1; verdict <= 2; verdict++) {
        if (rank == 1)
            follow_by_hand(world, verdict, head);
        else
            CHECK(wring_delta_broadcast(delta, WAIT_NS, &result) == WRING_OK &&
                      result.version == (uint64_t)verdict && result.whole == (verdict == 1),
                  "version %d at the root", (int)result.version);
    }
    if (rank == 1)
        CHECK(memcmp(head, head_bytes, sizeof(head)) == 0, "another head than WIRE.md says");
    wring_delta_destroy(delta);
}

static void goes_as_documented(void)
{
    struct wring_test_job job = {.ranks = 2, .run = run_by_hand};
    wring_test_run_ranks(&job);
}

/* ---- what is refused ---- */

static void run_refused(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_delta *delta = NULL;
    struct wring_delta_result result = {0};

    (void)arg;
    CHECK(wring_delta_create(world, weights[rank], BYTES, 2, &delta) == WRING_ERR_INVALID,
          "a root that there is not");
    CHECK(wring_delta_create(world, NULL, BYTES, 0, &delta) == WRING_ERR_INVALID, "no memory");
    REQUIRE(delta == NULL, "an object of an error");
    wring_delta_destroy(NULL);

    fill(weights[rank], rank, 2);
    REQUIRE(wring_delta_create(world, weights[rank], BYTES - rank, 0, &delta) == WRING_OK,
            "create");
    memcpy(want[rank], weights[rank], BYTES);
    result.struct_bytes = 3;
    CHECK(wring_delta_broadcast(delta, WAIT_NS, &result) == WRING_ERR_INVALID,
          "a size that is none");
    CHECK(wring_delta_broadcast(delta, WAIT_NS, NULL) == WRING_ERR_MISMATCH, "other bytes");
    CHECK(memcmp(weights[rank], want[rank], BYTES) == 0, "weights changed");
    wring_delta_destroy(delta);
    barrier(world);

    REQUIRE(wring_delta_create(world, NULL, 0, 1, &delta) == WRING_OK, "of nothing");
    CHECK(wring_delta_broadcast(delta, WAIT_NS, NULL) == WRING_OK, "nothing to broadcast");
    wring_delta_destroy(delta);
}

static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void refuses(void)
{
    struct wring_test_job job = {.ranks = 2, .run = run_refused, .log = drop_line};
    wring_test_run_ranks(&job);
}

/* ---- one that does not come ---- */

static atomic_bool gave_up;

/** The first rank waits a while for the other, which finds the call given up. */
static void run_late(struct wring_session *session, uint32_t rank, void *arg)
{
    uint32_t root = *(const uint32_t *)arg;
    uint64_t limit_ns = wring_deadline_in(WAIT_NS);
    struct wring_delta *delta = NULL;

    fill(weights[rank], 0, 43);
    REQUIRE(wring_delta_create(wring_session_world(session), weights[rank], BYTES, root, &delta) ==
                WRING_OK,
            "create");
    while (rank == 1 && !gave_up && wring_now_ns() < limit_ns)
        sched_yield();
    enum wring_status status =
        wring_delta_broadcast(delta, rank == 0 ? 50 * WRING_NS_PER_MS : WAIT_NS, NULL);
    CHECK(status == (rank == 0 ? WRING_ERR_TIMEOUT : WRING_ERR_CANCELLED), "rank %u: %s", rank,
          wring_status_text(status));
    if (rank == 0)
        gave_up = true;
    fill(want[rank], 0, 43);
    CHECK(memcmp(weights[rank], want[rank], BYTES) == 0, "weights changed");
    wring_delta_destroy(delta);
}

static void gives_up(void)
{
    for (uint32_t root = 0; root < 2; root++) {
        struct wring_test_job job = {.ranks = 2, .run = run_late, .log = drop_line, .arg = &root};
        gave_up = false;
        wring_test_run_ranks(&job);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"follows", follows},
        {"goes_as_documented", goes_as_documented},
        {"refuses", refuses},
        {"gives_up", gives_up},
        {0},
    };
    return wring_test_main(argc, argv, cases);
}
