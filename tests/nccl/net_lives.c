/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/flow.h"
#include "tests/nccl/net_cases.h"

#define MIB ((size_t)1 << 20)

static void *allocate(size_t bytes)
{
    void *data = malloc(bytes);
    if (data == NULL)
        abort();
    return memset(data, 0, bytes);
}

/** A few messages from rank `from` to rank `to`, over a connection made for them. */
static void use_once(struct rig *rig, uint32_t from, uint32_t to, uint32_t seed)
{
    struct rig_link link = {.from = from, .to = to};
    struct flow_plan plan = {
        .seed = seed, .tags = 2, .count = 12, .depth = PLUGIN_STEPS, .largest = 100000};
    struct flow *flows[2] = {NULL};

    rig_connect(rig, &link, 1);
    if (link.send != NULL)
        flows[0] = flow_start(rig, &plan, link.send, true);
    if (link.receive != NULL)
        flows[1] = flow_start(rig, &plan, link.receive, false);
    flow_run(flows, 2);
    rig_disconnect(rig, &link, 1);
}

/* ---- regions, and the end of connections ---- */

static void send_from(struct rig *rig, void *comm, unsigned char *data, size_t bytes, void *region,
                      uint64_t seed)
{
    if (rig->me.rank == 0)
        rig_fill(data, bytes, seed);
    rig_wait(rig,
             rig->me.rank == 0 ? rig_send(rig, comm, data, bytes, 0, region)
                               : rig_receive(rig, comm, data, bytes, 0, region),
             NULL, "a message out of a nested region");
    CHECK(rig_differs(data, bytes, seed) == bytes, "message %d has come otherwise", (int)seed);
}

static void nest(struct rig *rig, void *comm)
{
    unsigned char *data = allocate(2 * MIB);
    void *whole = rig_register(rig, comm, data, 2 * MIB);
    void *again = rig_register(rig, comm, data, 2 * MIB);
    void *inner = rig_register(rig, comm, data + 1001, MIB);
    void *innermost = rig_register(rig, comm, data + 5000, 9000);

    send_from(rig, comm, data + 5000, 9000, innermost, 1);
    send_from(rig, comm, data, 2 * MIB, whole, 2);
    rig_deregister(rig, comm, whole); /* in no order */
    send_from(rig, comm, data + 1001, MIB, inner, 3);
    send_from(rig, comm, data, 2 * MIB, again, 4);
    rig_deregister(rig, comm, innermost);
    innermost = rig_register(rig, comm, data + 5001, 100);
    rig_deregister(rig, comm, again);
    send_from(rig, comm, data + 1001, MIB, inner, 5);
    send_from(rig, comm, data + 5001, 100, innermost, 6);
    rig_deregister(rig, comm, inner);
    send_from(rig, comm, data + 5001, 100, innermost, 7);
    rig_deregister(rig, comm, innermost);
    for (int i = 0; i < 100; i++) /* as NCCL does before and after each call, with user buffers */
        rig_deregister(rig, comm, rig_register(rig, comm, data + i, MIB));
    free(data);
}

void regions_nest_and_repeat(void)
{
    rig_run_pair(nest);
}

/** What is under way is given up, on whichever end closes first. */
static void close_busy(const struct world_rank *me, void *arg)
{
    enum {
        N = 6
    };
    struct rig_link link = {.from = 0, .to = 1};
    unsigned char *data = allocate(N * MIB);
    void *requests[N] = {NULL}, *region, *comm;
    struct rig rig;
    int done = 0;

    (void)arg;
    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    comm = me->rank == 0 ? link.send : link.receive;
    region = rig_register(&rig, comm, data, N * MIB);
    for (size_t i = 0; i < N; i++) {
        void *slot = data + i * MIB;
        size_t room = MIB;
        int tag = 0;
        if (me->rank == 0) /* may fail: the other end may be closed already */
            plugin_isend(rig.plugin, comm, slot, MIB, 0, region, &requests[i]);
        else
            plugin_irecv(rig.plugin, comm, 1, &slot, &room, &tag, &region, &requests[i]);
        if (requests[i] == NULL)
            break;
    }
    if (requests[0] != NULL)
        plugin_test(rig.plugin, requests[0], &done, NULL);
    rig_deregister(&rig, comm, region);
    rig_disconnect(&rig, &link, 1);
    free(data); /* nothing touches it any more */
    use_once(&rig, 0, 1, 31);
    use_once(&rig, 1, 0, 32);
    rig_end(&rig);
}

void closing_ends_requests_in_flight(void)
{
    world_run(&(struct world_job){.size = 2, .run = close_busy});
}

/** The sender's requests are done, so it may go; nobody says when the receiver has looked. */
static void send_and_go(struct rig *rig, void *comm)
{
    enum {
        N = 20,
        SLOT = 40000
    };
    unsigned char *data = allocate(N * SLOT);
    void *region = rig_register(rig, comm, data, N * SLOT), *requests[N];

    for (size_t i = 0; i < N; i++) {
        size_t bytes = i % 2 ? 900 : SLOT;
        unsigned char *slot = data + i * SLOT;
        if (rig->me.rank == 0)
            rig_fill(slot, bytes, i);
        requests[i] = rig->me.rank == 0 ? rig_send(rig, comm, slot, bytes, 0, region)
                                        : rig_receive(rig, comm, slot, SLOT, 0, region);
    }
    for (size_t i = 0; i < N; i++) {
        size_t bytes = i % 2 ? 900 : SLOT;
        rig_wait(rig, requests[i], NULL, "a message whose sender goes");
        CHECK(rig_differs(data + i * SLOT, bytes, i) == bytes, "message %zu", i);
    }
    free(data);
}

void last_message_outlives_its_sender(void)
{
    for (int i = 0; i < 3; i++)
        rig_run_pair(send_and_go);
}

/** Where rank 1 says that it has closed all; handles are at the board's beginning. */
static volatile int *has_gone(void)
{
    return (volatile int *)((unsigned char *)world_board(1) + WORLD_BOARD / 2);
}

/** The other way round: what has been received is sent, whatever the receiver does then. */
static void receive_and_go(const struct world_rank *me, void *arg)
{
    enum {
        N = 8,
        SLOT = 100000
    };
    struct rig_link link = {.from = 0, .to = 1};
    unsigned char *data = allocate(N * SLOT);
    void *requests[N], *region, *comm;
    struct rig rig;
    int done = 0;

    (void)arg;
    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    comm = me->rank == 0 ? link.send : link.receive;
    region = rig_register(&rig, comm, data, N * SLOT);
    for (size_t i = 0; i < N; i++) {
        size_t bytes = i % 2 ? 700 : SLOT;
        unsigned char *slot = data + i * SLOT;
        requests[i] = me->rank == 0 ? rig_send(&rig, comm, slot, bytes, 0, region)
                                    : rig_receive(&rig, comm, slot, SLOT, 0, region);
    }
    while (me->rank == 0 && *has_gone() == 0) {
        if (done == 0) /* of all requests only the newest is looked at */
            MUST(plugin_test(rig.plugin, requests[N - 1], &done, NULL) == PLUGIN_OK, "test");
        world_turn("the receiver to go");
    }
    for (size_t i = 0; i < N - (done != 0); i++)
        rig_wait(&rig, requests[i], NULL, "a send whose receiver has gone");
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
    if (me->rank == 1)
        *has_gone() = 1;
    free(data);
}

/** Ends go as soon as their own requests are done, again and again, with more of them than cores.
 * What is small has come before its receive is posted, which then ends at once. */
static void come_and_go(const struct world_rank *me, void *arg)
{
    enum {
        TURNS = 25,
        N = 20,
        SLOT = 4000
    };
    unsigned char *data = allocate(2 * N * SLOT);
    struct rig_link links[WORLD_MAX];
    void *sends[N], *receives[N];
    struct rig rig;

    (void)arg;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        rig_begin(&rig, me);
        for (uint32_t i = 0; i < me->size; i++)
            links[i] = (struct rig_link){.from = i, .to = (i + 1) % me->size};
        rig_connect(&rig, links, me->size);
        void *send = links[me->rank].send;
        void *receive = links[(me->rank + me->size - 1) % me->size].receive;
        void *from = rig_register(&rig, send, data, N * SLOT);
        void *to = rig_register(&rig, receive, data + N * SLOT, N * SLOT);
        for (size_t i = 0; i < N; i++)
            sends[i] = rig_send(&rig, send, data + i * SLOT, SLOT - i, 0, from);
        if (turn % 2 == 0)
            world_meet();
        for (size_t i = 0; i < N; i++)
            receives[i] = rig_receive(&rig, receive, data + (N + i) * SLOT, SLOT, 0, to);
        for (size_t i = 0; i < N; i++)
            rig_wait(&rig, receives[i], NULL, "a receive before all goes");
        for (size_t i = 0; i < N; i++)
            rig_wait(&rig, sends[i], NULL, "a send whose receiver may have gone");
        rig_disconnect(&rig, links, me->size);
        rig_end(&rig);
    }
    free(data);
}

void sends_end_though_the_receiver_has_gone(void)
{
    world_run(&(struct world_job){.size = 2, .run = receive_and_go});
    world_run(&(struct world_job){.size = 7, .run = come_and_go});
}

/* ---- communicators and libraries ---- */

static struct rig add_communicator(const struct rig *rig, uint64_t comm_id)
{
    struct rig more = *rig;
    int result = plugin_init(more.plugin, comm_id, &more.ctx);
    MUST(result == PLUGIN_OK, "init of communicator %d: %d", (int)comm_id, result);
    return more;
}

static void count_communicators(const struct world_rank *me, void *arg)
{
    struct rig_link link = {.from = 0, .to = 1};
    struct flow_plan plan = {
        .seed = 61, .tags = 1, .count = 12, .depth = PLUGIN_STEPS, .largest = 100000};
    struct rig first, second, third;
    void *coll = NULL;

    (void)arg;
    rig_begin(&first, me);
    MUST(plugin_coll_init(first.plugin, 1, &coll) == PLUGIN_OK, "CollNet init"); /* as NCCL does */
    second = add_communicator(&first, 2);
    third = add_communicator(&first, 3);
    rig_connect(&third, &link, 1);
    use_once(&first, 0, 1, 62);
    use_once(&second, 1, 0, 63);
    MUST(plugin_finalize(second.plugin, second.ctx) == PLUGIN_OK, "finalize of the second");
    use_once(&first, 1, 0, 64);
    MUST(plugin_coll_finalize(first.plugin, coll) == PLUGIN_OK, "CollNet finalize");
    MUST(plugin_finalize(first.plugin, first.ctx) == PLUGIN_OK, "finalize of the first");
    struct flow *flow =
        flow_start(&third, &plan, me->rank == 0 ? link.send : link.receive, me->rank == 0);
    flow_run(&flow, 1); /* over a connection from before */
    second = add_communicator(&third, 4);
    use_once(&second, 0, 1, 65);
    rig_disconnect(&third, &link, 1);
    MUST(plugin_finalize(third.plugin, third.ctx) == PLUGIN_OK, "finalize of the third");
    use_once(&second, 1, 0, 66);
    rig_end(&second);
}

void communicators_are_counted(void)
{
    world_run(&(struct world_job){.size = 2, .run = count_communicators});
}

static unsigned count_entries(const char *path)
{
    DIR *directory = opendir(path);
    unsigned n = 0;

    if (directory == NULL)
        abort();
    while (readdir(directory) != NULL)
        n++;
    closedir(directory);
    return n;
}

static void *do_nothing(void *arg)
{
    return arg;
}

/** NCCL unloads the library with its last communicator: nothing of it may be left to run. */
static void load_again(const struct world_rank *me, void *arg)
{
    unsigned threads = UINT_MAX, descriptors = 0;
    pthread_t first;

    (void)arg;
    if (pthread_create(&first, NULL, do_nothing, NULL) !=
        0) /* a race detector adds its own to it */
        abort();
    pthread_join(first, NULL);
    for (int i = 0; i < 10; i++) { /* who has been joined may still be seen for a moment */
        unsigned now = rig_count_threads();
        threads = now < threads ? now : threads;
        usleep(5000);
    }
    for (int i = 0; i < 3; i++) {
        struct rig rig;
        rig_begin(&rig, me);
        use_once(&rig, 0, 1, 41);
        use_once(&rig, 1, 0, 42);
        rig_end(&rig);
        while (rig_count_threads() > threads)
            world_turn("threads of an unloaded plugin to end");
        if (i == 0)
            descriptors = count_entries("/proc/self/fd");
        CHECK(count_entries("/proc/self/fd") == descriptors, "load %d leaves %u descriptors more",
              i, count_entries("/proc/self/fd") - descriptors);
        world_meet();
    }
}

void library_is_loaded_again(void)
{
    world_run(&(struct world_job){.size = 2, .run = load_again});
}

static void load_twice(const struct world_rank *me, void *arg)
{
    struct rig first, second;

    (void)arg;
    rig_begin(&first, me);
    rig_begin_version(&second, me, rig_choice.version, 0xBEEF);
    use_once(&first, 0, 1, 43);
    use_once(&second, 0, 1, 44);
    rig_end(&first);
    use_once(&second, 1, 0, 45);
    rig_end(&second);
}

void library_is_loaded_twice(void)
{
    world_run(&(struct world_job){.size = 2, .run = load_twice});
}

static const int versions[] = {12, 8, 11};

static void work_side_by_side(const struct world_rank *me, void *arg)
{
    struct rig rigs[3];
    struct rig_link links[3];
    struct flow *flows[3];

    (void)arg;
    for (uint32_t i = 0; i < 3; i++) {
        struct flow_plan plan = {
            .seed = 70 + i, .tags = 3, .count = 30, .depth = PLUGIN_STEPS, .largest = 50000};
        rig_begin_version(&rigs[i], me, versions[i], i);
        links[i] = (struct rig_link){.from = 0, .to = 1};
        rig_connect(&rigs[i], &links[i], 1);
        flows[i] = flow_start(&rigs[i], &plan, me->rank == 0 ? links[i].send : links[i].receive,
                              me->rank == 0);
    }
    flow_run(flows, 3);
    for (uint32_t i = 0; i < 3; i++) {
        rig_disconnect(&rigs[i], &links[i], 1);
        rig_end(&rigs[i]);
    }
}

void versions_work_side_by_side(void)
{
    world_run(&(struct world_job){.size = 2, .run = work_side_by_side});
}

static void talk_across(const struct world_rank *me, void *arg)
{
    struct rig rig;

    (void)arg;
    rig_begin_version(&rig, me, versions[me->rank], 5);
    for (uint32_t r = 0; r < 3; r++)
        use_once(&rig, r, (r + 1) % 3, 80 + r);
    rig_end(&rig);
}

void versions_talk_to_each_other(void)
{
    world_run(&(struct world_job){.size = 3, .run = talk_across});
}

/* ---- death ---- */

#define VICTIM 1

struct traffic { /* of rank 0 with the one who dies */
    struct rig *rig;
    void *comm, *region, *data;
    bool sends;
    void *requests[PLUGIN_STEPS];
};

/** Post a request, or test it. @return what the plugin says */
static int go_on(struct traffic *t, uint32_t at)
{
    void **request = &t->requests[at];
    size_t room = MIB;
    int tag = 0, done = 0, result;

    if (*request == NULL && t->sends)
        return plugin_isend(t->rig->plugin, t->comm, t->data, MIB, 0, t->region, request);
    if (*request == NULL)
        return plugin_irecv(t->rig->plugin, t->comm, 1, &t->data, &room, &tag, &t->region, request);
    result = plugin_test(t->rig->plugin, *request, &done, NULL);
    MUST(done == 0 || t->sends, "a receive is done, and nothing was sent");
    if (done != 0)
        *request = NULL;
    return result;
}

/** As a proxy does until the plugin says what is wrong. @return what it says */
static int await_error(struct traffic *t)
{
    for (uint32_t turn = 0;; turn++) {
        if (turn == 4 * PLUGIN_STEPS)
            world_kill(VICTIM); /* with requests under way */
        int result = go_on(t, turn % PLUGIN_STEPS);
        if (result != PLUGIN_OK)
            return result;
        world_turn("the death of a peer to be told");
    }
}

static void outlive(const struct world_rank *me, void *arg)
{
    bool sends = *(const bool *)arg;
    struct rig_link link = {.from = sends ? 0 : VICTIM, .to = sends ? VICTIM : 0};
    unsigned char *data = allocate(MIB);
    struct rig rig;

    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    if (me->rank == VICTIM)
        for (;;)
            world_turn("its death");
    if (me->rank == 0) {
        struct traffic traffic = {
            .rig = &rig, .comm = sends ? link.send : link.receive, .data = data, .sends = sends};
        traffic.region = rig_register(&rig, traffic.comm, data, MIB);
        world_forget_log();
        int result = await_error(&traffic);
        CHECK(result == PLUGIN_REMOTE_ERROR, "of a dead peer the plugin says %d", result);
        for (uint32_t i = 0; i < PLUGIN_STEPS; i++)
            go_on(&traffic, i); /* other requests fail as well, and no more is said */
        CHECK(world_logged(PLUGIN_LOG_WARN, "") == 1, "%u lines tell of a dead peer",
              world_logged(PLUGIN_LOG_WARN, ""));
        rig_deregister(&rig, traffic.comm, traffic.region);
    }
    rig_disconnect(&rig, &link, 1);
    use_once(&rig, 0, 2, 91); /* who is alive goes on */
    use_once(&rig, 2, 0, 92);
    rig_end(&rig);
    free(data);
}

void dead_receiver_is_told(void)
{
    bool sends = true;
    world_run(&(struct world_job){.size = 3, .run = outlive, .arg = &sends, .doomed = 1 << VICTIM});
}

void dead_sender_is_told(void)
{
    bool sends = false;
    world_run(&(struct world_job){.size = 3, .run = outlive, .arg = &sends, .doomed = 1 << VICTIM});
}
