/* SPDX-License-Identifier: Apache-2.0 */
/** Arm, sleep, wake: whoever sleeps is woken by whatever he would have seen awake. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/provider/ends.h"

#define TURNS 3000

/** An end with nothing to do can go to sleep, and is not woken for nothing all the time. */
static bool can_sleep(struct end *end)
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (wring_now_ns() < limit) {
        struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
        end->provider->ops->arm(end->provider, &set);
        size_t n = end_turn(end);
        if (n == 0 && !set.busy && set.n > 0 && poll(set.fds, set.n, 50) == 0)
            return true;
        end_turn(end);
    }
    return false;
}

static void the_idle_can_sleep(void)
{
    struct end a, b;
    REQUIRE(end_open(&a, 1, 4096, 16), "open");
    CHECK(can_sleep(&a), "before anything");
    end_close(&a);
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    CHECK(end_put(&b, b.base, 0, 4096, 0, 0) == WRING_OK, "put");
    UNTIL(&a, &b, a.arrived == 1 && b.done == 1);
    CHECK(can_sleep(&a) && can_sleep(&b), "after a put");
    ends_close(&a, &b);
}

/** A wait set without room for one more descriptor does not lose anything: it stays awake. */
static void a_full_wait_set_stays_awake(void)
{
    struct end a;
    struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
    REQUIRE(end_open(&a, 1, 4096, 16), "open");
    set.n = sizeof(set.fds) / sizeof(set.fds[0]);
    a.provider->ops->arm(a.provider, &set);
    CHECK(set.busy && set.n == sizeof(set.fds) / sizeof(set.fds[0]), "%u fds", set.n);
    end_close(&a);
}

/** A large put lies in the system's hands, whole, before the receiver looks: one look, then sleep.
 */
static void what_one_poll_left_is_not_slept_on(void)
{
    enum {
        WARM = 20
    };
    size_t bytes = 3 << 20;
    struct end a, b;
    REQUIRE(ends_open(&a, &b, bytes, 16), "no pair");
    for (unsigned i = 0; i < WARM; i++) { /* buffers grow with use */
        CHECK(end_put(&b, b.base, 0, bytes, i, i) == WRING_OK, "put %u", i);
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i + 1);
    }
    CHECK(can_sleep(&a), "after the last one");
    CHECK(end_put(&b, b.base, 0, bytes, WARM, WARM) == WRING_OK, "put");
    for (uint64_t limit = wring_deadline_in(WRING_NS_PER_S / 4); wring_now_ns() < limit;)
        end_turn(&b);
    for (unsigned i = 0; i < 100 && a.arrived == WARM; i++) {
        bool woken = end_sleep(&a, wring_deadline_in(b.done > WARM ? WAIT_NS : WRING_NS_PER_MS));
        CHECK(woken || b.done <= WARM, "asleep, and all of it is there");
        end_turn(&b);
    }
    UNTIL(&a, &b, a.arrived == WARM + 1 && b.done == WARM + 1);
    ends_close(&a, &b);
}

struct partner {
    struct end *end;
    size_t bytes; /* of a put */
    uint32_t random;
    unsigned turns;
    bool messages, sleeps;
};

/** Spin for up to about 20 us: the other one is anywhere between awake and asleep. */
static void dawdle(uint32_t *random)
{
    for (volatile uint32_t i = wring_test_random(random) % 20000; i > 0; i--)
        ;
}

static bool say(struct partner *partner, unsigned turn)
{
    struct end *end = partner->end;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    enum wring_status status;
    do {
        status = partner->messages ? end->provider->ops->send(end->conn, end->base, 8)
                                   : end_put(end, end->base, 0, partner->bytes, turn, turn);
        if (status == WRING_ERR_AGAIN)
            end_turn(end);
    } while (status == WRING_ERR_AGAIN && wring_now_ns() < limit);
    return status == WRING_OK;
}

static bool hear(struct partner *partner, unsigned turn)
{
    struct end *end = partner->end;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while ((partner->messages ? end->messages : end->arrived) <= turn)
        if (partner->sleeps ? !end_sleep(end, limit) : end_turn(end) == 0 && wring_now_ns() > limit)
            return false;
    return true;
}

/** Answer `turns` times. */
static void *answer(void *arg)
{
    struct partner *partner = arg;
    for (unsigned i = 0; i < partner->turns; i++) {
        if (!hear(partner, i)) {
            CHECK(false, "turn %u: the answerer was not woken", i);
            return NULL;
        }
        dawdle(&partner->random);
        if (!say(partner, i)) {
            CHECK(false, "turn %u: no answer can be sent", i);
            return NULL;
        }
    }
    /* what was said last may still be in this end's hands */
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (!partner->messages && partner->end->done < partner->turns && wring_now_ns() < limit)
        end_turn(partner->end);
    return NULL;
}

static void ping_pong(bool messages, bool asker_sleeps, size_t bytes, unsigned turns)
{
    struct end a, b;
    pthread_t thread;
    REQUIRE(ends_open(&a, &b, bytes, 16), "no pair");
    struct partner asker = {&a, bytes, 77, turns, messages, asker_sleeps};
    struct partner answerer = {&b, bytes, 99, turns, messages, true};
    REQUIRE(pthread_create(&thread, NULL, answer, &answerer) == 0, "thread");
    for (unsigned i = 0; i < turns; i++) {
        dawdle(&asker.random);
        bool good = say(&asker, i) && hear(&asker, i);
        CHECK(good, "turn %u: the asker heard nothing", i);
        if (!good)
            break;
    }
    pthread_join(thread, NULL);
    ends_close(&a, &b);
}

static void sleepers_are_woken_by_puts(void)
{
    ping_pong(false, true, 8, ends_turns(TURNS));
    ping_pong(false, false, 8, ends_turns(TURNS));
}

static void sleepers_are_woken_by_messages(void)
{
    ping_pong(true, true, 8, ends_turns(TURNS));
}

/** Puts that take many polls, most of which give no event. */
static void sleepers_are_woken_by_every_part(void)
{
    ping_pong(false, true, 3 << 20, ends_turns(8));
    ping_pong(false, false, 3 << 20, ends_turns(8));
}

struct dialer {
    struct end *end;
    const uint8_t *address;
    size_t bytes;
};

static void *connect_later(void *arg)
{
    struct dialer *dialer = arg;
    usleep(20000); /* the listener sleeps by then */
    if (!end_connect(dialer->end, dialer->address, dialer->bytes, "me"))
        return NULL;
    while (dialer->end->connected + dialer->end->closed == 0)
        if (!end_sleep(dialer->end, wring_deadline_in(WAIT_NS)))
            break;
    return NULL;
}

/** The whole of meeting, both asleep in between; then the end. */
static void sleepers_are_woken_by_peers(void)
{
    struct end a, b;
    pthread_t thread;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(end_open(&a, 1, 4096, 16) && end_open(&b, 1, 4096, 16), "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    struct dialer dialer = {&b, address, n};
    REQUIRE(pthread_create(&thread, NULL, connect_later, &dialer) == 0, "thread");
    while (a.accepted == 0)
        if (!end_sleep(&a, wring_deadline_in(WAIT_NS)))
            break;
    pthread_join(thread, NULL);
    CHECK(a.accepted == 1 && b.connected == 1, "not woken: %u %u", a.accepted, b.connected);

    b.provider->ops->disconnect(b.conn);
    b.conn = NULL;
    while (a.closed == 0)
        if (!end_sleep(&a, wring_deadline_in(WAIT_NS)))
            break;
    CHECK(a.closed == 1, "the end does not wake");
    ends_close(&a, &b);
}

#define STREAM_PUTS 4000
#define STREAM_BYTES 20000

static void *take_slowly(void *arg)
{
    struct partner *partner = arg;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (partner->end->arrived < STREAM_PUTS)
        if (!end_sleep(partner->end, limit)) {
            CHECK(false, "the receiver was not woken after %u", partner->end->arrived);
            break;
        }
    return NULL;
}

/** AGAIN, then sleep: who waits for room is woken when there is some. */
static void senders_without_room_are_woken(void)
{
    struct end a, b;
    pthread_t thread;
    unsigned posted = 0, stuck = 0;
    uint64_t longest = 0;
    REQUIRE(ends_open(&a, &b, STREAM_BYTES, 16), "no pair");
    struct partner partner = {.end = &a};
    REQUIRE(pthread_create(&thread, NULL, take_slowly, &partner) == 0, "thread");
    while (b.done < STREAM_PUTS && stuck == 0) {
        enum wring_status status = WRING_ERR_AGAIN;
        if (posted < STREAM_PUTS)
            status = end_put(&b, b.base, 0, STREAM_BYTES, posted, posted);
        posted += status == WRING_OK;
        if (status == WRING_OK)
            continue;
        uint64_t begin = wring_now_ns(), woken = wring_deadline_in(WAIT_NS);
        while (end_turn(&b) == 0 && stuck == 0) {
            struct wring_wait_set set = {.deadline_ns = woken};
            b.provider->ops->arm(b.provider, &set);
            if (end_turn(&b) > 0)
                break;
            uint64_t now = wring_now_ns();
            uint64_t ns = set.busy || set.deadline_ns < now ? 0 : set.deadline_ns - now;
            poll(set.fds, set.n, (int)((ns + WRING_NS_PER_MS - 1) / WRING_NS_PER_MS));
            if (posted < STREAM_PUTS &&
                end_put(&b, b.base, 0, STREAM_BYTES, posted, posted) == WRING_OK) {
                posted++;
                break;
            }
            stuck += wring_now_ns() >= woken;
        }
        uint64_t took = wring_now_ns() - begin;
        longest = took > longest ? took : longest;
    }
    CHECK(stuck == 0, "not woken after %u of %u puts", b.done, posted);
    CHECK(longest < WAIT_NS / 2, "asleep for %llu ms", (unsigned long long)longest / 1000000);
    pthread_join(thread, NULL);
    ends_close(&a, &b);
}

const struct wring_test_case suite_cases_sleep[] = {
    {"the_idle_can_sleep", the_idle_can_sleep},
    {"what_one_poll_left_is_not_slept_on", what_one_poll_left_is_not_slept_on},
    {"a_full_wait_set_stays_awake", a_full_wait_set_stays_awake},
    {"sleepers_are_woken_by_puts", sleepers_are_woken_by_puts},
    {"sleepers_are_woken_by_every_part", sleepers_are_woken_by_every_part},
    {"sleepers_are_woken_by_messages", sleepers_are_woken_by_messages},
    {"sleepers_are_woken_by_peers", sleepers_are_woken_by_peers},
    {"senders_without_room_are_woken", senders_without_room_are_woken},
    {NULL, NULL},
};
