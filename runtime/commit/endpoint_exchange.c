/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank tells all others where its ends of the channels lie, and reads where theirs do. */
#include <stdlib.h>
#include <unistd.h>

#include "runtime/buffer.h"
#include "runtime/commit/commit.h"
#include "runtime/group/group.h"
#include "transport/memory.h"

/** Where memory lies in our slots. @param at  NULL: there is none */
static uint64_t slot_offset(const struct wring_session *session, const void *at)
{
    const uint8_t *base = session->slots.memory.base;
    return at != NULL ? (uint64_t)((const uint8_t *)at - base) : 0;
}

/** Memory for the other members: the slots that they fill, or the board that they read. */
static const void *inbox_memory(const struct wring_bucket *bucket)
{
    const struct wring_shm_flags *flags = bucket->collective.shm_flags;
    if (flags != NULL)
        return flags->own;
    return bucket->gather.placed ? NULL : bucket->gather.memory;
}

static const struct wring_bucket *keys_owner(const struct wring_bucket *bucket)
{
    return bucket->whole != NULL ? bucket->whole : bucket;
}

/** Has it keys of its own, or those of the bucket that it is a leg of? */
static bool has_own_keys(const struct wring_bucket *bucket)
{
    const struct wring_bucket *owner = keys_owner(bucket);
    return (bucket->block == &owner->borrowed || owner->keys.fabric != NULL) &&
           wring_block_complete(bucket->block);
}

/** Tell peers what our end is called. One that was never made has a name, too, which nobody uses.
 */
static void write_channel_name(const struct wring_channel *channel, struct wring_writer *out)
{
    wring_write_u32(out, channel->name.id);
    wring_write_u32(out, channel->name.generation);
}

/** Read a peer's name. One that no channel can have fails the reader. */
static struct wring_channel_name read_channel_name(struct wring_reader *in)
{
    struct wring_channel_name name = {.id = wring_read_u32(in)};
    name.generation = wring_read_u32(in);
    in->failed |= name.id >= WRING_CHANNELS_MAX;
    return name;
}

void wring_commit_write_endpoints(struct wring_session *session, struct wring_writer *out)
{
    uint32_t n_buffers = 0;
    wring_block_export(&session->slots, NULL, out);
    pthread_mutex_lock(&session->buffers_mutex);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        n_buffers += wring_block_complete(&at->block);
    wring_write_u32(out, n_buffers);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        if (wring_block_complete(&at->block)) /* others are not put into */
            wring_block_export(&at->block, NULL, out);

    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        wring_write_sized(out, at->name, strlen(at->name));
        write_channel_name(&at->scatter, out);
        write_channel_name(&at->gather, out);
        wring_write_u64(out, slot_offset(session, at->scatter.memory));
        wring_write_u64(out, slot_offset(session, inbox_memory(at)));
        wring_write_u32(out, at->shape.window);
        /* where a sum is placed: in which buffer (n_buffers: memory that has keys of its own) */
        uint32_t buffer = 0;
        for (struct wring_buffer *b = session->buffers; b != NULL && &b->block != at->block;
             b = b->next)
            buffer += wring_block_complete(&b->block);
        uint64_t offset = at->block != NULL
                              ? (uint64_t)((uint8_t *)at->data - (uint8_t *)at->block->memory.base)
                              : 0;
        wring_write_u32(out, buffer);
        wring_write_u64(out, offset);
        wring_write_u32(out, has_own_keys(at));
        if (has_own_keys(at))
            wring_block_export(at->block, &keys_owner(at)->keys, out);
    }
    pthread_mutex_unlock(&session->buffers_mutex);
}

static enum wring_status import_memory(struct wring_session *session, struct wring_peer *peer,
                                       struct wring_reader *in, struct wring_remote **out)
{
    return wring_imports_add(&session->imports, session->fabric, peer, in, out);
}

/** A peer's slots, and where this process has them; NULL where they are out of its reach. */
struct slots {
    struct wring_remote *remote;
    uint8_t *mapped;
};

static enum wring_status import_slots(struct wring_session *session, struct wring_peer *peer,
                                      struct wring_reader *in, struct slots *out)
{
    enum wring_status status = import_memory(session, peer, in, &out->remote);
    void *mapped = NULL;

    if (status == WRING_OK && session->fabric->devices[peer->device].caps.remote_map)
        status = out->remote->conn->provider->ops->remote_map(out->remote, &mapped);
    out->mapped = mapped;
    return status;
}

/** Where one peer's ends of a bucket's channels are. */
struct endpoint {
    struct wring_channel_name scatter, gather;
    uint32_t buffer;
    uint32_t window; /* of both */
    uint64_t scatter_offset, gather_offset, data_offset;
    struct slots slots;
    struct wring_remote *data; /* NULL if the peer registered none by itself */
};

/** A pointer to a member's data, if it has so much there. */
static enum wring_status map_data(const struct wring_bucket *bucket,
                                  const struct endpoint *endpoint, uint8_t **out)
{
    const struct wring_remote *data = endpoint->data;
    size_t bytes = wring_bucket_bytes(bucket);
    void *base;

    if (endpoint->data_offset > data->bytes || bytes > data->bytes - endpoint->data_offset ||
        endpoint->data_offset % wring_dtype_align(bucket->dtype) != 0)
        return WRING_ERR_FRAME;
    enum wring_status status = data->conn->provider->ops->remote_map(endpoint->data, &base);
    if (status == WRING_OK)
        *out = (uint8_t *)base + endpoint->data_offset;
    return status;
}

/** Its board, and in place its data. */
static enum wring_status connect_board(struct wring_bucket *bucket, uint32_t member,
                                       const struct endpoint *endpoint)
{
    struct wring_shm_flags *flags = bucket->collective.shm_flags;
    uint8_t *data;
    enum wring_status status =
        wring_shm_flags_connect(flags, member, endpoint->slots.remote, endpoint->gather_offset);

    if (status != WRING_OK || !wring_algorithm_is_direct(bucket->shape.algorithm))
        return status;
    status = endpoint->data != NULL ? map_data(bucket, endpoint, &data) : WRING_ERR_FRAME;
    if (status == WRING_OK)
        wring_shm_flags_set_data(flags, member, data);
    return status;
}

/** Slots that this rank fills itself: their pages shall be mapped before a step needs them. Where
 *  that cannot be, the step maps them. */
static void map_slot_pages(const struct endpoint *endpoint, uint64_t offset, size_t bytes)
{
    size_t inside = offset % (size_t)sysconf(_SC_PAGESIZE);

    if (endpoint->slots.mapped == NULL || offset > endpoint->slots.remote->bytes ||
        bytes > endpoint->slots.remote->bytes - offset)
        return; /* the first put is told */
    wring_memory_populate(&(struct wring_memory){.base = endpoint->slots.mapped + offset - inside,
                                                 .bytes = bytes + inside});
}

/** Where ours are among a member's slots: by our index, or as one of those that it exchanges with.
 *  WRING_NO_PARTNER: it has none for us. */
static uint32_t place_at(const struct wring_bucket *bucket, uint32_t member)
{
    const struct wring_members *members = wring_shape_members(bucket);
    struct wring_senders senders = wring_senders_of(bucket->shape.algorithm, members->n);
    return senders.place(members->n, member, members->me);
}

/** @param offset  of the channel in the peer's slots @param place  of ours in it */
static void set_slots(struct wring_channel *channel, uint32_t member,
                      const struct endpoint *endpoint, uint64_t offset, uint32_t place)
{
    if (place == WRING_NO_PARTNER)
        return;
    size_t bytes = wring_channel_memory(1, endpoint->window, channel->slot_bytes);
    struct wring_channel_out *out = wring_channel_out(channel, member);

    wring_channel_set_window(channel, member, endpoint->window);
    out->remote = endpoint->slots.remote;
    out->offset = offset + bytes * place;
    map_slot_pages(endpoint, out->offset, bytes);
}

static void set_endpoints(struct wring_bucket *bucket, uint32_t member,
                          const struct endpoint *endpoint)
{
    if (bucket->collective.scatter != NULL) {
        wring_channel_out(&bucket->scatter, member)->name = endpoint->scatter;
        set_slots(&bucket->scatter, member, endpoint, endpoint->scatter_offset,
                  place_at(bucket, member));
    }
    if (bucket->collective.gather == NULL)
        return;
    struct wring_channel_out *out = wring_channel_out(&bucket->gather, member);
    out->name = endpoint->gather;
    if (!bucket->gather.placed) {
        set_slots(&bucket->gather, member, endpoint, endpoint->gather_offset,
                  place_at(bucket, member));
        return;
    }
    out->remote = endpoint->data;
    out->offset = endpoint->data_offset;
}

/** The bucket of that name among those that ranks exchange: what others carry is not there,
 * carriers are. NULL: there is none. */
static struct wring_bucket *find_exchanged(const struct wring_session *session, const char *name)
{
    struct wring_bucket *at = session->buckets;
    while (at != NULL && (at->dropped || strcmp(at->name, name) != 0))
        at = at->next;
    return at;
}

static enum wring_status read_endpoint(struct wring_session *session, struct wring_peer *peer,
                                       struct wring_reader *in, const struct slots *slots,
                                       struct wring_remote **buffers, uint32_t n_buffers)
{
    char name[WRING_NAME_MAX];
    struct endpoint endpoint = {.slots = *slots};

    wring_read_text(in, name, sizeof(name));
    endpoint.scatter = read_channel_name(in);
    endpoint.gather = read_channel_name(in);
    endpoint.scatter_offset = wring_read_u64(in);
    endpoint.gather_offset = wring_read_u64(in);
    endpoint.window = wring_read_u32(in);
    endpoint.buffer = wring_read_u32(in);
    endpoint.data_offset = wring_read_u64(in);
    if (wring_read_u32(in) != 0) {
        enum wring_status status = import_memory(session, peer, in, &endpoint.data);
        if (status != WRING_OK)
            return status;
    } else if (endpoint.buffer < n_buffers) {
        endpoint.data = buffers[endpoint.buffer];
    }
    if (in->failed || endpoint.window > WRING_WINDOW_MAX ||
        (endpoint.window & (endpoint.window - 1)) != 0)
        return WRING_ERR_FRAME;

    struct wring_bucket *bucket = find_exchanged(session, name);
    uint32_t member =
        bucket != NULL ? wring_members_find(wring_shape_members(bucket), peer->rank) : 0;
    if (bucket == NULL || member == bucket->group->members.n)
        return WRING_OK; /* a bucket of a group that we are not in */
    if (bucket->collective.shm_flags != NULL)
        return connect_board(bucket, member, &endpoint);
    if (bucket->gather.placed && endpoint.data == NULL)
        return WRING_ERR_FRAME;
    set_endpoints(bucket, member, &endpoint);
    if (!wring_algorithm_is_direct(bucket->shape.algorithm))
        return WRING_OK;
    return map_data(bucket, &endpoint, &bucket->gather.out[member].mapped);
}

enum wring_status wring_commit_read_endpoints(struct wring_session *session,
                                              struct wring_peer *peer, struct wring_reader in)
{
    struct slots slots;
    enum wring_status status = import_slots(session, peer, &in, &slots);
    if (status != WRING_OK)
        return status;
    uint32_t n_buffers = wring_read_u32(&in);
    if (n_buffers > in.bytes)
        return WRING_ERR_FRAME;
    struct wring_remote **buffers = calloc(n_buffers + 1, sizeof(*buffers));
    if (buffers == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n_buffers && status == WRING_OK; i++)
        status = import_memory(session, peer, &in, &buffers[i]);
    while (status == WRING_OK && in.bytes > 0 && !in.failed)
        status = read_endpoint(session, peer, &in, &slots, buffers, n_buffers);
    free(buffers);
    return in.failed ? WRING_ERR_FRAME : status;
}
