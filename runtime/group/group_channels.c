/* SPDX-License-Identifier: Apache-2.0 */
/* The channels that the immediate calls of a group share, and its board. */
#include "runtime/group/group_inside.h"
#include "runtime/session/session_executor.h"
#include "runtime/stats.h"

#define SLOTS_BYTES (8u << 20)     /* of all slots in a group's two channels, unless */
#define SLOT_BYTES_MIN (64u << 10) /* they would be smaller than this */
#define SEND_TASKS 8
#define STAGE_TASKS 4

/**
 * Every member has slots for every other one, whether it sends or not: in large groups pieces are
 * smaller, as each pair of members exchanges less, too.
 */
static size_t choose_slot_bytes(size_t chunk_bytes, uint32_t members, uint32_t window)
{
    size_t bytes = chunk_bytes;
    while (bytes / 2 >= SLOT_BYTES_MIN &&
           2 * wring_channel_memory(members, window, bytes) > SLOTS_BYTES)
        bytes /= 2;
    return bytes;
}

/** Bytes of what is flat, at most; 0: no members can map each other's memory. */
static size_t board_room(const struct wring_group *group)
{
    bool fits = group->members.n > 1 && group->members.n <= WRING_REDUCTION_RUNS;
    uint64_t most = group->session->config.flat_bytes;
    return !fits ? 0 : most > 0 ? (size_t)most : 1;
}

bool wring_group_may_map(const struct wring_group *group)
{
    const struct wring_fabric *fabric = group->session->fabric;
    for (uint32_t i = 0; i < group->members.n; i++) {
        const struct wring_peer *peer = &fabric->peers[group->ranks[i]];
        if (i != group->members.me && !fabric->devices[peer->device].caps.remote_map)
            return false;
    }
    return board_room(group) > 0;
}

size_t wring_group_board_offset(const struct wring_group *group)
{
    size_t bytes = 2 * group->channel_bytes;
    return (bytes + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
}

/** Members that could not all map each other have not been connected for that. */
static bool stands_with_all(const struct wring_group *group)
{
    for (uint32_t i = 0; i < group->members.n; i++)
        if (i != group->members.me &&
            group->session->fabric->peers[group->ranks[i]].state != WRING_PEER_READY)
            return false;
    return true;
}

static enum wring_status make_board(struct wring_group *group)
{
    size_t room = board_room(group);
    uint8_t *memory = (uint8_t *)group->slots.memory.base + wring_group_board_offset(group);
    if (!wring_group_may_map(group) || !stands_with_all(group))
        return WRING_OK;
    enum wring_status status =
        wring_mapped_create(group->members, room, memory, &group->collective.mapped);
    if (status == WRING_OK)
        wring_stats_list(group->session, group->collective.mapped);
    return status;
}

enum wring_status wring_group_make_channels(struct wring_group *group)
{
    struct wring_session *session = group->session;
    uint32_t n = group->members.n;
    uint32_t window = wring_channel_window(session->config.window, WRING_TAGGED_WINDOW_MAX);
    size_t slot_bytes = choose_slot_bytes((size_t)session->config.chunk_bytes, n, window);
    size_t channel_bytes = wring_channel_memory(n, window, slot_bytes);

    group->channel_bytes = channel_bytes;
    group->collective = (struct wring_collective){
        .engine = session->engine,
        .label = wring_trace_label(session->trace, "immediate"),
        .members = group->members,
        .seed = session->seed,
        .scatter = &group->scatter,
        .gather = &group->gather,
        .calls = &group->calls,
        .send_tasks = SEND_TASKS,
        .reduce_tasks = STAGE_TASKS,
        .decode_tasks = SEND_TASKS,
        .slot_bytes = slot_bytes,
        .slots = &group->sources,
        .owner = group,
    };
    size_t source_bytes = wring_collective_slot_memory(&group->collective);
    size_t bytes = wring_group_board_offset(group) + wring_mapped_memory(board_room(group));
    enum wring_status status = wring_block_alloc(session->fabric, bytes, &group->slots);
    if (status == WRING_OK)
        status = wring_block_alloc_source(session->fabric, source_bytes, &group->sources);
    if (status == WRING_OK)
        status = wring_block_populate(&group->slots);
    if (status == WRING_OK)
        status = wring_block_populate(&group->sources);
    if (status != WRING_OK)
        return status;
    uint8_t *memory = group->slots.memory.base;
    group->collective.slots_base = group->sources.memory.base;
    status = wring_channel_init(&group->scatter, session->fabric, group->members, window,
                                slot_bytes, memory);
    if (status == WRING_OK)
        status = wring_channel_init(&group->gather, session->fabric, group->members, window,
                                    slot_bytes, memory + channel_bytes);
    group->scatter.owner = group->gather.owner = &group->collective;
    group->scatter.tagged = group->gather.tagged = true;
    if (status == WRING_OK)
        status = wring_engine_add_channel(session->engine, &group->scatter);
    if (status == WRING_OK)
        status = wring_engine_add_channel(session->engine, &group->gather);
    if (status == WRING_OK)
        status = wring_collective_prepare(&group->collective);
    if (status == WRING_OK)
        status = make_board(group);
    if (status == WRING_OK)
        status = wring_session_reserve(session,
                                       wring_job_reserve_elems(wring_geometry_most(slot_bytes), n));
    return status;
}
