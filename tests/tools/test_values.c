/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/values.h"

#include <string.h>

#include "tests/lib/test.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"

static void bytes_take_suffixes(void)
{
    uint64_t value = 0;

    CHECK(wring_value_bytes("4k", &value) && value == 4096, "4k gives %llu",
          (unsigned long long)value);
    CHECK(wring_value_bytes("1G", &value) && value == 1ull << 30, "1G");
    CHECK(wring_value_bytes("0", &value) && value == 0, "0");
    CHECK(wring_value_bytes("18446744073709551615", &value) && value == UINT64_MAX, "the largest");
}

static void what_is_no_number_is_refused(void)
{
    static const char *const bytes[] = {
        "", "k", "-1", "+1", " 1", "4kb", "4x", "1.5m", "18446744073709551616", "17179869184g"};
    uint64_t value;
    uint32_t count;
    double real;

    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        CHECK(!wring_value_bytes(bytes[i], &value), "'%s' was taken", bytes[i]);
    CHECK(!wring_value_count("5", 6, 7, &count) && !wring_value_count("8", 6, 7, &count), "range");
    CHECK(!wring_value_count("7 ", 6, 7, &count), "a trailing space was taken");
    CHECK(!wring_value_real("nan", 0, 1, &real) && !wring_value_real("2", 0, 1, &real) &&
              !wring_value_real("", 0, 1, &real),
          "a real out of range was taken");
}

static void bytes_are_shown_as_they_are_written(void)
{
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = {{0, "0"},       {1000, "1000"},  {1024, "1k"},
                 {1536, "1536"}, {1 << 20, "1m"}, {3ull << 40, "3072g"}};
    char text[32];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK(strcmp(wring_value_show_bytes(cases[i].value, text, sizeof(text)), cases[i].text) ==
                  0,
              "%s is shown as %s", cases[i].text, text);
}

static void lists_are_cut_at_commas(void)
{
    char text[] = " a , bc", holes[] = "a,", none[] = "", *items[2], many[] = "a,b,c";

    CHECK(wring_value_list(text, items, 2) == 2, "two items");
    CHECK(strcmp(items[0], "a") == 0 && strcmp(items[1], "bc") == 0, "'%s' '%s'", items[0],
          items[1]);
    CHECK(wring_value_list(holes, items, 2) == 2, "an empty item is one, for its reader to refuse");
    CHECK(items[1][0] == '\0', "'%s'", items[1]);
    CHECK(wring_value_list(none, items, 2) == 0, "nothing is an item");
    CHECK(wring_value_list(many, items, 2) == SIZE_MAX, "three fit into two");
}

static void spread_is_by_nearest_rank(void)
{
    double times[200];

    for (size_t i = 0; i < 200; i++)
        times[i] = (double)(200 - i);
    struct wring_spread spread = wring_spread_of(times, 200);
    CHECK(spread.min == 1 && spread.median == 100.5 && spread.p99 == 198, "%g %g %g", spread.min,
          spread.median, spread.p99);
    double one = 7;
    spread = wring_spread_of(&one, 1);
    CHECK(spread.min == 7 && spread.median == 7 && spread.p99 == 7, "one time");
}

/** The exact reference of the benchmark rests on this. */
static void sums_of_the_pattern_are_exact_in_any_order(void)
{
    double power = 0;

    for (uint64_t i = 0; i < 1000; i++) {
        float up = 0, down = 0;
        double exact = 0;
        for (uint32_t rank = 0; rank < WRING_PATTERN_RANKS_MAX; rank++) {
            float value = wring_pattern(rank, i);
            REQUIRE(value > -1 && value < 1, "%g", (double)value);
            up += value;
            down += wring_pattern(WRING_PATTERN_RANKS_MAX - 1 - rank, i);
            exact += (double)value;
        }
        CHECK((double)up == exact && (double)down == exact, "element %llu", (unsigned long long)i);
        power += exact * exact;
    }
    power /= 1000.0 * WRING_PATTERN_RANKS_MAX; /* of one rank's element, if ranks differ */
    CHECK(power > 0.05 && power < 0.15, "variance %g", power);
}

static void nearest_command_is_suggested(void)
{
    static const struct wring_command table[] = {{"info", "", NULL}, {"bench", "", NULL}, {0}};

    CHECK(wring_command_nearest(table, "inof") == &table[0], "inof");
    CHECK(wring_command_nearest(table, "be") == &table[1], "a beginning");
    CHECK(wring_command_nearest(table, "something") == NULL, "nothing like it");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"bytes_take_suffixes", bytes_take_suffixes},
        {"what_is_no_number_is_refused", what_is_no_number_is_refused},
        {"bytes_are_shown_as_they_are_written", bytes_are_shown_as_they_are_written},
        {"lists_are_cut_at_commas", lists_are_cut_at_commas},
        {"spread_is_by_nearest_rank", spread_is_by_nearest_rank},
        {"sums_of_the_pattern_are_exact_in_any_order", sums_of_the_pattern_are_exact_in_any_order},
        {"nearest_command_is_suggested", nearest_command_is_suggested},
        {0},
    };
    return wring_test_main(argc, argv, cases);
}
