/* SPDX-License-Identifier: Apache-2.0 */
/** Executors: the same jobs through each, wake-ups, and an end while jobs are queued. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "offload/cores.h"
#include "offload/pool.h"
#include "tests/lib/test.h"

#define JOBS 300
#define ELEMS 5000

static struct wring_log quiet = {.fn = NULL, .level = WRING_LOG_ERROR};

static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level, (void)module;
    snprintf(arg, 256, "%s", text);
}

static struct wring_executor *make(const char *cores)
{
    struct wring_executor *executor = NULL;
    struct wring_pool_params params = {.cores = cores, .log = &quiet};
    enum wring_status status = cores == NULL ? wring_executor_inline_create(&executor)
                                             : wring_executor_pool_create(&params, &executor);
    CHECK(status == WRING_OK, "%s: %s", cores, wring_status_text(status));
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

    wring_codec_create("int8", NULL, NULL, 0, &batch->codec);
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
                                            .status = WRING_ERR_AGAIN};
        batch->list[i] = &batch->jobs[i];
    }
    struct wring_job job = batch->jobs[0];
    job.code = batch->want;
    wring_job_run(&job, NULL); /* an encode needs no scratch */
    batch->want_bytes = job.code_bytes;
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
        CHECK(batch->jobs[i].status == WRING_OK && batch->jobs[i].code_bytes == batch->want_bytes &&
                  memcmp(batch->code[i], batch->want, batch->want_bytes) == 0,
              "%s: job %d: %s", name, i, wring_status_text(batch->jobs[i].status));
}

/** Sleep on the descriptor until n jobs came back. False when that takes a minute. */
static bool collect(struct wring_executor *executor, size_t n)
{
    uint64_t deadline = wring_deadline_in(60 * WRING_NS_PER_S);
    struct wring_job *done[7];

    for (size_t got = 0; got < n && wring_now_ns() < deadline;) {
        size_t some = executor->ops->poll(executor, done, 7);
        got += some;
        if (got == n)
            return true;
        struct pollfd wait = {executor->ops->arm(executor), POLLIN, 0};
        if (some == 0 && wait.fd >= 0)
            poll(&wait, 1, 10); /* short: a job may have ended just before arm */
    }
    return false;
}

static void check_jobs(const char *cores)
{
    struct batch *batch = batch_create();
    struct wring_executor *executor = make(cores);

    CHECK(executor->ops->reserve(executor, ELEMS) == WRING_OK, "reserve");
    executor->ops->submit(executor, batch->list, 1);
    executor->ops->submit(executor, batch->list + 1, JOBS - 1);
    CHECK(collect(executor, JOBS), "%s: jobs are missing", executor->ops->name);
    batch_check(batch, executor->ops->name);
    CHECK((executor->ops->cpu_ns(executor) > 0) == (cores != NULL), "%s: cpu time",
          executor->ops->name);
    executor->ops->destroy(executor);
    batch_destroy(batch);
}

static void all_jobs_come_back(void)
{
    check_jobs(NULL);
    check_jobs("");
    check_jobs("1");
    check_jobs("3");
}

static void too_long(void)
{
    static const char *const kinds[] = {NULL, "1"};
    for (int k = 0; k < 2; k++) {
        struct batch *batch = batch_create();
        struct wring_executor *executor = make(kinds[k]);
        executor->ops->reserve(executor, ELEMS - 1);
        executor->ops->submit(executor, batch->list, 1);
        CHECK(collect(executor, 1) && batch->jobs[0].status == WRING_ERR_INVALID,
              "%s took a job longer than reserved", executor->ops->name);
        executor->ops->destroy(executor);
        batch_destroy(batch);
    }
}

static void wakes_a_sleeper(void)
{
    struct batch *batch = batch_create();
    struct wring_executor *executor = make("1");
    struct wring_job *done[JOBS];
    size_t got = 0;

    executor->ops->reserve(executor, ELEMS);
    for (int i = 0; i < JOBS; i++) {
        struct pollfd wait = {executor->ops->arm(executor), POLLIN, 0};
        executor->ops->submit(executor, batch->list + i, 1);
        CHECK(poll(&wait, 1, 10000) == 1, "job %d wakes nobody", i);
        got += executor->ops->poll(executor, done, JOBS);
    }
    CHECK(got == JOBS, "%zu of %d", got, JOBS);

    struct pollfd idle = {executor->ops->arm(executor), POLLIN, 0};
    CHECK(poll(&idle, 1, 0) == 0, "an idle pool is readable");
    executor->ops->destroy(executor);
    batch_destroy(batch);
}

static void ends_with_jobs_queued(void)
{
    for (int round = 0; round < 5; round++) {
        struct batch *batch = batch_create();
        struct wring_executor *executor = make("2");
        executor->ops->reserve(executor, ELEMS);
        executor->ops->submit(executor, batch->list, JOBS);
        executor->ops->destroy(executor);
        for (int i = 0; i < JOBS; i++) /* each is whole or untouched */
            CHECK(batch->jobs[i].status == WRING_ERR_AGAIN ||
                      memcmp(batch->code[i], batch->want, batch->want_bytes) == 0,
                  "job %d was cut off", i);
        batch_destroy(batch);
    }
    struct wring_executor *executor = make("1");
    executor->ops->destroy(NULL);
    executor->ops->destroy(executor);
}

/* ---- which cores ---- */

static void choose(const char *machine, const char *text, int own, const char *want)
{
    hwloc_topology_t topology;
    char why[256] = "", got[256] = "";
    struct wring_log log = {drop_line, why, WRING_LOG_WARN};
    unsigned cores[64];
    size_t count;

    hwloc_topology_init(&topology);
    hwloc_topology_set_synthetic(topology, machine);
    hwloc_topology_load(topology);
    if (wring_cores_choose(topology, text, own, &log, cores, 64, &count) == WRING_OK)
        for (size_t i = 0; i < count; i++)
            snprintf(got + strlen(got), sizeof(got) - strlen(got), i > 0 ? " %u" : "%u", cores[i]);
    else
        snprintf(got, sizeof(got), "%s", why);
    CHECK(strcmp(got, want) == 0, "'%s' on %s, application on %d: got '%s', not '%s'", text,
          machine, own, got, want);
    hwloc_topology_destroy(topology);
}

static void core_lists(void)
{
    choose("core:4 pu:1", "1", 0, "3");
    choose("core:4 pu:1", NULL, 3, "2");
    choose("core:4 pu:1", "4", 3, "2 1 0 3");
    choose("core:2 pu:2", "4", 0, "2 0 3 1");
    choose("core:1 pu:1", "1", 0, "0");
    choose("core:2 pu:1", "3", 0, "1 0 1");
    choose("core:4 pu:1", "cores=0,2-3", 0, "0 2 3");
    choose("core:4 pu:1", "cores=1", -1, "1");
    choose("core:4 pu:1", "0", 0, "pool:0: needs a number of cores from 1 to 64");
    choose("core:4 pu:1", "cores=9", 0,
           "pool:cores=9: this process may not use core 9; it may use 0-3");
    static const char *const malformed[] = {"x",  "cores=", "cores=1,",         "cores=3-1",
                                            "-1", "1 ",     "cores=99999999999"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        char want[200];
        snprintf(want, sizeof(want),
                 "pool:%s: needs a number of cores, or cores=LIST such as cores=0,2-3",
                 malformed[i]);
        choose("core:4 pu:1", malformed[i], 0, want);
    }
}

static const struct wring_test_case cases[] = {
    {"all_jobs_come_back", all_jobs_come_back},
    {"too_long", too_long},
    {"wakes_a_sleeper", wakes_a_sleeper},
    {"ends_with_jobs_queued", ends_with_jobs_queued},
    {"core_lists", core_lists},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
