/* SPDX-License-Identifier: Apache-2.0 */
/* What each bucket's exchange looks like, and the channels and slots that it runs on. */
#include "runtime/commit/commit.h"
#include "runtime/residual.h"

#define SEND_TASKS_MAX 16
#define STAGE_TASKS 4
#define ALIGN WRING_BOARD_ALIGN
#define FLAT_TIMES 8
#define SHOWN_BYTES 1024
#define PAIR_COPIED_TIMES 64
#define SMALL_WINDOW 16
#define SMALL_BYTES (512u << 10) /* of slots for one member */

/** What a bucket's exchange looks like, before anything is allocated. */
struct layout {
    bool sharded, raw, placed, mapped;
    bool in_place; /* and mapped: sums go straight into the data */
    struct wring_geometry geometry;
    uint64_t pieces; /* of the largest shard, or of the whole */
    size_t slot_bytes;
    uint32_t window;
    uint32_t send_tasks, reduce_tasks, decode_tasks;
};

static uint32_t at_most(uint64_t value, uint32_t limit)
{
    return value < limit ? (uint32_t)value : limit;
}

/**
 * One hop is sooner done than two, until the time goes by bytes. Two ranks over a network send as
 * many in one hop as in two, so there it is worth more of them, and most where a kernel copies them
 * anyway (tcp on loopback: from 12 KiB to 512 KiB, by a third to a seventh). In mapped data there
 * is no engine in between, which tells up to about as many bytes.
 */
static uint64_t flat_limit(const struct wring_bucket *bucket)
{
    const struct wring_fabric *fabric = bucket->session->fabric;
    const struct wring_members *members = &bucket->group->members;
    uint64_t limit = bucket->session->config.flat_bytes;

    if (bucket->placed && bucket->mapped)
        return at_most(limit * FLAT_TIMES, (uint32_t)bucket->session->config.chunk_bytes);
    if (members->n != 2)
        return limit;
    const struct wring_peer *other = &fabric->peers[members->ranks[1 - members->me]];
    const struct wring_provider_caps *caps = &fabric->devices[other->device].caps;
    if (caps->remote_map)
        return limit;
    return limit * (caps->local_any ? PAIR_COPIED_TIMES : FLAT_TIMES);
}

static bool is_small(const struct wring_bucket *bucket)
{
    return wring_bucket_bytes(bucket) <= flat_limit(bucket);
}

static bool is_raw(const struct wring_bucket *bucket)
{
    return (wring_codec_info(bucket->codec)->flags & WRING_CODEC_RAW) != 0;
}

static bool is_sharded(const struct wring_bucket *bucket, bool raw)
{
    const struct wring_codec_info *info = wring_codec_info(bucket->codec);
    uint32_t n = bucket->group->members.n;

    if (bucket->scheme != WRING_SCHEME_AUTO)
        return bucket->scheme == WRING_SCHEME_DIVISIBLE;
    if (!raw && info->flags & WRING_CODEC_TWO_WAYS)
        return true;
    if (raw)
        return !is_small(bucket);
    return n > 2 && info->unit != 0; /* two ranks send as much either way, and round once less */
}

static bool is_flat(const struct wring_bucket *bucket, const struct layout *layout)
{
    return layout->raw && !layout->sharded && is_small(bucket) &&
           wring_flat_takes(&layout->geometry, bucket->group->members.n);
}

/**
 * From a few lines on shards are summed where the data lies: for every line that goes to another
 * core and back there is one that need not be shown, and one that each member need not read.
 */
static bool is_in_place(const struct wring_bucket *bucket)
{
    return bucket->placed && wring_bucket_bytes(bucket) > SHOWN_BYTES;
}

/** @param raw  without its codec, if it has one */
static struct layout lay_out(const struct wring_bucket *bucket, bool raw)
{
    const struct wring_config *config = &bucket->session->config;
    uint32_t n = bucket->group->members.n;
    struct layout layout = {
        .sharded = is_sharded(bucket, raw),
        .raw = raw,
    };
    layout.placed = layout.sharded && layout.raw && bucket->placed;
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
    layout.mapped = is_flat(bucket, &layout) && bucket->mapped && n > 1 && bucket->elems > 0;
    layout.in_place = layout.mapped && is_in_place(bucket);
    if (layout.placed && bucket->mapped)
        layout.slot_bytes = ALIGN; /* a word has no bytes */
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

static struct layout choose_layout(const struct wring_bucket *bucket)
{
    return lay_out(bucket, bucket->choice.bypass || is_raw(bucket));
}

/** The elements whose sum we would encode again. */
static struct wring_span find_owned(const struct wring_bucket *bucket)
{
    struct layout layout = lay_out(bucket, is_raw(bucket));
    if (layout.raw || !layout.sharded)
        return (struct wring_span){0, 0};
    return wring_geometry_shard(&layout.geometry, bucket->group->members.me);
}

/** Of what is shown on a board. */
static size_t board_room(const struct wring_bucket *bucket, const struct layout *layout)
{
    return layout->in_place ? 1 : wring_bucket_bytes(bucket);
}

static size_t channel_bytes(const struct wring_bucket *bucket, const struct layout *layout)
{
    return wring_channel_memory(bucket->group->members.n, layout->window, layout->slot_bytes);
}

static const struct wring_collective_ops *ops_of(const struct wring_bucket *bucket,
                                                 const struct layout *layout)
{
    if (layout->sharded)
        return &wring_sharded;
    if (layout->mapped)
        return &wring_flat_mapped;
    return is_flat(bucket, layout) ? &wring_flat : &wring_gathered;
}

static void fill_collective(struct wring_bucket *bucket, const struct layout *layout)
{
    struct wring_session *session = bucket->session;
    bool staged =
        layout->raw && !layout->mapped && !wring_block_sendable(session->fabric, bucket->block);
    bucket->collective = (struct wring_collective){
        .engine = session->engine,
        .members = bucket->group->members,
        .bucket = wring_bucket_id(bucket->name),
        .label = wring_trace_label(session->trace, bucket->name),
        .seed = session->seed,
        .priority = bucket->priority,
        .scatter = layout->sharded ? &bucket->scatter : NULL,
        .gather = layout->mapped ? NULL : &bucket->gather,
        .residual = layout->raw ? NULL : bucket->residual,
        .send_tasks = layout->send_tasks,
        .reduce_tasks = layout->reduce_tasks,
        .decode_tasks = layout->decode_tasks,
        .slot_bytes = layout->raw && !staged ? 0 : layout->slot_bytes,
        .slots = &session->sources,
        .work = {.ops = ops_of(bucket, layout),
                 .geometry = layout->geometry,
                 .codec = layout->raw ? NULL : bucket->codec,
                 .dtype = bucket->dtype,
                 .op = bucket->op,
                 .in = bucket->data,
                 .out = bucket->data,
                 .block = bucket->block,
                 .placed = layout->placed || layout->in_place,
                 .direct = (layout->placed && bucket->mapped) || layout->in_place,
                 .staged = staged},
        .step = bucket->collective.step,
        .cost = bucket->collective.cost,
        .measured = bucket->collective.measured,
    };
    bucket->collective.measured.every = (uint64_t)session->config.stats_every;
}

/**
 * Where each bucket's channels lie in the session's slots, and its send slots in the sources.
 * @param sources out, bytes of these @return bytes of the slots
 */
static size_t plan_memory(struct wring_session *session, size_t *sources)
{
    size_t total = 0;
    *sources = 0;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        struct layout layout = choose_layout(at);
        fill_collective(at, &layout);
        at->owned = find_owned(at);
        wring_residual_settle(at);
        at->idle = wring_residual_is_idle(at);
        total = (total + ALIGN - 1) / ALIGN * ALIGN;
        at->memory_offset = total;
        if (layout.mapped)
            total += wring_mapped_memory(board_room(at, &layout));
        if (at->collective.scatter != NULL)
            total += channel_bytes(at, &layout);
        if (at->collective.gather != NULL && !at->collective.work.placed)
            total += channel_bytes(at, &layout);
        at->sources_offset = *sources;
        *sources += (wring_collective_slot_memory(&at->collective) + ALIGN - 1) / ALIGN * ALIGN;
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
    struct layout layout = choose_layout(bucket);
    struct wring_collective *collective = &bucket->collective;
    uint8_t *memory = (uint8_t *)bucket->session->slots.memory.base + bucket->memory_offset;
    enum wring_status status = WRING_OK;

    if (layout.mapped)
        status = wring_mapped_create(collective->members, board_room(bucket, &layout), memory,
                                     &collective->mapped);
    if (collective->scatter != NULL)
        status = make_channel(bucket, &bucket->scatter, layout.window, layout.slot_bytes, &memory);
    if (status == WRING_OK && collective->gather != NULL)
        status = make_channel(bucket, &bucket->gather, collective->work.placed ? 0 : layout.window,
                              layout.slot_bytes, &memory);
    collective->slots_base =
        collective->slot_bytes > 0
            ? (uint8_t *)bucket->session->sources.memory.base + bucket->sources_offset
            : NULL;
    if (status == WRING_OK)
        status = wring_collective_prepare(collective);
    if (status == WRING_OK && layout.mapped) {
        wring_mapped_prepare(collective);
        wring_stats_list(bucket->session, collective->mapped);
    }
    return status;
}

static enum wring_status alloc_slots(struct wring_session *session)
{
    size_t sources, slots = plan_memory(session, &sources);
    enum wring_status status = wring_block_alloc(session->fabric, slots, &session->slots);

    if (status == WRING_OK && sources > 0)
        status = wring_block_alloc_source(session->fabric, sources, &session->sources);
    if (status == WRING_OK)
        status = wring_block_populate(&session->slots);
    return status == WRING_OK ? wring_block_populate(&session->sources) : status;
}

enum wring_status wring_commit_make(struct wring_session *session)
{
    uint64_t most = 0;
    enum wring_status status = alloc_slots(session);

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
