/* SPDX-License-Identifier: Apache-2.0 */
/* What the members of a group tell each other: settings that are compared, and where slots lie. */
#include "runtime/group/group_inside.h"
#include "runtime/stats.h"

#include <inttypes.h>
#include <stdio.h>

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

void wring_group_write(const struct wring_group *group, struct wring_writer *out)
{
    wring_write_u32(out, group->members.n);
    wring_write(out, group->ranks, group->members.n * sizeof(*group->ranks));
    for (size_t i = 0; i < SETTINGS; i++)
        wring_write_u64(out, setting_of(group->session, i));
    wring_channel_write_name(&group->scatter, out);
    wring_channel_write_name(&group->gather, out);
    wring_write_u32(out, group->collective.mapped != NULL);
    wring_block_export(&group->slots, out);
}

/** @param keys  of its slots */
static void set_out(struct wring_channel *channel, uint32_t member, struct wring_reader keys,
                    struct wring_imports *imports, struct wring_channel_name name, uint64_t offset)
{
    struct wring_channel_out *out = &channel->out[member];
    out->keys = keys.data;
    out->keys_bytes = keys.bytes;
    out->imports = imports;
    out->name = name;
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
    struct wring_channel_name scatter = wring_channel_read_name(&in);
    struct wring_channel_name gather = wring_channel_read_name(&in);
    bool mapped = wring_read_u32(&in) != 0;
    if (in.failed)
        return WRING_ERR_FRAME;
    set_out(&group->scatter, member, in, &group->imports, scatter, 0);
    set_out(&group->gather, member, in, &group->imports, gather, group->channel_bytes);
    if (!mapped)
        drop_board(group);
    if (group->collective.mapped == NULL)
        return WRING_OK;
    struct wring_remote *remote;
    enum wring_status status =
        wring_imports_add(&group->imports, session->fabric, peer, &in, &remote);
    if (status != WRING_OK)
        return status;
    return wring_mapped_connect(group->collective.mapped, member, remote,
                                wring_group_board_offset(group));
}

enum wring_status wring_group_read(struct wring_group *group, const struct wring_blobs *blobs,
                                   char *why)
{
    enum wring_status status = WRING_OK;
    for (uint32_t i = 0; i < group->members.n && status == WRING_OK; i++)
        if (i != group->members.me)
            status = read_member(group, i, wring_blobs_reader(blobs, group->ranks[i]), why);
    return status;
}
