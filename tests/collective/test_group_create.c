/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that their members make alone: in any order, at once, beside collectives, in vain. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define ABSENT_NS (WRING_NS_PER_S / 2) /* in which the others call; more, on a busy machine */
#define ABSENT_MAX_NS (16 * WRING_NS_PER_S)

/** The members' ranks, as an allgather tells them. */
static void check_order(struct wring_group *group, const uint32_t *ranks, uint32_t n, uint32_t rank)
{
    int32_t own = (int32_t)rank, all[16];
    CHECK(wring_allgather(group, &own, all, 1, WRING_I32, NULL, NULL) == WRING_OK, "allgather");
    for (uint32_t i = 0; i < n; i++)
        CHECK(all[i] == (int32_t)ranks[i], "member %u is rank %d, not %u", i, all[i], ranks[i]);
}

/** The order of the list numbers the members; ranks that are not in it do nothing. */
static void any_order(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t lists[][4] = {{4, 0, 2}, {3, 2, 1, 0}, {1, 4}, {4, 1}, {2}};
    static const uint32_t lengths[] = {3, 4, 2, 2, 1};
    struct wring_group *groups[5] = {NULL};
    (void)arg;
    for (uint32_t g = 0; g < 5; g++)
        for (uint32_t i = 0; i < lengths[g]; i++)
            if (lists[g][i] == rank)
                REQUIRE(wring_group_create(wring_session_world(session), lists[g], lengths[g], 0,
                                           WAIT_NS, &groups[g]) == WRING_OK,
                        "group %u", g);
    for (uint32_t g = 0; g < 5; g++)
        if (groups[g] != NULL)
            check_order(groups[g], lists[g], lengths[g], rank);
    if (groups[1] != NULL && rank != 0) { /* members 2, 0 of it are ranks 1, 3 */
        static const uint32_t inner[] = {2, 0}, as_ranks[] = {1, 3};
        struct wring_group *group;
        if (rank == 2)
            return;
        REQUIRE(wring_group_create(groups[1], inner, 2, 7, WAIT_NS, &group) == WRING_OK, "inner");
        wring_group_destroy(groups[1]);
        check_order(group, as_ranks, 2, rank);
    }
}

#define THREADS 4

struct maker {
    struct wring_session *session;
    uint32_t rank, tag;
};

static void *make_several(void *arg)
{
    static const uint32_t ranks[] = {2, 0, 1};
    const struct maker *maker = arg;
    for (uint32_t turn = 0; turn < 5; turn++) {
        struct wring_group *group;
        float x = (float)(maker->rank + maker->tag);
        enum wring_status status = wring_group_create(wring_session_world(maker->session), ranks, 3,
                                                      maker->tag, WAIT_NS, &group);
        CHECK(status == WRING_OK, "tag %u: %s", maker->tag, wring_status_text(status));
        if (status != WRING_OK)
            return NULL;
        CHECK(wring_allreduce(group, &x, &x, 1, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK,
              "sum");
        CHECK(x == (float)(3 + 3 * maker->tag), "tag %u: %g", maker->tag, x);
        wring_group_destroy(group);
    }
    return NULL;
}

/** Threads of each rank make groups of the same ranks, told apart by tags alone. */
static void several_threads(struct wring_session *session, uint32_t rank, void *arg)
{
    struct maker makers[THREADS];
    pthread_t threads[THREADS];
    (void)arg;
    for (uint32_t i = 0; i < THREADS; i++) {
        makers[i] = (struct maker){session, rank, i + 1};
        REQUIRE(pthread_create(&threads[i], NULL, make_several, &makers[i]) == 0, "thread");
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static atomic_uint made_beside;

/** Two members make groups while a collective of all cannot end without the third, who exchanges.
 */
static void beside_collectives(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t ranks[] = {1, 0};
    struct wring_group *world = wring_session_world(session), *group;
    static _Thread_local float data[50000], small[4];
    struct wring_request *request;
    (void)arg;
    memset(data, 0, sizeof(data));
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (rank == 2) { /* joins the collective last */
        uint64_t until_ns = wring_deadline_in(WAIT_NS);
        while (atomic_load(&made_beside) < 2 && wring_now_ns() < until_ns)
            sched_yield();
    }
    CHECK(wring_allreduce(world, data, data, 50000, WRING_F32, WRING_SUM, NULL, &request) ==
              WRING_OK,
          "begin");
    if (rank < 2) {
        REQUIRE(wring_group_create(world, ranks, 2, 0, WAIT_NS, &group) == WRING_OK, "group");
        CHECK(wring_allreduce(group, small, small, 4, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK,
              "sum");
        atomic_fetch_add(&made_beside, 1);
    }
    CHECK(wring_request_wait(request, WAIT_NS, NULL) == WRING_OK, "end");
    if (rank == 0)
        atomic_store(&made_beside, 0); /* for the next job */
}

static _Thread_local char line[512];

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)module;
    if (level == WRING_LOG_ERROR)
        snprintf(line, sizeof(line), "%s", text);
}

/** Rank 2 does not call. @return whether it is named: one that is late may be named instead */
static bool is_named(struct wring_group *world, const uint32_t *ranks, uint64_t tag, uint64_t ns)
{
    struct wring_group *group = NULL;
    char who[80];

    enum wring_status status = wring_group_create(world, ranks, 4, tag, ns, &group);
    CHECK(status == WRING_ERR_TIMEOUT && group == NULL, "%s", wring_status_text(status));
    CHECK(strstr(line, "has not called wring_group_create()") != NULL, "%s", line);
    snprintf(who, sizeof(who), "rank 2 has not called wring_group_create() with tag %u",
             (unsigned)tag);
    return strstr(line, who) != NULL;
}

/** A member does not call: those that do name it, and all of them can do it again. */
static void one_does_not_come(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t ranks[] = {3, 0, 1, 2};
    struct wring_group *world = wring_session_world(session), *group = NULL;
    int32_t named = 0; /* by all that call, which are told so */
    uint64_t tag = 0;
    (void)arg;
    for (uint64_t ns = ABSENT_NS; named == 0 && ns <= ABSENT_MAX_NS; ns *= 2) {
        CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier"); /* so that none is late */
        tag++;
        named = rank == 2 || is_named(world, ranks, tag, ns);
        REQUIRE(wring_allreduce(world, &named, &named, 1, WRING_I32, WRING_MIN, NULL, NULL) ==
                    WRING_OK,
                "the parent");
    }
    CHECK(named == 1, "rank 2 is not named: %s", line);
    REQUIRE(wring_group_create(world, ranks, 4, tag, WAIT_NS, &group) == WRING_OK, "again: %s",
            line);
    check_order(group, ranks, 4, rank);
}

static void wrong_ranks(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t twice[] = {0, 1, 0}, others[] = {1}, far[] = {0, 5};
    struct wring_group *world = wring_session_world(session), *group = NULL;
    (void)arg;
    if (rank == 0) {
        CHECK(wring_group_create(world, twice, 3, 0, WAIT_NS, &group) == WRING_ERR_INVALID,
              "twice");
        CHECK(wring_group_create(world, others, 1, 0, WAIT_NS, &group) == WRING_ERR_INVALID,
              "without us");
        CHECK(wring_group_create(world, far, 2, 0, WAIT_NS, &group) == WRING_ERR_INVALID, "far");
        CHECK(wring_group_create(world, far, 0, 0, WAIT_NS, &group) == WRING_ERR_INVALID, "none");
    }
    CHECK(group == NULL && wring_barrier(world, NULL, NULL) == WRING_OK, "the session");
}

#define UNUSED_RANKS 8
#define UNUSED_GROUPS 32

/** Groups that nobody uses: bytes of each, on each rank. */
static void unused_groups(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t ranks[UNUSED_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct wring_group *world = wring_session_world(session), *groups[UNUSED_GROUPS];
    (void)arg;
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    struct mallinfo2 before = mallinfo2();
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (uint32_t g = 0; g < UNUSED_GROUPS; g++) {
        REQUIRE(wring_group_create(world, ranks, UNUSED_RANKS, g, WAIT_NS, &groups[g]) == WRING_OK,
                "group");
        CHECK(groups[g]->pairs.board.home == NULL && !atomic_load(&groups[g]->has_sources),
              "memory of a group that was not used");
    }
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    struct mallinfo2 after = mallinfo2();
    double bytes = (double)after.uordblks + (double)after.hblkhd - (double)before.uordblks -
                   (double)before.hblkhd;
    bytes /= UNUSED_GROUPS * UNUSED_RANKS;
    if (rank == 0)
        printf("a group of %d that was not used: %.0f KiB a rank\n", UNUSED_RANKS, bytes / 1024);
    CHECK(bytes < 1 << 20, "%.0f bytes", bytes);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
}

static int later(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

#define TIMED 25

/** How long two members take, while the others exchange: told, and nothing depends on it. */
static void how_long(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t pair[] = {0, 1}, rest[] = {2, 3};
    struct wring_group *world = wring_session_world(session), *group, *others = NULL;
    uint64_t took[TIMED];
    static _Thread_local float data[30000];
    (void)arg;
    if (rank >= 2)
        REQUIRE(wring_group_create(world, rest, 2, 0, WAIT_NS, &others) == WRING_OK, "rest");
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (uint32_t i = 0; i < TIMED; i++) {
        if (others != NULL) {
            CHECK(wring_allreduce(others, data, data, 30000, WRING_F32, WRING_SUM, NULL, NULL) ==
                      WRING_OK,
                  "sum");
            continue;
        }
        uint64_t began_ns = wring_now_ns();
        REQUIRE(wring_group_create(world, pair, 2, i, WAIT_NS, &group) == WRING_OK, "group");
        took[i] = wring_now_ns() - began_ns;
        wring_group_destroy(group);
    }
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (rank != 0)
        return;
    qsort(took, TIMED, sizeof(took[0]), later);
    printf("a group of 2 is made in %.0f us (median of %d; fastest %.0f us)\n",
           (double)took[TIMED / 2] / 1e3, TIMED, (double)took[0] / 1e3);
}

#define DIALLED 9

/** Of all ranks of a job, one after the other. */
struct dialled {
    pthread_barrier_t ready;
    atomic_bool over;
    uint64_t took;
};

/** Ranks 2 and 3 exchange until the others are through. */
static void sum_until(struct wring_group *rest, const atomic_bool *over)
{
    float flag[8] = {0};
    while (flag[0] == 0) {
        flag[0] = (float)atomic_load(over);
        REQUIRE(wring_allreduce(rest, flag, flag, 8, WRING_F32, WRING_MAX, NULL, NULL) == WRING_OK,
                "rest");
    }
}

/** Until its first sum is there: its two members have not talked to each other before. */
static void first_sum(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t pair[] = {0, 1}, rest[] = {2, 3};
    struct dialled *dialled = arg;
    struct wring_group *world = wring_session_world(session), *group = NULL;
    float one = 1;

    if (rank >= 2)
        REQUIRE(wring_group_create(world, rest, 2, 0, WAIT_NS, &group) == WRING_OK, "rest");
    pthread_barrier_wait(&dialled->ready);
    if (rank >= 2) {
        sum_until(group, &dialled->over);
        return;
    }
    uint64_t began_ns = wring_now_ns();
    REQUIRE(wring_group_create(world, pair, 2, 2, WAIT_NS, &group) == WRING_OK, "group");
    CHECK(wring_allreduce(group, &one, &one, 1, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK &&
              one == 2,
          "sum");
    uint64_t took_ns = wring_now_ns() - began_ns;
    if (rank == 0) {
        dialled->took = took_ns;
        atomic_store(&dialled->over, true);
    }
}

static void run_everywhere(void (*run)(struct wring_session *, uint32_t, void *), uint32_t ranks,
                           wring_log_fn log)
{
    static const char *const settings[][3] = {
        {"WRING_PROVIDER=tcp", NULL},
        {"WRING_PROVIDER=shm", NULL},
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct wring_test_job job = {
            .ranks = ranks, .settings = settings[i], .run = run, .log = log};
        wring_test_run_ranks(&job);
    }
}

static void order(void)
{
    run_everywhere(any_order, 5, NULL);
}

static void threads(void)
{
    run_everywhere(several_threads, 3, NULL);
}

static void beside(void)
{
    run_everywhere(beside_collectives, 3, NULL);
}

static void absent(void)
{
    run_everywhere(one_does_not_come, 4, keep_line);
}

static void invalid(void)
{
    run_everywhere(wrong_ranks, 2, keep_line);
}

static void unused(void)
{
    struct wring_test_job job = {.ranks = UNUSED_RANKS, .run = unused_groups};
    wring_test_run_ranks(&job);
}

static void timed(void)
{
    run_everywhere(how_long, 4, NULL);
}

static void dialled(void)
{
    static const char *const settings[][2] = {{"WRING_PROVIDER=tcp", NULL},
                                              {"WRING_PROVIDER=shm", NULL}};
    for (int i = 0; i < 2; i++) {
        uint64_t took[DIALLED];
        for (int turn = 0; turn < DIALLED; turn++) {
            struct dialled story = {.took = 0};
            struct wring_test_job job = {
                .ranks = 4, .settings = settings[i], .run = first_sum, .arg = &story};
            pthread_barrier_init(&story.ready, NULL, 4);
            wring_test_run_ranks(&job);
            pthread_barrier_destroy(&story.ready);
            took[turn] = story.took;
        }
        qsort(took, DIALLED, sizeof(took[0]), later);
        printf("%s: a group of 2 that dials ends its first sum after %.0f us (median of %d)\n",
               settings[i][0] + 15, (double)took[DIALLED / 2] / 1e3, DIALLED);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"order", order},   {"threads", threads}, {"beside", beside},
        {"absent", absent}, {"invalid", invalid}, {"unused", unused},
        {"timed", timed},   {"dialled", dialled}, {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
