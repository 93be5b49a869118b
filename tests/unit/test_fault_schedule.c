/* SPDX-License-Identifier: Apache-2.0 */
/* What a schedule says, and that a seed says the same every time. */
#include <string.h>

#include "base/log.h"
#include "tests/lib/test.h"
#include "tests/unit/comma_locale.h"
#include "transport/providers/fault/fault.h"

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level, (void)module;
    snprintf(arg, 64, "%s", text);
}

static bool parse(const char *text, struct wring_fault_schedule *out, char why[256])
{
    why[0] = '\0';
    return wring_fault_parse(text, out, why, 256);
}

static void every_item_is_read(void)
{
    struct wring_fault_schedule s;
    char why[256];
    REQUIRE(parse("rate=2gbit,delay=2ms,jitter=500us,corrupt=1e-4,disconnect=0.5,seed=7,rank=2", &s,
                  why),
            "%s", why);
    CHECK(s.ns_per_byte == 4, "%g ns a byte", s.ns_per_byte);
    CHECK(s.delay_ns == 2000000 && s.jitter_ns == 500000, "delay, jitter");
    CHECK(s.corrupt == 1e-4 && s.disconnect == 0.5, "chances");
    CHECK(s.seed == 7 && s.rank == 2 && s.after_puts == 0 && s.after_bytes == 0, "the rest");

    REQUIRE(parse("disconnect=after:1000", &s, why), "%s", why);
    CHECK(s.after_puts == 1000 && s.after_bytes == 0 && s.rank == -1 && s.disconnect == 0, "puts");
    REQUIRE(parse("disconnect=after:1.5MB", &s, why), "%s", why);
    CHECK(s.after_puts == 0 && s.after_bytes == 1500000, "bytes");
    REQUIRE(parse("", &s, why), "%s", why);
    CHECK(s.ns_per_byte == 0 && s.rank == -1, "nothing");
    REQUIRE(parse("delay=0.01s", &s, why), "%s", why);
    CHECK(s.delay_ns == 10000000, "%llu", (unsigned long long)s.delay_ns);
}

static void what_is_wrong_is_named(void)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"rate=1", "rate=1: needs a rate"},
        {"rate=-1gbit", "needs a rate"},
        {"rate=nangbit", "needs a rate"},
        {"rate=1gbitx", "needs a rate"},
        {"delay=2", "delay=2: needs a time"},
        {"delay=11s", "up to 10s"},
        {"jitter=-1ms", "needs a time"},
        {"corrupt=1.5", "needs a chance"},
        {"corrupt=nan", "needs a chance"},
        {"corrupt=", "needs a chance"},
        {"disconnect=after:0", "after:1000 puts"},
        {"disconnect=after:", "after:1000 puts"},
        {"disconnect=after:-5", "after:1000 puts"},
        {"disconnect=after:3parsec", "after:1000 puts"},
        {"seed=-1", "needs a whole number"},
        {"seed=99999999999999999999", "needs a whole number"},
        {"rank=70000", "needs a rank"},
        {"rank=x", "needs a rank"},
        {"slow", "'slow' is unknown: there are rate="},
        {"speed=1gbit", "'speed' is unknown"},
        {",", "before or after a comma"},
        {"seed=1,", "before or after a comma"},
        {"seed=1,seed=2", "seed is given twice"},
        {"rate=0000000000000000000000000000000000000000000000000000001gbit", "too long"},
    };
    struct wring_fault_schedule s = {.seed = 5};
    char why[256];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(!parse(bad[i].text, &s, why), "taken: %s", bad[i].text);
        CHECK(strstr(why, bad[i].why) != NULL, "%s: %s", bad[i].text, why);
    }
    CHECK(s.seed == 5, "written on failure");
}

#define DRAWS 200000

static void chances_hold(void)
{
    static const double chances[] = {0, 0.001, 0.25, 1};
    for (size_t i = 0; i < sizeof(chances) / sizeof(chances[0]); i++) {
        struct wring_fault_schedule s = {.seed = 11, .rank = -1};
        unsigned hits = 0;
        for (uint64_t n = 0; n < DRAWS; n++)
            hits += wring_fault_hits(&s, chances[i], 3, WRING_FAULT_SPOIL_PUT, n);
        double want = chances[i] * DRAWS;
        CHECK(hits >= want * 0.7 && hits <= want * 1.3, "%u hits, not about %g", hits, want);
    }
}

static void seeds_repeat_and_differ(void)
{
    struct wring_fault_schedule a = {.seed = 1}, b = {.seed = 1}, c = {.seed = 2};
    unsigned same_seed = 0, same_rank = 0, same_kind = 0;
    for (uint64_t n = 0; n < 1000; n++) {
        uint64_t x = wring_fault_random(&a, 0, WRING_FAULT_CUT, n);
        CHECK(x == wring_fault_random(&b, 0, WRING_FAULT_CUT, n), "draw %u differs", (unsigned)n);
        same_seed += x == wring_fault_random(&c, 0, WRING_FAULT_CUT, n);
        same_rank += x == wring_fault_random(&a, 1, WRING_FAULT_CUT, n);
        same_kind += x == wring_fault_random(&a, 0, WRING_FAULT_POSITION, n);
    }
    CHECK(same_seed + same_rank + same_kind == 0, "%u %u %u", same_seed, same_rank, same_kind);
    /* what is drawn stays what it is from version to version, so that a found fault can be found
       again */
    CHECK(wring_fault_random(&a, 2, WRING_FAULT_CUT, 3) == 0xbf3e8ac02c528390u, "%llx",
          (unsigned long long)wring_fault_random(&a, 2, WRING_FAULT_CUT, 3));
}

/** Whatever the application has set: in files, settings and what is logged the point is a point. */
static void the_locale_changes_nothing(void)
{
    struct wring_fault_schedule s;
    char why[256], said[64] = "";
    const struct wring_log log = {keep_line, said, WRING_LOG_INFO};
    REQUIRE(comma_locale_enter(), "no locale with a decimal comma could be had");
    CHECK(parse("delay=0.5ms,corrupt=1.5e-4", &s, why) && s.delay_ns == 500000 &&
              s.corrupt == 1.5e-4,
          "%s", why);
    CHECK(!parse("delay=0,5ms", &s, why), "a comma");
    wring_log_line(&log, WRING_LOG_INFO, "test", "%.2f s", 0.25);
    CHECK(strcmp(said, "0.25 s") == 0, "logged as %s", said);
    snprintf(said, sizeof(said), "%.2f", 0.25);
    CHECK(strcmp(said, "0,25") == 0, "the application's locale is gone: %s", said);
    comma_locale_leave();
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_item_is_read", every_item_is_read},
        {"what_is_wrong_is_named", what_is_wrong_is_named},
        {"chances_hold", chances_hold},
        {"seeds_repeat_and_differ", seeds_repeat_and_differ},
        {"the_locale_changes_nothing", the_locale_changes_nothing},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
