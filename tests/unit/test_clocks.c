/* SPDX-License-Identifier: Apache-2.0 */
/* Two simulated clocks and a network between them: is the truth always where the estimate says? */
#include "transport/trace.h"

#include <stdlib.h>

#include "base/clock.h"
#include "tests/lib/test.h"

#define BEGIN_NS (1000 * WRING_NS_PER_S) /* by our clock */

/** The pair of clocks: ours is ahead by this, and by drift * time more. */
struct pair {
    int64_t ahead_ns;
    double drift;
};

/** The ways there and back take the least and up to `spread` more, each its own. */
struct delays {
    uint64_t there_ns, back_ns, spread_ns;
};

static struct wring_clocks clocks;
static uint32_t random_state;

static int64_t true_ahead(const struct pair *pair, uint64_t at_ns)
{
    return pair->ahead_ns + (int64_t)(pair->drift * (double)(at_ns - BEGIN_NS));
}

static uint64_t rank_0_reads(const struct pair *pair, uint64_t at_ns)
{
    return at_ns - (uint64_t)true_ahead(pair, at_ns);
}

static uint64_t take(uint64_t least_ns, uint64_t spread_ns)
{
    return least_ns + (spread_ns > 0 ? wring_test_random(&random_state) % spread_ns : 0);
}

/** Ask and hear as the fabric does it, for so long. @return when that ended */
static uint64_t run(const struct pair *pair, const struct delays *delays, uint64_t ns)
{
    uint64_t now = BEGIN_NS;
    wring_clocks_init(&clocks);
    random_state = 77;
    while (now < BEGIN_NS + ns) {
        uint32_t number = wring_clocks_asked(&clocks, now);
        uint64_t there = now + take(delays->there_ns, delays->spread_ns);
        now = there + take(delays->back_ns, delays->spread_ns);
        wring_clocks_answered(&clocks, number, rank_0_reads(pair, there), now);
        now = wring_clocks_next(&clocks) > now ? wring_clocks_next(&clocks) : now;
    }
    wring_clocks_settle(&clocks);
    return now;
}

/** @return the largest error that is claimed; the real one must never be larger */
static int64_t check_truth(const struct pair *pair, uint64_t end_ns)
{
    int64_t worst = 0;
    for (uint64_t at = BEGIN_NS; at < end_ns; at += 3 * WRING_NS_PER_MS + 137) {
        struct wring_clock_ahead ahead;
        if (!wring_clocks_ahead(&clocks, at, &ahead)) {
            CHECK(false, "nothing known");
            return 0;
        }
        int64_t off = llabs(ahead.ns - true_ahead(pair, at));
        CHECK(off <= ahead.error_ns, "off by %lld ns, claimed are %lld", (long long)off,
              (long long)ahead.error_ns);
        worst = ahead.error_ns > worst ? ahead.error_ns : worst;
    }
    return worst;
}

static const struct pair pairs[] = {
    {0, 0},
    {350 * (int64_t)WRING_NS_PER_S, 0},
    {-350 * (int64_t)WRING_NS_PER_S, 0}, /* their clock may be ahead of ours */
    {12345678901, 40e-6},                /* crystals */
    {-12345678901, -40e-6},
    {5000, 450e-6}, /* one that is being set right as fast as that is done */
};

static void paths_that_are_alike(void)
{
    const struct delays delays = {30000, 30000, 0};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        int64_t worst = check_truth(&pairs[i], run(&pairs[i], &delays, 5 * WRING_NS_PER_S));
        CHECK(worst < 100000, "pair %zu: %lld ns", i, (long long)worst);
    }
}

/** All delay on one side moves the estimate by half of it: that is what the bound is for. */
static void paths_that_are_not_alike(void)
{
    const struct delays slow[] = {{2000000, 10000, 50000}, {10000, 2000000, 50000}};
    for (size_t i = 1; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        for (int direction = 0; direction < 2; direction++) {
            struct wring_clock_ahead ahead;
            uint64_t end = run(&pairs[i], &slow[direction], 5 * WRING_NS_PER_S);
            int64_t worst = check_truth(&pairs[i], end);
            CHECK(worst > 900000 && worst < 1200000, "pair %zu: %lld ns", i, (long long)worst);
            wring_clocks_ahead(&clocks, end / 2 + BEGIN_NS / 2, &ahead);
            CHECK(llabs(ahead.ns - true_ahead(&pairs[i], end / 2 + BEGIN_NS / 2)) > 500000,
                  "pair %zu: better than can be known", i);
        }
}

/** Busy ranks answer late, mostly. The few that do not are what counts. */
static void delays_by_chance(void)
{
    const struct delays delays = {20000, 20000, 3 * WRING_NS_PER_MS};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        uint64_t end = run(&pairs[i], &delays, 20 * WRING_NS_PER_S);
        int64_t claimed = check_truth(&pairs[i], end);
        CHECK(claimed < 1500000, "pair %zu: %lld ns", i, (long long)claimed);
    }
}

/** A day of it does not need more room, and the first minute is still known. */
static void long_sessions_fit(void)
{
    const struct delays delays = {30000, 40000, 200000};
    const struct pair pair = {-98765432109, 3e-6};
    uint64_t end = run(&pair, &delays, 86400 * WRING_NS_PER_S);
    CHECK(clocks.n <= WRING_CLOCK_SAMPLES && clocks.n >= WRING_CLOCK_SAMPLES / 2, "%u samples",
          clocks.n);
    for (uint64_t at = BEGIN_NS; at < end; at += 61 * WRING_NS_PER_S) {
        struct wring_clock_ahead ahead;
        REQUIRE(wring_clocks_ahead(&clocks, at, &ahead), "nothing known");
        int64_t off = llabs(ahead.ns - true_ahead(&pair, at));
        CHECK(off <= ahead.error_ns && ahead.error_ns < 100 * (int64_t)WRING_NS_PER_MS,
              "off by %lld ns, claimed are %lld", (long long)off, (long long)ahead.error_ns);
    }
}

/** Without the first answers for the later times, and the other way round, drift would win. */
static void drift_is_followed(void)
{
    const struct delays delays = {30000, 30000, 20000};
    const struct pair pair = {0, 100e-6};
    uint64_t end = run(&pair, &delays, 60 * WRING_NS_PER_S); /* 6 ms apart by then */
    struct wring_clock_ahead first, last;
    REQUIRE(wring_clocks_ahead(&clocks, BEGIN_NS, &first) &&
                wring_clocks_ahead(&clocks, end, &last),
            "nothing known");
    CHECK(last.ns - first.ns > 5800000 && last.ns - first.ns < 6200000, "%lld ns of drift",
          (long long)(last.ns - first.ns));
}

/** Hosts are never so close; ranks of one host share the clock, and get no error by asking. */
static void one_clock_is_one(void)
{
    const struct delays delays = {2000000, 10000, 50000};
    struct wring_clock_ahead ahead;
    uint64_t end = run(&pairs[0], &delays, 5 * WRING_NS_PER_S);
    check_truth(&pairs[0], end);
    CHECK(wring_clocks_ahead(&clocks, end, &ahead) && ahead.ns == 0, "%lld", (long long)ahead.ns);
    const struct pair near = {1500000, 200e-6}; /* at first it could be one */
    check_truth(&near, run(&near, &delays, 20 * WRING_NS_PER_S));
    CHECK(!clocks.same, "two clocks as one");
}

static void nothing_heard_is_nothing_known(void)
{
    struct wring_clock_ahead ahead = {7, 7};
    wring_clocks_init(&clocks);
    wring_clocks_settle(&clocks);
    CHECK(!wring_clocks_ahead(&clocks, BEGIN_NS, &ahead) && ahead.ns == 7, "out of nothing");
}

/** Before, between and after: an estimate exists, and says that it is worse. */
static void far_from_any_answer_less_is_known(void)
{
    struct wring_clock_ahead near, far;
    wring_clocks_init(&clocks);
    wring_clocks_answered(&clocks, wring_clocks_asked(&clocks, BEGIN_NS), 500, BEGIN_NS + 1000);
    wring_clocks_settle(&clocks);
    REQUIRE(wring_clocks_ahead(&clocks, BEGIN_NS + 500, &near), "near");
    CHECK(near.ns == (int64_t)BEGIN_NS && near.error_ns <= 502, "%lld +- %lld", (long long)near.ns,
          (long long)near.error_ns);
    REQUIRE(wring_clocks_ahead(&clocks, BEGIN_NS + 10 * WRING_NS_PER_S, &far), "after");
    CHECK(far.error_ns >= 5000000, "%lld ns", (long long)far.error_ns);
    REQUIRE(wring_clocks_ahead(&clocks, BEGIN_NS - 10 * WRING_NS_PER_S, &far), "before");
    CHECK(far.error_ns >= 5000000, "%lld ns", (long long)far.error_ns);
}

/** A question without an answer is asked again; its answer is then too old. */
static void lost_questions_are_repeated(void)
{
    wring_clocks_init(&clocks);
    uint32_t first = wring_clocks_asked(&clocks, BEGIN_NS);
    uint64_t again = wring_clocks_next(&clocks);
    CHECK(again > BEGIN_NS && again <= BEGIN_NS + 5 * WRING_NS_PER_S, "%llu",
          (unsigned long long)again);
    uint32_t second = wring_clocks_asked(&clocks, again);
    CHECK(first != second, "the same number");
    wring_clocks_answered(&clocks, first, 5, again + 10);
    CHECK(clocks.n == 0, "an answer to the first");
    wring_clocks_answered(&clocks, second, 5, again + 10);
    CHECK(clocks.n == 1, "no answer to the second");
    wring_clocks_answered(&clocks, second, 5, again + 20);
    CHECK(clocks.n == 1, "answered twice");
}

/** What rank 0 says may be anything; it must do no harm. */
static void nonsense_is_ignored(void)
{
    static const uint64_t said[] = {UINT64_MAX, 1ull << 63, (1ull << 63) - 1, 1ull << 62,
                                    UINT64_MAX - BEGIN_NS};
    struct wring_clock_ahead ahead;
    uint64_t now = BEGIN_NS;
    wring_clocks_init(&clocks);
    wring_clocks_answered(&clocks, 0, 5, now); /* unasked */
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++, now += WRING_NS_PER_S)
        wring_clocks_answered(&clocks, wring_clocks_asked(&clocks, now), said[i], now + 1000);
    wring_clocks_answered(&clocks, wring_clocks_asked(&clocks, now), now, now + 1000);
    wring_clocks_answered(&clocks, wring_clocks_asked(&clocks, now + 2000), 5, now + 3000);
    wring_clocks_settle(&clocks); /* the last two contradict each other */
    CHECK(wring_clocks_ahead(&clocks, now, &ahead) && ahead.error_ns >= 0, "%lld",
          (long long)ahead.error_ns);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"paths_that_are_alike", paths_that_are_alike},
        {"paths_that_are_not_alike", paths_that_are_not_alike},
        {"delays_by_chance", delays_by_chance},
        {"long_sessions_fit", long_sessions_fit},
        {"drift_is_followed", drift_is_followed},
        {"one_clock_is_one", one_clock_is_one},
        {"nothing_heard_is_nothing_known", nothing_heard_is_nothing_known},
        {"far_from_any_answer_less_is_known", far_from_any_answer_less_is_known},
        {"lost_questions_are_repeated", lost_questions_are_repeated},
        {"nonsense_is_ignored", nonsense_is_ignored},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
