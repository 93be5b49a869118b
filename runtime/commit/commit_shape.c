/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/commit_shape.h"

#include <inttypes.h>

#include "compress/codec.h"

#include "runtime/commit/legs.h"
#include "runtime/group/group_nodes.h"
#include "runtime/session/session.h"

#define WRING_MODULE "commit"
#define SEND_TASKS_MAX 16
#define LEAST_WINDOW 2
#define STAGE_TASKS 4
#define SMALL_WINDOW 16
#define SMALL_BYTES (512u << 10) /* of slots for one member */

static uint32_t at_most(uint64_t value, uint32_t limit)
{
    return value < limit ? (uint32_t)value : limit;
}

static bool is_raw(const struct wring_bucket *bucket)
{
    return (wring_codec_info(bucket->codec)->flags & WRING_CODEC_RAW) != 0;
}

struct wring_operation wring_shape_operation(const struct wring_bucket *bucket, bool raw)
{
    static const enum wring_call_kind kinds[] = {
        [WRING_LEG_IN] = WRING_CALL_REDUCE_SCATTER,
        [WRING_LEG_ACROSS] = WRING_CALL_ALLREDUCE,
        [WRING_LEG_OUT] = WRING_CALL_ALLGATHER,
    };
    struct wring_group_nodes nodes = {.n = 0};

    if (wring_scheme_is_hierarchical(bucket->scheme)) /* others have no use for them */
        nodes = wring_group_count_nodes(bucket->group);
    return (struct wring_operation){
        .kind = bucket->whole != NULL ? kinds[bucket->leg] : WRING_CALL_ALLREDUCE,
        .dtype = bucket->dtype,
        .op = bucket->op,
        .elems = bucket->elems,
        .elem_bytes = (uint32_t)wring_dtype_bytes(bucket->dtype),
        .members = bucket->group->members.n,
        .nodes = nodes.n,
        .node_members = nodes.least == nodes.most ? nodes.least : 0,
        .scheme = bucket->scheme,
        .code = raw ? NULL : wring_codec_info(bucket->codec),
    };
}

/** Does the first other member's provider copy what is put? */
static bool puts_copy(const struct wring_bucket *bucket)
{
    const struct wring_fabric *fabric = bucket->session->fabric;
    const struct wring_members *members = &bucket->group->members;

    if (members->n == 1)
        return false;
    uint32_t other = members->ranks[members->me == 0];
    return fabric->devices[fabric->peers[other].device].caps.local_any;
}

/** Of a leg the engine sees to all: it has no board. */
static struct wring_reach reach_of(const struct wring_bucket *bucket, uint64_t piece_elems)
{
    const struct wring_config *config = &bucket->session->config;

    return (struct wring_reach){
        .eager_bytes = config->flat_bytes,
        .chunk_bytes = config->chunk_bytes,
        .piece_elems = piece_elems,
        .placeable = bucket->placed,
        .mappable = bucket->mapped,
        .boards = bucket->mapped && bucket->whole == NULL && bucket->elems > 0,
        .copies = puts_copy(bucket),
    };
}

/** Room for a piece, be it one of a round's statistics. */
static size_t with_rounds(const struct wring_bucket *bucket, size_t slot_bytes)
{
    const struct wring_bucket *whole = bucket->whole != NULL ? bucket->whole : bucket;
    const struct wring_codec_context context = {
        .ranks = bucket->group->members.n,
        .element = bucket->first,
        .first = bucket->first,
        .elems = bucket->elems,
        .rows = whole->rows,
        .columns = whole->columns,
    };
    size_t bytes = wring_coding_piece_bytes(bucket->codec, &context);
    return bytes > slot_bytes ? bytes : slot_bytes;
}

/** How many pieces, how large, and room for how many of them: of what moves whole, or in shards. */
static void size_pieces(const struct wring_bucket *bucket, bool shards, struct wring_shape *shape)
{
    const struct wring_algorithm_parts *parts = &wring_algorithms[shape->algorithm];
    const struct wring_config *config = &bucket->session->config;
    struct wring_span span = {0, bucket->elems};
    if (shards)
        span = wring_geometry_shard(&shape->geometry, 0); /* none is larger */
    uint64_t pieces = wring_geometry_chunks(&shape->geometry, span);
    struct wring_span piece = wring_geometry_chunk(&shape->geometry, span, 0);

    if (pieces > 0)
        shape->slot_bytes = shape->raw ? wring_geometry_bytes(&shape->geometry, piece)
                                       : wring_codec_bound(bucket->codec, piece.end - piece.begin);
    if (!shape->raw)
        shape->slot_bytes = with_rounds(bucket, shape->slot_bytes);
    if (parts->scatters && wring_algorithm_is_direct(shape->algorithm))
        shape->slot_bytes = WRING_BOARD_ALIGN; /* a word has no bytes */
    shape->window = wring_channel_window(config->window, pieces + 1);
    while (shape->window < SMALL_WINDOW && shape->window * shape->slot_bytes < SMALL_BYTES)
        shape->window *= 2; /* room costs little here, and credits come back in batches of half */

    uint64_t peers = bucket->group->members.n - 1;
    shape->send_tasks =
        parts->scatters ? at_most(pieces * peers, SEND_TASKS_MAX) : at_most(pieces, STAGE_TASKS);
    shape->reduce_tasks = parts->order != WRING_ORDER_NONE ? at_most(pieces, STAGE_TASKS) : 0;
    shape->decode_tasks = shards ? at_most(pieces * peers, SEND_TASKS_MAX) : 0;
}

/** An exchange over channels of its own. @param raw  without its codec, if it has one */
static struct wring_shape shape_alone(const struct wring_bucket *bucket, bool raw)
{
    struct wring_operation operation = wring_shape_operation(bucket, raw);
    bool leg = operation.kind != WRING_CALL_ALLREDUCE;
    struct wring_shape shape = {.raw = raw};

    shape.geometry =
        wring_geometry_make(bucket->elems, operation.elem_bytes, operation.members,
                            raw ? NULL : bucket->codec, bucket->session->config.chunk_bytes);
    if (leg) /* raw, and cut where codes may be */
        shape.geometry.grain = wring_geometry_grain(bucket->elems, bucket->codec);
    struct wring_reach reach = reach_of(bucket, shape.geometry.chunk_elems);
    shape.algorithm = wring_algorithm_select(&operation, &reach);
    size_pieces(bucket, leg || wring_algorithm_has_owners(shape.algorithm), &shape);
    return shape;
}

static void choose(struct wring_bucket *bucket)
{
    const struct wring_bucket *chosen = bucket->whole != NULL ? bucket->whole : bucket;
    bool within = bucket->whole != NULL && bucket->leg != WRING_LEG_ACROSS;

    bucket->shape = shape_alone(bucket, within || chosen->choice.bypass || is_raw(bucket));
}

/** Of one that goes by legs: what it shows of itself is what goes between nodes. */
static void choose_whole(struct wring_bucket *bucket)
{
    const struct wring_shape *across = &wring_leg_bucket(bucket, 0, WRING_LEG_ACROSS)->shape;

    bucket->shape = (struct wring_shape){
        .algorithm = WRING_ALLREDUCE_HIERARCHICAL,
        .raw = across->raw,
        .geometry = across->geometry,
    };
}

void wring_shapes_choose(struct wring_session *session)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->levels == NULL)
            choose(at);
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->levels != NULL)
            choose_whole(at);
}

/** Bytes of the slots in both channels of a bucket, if its window is no wider than that. */
static uint64_t slots_of(const struct wring_bucket *bucket, uint32_t widest)
{
    const struct wring_shape *shape = &bucket->shape;
    const struct wring_algorithm_parts *parts = &wring_algorithms[shape->algorithm];
    uint32_t channels =
        parts->scatters + (parts->gathers && !wring_algorithm_places(shape->algorithm));
    uint32_t window = shape->window < widest ? shape->window : widest;

    return channels *
           (uint64_t)wring_channel_memory(bucket->group->members.n, window, shape->slot_bytes);
}

static uint64_t slots_of_all(const struct wring_session *session, uint32_t widest)
{
    uint64_t bytes = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        bytes += slots_of(at, widest);
    return bytes;
}

enum wring_status wring_shapes_fit(struct wring_session *session)
{
    uint64_t most = session->config.slot_bytes;
    uint32_t widest = WRING_WINDOW_MAX;

    while (widest > LEAST_WINDOW && slots_of_all(session, widest) > most)
        widest /= 2;
    uint64_t bytes = slots_of_all(session, widest);
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->shape.window > widest)
            at->shape.window = widest;
    if (bytes <= most)
        return WRING_OK;
    wring_error(&session->log,
                "buckets need %" PRIu64 " bytes of slots at least, and WRING_SLOT_BYTES is %" PRIu64
                ": raise it, or lower WRING_CHUNK_BYTES",
                bytes, most);
    return WRING_ERR_NO_MEMORY;
}

/** Of a bucket without legs. @return whether there are any */
static bool find_owned(const struct wring_bucket *bucket, struct wring_span *out)
{
    struct wring_operation operation = wring_shape_operation(bucket, is_raw(bucket));

    if (!wring_algorithm_encodes_sums(&operation))
        return false;
    struct wring_geometry geometry =
        wring_geometry_make(bucket->elems, operation.elem_bytes, operation.members, bucket->codec,
                            bucket->session->config.chunk_bytes);
    struct wring_span shard = wring_geometry_shard(&geometry, bucket->group->members.me);
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
