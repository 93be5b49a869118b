/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/failure/elastic_job.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "tests/lib/test.h"

#define WEIGHTS 16
#define WRONG_MAX 3                    /* elements that are named */
#define POSTS_NS (10 * WRING_NS_PER_S) /* for all to post */

/** A rank's state. */
struct member {
    struct procs_rank *rank;
    struct elastic_plan *plan;
    struct wring_session *session;
    struct wring_bucket *bucket;
    float *in, *out;
    uint32_t present[PROCS_MAX], n_present; /* by the ranks that they began as */
    uint32_t shrinks;
    bool awaits_sum;
    float weights[WEIGHTS], before[WEIGHTS]; /* before: the last step was taken */
    uint64_t weighed;                        /* steps in weights */
};

struct elastic_plan *elastic_plan_new(void)
{
    static struct elastic_plan *plan;

    if (plan == NULL)
        plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (plan == MAP_FAILED)
        exit(1);
    memset(plan, 0, sizeof(*plan));
    plan->elems = ELEMS;
    plan->steps = 12;
    for (uint32_t i = 0; i < PROCS_MAX; i++)
        plan->deaths[i].step = ELASTIC_LIVES;
    return plan;
}

/* ---- dying ---- */

struct execution {
    struct elastic_plan *plan;
    uint32_t after_us;
};

static void die(struct elastic_plan *plan, uint32_t after_us)
{
    struct timespec pause = {0, (long)after_us * 1000};

    nanosleep(&pause, NULL);
    atomic_store(&plan->died_ns, wring_now_ns());
    kill(getpid(), SIGKILL);
}

static void *execute(void *arg)
{
    struct execution *execution = arg;

    die(execution->plan, execution->after_us);
    return NULL;
}

static void die_later(struct member *member, const struct elastic_death *death)
{
    static struct execution execution;
    pthread_t thread;

    execution = (struct execution){member->plan, death->after_us};
    if (pthread_create(&thread, NULL, execute, &execution) == 0)
        pthread_detach(thread);
}

static void perhaps_die(struct member *member, uint64_t step, bool in_shrink)
{
    const struct elastic_death *death = &member->plan->deaths[member->rank->rank];

    if (death->step != ELASTIC_LIVES && !death->awaited && death->in_shrink == in_shrink &&
        (in_shrink ? member->shrinks == 0 : death->step == step))
        die_later(member, death);
}

/** All others are in the call that this rank was to make. */
static void perhaps_die_awaited(struct member *member, uint64_t step)
{
    const struct elastic_death *death = &member->plan->deaths[member->rank->rank];
    const struct timespec pause = {0, 20000};
    uint64_t posts = (uint64_t)member->n_present * (step + 1) - 1;
    uint64_t limit_ns = wring_deadline_in(POSTS_NS);

    if (!death->awaited || death->step != step)
        return;
    while (atomic_load(&member->plan->posts) < posts && wring_now_ns() < limit_ns)
        nanosleep(&pause, NULL);
    die(member->plan, death->after_us);
}

static void note_time(atomic_ullong *times, const struct member *member)
{
    uint64_t died_ns = atomic_load(&member->plan->died_ns);
    if (died_ns != 0)
        atomic_store(&times[member->rank->rank], wring_now_ns() - died_ns);
}

/* ---- sums ---- */

static float contribution(const struct elastic_plan *plan, uint32_t who, uint64_t step, uint64_t i)
{
    uint64_t key[] = {who, step, i};

    if (plan->input == ELASTIC_ZERO)
        return 0;
    if (plan->input == ELASTIC_CONSTANT)
        return (float)(who + 1 + step % 3);
    return (float)((int32_t)(wring_fnv32(WRING_FNV32, key, sizeof(key)) % 2001) - 1000) / 8;
}

static void fill(const struct member *member, uint64_t step)
{
    for (uint64_t i = 0; i < member->plan->elems; i++)
        member->in[i] = contribution(member->plan, member->rank->rank, step, i);
}

static float expected(const struct member *member, uint64_t step, uint64_t i)
{
    float sum = 0;
    for (uint32_t k = 0; k < member->n_present; k++)
        sum += contribution(member->plan, member->present[k], step, i);
    return sum;
}

/** Without a codec all is exact; zeros are, and constants nearly, with any that has not sent parts
 *  of earlier steps; else the error is of the size of what is summed. */
static double tolerance(const struct elastic_plan *plan)
{
    if (plan->codec == NULL || plan->input == ELASTIC_ZERO)
        return 0;
    if (strncmp(plan->codec, "int8", 4) == 0)
        return plan->input == ELASTIC_CONSTANT ? 1.0 : 40.0;
    return 1e5;
}

static bool is_right(const struct member *member, uint64_t step)
{
    double most = tolerance(member->plan);
    unsigned wrong = 0;

    for (uint64_t i = 0; i < member->plan->elems && wrong < WRONG_MAX; i++) {
        float want = expected(member, step, i), got = member->out[i];
        if (fabs((double)got - (double)want) <= most)
            continue;
        procs_say(member->rank,
                  "step %" PRIu64 " of %" PRIu32 " ranks: element %" PRIu64 " is %g, not %g", step,
                  member->n_present, i, (double)got, (double)want);
        wrong++;
    }
    return wrong == 0;
}

/** Do all have the same bits? */
static enum wring_status compare_bits(struct member *member, bool *same)
{
    uint32_t all[PROCS_MAX] = {0};
    uint32_t own = wring_fnv32(WRING_FNV32, member->out, member->plan->elems * sizeof(float));
    enum wring_status status =
        wring_allgather(wring_session_world(member->session), &own, all, 1, WRING_U32, NULL, NULL);

    *same = true;
    for (uint32_t i = 0; i < wring_session_size(member->session) && status == WRING_OK; i++)
        *same &= all[i] == own;
    return status;
}

/* ---- going on ---- */

static enum wring_status find_present(struct member *member)
{
    member->n_present = wring_session_size(member->session);
    return wring_allgather(wring_session_world(member->session), &member->rank->rank,
                           member->present, 1, WRING_U32, NULL, NULL);
}

static enum wring_status go_on(struct member *member)
{
    enum wring_status status = WRING_ERR_PEER;

    note_time(member->plan->error_ns, member);
    while (status == WRING_ERR_PEER) {
        perhaps_die(member, 0, true);
        status = wring_session_shrink(member->session, 0, &member->session);
        if (status != WRING_OK) {
            procs_say(member->rank, "does not go on: %s", wring_status_text(status));
            return status;
        }
        member->shrinks++;
        status = find_present(member);
    }
    note_time(member->plan->shrunk_ns, member);
    member->awaits_sum = true;
    return status;
}

/** What a training loop keeps: the sum of all steps. */
static void take_step(struct member *member)
{
    memcpy(member->before, member->weights, sizeof(member->before));
    for (uint64_t i = 0; i < WEIGHTS; i++)
        member->weights[i] += member->out[i % member->plan->elems];
    if (member->weighed++ == 0)
        atomic_fetch_add(&member->plan->begun, 1);
}

/** A step that this rank has completed, and another one has not, is to be made again. */
static void go_back(struct member *member, uint64_t step)
{
    if (step >= member->weighed)
        return;
    memcpy(member->weights, member->before, sizeof(member->weights));
    member->weighed--;
}

static enum wring_status step_once(struct member *member, uint64_t step, bool *right)
{
    perhaps_die_awaited(member, step);
    uint64_t began_ns = wring_now_ns();
    enum wring_status status = wring_bucket_post(member->bucket);

    atomic_fetch_add(&member->plan->posts, 1);
    perhaps_die(member, step, false);
    if (status == WRING_OK)
        status = wring_bucket_wait(member->bucket, WRING_FOREVER, NULL);
    if (status != WRING_OK)
        return status;
    atomic_store(&member->plan->step_ns[member->rank->rank], wring_now_ns() - began_ns);
    if (member->awaits_sum)
        note_time(member->plan->summed_ns, member);
    member->awaits_sum = false;
    take_step(member); /* whatever becomes of the comparison: the bucket has made it */
    if (!is_right(member, step)) {
        *right = false;
        return WRING_OK;
    }
    status = compare_bits(member, right);
    if (status == WRING_OK && !*right)
        procs_say(member->rank, "step %" PRIu64 ": ranks have different bits", step);
    return status;
}

static enum wring_status compare_weights(struct member *member, bool *same)
{
    uint32_t all[PROCS_MAX] = {0};
    uint32_t own = wring_fnv32(WRING_FNV32, member->weights, sizeof(member->weights));
    enum wring_status status =
        wring_allgather(wring_session_world(member->session), &own, all, 1, WRING_U32, NULL, NULL);

    for (uint32_t i = 0; i < wring_session_size(member->session) && status == WRING_OK; i++)
        *same &= all[i] == own;
    return status;
}

static uint32_t count_living(const struct elastic_plan *plan, uint32_t ranks)
{
    uint32_t n = plan->newcomers;
    for (uint32_t i = 0; i < ranks; i++)
        n += plan->deaths[i].step == ELASTIC_LIVES;
    return n;
}

/** All steps are made, and whoever was to die is dead and left behind; ranks find that alike. */
static bool is_finished(const struct member *member, uint64_t step)
{
    if (member->plan->ends_with > 0)
        return member->n_present == member->plan->ends_with;
    return step >= member->plan->steps &&
           member->n_present == count_living(member->plan, member->rank->size);
}

static bool is_newcomer(const struct member *member)
{
    return member->rank->rank >= member->rank->size;
}

/** Newcomers come in; all have the weights then. */
static enum wring_status let_in(struct member *member)
{
    uint32_t size = wring_session_size(member->session);

    enum wring_status status = wring_session_grow(member->session, 0, &member->session);
    if (status != WRING_OK || wring_session_size(member->session) == size)
        return status;
    status = wring_session_share(member->session, member->weights, sizeof(member->weights));
    return status == WRING_OK ? find_present(member) : status;
}

static int run_steps(struct member *member)
{
    bool right = true, repeats = false;
    uint64_t step = wring_bucket_steps(member->bucket), filled = UINT64_MAX;
    /* those that have let a newcomer in make a step before they look whether it was the last one */
    bool comes = is_newcomer(member);

    member->weighed = step;
    while ((comes || !is_finished(member, step)) && right) {
        /* input in place is back as it was: a bucket that is filled again could not tell */
        if (!repeats || member->plan->refills || filled != step)
            fill(member, step);
        filled = step;
        enum wring_status status = member->plan->grows && !comes ? let_in(member) : WRING_OK;
        comes = false;
        if (status == WRING_OK)
            status = step_once(member, step, &right);
        repeats = status != WRING_OK;
        if (repeats && status != WRING_ERR_PEER)
            procs_say(member->rank, "step %" PRIu64 ": %s", step, wring_status_text(status));
        if (repeats && go_on(member) != WRING_OK)
            return 4;
        step = wring_bucket_steps(member->bucket);
        go_back(member, step);
    }
    if (right && compare_weights(member, &right) != WRING_OK)
        return 4;
    procs_say(member->rank, "%s, by %" PRIu32 " ranks in the end, after %" PRIu64 " steps",
              right ? "right" : "wrong", member->n_present, step);
    return right ? 0 : 5;
}

static bool does_any_die(const struct elastic_plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < PROCS_MAX; i++)
        any |= plan->deaths[i].step != ELASTIC_LIVES;
    return any;
}

/** A newcomer: wait for a place, and look for a door. */
static void come_later(struct member *member)
{
    static char door[64];
    struct procs_rank *rank = member->rank;
    const struct timespec pause = {0, 1000000};
    uint32_t n = 0;

    while (does_any_die(member->plan) && atomic_load(&member->plan->died_ns) == 0)
        nanosleep(&pause, NULL);
    snprintf(door, sizeof(door), "WRING_JOIN=127.0.0.1:%u", member->plan->door_port);
    while (rank->settings[n] != NULL)
        n++;
    rank->settings[n] = door;
    rank->params.size = 0;
    rank->params.root = NULL;
}

static enum wring_status begin(struct member *member)
{
    const struct elastic_plan *plan = member->plan;
    size_t bytes = plan->elems * sizeof(float);
    void *in = NULL, *out = NULL;

    if (is_newcomer(member))
        come_later(member);
    enum wring_status status = wring_session_open(&member->rank->params, &member->session);
    if (status != WRING_OK)
        return status;
    status = wring_buffer_alloc(member->session, bytes, &in);
    if (status == WRING_OK && plan->out_of_place)
        status = wring_buffer_alloc(member->session, bytes, &out);
    member->in = in;
    member->out = plan->out_of_place ? out : in;
    struct wring_bucket_params params = {.struct_bytes = sizeof(params),
                                         .name = "b",
                                         .data = in,
                                         .out = out,
                                         .elems = plan->elems,
                                         .codec = plan->codec};
    if (status == WRING_OK)
        status = wring_bucket_register(member->session, &params, &member->bucket);
    if (status == WRING_OK)
        status = wring_session_commit(member->session);
    if (status == WRING_OK && plan->grows)
        status = wring_session_share(member->session, member->weights, sizeof(member->weights));
    if (status == WRING_OK && is_newcomer(member))
        return find_present(member);
    member->n_present = member->rank->size;
    for (uint32_t i = 0; i < member->n_present; i++)
        member->present[i] = i;
    return status;
}

int elastic_run(struct procs_rank *rank, void *arg)
{
    struct member member = {.rank = rank, .plan = arg};
    int before = (int)wring_test_descriptors() - (rank->params.root_fd > 0);

    enum wring_status status = begin(&member);
    if (status != WRING_OK) {
        procs_say(rank, "begin: %s", wring_status_text(status));
        return 2;
    }
    int code = run_steps(&member);
    const struct timespec pause = {0, 10000000};
    atomic_fetch_add(&member.plan->settled, member.plan->ends_with > 0 && code == 0);
    for (int i = 0; member.plan->ends_with > 0 && code == 0 && i < 3000; i++)
        if (!atomic_load(&member.plan->released))
            nanosleep(&pause, NULL);
    wring_session_close(member.session);
    int after = (int)wring_test_descriptors();
    if (code == 0 && after > before) {
        procs_say(rank, "%d descriptors were left open", after - before);
        code = 6;
    }
    return code;
}

void elastic_check(const char *name, uint32_t ranks, const char *const *settings,
                   struct elastic_plan *plan)
{
    char want[80];

    start(ranks, settings, elastic_run);
    job.arg = plan;
    job.processes = ranks + plan->newcomers;
    CHECK(procs_run(&job, DEADLINE_S), "%s hangs", name);
    snprintf(want, sizeof(want), "right, by %" PRIu32 " ranks in the end",
             count_living(plan, ranks));
    for (uint32_t i = 0; i < ranks + plan->newcomers; i++)
        if (plan->deaths[i].step != ELASTIC_LIVES)
            CHECK(job.codes[i] == -SIGKILL, "%s: rank %u was to die (code %d), and said:\n%s", name,
                  i, job.codes[i], job.texts[i]);
        else
            CHECK(job.codes[i] == 0 && strstr(job.texts[i], want) != NULL,
                  "%s: rank %u (code %d), not '%s', said:\n%s", name, i, job.codes[i], want,
                  job.texts[i]);
}
