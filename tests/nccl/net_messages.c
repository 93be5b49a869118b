/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/flow.h"
#include "tests/nccl/net_cases.h"

#define MIB ((size_t)1 << 20)
#define UNTOUCHED 0x5C

static void *allocate(size_t bytes)
{
    void *data = malloc(bytes);
    if (data == NULL)
        abort();
    return memset(data, UNTOUCHED, bytes);
}

/** What a receive of that message must have brought. */
static void check_received(const void *data, size_t bytes, uint64_t seed, int size)
{
    size_t at = rig_differs(data, bytes, seed);
    CHECK(size == (int)bytes, "test says %d of %zu bytes", size, bytes);
    CHECK(at == bytes, "message %d: byte %zu of %zu differs", (int)seed, at, bytes);
}

/* ---- posting ---- */

#define UNASKED 12

/** The other end does nothing at all meanwhile. */
static void post_alone(struct rig *rig, void *comm)
{
    unsigned char *data = allocate(UNASKED * MIB);
    void *region = rig_register(rig, comm, data, UNASKED * MIB), *requests[UNASKED] = {NULL};
    int done = 0, sends = rig->me.rank == 0;

    for (int i = 0; i < UNASKED && sends; i++) {
        rig_fill(data + (size_t)i * MIB, MIB, (uint64_t)i);
        int result =
            plugin_isend(rig->plugin, comm, data + (size_t)i * MIB, MIB, 0, region, &requests[i]);
        MUST(result == PLUGIN_OK, "isend %d: %d", i, result);
        if (requests[i] == NULL)
            break; /* the next may not overtake it */
        if (i == 0)
            MUST(plugin_test(rig->plugin, requests[0], &done, NULL) == PLUGIN_OK, "test");
        if (done != 0)
            break;
    }
    world_meet();
    for (int i = done; i < UNASKED; i++) {
        unsigned char *at = data + (size_t)i * MIB;
        int size = -1;
        if (sends && requests[i] == NULL) {
            rig_fill(at, MIB, (uint64_t)i);
            requests[i] = rig_send(rig, comm, at, MIB, 0, region);
        } else if (!sends) {
            requests[i] = rig_receive(rig, comm, at, MIB, 0, region);
        }
        rig_wait(rig, requests[i], &size, "a message posted alone");
        if (!sends)
            check_received(at, MIB, (uint64_t)i, size);
    }
    free(data);
}

static void receive_alone(struct rig *rig, void *comm)
{
    unsigned char data[100];
    void *region = rig_register(rig, comm, data, sizeof(data)), *request = NULL;
    int done = 0, size = -1;

    if (rig->me.rank == 1)
        request = rig_receive(rig, comm, data, sizeof(data), 0, region);
    for (int i = 0; i < 200 && rig->me.rank == 1; i++) {
        int result = plugin_test(rig->plugin, request, &done, &size);
        MUST(result == PLUGIN_OK && done == 0, "nothing is sent: test %d, done %d", result, done);
    }
    world_meet();
    if (rig->me.rank == 0) {
        rig_fill(data, sizeof(data), 1);
        request = rig_send(rig, comm, data, sizeof(data), 0, region);
    }
    rig_wait(rig, request, &size, "a message received alone");
    check_received(data, sizeof(data), 1, size);
}

void posting_never_blocks(void)
{
    rig_run_pair(post_alone);
    rig_run_pair(receive_alone);
}

static void send_small(struct rig *rig, void *comm)
{
    static const size_t sizes[] = {1, 8, 0, 1000, 1024, 4096, 37, 512};
    enum {
        N = sizeof(sizes) / sizeof(sizes[0]),
        SLOT = 4096
    };
    unsigned char *data = allocate(N * SLOT);
    void *region = rig_register(rig, comm, data, N * SLOT), *requests[N];

    for (size_t i = 0; i < N && rig->me.rank == 0; i++) {
        rig_fill(data + i * SLOT, sizes[i], i);
        requests[i] = rig_send(rig, comm, data + i * SLOT, sizes[i], 0, region);
    }
    world_meet(); /* only now are there receives */
    for (size_t i = 0; i < N; i++) {
        int size = -1;
        if (rig->me.rank == 1)
            requests[i] = rig_receive(rig, comm, data + i * SLOT, SLOT, 0, region);
        rig_wait(rig, requests[i], &size, "a small message");
        check_received(data + i * SLOT, sizes[i], i, size);
    }
    free(data);
}

void small_sends_need_no_receive(void)
{
    rig_run_pair(send_small);
}

/** 32 requests of the receiver, each of as many buffers as it groups; nobody tests until all are
 * posted. */
static void fill_all(struct rig *rig, void *comm)
{
    enum {
        SLOT = 512
    };
    struct plugin_properties properties;
    MUST(plugin_get_properties(rig->plugin, rig->device, &properties) == PLUGIN_OK, "properties");
    int group =
        properties.max_receives < PLUGIN_GROUP_MAX ? properties.max_receives : PLUGIN_GROUP_MAX;
    size_t n = (size_t)PLUGIN_REQUESTS * (size_t)group;
    unsigned char *data = allocate(n * SLOT);
    void *region = rig_register(rig, comm, data, n * SLOT);
    void *requests[PLUGIN_REQUESTS * PLUGIN_GROUP_MAX];
    int tags[PLUGIN_GROUP_MAX], sizes[PLUGIN_GROUP_MAX];

    for (int r = 0; r < PLUGIN_REQUESTS && rig->me.rank == 1; r++) {
        void *slots[PLUGIN_GROUP_MAX];
        size_t rooms[PLUGIN_GROUP_MAX];
        for (int g = 0; g < group; g++) {
            slots[g] = data + (size_t)(r * group + g) * SLOT;
            rooms[g] = SLOT;
            tags[g] = g;
        }
        requests[r] = rig_receive_group(rig, comm, group, slots, rooms, tags, region);
    }
    world_meet();
    for (size_t i = 0; i < n && rig->me.rank == 0;
         i++) { /* of a group in another order each time */
        size_t r = i / (size_t)group, g = (i * 5 + r) % (size_t)group;
        if (group % 5 == 0)
            g = i % (size_t)group;
        unsigned char *at = data + (r * (size_t)group + g) * SLOT;
        rig_fill(at, SLOT, r * (size_t)group + g);
        requests[i] = rig_send(rig, comm, at, SLOT, (int)g, region);
    }
    for (size_t i = rig->me.rank == 0 ? n : PLUGIN_REQUESTS; i-- > 0;) {
        rig_wait(rig, requests[i], sizes, "one of all requests");
        for (int g = 0; g < group && rig->me.rank == 1; g++) {
            size_t slot = i * (size_t)group + (size_t)g;
            check_received(data + slot * SLOT, SLOT, slot, sizes[g]);
        }
    }
    free(data);
}

void grouped_receives_fill_all_requests(void)
{
    rig_run_pair(fill_all);
}

/** A caller that is refused asks again, and calls nothing else: what was taken has to move by that.
 * Receives come one by one, each when the one before has ended. */
static void only_send(struct rig *rig, void *comm)
{
    enum {
        N = 6
    };
    const size_t bytes = 4 * MIB;
    unsigned char *data = allocate(N * bytes);
    void *region = rig_register(rig, comm, data, N * bytes), *requests[N];

    for (size_t i = 0; i < N; i++) {
        unsigned char *at = data + i * bytes;
        int size = -1;
        if (rig->me.rank == 0) {
            rig_fill(at, bytes, i);
            requests[i] = rig_send(rig, comm, at, bytes, 0, region);
        } else {
            rig_wait(rig, rig_receive(rig, comm, at, bytes, 0, region), &size,
                     "a message whose sender only sends");
            check_received(at, bytes, i, size);
        }
    }
    for (size_t i = 0; i < N && rig->me.rank == 0; i++)
        rig_wait(rig, requests[i], NULL, "a send");
    free(data);
}

void refused_sends_make_progress(void)
{
    rig_run_pair(only_send);
}

/* ---- which message goes where ---- */

/** Three groups of the tags A, B, C. The sender has all of C's messages first, and is refused where
 * the head has no slot for the next of them; then the others in turn. */
static void pick_slots(struct rig *rig, void *comm, size_t bytes)
{
    enum {
        GROUPS = 3,
        TAGS = 3
    };
    static const int order[TAGS] = {2, 0, 1};
    int tags[TAGS] = {40, 7, 0x7FFFFFFF}, sizes[PLUGIN_GROUP_MAX];
    unsigned char *data = allocate(GROUPS * TAGS * bytes);
    void *region = rig_register(rig, comm, data, GROUPS * TAGS * bytes);
    void *requests[GROUPS * TAGS] = {NULL}, *slots[TAGS];
    size_t rooms[TAGS] = {bytes, bytes, bytes};

    for (int g = 0; g < GROUPS && rig->me.rank == 1; g++) {
        for (int t = 0; t < TAGS; t++)
            slots[t] = data + (size_t)(g * TAGS + t) * bytes;
        requests[g] = rig_receive_group(rig, comm, TAGS, slots, rooms, tags, region);
    }
    world_meet();
    for (int next[TAGS] = {0}, left = rig->me.rank == 0 ? GROUPS * TAGS : 0; left > 0;) {
        int before = left;
        for (int i = 0; i < TAGS; i++) {
            int t = order[i], g = next[t];
            if (g == GROUPS)
                continue;
            unsigned char *at = data + (size_t)(g * TAGS + t) * bytes;
            void **request = &requests[g * TAGS + t];
            rig_fill(at, bytes, (uint64_t)(g * TAGS + t));
            MUST(plugin_isend(rig->plugin, comm, at, bytes, tags[t], region, request) == PLUGIN_OK,
                 "isend");
            next[t] += *request != NULL;
            left -= *request != NULL;
            i -= *request != NULL; /* as many of one tag as it takes */
        }
        if (before == left)
            world_turn("isend to take one of three tags");
    }
    for (int i = 0; i < (rig->me.rank == 0 ? GROUPS * TAGS : GROUPS); i++) {
        rig_wait(rig, requests[i], sizes, "a group of tags");
        for (int t = 0; t < TAGS && rig->me.rank == 1; t++) {
            uint64_t seed = (uint64_t)(i * TAGS + t);
            check_received(data + seed * bytes, bytes, seed, sizes[t]);
        }
    }
    rig_deregister(rig, comm, region);
    free(data);
}

static void pick_slots_of_sizes(struct rig *rig, void *comm)
{
    pick_slots(rig, comm, 100);
    pick_slots(rig, comm, MIB);
}

void tags_pick_slots_of_the_head(void)
{
    rig_run_pair(pick_slots_of_sizes);
}

static void run_flow(struct rig *rig, void *comm, const struct flow_plan *plan)
{
    struct flow *flow = flow_start(rig, plan, comm, rig->me.rank == 0);
    flow_run(&flow, 1);
}

static void use_equal_tags(struct rig *rig, void *comm)
{
    struct flow_plan plan = {
        .seed = 77, .tags = 4, .count = 40, .depth = 8, .largest = 30000, .same_tags = true};
    run_flow(rig, comm, &plan);
}

void equal_tags_fill_slots_in_order(void)
{
    rig_run_pair(use_equal_tags);
}

static void send_in_order(struct rig *rig, void *comm)
{
    struct flow_plan small = {.seed = 3,
                              .tags = 1,
                              .count = 1000,
                              .depth = PLUGIN_REQUESTS,
                              .largest = 64,
                              .same_sizes = true};
    struct flow_plan mixed = {
        .seed = 4, .tags = 1, .count = 200, .depth = PLUGIN_REQUESTS, .largest = 100000};
    run_flow(rig, comm, &small);
    run_flow(rig, comm, &mixed); /* small ones may not overtake large ones */
}

void messages_keep_their_order(void)
{
    rig_run_pair(send_in_order);
}

/* ---- sizes ---- */

static void receive_larger(struct rig *rig, void *comm)
{
    static const size_t sent[] = {1, 100, 8192, 8193, 100000, MIB};
    unsigned char *data = allocate(2 * MIB);
    void *region = rig_register(rig, comm, data, 2 * MIB);

    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
        int size = -1;
        size_t at = sent[i];
        memset(data, UNTOUCHED, 2 * MIB);
        if (rig->me.rank == 0)
            rig_fill(data, sent[i], i);
        rig_wait(rig,
                 rig->me.rank == 0 ? rig_send(rig, comm, data, sent[i], 1, region)
                                   : rig_receive(rig, comm, data, 2 * MIB, 1, region),
                 &size, "a message with room to spare");
        check_received(data, sent[i], i, size);
        while (at < 2 * MIB && data[at] == UNTOUCHED)
            at++;
        CHECK(at == 2 * MIB, "of %zu bytes, and byte %zu is written", sent[i], at);
    }
    free(data);
}

void receives_may_be_larger(void)
{
    rig_run_pair(receive_larger);
}

static int send_oversized(struct rig *rig, void *comm, void *data, size_t bytes, void *region)
{
    void *request = NULL;

    while (request == NULL) {
        int result = plugin_isend(rig->plugin, comm, data, bytes, 0, region, &request);
        if (result != PLUGIN_OK)
            return result;
        if (request == NULL)
            world_turn("isend to take or refuse %zu bytes", bytes);
    }
    return rig_finish(rig, request, NULL, "an oversized send to fail");
}

static void oversize(struct rig *rig, void *comm, size_t sent, size_t room)
{
    unsigned char *data = allocate(sent);
    void *region = rig_register(rig, comm, data, sent);

    if (rig->me.rank == 0) {
        int result = send_oversized(rig, comm, data, sent, region);
        CHECK(result != PLUGIN_OK, "%zu bytes are sent to %zu", sent, room);
    } else {
        void *request = rig_receive(rig, comm, data, room, 0, region);
        int size = -1, result = rig_finish(rig, request, &size, "an oversized message to fail");
        CHECK(result != PLUGIN_OK, "%zu bytes come to %zu, and test says %d", sent, room, size);
        for (size_t at = room; at < sent; at++)
            if (data[at] != UNTOUCHED) {
                CHECK(false, "byte %zu behind the room is written", at - room);
                break;
            }
    }
    world_meet();
    free(data);
}

static void oversize_small(struct rig *rig, void *comm)
{
    oversize(rig, comm, 101, 100);
}

static void oversize_large(struct rig *rig, void *comm)
{
    oversize(rig, comm, MIB + 1, MIB);
}

static void oversize_by_far(struct rig *rig, void *comm)
{
    oversize(rig, comm, 3 * MIB, 0);
}

void larger_sends_fail_at_both_ends(void)
{
    rig_run_pair(oversize_small);
    rig_run_pair(oversize_large);
    rig_run_pair(oversize_by_far);
}

static void send_nothing(struct rig *rig, void *comm)
{
    unsigned char data[64];
    void *region = rig_register(rig, comm, data, sizeof(data));

    for (size_t i = 0; i < 40; i++) { /* into no room, into some, and between others */
        size_t bytes = i % 3 == 2 ? 32 : 0, room = i % 3 == 0 ? 0 : sizeof(data);
        int size = -1;
        memset(data, UNTOUCHED, sizeof(data));
        if (rig->me.rank == 0)
            rig_fill(data, bytes, i);
        rig_wait(rig,
                 rig->me.rank == 0 ? rig_send(rig, comm, data, bytes, 0, region)
                                   : rig_receive(rig, comm, data, room, 0, region),
                 &size, "a message of zero bytes");
        check_received(data, bytes, i, size);
        CHECK(data[bytes] == UNTOUCHED, "message %zu wrote something", i);
    }
}

void messages_of_zero_bytes(void)
{
    rig_run_pair(send_nothing);
}

/* ---- requests ---- */

static void test_any_order(struct rig *rig, void *comm)
{
    static const enum flow_order orders[] = {FLOW_NEWEST, FLOW_RANDOM};

    for (uint32_t i = 0; i < 4; i++) {
        struct flow_plan plan = {.seed = 50 + i,
                                 .tags = i < 2 ? 1 : 3,
                                 .count = 100,
                                 .depth = i < 2 ? PLUGIN_REQUESTS : PLUGIN_STEPS,
                                 .largest = 40000,
                                 .no_sizes = true,
                                 .order = orders[i % 2]};
        run_flow(rig, comm, &plan);
    }
}

/** The newest of some is waited for first, and none of the others is looked at. */
static void test_newest_alone(struct rig *rig, void *comm)
{
    enum {
        N = 16
    };
    const size_t bytes = 200000;
    unsigned char *data = allocate(N * bytes);
    void *region = rig_register(rig, comm, data, N * bytes), *requests[N];

    for (size_t i = 0; i < N; i++) {
        unsigned char *at = data + i * bytes;
        if (rig->me.rank == 0)
            rig_fill(at, bytes, i);
        requests[i] = rig->me.rank == 0 ? rig_send(rig, comm, at, bytes, 0, region)
                                        : rig_receive(rig, comm, at, bytes, 0, region);
    }
    for (size_t i = N; i-- > 0;) {
        int size = (int)bytes;
        rig_wait(rig, requests[i], i % 2 ? &size : NULL, "the newest request");
        check_received(data + i * bytes, bytes, i, size);
    }
    free(data);
}

void requests_are_tested_in_any_order(void)
{
    rig_run_pair(test_newest_alone);
    rig_run_pair(test_any_order);
}

/** NCCL then looks at flags in the data itself. */
static void complete_early(struct rig *rig, void *comm)
{
    enum {
        N = 10,
        SLOT = 5000
    };
    unsigned char *data = allocate(N * SLOT);
    void *region = rig_register(rig, comm, data, N * SLOT), *requests[N];
    size_t room = SLOT;
    int tag = 0;

    for (size_t i = 0; i < N; i++) {
        void *slot = data + i * SLOT;
        if (rig->me.rank == 0) {
            rig_fill(slot, SLOT, i);
            requests[i] = rig_send(rig, comm, slot, SLOT, 0, region);
            continue;
        }
        do { /* the last one is an ordinary one: it ends when all before are here */
            requests[i] = i < N - 1 ? PLUGIN_OPTIONAL : NULL;
            int result =
                plugin_irecv(rig->plugin, comm, 1, &slot, &room, &tag, &region, &requests[i]);
            MUST(result == PLUGIN_OK, "irecv: %d", result);
            MUST(requests[i] != PLUGIN_OPTIONAL, "the request is the mark that was put there");
            if (requests[i] == NULL)
                world_turn("irecv to take an optional one");
        } while (requests[i] == NULL);
    }
    for (size_t i = 0; i < N; i++)
        rig_wait(rig, requests[i], NULL, "a receive with optional completion");
    for (size_t i = 0; i < N; i++)
        check_received(data + i * SLOT, SLOT, i, SLOT);
    free(data);
}

void completion_may_be_optional(void)
{
    rig_run_pair(complete_early);
}

static void flush(struct rig *rig, void *comm)
{
    enum {
        SLOT = 20000
    };
    unsigned char *data = allocate(2 * SLOT);
    void *region = rig_register(rig, comm, data, 2 * SLOT), *regions[] = {region, region};
    void *slots[] = {data, data + SLOT}, *request = NULL;
    size_t rooms[] = {SLOT, SLOT};
    int tags[] = {0, 1}, sizes[2] = {SLOT, SLOT};

    for (size_t turn = 0; turn < 50; turn++) { /* a request that is lost is felt in the end */
        if (rig->me.rank == 0) {
            for (int i = 0; i < 2; i++) {
                rig_fill(slots[i], SLOT, turn * 2 + (size_t)i);
                rig_wait(rig, rig_send(rig, comm, slots[i], SLOT, i, region), NULL, "a send");
            }
            continue;
        }
        rig_wait(rig, rig_receive_group(rig, comm, 2, slots, rooms, tags, region), sizes,
                 "a receive");
        request = NULL;
        int result = plugin_iflush(rig->plugin, comm, 2, slots, sizes, regions, &request);
        MUST(result == PLUGIN_OK, "iflush: %d", result);
        if (request != NULL)
            rig_wait(rig, request, NULL, "a flush");
        check_received(slots[1], SLOT, turn * 2 + 1, sizes[1]);
    }
    free(data);
}

void flush_comes_to_an_end(void)
{
    rig_run_pair(flush);
}

static void leave_alone(struct rig *rig, void *comm)
{
    static const size_t sizes[] = {100, 9000, MIB};
    unsigned char *data = allocate(MIB);
    void *region = rig_register(rig, comm, data, MIB);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (rig->me.rank == 0)
            rig_fill(data, sizes[i], i);
        rig_wait(rig,
                 rig->me.rank == 0 ? rig_send(rig, comm, data, sizes[i], 0, region)
                                   : rig_receive(rig, comm, data, MIB, 0, region),
                 NULL, "a message");
        if (rig->me.rank == 0)
            CHECK(rig_differs(data, sizes[i], i) == sizes[i], "a send changes what it sends");
    }
    free(data);
}

void what_is_sent_is_left_alone(void)
{
    rig_run_pair(leave_alone);
}
