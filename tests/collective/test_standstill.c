/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step in which nobody can move ends with a line that says who waits for what; one in which
 * somebody is late, or the link is slow, ends as it should.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/collective/lossy.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (120ull * 1000000000)
#define ELEMS 60000
#define STEPS 4
#define LATE_STEP 2
#define SLOW_STEPS 2 /* each takes many heartbeats */
#define RANKS_MAX 12
#define FEW 8 /* of more members, two by two exchange sums */

static const char *const quick = "WRING_HEARTBEAT=20ms";
static const char *const small_pieces = "WRING_CHUNK_BYTES=4096";

/* ---- nobody can move ---- */

struct loss {
    uint32_t ranks, loser;
    const char *codec, *provider;
    enum wring_scheme scheme;
    bool call;        /* an immediate one; of many ranks a broadcast, down a tree */
    const char *what; /* that the line names */
    float *data[RANKS_MAX];
};

/** Longer than the sessions, as a step that fails may be in it until they are closed. */
static void make_data(float **data)
{
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        data[rank] = calloc(ELEMS, sizeof(float));
}

static void free_data(float **data)
{
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        free(data[rank]);
}

static struct wring_bucket *make_bucket(struct wring_session *session, const struct loss *loss,
                                        float *data)
{
    struct wring_bucket *bucket = NULL;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    params.name = "weights";
    params.data = data;
    params.elems = ELEMS;
    params.codec = loss->codec;
    params.scheme = loss->scheme;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
              wring_session_commit(session) == WRING_OK,
          "commit");
    return bucket;
}

static enum wring_status one_step(struct wring_session *session, const struct loss *loss,
                                  struct wring_bucket *bucket, float *data)
{
    if (loss->call && loss->ranks > FEW)
        return wring_broadcast(wring_session_world(session), data, ELEMS * sizeof(*data), 0, NULL,
                               NULL);
    if (loss->call)
        return wring_allreduce(wring_session_world(session), data, data, ELEMS, WRING_F32,
                               WRING_SUM, &(struct wring_call){.codec = loss->codec}, NULL);
    enum wring_status status = wring_bucket_post(bucket);
    return status == WRING_OK ? wring_bucket_wait(bucket, WAIT_NS, NULL) : status;
}

static void lose(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct loss *loss = arg;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    float *data = loss->data[rank];
    struct wring_bucket *bucket = loss->call ? NULL : make_bucket(session, loss, data);
    enum wring_status status = one_step(session, loss, bucket, data);

    CHECK(status == WRING_OK, "before: %s", wring_status_text(status));
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    if (rank == loss->loser)
        wring_test_lose_credits(session);
    for (int step = 0; step < 20 && status == WRING_OK; step++)
        status = one_step(session, loss, bucket, data);
    CHECK(status == WRING_ERR_PEER, "rank %u: %s", rank, wring_status_text(status));
    CHECK(wring_session_error(session, &detail) == WRING_ERR_PEER && detail.rank == -1 &&
              strstr(detail.text, "nobody can move") != NULL &&
              strstr(detail.text, loss->what) != NULL,
          "rank %u says: %s", rank, detail.text);
    if (loss->ranks > FEW) /* it knows of those that it exchanges with */
        return;
    CHECK(strstr(detail.text, "has no credit for piece ") != NULL, "rank %u says: %s", rank,
          detail.text);
    char whose[32];
    snprintf(whose, sizeof(whose), " to rank %u", loss->loser);
    CHECK(strstr(detail.text, whose) != NULL, "%s, not: %s", whose, detail.text);
}

static void lose_in(struct loss loss)
{
    char provider[64];
    const char *settings[] = {provider, quick, small_pieces, "WRING_LOG=error", NULL};
    snprintf(provider, sizeof(provider), "WRING_PROVIDER=%s", loss.provider);
    make_data(loss.data);
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = loss.ranks,
                                 .ranks_per_node = loss.scheme == WRING_SCHEME_HIERARCHICAL ? 2 : 0,
                                 .settings = settings,
                                 .arg = &loss,
                                 .run = lose});
    free_data(loss.data);
    CHECK(wring_test_lost_credits(), "no credit was lost");
}

static void a_lost_credit_is_named(void)
{
    const char *bucket = "bucket 'weights'";

    lose_in((struct loss){2, 1, "none", "tcp", WRING_SCHEME_DIVISIBLE, false, bucket, {0}});
    lose_in((struct loss){3, 0, "bf16", "tcp", WRING_SCHEME_INDIVISIBLE, false, bucket, {0}});
    lose_in((struct loss){4, 2, "int8+ef", "shm", WRING_SCHEME_DIVISIBLE, false, bucket, {0}});
    lose_in((struct loss){4, 3, "bf16", "tcp", WRING_SCHEME_HIERARCHICAL, false, bucket, {0}});
    lose_in(
        (struct loss){3, 1, NULL, "tcp", WRING_SCHEME_AUTO, true, "allreduce of 60000 f32", {0}});
    lose_in((struct loss){12, 5, "none", "tcp", WRING_SCHEME_AUTO, false, bucket, {0}});
    /* of three ranks each exchanges with the others, and knows of them */
    lose_in((struct loss){3, 2, "none", "tcp", WRING_SCHEME_RING, false, bucket, {0}});
    lose_in((struct loss){12, 5, NULL, "tcp", WRING_SCHEME_AUTO, true, "broadcast of ", {0}});
}

/* ---- somebody can ---- */

enum late {
    POSTS_LATE,  /* a rank computes before it posts */
    WAITS_LATE,  /* after it has posted; by callers nothing goes on meanwhile */
    OLDER_STATE, /* a rank's steps count from elsewhere */
    NOBODY_IS_LATE,
};

struct wait {
    enum late late;
    uint32_t ranks;
    enum wring_scheme scheme;
    bool call;
    float *data[RANKS_MAX];
};

/** Many heartbeats. */
static void compute(void)
{
    usleep(600000);
}

/** Rank 0 takes the state of its first step over again after each one. */
static void take_back(struct wring_session *session, uint32_t rank, int step, void **state,
                      size_t *bytes)
{
    if (rank != 0)
        return;
    if (step > 0) {
        CHECK(wring_session_load_state(session, *state, *bytes) == WRING_OK, "load_state");
        return;
    }
    wring_session_save_state(session, NULL, bytes);
    *state = malloc(*bytes);
    CHECK(wring_session_save_state(session, *state, bytes) == WRING_OK, "save_state");
}

static void check_sums(const float *data, uint32_t ranks, int step)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < ELEMS; i++)
        wrong += data[i] != (float)(ranks * (i % 4) + (uint32_t)step * ranks);
    CHECK(wrong == 0, "step %d: %u are wrong", step, wrong);
}

static void run_step(struct wring_session *session, const struct wait *wait,
                     struct wring_bucket *bucket, uint32_t rank, int step)
{
    bool late = rank == wring_session_size(session) - 1 && step == LATE_STEP;
    float *data = wait->data[rank];
    struct wring_request *request = NULL;

    for (uint32_t i = 0; i < ELEMS; i++)
        data[i] = (float)(i % 4 + (uint32_t)step);
    if (late && (wait->late == POSTS_LATE || wait->late == OLDER_STATE))
        compute();
    enum wring_status status = wait->call
                                   ? wring_allreduce(wring_session_world(session), data, data,
                                                     ELEMS, WRING_F32, WRING_SUM, NULL, &request)
                                   : wring_bucket_post(bucket);
    CHECK(status == WRING_OK, "post: %s", wring_status_text(status));
    if (late && wait->late == WAITS_LATE)
        compute();
    status = wait->call ? wring_request_wait(request, WAIT_NS, NULL)
                        : wring_bucket_wait(bucket, WAIT_NS, NULL);
    CHECK(status == WRING_OK, "rank %u, step %d: %s", rank, step, wring_status_text(status));
    if (status == WRING_OK)
        check_sums(data, wait->ranks, step);
}

static void run_late(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct wait *wait = arg;
    struct loss plain = {.codec = wait->late == OLDER_STATE ? "bf16+ef" : "bf16",
                         .scheme = wait->scheme};
    struct wring_bucket *bucket =
        wait->call ? NULL : make_bucket(session, &plain, wait->data[rank]);
    void *state = NULL;
    size_t bytes = 0;
    int steps = wait->late == NOBODY_IS_LATE ? SLOW_STEPS : STEPS;

    for (int step = 0; step < steps; step++) {
        run_step(session, wait, bucket, rank, step);
        if (wait->late == OLDER_STATE)
            take_back(session, rank, step, &state, &bytes);
    }
    free(state);
}

static void late_in(struct wait wait, const char *provider, const char *further)
{
    const char *settings[] = {provider, quick, small_pieces, further, "WRING_LOG=error", NULL};
    make_data(wait.data);
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = wait.ranks,
                                 .ranks_per_node = wait.scheme == WRING_SCHEME_HIERARCHICAL ? 2 : 0,
                                 .settings = settings,
                                 .arg = &wait,
                                 .run = run_late});
    free_data(wait.data);
}

static void who_is_late_is_not_accused(void)
{
    const char *caller = "WRING_PROGRESS=caller", *thread = "WRING_PROGRESS=thread";

    for (int late = POSTS_LATE; late <= OLDER_STATE; late++) {
        enum late how = (enum late)late;
        late_in((struct wait){how, 3, WRING_SCHEME_DIVISIBLE, false, {0}}, "WRING_PROVIDER=tcp",
                thread);
        late_in((struct wait){how, 2, WRING_SCHEME_INDIVISIBLE, false, {0}}, "WRING_PROVIDER=shm",
                caller);
        late_in((struct wait){how, 4, WRING_SCHEME_HIERARCHICAL, false, {0}}, "WRING_PROVIDER=auto",
                caller);
    }
    late_in((struct wait){POSTS_LATE, 3, WRING_SCHEME_AUTO, true, {0}}, "WRING_PROVIDER=tcp",
            thread);
    late_in((struct wait){WAITS_LATE, 3, WRING_SCHEME_AUTO, true, {0}}, "WRING_PROVIDER=tcp",
            caller);
    late_in((struct wait){POSTS_LATE, 12, WRING_SCHEME_AUTO, true, {0}}, "WRING_PROVIDER=tcp",
            thread);
    late_in((struct wait){WAITS_LATE, 11, WRING_SCHEME_AUTO, false, {0}}, "WRING_PROVIDER=tcp",
            caller);
}

/** A piece takes longer than all confirmations; credits and statements do, too. */
static void slow_links_are_not_accused(void)
{
    const char *rate = "WRING_FAULT=rate=2mbit", *delay = "WRING_FAULT=delay=150ms,jitter=100ms";
    const char *of_one = "WRING_FAULT=rate=2mbit,delay=100ms,rank=1";

    late_in((struct wait){NOBODY_IS_LATE, 2, WRING_SCHEME_DIVISIBLE, false, {0}},
            "WRING_PROVIDER=tcp", rate);
    late_in((struct wait){NOBODY_IS_LATE, 3, WRING_SCHEME_INDIVISIBLE, false, {0}},
            "WRING_PROVIDER=tcp", of_one);
    late_in((struct wait){NOBODY_IS_LATE, 2, WRING_SCHEME_DIVISIBLE, false, {0}},
            "WRING_PROVIDER=shm", delay);
    late_in((struct wait){NOBODY_IS_LATE, 12, WRING_SCHEME_AUTO, true, {0}}, "WRING_PROVIDER=tcp",
            "WRING_FAULT=rate=20mbit,delay=100ms,rank=1");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_lost_credit_is_named", a_lost_credit_is_named},
        {"who_is_late_is_not_accused", who_is_late_is_not_accused},
        {"slow_links_are_not_accused", slow_links_are_not_accused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
