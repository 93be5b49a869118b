/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What waits inside fault: whose turn it is, and what may go meanwhile. test_fault_queues NAME
 * [CASE...], around the provider of that name.
 */
#include <unistd.h>

#include "tests/provider/rig_fault.h"
#include "transport/providers/fault/inside.h"

#define SPACE (1 << 20)
#define BYTES 65536
#define RATE 25e6 /* bytes per second: 200mbit */
#define REFUSALS 100
#define ARRIVAL_NS (4 * WRING_NS_PER_S) /* the first arrival, at least */
#define TRIES 10

/** A hub with a connection to each of two leaves. */
struct star {
    struct end hub, leaves[2];
    struct wring_conn *conns[2];     /* the hub's */
    struct wring_remote *remotes[2]; /* the leaves' regions, over them */
    uint32_t posted[2];              /* by the hub */
};

static bool star_open(struct star *star)
{
    uint8_t address[WRING_ADDRESS_MAX], key[WRING_REGION_KEY_MAX];
    size_t n;
    *star = (struct star){.posted = {0, 0}};
    if (!end_open(&star->hub, 1, SPACE, 16) || !end_listen(&star->hub, address, &n))
        return false;
    const struct wring_provider_ops *ops = star->hub.provider->ops;
    for (unsigned i = 0; i < 2; i++) {
        struct end *leaf = &star->leaves[i];
        if (!end_open(leaf, 1, SPACE, 16) || !ends_meet(&star->hub, leaf, address, n, "x"))
            return false;
        star->conns[i] = star->hub.conn;
        end_import(leaf, &star->hub);
        size_t bytes = ops->region_export(leaf->region, key);
        if (ops->remote_import(star->conns[i], key, bytes, &star->remotes[i]) != WRING_OK)
            return false;
    }
    return true;
}

static void star_close(struct star *star)
{
    for (unsigned i = 0; i < 2; i++)
        star->hub.provider->ops->remote_release(star->remotes[i]);
    ends_close(&star->leaves[0], &star->leaves[1]);
    end_close(&star->hub);
}

static enum wring_status post(struct star *star, unsigned leaf, size_t bytes)
{
    enum wring_status status =
        star->hub.provider->ops->put(star->conns[leaf], star->hub.region, star->hub.base,
                                     star->remotes[leaf], 0, bytes, star->posted[leaf], 0);
    star->posted[leaf] += status == WRING_OK;
    return status;
}

/** The hub's events come from two connections: only the arrivals count. @return from whom, or -1 */
static int turn_hub(struct star *star)
{
    struct wring_event event;
    if (star->hub.provider->ops->poll(star->hub.provider, &event, 1) == 0 ||
        event.kind != WRING_EVENT_ARRIVED)
        return -1;
    return event.conn == star->conns[1];
}

/**
 * Leaf 0 does not look, until nothing more can be put to it: so often in a row, with time in
 * between for the link, that it is not the link which holds back.
 */
static void fill_up(struct star *star)
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    unsigned refused = 0;
    while (refused < REFUSALS && wring_now_ns() < limit) {
        refused = post(star, 0, BYTES) == WRING_OK ? 0 : refused + 1;
        turn_hub(star);
        if (refused > 0)
            usleep(3000);
    }
    CHECK(refused == REFUSALS, "there is always room");
}

/** @return seconds until they had all come to leaf 1 */
static double send_to_the_other(struct star *star, unsigned total)
{
    struct end *leaf = &star->leaves[1];
    uint64_t began = wring_now_ns(), limit = wring_deadline_in(WAIT_NS);
    while (leaf->arrived < total && wring_now_ns() < limit) {
        if (star->posted[1] < total)
            post(star, 1, BYTES);
        turn_hub(star);
        end_turn(leaf);
    }
    CHECK(leaf->arrived == total, "%u of %u came", leaf->arrived, total);
    return (double)(wring_now_ns() - began) / 1e9;
}

/** A peer that takes nothing holds back what is for itself, and the link is as fast as before. */
static void one_who_is_slow_holds_up_no_other(void)
{
    enum {
        TOTAL = 60
    };
    struct star star;
    fault_rig.schedule = "rate=200mbit";
    REQUIRE(star_open(&star), "no star: %s", fault_rig.line);
    fill_up(&star);
    double seconds = send_to_the_other(&star, TOTAL);
    CHECK(seconds > 0.8 * TOTAL * BYTES / RATE, "%u puts within %.3f s", TOTAL, seconds);

    struct end *slow = &star.leaves[0]; /* and nothing of what waited is lost */
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (slow->arrived < star.posted[0] && wring_now_ns() < limit) {
        turn_hub(&star);
        end_turn(slow);
    }
    CHECK(slow->arrived == star.posted[0], "%u of %u came", slow->arrived, star.posted[0]);
    star_close(&star);
}

/** What waits for one who is blocked is nothing to stay awake for. */
static void one_who_is_slow_lets_others_sleep(void)
{
    struct star star;
    fault_rig.schedule = "delay=1us";
    REQUIRE(star_open(&star), "no star: %s", fault_rig.line);
    fill_up(&star);
    unsigned busy = 0;
    for (unsigned i = 0; i < 100; i++) {
        struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
        star.hub.provider->ops->arm(star.hub.provider, &set);
        busy += set.busy || set.deadline_ns <= wring_now_ns();
        turn_hub(&star);
        usleep(1000);
        turn_hub(&star);
    }
    CHECK(busy < 50, "awake %u times of 100", busy);
    star_close(&star);
}

/** As many puts as promised find room in every connection. */
static void every_connection_has_its_depth(void)
{
    struct star star;
    struct wring_provider_caps caps;
    fault_rig.schedule = "rate=1mbit";
    REQUIRE(star_open(&star), "no star: %s", fault_rig.line);
    star.hub.provider->ops->capabilities(star.hub.provider, &caps);
    for (unsigned leaf = 0; leaf < 2; leaf++)
        for (unsigned i = 0; i < caps.put_depth; i++)
            REQUIRE(post(&star, leaf, 1000) == WRING_OK, "leaf %u, put %u", leaf, i);
    CHECK(post(&star, 0, 1000) == WRING_ERR_AGAIN, "more than promised, for ever?");
    star_close(&star);
}

/** A seed by which the first arrival is very late and the second is not. */
static uint64_t find_seed(void)
{
    struct wring_fault_schedule schedule = {.seed = 0};
    const uint64_t span = 5 * WRING_NS_PER_S + 1;
    while (wring_fault_random(&schedule, 0, WRING_FAULT_JITTER, 0) % span < ARRIVAL_NS ||
           wring_fault_random(&schedule, 0, WRING_FAULT_JITTER, 2) % span > span / 20)
        schedule.seed++;
    return schedule.seed;
}

/** Each leaf puts once, and the hub has both and keeps them. @return from whom it came first, -1:
 * from nobody, -2: this thread did not run for so long that the late one may have been due */
static int take_late_and_soon(struct star *star)
{
    const struct fault_provider *fault = fault_of(star->hub.provider);
    uint64_t began_ns = wring_now_ns(), limit = wring_deadline_in(WAIT_NS);
    int first = -1;
    for (unsigned i = 0; i < 2; i++) {
        struct end *leaf = &star->leaves[i];
        CHECK(end_put(leaf, leaf->base, 0, 100, 0, 0) == WRING_OK, "put");
        while (first < 0 && fault->arrivals <= i && wring_now_ns() < limit) {
            end_turn(leaf);
            first = turn_hub(star);
        }
    }
    bool in_time = wring_now_ns() - began_ns < ARRIVAL_NS / 2;
    while (first < 0 && wring_now_ns() < limit)
        first = turn_hub(star);
    return in_time ? first : -2;
}

/** What comes late from one does not make late what comes from another. */
static void one_who_is_late_makes_no_other_late(void)
{
    struct star star;
    char text[64];
    int first = -2;
    snprintf(text, sizeof(text), "jitter=5s,seed=%u", (unsigned)find_seed());
    fault_rig.schedule = text;
    for (int tries = 0; first == -2 && tries < TRIES; tries++) {
        REQUIRE(star_open(&star), "no star: %s", fault_rig.line);
        first = take_late_and_soon(&star);
        star_close(&star);
    }
    CHECK(first == 1, "it came first from leaf %d", first);
}

/** More than there is room for is late at once: order, count and texts are still right. */
static void more_than_can_be_held_waits_outside(void)
{
    enum {
        TOTAL = 3000
    };
    struct end a, b;
    unsigned posted = 0, sent = 0;
    fault_rig.schedule = "delay=200ms,jitter=50ms";
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair: %s", fault_rig.line);
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while ((a.arrived < TOTAL || a.messages < TOTAL) && wring_now_ns() < limit) {
        while (posted < TOTAL && end_put(&b, b.base, 0, 1, posted, posted) == WRING_OK)
            posted++;
        uint32_t text = sent;
        while (sent < TOTAL && b.provider->ops->send(b.conn, &text, sizeof(text)) == WRING_OK)
            text = ++sent;
        end_turn(&b);
        unsigned before = a.messages;
        a.batch = 1; /* so that each message is looked at */
        end_turn(&a);
        memcpy(&text, a.message, sizeof(text));
        CHECK(a.messages == before || text == before, "message %u says %u", before, text);
    }
    CHECK(a.arrived == TOTAL && a.messages == TOTAL, "%u and %u came", a.arrived, a.messages);
    ends_close(&a, &b);
}

/** Register other memory of `end`, and import it over the other one's connection. */
static struct wring_remote *import_other(struct end *from, struct end *to, void *base,
                                         struct wring_region **region)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    struct wring_remote *remote = NULL;
    struct wring_memory memory = to->memory;
    memory.fd_offset += (uint64_t)((uint8_t *)base - (uint8_t *)memory.base);
    memory.base = base;
    memory.bytes = 4096;
    if (to->provider->ops->region_create(to->provider, &memory, region) != WRING_OK)
        return NULL;
    size_t n = to->provider->ops->region_export(*region, key);
    from->provider->ops->remote_import(from->conn, key, n, &remote);
    return remote;
}

/** A remote may be released once its puts were accepted; other remotes come in its place. */
static void puts_outlive_their_remote(void)
{
    enum {
        PUTS = 4,
        OTHERS = 8
    };
    struct end a, b;
    struct wring_region *regions[OTHERS];
    struct wring_remote *others[OTHERS];
    fault_rig.schedule = "rate=8mbit"; /* 4096 bytes take 4 ms */
    REQUIRE(ends_open(&a, &b, 65536, 16), "no pair: %s", fault_rig.line);
    fill_pattern(b.base, 4096 * PUTS, 5);
    for (unsigned i = 0; i < PUTS; i++)
        CHECK(end_put(&b, b.base + 4096 * (size_t)i, 4096 * i, 4096, i, i) == WRING_OK, "put");
    b.provider->ops->remote_release(b.remote);
    b.remote = NULL;
    for (unsigned i = 0; i < OTHERS; i++) { /* in memory that may have been the remote's */
        others[i] = import_other(&b, &a, a.base + 32768 + 4096 * (size_t)(i % 4), &regions[i]);
        REQUIRE(others[i] != NULL, "import");
    }
    UNTIL(&a, &b, (a.arrived == PUTS && b.done == PUTS) || a.closed || b.closed);
    CHECK(a.arrived == PUTS, "%u came (%s)", a.arrived, a.text);
    CHECK(has_pattern(a.base, 4096 * PUTS, 5), "elsewhere, or something else");
    CHECK(is_all(a.base + 32768, 32768, 0), "another region was written to");
    for (unsigned i = 0; i < OTHERS; i++) {
        b.provider->ops->remote_release(others[i]);
        a.provider->ops->region_destroy(regions[i]);
    }
    ends_close(&a, &b);
}

/** All at once: the remote is released, its puts wait, and the connection or all of it goes. */
static void waiting_puts_let_their_remote_go(void)
{
    for (unsigned variant = 0; variant < 3; variant++) {
        struct end a, b;
        fault_rig.schedule = "rate=8mbit";
        REQUIRE(ends_open(&a, &b, 65536, 16), "no pair: %s", fault_rig.line);
        for (unsigned i = 0; i < 8; i++)
            CHECK(end_put(&b, b.base, 0, 65536, i, i) == WRING_OK, "put %u", i);
        b.provider->ops->remote_release(b.remote);
        b.remote = NULL;
        struct end *leaving = variant == 0 ? &b : &a;
        if (variant < 2) {
            leaving->provider->ops->disconnect(leaving->conn);
            leaving->conn = NULL;
            UNTIL(&a, &b, a.closed + b.closed == 1);
        }
        ends_close(&a, &b); /* leaks and what is used after it show under ASan */
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"one_who_is_slow_holds_up_no_other", one_who_is_slow_holds_up_no_other},
        {"one_who_is_slow_lets_others_sleep", one_who_is_slow_lets_others_sleep},
        {"every_connection_has_its_depth", every_connection_has_its_depth},
        {"one_who_is_late_makes_no_other_late", one_who_is_late_makes_no_other_late},
        {"more_than_can_be_held_waits_outside", more_than_can_be_held_waits_outside},
        {"puts_outlive_their_remote", puts_outlive_their_remote},
        {"waiting_puts_let_their_remote_go", waiting_puts_let_their_remote_go},
        {NULL, NULL},
    };
    return fault_rig_main(argc, argv, cases);
}
