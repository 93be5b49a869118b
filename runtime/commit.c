/* SPDX-License-Identifier: Apache-2.0 */
/* Agree on all buckets, then give each its channels. */
#include "runtime/session.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"

#define WRING_MODULE "commit"
#define SEND_TASKS_MAX 16
#define STAGE_TASKS 4
#define ALIGN 64
#define SMALL_WINDOW 16
#define SMALL_BYTES (64u << 10) /* of slots for one member */

/** What a bucket's exchange looks like, before anything is allocated. */
struct layout {
    bool sharded, raw;
    struct wring_geometry geometry;
    uint64_t pieces; /* of the largest shard, or of the whole */
    size_t slot_bytes;
    uint32_t window;
    uint32_t send_tasks, reduce_tasks, decode_tasks;
};

static bool is_sharded(const struct wring_bucket *bucket)
{
    const struct wring_codec_info *info = wring_codec_info(bucket->codec);
    uint32_t n = bucket->group->members.n;

    if (bucket->scheme != WRING_SCHEME_AUTO)
        return bucket->scheme == WRING_SCHEME_DIVISIBLE;
    if (info->flags & WRING_CODEC_TWO_WAYS)
        return true;
    if (info->flags & WRING_CODEC_RAW)
        return wring_bucket_bytes(bucket) > bucket->session->config.flat_bytes;
    return n > 2 && info->unit != 0; /* two ranks send as much either way, and round once less */
}

static uint32_t at_most(uint64_t value, uint32_t limit)
{
    return value < limit ? (uint32_t)value : limit;
}

static struct layout lay_out(const struct wring_bucket *bucket)
{
    const struct wring_config *config = &bucket->session->config;
    uint32_t n = bucket->group->members.n;
    struct layout layout = {
        .sharded = is_sharded(bucket),
        .raw = (wring_codec_info(bucket->codec)->flags & WRING_CODEC_RAW) != 0,
    };
    const struct wring_codec *codec = layout.raw ? NULL : bucket->codec;
    layout.geometry = wring_geometry_make(bucket->elems, (uint32_t)wring_dtype_bytes(bucket->dtype),
                                          n, codec, config->chunk_bytes);

    struct wring_span span = {0, bucket->elems};
    if (layout.sharded)
        span = wring_geometry_shard(&layout.geometry, 0); /* none is larger */
    layout.pieces = wring_geometry_chunks(&layout.geometry, span);
    struct wring_span piece = wring_geometry_chunk(&layout.geometry, span, 0);
    if (layout.pieces > 0)
        layout.slot_bytes = layout.raw ? wring_geometry_bytes(&layout.geometry, piece)
                                       : wring_codec_bound(codec, piece.end - piece.begin);
    layout.window = wring_window(config, layout.pieces + 1);
    while (layout.window < SMALL_WINDOW && layout.window * layout.slot_bytes < SMALL_BYTES)
        layout.window *= 2; /* room costs little here, and credits come back in batches of half */

    uint64_t peers = n - 1;
    layout.send_tasks = layout.sharded ? at_most(layout.pieces * peers, SEND_TASKS_MAX)
                                       : at_most(layout.pieces, STAGE_TASKS);
    layout.reduce_tasks = at_most(layout.pieces, STAGE_TASKS);
    layout.decode_tasks = layout.sharded ? at_most(layout.pieces * peers, SEND_TASKS_MAX) : 0;
    return layout;
}

static size_t channel_bytes(const struct wring_bucket *bucket, const struct layout *layout)
{
    return wring_channel_memory(bucket->group->members.n, layout->window, layout->slot_bytes);
}

static void fill_collective(struct wring_bucket *bucket, const struct layout *layout)
{
    struct wring_session *session = bucket->session;
    bool staged = layout->raw && !wring_block_sendable(session->fabric, bucket->block);
    bucket->collective = (struct wring_collective){
        .engine = session->engine,
        .members = bucket->group->members,
        .bucket = wring_bucket_id(bucket->name),
        .label = wring_trace_label(session->trace, bucket->name),
        .seed = session->seed,
        .priority = bucket->priority,
        .scatter = layout->sharded ? &bucket->scatter : NULL,
        .gather = &bucket->gather,
        .residual = bucket->residual,
        .send_tasks = layout->send_tasks,
        .reduce_tasks = layout->reduce_tasks,
        .decode_tasks = layout->decode_tasks,
        .slot_bytes = layout->raw && !staged ? 0 : layout->slot_bytes,
        .slots = &session->slots,
        .work = {.ops = layout->sharded ? &wring_sharded : &wring_gathered,
                 .geometry = layout->geometry,
                 .codec = layout->raw ? NULL : bucket->codec,
                 .dtype = bucket->dtype,
                 .op = bucket->op,
                 .in = bucket->data,
                 .out = bucket->data,
                 .block = bucket->block,
                 .placed = bucket->placed && layout->raw && layout->sharded,
                 .staged = staged},
        .step = bucket->collective.step,
        .cost = bucket->collective.cost,
    };
}

/** Where each bucket's channels and send slots lie in the session's slots. @return bytes */
static size_t plan_memory(struct wring_session *session)
{
    size_t total = 0;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        struct layout layout = lay_out(at);
        fill_collective(at, &layout);
        at->memory_offset = total;
        if (at->collective.scatter != NULL)
            total += channel_bytes(at, &layout);
        if (!at->collective.work.placed)
            total += channel_bytes(at, &layout);
        total += (wring_collective_slot_memory(&at->collective) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return total;
}

static enum wring_status make_channel(struct wring_bucket *bucket, struct wring_channel *channel,
                                      uint32_t window, size_t slot_bytes, uint8_t **memory)
{
    struct wring_session *session = bucket->session;
    enum wring_status status = wring_channel_init(channel, session->fabric, bucket->group->members,
                                                  window, window > 0 ? slot_bytes : 0, *memory);
    if (status != WRING_OK)
        return status;
    channel->owner = &bucket->collective;
    *memory += wring_channel_memory(bucket->group->members.n, window, slot_bytes);
    return wring_engine_add_channel(session->engine, channel);
}

static enum wring_status make_bucket(struct wring_bucket *bucket)
{
    struct layout layout = lay_out(bucket);
    struct wring_collective *collective = &bucket->collective;
    uint8_t *memory = (uint8_t *)bucket->session->slots.memory.base + bucket->memory_offset;
    enum wring_status status = WRING_OK;

    if (collective->scatter != NULL)
        status = make_channel(bucket, &bucket->scatter, layout.window, layout.slot_bytes, &memory);
    if (status == WRING_OK)
        status = make_channel(bucket, &bucket->gather, collective->work.placed ? 0 : layout.window,
                              layout.slot_bytes, &memory);
    collective->slots_base = collective->slot_bytes > 0 ? memory : NULL;
    if (status == WRING_OK)
        status = wring_collective_prepare(collective);
    return status;
}

static enum wring_status make_all(struct wring_session *session)
{
    uint64_t most = 0;
    enum wring_status status =
        wring_block_alloc(session->fabric, plan_memory(session), &session->slots);
    for (struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next) {
        uint64_t piece = at->collective.work.geometry.chunk_elems;
        piece = piece < at->elems ? piece : at->elems;
        most = piece > most ? piece : most;
        status = make_bucket(at);
    }
    if (status == WRING_OK)
        status = session->executor->ops->reserve(session->executor, most);
    return status;
}

/** Our channels' names and places, for those who will put into them. */
static void write_places(struct wring_session *session, struct wring_writer *out)
{
    uint32_t n_buffers = 0;
    wring_block_export(&session->slots, out);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        n_buffers += wring_block_complete(&at->block);
    wring_write_u32(out, n_buffers);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        if (wring_block_complete(&at->block)) /* others are not put into */
            wring_block_export(&at->block, out);

    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        const uint8_t *base = session->slots.memory.base;
        wring_write_sized(out, at->name, strlen(at->name));
        wring_write_u32(out, at->scatter.id);
        wring_write_u32(out, at->gather.id);
        wring_write_u32(out, at->gather.generation);
        wring_write_u64(out,
                        at->scatter.memory != NULL ? (uint64_t)(at->scatter.memory - base) : 0);
        wring_write_u64(out, at->gather.placed ? 0 : (uint64_t)(at->gather.memory - base));
        /* where a sum is placed: in which buffer (n_buffers: memory registered by itself) */
        uint32_t buffer = 0;
        for (struct wring_buffer *b = session->buffers; b != NULL && &b->block != at->block;
             b = b->next)
            buffer += wring_block_complete(&b->block);
        uint64_t offset = at->block != NULL
                              ? (uint64_t)((uint8_t *)at->data - (uint8_t *)at->block->memory.base)
                              : 0;
        wring_write_u32(out, buffer);
        wring_write_u64(out, offset);
        bool alone = at->borrowed.fabric != NULL && wring_block_complete(&at->borrowed);
        wring_write_u32(out, alone);
        if (alone)
            wring_block_export(&at->borrowed, out);
    }
}

static enum wring_status import(struct wring_session *session, struct wring_peer *peer,
                                struct wring_reader *in, struct wring_remote **out)
{
    return wring_imports_add(&session->imports, session->fabric, peer, in, out);
}

/** Where one peer's ends of a bucket's channels are. */
struct place {
    uint32_t scatter, gather, generation, buffer;
    uint64_t scatter_offset, gather_offset, data_offset;
    struct wring_remote *slots, *data; /* data: NULL if the peer registered none by itself */
};

static void set_places(struct wring_bucket *bucket, uint32_t member, const struct place *place)
{
    if (bucket->collective.scatter != NULL) {
        struct wring_channel_out *out = &bucket->scatter.out[member];
        out->remote = place->slots;
        out->channel = place->scatter;
        out->generation = place->generation;
        out->offset = place->scatter_offset +
                      wring_channel_memory(1, bucket->scatter.window, bucket->scatter.slot_bytes) *
                          bucket->group->members.me;
    }
    struct wring_channel_out *out = &bucket->gather.out[member];
    out->channel = place->gather;
    out->generation = place->generation;
    out->remote = bucket->gather.placed ? place->data : place->slots;
    out->offset = bucket->gather.placed
                      ? place->data_offset
                      : place->gather_offset + wring_channel_memory(1, bucket->gather.window,
                                                                    bucket->gather.slot_bytes) *
                                                   bucket->group->members.me;
}

static enum wring_status read_place(struct wring_session *session, struct wring_peer *peer,
                                    struct wring_reader *in, struct wring_remote *slots,
                                    struct wring_remote **buffers, uint32_t n_buffers)
{
    char name[WRING_NAME_MAX];
    struct place place = {.slots = slots};

    wring_read_text(in, name, sizeof(name));
    place.scatter = wring_read_u32(in);
    place.gather = wring_read_u32(in);
    place.generation = wring_read_u32(in);
    place.scatter_offset = wring_read_u64(in);
    place.gather_offset = wring_read_u64(in);
    place.buffer = wring_read_u32(in);
    place.data_offset = wring_read_u64(in);
    if (wring_read_u32(in) != 0) {
        enum wring_status status = import(session, peer, in, &place.data);
        if (status != WRING_OK)
            return status;
    } else if (place.buffer < n_buffers) {
        place.data = buffers[place.buffer];
    }
    if (in->failed || place.scatter >= WRING_CHANNELS_MAX || place.gather >= WRING_CHANNELS_MAX)
        return WRING_ERR_FRAME;

    struct wring_bucket *bucket = wring_bucket_find(session, name);
    uint32_t member = bucket != NULL ? wring_members_find(&bucket->group->members, peer->rank) : 0;
    if (bucket == NULL || member == bucket->group->members.n)
        return WRING_OK; /* a bucket of a group that we are not in */
    if (bucket->gather.placed && place.data == NULL)
        return WRING_ERR_FRAME;
    set_places(bucket, member, &place);
    return WRING_OK;
}

static enum wring_status read_places(struct wring_session *session, struct wring_peer *peer,
                                     struct wring_reader in)
{
    struct wring_remote *slots;
    enum wring_status status = import(session, peer, &in, &slots);
    if (status != WRING_OK)
        return status;
    uint32_t n_buffers = wring_read_u32(&in);
    if (n_buffers > in.bytes)
        return WRING_ERR_FRAME;
    struct wring_remote **buffers = calloc(n_buffers + 1, sizeof(*buffers));
    if (buffers == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n_buffers && status == WRING_OK; i++)
        status = import(session, peer, &in, &buffers[i]);
    while (status == WRING_OK && in.bytes > 0 && !in.failed)
        status = read_place(session, peer, &in, slots, buffers, n_buffers);
    free(buffers);
    return in.failed ? WRING_ERR_FRAME : status;
}

void wring_commit_undo(struct wring_session *session)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        at->committed = false;
        wring_engine_remove_channel(session->engine, &at->scatter);
        wring_engine_remove_channel(session->engine, &at->gather);
        wring_channel_finish(&at->scatter);
        wring_channel_finish(&at->gather);
        wring_collective_finish(&at->collective);
        wring_block_finish(&at->borrowed);
        at->block = NULL;
    }
    wring_imports_finish(&session->imports);
    wring_block_finish(&session->slots);
}

static void free_dropped(struct wring_session *session)
{
    for (struct wring_bucket **at = &session->buckets; *at != NULL;) {
        struct wring_bucket *bucket = *at;
        if (!bucket->dropped) {
            at = &bucket->next;
            continue;
        }
        *at = bucket->next;
        wring_bucket_free(bucket);
    }
}

/** Where each bucket's data is registered; foreign memory is, where all devices take it. */
static enum wring_status find_data(struct wring_session *session)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        size_t bytes = wring_bucket_bytes(at);
        at->block = wring_buffer_find(session, at->data, bytes);
        if (at->block != NULL || bytes == 0)
            continue;
        enum wring_status status =
            wring_block_borrow(session->fabric, at->data, bytes, &at->borrowed);
        if (status != WRING_OK)
            return status;
        at->block = &at->borrowed;
    }
    return WRING_OK;
}

static enum wring_status import_all(struct wring_session *session, const struct wring_blobs *blobs)
{
    enum wring_status status = WRING_OK;
    for (uint32_t i = 0; i < session->size && status == WRING_OK; i++)
        if (i != session->rank)
            status = read_places(session, &session->fabric->peers[i], wring_blobs_reader(blobs, i));
    return status;
}

static enum wring_status exchange_places(struct wring_session *session)
{
    struct wring_writer places = {0};
    struct wring_blobs blobs;

    wring_progress_lock(session->progress);
    enum wring_status status = make_all(session);
    if (status == WRING_OK)
        write_places(session, &places);
    wring_progress_unlock(session->progress);
    status = wring_session_agree(session, status, "");
    if (status != WRING_OK) {
        free(places.data);
        return status;
    }
    status = wring_session_exchange_writer(session, &places, &blobs);
    if (status != WRING_OK)
        return status;
    wring_progress_lock(session->progress);
    status = wring_session_check(session);
    if (status == WRING_OK)
        status = import_all(session, &blobs);
    wring_progress_unlock(session->progress);
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, "");
}

enum wring_status wring_session_commit(struct wring_session *session)
{
    enum wring_status status = wring_session_check(session);
    if (status != WRING_OK)
        return status;
    wring_progress_lock(session->progress);
    if (wring_engine_idle(session->engine)) {
        wring_commit_undo(session);
        free_dropped(session);
        status = find_data(session);
    } else {
        status = WRING_ERR_BUSY;
    }
    wring_progress_unlock(session->progress);
    if (status != WRING_OK)
        return status;

    status = wring_commit_compare(session);
    if (status == WRING_OK)
        status = exchange_places(session);
    if (status != WRING_OK) {
        wring_progress_lock(session->progress);
        wring_commit_undo(session);
        wring_progress_unlock(session->progress);
        return status;
    }
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        at->committed = true;
        wring_debug(&session->log,
                    "bucket '%s': %" PRIu64 " elements, codec %s, %s%s, pieces of %" PRIu64,
                    at->name, at->elems, wring_codec_info(at->codec)->spec,
                    at->collective.work.ops->name, at->collective.work.placed ? ", in place" : "",
                    at->collective.work.geometry.chunk_elems);
    }
    return WRING_OK;
}
