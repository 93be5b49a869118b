/* SPDX-License-Identifier: Apache-2.0 */
/* The channels that the immediate calls of a group share, and its board. */
#include "runtime/group/group_abort.h"
#include "runtime/group/group_inside.h"
#include "runtime/session/session_executor.h"
#include "runtime/stats.h"
#include "transport/slot_pool.h"

#define SEND_TASKS 8
#define STAGE_TASKS 4

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

static void list_board(struct wring_pairs *pairs)
{
    struct wring_group *group = pairs->owner;
    wring_stats_list(group->session, group->collective.mapped);
}

static void on_ceased(struct wring_pairs *pairs, uint32_t rank)
{
    wring_group_cease(pairs->owner, rank);
}

static enum wring_status make_channel(struct wring_group *group, struct wring_channel *channel,
                                      uint32_t window)
{
    struct wring_session *session = group->session;
    enum wring_status status = wring_channel_init(channel, session->fabric, group->members, window,
                                                  group->collective.slot_bytes, NULL);
    if (status != WRING_OK)
        return status;
    channel->owner = &group->collective;
    return wring_channel_use_pool(channel, session->engine->pool);
}

enum wring_status wring_group_make_channels(struct wring_group *group)
{
    struct wring_session *session = group->session;
    uint32_t n = group->members.n;
    uint32_t window = wring_channel_window(session->config.window, WRING_TAGGED_WINDOW_MAX);
    size_t slot_bytes = (size_t)session->config.chunk_bytes;

    group->collective = (struct wring_collective){
        .engine = session->engine,
        .cease = &group->cease,
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
    group->pairs.engine = session->engine;
    group->pairs.collective = &group->collective;
    group->pairs.board_room = board_room(group);
    group->pairs.made_board = list_board;
    group->pairs.ceased = on_ceased;
    group->pairs.cease = &group->cease;
    group->pairs.owner = group;
    enum wring_status status = make_channel(group, &group->scatter, window);
    if (status == WRING_OK)
        status = make_channel(group, &group->gather, window);
    if (status == WRING_OK)
        status = wring_collective_prepare(&group->collective);
    if (status == WRING_OK)
        status = wring_pairs_add(&group->pairs);
    if (status == WRING_OK)
        status = wring_session_reserve(session,
                                       wring_job_reserve_elems(wring_geometry_most(slot_bytes), n));
    return status;
}

static enum wring_status make_sources(struct wring_group *group)
{
    size_t bytes = wring_collective_slot_memory(&group->collective);
    enum wring_status status =
        wring_block_alloc_source(group->session->fabric, bytes, &group->sources);
    if (status == WRING_OK)
        status = wring_block_populate(&group->sources);
    if (status == WRING_OK)
        wring_collective_give_slots(&group->collective, group->sources.memory.base);
    return status;
}

/** Pieces are sent from slots, be they codes, copies, or the sums that a root is to have. */
static bool uses_sources(const struct wring_work *work)
{
    return work->codec != NULL || work->in_staged || work->out_staged ||
           work->algorithm == WRING_REDUCE_TWO_SHOT;
}

enum wring_status wring_group_need_sources(struct wring_group *group, const struct wring_work *work)
{
    struct wring_progress *progress = group->session->progress;
    enum wring_status status = WRING_OK;

    if (!uses_sources(work) || group->members.n == 1 ||
        atomic_load_explicit(&group->has_sources, memory_order_acquire))
        return WRING_OK;
    wring_progress_lock(progress);
    if (!atomic_load_explicit(&group->has_sources, memory_order_relaxed))
        status = make_sources(group);
    atomic_store_explicit(&group->has_sources, status == WRING_OK, memory_order_release);
    wring_progress_unlock(progress);
    return status;
}
