/* SPDX-License-Identifier: Apache-2.0 */
/** What is particular to fault: test_fault NAME [CASE …], around the provider of that name. */
#include <poll.h>

#include "tests/provider/rig_fault.h"
#include "transport/providers/fault/fault.h"

#define MANY_PUTS 25 /* what a link without a cap takes at once, one with a cap in many seconds */
#define TRY_NS (WAIT_NS / 2) /* a machine that looks away makes a link look slow, for a while */

/** Senders and receivers of a stream; those that are the same end share its link. */
struct stream {
    struct end *from, *to;
    unsigned posted;
};

static bool is_done(const struct stream *streams, unsigned n, unsigned total)
{
    for (unsigned i = 0; i < n; i++)
        if (streams[i].to->arrived < total || streams[i].from->done < total)
            return false;
    return true;
}

/** Run the streams at once. @return seconds from the first put to the last arrival */
static double run(struct stream *streams, unsigned n, unsigned total, size_t bytes)
{
    uint64_t begin = wring_now_ns(), limit = wring_deadline_in(WAIT_NS);
    while (!is_done(streams, n, total) && wring_now_ns() < limit)
        for (unsigned i = 0; i < n; i++) {
            struct stream *stream = &streams[i];
            uint32_t next = stream->posted;
            if (next < total &&
                end_put(stream->from, stream->from->base, 0, bytes, next, next) == WRING_OK)
                stream->posted++;
            end_turn(stream->from);
            end_turn(stream->to);
        }
    CHECK(is_done(streams, n, total), "%u of %u arrived", streams[0].to->arrived, total);
    return (double)(wring_now_ns() - begin) / 1e9;
}

/** One stream over a link of that many bytes per second. @return measured over nominal rate */
static double rate_of_one(size_t bytes, unsigned total, double nominal)
{
    struct end a, b;
    double seconds = 1;
    if (!ends_open(&a, &b, bytes, 16))
        CHECK(false, "no pair: %s", fault_rig.line);
    else
        seconds = run(&(struct stream){&b, &a, 0}, 1, total, bytes);
    ends_close(&a, &b);
    return (double)total * (double)bytes / seconds / nominal;
}

/** Never above the cap, and near it when the machine is not busy with something else. */
static void expect_near(double (*measure)(void))
{
    double best = 0;
    for (uint64_t limit = wring_deadline_in(TRY_NS); best < 0.5 && wring_now_ns() < limit;) {
        double rate = measure();
        CHECK(rate < 1.2, "%.2f of the rate", rate);
        best = rate > best ? rate : best;
    }
    CHECK(best >= 0.5, "no more than %.2f of the rate", best);
}

static double large_puts(void)
{
    fault_rig.schedule = "rate=200mbit";
    return rate_of_one(100000, 80, 25e6); /* 320 ms */
}

static double small_puts(void)
{
    fault_rig.schedule = "rate=8mbit";
    return rate_of_one(500, 500, 1e6); /* 250 ms */
}

static void the_rate_is_the_cap(void)
{
    expect_near(large_puts);
    expect_near(small_puts);
}

/** b sends to a, and a to b: the link is full duplex. */
static double both_directions(void)
{
    enum {
        BYTES = 100000,
        TOTAL = 60
    };
    struct end a, b;
    double seconds = 1;
    fault_rig.schedule = "rate=200mbit"; /* 240 ms each way */
    if (!ends_open(&a, &b, BYTES, 16)) {
        CHECK(false, "no pair: %s", fault_rig.line);
    } else {
        struct stream streams[] = {{&b, &a, 0}, {&a, &b, 0}};
        seconds = run(streams, 2, TOTAL, BYTES);
    }
    ends_close(&a, &b);
    return (double)TOTAL * BYTES / seconds / 25e6;
}

static void the_link_is_full_duplex(void)
{
    expect_near(both_directions);
}

#define SHARED_BYTES 50000
#define SHARED_PUTS 60

/** Two ends that send to one. */
struct trio {
    struct end hub, ends[2];
    unsigned posted[2], arrived;
};

static bool trio_open(struct trio *trio)
{
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    *trio = (struct trio){.arrived = 0};
    if (!end_open(&trio->hub, 1, SHARED_BYTES, 16) || !end_listen(&trio->hub, address, &n))
        return false;
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &trio->ends[i];
        if (!end_open(end, 1, SHARED_BYTES, 16) || !ends_meet(&trio->hub, end, address, n, "x"))
            return false;
        end_import(end, &trio->hub);
    }
    return true;
}

/** The hub's arrivals come from two connections: they are only counted. */
static void trio_turn(struct trio *trio)
{
    struct wring_event events[16];
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &trio->ends[i];
        uint32_t next = trio->posted[i];
        if (next < SHARED_PUTS && end_put(end, end->base, 0, SHARED_BYTES, next, next) == WRING_OK)
            trio->posted[i]++;
        end_turn(end);
    }
    size_t n = trio->hub.provider->ops->poll(trio->hub.provider, events, 16);
    for (size_t i = 0; i < n; i++)
        trio->arrived += events[i].kind == WRING_EVENT_ARRIVED;
}

/** What enters the hub is capped as a whole. */
static double two_into_one(void)
{
    struct trio trio;
    fault_rig.schedule = "rate=200mbit"; /* 6 MB: 240 ms */
    if (!trio_open(&trio)) {
        CHECK(false, "no trio: %s", fault_rig.line);
        return 1;
    }
    uint64_t begin = wring_now_ns(), limit = wring_deadline_in(WAIT_NS);
    while (trio.arrived < 2 * SHARED_PUTS && wring_now_ns() < limit)
        trio_turn(&trio);
    double seconds = (double)(wring_now_ns() - begin) / 1e9;
    CHECK(trio.arrived == 2 * SHARED_PUTS, "%u arrived", trio.arrived);
    ends_close(&trio.ends[0], &trio.ends[1]);
    end_close(&trio.hub);
    return 2.0 * SHARED_PUTS * SHARED_BYTES / seconds / 25e6;
}

static void the_link_is_shared(void)
{
    expect_near(two_into_one);
}

static unsigned take_arrivals(struct end *hub)
{
    struct wring_event events[16];
    unsigned arrived = 0;
    size_t n = hub->provider->ops->poll(hub->provider, events, 16);
    for (size_t i = 0; i < n; i++)
        arrived += events[i].kind == WRING_EVENT_ARRIVED;
    return arrived;
}

/** Between arm and sleep something comes that is not yet to be told: its time wakes the sleeper. */
static void what_is_held_back_wakes_sleepers(void)
{
    struct trio trio;
    fault_rig.schedule = "rate=1mbit"; /* 400 ms for each put */
    REQUIRE(trio_open(&trio), "no trio: %s", fault_rig.line);
    struct end *hub = &trio.hub, *second = &trio.ends[1];
    for (unsigned i = 0; i < 2; i++)
        CHECK(end_put(&trio.ends[i], trio.ends[i].base, 0, SHARED_BYTES, 0, 0) == WRING_OK, "put");
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (trio.arrived < 1 && wring_now_ns() < limit) {
        end_turn(&trio.ends[0]);
        trio.arrived += take_arrivals(hub);
    }
    take_arrivals(hub);
    limit = wring_deadline_in(WAIT_NS);
    while (trio.arrived < 2 && wring_now_ns() < limit) {
        struct wring_wait_set set = {.deadline_ns = limit};
        hub->provider->ops->arm(hub->provider, &set);
        for (unsigned i = 0; i < 1000; i++)
            end_turn(second);
        trio.arrived += take_arrivals(hub);
        uint64_t now = wring_now_ns();
        uint64_t ns = set.busy || set.deadline_ns < now ? 0 : set.deadline_ns - now;
        if (trio.arrived < 2)
            poll(set.fds, set.n, (int)((ns + WRING_NS_PER_MS - 1) / WRING_NS_PER_MS));
        trio.arrived += take_arrivals(hub);
    }
    CHECK(trio.arrived == 2 && wring_now_ns() < limit, "slept on it: %u arrived", trio.arrived);
    ends_close(&trio.ends[0], second);
    end_close(hub);
}

/** Puts that wait for the link when their connection goes are neither sent nor reported. */
static void waiting_puts_go_with_their_connection(void)
{
    struct end a, b;
    fault_rig.schedule = "rate=1mbit";
    REQUIRE(ends_open(&a, &b, 65536, 16), "no pair: %s", fault_rig.line);
    for (unsigned i = 0; i < 50; i++)
        CHECK(end_put(&b, b.base, 0, 65536, i, i) == WRING_OK, "put %u", i);
    for (unsigned i = 0; i < 20; i++) {
        end_turn(&b);
        end_turn(&a);
    }
    CHECK(a.arrived < MANY_PUTS, "%u arrived: nothing waits", a.arrived);
    b.provider->ops->disconnect(b.conn);
    b.conn = NULL;
    UNTIL(&a, &b, a.closed == 1);
    CHECK(a.arrived < MANY_PUTS && b.done < MANY_PUTS, "%u and %u", a.arrived, b.done);
    ends_close(&a, &b);
}

static void bad_schedules_are_refused(void)
{
    static const char *const bad[] = {"rate=",        "rate=0gbit",         "rate=-1gbit",
                                      "rate=1",       "rate=1mb",           "delay=1",
                                      "rate=1gbit x", "rate=nan gbit",      "rate=1e99gbit",
                                      "x,rate=1gbit", "rate=infgbit",       "rate=1gbit,",
                                      ",rate=1gbit",  "rate=1gbit,,seed=1", ","};
    struct wring_fault_schedule parsed;
    char why[128];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why[0] = '\0';
        CHECK(!wring_fault_parse(bad[i], &parsed, why, sizeof(why)), "%s is taken", bad[i]);
        CHECK(why[0] != '\0', "%s: without a word", bad[i]);
    }
    CHECK(wring_fault_parse("rate=1.5GBIT", &parsed, why, sizeof(why)), "%s", why);
    CHECK(wring_fault_parse("rate=1gbit , seed=7", &parsed, why, sizeof(why)) && parsed.seed == 7,
          "%s", why);
    CHECK(wring_fault_parse("rate=1.5GBIT", &parsed, why, sizeof(why)), "%s", why);
    CHECK(parsed.ns_per_byte > 5.33 && parsed.ns_per_byte < 5.34, "%f", parsed.ns_per_byte);
    CHECK(wring_fault_parse("", &parsed, why, sizeof(why)) && parsed.ns_per_byte <= 0, "empty");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"the_rate_is_the_cap", the_rate_is_the_cap},
        {"the_link_is_full_duplex", the_link_is_full_duplex},
        {"the_link_is_shared", the_link_is_shared},
        {"what_is_held_back_wakes_sleepers", what_is_held_back_wakes_sleepers},
        {"waiting_puts_go_with_their_connection", waiting_puts_go_with_their_connection},
        {"bad_schedules_are_refused", bad_schedules_are_refused},
        {NULL, NULL},
    };
    return fault_rig_main(argc, argv, cases);
}
