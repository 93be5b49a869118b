/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks, and the channels that their immediate calls share. */
#include "runtime/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WRING_MODULE "group"
#define SLOTS_BYTES (8u << 20)     /* of all slots in a group's two channels, unless */
#define SLOT_BYTES_MIN (64u << 10) /* they would be smaller than this */
#define SEND_TASKS 8
#define STAGE_TASKS 4

static void lock(struct wring_session *session)
{
    if (session->progress != NULL) /* not yet while the session opens */
        wring_progress_lock(session->progress);
}

static void unlock(struct wring_session *session)
{
    if (session->progress != NULL)
        wring_progress_unlock(session->progress);
}

static enum wring_status new_group(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                   struct wring_group **out)
{
    struct wring_group *group = calloc(1, sizeof(*group));
    if (group == NULL)
        return WRING_ERR_NO_MEMORY;
    group->session = session;
    pthread_mutex_init(&group->mutex, NULL);
    group->ranks = malloc(n * sizeof(*ranks));
    if (group->ranks == NULL) {
        wring_group_free(group);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(group->ranks, ranks, n * sizeof(*ranks));
    group->members = (struct wring_members){n, 0, group->ranks};
    group->members.me = wring_members_find(&group->members, session->rank);
    *out = group;
    return WRING_OK;
}

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

/** Can we map the memory of all other members? They may be able to map less. */
static bool maps_all(const struct wring_group *group)
{
    const struct wring_fabric *fabric = group->session->fabric;
    for (uint32_t i = 0; i < group->members.n; i++) {
        const struct wring_peer *peer = &fabric->peers[group->ranks[i]];
        if (i != group->members.me && !fabric->devices[peer->device].caps.remote_map)
            return false;
    }
    return true;
}

/** Bytes of what is flat, at most; 0: no members can map each other's memory. */
static size_t board_room(const struct wring_group *group)
{
    bool fits = group->members.n > 1 && group->members.n <= WRING_REDUCTION_RUNS;
    uint64_t most = group->session->config.flat_bytes;
    return !fits ? 0 : most > 0 ? (size_t)most : 1;
}

/** Of our slots, or of anybody's: after the channels. */
static size_t board_offset(const struct wring_group *group)
{
    size_t bytes = 2 * group->channel_bytes;
    return (bytes + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
}

static enum wring_status make_board(struct wring_group *group)
{
    size_t room = board_room(group);
    uint8_t *memory = (uint8_t *)group->slots.memory.base + board_offset(group);
    if (room == 0 || !maps_all(group))
        return WRING_OK;
    enum wring_status status =
        wring_mapped_create(group->members, room, memory, &group->collective.mapped);
    if (status == WRING_OK)
        wring_stats_list(group->session, group->collective.mapped);
    return status;
}

static enum wring_status make_channels(struct wring_group *group)
{
    struct wring_session *session = group->session;
    uint32_t n = group->members.n;
    uint32_t window = wring_window(&session->config, WRING_TAGGED_WINDOW_MAX);
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
    size_t bytes = board_offset(group) + wring_mapped_memory(board_room(group));
    enum wring_status status = wring_block_alloc(session->fabric, bytes, &group->slots);
    if (status == WRING_OK)
        status = wring_block_alloc_source(session->fabric, source_bytes, &group->sources);
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
        status =
            session->executor->ops->reserve(session->executor, wring_geometry_most(slot_bytes));
    return status;
}

/* what immediate calls depend on besides their arguments */
static const char *const settings[] = {"WRING_CHUNK_BYTES", "WRING_FLAT_BYTES", "WRING_WINDOW",
                                       "the session's seed"};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static uint64_t setting_of(const struct wring_session *session, size_t index)
{
    const uint64_t values[SETTINGS] = {session->config.chunk_bytes, session->config.flat_bytes,
                                       session->config.window, session->seed};
    return values[index];
}

/** Note the first setting that a member has otherwise: calls will be refused, on all members. */
static void compare_settings(struct wring_group *group, uint32_t rank, struct wring_reader *in)
{
    const struct wring_session *session = group->session;
    for (size_t i = 0; i < SETTINGS; i++) {
        uint64_t ours = setting_of(session, i), theirs = wring_read_u64(in);
        if (theirs != ours && group->unfit[0] == '\0')
            snprintf(group->unfit, sizeof(group->unfit),
                     "%s is %" PRIu64 " on rank %" PRIu32 " and %" PRIu64 " on rank %" PRIu32
                     "; immediate calls need it alike",
                     settings[i], ours, session->rank, theirs, rank);
    }
}

static void write_group(const struct wring_group *group, struct wring_writer *out)
{
    wring_write_u32(out, group->members.n);
    wring_write(out, group->ranks, group->members.n * sizeof(*group->ranks));
    for (size_t i = 0; i < SETTINGS; i++)
        wring_write_u64(out, setting_of(group->session, i));
    wring_write_u32(out, group->scatter.id);
    wring_write_u32(out, group->gather.id);
    wring_write_u32(out, group->scatter.generation);
    wring_write_u32(out, group->collective.mapped != NULL);
    wring_block_export(&group->slots, out);
}

static void set_out(struct wring_channel *channel, uint32_t member, struct wring_remote *remote,
                    uint32_t id, uint32_t generation, uint64_t offset)
{
    struct wring_channel_out *out = &channel->out[member];
    out->remote = remote;
    out->channel = id;
    out->generation = generation;
    out->offset = offset + wring_channel_memory(1, channel->window, channel->slot_bytes) *
                               channel->members.me;
}

/** There is a member that cannot see it, or has none: then nobody uses any. */
static void drop_board(struct wring_group *group)
{
    wring_stats_unlist(group->session, group->collective.mapped);
    wring_mapped_destroy(group->collective.mapped);
    group->collective.mapped = NULL;
}

/** @param why out, [WRING_TEXT_MAX], one line for all ranks; left alone where there is none */
static enum wring_status read_member(struct wring_group *group, uint32_t member,
                                     struct wring_reader in, char *why)
{
    struct wring_session *session = group->session;
    struct wring_peer *peer = &session->fabric->peers[group->ranks[member]];
    uint32_t n = wring_read_u32(&in);
    size_t bytes = group->members.n * sizeof(*group->ranks);
    const void *ranks = n == group->members.n ? wring_read(&in, bytes) : NULL;

    if (ranks == NULL || memcmp(ranks, group->ranks, bytes) != 0) {
        snprintf(why, WRING_TEXT_MAX, "ranks %" PRIu32 " and %" PRIu32 " make different groups",
                 session->rank, peer->rank);
        return WRING_ERR_MISMATCH;
    }
    compare_settings(group, peer->rank, &in);
    uint32_t scatter = wring_read_u32(&in), gather = wring_read_u32(&in);
    uint32_t generation = wring_read_u32(&in);
    bool mapped = wring_read_u32(&in) != 0;
    struct wring_remote *remote;
    if (in.failed || scatter >= WRING_CHANNELS_MAX || gather >= WRING_CHANNELS_MAX)
        return WRING_ERR_FRAME;
    enum wring_status status =
        wring_imports_add(&group->imports, session->fabric, peer, &in, &remote);
    if (status != WRING_OK)
        return status;
    set_out(&group->scatter, member, remote, scatter, generation, 0);
    set_out(&group->gather, member, remote, gather, generation, group->channel_bytes);
    if (!mapped)
        drop_board(group);
    if (group->collective.mapped == NULL)
        return WRING_OK;
    return wring_mapped_connect(group->collective.mapped, member, remote, board_offset(group));
}

static enum wring_status read_members(struct wring_group *group, const struct wring_blobs *blobs,
                                      char *why)
{
    enum wring_status status = WRING_OK;
    for (uint32_t i = 0; i < group->members.n && status == WRING_OK; i++)
        if (i != group->members.me)
            status = read_member(group, i, wring_blobs_reader(blobs, group->ranks[i]), why);
    return status;
}

enum wring_status wring_group_make(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                   struct wring_group **out)
{
    struct wring_group *group = NULL;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    char why[WRING_TEXT_MAX] = "";
    enum wring_status status = WRING_OK;

    lock(session);
    if (n > 0)
        status = new_group(session, ranks, n, &group);
    if (status == WRING_OK && group != NULL)
        status = make_channels(group);
    if (status == WRING_OK && group != NULL)
        write_group(group, &writer);
    unlock(session);

    status = wring_session_agree(session, status, "");
    if (status == WRING_OK)
        status = wring_session_exchange_writer(session, &writer, &blobs);
    else
        free(writer.data);
    if (status == WRING_OK) {
        lock(session);
        status = wring_session_check(session);
        if (status == WRING_OK && group != NULL)
            status = read_members(group, &blobs, why);
        unlock(session);
        wring_blobs_finish(&blobs);
        status = wring_session_agree(session, status, why);
    }
    if (status != WRING_OK) {
        lock(session);
        wring_group_free(group);
        unlock(session);
        return status;
    }
    *out = group;
    return WRING_OK;
}

static bool ascending(const struct wring_session *session, const uint32_t *ranks, uint32_t n)
{
    bool has_me = false;
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i] >= session->size || (i > 0 && ranks[i] <= ranks[i - 1]))
            return false;
        has_me |= ranks[i] == session->rank;
    }
    return has_me || n == 0;
}

enum wring_status wring_group_create(struct wring_session *session, const uint32_t *ranks,
                                     uint32_t n, struct wring_group **out)
{
    if (!ascending(session, ranks, n)) {
        wring_error(&session->log, "a group needs ascending ranks of the session, the caller's "
                                   "among them");
        n = 0; /* the others must learn of it */
        enum wring_status agreed =
            wring_session_agree(session, WRING_ERR_INVALID, "a rank asked for an impossible group");
        return agreed;
    }
    struct wring_group *group = NULL;
    enum wring_status status = wring_group_make(session, ranks, n, &group);
    if (status != WRING_OK)
        return status;
    if (group != NULL) {
        group->next = session->groups;
        session->groups = group;
    }
    *out = group;
    return WRING_OK;
}

void wring_group_free(struct wring_group *group)
{
    if (group == NULL)
        return;
    struct wring_session *session = group->session;
    for (struct wring_group **at = &session->groups; *at != NULL; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    wring_engine_remove_channel(session->engine, &group->scatter);
    wring_engine_remove_channel(session->engine, &group->gather);
    wring_channel_finish(&group->scatter);
    wring_channel_finish(&group->gather);
    wring_stats_unlist(session, group->collective.mapped);
    wring_collective_finish(&group->collective);
    wring_imports_finish(&group->imports);
    wring_block_finish(&group->slots);
    wring_block_finish(&group->sources);
    for (size_t i = 0; i < sizeof(group->codecs) / sizeof(group->codecs[0]); i++)
        wring_codec_destroy(group->codecs[i]);
    pthread_mutex_destroy(&group->mutex);
    free(group->ranks);
    free(group);
}

void wring_group_destroy(struct wring_group *group)
{
    if (group == NULL || group == group->session->world)
        return;
    struct wring_session *session = group->session;
    wring_progress_lock(session->progress);
    wring_group_free(group);
    wring_progress_unlock(session->progress);
}
