/* SPDX-License-Identifier: Apache-2.0 */
/** Rails and queue pairs that fail, over devices that are not there. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "tests/provider/mock/held.h"
#include "tests/provider/verbs_losses.h"

#define WARM_SEEDS 4       /* until there is a turn of each number of queue pairs */
#define AT 100             /* arrivals before something happens */
#define RESTING_SEEDS 10   /* each takes more than a second */
#ifdef __SANITIZE_THREAD__ /* which makes all of it slow */
#define SEEDS 6
#define CYCLES 100
#else
#define SEEDS 40
#define CYCLES 1000
#endif
#define BACK_NS (WRING_NS_PER_S / 5)

/** What happens, once, and what ends it. */
struct harm {
    void (*begin)(void), (*end)(void); /* end may be NULL */
    uint64_t end_ns;
};

static void happen(void *arg, unsigned arrived)
{
    struct harm *harm = arg;
    if (harm->begin != NULL && arrived >= AT) {
        harm->begin();
        harm->begin = NULL;
        harm->end_ns = wring_deadline_in(BACK_NS);
    }
    if (harm->begin == NULL && harm->end != NULL && wring_now_ns() >= harm->end_ns) {
        harm->end();
        harm->end = NULL;
    }
}

static struct losses losses_of(const char *qps, const char *recover, struct harm *harm)
{
    return (struct losses){.devices = {"=mock0,mock2", "=mock1,mock3"},
                           .qps = qps,
                           .timeout = "8",
                           .recover = recover,
                           .puts = 400,
                           .happen = happen,
                           .arg = harm};
}

/** Where it ends, that may be before anybody has noticed. */
static void survive(const char *qps, void (*begin)(void), void (*end)(void))
{
    struct harm harm = {begin, end, 0};
    struct losses losses = losses_of(qps, "10", &harm);
    REQUIRE(losses_run(&losses), "no pair");
    losses_expect_survival(&losses, end == NULL);
}

static void first_down(void)
{
    mock_port_state("mock0", 1, IBV_PORT_DOWN);
}

static void first_up(void)
{
    mock_port_state("mock0", 1, IBV_PORT_ACTIVE);
}

static void all_down(void)
{
    mock_port_state("mock0", 1, IBV_PORT_DOWN);
    mock_port_state("mock2", 1, IBV_PORT_DOWN);
}

static void all_up(void)
{
    mock_port_state("mock0", 1, IBV_PORT_ACTIVE);
    mock_port_state("mock2", 1, IBV_PORT_ACTIVE);
}

static void second_hole(void)
{
    mock_port_blackhole("mock3", 1, true);
}

static void second_hole_ends(void)
{
    mock_port_blackhole("mock3", 1, false);
}

static void all_holes(void)
{
    mock_port_blackhole("mock0", 1, true);
    mock_port_blackhole("mock2", 1, true);
}

static void all_holes_end(void)
{
    mock_port_blackhole("mock0", 1, false);
    mock_port_blackhole("mock2", 1, false);
}

static void nothing(void)
{
}

/** @return the i-th of the queue pairs that there are */
static uint32_t some_queue_pair(unsigned i)
{
    uint32_t all[64];
    unsigned n = mock_qp_list(all, 64);
    return n > 0 ? all[i % (n < 64 ? n : 64)] : 0;
}

static void one_queue_pair_fails(void)
{
    mock_qp_fail(some_queue_pair(1), IBV_WC_RETRY_EXC_ERR, 0x81);
}

static void one_queue_pair_is_fatal(void)
{
    mock_qp_fatal(some_queue_pair(2));
}

static void ports_go_down(void)
{
    survive("1", first_down, NULL);
    first_up();
    survive("4", first_down, NULL);
    first_up();
}

static void ports_come_back(void)
{
    survive("1", first_down, first_up);
    survive("3", first_down, first_up);
}

static void all_ports_come_back(void)
{
    survive("1", all_down, all_up);
    survive("4", all_down, all_up);
}

static void nothing_gets_through(void)
{
    survive("2", second_hole, NULL);
    second_hole_ends();
    survive("1", all_holes, all_holes_end);
}

static void queue_pairs_fail(void)
{
    survive("1", one_queue_pair_fails, NULL);
    survive("1", one_queue_pair_is_fatal, NULL);
    survive("8", one_queue_pair_fails, NULL);
    survive("8", one_queue_pair_is_fatal, NULL);
}

static void first_device_fails(void)
{
    mock_device_fatal("mock0");
}

/** Its port is not heard of again; the other device goes on. */
static void devices_fail(void)
{
    survive("1", first_device_fails, NULL);
    survive("4", first_device_fails, NULL);
}

#define STOPS 4 /* of queue pairs, before the first is made anew */
#define STEPS 3 /* of a new one, until it is connected */

static unsigned good_calls; /* until one fails */

static void all_down_and_a_call_fails(void)
{
    all_down();
    mock_fail_call("ibv_modify_qp", EINVAL, good_calls);
}

/** Whichever step of whichever new queue pair it is, of either side. */
static void new_queue_pairs_fail(void)
{
    for (good_calls = STOPS; good_calls < STOPS + 4 * STEPS; good_calls++)
        survive("1", all_down_and_a_call_fails, all_up);
    mock_fail_call("", 0, 0);
}

/** Once the ports are back the first call of each turn. */
static void happen_and_fail(void *arg, unsigned arrived)
{
    const struct harm *harm = arg;
    happen(arg, arrived);
    if (harm->end == NULL)
        mock_fail_call("ibv_modify_qp", EINVAL, 0);
}

static void new_queue_pairs_that_always_fail_end_it(void)
{
    struct harm harm = {all_down, all_up, 0};
    struct losses losses = losses_of("1", "60", &harm);
    losses.happen = happen_and_fail;
    uint64_t begin = wring_now_ns();
    REQUIRE(losses_run(&losses), "no pair");
    CHECK(wring_now_ns() - begin < 30 * WRING_NS_PER_S, "tried for %.3g s",
          (double)(wring_now_ns() - begin) / WRING_NS_PER_S);
    CHECK(strstr(losses.a.text, "no new queue pair") != NULL ||
              strstr(losses.b.text, "no new queue pair") != NULL,
          "'%s', '%s'", losses.a.text, losses.b.text);
    losses_expect_end(&losses);
    mock_fail_call("", 0, 0);
}

/** Where it lasts, both ends are told within their time. */
static void what_lasts_ends(void)
{
    struct harm harm = {all_down, NULL, 0};
    struct losses losses = losses_of("2", "1", &harm);
    REQUIRE(losses_run(&losses), "no pair");
    losses_expect_end(&losses);
    all_up();

    struct harm holes = {all_holes, NULL, 0};
    losses = losses_of("1", "1", &holes);
    REQUIRE(losses_run(&losses), "no pair");
    losses_expect_end(&losses);
    all_holes_end();
}

static void without_recovery_the_last_one_ends_it(void)
{
    struct harm harm = {all_down, NULL, 0};
    struct losses losses = losses_of("1", "0", &harm);
    REQUIRE(losses_run(&losses), "no pair");
    losses_expect_end(&losses);
    all_up();
}

/* ---- by chance ---- */

struct chance {
    uint32_t random;
    unsigned left;
    uint64_t next_ns, end_ns;
    void (*end)(void);
    uint64_t rest_ns[2], work_ns[2]; /* until when each end rests, then is polled */
};

/** The answers to what both ends send next over one pair of queue pairs are lost. */
static void answers_are_lost(uint32_t qpn)
{
    struct ibv_qp_attr attr;
    uint32_t all[64];
    if (!mock_qp_attributes(qpn, &attr))
        return;
    mock_qp_lose_answer(qpn);
    unsigned n = mock_qp_list(all, 64);
    for (unsigned i = 0; i < n && i < 64; i++)
        if (all[i] == attr.dest_qp_num) /* it may be gone already */
            mock_qp_lose_answer(attr.dest_qp_num);
}

static void something_happens(struct chance *chance)
{
    static void (*const begins[])(void) = {first_down, second_hole, all_down, all_holes, nothing};
    static void (*const ends[])(void) = {first_up, second_hole_ends, all_up, all_holes_end,
                                         nothing};
    unsigned what = wring_test_random(&chance->random) % 8;
    chance->end = nothing;
    if (what == 5)
        mock_qp_fail(some_queue_pair(wring_test_random(&chance->random)), IBV_WC_RETRY_EXC_ERR, 1);
    else if (what == 6)
        mock_qp_fatal(some_queue_pair(wring_test_random(&chance->random)));
    else if (what == 7)
        answers_are_lost(some_queue_pair(wring_test_random(&chance->random)));
    else {
        begins[what]();
        chance->end = ends[what];
    }
}

static void happen_by_chance(void *arg, unsigned arrived)
{
    struct chance *chance = arg;
    uint64_t now = wring_now_ns();
    (void)arrived;
    if (chance->end != NULL && now >= chance->end_ns) {
        chance->end();
        chance->end = NULL;
        chance->next_ns = now + wring_test_random(&chance->random) % 10000000;
    } else if (chance->end == NULL && chance->left > 0 && now >= chance->next_ns) {
        something_happens(chance);
        chance->left--;
        chance->end_ns = now + wring_test_random(&chance->random) % 50000000;
    }
}

/** Either end may be elsewhere for some milliseconds, every now and then. */
static bool rest_by_chance(void *arg, unsigned end)
{
    struct chance *chance = arg;
    uint64_t now = wring_now_ns();
    if (now >= chance->work_ns[end]) {
        chance->rest_ns[end] = now + wring_test_random(&chance->random) % 8000000;
        chance->work_ns[end] = chance->rest_ns[end] + wring_test_random(&chance->random) % 4000000;
    }
    return now < chance->rest_ns[end];
}

/** @param uneven  the ends rest by turns, and try again soon what does not work */
static void by_chance(uint32_t first, uint32_t last, bool uneven)
{
    static const char *const qps[] = {"1", "2", "3", "8"};
    struct held before = held_now(), after;
    for (uint32_t seed = first; seed <= last; seed++) {
        struct chance chance = {.random = seed, .left = uneven ? 12 : 4};
        struct losses losses = losses_of(qps[seed % 4], "10", NULL);
        losses.puts = uneven ? 1000 : 200;
        losses.happen = happen_by_chance;
        losses.rests = uneven ? rest_by_chance : NULL;
        losses.revive = uneven ? "20ms" : NULL;
        losses.arg = &chance;
        mock_delay(20, seed % 2 == 0 ? 100 : 0);
        REQUIRE(losses_run(&losses), "no pair, seed %u", seed);
        if (chance.end != NULL)
            chance.end();
        CHECK(losses.a.arrived == losses.puts && losses.b.arrived == losses.puts &&
                  losses.a.done == losses.puts && losses.b.done == losses.puts && losses.wrong == 0,
              "seed %u: %u and %u arrived, %u and %u done, %u wrong: '%s', '%s'", seed,
              losses.a.arrived, losses.b.arrived, losses.a.done, losses.b.done, losses.wrong,
              losses.a.text, losses.b.text);
        ends_close(&losses.a, &losses.b);
        if (seed == first + WARM_SEEDS)
            before = held_now();
    }
    mock_delay(0, 0);
    after = held_now();
    held_compare(&before, &after);
}

static void anything_at_any_time(void)
{
    by_chance(1, SEEDS, false);
}

static void anything_at_any_time_for_long(void)
{
    by_chance(SEEDS + 1, SEEDS + 200, false);
}

static void ends_that_rest(void)
{
    by_chance(1, RESTING_SEEDS, true);
}

/** Who hangs up first takes turns; every third time something is under way. */
static void connect_once(struct end *a, struct end *b, const uint8_t *address, size_t n, unsigned i)
{
    a->accepted = a->closed = b->connected = b->closed = 0;
    a->arrived = a->done = b->arrived = b->done = 0;
    REQUIRE(end_connect(b, address, n, "me"), "connect %u", i);
    UNTIL(a, b, (a->accepted && b->connected) || b->closed);
    REQUIRE(b->connected == 1, "connect %u: %s", i, b->text);
    if (i % 3 == 0) {
        end_import(b, a);
        CHECK(end_put(b, b->base, 0, 4096, 0, 0) == WRING_OK, "put %u", i);
        b->provider->ops->remote_release(b->remote);
        b->remote = NULL;
    }
    struct end *first = i % 2 == 0 ? a : b, *second = i % 2 == 0 ? b : a;
    first->provider->ops->disconnect(first->conn);
    first->conn = NULL;
    UNTIL(second, second, second->closed == 1);
    second->provider->ops->disconnect(second->conn);
    second->conn = NULL;
}

static void a_thousand_connections_leave_nothing(void)
{
    struct harm none = {NULL, NULL, 0};
    struct losses losses = losses_of("2", "10", &none);
    struct end *a = &losses.a, *b = &losses.b;
    struct held before, after;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(losses_open(&losses, 4096), "open");
    REQUIRE(end_listen(a, address, &n), "listen");
    for (unsigned i = 0; i < 10; i++)
        connect_once(a, b, address, n, i);
    before = held_now();
    for (unsigned i = 0; i < CYCLES; i++)
        connect_once(a, b, address, n, i);
    after = held_now();
    held_compare(&before, &after);
    ends_close(a, b);
}

static void nothing_is_left(void)
{
    struct mock_counts counts;
    mock_get_counts(&counts);
    CHECK(counts.contexts + counts.pds + counts.mrs + counts.qps + counts.cqs + counts.channels ==
              0,
          "%llu contexts, %llu domains, %llu regions, %llu queue pairs, %llu completion queues",
          (unsigned long long)counts.contexts, (unsigned long long)counts.pds,
          (unsigned long long)counts.mrs, (unsigned long long)counts.qps,
          (unsigned long long)counts.cqs);
    CHECK(counts.misuse == 0, "%llu times misused", (unsigned long long)counts.misuse);
}

/** Without an argument what every build runs; "long" for what one build is enough for. */
int main(int argc, char **argv)
{
    static const struct wring_test_case for_long[] = {
        {"anything_at_any_time_for_long", anything_at_any_time_for_long},
        {"ends_that_rest", ends_that_rest},
        {"nothing_is_left", nothing_is_left},
        {NULL, NULL},
    };
    static const struct wring_test_case cases[] = {
        {"ports_go_down", ports_go_down},
        {"ports_come_back", ports_come_back},
        {"all_ports_come_back", all_ports_come_back},
        {"nothing_gets_through", nothing_gets_through},
        {"queue_pairs_fail", queue_pairs_fail},
        {"devices_fail", devices_fail},
        {"new_queue_pairs_fail", new_queue_pairs_fail},
        {"new_queue_pairs_that_always_fail_end_it", new_queue_pairs_that_always_fail_end_it},
        {"what_lasts_ends", what_lasts_ends},
        {"without_recovery_the_last_one_ends_it", without_recovery_the_last_one_ends_it},
        {"anything_at_any_time", anything_at_any_time},
        {"a_thousand_connections_leave_nothing", a_thousand_connections_leave_nothing},
        {"nothing_is_left", nothing_is_left},
        {NULL, NULL},
    };
    if (argc == 2 && strcmp(argv[1], "long") == 0)
        return wring_test_main(1, argv, for_long);
    return wring_test_main(argc, argv, cases);
}
