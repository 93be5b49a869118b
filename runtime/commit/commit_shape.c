/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/commit_shape.h"

#include "runtime/commit/legs.h"

#define SEND_TASKS_MAX 16
#define STAGE_TASKS 4
#define FLAT_TIMES 8
#define SHOWN_BYTES 1024
#define PAIR_COPIED_TIMES 64
#define SMALL_WINDOW 16
#define SMALL_BYTES (512u << 10) /* of slots for one member */

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
    enum wring_scheme scheme = wring_scheme_across(bucket->scheme);
    uint32_t n = bucket->group->members.n;

    if (scheme != WRING_SCHEME_AUTO)
        return scheme == WRING_SCHEME_DIVISIBLE;
    if (!raw && info->flags & WRING_CODEC_TWO_WAYS)
        return true;
    if (raw)
        return !is_small(bucket);
    return n > 2 && info->unit != 0; /* two ranks send as much either way, and round once less */
}

static bool is_flat(const struct wring_bucket *bucket, const struct wring_shape *shape)
{
    return shape->raw && is_small(bucket) &&
           wring_flat_takes(&shape->geometry, bucket->group->members.n);
}

/** Past the engine. Of a leg the engine sees to all. */
static bool is_mapped(const struct wring_bucket *bucket)
{
    return bucket->mapped && bucket->whole == NULL && bucket->group->members.n > 1 &&
           bucket->elems > 0;
}

static const struct wring_collective_ops *choose_ops(const struct wring_bucket *bucket,
                                                     const struct wring_shape *shape)
{
    if (is_sharded(bucket, shape->raw))
        return &wring_sharded;
    if (!is_flat(bucket, shape))
        return &wring_gathered;
    return is_mapped(bucket) ? &wring_flat_mapped : &wring_flat;
}

/**
 * From a few lines on shards are summed where the data lies: for every line that goes to another
 * core and back there is one that need not be shown, and one that each member need not read.
 */
static bool is_in_place(const struct wring_bucket *bucket)
{
    return bucket->placed && wring_bucket_bytes(bucket) > SHOWN_BYTES;
}

/** How many pieces, how large, and room for how many of them: of what moves whole, or in shards. */
static void size_pieces(const struct wring_bucket *bucket, bool sharded, struct wring_shape *shape)
{
    const struct wring_config *config = &bucket->session->config;
    struct wring_span span = {0, bucket->elems};
    if (sharded)
        span = wring_geometry_shard(&shape->geometry, 0); /* none is larger */
    uint64_t pieces = wring_geometry_chunks(&shape->geometry, span);
    struct wring_span piece = wring_geometry_chunk(&shape->geometry, span, 0);

    if (pieces > 0)
        shape->slot_bytes = shape->raw ? wring_geometry_bytes(&shape->geometry, piece)
                                       : wring_codec_bound(bucket->codec, piece.end - piece.begin);
    if (shape->direct && shape->scatters)
        shape->slot_bytes = WRING_BOARD_ALIGN; /* a word has no bytes */
    shape->window = wring_channel_window(config->window, pieces + 1);
    while (shape->window < SMALL_WINDOW && shape->window * shape->slot_bytes < SMALL_BYTES)
        shape->window *= 2; /* room costs little here, and credits come back in batches of half */

    uint64_t peers = bucket->group->members.n - 1;
    shape->send_tasks =
        shape->scatters ? at_most(pieces * peers, SEND_TASKS_MAX) : at_most(pieces, STAGE_TASKS);
    shape->reduce_tasks = shape->ops != &wring_exchange ? at_most(pieces, STAGE_TASKS) : 0;
    shape->decode_tasks = sharded ? at_most(pieces * peers, SEND_TASKS_MAX) : 0;
}

/** An allreduce over channels of its own. @param raw  without its codec, if it has one */
static struct wring_shape shape_allreduce(const struct wring_bucket *bucket, bool raw)
{
    struct wring_shape shape = {.raw = raw};

    shape.geometry = wring_geometry_make(bucket->elems, (uint32_t)wring_dtype_bytes(bucket->dtype),
                                         bucket->group->members.n, raw ? NULL : bucket->codec,
                                         bucket->session->config.chunk_bytes);
    shape.ops = choose_ops(bucket, &shape);
    shape.scatters = shape.ops == &wring_sharded;
    shape.mapped = shape.ops == &wring_flat_mapped;
    shape.gathers = !shape.mapped;
    shape.placed = shape.mapped ? is_in_place(bucket) : shape.scatters && raw && bucket->placed;
    shape.direct = shape.placed && bucket->mapped;
    size_pieces(bucket, shape.scatters, &shape);
    return shape;
}

/** The first and the last leg: raw, and cut where codes may be. */
static struct wring_shape shape_in_node(const struct wring_bucket *bucket)
{
    bool in = bucket->leg == WRING_LEG_IN;
    struct wring_shape shape = {
        .ops = in ? &wring_sharded : &wring_exchange,
        .raw = true,
        .keep = in,
        .placed = bucket->placed && (!in || bucket->mapped),
        .direct = in && bucket->placed && bucket->mapped,
        .scatters = in,
    };

    shape.gathers = !in || shape.direct; /* which knows where everyone's data is */
    shape.geometry =
        wring_geometry_make(bucket->elems, (uint32_t)wring_dtype_bytes(bucket->dtype),
                            bucket->group->members.n, NULL, bucket->session->config.chunk_bytes);
    shape.geometry.grain = wring_geometry_grain(bucket->elems, bucket->codec);
    size_pieces(bucket, true, &shape);
    return shape;
}

static struct wring_shape shape_of(const struct wring_bucket *bucket, bool raw)
{
    if (bucket->whole != NULL && bucket->leg != WRING_LEG_ACROSS)
        return shape_in_node(bucket);
    if (bucket->levels == NULL)
        return shape_allreduce(bucket, raw);
    struct wring_shape shape = shape_allreduce(wring_leg_bucket(bucket, 0, WRING_LEG_ACROSS), raw);
    return (struct wring_shape){
        .ops = &wring_hierarchical,
        .raw = raw,
        .placed = shape.placed,
        .geometry = shape.geometry, /* of what goes between nodes */
    };
}

struct wring_shape wring_shape_choose(const struct wring_bucket *bucket)
{
    const struct wring_bucket *chosen = bucket->whole != NULL ? bucket->whole : bucket;
    return shape_of(bucket, chosen->choice.bypass || is_raw(bucket));
}

/** Of a bucket without legs. @return whether there are any */
static bool find_owned(const struct wring_bucket *bucket, struct wring_span *out)
{
    bool raw = is_raw(bucket);
    struct wring_shape shape = shape_allreduce(bucket, raw);

    if (raw || !shape.scatters)
        return false;
    struct wring_span shard = wring_geometry_shard(&shape.geometry, bucket->group->members.me);
    *out = (struct wring_span){bucket->first + shard.begin, bucket->first + shard.end};
    return true;
}

uint32_t wring_shape_find_owned(const struct wring_bucket *bucket, struct wring_span *spans)
{
    uint32_t n = 0;

    if (bucket->levels == NULL)
        return bucket->whole == NULL && find_owned(bucket, &spans[0]);
    for (uint32_t i = 0; i < bucket->levels->n; i++)
        n += find_owned(wring_leg_bucket(bucket, i, WRING_LEG_ACROSS), &spans[n]);
    return n;
}
