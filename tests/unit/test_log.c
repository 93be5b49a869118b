/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: levels, long texts, and what must not reach a terminal. */
#include <string.h>

#include "base/log.h"
#include "tests/lib/test.h"

#define WRING_MODULE "test"

static char last[4096];
static unsigned lines;

static void keep(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level;
    snprintf(last, sizeof(last), "%s: %s", module, text);
    lines++;
}

static void levels_above_are_not_made(void)
{
    const struct wring_log log = {keep, NULL, WRING_LOG_WARN};
    lines = 0;
    wring_info(&log, "much detail");
    CHECK(lines == 0, "%s", last);
    wring_warn(&log, "%d of %s", 3, "these");
    CHECK(lines == 1 && strcmp(last, "test: 3 of these") == 0, "%s", last);
    wring_error(NULL, "to nobody");
    CHECK(lines == 1, "%s", last);
}

static void control_characters_are_not_passed_on(void)
{
    const struct wring_log log = {keep, NULL, WRING_LOG_WARN};
    wring_error(&log, "bucket '%s' of rank 1", "a\033[2J\r\nwring: all is well\177");
    CHECK(strcmp(last, "test: bucket 'a?[2J??wring: all is well?' of rank 1") == 0, "%s", last);
    wring_error(&log, "%s", "Gew\303\244chs");
    CHECK(strcmp(last, "test: Gew\303\244chs") == 0, "other scripts are text: %s", last);
}

static void long_lines_are_cut(void)
{
    const struct wring_log log = {keep, NULL, WRING_LOG_WARN};
    char text[3000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    wring_error(&log, "%s", text);
    CHECK(strlen(last) > 500 && strlen(last) < sizeof(text), "%zu bytes", strlen(last));
}

static const struct wring_test_case cases[] = {
    {"levels above are not made", levels_above_are_not_made},
    {"control characters are not passed on", control_characters_are_not_passed_on},
    {"long lines are cut", long_lines_are_cut},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
