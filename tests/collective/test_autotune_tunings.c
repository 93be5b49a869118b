/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRING_PLAN=auto chooses pinned cores and the size of pieces by what its profile says of them, as
 * far as nobody has set them.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/plan.h"
#include "tests/collective/autotune_story.h"
#include "tests/lib/test.h"

#define LINK "WRING_FAULT=rate=200mbit"
#define LINK_US 0.16 /* an element over that link, between two ranks */
#define CODEC "onebit:block=128"
#define CODECS "WRING_PLAN_CODECS=" CODEC
#define KIB ((uint64_t)1 << 10)

static uint32_t count_cores(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : 1;
}

/** With a core to spare, one of it; else pieces alone are another size. */
static struct wring_tuning other_tuning(uint64_t chunk_bytes)
{
    uint32_t cores = count_cores();

    if (cores < 2)
        fputs("one core: tunings without pinned ones only\n", stderr);
    return (struct wring_tuning){cores > 1, chunk_bytes};
}

static const char *executor_of(const struct wring_tuning *tuning)
{
    return tuning->cores > 0 ? "pool:1" : "inline";
}

/** Have a profile know collectives of some tuning, too: as they are, but that a codec's take so
 * much of that time. */
static void add_tuning(struct wring_profile *profile, const struct wring_tuning *tuning,
                       double times)
{
    struct wring_profile_aside aside = {0};
    struct wring_measured_collective *collectives =
        calloc(profile->n_collectives + 1, sizeof(*collectives));
    uint32_t n = profile->n_collectives;

    memcpy(collectives, profile->collectives, n * sizeof(*collectives));
    REQUIRE(wring_profile_set_aside(profile, tuning, &aside) == WRING_OK, "aside");
    free(profile->collectives);
    profile->collectives = collectives;
    profile->n_collectives = n;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(collectives[i].codec, "none") == 0)
            continue;
        collectives[i].solo.us = wring_cost_scale(&collectives[i].solo.us, times, 1);
        collectives[i].busy.us = wring_cost_scale(&collectives[i].busy.us, times, 1);
    }
    REQUIRE(wring_profile_bring_back(profile, tuning, &aside) == WRING_OK, "back");
}

/** What a codec gains is in that tuning alone. */
static void forge(const char *folder, const struct wring_tuning *tuning)
{
    struct wring_profile *profile = story_load_profile(folder);

    REQUIRE(profile != NULL, "no profile");
    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        profile->collectives[i].solo.us = profile->collectives[i].busy.us =
            wring_cost_line(1, LINK_US);
        profile->collectives[i].max_elems = 1 << 20;
    }
    add_tuning(profile, tuning, 0.01);
    story_replace_profile(folder, profile);
}

static bool is_set(const struct story *story, const char *executor, uint64_t chunk_bytes)
{
    bool all = true;

    for (int rank = 0; rank < 2; rank++)
        all = all && strcmp(story->set[rank].executor, executor) == 0 &&
              strncmp(story->set[rank].executor, story->set[rank].kind, 4) == 0 &&
              story->set[rank].chunk_bytes == chunk_bytes;
    return all;
}

static struct story *run_first(const char *cache)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", LINK, CODECS, NULL};
    struct story *story = story_new();

    story->brief = story->apart = true;
    story_run(story, 2, more, cache);
    return story;
}

/** The plan that is tried has it, all ranks are set so, and so is a job that has it from a file:
 *  with the same bits. */
static void check_carried(const char *cache, const struct wring_tuning *tuning)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", LINK, CODECS, NULL};
    struct story *automatic = story_new(), *by_hand = story_new();
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_plan *plan = NULL;
    char path[] = "/tmp/wring-plan-XXXXXX";

    close(mkstemp(path));
    automatic->tried = path;
    automatic->apart = by_hand->apart = true;
    story_run_with_profile(automatic, 2, more, cache);
    by_hand->plan = path;
    by_hand->first_step = automatic->steps[0];
    story_run(by_hand, 2, more, cache);
    REQUIRE(wring_plan_load(path, &log, &plan) == WRING_OK, "no plan was written");
    CHECK(strcmp(plan->executor, executor_of(tuning)) == 0, "the plan is for %s", plan->executor);
    CHECK(plan->chunk_bytes == tuning->chunk_bytes, "pieces of %zu", (size_t)plan->chunk_bytes);
    CHECK(is_set(automatic, executor_of(tuning), tuning->chunk_bytes), "%s runs in the job: %s",
          automatic->set[0].executor, automatic->lines.text);
    CHECK(automatic->set[0].window_bytes >= 2 * tuning->chunk_bytes, "a window of %zu",
          (size_t)automatic->set[0].window_bytes);
    CHECK(automatic->set[0].coded == (tuning->cores > 0), "whose threads have coded?");
    CHECK(is_set(by_hand, executor_of(tuning), tuning->chunk_bytes), "%s runs from the file",
          by_hand->set[0].executor);
    CHECK(strcmp(automatic->chosen[0][3], CODEC) == 0, "%s runs", automatic->chosen[0][3]);
    CHECK(memcmp(by_hand->last, automatic->last, sizeof(by_hand->last)) == 0, "other sums");
    wring_plan_destroy(plan);
    unlink(path);
    free(automatic);
    free(by_hand);
}

/** What somebody has set is as it was, whatever the profile promises. */
static void check_fixed(const char *cache)
{
    static const char *const more[] = {
        "WRING_PROVIDER=tcp",     LINK, CODECS, "WRING_EXECUTOR=inline",
        "WRING_CHUNK_BYTES=256k", NULL};
    char path[] = "/tmp/wring-plan-XXXXXX";
    struct story *story = story_new();

    close(mkstemp(path));
    story->tried = path;
    story->apart = true;
    story_run_with_profile(story, 2, more, cache);
    CHECK(is_set(story, "inline", 256 * KIB), "%s, pieces of %zu", story->set[0].executor,
          (size_t)story->set[0].chunk_bytes);
    CHECK(story_lines(story, "pinned cores are as configured: WRING_EXECUTOR is set") == 1, "%s",
          story->lines.text);
    CHECK(story_lines(story, "as large as configured: WRING_CHUNK_BYTES is set") == 1, "%s",
          story->lines.text);
    CHECK(story_lines(story, "collectives were measured in") == 0, "the cache is another one: %s",
          story->lines.text);
    unlink(path);
    free(story);
}

static void plans_have_the_tuning_that_is_best(void)
{
    const struct wring_tuning tuning = other_tuning(1024 * KIB);
    char cache[64];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_first(cache);

    CHECK(is_set(first, "inline", 256 * KIB), "nothing was chosen, and %s runs",
          first->set[0].executor);
    forge(folder, &tuning);
    check_carried(cache, &tuning);
    check_fixed(cache);
    story_remove_cache(folder);
    free(first);
}

/** From one tuning to another, and back: sums are looked at in each step. */
static void tunings_change_while_the_job_runs(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", LINK, CODECS, NULL};
    const struct wring_tuning tuning = other_tuning(64 * KIB);
    char cache[64], tried[128];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_first(cache), *story = story_new();

    forge(folder, &tuning);
    story->apart = true;
    story_run(story, 2, more, cache);
    snprintf(tried, sizeof(tried), ", executor %s, pieces of 65536 bytes: an iteration takes",
             executor_of(&tuning));
    bool anew = story_lines(story, "links are not what they were") > 0;
    CHECK(anew || story_lines(story, tried) >= 1, "%s", story->lines.text);
    CHECK(anew || story_lines(story, "the plan as configured") >= 1, "%s", story->lines.text);
    bool is_other = story->report[0].planned && strcmp(story->report[0].name, "the plan") == 0;
    CHECK(anew || is_set(story, is_other ? executor_of(&tuning) : "inline",
                         is_other ? tuning.chunk_bytes : 256 * KIB),
          "%s is kept, and %s runs with pieces of %zu", story->report[0].name,
          story->set[0].executor, (size_t)story->set[0].chunk_bytes);
    story_remove_cache(folder);
    free(first);
    free(story);
}

/** What a profile of before has: none of the tunings, nor with which one it was measured. */
static void forget_tunings(const char *folder)
{
    const struct wring_tuning is_default = {0, 256 * KIB};
    struct wring_profile *profile = story_load_profile(folder);
    struct wring_profile_aside aside;

    REQUIRE(profile != NULL, "no profile");
    CHECK(wring_profile_set_aside(profile, &is_default, &aside) == WRING_OK, "aside");
    free(aside.collectives);
    for (uint32_t i = 0; i < profile->n_collectives; i++)
        profile->collectives[i].chunk_bytes = 0;
    story_replace_profile(folder, profile);
}

static bool knows(const char *folder, uint64_t chunk_bytes)
{
    const struct wring_tuning tuning = {0, chunk_bytes};
    struct wring_profile *profile = story_load_profile(folder);
    bool known =
        profile != NULL && wring_profile_collective_at(profile, "none", "auto", 2, &tuning) != NULL;

    wring_profile_destroy(profile);
    return known;
}

static struct story *run_brief(const char *cache)
{
    static const char *const more[] = {"WRING_PROVIDER=shm",
                                       "WRING_PLAN_CODECS=", "WRING_PLAN_SECONDS=0.5", NULL};
    struct story *story = story_new();

    story->brief = true;
    story_run(story, 2, more, cache);
    return story;
}

/** Pieces of 64 KiB and of 1 MiB are measured where the kept profile lacks them; a machine that is
 * too slow leaves them out, and says so. @return whether nothing else was measured */
static bool check_measured(const char *folder, const char *cache)
{
    bool known = knows(folder, 64 * KIB);
    struct story *story = run_brief(cache);
    bool measured = story_lines(story, "and those with 2 further tunings") == 1;
    bool slow =
        story_lines(story, "65536 bytes with 0 pinned cores are not measured: it would take "
                           "too long") == 1;
    bool anew = story_lines(story, "links are not what they were") == 1;
    bool alone = measured && story_lines(story, "of 0 codecs") == 1;

    CHECK(measured + slow == (!known || anew), "%s", story->lines.text);
    CHECK(knows(folder, 64 * KIB) == (measured || (known && !anew)), "%s", story->lines.text);
    CHECK(knows(folder, 1024 * KIB) == knows(folder, 64 * KIB), "%s", story->lines.text);
    CHECK(knows(folder, 256 * KIB), "%s", story->lines.text);
    CHECK(story_lines(story, "ranks of a host share their cores") == 1, "%s", story->lines.text);
    CHECK(is_set(story, "inline", 256 * KIB), "%s runs", story->set[0].executor);
    free(story);
    return alone || slow || anew;
}

static void tunings_are_measured_once(void)
{
    char cache[64];
    const char *folder = story_make_cache(cache, sizeof(cache));

    check_measured(folder, cache);
    check_measured(folder, cache);
    forget_tunings(folder);
    CHECK(check_measured(folder, cache), "what was known is measured again");
    story_remove_cache(folder);
}

/** Their number is not asked for, and nothing is told apart: in what is kept, too. */
static void cores_with_names_stay(void)
{
    char core[64], cache[64];
    const char *const more[] = {"WRING_PROVIDER=shm", "WRING_PLAN_CODECS=", core, NULL};
    const char *folder = story_make_cache(cache, sizeof(cache));

    snprintf(core, sizeof(core), "WRING_EXECUTOR=pool:cores=%d", sched_getcpu());
    for (int i = 0; i < 2; i++) {
        struct story *story = story_new();
        story->brief = true;
        story_run(story, 2, more, cache);
        CHECK(is_set(story, strchr(core, '=') + 1, 256 * KIB), "%s runs", story->set[0].executor);
        CHECK(story_lines(story, "pinned cores are as configured: WRING_EXECUTOR is set") == 1 &&
                  story_lines(story, "as large as configured: WRING_EXECUTOR says which cores") ==
                      1,
              "%s", story->lines.text);
        CHECK(story_lines(story, "further tunings") == 0, "%s", story->lines.text);
        struct wring_profile *profile = story_load_profile(folder);
        CHECK(profile != NULL && profile->n_collectives > 0 &&
                  profile->collectives[0].chunk_bytes == 0,
              "it was told apart");
        wring_profile_destroy(profile);
        free(story);
    }
    story_remove_cache(folder);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"plans_have_the_tuning_that_is_best", plans_have_the_tuning_that_is_best},
        {"tunings_change_while_the_job_runs", tunings_change_while_the_job_runs},
        {"tunings_are_measured_once", tunings_are_measured_once},
        {"cores_with_names_stay", cores_with_names_stay},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
