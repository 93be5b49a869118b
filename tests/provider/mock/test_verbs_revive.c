/* SPDX-License-Identifier: Apache-2.0 */
/** Rails that fail without a word and work again, over devices that are not there. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "tests/provider/mock/mock.h"
#include "tests/provider/verbs_losses.h"

#define AT 100   /* arrivals before something happens */
#define REST 300 /* and after the last thing has happened */

/** What happens one after the other, while puts travel both ways. */
struct story {
    struct losses losses;
    bool (*const *steps)(struct story *story); /* NULL at the end; true: the next one's turn */
    unsigned arrived;
    uint64_t until_ns;
};

static void happen(void *arg, unsigned arrived)
{
    struct story *story = arg;
    story->arrived = arrived;
    if (*story->steps == NULL || !(*story->steps)(story))
        return;
    story->until_ns = 0;
    if (*++story->steps == NULL)
        story->losses.puts = arrived + REST;
}

static struct wring_verbs_counters counters_of(const struct end *end)
{
    struct wring_verbs_counters counters = {0};
    wring_verbs_counters_of(end->provider, &counters);
    return counters;
}

static struct story tell(const char *qps, const char *revive,
                         bool (*const *steps)(struct story *story))
{
    struct story story = {.steps = steps};
    story.losses = (struct losses){.devices = {"=mock0,mock2", "=mock1,mock3"},
                                   .qps = qps,
                                   .timeout = "8",
                                   .recover = "10",
                                   .revive = revive,
                                   .puts = 1u << 30, /* until the last step is done */
                                   .happen = happen};
    return story;
}

static void survive(struct story *story)
{
    story->losses.arg = story;
    REQUIRE(losses_run(&story->losses), "no pair");
    CHECK(*story->steps == NULL, "it did not come to its end");
    losses_expect_survival(&story->losses, true);
}

/* ---- steps ---- */

static bool hole_on_second(struct story *story)
{
    mock_port_blackhole("mock3", 1, story->arrived >= AT);
    return story->arrived >= AT;
}

static bool until_lost(struct story *story)
{
    return counters_of(&story->losses.a).paths_lost > 0 &&
           counters_of(&story->losses.b).paths_lost > 0;
}

static bool until_tried_thrice(struct story *story)
{
    struct wring_verbs_counters counters = counters_of(&story->losses.b); /* which dials */
    CHECK(counters.resyncs == 1, "%llu stops", (unsigned long long)counters.resyncs);
    return counters.trials >= 3;
}

static bool second_works(struct story *story)
{
    (void)story;
    mock_port_blackhole("mock3", 1, false);
    return true;
}

static bool until_taken_back(struct story *story)
{
    return counters_of(&story->losses.a).recoveries > 0 &&
           counters_of(&story->losses.b).recoveries > 0;
}

/** From here on all travels over the second one. */
static bool hole_on_first(struct story *story)
{
    (void)story;
    mock_port_blackhole("mock0", 1, true);
    return true;
}

static bool after_half_a_second(struct story *story)
{
    if (story->until_ns == 0)
        story->until_ns = wring_deadline_in(WRING_NS_PER_S / 2);
    return wring_now_ns() >= story->until_ns;
}

static bool port_of_second_goes_down(struct story *story)
{
    if (story->arrived >= AT)
        mock_port_state("mock3", 1, IBV_PORT_DOWN);
    return story->arrived >= AT;
}

static bool port_of_second_is_back(struct story *story)
{
    (void)story;
    mock_port_state("mock3", 1, IBV_PORT_ACTIVE);
    return true;
}

static bool no_queue_pair_at_the_peer(struct story *story)
{
    (void)story;
    mock_fail_call("ibv_modify_qp", EINVAL, 0);
    return true;
}

/* ---- cases ---- */

static void what_works_again_is_taken_back(void)
{
    static bool (*const steps[])(struct story *) = {hole_on_second,   until_lost,    second_works,
                                                    until_taken_back, hole_on_first, NULL};
    static const char *const qps[] = {"1", "4"};
    for (unsigned i = 0; i < 2; i++) {
        struct story story = tell(qps[i], "100ms", steps);
        survive(&story);
        mock_port_blackhole("mock0", 1, false);
    }
}

/** The other rail is not stopped for it. */
static void what_does_not_work_yet_is_tried_again(void)
{
    static bool (*const steps[])(struct story *) = {
        hole_on_second, until_lost, until_tried_thrice, second_works, until_taken_back, NULL};
    struct story story = tell("2", "20ms", steps);
    survive(&story);
}

static void a_try_that_cannot_be_made_is_one_in_vain(void)
{
    static bool (*const steps[])(struct story *) = {hole_on_second,   until_lost,
                                                    second_works,     no_queue_pair_at_the_peer,
                                                    until_taken_back, NULL};
    struct story story = tell("1", "50ms", steps);
    survive(&story);
    mock_fail_call("", 0, 0);
}

static void nothing_is_tried_where_that_is_off(void)
{
    static bool (*const steps[])(struct story *) = {hole_on_second, until_lost, second_works,
                                                    after_half_a_second, NULL};
    struct story story = tell("1", "0", steps);
    story.losses.arg = &story;
    REQUIRE(losses_run(&story.losses), "no pair");
    struct wring_verbs_counters counters = counters_of(&story.losses.b);
    CHECK(counters.trials == 0 && counters.recoveries == 0, "%llu tries, %llu taken back",
          (unsigned long long)counters.trials, (unsigned long long)counters.recoveries);
    losses_expect_survival(&story.losses, true);
}

/** The port is on one side; the other one saw no more than that packets vanished. */
static void a_port_that_is_back_is_taken_back_by_both(void)
{
    static bool (*const steps[])(struct story *) = {
        port_of_second_goes_down, until_lost,    port_of_second_is_back,
        until_taken_back,         hole_on_first, NULL};
    struct story story = tell("2", "0", steps);
    survive(&story);
    mock_port_blackhole("mock0", 1, false);
}

/** Who sleeps wakes for it: nothing else happens there. */
static void idle_ends_try_as_well(void)
{
    struct story story = tell("1", "100ms", NULL);
    struct end *a = &story.losses.a, *b = &story.losses.b;
    REQUIRE(losses_pair(&story.losses, 4096), "no pair");
    mock_port_blackhole("mock3", 1, true);
    for (unsigned i = 0; i < 2; i++) /* one over each rail */
        REQUIRE(end_put(a, a->base, 0, 1024, i, i) == WRING_OK, "put");
    UNTIL(a, b, counters_of(a).paths_lost > 0 && counters_of(b).paths_lost > 0 && a->done == 2);
    mock_port_blackhole("mock3", 1, false);
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while ((counters_of(a).recoveries == 0 || counters_of(b).recoveries == 0) &&
           wring_now_ns() < limit) {
        uint64_t soon = wring_deadline_in(20 * WRING_NS_PER_MS);
        end_sleep(b, limit < soon ? limit : soon);
        end_turn(a);
    }
    CHECK(counters_of(a).recoveries == 1 && counters_of(b).recoveries == 1, "not taken back");
    ends_close(a, b);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_works_again_is_taken_back", what_works_again_is_taken_back},
        {"what_does_not_work_yet_is_tried_again", what_does_not_work_yet_is_tried_again},
        {"a_try_that_cannot_be_made_is_one_in_vain", a_try_that_cannot_be_made_is_one_in_vain},
        {"nothing_is_tried_where_that_is_off", nothing_is_tried_where_that_is_off},
        {"a_port_that_is_back_is_taken_back_by_both", a_port_that_is_back_is_taken_back_by_both},
        {"idle_ends_try_as_well", idle_ends_try_as_well},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
