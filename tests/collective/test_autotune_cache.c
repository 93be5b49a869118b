/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What WRING_PLAN=auto keeps between jobs: it is used if it is still true, and added to; what does
 * not hold what it promises is taken back.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/profile.h"
#include "tests/collective/autotune_story.h"
#include "tests/lib/test.h"

#define LINK "WRING_FAULT=rate=80mbit"
#define LINK_US 0.4 /* an element over that link, between two ranks */

/** Have a profile say what a codec's collectives take: so much for each element. */
static void set_profile(const char *folder, const char *codec, double us_per_elem)
{
    struct wring_profile *profile = story_load_profile(folder);

    REQUIRE(profile != NULL, "no profile");
    for (uint32_t i = 0; i < profile->n_collectives; i++)
        if (strcmp(profile->collectives[i].codec, codec) == 0) {
            struct wring_measured_collective *collective = &profile->collectives[i];
            collective->solo.us = collective->busy.us = wring_cost_line(1, us_per_elem);
        }
    story_replace_profile(folder, profile);
}

/** And that it knows no larger buckets. */
static void set_largest(const char *folder, uint64_t max_elems)
{
    struct wring_profile *profile = story_load_profile(folder);

    REQUIRE(profile != NULL, "no profile");
    for (uint32_t i = 0; i < profile->n_collectives; i++)
        profile->collectives[i].max_elems = max_elems;
    story_replace_profile(folder, profile);
}

typedef void story_runner(struct story *story, uint32_t ranks, const char *const *more,
                          const char *cache);

/** A job that does nothing but find its profile. Its link is what takes time. */
static struct story *run_by(story_runner *run, const char *setting, const char *cache)
{
    const char *const more[] = {"WRING_PROVIDER=tcp", LINK, setting, NULL};
    struct story *story = story_new();

    story->brief = true;
    run(story, 2, more, cache);
    return story;
}

static struct story *run_with(const char *setting, const char *cache)
{
    return run_by(story_run, setting, cache);
}

/** The same where there is one, which is still true. */
static struct story *run_again_with(const char *setting, const char *cache)
{
    return run_by(story_run_with_profile, setting, cache);
}

static void what_was_measured_is_kept(void)
{
    char cache[64], path[300];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_with("WRING_PLAN_CODECS=", cache);

    REQUIRE(story_find_profile(folder, path, sizeof(path)), "nothing in the cache");
    set_profile(folder, "none", LINK_US); /* whatever else the machine did */
    struct story *second = run_again_with("WRING_PLAN_CODECS=", cache);
    CHECK(story_lines(first, "collectives were measured in") == 1, "%s", first->lines.text);
    CHECK(story_lines(second, "collectives were measured in") == 0, "%s", second->lines.text);

    FILE *file = fopen(path, "w"); /* and what is no profile is not used */
    REQUIRE(file != NULL, "cannot write");
    fputs("{\"format\": \"wring-profile\", \"version\": 1, \"nodes\": -1}", file);
    fclose(file);
    struct story *third = run_with("WRING_PLAN_CODECS=", cache);
    CHECK(story_lines(third, "cannot be used: collectives are measured anew") == 1, "%s",
          third->lines.text);
    CHECK(story_lines(third, "collectives were measured in") == 1, "%s", third->lines.text);
    story_remove_cache(folder);
    free(first);
    free(second);
    free(third);
}

/** Both profiles know the codec's collectives, and know the same. */
static bool is_same(const struct wring_profile *a, const struct wring_profile *b, const char *codec,
                    const char *run_as)
{
    const struct wring_measured_collective *one =
        wring_profile_find_collective(a, codec, run_as, 2);
    const struct wring_measured_collective *other =
        wring_profile_find_collective(b, codec, run_as, 2);

    return one != NULL && other != NULL && one->max_elems == other->max_elems &&
           memcmp(&one->solo.us, &other->solo.us, sizeof(one->solo.us)) == 0 &&
           memcmp(&one->busy.us, &other->busy.us, sizeof(one->busy.us)) == 0;
}

static void other_codecs_are_added(void)
{
    char cache[64];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_with("WRING_PLAN_CODECS=bf16", cache);
    set_profile(folder, "none", LINK_US);
    struct wring_profile *before = story_load_profile(folder);
    struct story *second = run_again_with("WRING_PLAN_CODECS=onebit:block=128", cache);
    struct story *third = run_again_with("WRING_PLAN_CODECS=onebit:block=128,bf16", cache);
    struct wring_profile *after = story_load_profile(folder);

    CHECK(story_lines(first, "of 2 codecs") == 1, "%s", first->lines.text);
    CHECK(story_lines(second, "of 1 codecs") == 1, "%s", second->lines.text);
    CHECK(story_lines(third, "collectives were measured in") == 0, "%s", third->lines.text);
    REQUIRE(before != NULL && after != NULL, "no profile in the cache");
    CHECK(is_same(before, after, "none", "auto") && is_same(before, after, "bf16", "divisible"),
          "what was there is another");
    CHECK(wring_profile_find_collective(before, "onebit:block=128", "divisible", 2) == NULL &&
              wring_profile_find_collective(after, "onebit:block=128", "divisible", 2) != NULL &&
              wring_profile_find_collective(after, "onebit:block=128", "indivisible", 2) != NULL,
          "what was missing is not there");
    wring_profile_destroy(before);
    wring_profile_destroy(after);
    story_remove_cache(folder);
    free(first);
    free(second);
    free(third);
}

/** Sizes that a profile lacks are measured where there is time for it; what it knows stays. */
static void larger_buckets_are_added(void)
{
    char cache[64];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_with("WRING_PLAN_CODECS=", cache);
    set_profile(folder, "none", LINK_US);
    set_largest(folder, 1024);
    struct story *second = run_again_with("WRING_PLAN_CODECS=", cache);
    struct wring_profile *after = story_load_profile(folder);
    set_profile(folder, "none", LINK_US);
    set_largest(folder, 16384);
    struct story *third = run_again_with("WRING_PLAN_CODECS=", cache);

    CHECK(story_lines(second, "of 0 codecs, and what more than 1024 elements take, of 1 that the "
                              "kept profile has") == 1,
          "%s", second->lines.text);
    REQUIRE(after != NULL, "no profile in the cache");
    const struct wring_measured_collective *collective =
        wring_profile_find_collective(after, "none", "auto", 2);
    REQUIRE(collective != NULL, "no candidate");
    CHECK(collective->max_elems > 1024, "buckets of %zu elements", (size_t)collective->max_elems);
    CHECK(fabs(wring_cost_at(&collective->solo.us, 512) - (1 + LINK_US * 512)) < 1e-6,
          "what was there is another: %g", wring_cost_at(&collective->solo.us, 512));
    CHECK(collective->solo.us.n > 1, "and there is no more than that");
    CHECK(story_lines(third, "collectives were measured in") == 0, "longer than there is time: %s",
          third->lines.text);
    wring_profile_destroy(after);
    story_remove_cache(folder);
    free(first);
    free(second);
    free(third);
}

static void settings_have_profiles_of_their_own(void)
{
    static const char *const settings[] = {"WRING_CHUNK_BYTES=64k", "WRING_EXECUTOR=pool:1"};
    char cache[64];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_with("WRING_PLAN_CODECS=", cache);

    set_profile(folder, "none", LINK_US);
    for (int i = 0; i < 2; i++) {
        struct story *story = run_with(settings[i], cache);
        CHECK(story_lines(story, "collectives were measured in") == 1, "%s: %s", settings[i],
              story->lines.text);
        free(story);
    }
    story_remove_cache(folder);
    free(first);
}

static void another_link_is_noticed_at_once(void)
{
    char cache[64];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_with("WRING_PLAN_CODECS=", cache);

    set_profile(folder, "none", LINK_US / 100);
    struct story *second = run_with("WRING_PLAN_CODECS=", cache);
    CHECK(story_lines(second, "links are not what they were") == 1, "%s", second->lines.text);
    CHECK(story_lines(second, "collectives were measured in") == 1, "%s", second->lines.text);
    story_remove_cache(folder);
    free(first);
    free(second);
}

/** Its codes are twice what they stand for, and take long to find. */
static void what_is_worse_is_taken_back(void)
{
    static const char codecs[] = "WRING_PLAN_CODECS=topk:ratio=1";
    static const char *const more[] = {"WRING_PROVIDER=tcp", LINK, codecs, NULL};
    char cache[64];
    const char *folder = story_make_cache(cache, sizeof(cache));
    struct story *first = run_with(codecs, cache), *second = story_new();

    set_profile(folder, "none", LINK_US);
    set_profile(folder, "topk:ratio=1", 0);
    story_run_with_profile(second, 2, more, cache);
    CHECK(story_lines(second, "no plan is clearly faster") == 1, "%s", second->lines.text);
    CHECK(story_lines(second, "buckets travel as registered again") == 1, "%s", second->lines.text);
    CHECK(!second->report[0].planned, "a plan is kept");
    for (int t = 0; t < STORY_TENSORS; t++)
        CHECK(strcmp(second->chosen[0][t], "none") == 0, "%s runs", second->chosen[0][t]);
    story_remove_cache(folder);
    free(first);
    free(second);
}

/** Steps under a plan of its own, and the same steps with that plan in a file: the same bits. */
static void check_by_hand(const char *provider)
{
    static const char codecs[] = "WRING_PLAN_CODECS=bf16,onebit:block=128";
    char cache[64], path[] = "/tmp/wring-plan-XXXXXX";
    const char *folder = story_make_cache(cache, sizeof(cache));
    const char *const more[] = {provider, LINK, codecs, NULL};
    struct story *first = story_new(), *automatic = story_new(), *by_hand = story_new();
    bool coded = false;

    first->brief = true;
    story_run(first, 2, more, cache);
    set_profile(folder, "none", LINK_US);
    set_profile(folder, "onebit:block=128", 0);
    close(mkstemp(path));
    automatic->tried = path;
    story_run_with_profile(automatic, 2, more, cache);
    by_hand->plan = path;
    by_hand->first_step = automatic->steps[0];
    story_run(by_hand, 2, more, cache);
    for (int t = 0; t < STORY_TENSORS; t++)
        coded = coded || strcmp(by_hand->chosen[0][t], "none") != 0;
    CHECK(coded, "nothing is coded: %s", automatic->lines.text);
    CHECK(memcmp(by_hand->chosen, automatic->chosen, sizeof(by_hand->chosen)) == 0,
          "other codecs run");
    CHECK(memcmp(by_hand->last, automatic->last, sizeof(by_hand->last)) == 0, "other sums");
    unlink(path);
    story_remove_cache(folder);
    free(first);
    free(automatic);
    free(by_hand);
}

static void plans_have_the_bits_of_their_files(void)
{
    check_by_hand("WRING_PROVIDER=tcp");
    check_by_hand("WRING_PROVIDER=shm");
}

/** What cannot be kept is no fault of the job. */
static void plans_go_where_they_can(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_PLAN_SAVE=/nowhere/plan.json",
                                       NULL};
    struct story *story = story_new();

    story_run(story, 2, more, NULL);
    const char *said = story->report[0].planned
                           ? "the plan cannot be written: No such file or directory"
                           : "no plan is kept, so none is written";
    CHECK(story_lines(story, said) == 1, "%s", story->lines.text);
    free(story);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_was_measured_is_kept", what_was_measured_is_kept},
        {"other_codecs_are_added", other_codecs_are_added},
        {"larger_buckets_are_added", larger_buckets_are_added},
        {"settings_have_profiles_of_their_own", settings_have_profiles_of_their_own},
        {"another_link_is_noticed_at_once", another_link_is_noticed_at_once},
        {"what_is_worse_is_taken_back", what_is_worse_is_taken_back},
        {"plans_have_the_bits_of_their_files", plans_have_the_bits_of_their_files},
        {"plans_go_where_they_can", plans_go_where_they_can},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
