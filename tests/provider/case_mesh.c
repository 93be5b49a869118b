/* SPDX-License-Identifier: Apache-2.0 */
/** Several instances, each connected to all others, all putting to all at once. */
#include "tests/provider/ends.h"

#include "base/log.h"
#include "transport/memory.h"

#define NODES 4
#define TURNS 60
#define SLOT_BYTES 3001 /* of one put; every put has a slot of its own */
#define SPACE ((size_t)NODES * TURNS * SLOT_BYTES)

struct node;

/** What one node knows of another. */
struct link {
    struct node *node; /* whose it is */
    unsigned other;
    struct wring_conn *conn;
    struct wring_remote *remote;
    unsigned posted, done, arrived;
};

struct node {
    unsigned index;
    struct wring_provider *provider;
    struct wring_memory source, target;
    struct wring_region *source_region, *target_region;
    struct link links[NODES];
    unsigned up, wrong;
};

static uint32_t seed_of(unsigned from, unsigned to, unsigned turn)
{
    return (from * NODES + to) * TURNS + turn;
}

/** A slot: in the source by receiver, in the target by sender. */
static size_t slot_of(unsigned other, unsigned turn)
{
    return ((size_t)other * TURNS + turn) * SLOT_BYTES;
}

static size_t bytes_of(uint32_t seed)
{
    return (seed * 2654435761u) % (SLOT_BYTES + 1);
}

static bool node_open(struct node *node, unsigned index)
{
    static const struct wring_log quiet = {NULL, NULL, WRING_LOG_WARN};
    const struct wring_provider_params params = {.log = &quiet, .secret = {1}};
    *node = (struct node){.index = index};
    for (unsigned i = 0; i < NODES; i++)
        node->links[i] = (struct link){.node = node, .other = i};
    if (ends_driver()->open(&params, &node->provider) != WRING_OK ||
        wring_memory_alloc(SPACE, &node->source) != WRING_OK ||
        wring_memory_alloc(SPACE, &node->target) != WRING_OK)
        return false;
    for (unsigned to = 0; to < NODES; to++)
        for (unsigned turn = 0; turn < TURNS; turn++)
            fill_pattern((uint8_t *)node->source.base + slot_of(to, turn), SLOT_BYTES,
                         seed_of(index, to, turn));
    const struct wring_provider_ops *ops = node->provider->ops;
    return ops->region_create(node->provider, &node->source, &node->source_region) == WRING_OK &&
           ops->region_create(node->provider, &node->target, &node->target_region) == WRING_OK;
}

static void node_close(struct node *node)
{
    const struct wring_provider_ops *ops = node->provider->ops;
    for (unsigned i = 0; i < NODES; i++)
        ops->remote_release(node->links[i].remote);
    ops->close(node->provider);
    wring_memory_free(&node->source);
    wring_memory_free(&node->target);
}

static void take_up(struct node *node, const struct wring_event *event)
{
    unsigned other = node->index; /* nobody */
    if (event->kind == WRING_EVENT_CONNECTED)
        other = ((struct link *)event->conn->user)->other;
    else if (event->bytes == 1)
        other = *(const uint8_t *)event->data;
    REQUIRE(other < NODES && other != node->index, "a stranger");
    node->links[other].conn = event->conn;
    event->conn->user = &node->links[other];
    node->up++;
}

static void take_arrival(struct link *link, const struct wring_event *event)
{
    const struct node *node = link->node;
    uint32_t seed = seed_of(link->other, node->index, event->imm);
    const uint8_t *at = (uint8_t *)node->target.base + slot_of(link->other, event->imm);
    CHECK(event->imm == link->arrived, "%u from %u to %u, not %u", event->imm, link->other,
          node->index, link->arrived);
    link->node->wrong += event->bytes != bytes_of(seed) || !has_pattern(at, event->bytes, seed) ||
                         !is_all(at + event->bytes, SLOT_BYTES - event->bytes, 0);
    link->arrived++;
}

static void node_turn(struct node *node)
{
    struct wring_event events[5];
    size_t n = node->provider->ops->poll(node->provider, events, 5);
    for (size_t i = 0; i < n; i++) {
        struct link *link = events[i].conn->user;
        switch (events[i].kind) {
        case WRING_EVENT_CONNECTED:
        case WRING_EVENT_ACCEPTED:
            take_up(node, &events[i]);
            break;
        case WRING_EVENT_PUT_DONE:
            CHECK(events[i].cookie == link->done, "cookie");
            link->done++;
            break;
        case WRING_EVENT_ARRIVED:
            take_arrival(link, &events[i]);
            break;
        default:
            CHECK(false, "node %u: event %d of %u", node->index, events[i].kind, link->other);
        }
    }
}

static bool connect_all(struct node nodes[NODES])
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    for (unsigned to = 0; to < NODES; to++) {
        uint8_t address[WRING_ADDRESS_MAX];
        size_t n;
        const struct wring_provider_ops *ops = nodes[to].provider->ops;
        if (ops->listen(nodes[to].provider, address, &n) != WRING_OK)
            return false;
        for (unsigned from = to + 1; from < NODES; from++) {
            uint8_t hello = (uint8_t)from;
            struct wring_conn *conn;
            if (ops->connect(nodes[from].provider, address, n, &hello, 1, &conn) != WRING_OK)
                return false;
            conn->user = &nodes[from].links[to];
        }
    }
    unsigned up = 0;
    while (up < NODES * (NODES - 1) && wring_now_ns() < limit) {
        up = 0;
        for (unsigned i = 0; i < NODES; i++) {
            node_turn(&nodes[i]);
            up += nodes[i].up;
        }
    }
    return up == NODES * (NODES - 1);
}

static bool import_all(struct node nodes[NODES])
{
    for (unsigned at = 0; at < NODES; at++)
        for (unsigned of = 0; of < NODES; of++) {
            uint8_t key[WRING_REGION_KEY_MAX];
            struct link *link = &nodes[at].links[of];
            if (at == of)
                continue;
            size_t n = nodes[of].provider->ops->region_export(nodes[of].target_region, key);
            if (link->conn->provider->ops->remote_import(link->conn, key, n, &link->remote) !=
                WRING_OK)
                return false;
        }
    return true;
}

/** Post what can be posted to everyone, in turn. */
static void post_some(struct node *node)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct link *link = &node->links[i];
        if (i == node->index || link->posted == TURNS)
            continue;
        uint32_t seed = seed_of(node->index, i, link->posted);
        const uint8_t *source = (uint8_t *)node->source.base + slot_of(i, link->posted);
        enum wring_status status = link->conn->provider->ops->put(
            link->conn, node->source_region, source, link->remote,
            slot_of(node->index, link->posted), bytes_of(seed), link->posted, link->posted);
        CHECK(status == WRING_OK || status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
        link->posted += status == WRING_OK;
    }
}

static bool all_done(const struct node nodes[NODES])
{
    for (unsigned i = 0; i < NODES; i++)
        for (unsigned j = 0; j < NODES; j++)
            if (i != j && (nodes[i].links[j].done < TURNS || nodes[i].links[j].arrived < TURNS))
                return false;
    return true;
}

static void send_all(struct node nodes[NODES])
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    REQUIRE(connect_all(nodes) && import_all(nodes), "no mesh of %s", ends_name());
    while (!all_done(nodes) && wring_now_ns() < limit)
        for (unsigned i = 0; i < NODES; i++) {
            post_some(&nodes[i]);
            node_turn(&nodes[i]);
        }
    CHECK(all_done(nodes), "not all came");
    for (unsigned i = 0; i < NODES; i++)
        CHECK(nodes[i].wrong == 0, "node %u: %u wrong", i, nodes[i].wrong);
}

static void four_put_to_all(void)
{
    struct node nodes[NODES];
    for (unsigned i = 0; i < NODES; i++)
        REQUIRE(node_open(&nodes[i], i), "open");
    send_all(nodes);
    for (unsigned i = 0; i < NODES; i++)
        node_close(&nodes[i]);
}

const struct wring_test_case suite_cases_mesh[] = {
    {"four_put_to_all", four_put_to_all},
    {NULL, NULL},
};
