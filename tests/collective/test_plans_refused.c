/* SPDX-License-Identifier: Apache-2.0 */
/* WRING_PLAN: a plan for something else is refused by name, at the latest when buckets are
 * committed. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collective/planned_tensors.h"
#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)

static void wait_alone(struct wring_session *session, uint32_t rank, void *arg)
{
    struct tensors tensors;
    size_t index;
    (void)arg;
    (void)rank;

    REQUIRE(make_tensors(session, false, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    REQUIRE(wring_bucket_post(tensors.buckets[1]) == WRING_OK, "post");
    CHECK(wring_bucket_test(tensors.buckets[1], NULL) == WRING_ERR_AGAIN, "done without its mate");
    CHECK(wring_bucket_wait(tensors.buckets[1], WAIT_NS, NULL) == WRING_ERR_INVALID,
          "waited for ever");
    CHECK(wring_wait_any(&(struct wring_waitable){.bucket = tensors.buckets[1]}, 1, WAIT_NS, &index,
                         NULL) == WRING_ERR_INVALID,
          "any");
    CHECK(wring_session_commit(session) == WRING_ERR_BUSY, "committed halfway");
    CHECK(wring_bucket_drop(tensors.buckets[1]) == WRING_ERR_BUSY, "dropped halfway");
    REQUIRE(wring_bucket_post(tensors.buckets[0]) == WRING_OK, "post");
    CHECK(wring_bucket_wait(tensors.buckets[1], WAIT_NS, NULL) == WRING_OK, "wait");
    CHECK(wring_bucket_wait(tensors.buckets[0], WAIT_NS, NULL) == WRING_OK, "wait");
}

/** Rank 1 leaves: what waits for its mates ends as what is under way does. */
static void wait_for_any_of_a_failed(struct wring_session *session, uint32_t rank, void *arg)
{
    struct tensors tensors;
    struct wring_waitable left[2] = {{.bucket = NULL}};
    size_t index = 0;
    (void)arg;

    REQUIRE(make_tensors(session, false, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (rank == 1)
        return;
    left[0].bucket = tensors.buckets[1];
    left[1].bucket = tensors.buckets[3];
    for (int i = 0; i < 2; i++) { /* it may be known already */
        enum wring_status posted = wring_bucket_post(left[i].bucket);
        CHECK(posted == WRING_OK || posted == WRING_ERR_PEER, "post");
        left[i].bucket = posted == WRING_OK ? left[i].bucket : NULL;
    }
    while (left[0].bucket != NULL || left[1].bucket != NULL) {
        CHECK(wring_wait_any(left, 2, WAIT_NS, &index, NULL) == WRING_ERR_PEER, "how it ended");
        REQUIRE(index < 2 && left[index].bucket != NULL, "which it was");
        left[index].bucket = NULL;
    }
}

static void any_of_a_failed_session_ends(void)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    char setting[64];
    const char *const settings[] = {setting, NULL};
    const struct plan_of what = {.parts = mixed, .ranks = 2, .names = names};

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2,
                                                  .settings = settings,
                                                  .run = wait_for_any_of_a_failed,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    remove_plan(setting);
}

static void waiting_for_one_alone_is_an_error(void)
{
    struct plan_of what = {.parts = mixed, .ranks = 2, .names = names};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2,
                                                  .settings = settings,
                                                  .run = wait_alone,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(strstr(lines.text, "'c' is waited for, and travels with 'd', which is not posted") !=
              NULL,
          "it says: %s", lines.text);
    remove_plan(setting);
}

/** Open by hand: a session that must not open. @return its status */
static enum wring_status open_one(const char *setting, const char *another,
                                  struct wring_test_lines *lines)
{
    const char *const settings[] = {setting, another, NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session = NULL;

    params.settings = settings;
    params.log = wring_test_lines_take;
    params.log_arg = lines;
    params.rank = 0;
    params.size = 1;
    enum wring_status status = wring_session_open(&params, &session);
    wring_session_close(session);
    return status;
}

static void plans_that_cannot_run_do_not_open(void)
{
    static const struct part foreign[] = {{4, "onebit", ""}, {0}};
    struct plan_of what = {.parts = foreign, .ranks = 1, .names = names};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    char setting[64];

    write_plan(&what, setting, sizeof(setting));
    CHECK(open_one(setting, NULL, &lines) == WRING_ERR_UNSUPPORTED, "opened");
    CHECK(strstr(lines.text, "group 0 ('d') cannot be run here") != NULL, "%s", lines.text);
    remove_plan(setting);

    what = (struct plan_of){.parts = mixed, .ranks = 5, .names = names};
    write_plan(&what, setting, sizeof(setting));
    CHECK(open_one(setting, NULL, &lines) == WRING_ERR_MISMATCH, "opened");
    CHECK(strstr(lines.text, "is for 5 nodes of 1 ranks, and the job has 1 ranks") != NULL, "%s",
          lines.text);
    remove_plan(setting);
    CHECK(open_one("WRING_PLAN=/nowhere/plan.json", NULL, &lines) == WRING_ERR_SYSTEM, "opened");
}

/** What is configured and planned otherwise is refused; what only the plan has, is taken. */
static void check_session(const struct plan_of *what, const char *setting, const char *says)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    char plan[64];

    write_plan(what, plan, sizeof(plan));
    enum wring_status status = open_one(plan, setting, &lines);
    CHECK(status == (says != NULL ? WRING_ERR_MISMATCH : WRING_OK), "%s: status %d: %s", setting,
          status, lines.text);
    CHECK(says == NULL || strstr(lines.text, says) != NULL, "%s: it says: %s", setting, lines.text);
    remove_plan(plan);
}

static void refuse_to_commit(struct wring_session *session, uint32_t rank, void *arg)
{
    struct tensors tensors;

    (void)arg;
    REQUIRE(make_tensors(session, false, &tensors), "no tensors");
    enum wring_status status = wring_session_commit(session);
    CHECK(status == WRING_ERR_MISMATCH, "rank %u: %s", rank, wring_status_text(status));
}

/** Of nodes that are not equal, none of which the plan can mean. */
static void plans_for_nodes_need_equal_ones(void)
{
    const struct plan_of what = {
        .parts = between_nodes, .ranks = 3, .ranks_per_node = 1, .names = names};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 3,
                                                  .ranks_per_node = 2,
                                                  .settings = settings,
                                                  .run = refuse_to_commit,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(strstr(lines.text,
                 "goes hierarchically, which needs equally many ranks on each node, and "
                 "rank 2's has 1, rank 0's 2: start as many on each, or plan with "
                 "--without hierarchy") != NULL,
          "%s", lines.text);
    remove_plan(setting);
}

static void plans_have_their_executor_and_chunks(void)
{
    const struct plan_of pool = {.parts = mixed, .ranks = 1, .names = names, .executor = "pool:1"},
                         cores = {.parts = mixed, .ranks = 1, .names = names, .cores = 1},
                         chunks = {
                             .parts = mixed, .ranks = 1, .names = names, .chunk_bytes = 65536};

    check_session(&pool, NULL, NULL);
    check_session(&pool, "WRING_EXECUTOR=pool:1", NULL);
    check_session(&pool, "WRING_EXECUTOR=inline", "WRING_EXECUTOR=inline, and WRING_PLAN=/tmp/");
    check_session(&pool, "WRING_EXECUTOR=inline", "is for pool:1: leave WRING_EXECUTOR out");
    check_session(&cores, "WRING_EXECUTOR=pool:2", "is for pool:1");
    check_session(&chunks, "WRING_SCHEME=hierarchical", "leave WRING_SCHEME out");
    check_session(&chunks, NULL, NULL);
    check_session(&chunks, "WRING_CHUNK_BYTES=64k", NULL);
    check_session(&chunks, "WRING_CHUNK_BYTES=256k", "WRING_CHUNK_BYTES=262144, and WRING_PLAN");
}

/** Lines of a pool's threads, one after another. */
static void take_threads(void *arg, enum wring_log_level level, const char *module,
                         const char *text)
{
    uint32_t *threads = arg;
    (void)level;
    *threads += strcmp(module, "pool") == 0 && strstr(text, "runs codecs on core") != NULL;
}

static uint32_t count_usable(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : 1;
}

/** As many threads as the plan has cores, each on its own; more than there are is another plan. */
static void plans_have_their_cores(void)
{
    uint32_t usable = count_usable(), threads = 0;
    char executor[32], setting[64], says[100];
    struct plan_of what = {.parts = mixed, .ranks = 1, .names = names, .executor = executor};
    const char *const settings[] = {setting, "WRING_LOG=info", NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session = NULL;

    snprintf(executor, sizeof(executor), "pool:%u", usable);
    write_plan(&what, setting, sizeof(setting));
    params.settings = settings;
    params.log = take_threads;
    params.log_arg = &threads;
    params.rank = 0;
    params.size = 1;
    CHECK(wring_session_open(&params, &session) == WRING_OK, "not opened");
    wring_session_close(session);
    CHECK(threads == usable, "%u threads, not %u", threads, usable);
    remove_plan(setting);
    snprintf(executor, sizeof(executor), "pool:%u", usable + 1);
    snprintf(says, sizeof(says),
             "is for codecs on %u pinned cores in each rank, and this process may use %u",
             usable + 1, usable);
    check_session(&what, NULL, says);
    what = (struct plan_of){.parts = mixed, .ranks = 1, .names = names, .cores = usable + 1};
    check_session(&what, NULL, says);
}

static void commit_fails(struct wring_session *session, uint32_t rank, void *arg)
{
    struct tensors tensors;
    (void)arg;
    (void)rank;

    REQUIRE(make_tensors(session, false, &tensors), "no tensors");
    CHECK(wring_session_commit(session) == WRING_ERR_MISMATCH, "committed");
    CHECK(wring_bucket_post(tensors.buckets[0]) == WRING_ERR_INVALID, "posted");
}

static void refuse(const struct plan_of *what, const char *says)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2,
                                                  .settings = settings,
                                                  .run = commit_fails,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(strstr(lines.text, says) != NULL, "it says: %s", lines.text);
    remove_plan(setting);
}

static void plans_for_other_buckets_are_refused(void)
{
    static const char *const others[TENSORS] = {"d", "c", "z", "a"};
    static const struct part fewer[] = {{3, "none", "auto"}, {0}};

    refuse(&(struct plan_of){.parts = mixed, .ranks = 2, .names = others},
           "has a tensor 'z', and no bucket is called so");
    refuse(&(struct plan_of){.parts = fewer, .ranks = 2, .names = names},
           "bucket 'a' is not in WRING_PLAN");
    refuse(&(struct plan_of){.parts = mixed, .ranks = 2, .names = names, .more = 5},
           "its group 0, from \"d\" on, has 12705 elements, and there are 12700");
    refuse(&(struct plan_of){.parts = mixed, .ranks = 2, .names = names, .swapped = true},
           "its tensor \"d\" has 12000 elements, and there are 700");
}

/** Momentum and votes are switched on and off where buckets are registered, and by no plan. */
static void plans_do_not_change_training(void)
{
    static const struct part votes[] = {{1, "none", "auto"}, {3, "signsgd", "divisible"}, {0}};
    static const char *const lists[][2] = {
        {"WRING_PLAN_CODECS=bf16,signsgd", "signsgd changes what training does"},
        {"WRING_PLAN_CODECS=onebit+ef>signsgd", "changes what training does"},
        {"WRING_PLAN_CODECS=topk+momentum+ef", "changes what training does"},
        {"WRING_PLAN_CODECS=powersgd+ef", "powersgd+ef keeps state from step to step"}};

    refuse(&(struct plan_of){.parts = votes, .ranks = 2, .names = names},
           "has codec signsgd for bucket 'c', which is registered with none: a plan may not change "
           "what training does");
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct wring_test_lines lines = WRING_TEST_LINES_INIT;
        CHECK(open_one("WRING_PLAN=auto", lists[i][0], &lines) == WRING_ERR_INVALID, "%s: opened",
              lists[i][0]);
        CHECK(strstr(lines.text, lists[i][1]) != NULL, "%s", lines.text);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"plans_that_cannot_run_do_not_open", plans_that_cannot_run_do_not_open},
        {"plans_for_nodes_need_equal_ones", plans_for_nodes_need_equal_ones},
        {"plans_have_their_executor_and_chunks", plans_have_their_executor_and_chunks},
        {"plans_have_their_cores", plans_have_their_cores},
        {"plans_for_other_buckets_are_refused", plans_for_other_buckets_are_refused},
        {"plans_do_not_change_training", plans_do_not_change_training},
        {"waiting_for_one_alone_is_an_error", waiting_for_one_alone_is_an_error},
        {"any_of_a_failed_session_ends", any_of_a_failed_session_ends},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
