/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The examples of docs/planner-files.md: test_planner_page PAGE. Each is read without a complaint,
 * and written again as it stands there.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/plan.h"
#include "planner/core/files/profile.h"
#include "planner/core/files/tensor_trace.h"
#include "tests/lib/test.h"
#include "tests/planner/json_cases.h"

#define FENCE "```json\n"
#define END "```\n"

static struct wring_log loud = {.level = WRING_LOG_ERROR};

static enum wring_status save_trace(const void *trace, FILE *file)
{
    return wring_tensor_trace_save(trace, file);
}

static enum wring_status save_profile(const void *profile, FILE *file)
{
    return wring_profile_save(profile, file);
}

static enum wring_status save_plan(const void *plan, FILE *file)
{
    return wring_plan_save(plan, file);
}

static void check_saved(const void *value, json_save_fn save, const char *text, size_t bytes)
{
    size_t bytes_saved;
    char *saved = json_text_save(value, save, &bytes_saved);

    CHECK(bytes == bytes_saved && memcmp(text, saved, bytes) == 0, "written as\n%s", saved);
    free(saved);
}

static void check_trace(const char *path, const char *text, size_t bytes)
{
    struct wring_tensor_trace *trace = NULL;

    REQUIRE(wring_tensor_trace_load(path, &loud, &trace) == WRING_OK, "the trace is refused");
    check_saved(trace, save_trace, text, bytes);
    wring_tensor_trace_destroy(trace);
}

/** Optional parts that the example leaves out are written: it is not compared. */
static void check_profile(const char *path)
{
    struct wring_profile *profile = NULL;
    size_t bytes;

    REQUIRE(wring_profile_load(path, &loud, &profile) == WRING_OK, "the profile is refused");
    free(json_text_save(profile, save_profile, &bytes));
    wring_profile_destroy(profile);
}

static void check_plan(const char *path, const char *text, size_t bytes)
{
    struct wring_plan *plan = NULL;

    REQUIRE(wring_plan_load(path, &loud, &plan) == WRING_OK, "the plan is refused");
    check_saved(plan, save_plan, text, bytes);
    wring_plan_destroy(plan);
}

/** @return a bit for its format */
static unsigned check_example(const char *text, size_t bytes)
{
    static const char *const formats[] = {"\"wring-trace\"", "\"wring-profile\"", "\"wring-plan\""};
    char path[64];
    unsigned which = 0;
    int fd = json_text_open(text, bytes, path);

    while (which < 3 && memmem(text, bytes, formats[which], strlen(formats[which])) == NULL)
        which++;
    if (which == 0)
        check_trace(path, text, bytes);
    else if (which == 1)
        check_profile(path);
    else
        check_plan(path, text, bytes);
    close(fd);
    return 1u << which;
}

int main(int argc, char **argv)
{
    static char page[1 << 18];
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    unsigned seen = 0;

    if (file == NULL)
        return 1;
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    fclose(file);
    for (const char *at = strstr(page, FENCE); at != NULL; at = strstr(at, FENCE)) {
        at += strlen(FENCE);
        const char *end = strstr(at, END);
        if (end == NULL)
            break;
        seen |= check_example(at, (size_t)(end - at));
    }
    CHECK(seen == 7, "an example is missing: %u", seen);
    return wring_test_failures() > 0;
}
