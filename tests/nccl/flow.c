/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/flow.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define FIRST_TAG 7 /* tags are ranks in NCCL: any number */
#define AFTER 64    /* bytes behind a slot's message that are looked at */
#define UNTOUCHED 0xA7

struct message {
    void *request;
    bool done;
};

/** Of one tag on the sending side; on the receiving side one stands for all tags. */
struct line {
    uint32_t posted, ended; /* all before are done */
    struct message messages[FLOW_DEPTH_MAX];
};

struct flow {
    struct rig *rig;
    struct flow_plan plan;
    void *comm, *region;
    bool sends;
    uint32_t random;
    size_t slot_bytes;
    unsigned char *data; /* [tags][depth][slot_bytes] */
    struct line lines[PLUGIN_GROUP_MAX];
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

static uint64_t hash_of(const struct flow_plan *plan, uint32_t tag, uint32_t number)
{
    return mix(mix(plan->seed * 0x9E3779B97F4A7C15u + tag) + number);
}

size_t flow_bytes(const struct flow_plan *plan, uint32_t tag, uint32_t number)
{
    uint64_t hash = hash_of(plan, tag, number);
    unsigned shifts = 0;

    if (plan->same_sizes || hash % 16 == 1)
        return plan->largest;
    if (hash % 16 == 0)
        return 0;
    while (plan->largest >> shifts != 0)
        shifts++;
    size_t limit = (size_t)1 << (hash >> 8) % (shifts + 1); /* as many small ones as large */
    size_t bytes = 1 + (hash >> 20) % limit;
    return bytes < plan->largest ? bytes : plan->largest;
}

/** What a receiver has room for: now and then no more than that, else more. */
static size_t room_of(const struct flow *flow, uint32_t tag, uint32_t number)
{
    size_t bytes = flow_bytes(&flow->plan, tag, number);
    uint64_t hash = mix(hash_of(&flow->plan, tag, number));

    return hash % 3 == 0 ? bytes : bytes + (hash >> 8) % (flow->plan.largest - bytes + 1);
}

static int tag_of(const struct flow *flow, uint32_t tag)
{
    return flow->plan.same_tags ? FIRST_TAG : FIRST_TAG + (int)tag;
}

static unsigned char *slot_of(struct flow *flow, uint32_t tag, uint32_t number)
{
    const size_t slot = (size_t)tag * flow->plan.depth + number % flow->plan.depth;
    return flow->data + slot * flow->slot_bytes;
}

struct flow *flow_start(struct rig *rig, const struct flow_plan *plan, void *comm, bool sends)
{
    struct flow *flow = calloc(1, sizeof(*flow));
    size_t slots = (size_t)plan->tags * plan->depth;

    if (flow == NULL)
        abort();
    flow->rig = rig;
    flow->plan = *plan;
    flow->comm = comm;
    flow->sends = sends;
    flow->random = (plan->seed * 2654435761u + sends) | 1;
    flow->slot_bytes = (plan->largest + AFTER + 63) / 64 * 64;
    flow->data = malloc(slots * flow->slot_bytes);
    if (flow->data == NULL)
        abort();
    flow->region = rig_register(rig, comm, flow->data, slots * flow->slot_bytes);
    return flow;
}

static bool is_posted_whole(const struct flow *flow, const struct line *line)
{
    return line->posted == flow->plan.count;
}

static bool has_free_slot(const struct flow *flow, const struct line *line)
{
    return !is_posted_whole(flow, line) && line->posted - line->ended < flow->plan.depth;
}

/** @return whether the plugin took it */
static bool post_send(struct flow *flow, uint32_t tag)
{
    struct line *line = &flow->lines[tag];
    uint32_t number = line->posted;
    struct message *message = &line->messages[number % flow->plan.depth];
    size_t bytes = flow_bytes(&flow->plan, tag, number);
    unsigned char *slot = slot_of(flow, tag, number);

    rig_fill(slot, bytes, hash_of(&flow->plan, tag, number));
    *message = (struct message){NULL, false};
    int result = plugin_isend(flow->rig->plugin, flow->comm, slot, bytes, tag_of(flow, tag),
                              flow->region, &message->request);
    MUST(result == PLUGIN_OK, "isend of message %u, tag %u: %d", number, tag, result);
    if (message->request == NULL)
        return false;
    line->posted++;
    return true;
}

static bool post_receive(struct flow *flow)
{
    struct line *line = &flow->lines[0];
    uint32_t number = line->posted;
    struct message *message = &line->messages[number % flow->plan.depth];
    void *data[PLUGIN_GROUP_MAX], *regions[PLUGIN_GROUP_MAX];
    size_t rooms[PLUGIN_GROUP_MAX];
    int tags[PLUGIN_GROUP_MAX];

    for (uint32_t tag = 0; tag < flow->plan.tags; tag++) {
        data[tag] = slot_of(flow, tag, number);
        rooms[tag] = room_of(flow, tag, number);
        tags[tag] = tag_of(flow, tag);
        regions[tag] = flow->region;
        size_t bytes = flow_bytes(&flow->plan, tag, number);
        memset((unsigned char *)data[tag] + bytes, UNTOUCHED, AFTER);
    }
    *message = (struct message){NULL, false};
    int result = plugin_irecv(flow->rig->plugin, flow->comm, (int)flow->plan.tags, data, rooms,
                              tags, regions, &message->request);
    MUST(result == PLUGIN_OK, "irecv of message %u: %d", number, result);
    if (message->request == NULL)
        return false;
    line->posted++;
    return true;
}

/** Of one tag's message, which has come. @param size  what test said; -2: it was not asked */
static void check_message(struct flow *flow, uint32_t tag, uint32_t number, int size)
{
    const unsigned char *slot = slot_of(flow, tag, number);
    size_t bytes = flow_bytes(&flow->plan, tag, number), after = 0;
    size_t at = rig_differs(slot, bytes, hash_of(&flow->plan, tag, number));

    CHECK(size == -2 || size == (int)bytes, "message %u, tag %u: of %zu bytes test says %d", number,
          tag, bytes, size);
    CHECK(at == bytes, "message %u, tag %u: byte %zu of %zu differs", number, tag, at, bytes);
    while (after < AFTER && slot[bytes + after] == UNTOUCHED)
        after++;
    CHECK(after == AFTER, "message %u, tag %u: of %zu bytes, and byte %zu behind is written",
          number, tag, bytes, after);
}

/** Test one request. @return whether it is done now */
static bool test_message(struct flow *flow, uint32_t tag, uint32_t number)
{
    struct line *line = &flow->lines[tag];
    struct message *message = &line->messages[number % flow->plan.depth];
    int sizes[PLUGIN_GROUP_MAX], done = 0;
    bool ask = !flow->plan.no_sizes || wring_test_random(&flow->random) % 2 == 0;

    for (int i = 0; i < PLUGIN_GROUP_MAX; i++)
        sizes[i] = ask ? -1 : -2;
    int result = plugin_test(flow->rig->plugin, message->request, &done, ask ? sizes : NULL);
    MUST(result == PLUGIN_OK, "test of message %u: %d", number, result);
    if (done == 0)
        return false;
    message->done = true;
    for (uint32_t i = 0; i < flow->plan.tags && !flow->sends; i++)
        check_message(flow, i, number, sizes[i]);
    if (flow->sends && ask) {
        size_t bytes = flow_bytes(&flow->plan, tag, number);
        CHECK(sizes[0] == (int)bytes, "message %u, tag %u: sent %zu bytes, test says %d", number,
              tag, bytes, sizes[0]);
    }
    while (line->ended < line->posted && line->messages[line->ended % flow->plan.depth].done)
        line->ended++;
    return true;
}

/** Which request is tested next; those that are done are passed over. */
static uint32_t choose(struct flow *flow, const struct line *line)
{
    uint32_t open = line->posted - line->ended, at = 0;

    if (flow->plan.order == FLOW_NEWEST)
        at = open - 1;
    else if (flow->plan.order == FLOW_RANDOM)
        at = wring_test_random(&flow->random) % open;
    for (uint32_t i = 0; i < open; i++) {
        uint32_t number = line->ended + (at + open - i % open) % open;
        if (!line->messages[number % flow->plan.depth].done)
            return number;
    }
    return line->ended; /* is never done */
}

/** In another order, every request of the lane once. @return whether any ended */
static bool test_line(struct flow *flow, uint32_t tag)
{
    struct line *line = &flow->lines[tag];
    uint32_t tries = flow->plan.order == FLOW_OLDEST ? 1 : line->posted - line->ended;
    bool moved = false;

    for (; tries > 0 && line->ended < line->posted; tries--)
        moved |= test_message(flow, tag, choose(flow, line));
    return moved;
}

bool flow_advance(struct flow *flow)
{
    uint32_t lines = flow->sends ? flow->plan.tags : 1;
    uint32_t first = wring_test_random(&flow->random) % lines;
    bool moved = false;

    for (uint32_t i = 0; i < lines; i++) {
        uint32_t tag = (first + i) % lines;
        if (flow->plan.same_tags && tag > 0 &&
            flow->lines[tag].posted >= flow->lines[tag - 1].posted)
            continue; /* one after the other, as their order is all that tells them apart */
        if (flow->plan.same_tags && tag == 0 &&
            flow->lines[0].posted > flow->lines[lines - 1].posted)
            continue;
        if (has_free_slot(flow, &flow->lines[tag]))
            moved |= flow->sends ? post_send(flow, tag) : post_receive(flow);
    }
    for (uint32_t i = 0; i < lines; i++)
        moved |= test_line(flow, (first + i) % lines);
    return moved;
}

bool flow_is_done(const struct flow *flow)
{
    uint32_t lines = flow->sends ? flow->plan.tags : 1;

    for (uint32_t tag = 0; tag < lines; tag++)
        if (flow->lines[tag].ended < flow->plan.count)
            return false;
    return true;
}

void flow_end(struct flow *flow)
{
    if (flow == NULL)
        return;
    rig_deregister(flow->rig, flow->comm, flow->region);
    free(flow->data);
    free(flow);
}

void flow_run(struct flow **flows, uint32_t n)
{
    for (bool open = true; open;) {
        bool moved = false;
        open = false;
        for (uint32_t i = 0; i < n; i++) {
            if (flows[i] == NULL || flow_is_done(flows[i]))
                continue;
            open = true;
            moved |= flow_advance(flows[i]);
        }
        if (moved)
            world_moved();
        else if (open)
            world_turn("messages of %u streams", n);
    }
    for (uint32_t i = 0; i < n; i++)
        flow_end(flows[i]);
}
