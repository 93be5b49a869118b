/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends, one of them faulty: what happens is what the schedule says, neither more nor less. */
#include <string.h>

#include "base/config.h"
#include "tests/unit/faulty_pair.h"

static const char *const providers[] = {"tcp", "shm"};

static void delay_holds_what_comes(void)
{
    for (int p = 0; p < 2; p++) {
        struct faulty_end a, b;
        REQUIRE(faulty_pair_open(&a, &b, providers[p], "delay=40ms"), "no pair");
        uint64_t began = wring_now_ns();
        CHECK(faulty_end_put(&a, 100, 0) == WRING_OK, "put");
        CHECK(a.provider->ops->send(a.conn, "word", 4) == WRING_OK, "send");
        UNTIL(&a, &b, b.arrived == 1 && b.messages == 1);
        CHECK(b.arrived_ns - began >= 40 * WRING_NS_PER_MS, "the put came too early");
        CHECK(b.message_ns - began >= 40 * WRING_NS_PER_MS, "the message came too early");
        began = wring_now_ns();
        CHECK(faulty_end_put(&b, 100, 0) == WRING_OK, "put"); /* the other way is not delayed */
        UNTIL(&a, &b, a.arrived == 1);
        faulty_end_put(&a, 100, 1);
        a.provider->ops->send(a.conn, "last", 4);
        UNTIL(&a, &b, a.done == 2);
        for (int i = 0; i < 1000; i++)
            faulty_end_turn(&a);
        a.provider->ops->disconnect(a.conn);
        a.conn = NULL;
        UNTIL(&a, &b, b.closed == 1); /* after what was sent before it */
        CHECK(b.arrived == 2 && b.messages == 2, "%u puts, %u messages", b.arrived, b.messages);
        faulty_end_close(&a);
        faulty_end_close(&b);
    }
}

static void jitter_keeps_the_order(void)
{
    struct faulty_end a, b;
    unsigned posted = 0;
    REQUIRE(faulty_pair_open(&a, &b, "tcp", "jitter=3ms,seed=4"), "no pair");
    uint64_t began = wring_now_ns();
    while (b.arrived < 500 &&
           wring_now_ns() - began < WAIT_NS) { /* faulty_end_turn() checks the order */
        while (posted < 500 && faulty_end_put(&a, 64, posted) == WRING_OK)
            posted++;
        faulty_end_turn(&a);
        faulty_end_turn(&b);
    }
    CHECK(b.arrived == 500, "%u arrived", b.arrived);
    faulty_end_close(&a);
    faulty_end_close(&b);
}

/** One after the other, so that their delays add up to what the seed says. */
static void jitter_is_what_the_seed_says(void)
{
    const struct wring_fault_schedule schedule = {.seed = 4};
    struct faulty_end a, b;
    uint64_t least = 0, began = wring_now_ns();
    REQUIRE(faulty_pair_open(&a, &b, "shm", "jitter=6ms,seed=4"), "no pair");
    for (unsigned i = 0; i < 20; i++) {
        CHECK(faulty_end_put(&a, 64, i) == WRING_OK, "put");
        UNTIL(&a, &b, b.arrived == i + 1);
        least +=
            wring_fault_random(&schedule, 1, WRING_FAULT_JITTER, 2 * i) % (6 * WRING_NS_PER_MS + 1);
    }
    uint64_t took = wring_now_ns() - began;
    CHECK(least > 20 * WRING_NS_PER_MS && took >= least, "%llu ns, not at least %llu",
          (unsigned long long)took, (unsigned long long)least);
    faulty_end_close(&a);
    faulty_end_close(&b);
}

/** Put until the end. @return how many arrived whole */
static unsigned put_until_closed(const char *provider, const char *schedule, size_t bytes,
                                 char text[256])
{
    struct faulty_end a, b;
    unsigned posted = 0;
    if (!faulty_pair_open(&a, &b, provider, schedule))
        return 0;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while ((a.closed == 0 || b.closed == 0) && wring_now_ns() < limit) {
        while (posted < 5000 && faulty_end_put(&b, bytes, posted) == WRING_OK)
            posted++;
        faulty_end_turn(&b);
        faulty_end_turn(&a);
    }
    CHECK(a.closed == 1 && b.closed == 1, "%s %s: no end", provider, schedule);
    CHECK(faulty_end_put(&b, bytes, 0) == WRING_ERR_CLOSED, "%s %s: put", provider, schedule);
    CHECK(b.provider->ops->send(b.conn, "x", 1) == WRING_ERR_CLOSED, "%s: send", provider);
    snprintf(text, 256, "%s", b.text);
    unsigned arrived = a.arrived;
    faulty_end_close(&a);
    faulty_end_close(&b);
    return arrived;
}

static void disconnects_by_count(void)
{
    char text[256];
    for (int p = 0; p < 2; p++) {
        /* what is cut may be under way: fewer may come, never more */
        unsigned came = put_until_closed(providers[p], "disconnect=after:100", 1000, text);
        CHECK(came <= 100, "%u came", came);
        CHECK(strstr(text, "cut after 100 puts") != NULL, "%s", text);
        put_until_closed(providers[p], "disconnect=after:50kb", 1000, text);
        CHECK(strstr(text, "cut after 50 puts of 50000 bytes") != NULL, "%s", text);
        put_until_closed(providers[p], "disconnect=after:500b", 1000, text);
        CHECK(strstr(text, "cut after 0 puts") != NULL, "%s", text);
    }
}

static void disconnects_by_seed(void)
{
    char first[256], again[256], other[256], want[64];
    const struct wring_fault_schedule schedule = {.seed = 21};
    unsigned n = 0;
    while (!wring_fault_hits(&schedule, 0.01, 1, WRING_FAULT_CUT, n))
        n++;
    snprintf(want, sizeof(want), "cut after %u puts", n);
    put_until_closed("shm", "disconnect=0.01,seed=21", 100, first);
    put_until_closed("tcp", "disconnect=0.01,seed=21", 100, again);
    put_until_closed("tcp", "disconnect=0.01,seed=22", 100, other);
    CHECK(strstr(first, want) != NULL, "%s, not %s", first, want);
    CHECK(strstr(again, want) != NULL, "%s, not %s", again, want);
    CHECK(strstr(other, want) == NULL, "another seed: %s", other);
}

static void schedules_for_others_do_nothing(void)
{
    struct faulty_end a, b;
    REQUIRE(faulty_pair_open(&a, &b, "tcp", "disconnect=after:1,corrupt=1,rank=0"), "no pair");
    for (unsigned i = 0; i < 5; i++)
        CHECK(faulty_end_put(&b, 10, i) == WRING_OK, "put"); /* b is rank 1 */
    UNTIL(&a, &b, a.arrived == 5);
    faulty_end_close(&a);
    faulty_end_close(&b);

    const struct wring_provider_params params = {.rank = 1, .size = 2};
    struct wring_provider *inner, *out;
    REQUIRE(wring_provider_find("tcp")->open(&params, &inner) == WRING_OK, "open");
    CHECK(wring_fault_wrap("rank=2", &params, inner, &out) == WRING_ERR_INVALID, "no such rank");
    CHECK(wring_fault_wrap("rank=1", &params, inner, &out) == WRING_OK, "rank 1");
    out->ops->close(out);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"delay_holds_what_comes", delay_holds_what_comes},
        {"jitter_keeps_the_order", jitter_keeps_the_order},
        {"jitter_is_what_the_seed_says", jitter_is_what_the_seed_says},
        {"disconnects_by_count", disconnects_by_count},
        {"disconnects_by_seed", disconnects_by_seed},
        {"schedules_for_others_do_nothing", schedules_for_others_do_nothing},
        {NULL, NULL},
    };
    const struct wring_log log = {NULL, NULL, WRING_LOG_ERROR};
    if (wring_config_load(&faulty_config, &log) != WRING_OK)
        return 1;
    return wring_test_main(argc, argv, cases);
}
