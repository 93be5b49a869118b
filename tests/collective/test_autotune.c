/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRING_PLAN=auto: sums stay right while buckets change their options, what is chosen is what the
 * link asks for.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/plan.h"
#include "tests/collective/autotune_story.h"
#include "tests/lib/test.h"

static void sums_stay_right(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};

    /* under sanitizers two over one and three over the other; else two and three over each */
    const int step = WRING_TEST_STRIDE > 1 ? 3 : 1;
    static const enum wring_dtype types[STORY_TENSORS] = {WRING_BF16, WRING_F16, WRING_F32,
                                                          WRING_BF16, WRING_BF16};

    for (int i = 0; i < 4; i += step) {
        const char *const more[] = {providers[i % 2], "WRING_PLAN_CODECS=bf16,onebit:block=128",
                                    NULL};
        struct story *story = story_new();
        char cache[64];
        story_make_cache(cache, sizeof(cache));
        story->early = i == 3;
        if (i > 1)
            memcpy(story->dtypes, types, sizeof(types));
        story_run(story, i < 2 ? 2 : 3, more, cache);
        CHECK(story_lines(story, "collectives were measured in") == 1, "%s", story->lines.text);
        CHECK(story_lines(story, "none are merged") == story->early, "%s", story->lines.text);
        story_remove_cache(strchr(cache, '=') + 1);
        free(story);
    }
}

/** 100000 elements take 80 ms and more as they are, over this link, and their signs 3: what other
 *  programs take of the machine does not change which is shorter. */
static void slow_links_have_codecs(void)
{
    char path[] = "/tmp/wring-plan-XXXXXX", save[64], cache[64];
    const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=20mbit",
                                "WRING_PLAN_CODECS=onebit", save, NULL};
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct story *story = story_new();
    struct wring_plan *plan = NULL;

    story_make_cache(cache, sizeof(cache));
    close(mkstemp(path));
    snprintf(save, sizeof(save), "WRING_PLAN_SAVE=%s", path);
    story_run(story, 2, more, cache);
    CHECK(story->report[0].planned, "no plan was kept: %s", story->lines.text);
    CHECK(strcmp(story->chosen[0][3], "onebit") == 0, "%s runs: %s", story->chosen[0][3],
          story->lines.text);
    CHECK(story->report[0].with_us < story->report[0].without_us, "%g and %g us",
          story->report[0].with_us, story->report[0].without_us);
    CHECK(story_lines(story, "is kept") == 1, "%s", story->lines.text);
    /* where others have so much of the machine that a plan hardly halves the time, one is right */
    bool clear = story->report[0].with_us < 0.3 * story->report[0].without_us;
    CHECK(!clear || story_lines(story, "as registered, ") == 0, "a second look: %s",
          story->lines.text);
    CHECK(wring_plan_load(path, &log, &plan) == WRING_OK, "no plan was written");
    CHECK(plan != NULL && plan->n_groups == story->report[0].groups, "another plan was written");
    wring_plan_destroy(plan);
    unlink(path);
    story_remove_cache(strchr(cache, '=') + 1);
    free(story);
}

/**
 * Elements of 16 bits, and of 32 beside them: sums are right, buckets of two types are never
 * merged, which each rank would refuse, and a codec goes to those of each type. The largest takes
 * 190 ms over this link as it is, and its signs 12.
 */
static void buckets_of_16_bits_are_planned(void)
{
    static const enum wring_dtype types[][STORY_TENSORS] = {
        {WRING_BF16, WRING_BF16, WRING_BF16, WRING_BF16, WRING_BF16},
        {WRING_F32, WRING_F32, WRING_BF16, WRING_F16, WRING_BF16}};
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=5mbit",
                                       "WRING_PLAN_CODECS=onebit", NULL};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct story *story = story_new();
        memcpy(story->dtypes, types[i], sizeof(types[i]));
        story_run(story, 2, more, NULL);
        CHECK(story_lines(story, "gives up") == 0, "%zu: %s", i, story->lines.text);
        CHECK(story->report[0].planned, "%zu: no plan was kept: %s", i, story->lines.text);
        CHECK(strcmp(story->chosen[0][3], "onebit") == 0 &&
                  strcmp(story->chosen[0][4], "onebit") == 0,
              "%zu: %s and %s run: %s", i, story->chosen[0][3], story->chosen[0][4],
              story->lines.text);
        free(story);
    }
}

/** A plan neither switches off what changes training, nor what keeps state; other buckets have
 *  theirs changed beside it. */
static void what_training_relies_on_stays(void)
{
    static const char *const kept[] = {"topk:ratio=0.1+momentum+ef", "signsgd", "dgc"};
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=20mbit",
                                       "WRING_PLAN_CODECS=onebit", NULL};

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        struct story *story = story_new();
        story->kept = kept[i];
        story_run(story, 2, more, NULL);
        CHECK(story_lines(story, "gives up") == 0, "%s: %s", kept[i], story->lines.text);
        CHECK(story->report[0].planned, "no plan was kept: %s", story->lines.text);
        CHECK(strcmp(story->chosen[0][3], "onebit") == 0, "%s runs: %s", story->chosen[0][3],
              story->lines.text);
        CHECK(strcmp(story->chosen[0][4], kept[i]) == 0, "%s runs", story->chosen[0][4]);
        free(story);
    }
}

/** Options with error feedback and without follow on each other, in groups and apart. */
static void nothing_that_is_held_back_is_lost(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=200mbit",
                                       "WRING_PLAN_CODECS=topk:ratio=0.1+ef", NULL};

    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        struct story *story = story_new();
        char cache[64];
        story_make_cache(cache, sizeof(cache));
        story->codec = "onebit:block=128+ef";
        story->conserves = true;
        if (ranks == 3)
            story->dtypes[1] = WRING_BF16, story->dtypes[4] = WRING_F16;
        story->op = ranks == 2 ? WRING_SUM : WRING_AVG;
        story_run(story, ranks, more, cache);
        story_remove_cache(strchr(cache, '=') + 1);
        free(story);
    }
}

static void changed_links_are_planned_for(void)
{
    static const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=10gbit",
                                       "WRING_PLAN_CODECS=onebit", NULL};
    struct story *story = story_new();
    char cache[64];

    story_make_cache(cache, sizeof(cache));
    story->slower_ns_per_byte = 400; /* 20 Mbit/s */
    story_run(story, 2, more, cache);
    CHECK(story_lines(story, "collectives are measured and planned anew") >= 1, "%s",
          story->lines.text);
    CHECK(strcmp(story->chosen[0][3], "onebit") == 0, "%s runs: %s", story->chosen[0][3],
          story->lines.text);
    story_remove_cache(strchr(cache, '=') + 1);
    free(story);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sums_stay_right", sums_stay_right},
        {"slow_links_have_codecs", slow_links_have_codecs},
        {"buckets_of_16_bits_are_planned", buckets_of_16_bits_are_planned},
        {"what_training_relies_on_stays", what_training_relies_on_stays},
        {"nothing_that_is_held_back_is_lost", nothing_that_is_held_back_is_lost},
        {"changed_links_are_planned_for", changed_links_are_planned_for},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
