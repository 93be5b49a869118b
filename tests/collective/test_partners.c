/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small collectives of many members over a network: a rank exchanges messages with as many others
 * as log2 of their number, and connects to no more.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (120ull * 1000000000)
#define ELEMS 1024 /* 4 KiB */
#define CALLS 16
#define RANKS_MAX 256
#define PIECE 16 /* elements */

struct counts {
    uint64_t puts, controls;
};

enum kind {
    ALLREDUCE,
    CODES, /* one of codes, in a bucket */
    REDUCE,
    GATHER, /* of pieces, like those that follow */
    SCATTER,
    ALLGATHER,
    ALLTOALL,
    KINDS,
};

struct job {
    uint32_t ranks;
    enum kind kind;
    bool bucket;
    bool late; /* the last rank calls many heartbeats after the others */
    struct counts before[RANKS_MAX], after[RANKS_MAX];
    uint32_t connections[RANKS_MAX];
};

static bool is_rooted(enum kind kind)
{
    return kind == GATHER || kind == SCATTER;
}

static pthread_barrier_t together; /* not by messages: these are counted */

static uint32_t levels_of(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

static struct counts counts_of(struct wring_session *session)
{
    return (struct counts){atomic_load(&session->fabric->puts_sent),
                           atomic_load(&session->fabric->controls_sent)};
}

static uint32_t connections_of(struct wring_session *session)
{
    uint32_t n = 0;
    wring_progress_lock(session->progress);
    for (uint32_t i = 0; i < session->size; i++)
        n += i != session->rank && session->fabric->peers[i].state != WRING_PEER_NONE;
    wring_progress_unlock(session->progress);
    return n;
}

static struct wring_bucket *make_bucket(struct wring_session *session, const char *codec,
                                        float *data)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;

    params.name = "small";
    params.data = data;
    params.elems = ELEMS;
    params.codec = codec;
    params.scheme = codec != NULL ? WRING_SCHEME_INDIVISIBLE : WRING_SCHEME_AUTO;
    enum wring_status status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    CHECK(status == WRING_OK, "bucket: %s", wring_status_text(status));
    return status == WRING_OK ? bucket : NULL;
}

/** @param data  [elems, or PIECE for each member] */
static enum wring_status call(struct wring_group *group, enum kind kind, float *data,
                              uint64_t elems)
{
    static float apart[RANKS_MAX * PIECE]; /* sent, and never written */

    switch (kind) {
    case ALLREDUCE:
    case CODES:
        return wring_allreduce(group, data, data, elems, WRING_F32, WRING_MAX, NULL, NULL);
    case REDUCE:
        return wring_reduce(group, data, data, elems, WRING_F32, WRING_MAX, 0, NULL, NULL);
    case GATHER:
        return wring_gather(group, apart, data, PIECE, WRING_F32, 0, NULL, NULL);
    case SCATTER:
        return wring_scatter(group, apart, data, PIECE, WRING_F32, 0, NULL, NULL);
    case ALLGATHER:
        return wring_allgather(group, apart, data, PIECE, WRING_F32, NULL, NULL);
    case ALLTOALL:
        return wring_alltoall(group, apart, data, PIECE, WRING_F32, NULL, NULL);
    case KINDS:
        break;
    }
    return WRING_ERR_INVALID;
}

static enum wring_status sum(struct wring_session *session, enum kind kind,
                             struct wring_bucket *bucket, float *data)
{
    if (bucket == NULL)
        return call(wring_session_world(session), kind, data, ELEMS);
    enum wring_status status = wring_bucket_post(bucket);
    return status == WRING_OK ? wring_bucket_wait(bucket, WAIT_NS, NULL) : status;
}

/** Stats name what ran, not the scheme that would have. */
static void check_stats(struct wring_bucket *bucket, enum kind kind)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;

    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
    CHECK(strcmp(stats.scheme, kind == CODES ? "indivisible" : "doubling") == 0 &&
              strcmp(stats.algorithm, kind == CODES ? "one-shot-bruck" : "doubling") == 0,
          "%s by %s", stats.scheme, stats.algorithm);
}

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    struct job *job = arg;
    float *data = calloc(RANKS_MAX * PIECE, sizeof(*data)); /* ELEMS or more */
    struct wring_bucket *bucket =
        job->bucket ? make_bucket(session, job->kind == CODES ? "int8" : NULL, data) : NULL;

    enum wring_status status = sum(session, job->kind, bucket, data); /* connects, tells names */
    if (status == WRING_OK)
        status = wring_barrier(wring_session_world(session), NULL, NULL);
    pthread_barrier_wait(&together);
    job->before[rank] = counts_of(session);
    if (job->late && rank == job->ranks - 1)
        usleep(300000);
    for (int i = 0; i < CALLS && status == WRING_OK; i++) {
        data[7] = (float)rank;
        status = sum(session, job->kind, bucket, data);
        CHECK(job->bucket || job->kind != ALLREDUCE || data[7] == (float)(job->ranks - 1),
              "rank %u: %g", rank, data[7]);
    }
    CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
    job->after[rank] = counts_of(session);
    if (bucket != NULL)
        check_stats(bucket, job->kind);
    job->connections[rank] = connections_of(session);
    pthread_barrier_wait(&together);
    free(data);
}

/** Data messages that a rank sends in a call, at most. */
static uint32_t most_messages(enum kind kind, uint32_t ranks)
{
    switch (kind) {
    case ALLREDUCE:
        return 2 * levels_of(ranks) + 2;
    case REDUCE:
    case GATHER:
        return 1;
    case CODES:
    case SCATTER:
    case ALLGATHER:
    case ALLTOALL:
    case KINDS:
        break;
    }
    return levels_of(ranks - 1) + 1;
}

/** For these calls and barriers; what comes from above and what goes below may be other members. */
static uint32_t most_connections(enum kind kind, uint32_t ranks)
{
    uint32_t levels = levels_of(ranks - 1) + 1;
    return kind == ALLREDUCE || kind == REDUCE ? levels_of(ranks) + 1
           : kind != CODES && kind <= SCATTER  ? 2 * levels
                                               : 3 * levels;
}

static void run_job(struct job *job)
{
    const char *settings[] = {
        "WRING_PROVIDER=tcp",       "WRING_PROGRESS=caller",
        "WRING_BYPASS=never",       job->late ? "WRING_HEARTBEAT=20ms" : "WRING_HEARTBEAT=900s",
        "WRING_PEER_TIMEOUT=1000s", NULL}; /* signs of life are messages, too */

    pthread_barrier_init(&together, NULL, job->ranks);
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = job->ranks, .settings = settings, .arg = job, .run = run});
    pthread_barrier_destroy(&together);
}

static void check_counts(uint32_t ranks, enum kind kind, bool bucket)
{
    struct job *job = calloc(1, sizeof(*job));
    uint32_t levels = levels_of(ranks), most = most_messages(kind, ranks) * CALLS;
    uint32_t most_controls = (2 * levels + 2) * CALLS;

    job->ranks = ranks;
    job->kind = kind;
    job->bucket = bucket;
    run_job(job);
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t puts = job->after[r].puts - job->before[r].puts;
        uint64_t controls = job->after[r].controls - job->before[r].controls;
        CHECK((puts > 0 || kind != ALLREDUCE) && puts <= most,
              "rank %u of %u: %llu data messages in %d calls of kind %d, more than %u", r, ranks,
              (unsigned long long)puts, CALLS, (int)kind, most);
        CHECK(controls <= most_controls,
              "rank %u of %u: %llu control messages in %d calls of kind %d, more than %u", r, ranks,
              (unsigned long long)controls, CALLS, (int)kind, most_controls);
        CHECK(job->connections[r] <= most_connections(kind, ranks),
              "rank %u of %u: %u connections for calls of kind %d and a barrier", r, ranks,
              job->connections[r], (int)kind);
    }
    free(job);
}

/** Whoever waits for many heartbeats tells those that it exchanges with, and connects to no more.
 */
static void who_waits_connects_to_nobody(void)
{
    for (int kind = ALLREDUCE; kind < KINDS; kind++) {
        struct job *job = calloc(1, sizeof(*job));
        job->ranks = is_rooted((enum kind)kind) ? 37 : 23; /* a root has a tree from 32 on */
        job->kind = (enum kind)kind;
        job->bucket = kind == CODES;
        job->late = true;
        run_job(job);
        for (uint32_t r = 0; r < job->ranks; r++)
            CHECK(job->connections[r] <= most_connections(job->kind, job->ranks),
                  "rank %u: %u connections for calls of kind %d", r, job->connections[r], kind);
        free(job);
    }
}

static void calls_of_few(void)
{
    check_counts(16, ALLREDUCE, false);
    check_counts(33, ALLREDUCE, false);
}

static void calls_of_64(void)
{
    check_counts(64, ALLREDUCE, false);
    for (int kind = REDUCE; kind < KINDS; kind++)
        check_counts(64, (enum kind)kind, false);
}

/** All descriptors of all ranks are this process's. */
static void calls_of_256(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0, "%llu descriptors",
            (unsigned long long)limit.rlim_max);
    check_counts(100, ALLREDUCE, false);
    check_counts(256, ALLREDUCE, false);
}

static void buckets(void)
{
    check_counts(16, ALLREDUCE, true);
    check_counts(23, ALLREDUCE, true);
    check_counts(16, CODES, true);
    check_counts(23, CODES, true);
}

static void other_calls(void)
{
    for (int kind = REDUCE; kind < KINDS; kind++) {
        check_counts(is_rooted((enum kind)kind) ? 32 : 9, (enum kind)kind, false);
        check_counts(is_rooted((enum kind)kind) ? 37 : 23, (enum kind)kind, false);
    }
}

/* ---- somebody leaves ---- */

#define LEAVERS 13
#define LEAVERS_BELOW 37 /* of a root, whose pieces go down a tree, and up */
#define LARGE 30000      /* elements: halves are exchanged */

struct leave {
    uint32_t who;
    enum kind kind;
    uint64_t elems;
    float *data[LEAVERS_BELOW]; /* longer than the sessions: a step that fails may be in it */
};

/** Does a rank need the one that leaves, be it by way of others? Some of those that do not are
 *  through before they hear of it. */
static bool must_fail(const struct leave *leave, uint32_t rank)
{
    switch (leave->kind) {
    case ALLREDUCE:
        return true;
    case CODES:
    case ALLGATHER:
    case ALLTOALL:
        return true;
    case REDUCE:
    case GATHER:
        return rank == 0;
    case SCATTER:
    case KINDS:
        break;
    }
    return rank > leave->who && rank - leave->who < (leave->who & -leave->who); /* below it */
}

/** It makes three calls, and the others a fourth. */
static void run_until_left(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct leave *leave = arg;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    enum wring_status status = WRING_OK;

    for (int i = 0; i < 3 && status == WRING_OK; i++)
        status = call(wring_session_world(session), leave->kind, leave->data[rank], leave->elems);
    CHECK(status == WRING_OK, "rank %u, before: %s", rank, wring_status_text(status));
    pthread_barrier_wait(&together); /* a fourth that fails ends a third that is under way */
    if (rank == leave->who)
        return;
    status = call(wring_session_world(session), leave->kind, leave->data[rank], leave->elems);
    if (!must_fail(leave, rank) && status == WRING_OK)
        return;
    CHECK(status == WRING_ERR_PEER, "rank %u: %s", rank, wring_status_text(status));
    CHECK(wring_session_error(session, &detail) == WRING_ERR_PEER &&
              detail.rank == (int32_t)leave->who,
          "rank %u blames %d, not %u: %s", rank, detail.rank, leave->who, detail.text);
}

static void log_nothing(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void leave_as(uint32_t who, enum kind kind, uint64_t elems)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", NULL};
    struct leave leave = {.who = who, .kind = kind, .elems = elems};
    uint32_t ranks = is_rooted(kind) ? LEAVERS_BELOW : LEAVERS;

    for (uint32_t i = 0; i < ranks; i++)
        leave.data[i] = calloc(elems, sizeof(float));
    pthread_barrier_init(&together, NULL, ranks);
    wring_test_run_ranks(&(struct wring_test_job){.ranks = ranks,
                                                  .settings = settings,
                                                  .arg = &leave,
                                                  .run = run_until_left,
                                                  .log = log_nothing});
    pthread_barrier_destroy(&together);
    for (uint32_t i = 0; i < ranks; i++)
        free(leave.data[i]);
}

/** One that is folded, one that another is folded into, and one without. */
static void who_leaves_is_named(void)
{
    static const uint32_t whos[] = {12, 2, 7};

    for (size_t i = 0; i < sizeof(whos) / sizeof(whos[0]); i++) {
        leave_as(whos[i], ALLREDUCE, ELEMS);
        leave_as(whos[i], ALLREDUCE, LARGE);
        leave_as(whos[i], SCATTER, ELEMS); /* who fails depends on who left */
    }
    for (int kind = REDUCE; kind < KINDS; kind++)
        if (kind != SCATTER)
            leave_as(whos[kind / 2 % 3], (enum kind)kind, ELEMS);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"calls_of_few", calls_of_few},
        {"calls_of_64", calls_of_64},
        {"buckets", buckets},
        {"other_calls", other_calls},
        {"who_waits_connects_to_nobody", who_waits_connects_to_nobody},
        {"calls_of_256", calls_of_256},
        {"who_leaves_is_named", who_leaves_is_named},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
