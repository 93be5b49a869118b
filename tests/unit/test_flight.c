/* SPDX-License-Identifier: Apache-2.0 */
/* Who is behind, of few ranks and of many. */
#include "transport/flight.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

#define MANY 1000

static struct wring_flight_row rows[MANY];
static char table[64 << 10];
static unsigned n_lines;

static struct wring_flight_row row(enum wring_flight_state state, uint64_t group, uint64_t posted)
{
    struct wring_flight_row made = {.state = state, .group = group, .posted = posted};
    snprintf(made.text, sizeof(made.text), "call %u of group %u", (unsigned)posted,
             (unsigned)group);
    return made;
}

static void take(void *arg, const char *line)
{
    size_t at = strlen(table);
    (void)arg;
    CHECK(strlen(line) < WRING_FLIGHT_LINE, "%zu bytes", strlen(line));
    snprintf(table + at, sizeof(table) - at, "%s\n", line);
    n_lines++;
}

static void tabulate(uint32_t n)
{
    table[0] = '\0';
    n_lines = 0;
    wring_flight_table(rows, n, take, NULL);
}

static void check_line(uint32_t n, const char *want)
{
    char line[WRING_FLIGHT_LINE];
    wring_flight_sum_up(rows, n, line);
    CHECK(strcmp(line, want) == 0, "%s", line);
}

static void those_behind_are_named(void)
{
    for (uint32_t i = 0; i < 4; i++)
        rows[i] = row(WRING_FLIGHT_WAITS, 1, 17);
    check_line(4, "no rank is behind; 4 are in call 17 of group 1");
    rows[2] = row(WRING_FLIGHT_ENDED, 1, 16);
    check_line(4, "rank 2 is behind; 3 are in call 17 of group 1");
    rows[0] = row(WRING_FLIGHT_WAITS, 1, 12);
    rows[1] = (struct wring_flight_row){.state = WRING_FLIGHT_NOTHING};
    check_line(4, "ranks 0, 1, 2 are behind; 1 is in call 17 of group 1");
    tabulate(4);
    CHECK(n_lines == 5, "%s", table);
    CHECK(strstr(table, "rank 0 waits in call 12 of group 1\n"
                        "rank 1 has posted nothing\n"
                        "rank 2 has posted nothing after call 16 of group 1, which has ended\n"
                        "rank 3 waits in call 17 of group 1\n") != NULL,
          "%s", table);
}

static void who_is_not_there_is_said(void)
{
    rows[0] = row(WRING_FLIGHT_WAITS, 1, 5);
    rows[1] = (struct wring_flight_row){.state = WRING_FLIGHT_LOST};
    rows[2] = (struct wring_flight_row){.state = WRING_FLIGHT_SILENT};
    rows[3] = (struct wring_flight_row){.state = WRING_FLIGHT_LEFT};
    rows[0].waited_ms = 5200;
    check_line(4, "rank 1 is lost; rank 2 does not say where it is; rank 3 has closed its session; "
                  "1 is in call 5 of group 1");
    tabulate(4);
    CHECK(strstr(table, "rank 0 waits in call 5 of group 1, for 5.2 s\n") != NULL, "%s", table);
    CHECK(strstr(table, "rank 2 does not say where it is\n") != NULL, "%s", table);
}

/** Who has ended what others wait in is not behind; nor is who waits in another group. */
static void others_are_not_blamed(void)
{
    rows[0] = row(WRING_FLIGHT_WAITS, 1, 9);
    rows[1] = row(WRING_FLIGHT_ENDED, 1, 9);
    rows[2] = row(WRING_FLIGHT_WAITS, 1, 9);
    rows[3] = row(WRING_FLIGHT_WAITS, 2, 3);
    check_line(4, "no rank is behind; 2 are in call 9 of group 1");
}

/** Ranks 0 and 2 wait in a call that rank 1 has ended, and went on from. */
static void who_is_ahead_makes_others_behind(void)
{
    rows[0] = row(WRING_FLIGHT_WAITS, 1, 9);
    rows[1] = row(WRING_FLIGHT_WAITS, 1, 10);
    rows[2] = row(WRING_FLIGHT_WAITS, 1, 9);
    check_line(3, "ranks 0, 2 are behind; 1 is in call 10 of group 1");
}

static void nobody_waits(void)
{
    for (uint32_t i = 0; i < 3; i++)
        rows[i] = row(WRING_FLIGHT_ENDED, 1, i + 1);
    check_line(3, "no rank is behind");
    for (uint32_t i = 0; i < 3; i++)
        rows[i] = (struct wring_flight_row){.state = WRING_FLIGHT_NOTHING};
    check_line(3, "no rank is behind");
}

static void strangers_are_left_out(void)
{
    rows[0] = (struct wring_flight_row){.state = WRING_FLIGHT_STRANGER};
    rows[1] = row(WRING_FLIGHT_ABORTED, 3, 2);
    rows[2] = row(WRING_FLIGHT_ENDED, 3, 1);
    check_line(3, "rank 2 is behind; 1 is in call 2 of group 3");
    tabulate(3);
    CHECK(n_lines == 3 && strstr(table, "rank 1 was in call 2 of group 3\n") != NULL, "%s", table);
}

static void a_thousand_ranks_are_summed_up(void)
{
    for (uint32_t i = 0; i < MANY; i++)
        rows[i] = row(WRING_FLIGHT_WAITS, 1, 17);
    for (uint32_t i = 100; i < 107; i++)
        rows[i] = row(WRING_FLIGHT_ENDED, 1, 16);
    rows[500] = (struct wring_flight_row){.state = WRING_FLIGHT_LOST};
    check_line(MANY, "ranks 100, 101, 102, 103 and 3 more are behind; rank 500 is lost; 992 are in "
                     "call 17 of group 1");
    tabulate(MANY);
    CHECK(n_lines == 1 + WRING_FLIGHT_NAMED + 1, "%u lines", n_lines);
    CHECK(strstr(table, "\nrank 100 has posted nothing after call 16") != NULL &&
              strstr(table, "\nrank 106 has posted nothing after call 16") != NULL &&
              strstr(table, "\nrank 500 is lost\n") != NULL &&
              strstr(table, "\nand 984 more; of all 1000 are 7 behind, 1 lost, 0 silent, 0 gone, 0 "
                            "elsewhere, 992 waiting, 0 past that\n") != NULL,
          "%s", table);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"those_behind_are_named", those_behind_are_named},
        {"who_is_not_there_is_said", who_is_not_there_is_said},
        {"others_are_not_blamed", others_are_not_blamed},
        {"who_is_ahead_makes_others_behind", who_is_ahead_makes_others_behind},
        {"nobody_waits", nobody_waits},
        {"strangers_are_left_out", strangers_are_left_out},
        {"a_thousand_ranks_are_summed_up", a_thousand_ranks_are_summed_up},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
