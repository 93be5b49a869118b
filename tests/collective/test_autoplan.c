/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRING_PLAN=auto: sums stay right while buckets change their ways; what is chosen is what the link
 * asks for, what does not hold what it promises is taken back, and what is kept in the cache is
 * used, if it is still true.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/files/profile.h"
#include "runtime/plan/autoplan.h"
#include "runtime/plan/joined.h"
#include "runtime/residual.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "transport/providers/fault/fault_private.h"

#define WAIT_NS (60ull * 1000000000)
#define RANKS_MAX 3
#define TENSORS 5
#define STEPS_MAX 300
#define NOTICED_MAX 20000 /* planning anew has to wait for 20 times as long as it takes */

static const uint64_t sizes[TENSORS] = {700, 12000, 1, 60000, 30000};
static const char *const names[TENSORS] = {"e", "d", "c", "b", "a"};

/** Log lines of all ranks. */
struct lines {
    pthread_mutex_t mutex;
    char text[64 << 10];
};

static void take_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct lines *lines = arg;
    (void)level;
    if (strcmp(module, "plan") != 0)
        return;
    pthread_mutex_lock(&lines->mutex);
    size_t length = strlen(lines->text);
    snprintf(lines->text + length, sizeof(lines->text) - length, "%s\n", text);
    pthread_mutex_unlock(&lines->mutex);
}

static unsigned count_lines(const struct lines *lines, const char *part)
{
    unsigned n = 0;

    for (const char *at = lines->text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

/** A job and what came of it. */
struct story {
    const char *codec; /* of all buckets; NULL: none */
    enum wring_op op;
    bool early;                /* each bucket is waited for before the next is posted */
    bool conserves;            /* nothing may be lost: sums and what is held back add up */
    double slower_ns_per_byte; /* of the link, once all is settled; 0: as it is */
    struct lines lines;
    struct wring_autoplan_report report[RANKS_MAX];
    uint32_t steps[RANKS_MAX];
    char chosen[RANKS_MAX][TENSORS][WRING_CODEC_SPEC_MAX]; /* what runs in the end */
    float last[RANKS_MAX][TENSORS][60000];
    atomic_uint wrong; /* elements of raw sums */
};

/** What a rank has of its tensors. */
struct tensors {
    struct wring_bucket *buckets[TENSORS];
    float *data[TENSORS];
    double *missing[TENSORS]; /* true sums less results, over all steps */
};

static bool make_tensors(struct wring_session *session, const struct story *story,
                         struct tensors *out)
{
    uint64_t total = 0;
    float *all;

    for (int t = 0; t < TENSORS; t++)
        total += sizes[t];
    if (wring_buffer_alloc(session, total * sizeof(float), (void **)&all) != WRING_OK)
        return false;
    for (int t = 0; t < TENSORS; t++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = names[t];
        params.data = out->data[t] = all;
        params.elems = sizes[t];
        params.codec = story->codec;
        params.op = story->op;
        all += sizes[t];
        out->missing[t] = calloc(sizes[t], sizeof(double));
        if (wring_bucket_register(session, &params, &out->buckets[t]) != WRING_OK)
            return false;
    }
    return true;
}

/** Small whole numbers, so that sums are exact in any order. */
static float number(uint32_t rank, uint32_t step, int t, uint64_t i)
{
    return (float)((int)((i * 7 + rank * 31 + step * 13 + (uint32_t)t * 5) % 255) - 127);
}

static float sum_of(uint32_t ranks, uint32_t step, int t, uint64_t i)
{
    float sum = 0;

    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += number(rank, step, t, i);
    return sum;
}

static void check_step(struct wring_session *session, struct story *story, struct tensors *tensors,
                       uint32_t step)
{
    uint32_t ranks = wring_session_size(session);

    for (int t = 0; t < TENSORS; t++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        wring_bucket_stats(tensors->buckets[t], &stats);
        CHECK(strcmp(stats.codec, "none") != 0 || !(stats.residual_rms > 0),
              "step %u, tensor %d: %g is held back, and nothing is coded", step, t,
              stats.residual_rms);
        bool exact = strcmp(stats.codec, "none") == 0 && !story->conserves;
        for (uint64_t i = 0; i < sizes[t]; i++) {
            float sum = sum_of(ranks, step, t, i);
            if (story->op == WRING_AVG)
                sum /= (float)ranks;
            tensors->missing[t][i] += (double)sum - tensors->data[t][i];
            if (exact && tensors->data[t][i] != sum && story->wrong++ == 0)
                CHECK(false, "step %u, tensor %d, element %zu", step, t, (size_t)i);
        }
    }
}

static void run_step(struct wring_session *session, struct story *story, struct tensors *tensors,
                     uint32_t step)
{
    uint32_t rank = wring_session_rank(session);

    for (int t = 0; t < TENSORS; t++) {
        for (uint64_t i = 0; i < sizes[t]; i++)
            tensors->data[t][i] = number(rank, step, t, i);
        CHECK(wring_bucket_post(tensors->buckets[t]) == WRING_OK, "post");
        if (story->early)
            CHECK(wring_bucket_wait(tensors->buckets[t], WAIT_NS) == WRING_OK, "wait");
    }
    for (int t = 0; t < TENSORS; t++)
        CHECK(wring_bucket_wait(tensors->buckets[t], WAIT_NS) == WRING_OK, "wait");
    check_step(session, story, tensors, step);
}

/** What all ranks hold back is what is missing in the sums so far. */
static void check_conserved(struct wring_session *session, struct tensors *tensors)
{
    for (int t = 0; t < TENSORS; t++) {
        const struct wring_bucket *bucket = tensors->buckets[t];
        struct wring_bucket *in =
            bucket->joined != NULL ? bucket->joined->carrier : tensors->buckets[t];
        double share = bucket->op == WRING_AVG ? 1.0 / wring_session_size(session) : 1;
        wring_residual_loosen(in);
        float *held = calloc(sizes[t], sizeof(float));
        if (in->residual != NULL)
            memcpy(held, in->residual + bucket->joined_at, sizes[t] * sizeof(float));
        CHECK(wring_allreduce(wring_session_world(session), held, sizes[t], WRING_F32, WRING_SUM,
                              NULL, NULL) == WRING_OK,
              "allreduce");
        double worst = 0;
        for (uint64_t i = 0; i < sizes[t]; i++)
            worst = fmax(worst, fabs(tensors->missing[t][i] - held[i] * share));
        CHECK(worst < 1, "tensor %d: %g is lost or sent twice", t, worst);
        free(held);
    }
}

static void set_link(struct wring_session *session, double ns_per_byte)
{
    wring_progress_lock(session->progress);
    fault_of(session->fabric->devices[0].provider)->schedule.ns_per_byte = ns_per_byte;
    wring_progress_unlock(session->progress);
}

/** Steps until a way is chosen. */
static void run_until_settled(struct wring_session *session, struct story *story,
                              struct tensors *tensors, uint32_t *step)
{
    struct wring_autoplan_report report = {.settled = false};
    uint32_t rank = wring_session_rank(session);

    for (uint32_t end = *step + STEPS_MAX; *step < end && !report.settled; (*step)++) {
        run_step(session, story, tensors, *step);
        wring_autoplan_tell(session, &report);
    }
    CHECK(report.settled, "nothing was chosen in %u steps", *step);
    story->report[rank] = report;
    story->steps[rank] = *step;
}

/** Steps until it is planned anew. */
static void run_until_unsettled(struct wring_session *session, struct story *story,
                                struct tensors *tensors, uint32_t *step)
{
    struct wring_autoplan_report report = {.settled = true};

    for (uint32_t end = *step + NOTICED_MAX; *step < end && report.settled; (*step)++) {
        run_step(session, story, tensors, *step);
        wring_autoplan_tell(session, &report);
    }
    CHECK(!report.settled, "the link is another one, and nobody has noticed");
}

static void run_story(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct tensors tensors;
    uint32_t step = 0;

    REQUIRE(make_tensors(session, story, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    run_until_settled(session, story, &tensors, &step);
    if (story->slower_ns_per_byte > 0) {
        set_link(session, story->slower_ns_per_byte);
        run_until_unsettled(session, story, &tensors, &step);
        run_until_settled(session, story, &tensors, &step);
    }
    for (uint32_t end = step + 3; step < end; step++)
        run_step(session, story, &tensors, step);
    if (story->conserves)
        check_conserved(session, &tensors);
    for (int t = 0; t < TENSORS; t++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        CHECK(wring_bucket_stats(tensors.buckets[t], &stats) == WRING_OK, "stats");
        snprintf(story->chosen[rank][t], WRING_CODEC_SPEC_MAX, "%s", stats.codec);
        memcpy(story->last[rank][t], tensors.data[t], sizes[t] * sizeof(float));
        free(tensors.missing[t]);
    }
}

/** The folder of a test's own. */
static const char *make_cache(char *setting, size_t bytes)
{
    snprintf(setting, bytes, "WRING_CACHE=/tmp/wring-cache-XXXXXX");
    CHECK(mkdtemp(setting + strlen("WRING_CACHE=")) != NULL, "no folder");
    return setting + strlen("WRING_CACHE=");
}

/** The one file that is in a cache. @return false: there is none */
static bool find_profile(const char *cache, char *path, size_t bytes)
{
    char command[300];

    snprintf(command, sizeof(command), "ls %s/profile-*.json 2>/dev/null", cache);
    FILE *list = popen(command, "r");
    bool found = list != NULL && fgets(path, (int)bytes, list) != NULL;
    if (list != NULL)
        pclose(list);
    path[found ? strcspn(path, "\n") : 0] = '\0';
    return found;
}

static void remove_cache(const char *cache)
{
    char path[300];

    while (find_profile(cache, path, sizeof(path)))
        unlink(path);
    rmdir(cache);
}

static void run(struct story *story, uint32_t ranks, const char *const *more, const char *cache)
{
    const char *settings[12] = {"WRING_PLAN=auto",       "WRING_PLAN_SECONDS=0.05",
                                "WRING_PLAN_EVERY=20ms", "WRING_LOG=info",
                                "WRING_BYPASS=never",    cache};
    uint32_t n = 6;

    while (*more != NULL)
        settings[n++] = *more++;
    pthread_mutex_init(&story->lines.mutex, NULL);
    wring_test_run_ranks(&(struct wring_test_job){.ranks = ranks,
                                                  .settings = settings,
                                                  .arg = story,
                                                  .run = run_story,
                                                  .log = take_line,
                                                  .log_arg = &story->lines});
    for (uint32_t rank = 1; rank < ranks; rank++) {
        CHECK(memcmp(story->last[rank], story->last[0], sizeof(story->last[0])) == 0,
              "rank %u has other sums", rank);
        CHECK(memcmp(story->chosen[rank], story->chosen[0], sizeof(story->chosen[0])) == 0,
              "rank %u has chosen otherwise", rank);
        CHECK(story->steps[rank] == story->steps[0], "rank %u was done at another step", rank);
    }
}

static struct story *new_story(void)
{
    struct story *story = calloc(1, sizeof(*story));

    if (story == NULL)
        abort();
    return story;
}

static void sums_stay_right(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};

    for (int i = 0; i < 4; i++) {
        const char *const more[] = {providers[i % 2], "WRING_PLAN_CODECS=bf16,onebit:block=128",
                                    NULL};
        struct story *story = new_story();
        char cache[64];
        make_cache(cache, sizeof(cache));
        story->early = i == 3;
        run(story, i < 2 ? 2 : 3, more, cache);
        CHECK(count_lines(&story->lines, "exchanges were measured in") == 1, "%s",
              story->lines.text);
        CHECK(count_lines(&story->lines, "none are merged") == story->early, "%s",
              story->lines.text);
        remove_cache(strchr(cache, '=') + 1);
        free(story);
    }
}

/** 100000 elements take 80 ms and more as they are, over this link, and their signs 3: what other
 *  programs take of the machine does not change which is shorter. */
static void slow_links_have_codecs(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=20mbit",
                                       "WRING_PLAN_CODECS=onebit", NULL};
    struct story *story = new_story();
    char cache[64];

    make_cache(cache, sizeof(cache));
    run(story, 2, more, cache);
    CHECK(story->report[0].planned, "no plan was kept: %s", story->lines.text);
    CHECK(strcmp(story->chosen[0][3], "onebit") == 0, "%s runs: %s", story->chosen[0][3],
          story->lines.text);
    CHECK(story->report[0].with_us < story->report[0].without_us, "%g and %g us",
          story->report[0].with_us, story->report[0].without_us);
    CHECK(count_lines(&story->lines, "is kept") == 1, "%s", story->lines.text);
    remove_cache(strchr(cache, '=') + 1);
    free(story);
}

static void what_was_measured_is_kept(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=80mbit", NULL};
    char cache[64], path[300];
    const char *folder = make_cache(cache, sizeof(cache));
    struct story *first = new_story(), *second = new_story(), *third = new_story();

    run(first, 2, more, cache);
    CHECK(find_profile(folder, path, sizeof(path)), "nothing in the cache");
    run(second, 2, more, cache);
    CHECK(count_lines(&first->lines, "exchanges were measured in") == 1, "%s", first->lines.text);
    CHECK(count_lines(&second->lines, "exchanges were measured in") == 0, "%s", second->lines.text);

    FILE *file = fopen(path, "w"); /* and what is no profile is not used */
    REQUIRE(file != NULL, "cannot write");
    fputs("{\"format\": \"wring-profile\", \"version\": 1, \"nodes\": -1}", file);
    fclose(file);
    run(third, 2, more, cache);
    CHECK(count_lines(&third->lines, "cannot be used: exchanges are measured anew") == 1, "%s",
          third->lines.text);
    CHECK(count_lines(&third->lines, "exchanges were measured in") == 1, "%s", third->lines.text);
    remove_cache(folder);
    free(first);
    free(second);
    free(third);
}

static void another_link_is_noticed_at_once(void)
{
    static const char *const fast[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=10gbit", NULL};
    static const char *const slow[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=20mbit", NULL};
    struct story *first = new_story(), *second = new_story();
    char cache[64];
    const char *folder = make_cache(cache, sizeof(cache));

    run(first, 2, fast, cache);
    run(second, 2, slow, cache);
    CHECK(count_lines(&second->lines, "links are not what they were") == 1, "%s",
          second->lines.text);
    CHECK(count_lines(&second->lines, "exchanges were measured in") == 1, "%s", second->lines.text);
    remove_cache(folder);
    free(first);
    free(second);
}

/** Have a profile say that a codec's exchanges take no time. */
static void tell_lies(const char *folder, const char *codec)
{
    struct wring_log log = {take_line, &(struct lines){.mutex = PTHREAD_MUTEX_INITIALIZER},
                            WRING_LOG_WARN};
    struct wring_profile *profile = NULL;
    char path[300];

    REQUIRE(find_profile(folder, path, sizeof(path)), "nothing in the cache");
    REQUIRE(wring_profile_load(path, &log, &profile) == WRING_OK, "cannot be read");
    for (uint32_t i = 0; i < profile->n_ways; i++)
        if (strcmp(profile->ways[i].codec, codec) == 0) {
            struct wring_profile_way *way = &profile->ways[i];
            way->solo.us = way->busy.us = wring_cost_line(1, 0);
        }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && wring_profile_save(profile, file) == WRING_OK, "cannot be written");
    if (file != NULL)
        fclose(file);
    wring_profile_destroy(profile);
}

/** Its codes are twice what they stand for, and take long to find. The link is what takes time, so
 *  that the rest of the profile is believed. */
static void what_is_worse_is_taken_back(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=80mbit",
                                       "WRING_PLAN_CODECS=topk:ratio=1", NULL};
    struct story *first = new_story(), *second = new_story();
    char cache[64];
    const char *folder = make_cache(cache, sizeof(cache));

    run(first, 2, more, cache);
    tell_lies(folder, "topk:ratio=1");
    run(second, 2, more, cache);
    CHECK(count_lines(&second->lines, "no plan is faster") == 1, "%s", second->lines.text);
    CHECK(count_lines(&second->lines, "buckets travel as registered again") == 1, "%s",
          second->lines.text);
    CHECK(!second->report[0].planned, "a plan is kept");
    for (int t = 0; t < TENSORS; t++)
        CHECK(strcmp(second->chosen[0][t], "none") == 0, "%s runs", second->chosen[0][t]);
    remove_cache(folder);
    free(first);
    free(second);
}

/** Ways with error feedback and without follow on each other, in groups and apart. */
static void nothing_that_is_held_back_is_lost(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=200mbit",
                                       "WRING_PLAN_CODECS=topk:ratio=0.1+ef", NULL};

    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        struct story *story = new_story();
        char cache[64];
        make_cache(cache, sizeof(cache));
        story->codec = "onebit:block=128+ef";
        story->conserves = true;
        story->op = ranks == 2 ? WRING_SUM : WRING_AVG;
        run(story, ranks, more, cache);
        remove_cache(strchr(cache, '=') + 1);
        free(story);
    }
}

static void changed_links_are_planned_for(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=10gbit",
                                       "WRING_PLAN_CODECS=onebit", NULL};
    struct story *story = new_story();
    char cache[64];

    make_cache(cache, sizeof(cache));
    story->slower_ns_per_byte = 400; /* 20 Mbit/s */
    run(story, 2, more, cache);
    CHECK(count_lines(&story->lines, "exchanges are measured and planned anew") >= 1, "%s",
          story->lines.text);
    CHECK(strcmp(story->chosen[0][3], "onebit") == 0, "%s runs: %s", story->chosen[0][3],
          story->lines.text);
    remove_cache(strchr(cache, '=') + 1);
    free(story);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sums_stay_right", sums_stay_right},
        {"slow_links_have_codecs", slow_links_have_codecs},
        {"what_was_measured_is_kept", what_was_measured_is_kept},
        {"another_link_is_noticed_at_once", another_link_is_noticed_at_once},
        {"what_is_worse_is_taken_back", what_is_worse_is_taken_back},
        {"nothing_that_is_held_back_is_lost", nothing_that_is_held_back_is_lost},
        {"changed_links_are_planned_for", changed_links_are_planned_for},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
