/* SPDX-License-Identifier: Apache-2.0 */
/* WRING_PLAN: what the plan says is what runs, bit for bit, and a plan for something else is
 * refused by name. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/files/plan.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define RANKS 4
#define TENSORS 4
#define STEPS 4
#define ELEMS_MAX 20000

static const uint64_t sizes[TENSORS] = {700, 12000, 1, 5000};
static const char *const names[TENSORS] = {"d", "c", "b", "a"};

/** One group of a plan. */
struct part {
    uint32_t n; /* tensors */
    const char *codec, *run_as;
};

struct plan_of {
    const struct part *parts; /* ends with n = 0 */
    uint32_t ranks;
    uint32_t ranks_per_node; /* 0: one */
    const char *const *names;
    uint64_t more; /* elements that the first group is said to have too many */
    bool swapped;  /* its first two tensors are said to be as large as each other is */
    const char *executor;
    uint64_t chunk_bytes;
    uint32_t cores; /* of the first group */
};

/** Write a plan to a file; its name is a setting, "WRING_PLAN=/tmp/...". */
static void write_plan(const struct plan_of *what, char *setting, size_t bytes)
{
    uint32_t per_node = what->ranks_per_node > 0 ? what->ranks_per_node : 1;
    struct wring_plan_group groups[TENSORS] = {0};
    uint64_t each[TENSORS];
    struct wring_plan plan = {.model = "test",
                              .profile = "test",
                              .timeline = "full",
                              .nodes = what->ranks / per_node,
                              .ranks_per_node = per_node,
                              .groups = groups};
    uint32_t at = 0;

    for (const struct part *part = what->parts; part->n != 0; part++) {
        struct wring_plan_group *group = &groups[plan.n_groups++];
        group->n = part->n;
        group->tensors = (char **)&what->names[at];
        for (uint32_t i = 0; i < part->n; i++)
            group->elems += sizes[at++];
        snprintf(group->codec, sizeof(group->codec), "%s", part->codec);
        snprintf(group->run_as, sizeof(group->run_as), "%s", part->run_as);
        snprintf(group->scheme, sizeof(group->scheme), "flat alltoall*, allgather*");
    }
    groups[0].elems += what->more;
    memcpy(each, sizes, sizeof(each));
    each[0] = sizes[1];
    each[1] = sizes[0];
    groups[0].each = what->swapped ? each : NULL;
    groups[0].cores = what->cores;
    plan.chunk_bytes = what->chunk_bytes;
    snprintf(plan.executor, sizeof(plan.executor), "%s",
             what->executor != NULL ? what->executor : "");
    snprintf(setting, bytes, "WRING_PLAN=/tmp/wring-plan-XXXXXX");
    int fd = mkstemp(setting + strlen("WRING_PLAN="));
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    CHECK(file != NULL && wring_plan_save(&plan, file) == WRING_OK, "no plan written");
    if (file != NULL)
        fclose(file);
}

static void remove_plan(const char *setting)
{
    unlink(setting + strlen("WRING_PLAN="));
}

/** What a rank has of its tensors. */
struct tensors {
    struct wring_bucket *buckets[TENSORS];
    float *data[TENSORS];
};

struct story {
    bool apart;  /* in memory: buffers of their own */
    bool by_any; /* waited for by wring_wait_any() */
    bool twice;  /* committed anew halfway */
    bool nodes;  /* of two ranks */
    bool pool;   /* the plan says where codecs run, and how large pieces are */
    float results[RANKS][STEPS][ELEMS_MAX];
};

static bool make_tensors(struct wring_session *session, const struct story *story,
                         struct tensors *out)
{
    uint64_t total = 0, at = 0;
    float *all = NULL;

    for (int t = 0; t < TENSORS; t++)
        total += sizes[t];
    if (!story->apart &&
        wring_buffer_alloc(session, total * sizeof(float), (void **)&all) != WRING_OK)
        return false;
    for (int t = 0; t < TENSORS; t++) {
        if (story->apart &&
            wring_buffer_alloc(session, sizes[t] * sizeof(float), (void **)&all) != WRING_OK)
            return false;
        out->data[t] = story->apart ? all : all + at;
        at += sizes[t];
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = names[t];
        params.data = out->data[t];
        params.elems = sizes[t];
        if (wring_bucket_register(session, &params, &out->buckets[t]) != WRING_OK)
            return false;
    }
    return true;
}

static void fill(const struct tensors *tensors, uint32_t rank, uint64_t step)
{
    uint32_t state = 1 + rank + 16 * (uint32_t)step;

    for (int t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < sizes[t]; i++)
            tensors->data[t][i] = wring_test_random_float(&state);
}

static void wait_any(struct tensors *tensors)
{
    struct wring_bucket *left[TENSORS];
    size_t index;

    memcpy(left, tensors->buckets, sizeof(left));
    for (int t = 0; t < TENSORS; t++) {
        CHECK(wring_wait_any(left, TENSORS, WAIT_NS, &index) == WRING_OK, "wait any");
        REQUIRE(index < TENSORS, "all are done");
        left[index] = NULL;
    }
}

static void run_step(struct tensors *tensors, const struct story *story, uint32_t rank,
                     uint64_t step)
{
    fill(tensors, rank, step);
    for (int t = 0; t < TENSORS; t++) /* each rank in another order */
        CHECK(wring_bucket_post(tensors->buckets[(t + (int)rank) % TENSORS]) == WRING_OK, "post");
    CHECK(wring_bucket_post(tensors->buckets[0]) == WRING_ERR_BUSY, "posted twice");
    if (story->by_any)
        wait_any(tensors);
    else
        for (int t = 0; t < TENSORS; t++)
            CHECK(wring_bucket_wait(tensors->buckets[t], WAIT_NS) == WRING_OK, "wait");
    CHECK(wring_bucket_test(tensors->buckets[1]) == WRING_OK, "done, and then not");
}

static void keep(const struct tensors *tensors, float *results)
{
    for (int t = 0; t < TENSORS; t++) {
        memcpy(results, tensors->data[t], sizes[t] * sizeof(float));
        results += sizes[t];
    }
}

static void run_story(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct tensors tensors;

    REQUIRE(make_tensors(session, story, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (uint64_t step = 0; step < STEPS; step++) {
        if (story->twice && step == STEPS / 2)
            REQUIRE(wring_session_commit(session) == WRING_OK, "commit anew");
        run_step(&tensors, story, rank, step);
        keep(&tensors, story->results[rank][step]);
    }
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    wring_session_stats(session, &stats);
    CHECK((stats.executor_cpu_ns > 0) == story->pool, "%llu ns on other threads",
          (unsigned long long)stats.executor_cpu_ns);
}

/** The same exchange by hand: a bucket for each part of the plan. */
struct by_hand {
    const struct part *parts;
    float results[RANKS][STEPS][ELEMS_MAX];
};

static void run_by_hand(struct wring_session *session, uint32_t rank, void *arg)
{
    struct by_hand *story = arg;
    struct story contiguous = {0};
    struct tensors tensors;
    struct wring_bucket *buckets[TENSORS];
    uint32_t n = 0, at = 0;

    REQUIRE(make_tensors(session, &contiguous, &tensors), "no tensors");
    for (int t = 0; t < TENSORS; t++)
        wring_bucket_drop(tensors.buckets[t]);
    for (const struct part *part = story->parts; part->n != 0; part++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        char name[16];
        snprintf(name, sizeof(name), "part %u", n);
        params.name = name;
        params.data = tensors.data[at];
        params.codec = part->codec;
        params.scheme = wring_scheme_find(part->run_as);
        for (uint32_t i = 0; i < part->n; i++)
            params.elems += sizes[at++];
        REQUIRE(wring_bucket_register(session, &params, &buckets[n++]) == WRING_OK, "register");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (uint64_t step = 0; step < STEPS; step++) {
        fill(&tensors, rank, step);
        for (uint32_t i = 0; i < n; i++)
            CHECK(wring_bucket_post(buckets[i]) == WRING_OK, "post");
        for (uint32_t i = 0; i < n; i++)
            CHECK(wring_bucket_wait(buckets[i], WAIT_NS) == WRING_OK, "wait");
        keep(&tensors, story->results[rank][step]);
    }
}

static const struct part mixed[] = {
    {2, "onebit:block=128+ef", "divisible"}, {1, "none", "auto"}, {1, "int8", "indivisible"}, {0}};
static const struct part all_in_one[] = {{4, "topk:ratio=0.05+ef", "indivisible"}, {0}};
static const struct part each_alone[] = {{1, "bf16", "auto"},
                                         {1, "onebit+ef", "auto"},
                                         {1, "none", "auto"},
                                         {1, "int8+ef", "auto"},
                                         {0}};

static const struct part between_nodes[] = {{2, "onebit:block=128+ef", "hierarchical-divisible"},
                                            {1, "none", "hierarchical"},
                                            {1, "int8+ef", "hierarchical-indivisible"},
                                            {0}};

static void compare_with_hand(const struct part *parts, struct story *story)
{
    struct plan_of what = {.parts = parts,
                           .ranks = RANKS,
                           .ranks_per_node = story->nodes ? 2 : 0,
                           .names = names,
                           .executor = story->pool ? "pool:1" : "",
                           .chunk_bytes = story->pool ? 4096 : 0};
    static struct by_hand hand;
    char setting[64];
    const char *provider = story->nodes ? "WRING_PROVIDER=auto" : "WRING_PROVIDER=tcp";
    const char *const settings[] = {setting, provider, NULL};
    const char *const hand_settings[] = {"WRING_BYPASS=never", provider, NULL};
    uint32_t per_node = what.ranks_per_node;

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = RANKS,
                                                  .ranks_per_node = per_node,
                                                  .settings = settings,
                                                  .arg = story,
                                                  .run = run_story});
    hand.parts = parts;
    wring_test_run_ranks(&(struct wring_test_job){.ranks = RANKS,
                                                  .ranks_per_node = per_node,
                                                  .settings = hand_settings,
                                                  .arg = &hand,
                                                  .run = run_by_hand});
    CHECK(memcmp(story->results, hand.results, sizeof(hand.results)) == 0,
          "not what the same buckets give by hand");
    remove_plan(setting);
}

static void what_is_planned_runs(void)
{
    const struct part *const plans[] = {mixed, all_in_one, each_alone, between_nodes};

    for (int i = 0; i < 4; i++)
        for (int apart = 0; apart < 2; apart++) {
            struct story *story = calloc(1, sizeof(*story));
            story->apart = apart;
            story->by_any = i == 1;
            story->twice = i != 1;
            story->pool = i == 0;
            story->nodes = i == 3;
            compare_with_hand(plans[i], story);
            free(story);
        }
}

/** Log lines of all ranks. */
struct lines {
    pthread_mutex_t mutex;
    char text[8192];
};
#define NO_LINES                           \
    (struct lines)                         \
    {                                      \
        .mutex = PTHREAD_MUTEX_INITIALIZER \
    }

static void take_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct lines *lines = arg;
    (void)level;
    (void)module;
    pthread_mutex_lock(&lines->mutex);
    size_t length = strlen(lines->text);
    snprintf(lines->text + length, sizeof(lines->text) - length, "%s\n", text);
    pthread_mutex_unlock(&lines->mutex);
}

static void wait_alone(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story contiguous = {0};
    struct tensors tensors;
    (void)arg;
    (void)rank;

    REQUIRE(make_tensors(session, &contiguous, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    REQUIRE(wring_bucket_post(tensors.buckets[1]) == WRING_OK, "post");
    CHECK(wring_bucket_test(tensors.buckets[1]) == WRING_ERR_AGAIN, "done without its mate");
    CHECK(wring_bucket_wait(tensors.buckets[1], WAIT_NS) == WRING_ERR_INVALID, "waited for ever");
    CHECK(wring_session_commit(session) == WRING_ERR_BUSY, "committed halfway");
    CHECK(wring_bucket_drop(tensors.buckets[1]) == WRING_ERR_BUSY, "dropped halfway");
    REQUIRE(wring_bucket_post(tensors.buckets[0]) == WRING_OK, "post");
    CHECK(wring_bucket_wait(tensors.buckets[1], WAIT_NS) == WRING_OK, "wait");
    CHECK(wring_bucket_wait(tensors.buckets[0], WAIT_NS) == WRING_OK, "wait");
}

static void waiting_for_one_alone_is_an_error(void)
{
    struct plan_of what = {.parts = mixed, .ranks = 2, .names = names};
    struct lines lines = NO_LINES;
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = 2, .settings = settings, .run = wait_alone, .log = take_line, .log_arg = &lines});
    CHECK(strstr(lines.text, "'c' is waited for, and travels with 'd', which is not posted") !=
              NULL,
          "it says: %s", lines.text);
    remove_plan(setting);
}

/** Open by hand: a session that must not open. @return its status */
static enum wring_status open_one(const char *setting, const char *another, struct lines *lines)
{
    const char *const settings[] = {setting, another, NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session = NULL;

    params.settings = settings;
    params.log = take_line;
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
    struct lines lines = NO_LINES;
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
    struct lines lines = NO_LINES;
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
    struct story contiguous = {0};
    struct tensors tensors;

    (void)arg;
    REQUIRE(make_tensors(session, &contiguous, &tensors), "no tensors");
    enum wring_status status = wring_session_commit(session);
    CHECK(status == WRING_ERR_MISMATCH, "rank %u: %s", rank, wring_status_text(status));
}

/** Of nodes that are not equal, none of which the plan can mean. */
static void plans_for_nodes_need_equal_ones(void)
{
    const struct plan_of what = {
        .parts = between_nodes, .ranks = 3, .ranks_per_node = 1, .names = names};
    struct lines lines = NO_LINES;
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 3,
                                                  .ranks_per_node = 2,
                                                  .settings = settings,
                                                  .run = refuse_to_commit,
                                                  .log = take_line,
                                                  .log_arg = &lines});
    CHECK(strstr(lines.text, "goes hierarchically, and nodes have 1 to 2 ranks") != NULL, "%s",
          lines.text);
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
    struct story contiguous = {0};
    struct tensors tensors;
    (void)arg;
    (void)rank;

    REQUIRE(make_tensors(session, &contiguous, &tensors), "no tensors");
    CHECK(wring_session_commit(session) == WRING_ERR_MISMATCH, "committed");
    CHECK(wring_bucket_post(tensors.buckets[0]) == WRING_ERR_INVALID, "posted");
}

static void refuse(const struct plan_of *what, const char *says)
{
    struct lines lines = NO_LINES;
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2,
                                                  .settings = settings,
                                                  .run = commit_fails,
                                                  .log = take_line,
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

/** Steps of a job, from what another has saved, to what this one saves. */
struct chapter {
    const uint8_t *load[2]; /* NULL: from the beginning */
    size_t load_bytes[2];
    uint8_t *saved[2];
    size_t saved_bytes[2];
    float results[2][ELEMS_MAX];
};

static void run_chapter(struct wring_session *session, uint32_t rank, void *arg)
{
    struct chapter *chapter = arg;
    struct story contiguous = {0};
    struct tensors tensors;

    REQUIRE(make_tensors(session, &contiguous, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (chapter->load[rank] != NULL)
        CHECK(wring_session_load_state(session, chapter->load[rank], chapter->load_bytes[rank]) ==
                  WRING_OK,
              "load");
    for (uint64_t step = 0; step < STEPS; step++)
        run_step(&tensors, &contiguous, rank, step);
    keep(&tensors, chapter->results[rank]);
    size_t bytes = 0;
    REQUIRE(wring_session_save_state(session, NULL, &bytes) == WRING_OK, "size");
    chapter->saved[rank] = malloc(bytes);
    CHECK(wring_session_save_state(session, chapter->saved[rank], &bytes) == WRING_OK, "save");
    chapter->saved_bytes[rank] = bytes;
}

static void run_planned_chapter(const struct part *parts, struct chapter *chapter)
{
    struct plan_of what = {.parts = parts, .ranks = 2, .names = names};
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = 2, .settings = settings, .arg = chapter, .run = run_chapter});
    remove_plan(setting);
}

/** Residuals belong to tensors: another grouping of the same ones takes them over. What one rank
 *  holds back of its own is that of any grouping, where every tensor is whole units. */
static void residuals_survive_another_grouping(void)
{
    static const struct part merged[] = {{4, "onebit:block=32+ef", "indivisible"}, {0}};
    static const struct part apart[] = {{1, "onebit:block=32+ef", "indivisible"},
                                        {1, "onebit:block=32+ef", "indivisible"},
                                        {1, "onebit:block=32+ef", "indivisible"},
                                        {1, "onebit:block=32+ef", "indivisible"},
                                        {0}};
    static struct chapter first, second, again;

    run_planned_chapter(merged, &first);
    for (int rank = 0; rank < 2; rank++) {
        second.load[rank] = again.load[rank] = first.saved[rank];
        second.load_bytes[rank] = again.load_bytes[rank] = first.saved_bytes[rank];
    }
    run_planned_chapter(apart, &second);
    run_planned_chapter(merged, &again);
    CHECK(memcmp(second.results[0], second.results[1], sizeof(second.results[0])) == 0,
          "ranks differ");
    CHECK(memcmp(first.results, again.results, sizeof(first.results)) != 0,
          "what was held back made no difference");
    double whole = 0, differs = 0; /* the first 640 elements are the same units in both */
    for (int i = 0; i < 640; i++) {
        whole += (double)again.results[0][i] * (double)again.results[0][i];
        differs += second.results[0][i] != again.results[0][i];
    }
    CHECK(whole > 0 && differs == 0, "%g of 640 differ", differs);
    for (int rank = 0; rank < 2; rank++) {
        free(first.saved[rank]);
        free(second.saved[rank]);
        free(again.saved[rank]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_is_planned_runs", what_is_planned_runs},
        {"waiting_for_one_alone_is_an_error", waiting_for_one_alone_is_an_error},
        {"plans_that_cannot_run_do_not_open", plans_that_cannot_run_do_not_open},
        {"plans_for_nodes_need_equal_ones", plans_for_nodes_need_equal_ones},
        {"plans_have_their_executor_and_chunks", plans_have_their_executor_and_chunks},
        {"plans_have_their_cores", plans_have_their_cores},
        {"plans_for_other_buckets_are_refused", plans_for_other_buckets_are_refused},
        {"residuals_survive_another_grouping", residuals_survive_another_grouping},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
