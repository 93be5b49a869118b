/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of many groups share the slots of a session: few of them, and in any order. */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/bucket.h"
#include "runtime/progress/progress.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "transport/slot_pool.h"

#define WAIT_NS (120ull * 1000000000)
#define RANKS 9
#define OPERATIONS 16
#define ELEMS 45000 /* shards of 20 KB, in two pieces */

static const uint32_t all_ranks[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

/** One of the operations on one rank. */
struct operation {
    struct wring_group *group;
    struct wring_request *request;
    float *in, *out;
};

static float value(uint32_t operation, uint32_t rank, uint64_t i)
{
    return (float)((i * 7 + operation * 3 + rank) % 64);
}

static float sum(uint32_t operation, uint64_t i)
{
    float all = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        all += value(operation, rank, i);
    return all;
}

/** Of each kind some: o mod 8. */
static enum wring_status post(struct operation *operation, uint32_t o)
{
    const uint64_t run = ELEMS / RANKS;
    const struct wring_call how = {.struct_bytes = sizeof(how), .priority = (int32_t)(o % 3)};
    const struct wring_call coded = {.struct_bytes = sizeof(how), .codec = "bf16"};
    struct wring_group *group = operation->group;
    float *in = operation->in, *out = operation->out;
    struct wring_request **request = &operation->request;

    switch (o % 8) {
    case 0:
        return wring_allreduce(group, in, out, ELEMS, WRING_F32, WRING_SUM, &how, request);
    case 1:
        return wring_reduce_scatter(group, in, out, run, WRING_F32, WRING_SUM, &how, request);
    case 2:
        return wring_allgather(group, in, out, run, WRING_F32, &how, request);
    case 3:
        return wring_reduce(group, in, out, ELEMS, WRING_F32, WRING_SUM, o % RANKS, &how, request);
    case 4:
        return wring_allreduce(group, in, out, ELEMS, WRING_F32, WRING_SUM, &coded, request);
    case 5:
        memcpy(out, in, ELEMS * sizeof(*out));
        return wring_broadcast(group, out, ELEMS * sizeof(*out), o % RANKS, &how, request);
    case 6:
        return wring_scatter(group, in, out, run, WRING_F32, o % RANKS, &how, request);
    default:
        return wring_gather(group, in, out, run, WRING_F32, o % RANKS, &how, request);
    }
}

/** What element i of the result is on that rank; none is below 0. */
static float expected(uint32_t o, uint32_t rank, uint64_t i)
{
    const uint64_t run = ELEMS / RANKS;
    uint32_t from = (uint32_t)(i / run), root = o % RANKS;
    switch (o % 8) {
    case 0:
        return sum(o, i);
    case 1:
        return i < run ? sum(o, rank * run + i) : -1;
    case 2:
        return value(o, from, i % run);
    case 3:
        return rank == root ? sum(o, i) : -1;
    case 4:
        return sum(o, i);
    case 5:
        return value(o, root, i);
    case 6:
        return i < run ? value(o, root, rank * run + i) : -1;
    default:
        return rank == root ? value(o, from, i % run) : -1;
    }
}

static void check(const struct operation *operation, uint32_t o, uint32_t rank)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < ELEMS; i++) {
        float want = expected(o, rank, i), got = operation->out[i];
        float off = got > want ? got - want : want - got;
        wrong += want >= 0 && off > (o % 8 == 4 ? want / 128 : 0);
    }
    CHECK(wrong == 0, "operation %u of rank %u: %" PRIu64 " wrong", o, rank, wrong);
}

static void make(struct wring_session *session, uint32_t rank, struct operation *operations)
{
    for (uint32_t o = 0; o < OPERATIONS; o++) {
        struct operation *operation = &operations[o];
        *operation = (struct operation){.in = malloc(ELEMS * sizeof(float)),
                                        .out = malloc(ELEMS * sizeof(float))};
        REQUIRE(wring_group_create(wring_session_world(session), all_ranks, RANKS, o, WAIT_NS,
                                   &operation->group) == WRING_OK,
                "group");
        for (uint64_t i = 0; i < ELEMS; i++)
            operation->in[i] = value(o, rank, i);
    }
}

/** The number of the operation that a rank posts k-th: no two ranks have the same order. */
static uint32_t turn(uint32_t rank, uint32_t k)
{
    return (k * (2 * (rank % 8) + 1) + 5 * rank) % OPERATIONS;
}

static void any_order(struct wring_session *session, uint32_t rank, void *arg)
{
    struct operation operations[OPERATIONS];
    const struct wring_pool *pool = session->engine->pool;
    const bool *scarce = arg;

    make(session, rank, operations);
    for (uint32_t k = 0; k < OPERATIONS; k++)
        REQUIRE(post(&operations[turn(rank, k)], turn(rank, k)) == WRING_OK, "post");
    for (uint32_t o = 0; o < OPERATIONS; o++) {
        enum wring_status status = wring_request_wait(operations[o].request, WAIT_NS, NULL);
        REQUIRE(status == WRING_OK, "operation %u: %s", o, wring_status_text(status));
        check(&operations[o], o, rank);
    }
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    CHECK(!*scarce || pool->moved > 0, "slots were never scarce");
    for (uint32_t o = 0; o < OPERATIONS; o++) {
        wring_group_destroy(operations[o].group);
        free(operations[o].in);
        free(operations[o].out);
    }
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    CHECK(pool->slots.asks == NULL && pool->slots.n_free == pool->slots.shared,
          "%u of %u slots are free", pool->slots.n_free, pool->slots.shared);
}

static void run_any_order(const char *provider, const char *slots, bool scarce)
{
    char provider_setting[64], slots_setting[64];
    const char *const settings[] = {provider_setting, slots_setting, "WRING_CHUNK_BYTES=16k", NULL};
    struct wring_test_job job = {
        .ranks = RANKS, .settings = settings, .run = any_order, .arg = &scarce};

    snprintf(provider_setting, sizeof(provider_setting), "WRING_PROVIDER=%s", provider);
    snprintf(slots_setting, sizeof(slots_setting), "WRING_POOL_SLOTS=%s", slots);
    wring_test_run_ranks(&job);
}

static void four_slots(void)
{
    run_any_order("shm", "4", true);
    run_any_order("tcp", "4", true);
}

static void one_slot(void)
{
    run_any_order("shm", "1", true);
}

static void enough_slots(void)
{
    run_any_order("shm", "4096", false);
}

/* ---- groups that end while pieces are on their way ---- */

#define DEAD_GROUPS 60
#define DEAD_CALLS 4
#define PAIR_ELEMS 30000 /* in one piece, which is a large one */

static bool all_free(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    const struct wring_pool *pool = session->engine->pool;
    bool all = pool->slots.asks == NULL && pool->slots.n_free == pool->slots.shared;
    wring_progress_unlock(session->progress);
    return all;
}

/** Begin calls that send, and abort and destroy the group before they have ended. */
static void end_early(struct wring_session *session, uint32_t rank, uint32_t turn, float *in,
                      float *out)
{
    static const uint32_t ranks[] = {0, 1, 2};
    const uint64_t elems = turn % 2 == 0 ? ELEMS / 3 : 500;
    struct wring_request *requests[DEAD_CALLS];
    struct wring_group *group;

    REQUIRE(wring_group_create(wring_session_world(session), ranks, 3, turn, WAIT_NS, &group) ==
                WRING_OK,
            "group %u", turn);
    for (uint32_t i = 0; i < DEAD_CALLS; i++) {
        enum wring_status status =
            wring_allgather(group, in, out, elems, WRING_F32, NULL, &requests[i]);
        CHECK(status == WRING_OK || status == WRING_ERR_CANCELLED, "%s", wring_status_text(status));
        requests[i] = status == WRING_OK ? requests[i] : NULL;
    }
    if (rank == turn % 3)
        wring_group_abort(group);
    for (uint32_t i = 0; i < DEAD_CALLS; i++) {
        enum wring_status status =
            requests[i] != NULL ? wring_request_wait(requests[i], WAIT_NS, NULL) : WRING_OK;
        CHECK(status == WRING_OK || status == WRING_ERR_CANCELLED, "%s", wring_status_text(status));
    }
    wring_group_destroy(group);
}

static void early_ends(struct wring_session *session, uint32_t rank, void *arg)
{
    static _Thread_local float in[ELEMS], out[3 * ELEMS];
    uint64_t deadline_ns = wring_deadline_in(WAIT_NS);
    (void)arg;

    for (uint32_t turn = 0; turn < DEAD_GROUPS; turn++)
        end_early(session, rank, turn, in, out);
    for (int32_t all = 0; all < 3 && wring_now_ns() < deadline_ns;) {
        all = all_free(session);
        REQUIRE(wring_allreduce(wring_session_world(session), &all, &all, 1, WRING_I32, WRING_SUM,
                                NULL, NULL) == WRING_OK,
                "the session");
    }
    CHECK(all_free(session), "%u of %u slots are free", session->engine->pool->slots.n_free,
          session->engine->pool->slots.shared);
}

static void dead_groups(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=shm", "WRING_PROVIDER=tcp"};
    for (int i = 0; i < 2; i++) {
        const char *const settings[] = {providers[i], "WRING_POOL_SLOTS=4", "WRING_CHUNK_BYTES=16k",
                                        NULL};
        struct wring_test_job job = {.ranks = 3, .settings = settings, .run = early_ends};
        wring_test_run_ranks(&job);
    }
}

/** An aborted call whose pieces a job still reads gives their places back once that has ended, else
 *  those of later calls find none. */
static void abort_again(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t both[] = {0, 1};
    struct wring_group *world = wring_session_world(session);
    float *in = calloc(ELEMS, sizeof(float)), *out = calloc(ELEMS, sizeof(float));

    (void)rank, (void)arg;
    for (uint32_t turn = 0; turn < 80; turn++) {
        struct wring_group *group = NULL;
        struct wring_request *request = NULL;
        REQUIRE(wring_group_create(world, both, 2, 0, WAIT_NS, &group) == WRING_OK, "group");
        enum wring_status status =
            wring_alltoall(group, in, out, ELEMS / 4, WRING_F32, NULL, &request);
        CHECK(status == WRING_OK || status == WRING_ERR_CANCELLED, "call");
        for (uint64_t until = wring_now_ns() + turn * 2000; wring_now_ns() < until;)
            ; /* it is aborted sooner or later in its course */
        CHECK(rank != turn % 2 || wring_test_abort(group, WAIT_NS) == WRING_OK, "abort");
        if (status == WRING_OK) {
            status = wring_request_wait(request, WAIT_NS, NULL);
            CHECK(status == WRING_OK || status == WRING_ERR_CANCELLED, "%s",
                  wring_status_text(status));
        }
        CHECK(wring_alltoall(world, in, out, ELEMS / 4, WRING_F32, NULL, &request) == WRING_OK &&
                  wring_request_wait(request, WAIT_NS, NULL) == WRING_OK,
              "the world's call %u", turn);
        CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
        if (turn % 8 == 7) /* those before it stay, with what they hold */
            wring_group_destroy(group);
    }
    free(out);
    free(in);
}

static void aborted_calls(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=shm", "WRING_PROVIDER=tcp"};
    for (int i = 0; i < 2; i++) {
        const char *const settings[] = {providers[i], "WRING_EXECUTOR=pool:1",
                                        "WRING_CHUNK_BYTES=8k", NULL};
        struct wring_test_job job = {.ranks = 2, .settings = settings, .run = abort_again};
        wring_test_run_ranks(&job);
    }
}

/** One rank goes on with calls of a group that the other has destroyed. */
static void leave_early(struct wring_session *session, uint32_t rank, void *arg)
{
    static _Thread_local float data[PAIR_ELEMS];
    static const uint32_t ranks[] = {0, 1};
    struct wring_group *world = wring_session_world(session), *group;
    uint64_t bytes = *(const uint64_t *)arg;

    REQUIRE(wring_group_create(world, ranks, 2, 0, WAIT_NS, &group) == WRING_OK, "group");
    for (int i = 0; i < 2; i++) /* then slots are lent */
        REQUIRE(wring_broadcast(group, data, bytes, 0, NULL, NULL) == WRING_OK, "broadcast");
    if (rank == 1)
        wring_group_destroy(group);
    REQUIRE(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (int i = 0; rank == 0 && i < 2; i++)
        CHECK(wring_broadcast(group, data, bytes, 0, NULL, NULL) == WRING_OK, "into the void");
    if (rank == 0)
        wring_group_destroy(group);
    for (int i = 0; i < 20; i++) /* more than there are places: they go back */
        REQUIRE(wring_broadcast(world, data, bytes, i % 2 == 0 ? 0 : 1, NULL, NULL) == WRING_OK,
                "the session");
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK && all_free(session), "slots are kept");
}

static void late_pieces(void)
{
    static const uint64_t sizes[] = {4096, PAIR_ELEMS * sizeof(float)};
    for (int i = 0; i < 4; i++) {
        const char *const settings[] = {i / 2 == 0 ? "WRING_PROVIDER=shm" : "WRING_PROVIDER=tcp",
                                        NULL};
        uint64_t bytes = sizes[i % 2];
        struct wring_test_job job = {
            .ranks = 2, .settings = settings, .run = leave_early, .arg = &bytes};
        wring_test_run_ranks(&job);
    }
}

/* ---- who has been lent slots does not ask ---- */

static uint64_t asked(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    uint64_t n = session->engine->pool->slots.asked;
    wring_progress_unlock(session->progress);
    return n;
}

static void ask_once(struct wring_session *session, uint32_t rank, void *arg)
{
    static _Thread_local float in[PAIR_ELEMS], out[3 * PAIR_ELEMS];
    static const uint32_t ranks[] = {0, 1, 2};
    struct wring_group *world = wring_session_world(session), *groups[3];
    const bool *lends = arg;

    for (uint64_t g = 0; g < 3; g++)
        REQUIRE(wring_group_create(world, ranks, 3, g, WAIT_NS, &groups[g]) == WRING_OK, "group");
    for (uint32_t i = 0; i < 2; i++)
        REQUIRE(wring_allgather(world, in, out, PAIR_ELEMS, WRING_F32, NULL, NULL) == WRING_OK,
                "warm up");
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    uint64_t earlier = asked(session);
    for (uint32_t i = 0; i < 30; i++)
        REQUIRE(wring_allgather(groups[i % 3], in, out, PAIR_ELEMS, WRING_F32, NULL, NULL) ==
                    WRING_OK,
                "call %u of rank %u", i, rank);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    CHECK((asked(session) == earlier) == *lends, "%" PRIu64 " pieces were asked for",
          asked(session) - earlier);
}

static void lent_slots(void)
{
    for (int i = 0; i < 4; i++) {
        const char *const settings[] = {i / 2 == 0 ? "WRING_PROVIDER=shm" : "WRING_PROVIDER=tcp",
                                        i % 2 == 0 ? "WRING_POOL_SLOTS=64" : "WRING_POOL_SLOTS=1",
                                        NULL};
        bool lends = i % 2 == 0;
        struct wring_test_job job = {
            .ranks = 3, .settings = settings, .run = ask_once, .arg = &lends};
        wring_test_run_ranks(&job);
    }
}

/* ---- slots of buckets ---- */

#define BUCKET_ELEMS 300000
#define FITS (1u << 20) /* two slots for each member do, and four do not */

static _Thread_local char line[512];

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)module;
    if (level == WRING_LOG_ERROR && strstr(text, "WRING_") != NULL)
        snprintf(line, sizeof(line), "%s", text);
}

static enum wring_status commit_one(struct wring_session *session, float *data,
                                    struct wring_bucket **bucket)
{
    const struct wring_bucket_params params = {.name = "b",
                                               .data = data,
                                               .elems = BUCKET_ELEMS,
                                               .dtype = WRING_F32,
                                               .op = WRING_SUM,
                                               .codec = "bf16"};
    enum wring_status status = wring_bucket_register(session, &params, bucket);
    return status == WRING_OK ? wring_session_commit(session) : status;
}

static void bounded(struct wring_session *session, uint32_t rank, void *arg)
{
    static _Thread_local float data[BUCKET_ELEMS];
    struct wring_bucket *bucket;
    const bool *fits = arg;

    for (uint64_t i = 0; i < BUCKET_ELEMS; i++)
        data[i] = (float)(rank + i % 32);
    enum wring_status status = commit_one(session, data, &bucket);
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "the session");
    if (!*fits) {
        CHECK(status == WRING_ERR_NO_MEMORY, "%s", wring_status_text(status));
        CHECK(strstr(line, "WRING_SLOT_BYTES is 524288: raise it") != NULL, "%s", line);
        return;
    }
    REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
    CHECK(bucket->shape.window == 2 && session->slots.memory.bytes <= FITS, "%zu bytes, window %u",
          session->slots.memory.bytes, bucket->shape.window);
    REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
            "step");
    for (uint64_t i = 0; i < BUCKET_ELEMS; i++)
        REQUIRE(data[i] == (float)(3 + 3 * (i % 32)), "element %d is %g", (int)i, data[i]);
}

static void run_bounded(const char *most, bool fits)
{
    const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=64k",
                                    "WRING_BYPASS=never", most, NULL};
    struct wring_test_job job = {
        .ranks = 3, .settings = settings, .run = bounded, .arg = &fits, .log = keep_line};
    wring_test_run_ranks(&job);
}

static void slots_of_buckets(void)
{
    run_bounded("WRING_SLOT_BYTES=1m", true);
    run_bounded("WRING_SLOT_BYTES=512k", false);
}

/* ---- many groups ---- */

#define CROWD 24 /* of so many, trees and rounds have the depth that those of 64 have */
#define CROWD_MAX 64
#define MANY_GROUPS 256
#define GROUP_BYTES (1u << 20)
#define DESCRIPTORS 12 /* a rank may open meanwhile: for groups' boards, in a few blocks */

static struct {
    unsigned descriptors, threads;
    size_t bytes;
} before;

static unsigned count_entries(const char *folder)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    CHECK(dir != NULL, "%s", folder);
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void look(void)
{
    before.descriptors = count_entries("/proc/self/fd");
    before.threads = count_entries("/proc/self/task");
    before.bytes = allocated();
}

/** Each of them is used once, and all are there at the end. */
static void many_groups(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session), *groups[MANY_GROUPS];
    uint32_t ranks[CROWD_MAX], n = wring_session_size(session);
    (void)arg;

    for (uint32_t i = 0; i < n; i++)
        ranks[i] = i;
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (rank == 0)
        look();
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (uint32_t g = 0; g < MANY_GROUPS; g++) {
        int32_t x = (int32_t)(rank + g);
        REQUIRE(wring_group_create(world, ranks, n, g, WAIT_NS, &groups[g]) == WRING_OK, "group %u",
                g);
        REQUIRE(wring_allreduce(groups[g], &x, &x, 1, WRING_I32, WRING_SUM, NULL, NULL) == WRING_OK,
                "sum %u", g);
        CHECK(x == (int32_t)(n * (n - 1) / 2 + n * g), "group %u: %d", g, x);
    }
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (rank == 0) {
        unsigned descriptors = count_entries("/proc/self/fd") - before.descriptors;
        size_t bytes = (allocated() - before.bytes) / n;
        printf("%d groups of %u, each used once: %zu KiB a rank, %zu KiB a group; %.1f "
               "descriptors a rank\n",
               MANY_GROUPS, n, bytes >> 10, bytes / MANY_GROUPS >> 10, (double)descriptors / n);
        CHECK(descriptors <= DESCRIPTORS * n, "%u descriptors", descriptors);
        CHECK(count_entries("/proc/self/task") == before.threads, "threads");
        CHECK(bytes / MANY_GROUPS < GROUP_BYTES, "%zu bytes a group", bytes / MANY_GROUPS);
    }
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
}

static void run_crowd(uint32_t ranks)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL};
    struct wring_test_job job = {.ranks = ranks, .settings = settings, .run = many_groups};
    wring_test_run_ranks(&job);
}

static void crowd_of_24(void)
{
    run_crowd(CROWD);
}

static void crowd_of_64(void)
{
    run_crowd(CROWD_MAX);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"four_slots", four_slots},
        {"one_slot", one_slot},
        {"enough_slots", enough_slots},
        {"dead_groups", dead_groups},
        {"aborted_calls", aborted_calls},
        {"late_pieces", late_pieces},
        {"lent_slots", lent_slots},
        {"slots_of_buckets", slots_of_buckets},
        {"crowd_of_24", crowd_of_24},
        {"crowd_of_64", crowd_of_64},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
