/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/failure/elastic_job.h"

#include <dirent.h>
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

#define WRONG_MAX 3 /* elements that are named */

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

static void *execute(void *arg)
{
    struct execution *execution = arg;
    struct timespec pause = {0, (long)execution->after_us * 1000};

    nanosleep(&pause, NULL);
    atomic_store(&execution->plan->died_ns, wring_now_ns());
    kill(getpid(), SIGKILL);
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

    if (death->step != ELASTIC_LIVES && death->in_shrink == in_shrink &&
        (in_shrink ? member->shrinks == 0 : death->step == step))
        die_later(member, death);
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

static enum wring_status step_once(struct member *member, uint64_t step, bool *right)
{
    enum wring_status status = wring_bucket_post(member->bucket);

    perhaps_die(member, step, false);
    if (status == WRING_OK)
        status = wring_bucket_wait(member->bucket, WRING_FOREVER, NULL);
    if (status != WRING_OK)
        return status;
    if (member->awaits_sum)
        note_time(member->plan->summed_ns, member);
    member->awaits_sum = false;
    if (!is_right(member, step)) {
        *right = false;
        return WRING_OK;
    }
    status = compare_bits(member, right);
    if (status == WRING_OK && !*right)
        procs_say(member->rank, "step %" PRIu64 ": ranks have different bits", step);
    return status;
}

static uint32_t count_living(const struct elastic_plan *plan, uint32_t ranks)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ranks; i++)
        n += plan->deaths[i].step == ELASTIC_LIVES;
    return n;
}

/** All steps are made, and whoever was to die is dead and left behind; ranks find that alike. */
static bool is_finished(const struct member *member, uint64_t step)
{
    return step >= member->plan->steps &&
           member->n_present == count_living(member->plan, member->rank->size);
}

static int run_steps(struct member *member)
{
    bool right = true, repeats = false;
    uint64_t step = 0, filled = UINT64_MAX;

    while (!is_finished(member, step) && right) {
        /* input in place is back as it was: a bucket that is filled again could not tell */
        if (!repeats || member->plan->refills || filled != step)
            fill(member, step);
        filled = step;
        enum wring_status status = step_once(member, step, &right);
        repeats = status != WRING_OK;
        if (repeats && status != WRING_ERR_PEER)
            procs_say(member->rank, "step %" PRIu64 ": %s", step, wring_status_text(status));
        if (repeats && go_on(member) != WRING_OK)
            return 4;
        step = wring_bucket_steps(member->bucket);
    }
    procs_say(member->rank, "%s, by %" PRIu32 " ranks in the end, after %" PRIu64 " steps",
              right ? "right" : "wrong", member->n_present, step);
    return right ? 0 : 5;
}

static enum wring_status begin(struct member *member)
{
    const struct elastic_plan *plan = member->plan;
    size_t bytes = plan->elems * sizeof(float);
    void *in = NULL, *out = NULL;

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
    member->n_present = member->rank->size;
    for (uint32_t i = 0; i < member->n_present; i++)
        member->present[i] = i;
    return status;
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

int elastic_run(struct procs_rank *rank, void *arg)
{
    struct member member = {.rank = rank, .plan = arg};
    int before = count_descriptors() - (rank->params.root_fd > 0);

    enum wring_status status = begin(&member);
    if (status != WRING_OK) {
        procs_say(rank, "begin: %s", wring_status_text(status));
        return 2;
    }
    int code = run_steps(&member);
    wring_session_close(member.session);
    int after = count_descriptors();
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
    CHECK(procs_run(&job, DEADLINE_S), "%s hangs", name);
    snprintf(want, sizeof(want), "right, by %" PRIu32 " ranks in the end",
             count_living(plan, ranks));
    for (uint32_t i = 0; i < ranks; i++)
        if (plan->deaths[i].step != ELASTIC_LIVES)
            CHECK(job.codes[i] == -SIGKILL, "%s: rank %u was to die (code %d), and said:\n%s", name,
                  i, job.codes[i], job.texts[i]);
        else
            CHECK(job.codes[i] == 0 && strstr(job.texts[i], want) != NULL,
                  "%s: rank %u (code %d), not '%s', said:\n%s", name, i, job.codes[i], want,
                  job.texts[i]);
}
