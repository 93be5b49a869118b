/* SPDX-License-Identifier: Apache-2.0 */
/* What an iteration of calls is. */
#include "runtime/plan/recorder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

static struct wring_recorded_calls calls;
static double now_us;

/** Calls as letters; a capital is a sum of f32, B of bf16, of so many elements. Each comes after
 * `us`. */
static void add(const char *kinds, double us)
{
    for (const char *at = kinds; *at != '\0'; at++) {
        bool tensor = *at >= 'A' && *at <= 'Z';
        now_us += us;
        const struct wring_recorded_call call = {.signature = (uint64_t)*at,
                                                 .elems = tensor ? (uint64_t)*at : 0,
                                                 .dtype = *at == 'B' ? WRING_BF16 : WRING_F32,
                                                 .at_us = now_us};
        REQUIRE(wring_recorded_calls_add(&calls, &call), "no room");
    }
}

static void add_times(unsigned times, const char *kinds)
{
    for (unsigned i = 0; i < times; i++)
        add(kinds, 1);
}

static void begin(void)
{
    wring_recorded_calls_finish(&calls);
    now_us = 0;
}

/** @return the period; 0: none */
static uint32_t find(bool ends)
{
    struct wring_recorded_period period;
    return wring_recorded_calls_find(&calls, ends, &period) ? period.calls : 0;
}

static void a_job_that_ends(void)
{
    begin();
    add_times(8, "ABC");
    CHECK(find(true) == 0, "eight iterations are enough");
    add("ABC", 1);
    CHECK(find(true) == 3, "nine are not");
    add("xyzq", 1);
    CHECK(find(true) == 3, "calls at the end hide them");
    CHECK(find(false) == 0, "of a job that goes on so few calls were enough");
    add_times(30, "z");
    CHECK(find(true) == 0, "they are less than half of all");
}

static void what_comes_before(void)
{
    begin();
    add("pqrsstttt", 1);
    add_times(12, "ABAB-");
    CHECK(find(true) == 5, "%u", find(true));
}

static void alike_calls(void)
{
    begin();
    add_times(20, "A");
    CHECK(find(true) == 1, "%u", find(true));
    begin();
    add_times(9, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB");
    CHECK(find(true) == 41, "%u", find(true));
}

/** Three calls that are alike, then the optimizer and forward: some stretches are long by chance.
 */
static void alike_calls_of_an_iteration(void)
{
    struct wring_recorded_period period;
    struct wring_tensor_trace *trace;

    begin();
    for (unsigned i = 0; i < 40; i++) {
        add("A", i == 20 ? 10 : 500 + i);
        add("A", i == 5 || i == 31 ? 700 : 40);
        add("A", 20);
    }
    REQUIRE(wring_recorded_calls_find(&calls, true, &period) && period.calls == 3, "%u",
            find(true));
    REQUIRE(wring_recorded_calls_trace(&calls, &period, &trace) == WRING_OK, "no trace");
    REQUIRE(trace->n == 3, "%u tensors", trace->n);
    CHECK(trace->tensors[0].ready_us > 500 && trace->tensors[0].ready_us < 540 &&
              trace->tensors[1].ready_us == trace->tensors[0].ready_us + 40 &&
              trace->tensors[2].ready_us == trace->tensors[1].ready_us + 20,
          "%g, %g, %g us", trace->tensors[0].ready_us, trace->tensors[1].ready_us,
          trace->tensors[2].ready_us);
    wring_tensor_trace_destroy(trace);
    begin();
    for (unsigned i = 0; i < 40; i++) { /* nothing tells three of these from one */
        add("A", 70);
        add("A", 40);
        add("A", 40);
    }
    CHECK(find(true) == 1, "%u", find(true));
    begin();
    for (unsigned i = 0; i < 40; i++) { /* long ones come at random */
        add("A", i % 3 == 0 || i % 7 == 0 ? 500 : 30);
        add("A", 30);
    }
    CHECK(find(true) == 1, "%u", find(true));
}

static void a_job_that_goes_on(void)
{
    begin();
    add("bb", 1);
    for (unsigned i = 0; i < WRING_CALLS_SURE / 2 - 1; i++) {
        add("AB", 1);
        CHECK(find(false) == 0, "%u calls are sure", calls.n);
    }
    add("AB", 1);
    CHECK(find(false) == 2, "%u", find(false));
    add("C", 1);
    CHECK(find(false) == 0, "they have not repeated to the end");
}

static void no_tensor(void)
{
    begin();
    add_times(600, "ab");
    CHECK(find(false) == 0 && find(true) == 0, "no sum of f32 is in them");
}

static void it_begins_where_computing_is_longest(void)
{
    struct wring_recorded_period period;
    struct wring_tensor_trace *trace;

    begin();
    add("A", 1);
    for (unsigned i = 0; i < 12; i++) {
        add("B", 5);
        add("C", i == 3 ? 4000 : 40); /* the one time is no median */
        add("x", 2);
        add("A", 3);
    }
    REQUIRE(wring_recorded_calls_find(&calls, true, &period) && period.calls == 4, "no period");
    REQUIRE(wring_recorded_calls_trace(&calls, &period, &trace) == WRING_OK, "no trace");
    REQUIRE(trace->n == 3, "%u tensors", trace->n);
    const struct wring_tensor want[] = {{"call 1 of 4", 'C', 40, 0},
                                        {"call 3 of 4", 'A', 45, 0},
                                        {"call 4 of 4", 'B', 50, WRING_BF16}};
    for (uint32_t i = 0; i < 3; i++)
        CHECK(strcmp(trace->tensors[i].name, want[i].name) == 0 &&
                  trace->tensors[i].elems == want[i].elems &&
                  wring_tensor_trace_dtype(trace, i) == want[i].dtype &&
                  trace->tensors[i].ready_us == want[i].ready_us,
              "%s: %g us", trace->tensors[i].name, trace->tensors[i].ready_us);
    CHECK(isnan(trace->forward_us), "forward is known");
    wring_tensor_trace_destroy(trace);
}

static void all_room_is_used(void)
{
    begin();
    for (uint64_t i = 0; i < WRING_CALLS_MAX; i++)
        CHECK(wring_recorded_calls_add(&calls,
                                       &(struct wring_recorded_call){.signature = i, .elems = 1}),
              "%u", calls.n);
    CHECK(!wring_recorded_calls_add(&calls, &(struct wring_recorded_call){.elems = 1}), "more");
    CHECK(find(true) == 0 && find(false) == 0, "nothing repeats");
    wring_recorded_calls_finish(&calls);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_job_that_ends", a_job_that_ends},
        {"what_comes_before", what_comes_before},
        {"alike_calls", alike_calls},
        {"alike_calls_of_an_iteration", alike_calls_of_an_iteration},
        {"a_job_that_goes_on", a_job_that_goes_on},
        {"no_tensor", no_tensor},
        {"it_begins_where_computing_is_longest", it_begins_where_computing_is_longest},
        {"all_room_is_used", all_room_is_used},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
