/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In an application whose locale has a decimal comma what the library reads and writes has points:
 * settings, files of JSON, what it logs.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/plan.h"
#include "planner/core/files/profile.h"
#include "tests/collective/autotune_story.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/unit/comma_locale.h"

#define ELEMS 1000

static void enter(void)
{
    char text[8];

    REQUIRE(comma_locale_enter(), "no locale with a decimal comma could be had");
    snprintf(text, sizeof(text), "%.1f", 0.5);
    REQUIRE(strcmp(text, "0,5") == 0, "the locale has no effect");
}

/** A file of the test's own. @param setting  out: "NAME=path". @return the path, in it */
static const char *make_file(char *setting, size_t bytes, const char *name)
{
    snprintf(setting, bytes, "%s=/tmp/wring-comma-XXXXXX", name);
    int fd = mkstemp(strchr(setting, '/'));
    CHECK(fd >= 0, "no file");
    close(fd);
    return strchr(setting, '/');
}

/** Digits on both sides of a comma, which lists of the library have spaces behind. */
static const char *find_comma(const char *text)
{
    for (const char *at = text; (at = strchr(at, ',')) != NULL; at++)
        if (at > text && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[1]))
            return at;
    return NULL;
}

/** An array or object with fractions in it, by another reader of JSON than the library's. */
static void check_json(const char *path, const char *what)
{
    json_error_t error;
    json_t *found = json_load_file(path, 0, &error);
    char text[256];

    CHECK(found != NULL, "%s: line %d: %s", what, error.line, error.text);
    json_decref(found);
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL, "%s: no file", what);
    bool fraction = false;
    while (fgets(text, sizeof(text), file) != NULL)
        for (const char *at = text; (at = strchr(at, '.')) != NULL; at++)
            fraction = fraction || (at > text && isdigit((unsigned char)at[-1]) &&
                                    isdigit((unsigned char)at[1]));
    fclose(file);
    CHECK(fraction, "%s: no number has a fraction", what);
}

static void plans_and_profiles_are_json(void)
{
    char cache[64], save[64], path[300];
    const char *const more[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=20.5MBIT",
                                "WRING_PLAN_CODECS=onebit+ef,topk:ratio=0.01+ef", save, NULL};
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_profile *profile;
    struct wring_plan *plan = NULL;
    struct story *story = story_new();
    const char *folder = story_make_cache(cache, sizeof(cache));
    const char *saved = make_file(save, sizeof(save), "WRING_PLAN_SAVE");

    /* what a candidate held back goes out with the first step of the next */
    story->conserves = true;
    enter();
    story_run(story, 2, more, cache);
    profile = story_load_profile(folder);
    CHECK(wring_plan_load(saved, &log, &plan) == WRING_OK && profile != NULL,
          "the library cannot read what it wrote");
    comma_locale_leave();
    CHECK(story_lines(story, "an iteration takes ") > 0 && find_comma(story->lines.text) == NULL,
          "%s", story->lines.text);
    check_json(saved, "the plan");
    if (story_find_profile(folder, path, sizeof(path)))
        check_json(path, "the profile");
    wring_profile_destroy(profile);
    wring_plan_destroy(plan);
    unlink(saved);
    story_remove_cache(folder);
    free(story);
}

/** A step, and specs that are refused with the numbers that would do. */
static void run_traced(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket, *refused;
    float *data;

    (void)rank;
    (void)arg;
    REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&data) == WRING_OK, "none");
    memset(data, 0, ELEMS * sizeof(float));
    params.name = "a";
    params.data = data;
    params.elems = ELEMS;
    params.codec = "topk:ratio=1.5";
    CHECK(wring_bucket_register(session, &params, &refused) == WRING_ERR_INVALID, "1.5 of all");
    params.codec = "topk:ratio=0,5";
    CHECK(wring_bucket_register(session, &params, &refused) == WRING_ERR_INVALID, "0,5");
    params.codec = "topk:ratio=0.25";
    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int step = 0; step < 4; step++)
        CHECK(wring_bucket_post(bucket) == WRING_OK &&
                  wring_bucket_wait(bucket, 60000000000u, NULL) == 0,
              "step %d", step);
}

static void traces_and_refusals_have_points(void)
{
    char trace[64];
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_TIMEOUT=60.5s", trace, NULL};
    const char *path = make_file(trace, sizeof(trace), "WRING_TRACE");

    enter();
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2,
                                                  .settings = settings,
                                                  .run = run_traced,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    comma_locale_leave();
    CHECK(wring_test_lines_count(&lines, "needs a decimal number from 0.000001 to 1") == 4, "%s",
          lines.text);
    check_json(path, "the trace");
    unlink(path);
}

/** What is wrong in a plan is said with the number that stands there, and those that may. */
static void faults_of_files_have_points(void)
{
    char setting[64];
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    struct wring_log log = {wring_test_lines_take, &lines, WRING_LOG_WARN};
    struct wring_profile *profile;
    const char *path = make_file(setting, sizeof(setting), "FILE");
    FILE *file = fopen(path, "w");

    REQUIRE(file != NULL, "no file");
    fputs("{\"format\": \"wring-profile\", \"version\": 1, \"name\": \"a\", "
          "\"machine\": \"\", \"nodes\": 1.5}",
          file);
    fclose(file);
    enter();
    CHECK(wring_profile_load(path, &log, &profile) != WRING_OK, "1.5 nodes");
    comma_locale_leave();
    CHECK(wring_test_lines_count(&lines, "is 1.5") == 1, "%s", lines.text);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"plans_and_profiles_are_json", plans_and_profiles_are_json},
        {"traces_and_refusals_have_points", traces_and_refusals_have_points},
        {"faults_of_files_have_points", faults_of_files_have_points},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
