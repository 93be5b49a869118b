/* SPDX-License-Identifier: Apache-2.0 */
/* When neighbours are told of ranks that have left, and in which words. */
#include "transport/departures.h"

#include "base/clock.h"
#include "tests/lib/test.h"

#define RANKS 20000
#define MOST_NS (16 * WRING_NS_PER_MS)

static void the_first_is_told_at_once(void)
{
    struct wring_departures departures;

    REQUIRE(wring_departures_init(&departures, RANKS) == WRING_OK, "no memory");
    wring_departures_add(&departures, 7, 1, WRING_NS_PER_S);
    CHECK(departures.due_ns <= WRING_NS_PER_S, "later");
    wring_departures_told(&departures, WRING_NS_PER_S);
    CHECK(departures.n == 0, "still to be told");
    wring_departures_add(&departures, 8, 1, WRING_NS_PER_S + 1);
    CHECK(departures.due_ns > WRING_NS_PER_S + 1, "at once again");
    wring_departures_told(&departures, departures.due_ns);
    uint64_t later_ns = 2 * WRING_NS_PER_S;
    wring_departures_add(&departures, 9, 1, later_ns);
    CHECK(departures.due_ns <= later_ns, "a while later not at once");
    wring_departures_finish(&departures);
}

/** One leaves every 100 us: how often are neighbours told, and how late at most? */
static void many_cost_as_much_as_a_few(void)
{
    struct wring_departures departures;
    uint64_t step_ns = 100000, now_ns = WRING_NS_PER_S, first_ns = 0, late_ns = 0;
    unsigned told = 0, n = 10000;

    REQUIRE(wring_departures_init(&departures, RANKS) == WRING_OK, "no memory");
    for (unsigned i = 0; i < n || departures.n > 0; i++, now_ns += step_ns) {
        first_ns = departures.n == 0 ? now_ns : first_ns;
        if (i < n)
            wring_departures_add(&departures, i, 1, now_ns);
        if (now_ns < departures.due_ns)
            continue;
        late_ns = now_ns - first_ns > late_ns ? now_ns - first_ns : late_ns;
        wring_departures_told(&departures, now_ns);
        told++;
    }
    CHECK(told <= n * step_ns / MOST_NS + 6, "%u times for %u ranks", told, n);
    CHECK(late_ns <= MOST_NS + step_ns, "%llu ns late", (unsigned long long)late_ns);
    wring_departures_finish(&departures);
}

/** @return the number of ranges; they hold what was added */
static unsigned check_ranges(const struct wring_control *control, const bool *in, uint32_t ranks)
{
    struct wring_reader reader = {control->body, control->bytes, false};
    uint32_t next = 0;
    unsigned n = 0;

    for (; reader.bytes > 0; n++) {
        struct wring_range range;
        if (!wring_ranges_next(&reader, ranks, &range)) {
            CHECK(false, "malformed");
            return n;
        }
        for (; next < range.first; next++)
            CHECK(!in[next], "rank %u is missing", next);
        for (; next <= range.last; next++)
            CHECK(in[next], "rank %u was not added", next);
    }
    for (; next < ranks; next++)
        CHECK(!in[next], "rank %u is missing", next);
    return n;
}

static void ranks_in_a_row_are_one_range(void)
{
    struct wring_departures departures;
    struct wring_control control = {.kind = WRING_CONTROL_LEFT};
    bool in[1000] = {false};

    REQUIRE(wring_departures_init(&departures, RANKS) == WRING_OK, "no memory");
    for (uint32_t i = 0; i < 1000; i++) { /* in any order */
        uint32_t rank = i * 7 % 1000;
        in[rank] = rank / 100 % 2 == 1 || rank == 999;
        if (in[rank])
            wring_departures_add(&departures, rank, 0, WRING_NS_PER_S);
    }
    wring_departures_sort(&departures);
    for (uint32_t i = 0; i < departures.n; i++)
        CHECK(wring_ranges_add(&control, departures.list[i].rank), "full");
    CHECK(check_ranges(&control, in, 1000) == 5, "not five");
    wring_departures_finish(&departures);
}

/** As many as fit into a message of the control tree; the one that does not is not lost. */
static void a_full_word_says_so(void)
{
    struct wring_control control = {.kind = WRING_CONTROL_LEFT};
    bool in[1000] = {false};
    uint32_t rank = 0;

    for (; wring_ranges_add(&control, rank); rank += 2)
        in[rank] = true;
    CHECK(control.bytes <= WRING_CONTROL_BODY - 8 && control.bytes > 200, "%u bytes",
          control.bytes);
    CHECK(check_ranges(&control, in, 1000) == rank / 2, "others");
    CHECK(wring_ranges_add(&control, rank - 1), "it is next to the last one");
}

static void malformed_ranges_are_refused(void)
{
    static const struct {
        uint32_t words[2];
        uint32_t bytes;
    } wrong[] = {{{1, 2}, 4}, {{1, 2}, 7}, {{2, 1}, 8}, {{1, 10}, 8}, {{0, UINT32_MAX}, 8}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wring_reader reader = {(const uint8_t *)wrong[i].words, wrong[i].bytes, false};
        struct wring_range range;
        CHECK(!wring_ranges_next(&reader, 10, &range), "%zu is taken", i);
    }
}

static const struct wring_test_case cases[] = {
    {"the_first_is_told_at_once", the_first_is_told_at_once},
    {"many_cost_as_much_as_a_few", many_cost_as_much_as_a_few},
    {"ranks_in_a_row_are_one_range", ranks_in_a_row_are_one_range},
    {"a_full_word_says_so", a_full_word_says_so},
    {"malformed_ranges_are_refused", malformed_ranges_are_refused},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
