/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fabrics of many ranks, which one thread polls once they have joined: connections come about when
 * something is first sent, and cost what they are worth. One that is dropped without a good-bye has
 * died.
 */
#include "transport/fabric.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/control_tree.h"
#include "transport/fabric_connect.h"
#include "transport/providers/shm/shm.h"

#define RANKS_MAX 256
#define PATIENCE_NS (60 * WRING_NS_PER_S)
#define CALLS_SELDOM_NS (6 * WRING_NS_PER_S) /* longer than a handshake of tcp may take */
#define DESCRIPTORS_MANY 4096
#define LOOKS 100                        /* of two ranks at each other */
#define WHILE_NS (300 * WRING_NS_PER_MS) /* longer than one that is nowhere is waited for */
#define TRIES 20

struct rank {
    uint32_t rank;
    pthread_t thread;
    struct wring_bootstrap *end;
    struct wring_fabric *fabric; /* NULL: it is gone */
    enum wring_status status;
};

static struct rank ranks[RANKS_MAX];
static uint32_t n_ranks;
static const char *provider;
static struct wring_config config;

static void say_nothing(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static const struct wring_log quiet = {say_nothing, NULL, WRING_LOG_ERROR};

static void on_arrived(void *arg, struct wring_peer *peer, uint32_t imm, size_t bytes)
{
    (void)arg, (void)peer, (void)imm, (void)bytes;
}

static void on_put_done(void *arg, struct wring_peer *peer, uint64_t cookie)
{
    (void)arg, (void)peer, (void)cookie;
}

static void on_credit(void *arg, struct wring_peer *peer, uint32_t channel, uint32_t generation,
                      uint32_t sequence)
{
    (void)arg, (void)peer, (void)channel, (void)generation, (void)sequence;
}

static void on_text(void *arg, struct wring_peer *peer, uint32_t a, uint32_t b, uint32_t c,
                    const char *text)
{
    (void)peer, (void)a, (void)b, (void)c, (void)text;
    ++*(unsigned *)arg;
}

static void on_flight(void *arg, uint32_t from, const struct wring_control *control)
{
    (void)arg, (void)from, (void)control;
}

static void on_failing(void *arg)
{
    (void)arg;
}

static void on_lost(void *arg, uint32_t rank)
{
    (void)arg, (void)rank;
}

static bool accounted = true; /* else a rank on which the job fails stays for half a second */

static bool on_account(void *arg)
{
    (void)arg;
    return accounted;
}

static unsigned calls; /* heard by any rank */

static void *join(void *arg)
{
    struct rank *rank = arg;
    struct wring_fabric_params params = {
        .config = &config,
        .log = &quiet,
        .rank = rank->rank,
        .size = n_ranks,
        .provider = provider,
        .bind = "",
        .secret = {7},
        .job = {1},
        .handler = {.arg = &calls,
                    .arrived = on_arrived,
                    .put_done = on_put_done,
                    .credit = on_credit,
                    .call = on_text,
                    .standstill = on_text,
                    .flight = on_flight,
                    .failing = on_failing,
                    .lost = on_lost,
                    .account = on_account},
    };
    uint64_t deadline_ns = wring_deadline_in(PATIENCE_NS);
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    rank->status = wring_fabric_create(&params, &rank->fabric);
    if (rank->status != WRING_OK)
        return NULL;
    wring_fabric_describe(rank->fabric, &writer);
    rank->status =
        rank->end->ops->exchange(rank->end, writer.data, writer.bytes, deadline_ns, NULL, &blobs);
    free(writer.data);
    if (rank->status == WRING_OK)
        rank->status = wring_fabric_connect(rank->fabric, rank->end, &blobs, deadline_ns);
    return NULL;
}

static void open_all(const char *name, uint32_t n)
{
    struct wring_bootstrap *ends[RANKS_MAX];

    provider = name;
    n_ranks = n;
    calls = 0;
    REQUIRE(wring_bootstrap_local_create(n, ends) == WRING_OK, "bootstrap");
    for (uint32_t i = 0; i < n; i++) {
        ranks[i] = (struct rank){.rank = i, .end = ends[i]};
        REQUIRE(pthread_create(&ranks[i].thread, NULL, join, &ranks[i]) == 0, "thread %u", i);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    for (uint32_t i = 0; i < n; i++)
        REQUIRE(ranks[i].status == WRING_OK, "%s: rank %u of %u does not join: %s", name, i, n,
                wring_status_text(ranks[i].status));
}

static void drop(uint32_t i)
{
    wring_fabric_destroy(ranks[i].fabric);
    ranks[i].fabric = NULL;
}

static void close_all(void)
{
    for (uint32_t i = 0; i < n_ranks; i++) {
        drop(i);
        ranks[i].end->ops->close(ranks[i].end);
    }
}

static void poll_all(void)
{
    for (uint32_t i = 0; i < n_ranks; i++)
        if (ranks[i].fabric != NULL)
            wring_fabric_poll(ranks[i].fabric);
}

static void poll_one(uint32_t rank, int times)
{
    for (int i = 0; i < times; i++)
        wring_fabric_poll(ranks[rank].fabric);
}

/* waits for what the condition says */
#define UNTIL(condition)                                       \
    do {                                                       \
        uint64_t deadline_ns = wring_deadline_in(PATIENCE_NS); \
        while (!(condition) && wring_now_ns() < deadline_ns)   \
            poll_all();                                        \
        CHECK(condition, "in vain");                           \
    } while (0)

static struct wring_peer *peer_of(uint32_t rank, uint32_t other)
{
    return wring_fabric_peer(ranks[rank].fabric, other);
}

static enum wring_status reach(uint32_t rank, uint32_t other)
{
    return wring_fabric_reach(ranks[rank].fabric, peer_of(rank, other));
}

static bool stands(uint32_t rank, uint32_t other)
{
    return peer_of(rank, other)->state == WRING_PEER_READY &&
           peer_of(other, rank)->state == WRING_PEER_READY;
}

static uint32_t connections_of(uint32_t rank)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_ranks; i++)
        n += i != rank && peer_of(rank, i)->state != WRING_PEER_NONE;
    return n;
}

/** Of this process. */
static bool pairs_stand(void)
{
    for (uint32_t i = 0; i < n_ranks; i += 2)
        if (!stands(i, i + 1))
            return false;
    return true;
}

/** Descriptors of n ranks that have joined, and of those of which each exchanges with one other. */
static void count_pairs(uint32_t n, unsigned *joined, unsigned *paired)
{
    unsigned before = wring_test_descriptors();
    open_all("tcp", n);
    *joined = wring_test_descriptors() - before;
    for (uint32_t i = 0; i < n; i++)
        CHECK(connections_of(i) == 0, "rank %u has %u connections", i, connections_of(i));
    for (uint32_t i = 0; i < n; i += 2)
        CHECK(reach(i, i + 1) == WRING_ERR_AGAIN, "at once?");
    UNTIL(pairs_stand());
    *paired = wring_test_descriptors() - before;
    for (uint32_t i = 0; i < n; i++)
        CHECK(connections_of(i) == 1, "rank %u has %u connections", i, connections_of(i));
    close_all();
    CHECK(wring_test_descriptors() == before, "some are left open");
}

static void descriptors_grow_with_those_talked_to(void)
{
    unsigned joined[2], paired[2];
    count_pairs(8, &joined[0], &paired[0]);
    count_pairs(32, &joined[1], &paired[1]);
    /* a tree of n ranks has n - 1 connections, of two descriptors here */
    CHECK((joined[0] + 2) * 4 == joined[1] + 2, "%u of 8 ranks, %u of 32", joined[0], joined[1]);
    CHECK(paired[0] == joined[0] + 8 && paired[1] == joined[1] + 32, "%u of 8 ranks, %u of 32",
          paired[0], paired[1]);
}

static void it_comes_when_the_other_one_looks(void)
{
    static const char *const names[] = {"tcp", "shm"};
    for (int p = 0; p < 2; p++) {
        open_all(names[p], 2);
        for (int i = 0; i < 1000; i++) {
            CHECK(reach(0, 1) == WRING_ERR_AGAIN, "nobody has taken it");
            wring_fabric_poll(ranks[0].fabric);
        }
        UNTIL(stands(0, 1));
        CHECK(reach(0, 1) == WRING_OK && reach(1, 0) == WRING_OK, "it stands");
        close_all();
    }
}

static void both_may_dial(void)
{
    static const char *const names[] = {"tcp", "shm"};
    for (int i = 0; i < 20; i++) {
        open_all(names[i % 2], 3);
        unsigned before = wring_test_descriptors();
        for (uint32_t from = 0; from < 3; from++)
            for (uint32_t to = 0; to < 3; to++)
                if (from != to)
                    reach(from, to);
        UNTIL(stands(0, 1) && stands(0, 2) && stands(1, 2));
        if (i % 2 == 0)
            UNTIL(wring_test_descriptors() == before + 6);
        for (uint32_t r = 0; r < 3; r++)
            CHECK(wring_fabric_status(ranks[r].fabric) == WRING_OK, "rank %u fails", r);
        close_all();
    }
}

static void one_that_has_left_is_not_waited_for(void)
{
    open_all("tcp", 4);
    wring_fabric_turn_deaf(ranks[3].fabric);
    UNTIL(wring_control_tree_has_left(ranks[3].fabric->tree));
    drop(3);
    UNTIL(peer_of(1, 3)->left && peer_of(2, 3)->left);
    CHECK(reach(1, 3) == WRING_ERR_CLOSED, "a connection to nobody");
    CHECK(reach(1, 2) == WRING_ERR_AGAIN, "the others go on");
    UNTIL(stands(1, 2));
    for (uint32_t r = 0; r < 3; r++)
        CHECK(wring_fabric_status(ranks[r].fabric) == WRING_OK, "rank %u fails", r);
    close_all();
}

/** Its good-bye comes over the connection, if not by the tree before. */
static void one_that_leaves_takes_callers_still(void)
{
    open_all("tcp", 3);
    reach(2, 1);
    wring_fabric_turn_deaf(ranks[1].fabric);
    UNTIL(peer_of(2, 1)->left && peer_of(2, 1)->state != WRING_PEER_CONNECTING);
    CHECK(wring_fabric_status(ranks[2].fabric) == WRING_OK, "a loss");
    close_all();
}

static bool all_blame(uint32_t culprit)
{
    for (uint32_t i = 0; i < n_ranks; i++) {
        struct wring_failure failure;
        if (ranks[i].fabric != NULL &&
            (wring_fabric_failure(ranks[i].fabric, &failure) != WRING_ERR_PEER ||
             failure.rank != (int32_t)culprit))
            return false;
    }
    return true;
}

static void a_death_is_heard_without_a_connection(void)
{
    static const uint32_t victims[] = {19, 1, 0}; /* a leaf, one between, the root */
    for (int i = 0; i < 3; i++) {
        open_all("shm", 20);
        drop(victims[i]);
        UNTIL(all_blame(victims[i]));
        close_all();
    }
}

/** What is left of rank 2, once its process was killed: connections that have ended. */
static void end_connections_of_2(void)
{
    for (uint32_t i = 0; i < 2; i++)
        shutdown(((struct shm_conn *)peer_of(2, i)->conn)->sock.fd, SHUT_RDWR);
}

static bool has_failed(uint32_t rank)
{
    return ranks[rank].fabric->state == WRING_FABRIC_FAILED;
}

/** Ranks that hear of a death do not wait for a look at sockets that comes ten times a second. */
static void a_dead_one_is_not_waited_for(void)
{
    open_all("shm", 3);
    reach(0, 1), reach(0, 2), reach(1, 2);
    UNTIL(stands(0, 1) && stands(0, 2) && stands(1, 2));
    end_connections_of_2();
    wring_fabric_fail(ranks[0].fabric, WRING_ERR_PEER, 2, "rank 2 is lost");
    uint64_t late_ns = wring_deadline_in(PATIENCE_NS);
    while (ranks[1].fabric->state == WRING_FABRIC_WORKING && wring_now_ns() < late_ns) {
        poll_one(0, 1); /* what it tells comes when the system has a core for that */
        poll_one(1, 1);
    }
    for (int polls = 0; polls < LOOKS && !(has_failed(0) && has_failed(1)); polls++) {
        poll_one(0, 1);
        poll_one(1, 1);
    }
    CHECK(has_failed(0) && has_failed(1), "they wait for rank 2");
    close_all();
}

static void one_that_is_nowhere_is_a_loss(void)
{
    open_all("tcp", 3);
    struct wring_fabric *fabric = ranks[2].fabric;
    ranks[2].fabric = NULL; /* it hears of nothing any more */
    drop(1);
    enum wring_status status = WRING_ERR_AGAIN;
    uint64_t deadline_ns = wring_deadline_in(PATIENCE_NS);
    while (status == WRING_ERR_AGAIN && wring_now_ns() < deadline_ns) {
        status = wring_fabric_reach(fabric, wring_fabric_peer(fabric, 1));
        wring_fabric_poll(fabric);
    }
    CHECK(status == WRING_ERR_CLOSED && wring_fabric_status(fabric) == WRING_ERR_PEER, "%s",
          wring_status_text(status));
    ranks[2].fabric = fabric;
    close_all();
}

/** Rank 3 dies; that rank hears of it, tells its neighbours in the tree, and is to go, too. */
static void fail_for_3(uint32_t rank)
{
    drop(3);
    wring_fabric_fail(ranks[rank].fabric, WRING_ERR_PEER, 3, "rank 3 is lost");
}

static bool dials_again(uint32_t rank, uint32_t other)
{
    const struct wring_peer *peer = peer_of(rank, other);
    return peer->dial != NULL && peer->dial->redial_ns != 0;
}

/** Rank 1 is dialled while the job fails on it: rank 2 sees it go before the root passes on why. */
static void one_that_fails_takes_nobody_in(void)
{
    static const char *const names[] = {"tcp", "shm"};

    accounted = false;
    for (int i = 0; i < 2; i++) {
        open_all(names[i], 4);
        CHECK(reach(2, 1) == WRING_ERR_AGAIN, "at once?");
        fail_for_3(1);
        uint64_t late_ns = wring_deadline_in(PATIENCE_NS);
        while (peer_of(2, 1)->state != WRING_PEER_READY && !dials_again(2, 1) && !has_failed(1) &&
               wring_now_ns() < late_ns) {
            poll_one(1, 1);
            poll_one(2, 1);
        }
        drop(1);
        poll_one(2, LOOKS);
        UNTIL(all_blame(3));
        close_all();
    }
    accounted = true;
}

/** Rank 1 has taken the connection that rank 2 dialled, and on which that one says nothing more. */
static void one_that_fails_goes_where_it_was_not_used(void)
{
    accounted = false;
    open_all("tcp", 4);
    CHECK(reach(2, 1) == WRING_ERR_AGAIN, "at once?");
    uint64_t late_ns = wring_deadline_in(PATIENCE_NS);
    while (peer_of(1, 2)->state == WRING_PEER_NONE && wring_now_ns() < late_ns) {
        poll_one(2, 1);
        poll_one(1, 1);
    }
    CHECK(peer_of(1, 2)->state == WRING_PEER_CONNECTING, "it is not taken");
    fail_for_3(2);
    poll_one(2, LOOKS);
    drop(2);
    poll_one(1, LOOKS);
    UNTIL(all_blame(3));
    close_all();
    accounted = true;
}

/** Rank 1 is busy for longer than one that is nowhere is waited for, and then goes. @return false:
 *  this thread did not run for so long that rank 2 need not wait any more */
static bool goes_after_a_while(void)
{
    open_all("tcp", 4);
    uint64_t until_ns = wring_deadline_in(WHILE_NS);
    CHECK(reach(2, 1) == WRING_ERR_AGAIN, "at once?");
    while (wring_now_ns() < until_ns)
        poll_one(2, 1);
    fail_for_3(1);
    drop(1);
    uint64_t began_ns = wring_now_ns();
    while (!dials_again(2, 1) && wring_now_ns() < began_ns + PATIENCE_NS)
        poll_one(2, 1);
    CHECK(dials_again(2, 1), "it does not see that rank 1 is gone");
    uint64_t closed_ns = dials_again(2, 1) ? peer_of(2, 1)->dial->redial_ns : 0;
    while (wring_fabric_status(ranks[2].fabric) == WRING_OK &&
           (!dials_again(2, 1) || peer_of(2, 1)->dial->redial_ns == closed_ns))
        poll_one(2, 1);
    bool in_time = wring_now_ns() < began_ns + WHILE_NS / 4;
    if (in_time)
        UNTIL(all_blame(3));
    close_all();
    return in_time;
}

static void one_that_goes_late_is_not_blamed(void)
{
    int tries = 0;
    while (!goes_after_a_while() && ++tries < TRIES)
        ;
    CHECK(tries < TRIES, "this machine is too busy to tell");
}

static void calls_go_by_the_tree(void)
{
    open_all("tcp", 20);
    for (uint32_t i = 1; i < 20; i++) {
        struct wring_control call = {.kind = WRING_CONTROL_CALL, .a = i, .text = "what"};
        CHECK(wring_control_send(peer_of(i, 20 - i == i ? 0 : 20 - i), &call) == WRING_OK, "send");
    }
    UNTIL(calls == 19);
    CHECK(connections_of(3) == 0, "it connects");
    close_all();
}

/* ---- what takes long ---- */

static bool all_stand_to_0(void)
{
    for (uint32_t i = 1; i < n_ranks; i++)
        if (!stands(i, 0))
            return false;
    return true;
}

static void many_dial_one_at_once(void)
{
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    if (limit.rlim_max < DESCRIPTORS_MANY)
        wring_test_skip("%llu descriptors at most", (unsigned long long)limit.rlim_max);
    limit.rlim_cur = DESCRIPTORS_MANY;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    open_all("tcp", RANKS_MAX);
    for (uint32_t i = 1; i < RANKS_MAX; i++)
        reach(i, 0);
    UNTIL(all_stand_to_0());
    CHECK(connections_of(0) == RANKS_MAX - 1, "rank 0 has %u connections", connections_of(0));
    close_all();
}

static void one_that_calls_seldom_is_dialled_again(void)
{
    open_all("tcp", 2);
    uint64_t until_ns = wring_deadline_in(CALLS_SELDOM_NS);
    while (wring_now_ns() < until_ns) {
        struct wring_wait_set set = {.deadline_ns = until_ns};
        CHECK(reach(1, 0) == WRING_ERR_AGAIN, "nobody has taken it");
        wring_fabric_arm(ranks[1].fabric, &set);
        if (!wring_fabric_poll(ranks[1].fabric))
            wring_wait_set_sleep(&set);
    }
    UNTIL(stands(0, 1));
    CHECK(wring_fabric_status(ranks[1].fabric) == WRING_OK, "a loss");
    close_all();
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"descriptors_grow_with_those_talked_to", descriptors_grow_with_those_talked_to},
        {"it_comes_when_the_other_one_looks", it_comes_when_the_other_one_looks},
        {"both_may_dial", both_may_dial},
        {"one_that_has_left_is_not_waited_for", one_that_has_left_is_not_waited_for},
        {"one_that_leaves_takes_callers_still", one_that_leaves_takes_callers_still},
        {"a_death_is_heard_without_a_connection", a_death_is_heard_without_a_connection},
        {"a_dead_one_is_not_waited_for", a_dead_one_is_not_waited_for},
        {"one_that_is_nowhere_is_a_loss", one_that_is_nowhere_is_a_loss},
        {"one_that_fails_takes_nobody_in", one_that_fails_takes_nobody_in},
        {"one_that_fails_goes_where_it_was_not_used", one_that_fails_goes_where_it_was_not_used},
        {"one_that_goes_late_is_not_blamed", one_that_goes_late_is_not_blamed},
        {"calls_go_by_the_tree", calls_go_by_the_tree},
        {NULL, NULL},
    };
    static const struct wring_test_case slow[] = {
        {"many_dial_one_at_once", many_dial_one_at_once},
        {"one_that_calls_seldom_is_dialled_again", one_that_calls_seldom_is_dialled_again},
        {NULL, NULL},
    };
    CHECK(wring_config_load(&config, &quiet) == WRING_OK, "config");
    bool is_slow = argc > 1 && strcmp(argv[1], "slow") == 0;
    return wring_test_main(argc - is_slow, argv + is_slow, is_slow ? slow : cases);
}
