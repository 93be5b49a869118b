/* SPDX-License-Identifier: Apache-2.0 */
/** Every executor of this build against the contract of <wring/executor.h>. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/wait_set.h"
#include "offload/pool.h"
#include "tests/lib/test.h"

#define JOBS 300
#define ELEMS 5000
#define FEW 8

static struct wring_log quiet = {.fn = NULL, .level = WRING_LOG_ERROR};

/** An executor that is held against the contract. */
struct subject {
    const char *name;
    const char *cores;  /* of a pool; NULL: inline */
    bool has_threads;   /* that use processor time of their own */
    bool one_at_a_time; /* and the most urgent job of those that could begin first */
};

static const struct subject subjects[] = {
    {"inline", NULL, false, false},
    {"pool", "", true, true},
    {"pool:1", "1", true, true},
    {"pool:3", "3", true, false},
};
#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

static struct wring_executor *make(const struct subject *subject)
{
    struct wring_executor *executor = NULL;
    struct wring_pool_params params = {.cores = subject->cores, .log = &quiet};
    enum wring_status status = subject->cores == NULL
                                   ? wring_executor_inline_create(&executor)
                                   : wring_executor_pool_create(&params, &executor);
    CHECK(status == WRING_OK, "%s: %s", subject->name, wring_status_text(status));
    CHECK(executor->ops->reserve(executor, ELEMS) == WRING_OK, "%s: reserve", subject->name);
    return executor;
}

/** Many encodes of one input; each job writes its own code. */
struct batch {
    struct wring_codec *codec;
    float *src;
    unsigned char *code[JOBS], *want;
    size_t want_bytes;
    struct wring_job jobs[JOBS], *list[JOBS];
};

static struct batch *batch_create(void)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    uint32_t random = 77;

    wring_codec_create("int8", NULL, NULL, NULL, 0, &batch->codec);
    size_t bound = wring_codec_bound(batch->codec, ELEMS);
    batch->src = malloc(ELEMS * sizeof(float));
    batch->want = malloc(bound);
    for (int i = 0; i < ELEMS; i++)
        batch->src[i] = wring_test_random_float(&random);
    for (int i = 0; i < JOBS; i++) {
        batch->code[i] = calloc(1, bound);
        batch->jobs[i] = (struct wring_job){.kind = WRING_JOB_ENCODE,
                                            .elems = ELEMS,
                                            .src = batch->src,
                                            .codec_out = batch->codec,
                                            .code = batch->code[i],
                                            .result = {.status = WRING_ERR_AGAIN}};
        batch->list[i] = &batch->jobs[i];
    }
    struct wring_job job = batch->jobs[0];
    job.code = batch->want;
    wring_job_run(&job, NULL); /* an encode needs no scratch */
    batch->want_bytes = job.result.code_bytes;
    return batch;
}

static void batch_destroy(struct batch *batch)
{
    for (int i = 0; i < JOBS; i++)
        free(batch->code[i]);
    wring_codec_destroy(batch->codec);
    free(batch->src);
    free(batch->want);
    free(batch);
}

static void batch_check(const struct batch *batch, const char *name)
{
    for (int i = 0; i < JOBS; i++)
        CHECK(batch->jobs[i].result.status == WRING_OK &&
                  batch->jobs[i].result.code_bytes == batch->want_bytes &&
                  batch->jobs[i].result.bad_source == WRING_NO_SOURCE &&
                  memcmp(batch->code[i], batch->want, batch->want_bytes) == 0,
              "%s: job %d: %s", name, i, wring_status_text(batch->jobs[i].result.status));
}

/** Sleep as the executor says until n jobs came back, into done[]. False after a minute. */
static bool collect_into(struct wring_executor *executor, struct wring_job **done, size_t n)
{
    uint64_t deadline = wring_deadline_in(60 * WRING_NS_PER_S);

    for (size_t got = 0; wring_now_ns() < deadline;) {
        got += executor->ops->poll(executor, done + got, n - got > 7 ? 7 : n - got);
        if (got == n)
            return true;
        struct wring_wait_set set = {.deadline_ns = deadline};
        executor->ops->arm(executor, &set);
        size_t more = executor->ops->poll(executor, done + got, n - got > 7 ? 7 : n - got);
        got += more;
        if (got == n)
            return true;
        if (more == 0)
            wring_wait_set_sleep(&set);
    }
    return false;
}

static bool collect(struct wring_executor *executor, size_t n)
{
    struct wring_job *done[JOBS];
    return collect_into(executor, done, n);
}

static void check_jobs(const struct subject *subject)
{
    struct batch *batch = batch_create();
    struct wring_executor *executor = make(subject);

    executor->ops->submit(executor, batch->list, 1);
    executor->ops->submit(executor, batch->list + 1, JOBS - 1);
    CHECK(collect(executor, JOBS), "%s: jobs are missing", subject->name);
    batch_check(batch, subject->name);
    CHECK((executor->ops->cpu_ns(executor) > 0) == subject->has_threads, "%s: cpu time",
          subject->name);
    executor->ops->destroy(executor);
    batch_destroy(batch);
}

static void all_jobs_come_back(void)
{
    for (size_t i = 0; i < SUBJECTS; i++)
        check_jobs(&subjects[i]);
}

/** The result of one job that is run by itself. */
static struct wring_job_result run_one(struct wring_executor *executor, struct wring_job job)
{
    struct wring_job *list[] = {&job};
    executor->ops->submit(executor, list, 1);
    CHECK(collect(executor, 1), "%s: a job is missing", executor->ops->name);
    return job.result;
}

static void check_refused(const struct subject *subject)
{
    static const struct wring_memory_place device = {WRING_MEMORY_DEVICE, 0};
    struct batch *batch = batch_create();
    struct wring_executor *executor = make(subject);
    struct wring_job job = batch->jobs[0];
    unsigned char *code = batch->code[0];
    size_t bound = wring_codec_bound(batch->codec, ELEMS);
    struct wring_source source = {batch->want, batch->want_bytes, batch->codec, device};

    job.elems = ELEMS + 1;
    CHECK(run_one(executor, job).status == WRING_ERR_INVALID, "%s: longer than was reserved",
          subject->name);
    for (int which = 0; which < 5; which++) {
        job = batch->jobs[0];
        struct wring_memory_place *places[] = {&job.places.src, &job.places.residual,
                                               &job.places.code, &job.places.dst};
        if (which < 4)
            *places[which] = device;
        else
            job.sources = &source, job.n_sources = 1;
        struct wring_job_result result = run_one(executor, job);
        CHECK(result.status == WRING_ERR_UNSUPPORTED && result.bad_source == WRING_NO_SOURCE,
              "%s: memory %d of a device: %s", subject->name, which,
              wring_status_text(result.status));
    }
    for (size_t i = 0; i < bound; i++)
        CHECK(code[i] == 0, "%s: a job that was refused has written", subject->name);
    executor->ops->destroy(executor);
    batch_destroy(batch);
}

static void what_cannot_run_is_refused(void)
{
    for (size_t i = 0; i < SUBJECTS; i++)
        check_refused(&subjects[i]);
}

static void check_results(const struct subject *subject)
{
    struct batch *batch = batch_create();
    struct wring_executor *executor = make(subject);
    float *sum = calloc(ELEMS, sizeof(*sum));
    struct wring_source sources[] = {
        {batch->src, ELEMS * sizeof(float), NULL, {0}},
        {batch->want, batch->want_bytes - 1, batch->codec, {0}},
    };
    struct wring_job job = {.kind = WRING_JOB_REDUCE,
                            .elems = ELEMS,
                            .sources = sources,
                            .n_sources = 2,
                            .divisor = 1,
                            .dst = sum};

    uint64_t before_ns = wring_now_ns();
    struct wring_job_result result = run_one(executor, job);
    CHECK(result.status == WRING_ERR_FRAME && result.bad_source == 1, "%s: %s, source %u",
          subject->name, wring_status_text(result.status), result.bad_source);
    sources[1].bytes++;
    result = run_one(executor, job);
    CHECK(result.status == WRING_OK && result.bad_source == WRING_NO_SOURCE && result.core >= 0 &&
              result.began_ns >= before_ns && result.took_ns > 0 &&
              result.began_ns + result.took_ns <= wring_now_ns() && result.code_bytes == 0,
          "%s: a sum's result", subject->name);
    job.untimed = true;
    result = run_one(executor, job);
    CHECK(result.began_ns == 0 && result.took_ns == 0 && result.core == -1, "%s: untimed",
          subject->name);
    executor->ops->destroy(executor);
    free(sum);
    batch_destroy(batch);
}

static void results_say_whose_fault(void)
{
    for (size_t i = 0; i < SUBJECTS; i++)
        check_results(&subjects[i]);
}

static void check_wake(const struct subject *subject)
{
    struct batch *batch = batch_create();
    struct wring_executor *executor = make(subject);
    struct wring_job *done[JOBS];
    size_t got = 0;

    for (int i = 0; i < JOBS; i++) {
        struct wring_wait_set set = {.deadline_ns = wring_deadline_in(10 * WRING_NS_PER_S)};
        if (!executor->ops->at_once)
            executor->ops->arm(executor, &set);
        executor->ops->submit(executor, batch->list + i, 1);
        if (executor->ops->at_once)
            executor->ops->arm(executor, &set);
        CHECK(set.busy || poll(set.fds, set.n, 10000) == 1, "%s: job %d wakes nobody",
              subject->name, i);
        got += executor->ops->poll(executor, done, JOBS);
    }
    CHECK(got == JOBS, "%s: %zu of %d", subject->name, got, JOBS);

    struct wring_wait_set idle = {.deadline_ns = UINT64_MAX};
    executor->ops->arm(executor, &idle);
    CHECK(!idle.busy && poll(idle.fds, idle.n, 0) == 0, "%s: idle, and wakes", subject->name);
    struct wring_wait_set full = {.n = WRING_WAIT_SET_MAX, .deadline_ns = UINT64_MAX};
    executor->ops->arm(executor, &full);
    CHECK(full.n == WRING_WAIT_SET_MAX && (full.busy || idle.n == 0),
          "%s: no room, and nobody stays awake", subject->name);
    executor->ops->destroy(executor);
    batch_destroy(batch);
}

static void wakes_a_sleeper(void)
{
    for (size_t i = 0; i < SUBJECTS; i++)
        check_wake(&subjects[i]);
}

/** Decodes that follow encodes by events alone: each must see the code that was just made. */
static void check_events(const struct subject *subject)
{
    struct batch *batch = batch_create();
    struct wring_executor *executor = make(subject);
    const struct wring_executor_ops *ops = executor->ops;
    struct wring_event *events[FEW];
    struct wring_job decodes[FEW], *list[2];
    struct wring_source sources[FEW];
    float *want = malloc(ELEMS * sizeof(*want)), *got[FEW];
    struct wring_codec_context context = {0};

    wring_codec_decode(batch->codec, &context, batch->want, batch->want_bytes, want, ELEMS, false);
    for (int i = 0; i < FEW; i++) {
        REQUIRE(ops->event_create(executor, &events[i]) == WRING_OK, "event");
        got[i] = calloc(ELEMS, sizeof(*got[i]));
    }
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < FEW; i++) {
            memset(batch->code[i], 0, batch->want_bytes);
            memset(got[i], 0, ELEMS * sizeof(*got[i]));
            sources[i] =
                (struct wring_source){batch->code[i], batch->want_bytes, batch->codec, {0}};
            decodes[i] = (struct wring_job){.kind = WRING_JOB_DECODE,
                                            .elems = ELEMS,
                                            .sources = &sources[i],
                                            .n_sources = 1,
                                            .dst = got[i],
                                            .after = events[i]};
            list[0] = batch->list[i], list[1] = &decodes[i];
            ops->submit(executor, list, 1);
            CHECK(ops->event_record(executor, events[i], NULL) == WRING_OK, "record");
            ops->submit(executor, list + 1, 1);
        }
        REQUIRE(collect(executor, 2 * (size_t)FEW), "%s: jobs after events are missing",
                subject->name);
        for (int i = 0; i < FEW; i++)
            CHECK(decodes[i].result.status == WRING_OK &&
                      memcmp(got[i], want, ELEMS * sizeof(*want)) == 0,
                  "%s: turn %d, job %d began before what it is after", subject->name, turn, i);
    }
    for (int i = 0; i < FEW; i++) {
        ops->event_destroy(executor, events[i]);
        free(got[i]);
    }
    ops->event_destroy(executor, NULL);
    ops->destroy(executor);
    free(want);
    batch_destroy(batch);
}

/** One that was never recorded, or was while nothing ran, has happened; streams are a device's. */
static void check_idle_events(const struct subject *subject)
{
    static const struct wring_stream stream = {sizeof(stream), WRING_MEMORY_DEVICE, 0, NULL};
    struct batch *batch = batch_create();
    struct wring_executor *executor = make(subject);
    struct wring_event *event;

    REQUIRE(executor->ops->event_create(executor, &event) == WRING_OK, "event");
    batch->jobs[0].after = event;
    CHECK(run_one(executor, batch->jobs[0]).status == WRING_OK, "%s: unrecorded", subject->name);
    CHECK(executor->ops->event_record(executor, event, NULL) == WRING_OK, "record");
    CHECK(run_one(executor, batch->jobs[0]).status == WRING_OK, "%s: while idle", subject->name);
    CHECK(executor->ops->event_record(executor, event, &stream) == WRING_ERR_UNSUPPORTED,
          "%s: another device's stream", subject->name);
    executor->ops->submit(executor, batch->list + 1, FEW);
    executor->ops->event_record(executor, event, NULL);
    executor->ops->event_destroy(executor, event); /* before it happens */
    CHECK(collect(executor, FEW), "%s: jobs are missing", subject->name);
    executor->ops->destroy(executor);
    batch_destroy(batch);
}

static void events_order_jobs(void)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        check_events(&subjects[i]);
        check_idle_events(&subjects[i]);
    }
}

static void urgent_jobs_begin_first(void)
{
    static const int32_t priorities[FEW] = {3, 1, 2, 1, -5, 3, 0, 2};
    static const int want[FEW] = {4, 6, 1, 3, 2, 7, 0, 5};

    for (size_t s = 0; s < SUBJECTS; s++) {
        if (!subjects[s].one_at_a_time)
            continue;
        struct batch *batch = batch_create();
        struct wring_executor *executor = make(&subjects[s]);
        struct wring_job *done[FEW] = {NULL};
        for (int i = 0; i < FEW; i++)
            batch->jobs[i].priority = priorities[i];
        executor->ops->submit(executor, batch->list, FEW);
        CHECK(collect_into(executor, done, FEW), "%s: jobs are missing", subjects[s].name);
        for (int i = 0; i < FEW; i++)
            CHECK(done[i] == batch->list[want[i]], "%s: job %d came %d.", subjects[s].name,
                  done[i] != NULL ? (int)(done[i] - batch->jobs) : -1, i);
        executor->ops->destroy(executor);
        batch_destroy(batch);
    }
}

static void memory_lies_where_it_is_asked(void)
{
    static const struct wring_memory_place host = {WRING_MEMORY_HOST, 0},
                                           other = {WRING_MEMORY_DEVICE, 7};
    for (size_t s = 0; s < SUBJECTS; s++) {
        struct wring_executor *executor = make(&subjects[s]);
        const struct wring_executor_ops *ops = executor->ops;
        unsigned char text[100], *memory = NULL, *home = NULL;
        void *none = NULL;

        memset(text, 7, sizeof(text));
        REQUIRE(ops->allocate(executor, host, sizeof(text), (void **)&memory) == WRING_OK &&
                    ops->allocate(executor, executor->home, sizeof(text), (void **)&home) ==
                        WRING_OK,
                "%s: no memory", subjects[s].name);
        CHECK((uintptr_t)memory % 64 == 0, "%s: alignment", subjects[s].name);
        for (size_t i = 0; i < sizeof(text); i++)
            CHECK(memory[i] == 0, "%s: no zeros", subjects[s].name);
        CHECK(ops->copy(executor, home, executor->home, text, host, sizeof(text)) == WRING_OK &&
                  ops->copy(executor, memory, host, home, executor->home, sizeof(text)) ==
                      WRING_OK &&
                  memcmp(memory, text, sizeof(text)) == 0,
              "%s: there and back", subjects[s].name);
        CHECK(ops->allocate(executor, other, 8, &none) == WRING_ERR_UNSUPPORTED &&
                  ops->copy(executor, memory, other, text, host, 1) == WRING_ERR_UNSUPPORTED &&
                  ops->copy(executor, memory, host, text, other, 1) == WRING_ERR_UNSUPPORTED,
              "%s: memory of a device that it does not work on", subjects[s].name);
        ops->release(executor, executor->home, home);
        ops->destroy(executor);
        struct wring_executor *next = make(&subjects[(s + 1) % SUBJECTS]);
        next->ops->release(next, host, memory); /* any takes what the C library gave */
        next->ops->destroy(next);
    }
}

/** A session has several at once: none hands out the jobs of another, and one that is idle wakes
 *  nobody while others work. */
static void several_work_side_by_side(void)
{
    struct wring_executor *executors[SUBJECTS];
    struct batch *batches[SUBJECTS];

    for (size_t s = 0; s < SUBJECTS; s++) {
        executors[s] = make(&subjects[s]);
        batches[s] = batch_create();
    }
    for (size_t s = 1; s < SUBJECTS; s++)
        executors[s]->ops->submit(executors[s], batches[s]->list, JOBS);
    struct wring_job *none;
    struct wring_wait_set idle = {.deadline_ns = UINT64_MAX};
    CHECK(executors[0]->ops->poll(executors[0], &none, 1) == 0, "a job of another came back");
    executors[0]->ops->arm(executors[0], &idle);
    CHECK(!idle.busy && poll(idle.fds, idle.n, 0) == 0, "idle, and wakes for another");
    executors[0]->ops->submit(executors[0], batches[0]->list, JOBS);
    for (size_t s = SUBJECTS; s-- > 0;) {
        struct wring_job *done[JOBS] = {NULL};
        CHECK(collect_into(executors[s], done, JOBS), "%s: jobs are missing", subjects[s].name);
        for (int i = 0; i < JOBS; i++)
            CHECK(done[i] >= batches[s]->jobs && done[i] < batches[s]->jobs + JOBS,
                  "%s: another's job", subjects[s].name);
        batch_check(batches[s], subjects[s].name);
    }
    for (size_t s = 0; s < SUBJECTS; s++) {
        executors[s]->ops->destroy(executors[s]);
        batch_destroy(batches[s]);
    }
}

static void ends_with_jobs_queued(void)
{
    for (size_t s = 0; s < SUBJECTS; s++) {
        struct batch *batch = batch_create();
        struct wring_executor *executor = make(&subjects[s]);
        struct wring_event *event;
        REQUIRE(executor->ops->event_create(executor, &event) == WRING_OK, "event");
        executor->ops->submit(executor, batch->list, JOBS / 2);
        executor->ops->event_record(executor, event, NULL);
        for (int i = JOBS / 2; i < JOBS; i++)
            batch->jobs[i].after = event;
        executor->ops->submit(executor, batch->list + JOBS / 2, JOBS - JOBS / 2);
        executor->ops->event_destroy(executor, event);
        executor->ops->destroy(executor);
        for (int i = 0; i < JOBS; i++) /* each is whole or untouched */
            CHECK(batch->jobs[i].result.status == WRING_ERR_AGAIN ||
                      memcmp(batch->code[i], batch->want, batch->want_bytes) == 0,
                  "%s: job %d was cut off", subjects[s].name, i);
        batch_destroy(batch);
    }
    struct wring_executor *executor = make(&subjects[1]);
    executor->ops->destroy(NULL);
    executor->ops->destroy(executor);
}

static const struct wring_test_case cases[] = {
    {"all_jobs_come_back", all_jobs_come_back},
    {"what_cannot_run_is_refused", what_cannot_run_is_refused},
    {"results_say_whose_fault", results_say_whose_fault},
    {"wakes_a_sleeper", wakes_a_sleeper},
    {"events_order_jobs", events_order_jobs},
    {"urgent_jobs_begin_first", urgent_jobs_begin_first},
    {"memory_lies_where_it_is_asked", memory_lies_where_it_is_asked},
    {"several_work_side_by_side", several_work_side_by_side},
    {"ends_with_jobs_queued", ends_with_jobs_queued},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
