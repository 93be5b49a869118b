/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of a node dies in a leg of a hierarchical collective: at its start, or halfway through. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/commit/hierarchy_phases.h"
#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

#define RANKS 4 /* 0 and 1 on one node, 2 and 3 on another */
#define MATE 0
#define DOOMED 1
#define STEPS 1000 /* or until it fails */
#define LAST_STEP 3
#define TWO_SLICES (1u << 19) /* elements */
#define SHORT_NS (20 * WRING_NS_PER_MS)
#define LONG_NS (30 * WRING_NS_PER_S)

static const char *const as_they_are[] = {"WRING_SCHEME=hierarchical", NULL};
static const char *const in_pieces[] = {"WRING_SCHEME=hierarchical", "WRING_PROVIDER=tcp",
                                        "WRING_CHUNK_BYTES=16k", NULL};
static const char *const rolled_back[] = {"WRING_SCHEME=hierarchical", "WRING_ROLLBACK=on", NULL};

static const struct death {
    const char *name;
    enum wring_leg leg; /* of the last slice */
    bool halfway;       /* some pieces of many have been sent */
    bool anew;          /* in the first step after a second commit */
    const char *const *settings;
    const char *codec; /* NULL: sums are exact; else it has a residual, which is kept */
    uint64_t elems;
} deaths[] = {
    {"within a node", WRING_LEG_IN, false, false, as_they_are, NULL, TWO_SLICES},
    {"between nodes", WRING_LEG_ACROSS, false, false, as_they_are, NULL, TWO_SLICES},
    {"before it spreads the sum", WRING_LEG_OUT, false, false, as_they_are, NULL, TWO_SLICES},
    {"while it spreads the sum", WRING_LEG_OUT, true, false, in_pieces, NULL, TWO_SLICES},
    {"with a residual", WRING_LEG_OUT, false, false, rolled_back, "int8+ef", ELEMS},
    {"with a residual, committed anew", WRING_LEG_IN, false, true, rolled_back, "int8+ef", ELEMS},
};

/** What a job's processes share. */
struct shared {
    atomic_bool deadline_came; /* of a wait for the doomed one */
};

static struct shared *shared;

static const struct wring_collective_ops *real;
static struct wring_collective_ops deadly;

/** But not before somebody has waited in vain: nothing else ends a wait until then. */
static void die(void)
{
    uint64_t limit = wring_deadline_in(LONG_NS);
    while (!atomic_load(&shared->deadline_came) && wring_now_ns() < limit)
        usleep(1000);
    kill(getpid(), SIGKILL);
}

static void die_at_start(struct wring_collective *leg)
{
    (void)leg;
    die();
}

static void die_halfway(struct wring_collective *leg)
{
    real->advance(leg);
    die();
}

/** The bucket's next step is this rank's last. */
static void doom(struct wring_bucket *bucket, const struct death *death)
{
    uint32_t slice = bucket->levels->n - 1;
    struct wring_work *work = &wring_leg_bucket(bucket, slice, death->leg)->collective.work;

    real = work->ops;
    deadly = *real;
    if (death->halfway)
        deadly.advance = die_halfway;
    else
        deadly.start = die_at_start;
    work->ops = &deadly;
}

static float value(uint32_t rank, unsigned step, uint64_t i)
{
    return (float)(rank + 1) * (float)(1 + (step + i) % 13);
}

static void fill(const struct wring_bucket *bucket, uint32_t rank, unsigned step)
{
    for (uint64_t i = 0; i < bucket->elems; i++)
        ((float *)bucket->data)[i] = value(rank, step, i);
}

/** Small whole numbers: their sum is exact. */
static uint64_t count_wrong(const struct wring_bucket *bucket, unsigned step)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < bucket->elems; i++) {
        float want = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            want += value(rank, step, i);
        wrong += ((const float *)bucket->data)[i] != want;
    }
    return wrong;
}

/** A session's residuals. */
struct state {
    uint8_t *data;
    size_t bytes;
};

static enum wring_status save(struct wring_session *session, struct state *state)
{
    enum wring_status status = wring_session_save_state(session, NULL, &state->bytes);
    free(state->data);
    state->data = malloc(state->bytes);
    return status != WRING_OK ? status
                              : wring_session_save_state(session, state->data, &state->bytes);
}

static void check_result(struct procs_rank *rank, const struct wring_bucket *bucket, unsigned step)
{
    uint64_t wrong = bucket->residual == NULL ? count_wrong(bucket, step) : 0;
    if (wrong > 0)
        procs_say(rank, "step %u: %llu wrong", step, (unsigned long long)wrong);
}

static enum wring_status step_once(struct procs_rank *rank, struct wring_bucket *bucket,
                                   unsigned step)
{
    fill(bucket, rank->rank, step);
    enum wring_status status = wring_bucket_post(bucket);
    if (status != WRING_OK)
        return status;
    while ((status = wring_bucket_wait(bucket, SHORT_NS, NULL)) == WRING_ERR_TIMEOUT)
        if (rank->rank == MATE && step == LAST_STEP)
            atomic_store(&shared->deadline_came, true);
    if (status == WRING_OK)
        check_result(rank, bucket, step);
    else if (wring_bucket_test(bucket, NULL) != status)
        procs_say(rank, "step %u: wrong, it ended and then had not", step);
    return status;
}

/** Steps, each of which ends well, until one fails. @param before out, the state before that one */
static enum wring_status run_steps(struct procs_rank *rank, struct wring_bucket *bucket,
                                   const struct death *death, struct state *before)
{
    enum wring_status status = WRING_OK;
    for (unsigned step = 0; step < STEPS && status == WRING_OK; step++) {
        status = save(bucket->session, before);
        if (death->anew && step == LAST_STEP && status == WRING_OK)
            status = wring_session_commit(bucket->session);
        if (rank->rank == DOOMED && step == LAST_STEP)
            doom(bucket, death);
        if (status == WRING_OK)
            status = step_once(rank, bucket, step);
        if (status != WRING_OK)
            procs_say(rank, "failed in step %u", step);
    }
    return status;
}

static void check_state(struct procs_rank *rank, struct wring_session *session,
                        const struct state *before)
{
    struct state after = {0};
    enum wring_status status = save(session, &after);
    bool same = status == WRING_OK && after.bytes == before->bytes &&
                memcmp(after.data, before->data, after.bytes) == 0;
    if (!same)
        procs_say(rank, "wrong state, %s: not that before the step", wring_status_text(status));
    free(after.data);
}

static int run_doomed(struct procs_rank *rank, void *arg)
{
    const struct death *death = arg;
    struct wring_session *session;
    struct wring_bucket *bucket;
    struct state before = {0};
    void *data;

    setenv("WRING_NODE", rank->rank < 2 ? "a" : "b", 1);
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    wring_buffer_alloc(session, death->elems * sizeof(float), &data);
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = death->elems, .codec = death->codec};
    wring_bucket_register(session, &params, &bucket);
    enum wring_status status = wring_session_commit(session);
    if (status == WRING_OK)
        status = run_steps(rank, bucket, death, &before);
    procs_say_end(rank, session, status);
    say_again(rank, bucket);
    check_state(rank, session, &before);
    free(before.data);
    wring_session_close(session);
    procs_say(rank, "closed");
    return status == WRING_OK ? 0 : 3;
}

static void run_death(const struct death *death)
{
    atomic_store(&shared->deadline_came, false);
    start(RANKS, death->settings, run_doomed);
    job.arg = (void *)death;
    CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", death->name);
    CHECK(job.codes[DOOMED] == -SIGKILL, "%s: code %d", death->name, job.codes[DOOMED]);
    check_named(death->name, DOOMED);
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(strstr(job.texts[i], "wrong") == NULL, "%s: rank %u said:\n%s", death->name, i,
              job.texts[i]);
    CHECK(atomic_load(&shared->deadline_came), "%s: no wait ended by its deadline", death->name);
    CHECK(strstr(job.texts[MATE], "failed in step 3") != NULL,
          "%s: half a sum counts as a result:\n%s", death->name, job.texts[MATE]);
}

static void deaths_within_and_between_nodes(void)
{
    run_death(&deaths[0]);
    run_death(&deaths[1]);
}

static void deaths_while_the_sum_is_spread(void)
{
    run_death(&deaths[2]);
    run_death(&deaths[3]);
}

static void residuals_of_a_step_that_is_not_spread_are_rolled_back(void)
{
    run_death(&deaths[4]);
    run_death(&deaths[5]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"deaths_within_and_between_nodes", deaths_within_and_between_nodes},
        {"deaths_while_the_sum_is_spread", deaths_while_the_sum_is_spread},
        {"residuals_of_a_step_that_is_not_spread_are_rolled_back",
         residuals_of_a_step_that_is_not_spread_are_rolled_back},
        {NULL, NULL},
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : wring_test_main(argc, argv, cases);
}
