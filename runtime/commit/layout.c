/* SPDX-License-Identifier: Apache-2.0 */
/* The channels and slots that each bucket's collective runs on. */
#include "runtime/commit/layout.h"

#include <inttypes.h>
#include <stdio.h>

#include "compress/codec.h"
#include "runtime/codec_states.h"
#include "runtime/commit/commit.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/group/group.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/residual.h"
#include "runtime/session/executor.h"
#include "runtime/session/session.h"
#include "runtime/stats.h"

#define WRING_MODULE "commit"
#define SEND_TASKS_MAX 16
#define LEAST_WINDOW 2
#define STAGE_TASKS 4
#define SMALL_WINDOW 16
#define FAR_NS 1000000ull /* there and back */
#define ONE_HOP_TASKS_MAX 256
#define UNKNOWN_BYTES_PER_S 1250000000ull
#define SMALL_BYTES (512u << 10) /* of slots for one member */

static uint32_t at_most(uint64_t value, uint32_t limit)
{
    return value < limit ? (uint32_t)value : limit;
}

const struct wring_members *wring_shape_members(const struct wring_bucket *bucket)
{
    return wring_algorithm_is_ring(bucket->shape.algorithm) ? &bucket->group->ring->members
                                                            : &bucket->group->members;
}

static bool has_raw_codec(const struct wring_bucket *bucket)
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

    if (wring_scheme_is_hierarchical(bucket->scheme) && /* others have no use for them */
        !(wring_codec_info(bucket->codec)->flags & WRING_CODEC_VOTES))
        nodes = bucket->group->nodes;
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
static bool provider_copies_puts(const struct wring_bucket *bucket)
{
    const struct wring_fabric *fabric = bucket->session->fabric;
    const struct wring_members *members = &bucket->group->members;

    if (members->n == 1)
        return false;
    uint32_t other = members->ranks[members->me == 0];
    return wring_fabric_device(fabric, other)->caps.local_any;
}

/** Of a leg the engine sees to all: it has no board. */
static struct wring_reach bucket_reach(const struct wring_bucket *bucket, uint64_t piece_elems)
{
    const struct wring_config *config = &bucket->session->config;

    return (struct wring_reach){
        .eager_bytes = config->flat_bytes,
        .chunk_bytes = config->chunk_bytes,
        .piece_elems = piece_elems,
        .placeable = bucket->placed,
        .mappable = bucket->mapped,
        .boards = bucket->mapped && bucket->whole == NULL && bucket->elems > 0,
        .copies = provider_copies_puts(bucket),
    };
}

/** Room for a piece, be it one of a round's statistics. */
static size_t slot_bytes_with_rounds(const struct wring_bucket *bucket, size_t slot_bytes)
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

/** The connection with the longest way to another member; NULL: there is none. */
static const struct wring_conn *farthest_member(const struct wring_bucket *bucket)
{
    const struct wring_fabric *fabric = bucket->session->fabric;
    const struct wring_members *members = &bucket->group->members;
    const struct wring_conn *farthest = NULL;

    for (uint32_t i = 0; i < members->n; i++) {
        const struct wring_conn *conn = fabric->peers[members->ranks[i]].conn;
        if (i != members->me && conn != NULL &&
            (farthest == NULL || conn->path.round_trip_ns > farthest->path.round_trip_ns))
            farthest = conn;
    }
    return farthest;
}

/**
 * The longest way that pieces may take. Neighbours on a ring connect after this, so it may be the
 * session's longest. @param taken_per_s  out: as measured there; 0: it was not
 */
static struct wring_path longest_way(const struct wring_bucket *bucket,
                                     const struct wring_shape *shape, uint64_t *taken_per_s)
{
    const struct wring_conn *farthest = farthest_member(bucket);
    const struct wring_distance *session = &bucket->session->distance;
    struct wring_path path = {0};

    *taken_per_s = 0;
    if (farthest != NULL) {
        path = farthest->path;
        *taken_per_s = __atomic_load_n(&farthest->taken_per_s, __ATOMIC_RELAXED);
    } else if (wring_algorithm_is_ring(shape->algorithm) && bucket->group->nodes.n > 1) {
        path.round_trip_ns = session->round_trip_ns;
        path.bytes_per_s = session->bytes_per_s;
    }
    return path;
}

double wring_layout_way_rate(uint64_t interface_per_s, uint64_t taken_per_s)
{
    double rate = (double)(interface_per_s > 0 ? interface_per_s : UNKNOWN_BYTES_PER_S);

    return taken_per_s > 0 && 2 * (double)taken_per_s < rate ? 2 * (double)taken_per_s : rate;
}

/**
 * Widen the window until it is as wide as a long way: credits come back a round trip after their
 * pieces have left, half a window at a time. Not where the number of slots was given.
 * @return slots that the way holds; 0: no member is far
 */
static uint64_t widen_window(const struct wring_bucket *bucket, uint64_t pieces,
                             struct wring_shape *shape)
{
    uint64_t taken;
    const struct wring_path path = longest_way(bucket, shape, &taken);

    if (path.round_trip_ns < FAR_NS || shape->slot_bytes == 0 ||
        wring_config_given(&bucket->session->config, "WRING_WINDOW"))
        return 0;
    double rate = wring_layout_way_rate(path.bytes_per_s, taken);
    double bytes = 2 * rate * (double)path.round_trip_ns / 1e9;
    uint64_t slots = (uint64_t)(bytes / (double)shape->slot_bytes) + 1;
    while (shape->window < slots && shape->window < pieces && shape->window < WRING_WINDOW_MAX) {
        shape->window *= 2;
        shape->round_trip_ns = path.round_trip_ns;
        shape->bytes_per_s = rate;
    }
    return slots;
}

/** Partial sums travel, in another type than the bucket's. */
static bool partials_are_wide(const struct wring_bucket *bucket, const struct wring_shape *shape)
{
    return shape->raw && wring_algorithm_has_partners(shape->algorithm) &&
           wring_algorithm_widens(bucket->dtype, bucket->op);
}

static size_t at_most_bytes(uint64_t value, uint64_t limit)
{
    return (size_t)(value < limit ? value : limit);
}

/** Set slot size, window and numbers of tasks for a bucket that moves whole, or in shards. */
static void size_pieces(const struct wring_bucket *bucket, bool shards, struct wring_shape *shape)
{
    const struct wring_algorithm_parts *parts = &wring_algorithms[shape->algorithm];
    const struct wring_config *config = &bucket->session->config;
    struct wring_span span = {0, bucket->elems};
    if (shards)
        span = wring_partition_shard(&shape->partition, 0); /* none is larger */
    uint64_t pieces = wring_partition_chunks(&shape->partition, span);
    struct wring_span piece = wring_partition_chunk(&shape->partition, span, 0);

    if (pieces > 0)
        shape->slot_bytes = shape->raw
                                ? wring_partition_bytes(&shape->partition, piece)
                                : wring_codec_piece_bytes(bucket->codec, piece.end - piece.begin);
    if (partials_are_wide(bucket, shape))
        shape->slot_bytes =
            at_most_bytes(bucket->elems * sizeof(float),
                          shape->partition.chunk_elems * shape->partition.elem_bytes);
    if (shape->algorithm == WRING_ALLREDUCE_BRUCK)
        shape->slot_bytes = wring_bruck_message_bytes(bucket->group->members.n, shape->slot_bytes);
    if (!shape->raw)
        shape->slot_bytes = slot_bytes_with_rounds(bucket, shape->slot_bytes);
    if (parts->scatters && wring_algorithm_is_direct(shape->algorithm))
        shape->slot_bytes = WRING_BOARD_ALIGN; /* a word has no bytes */
    shape->window = wring_channel_window(config->window, pieces + 1);
    while (shape->window < SMALL_WINDOW && shape->window * shape->slot_bytes < SMALL_BYTES)
        shape->window *= 2; /* room costs little here, and credits come back in batches of half */
    uint64_t far = widen_window(bucket, pieces, shape);

    /* in one hop a task keeps its code until the peer's has come: it is needed for the sum */
    uint32_t one_hop = far > STAGE_TASKS ? at_most(far, ONE_HOP_TASKS_MAX) : STAGE_TASKS;
    uint64_t peers = bucket->group->members.n - 1;
    shape->send_tasks =
        parts->scatters ? at_most(pieces * peers, SEND_TASKS_MAX) : at_most(pieces, one_hop);
    if (shape->algorithm == WRING_ALLREDUCE_BRUCK)
        shape->send_tasks = 1;
    shape->reduce_tasks = parts->order != WRING_ORDER_NONE ? at_most(pieces, STAGE_TASKS) : 0;
    if (wring_algorithm_is_ring(shape->algorithm)) /* nearly all that it sends are sums */
        shape->reduce_tasks = at_most(pieces, SEND_TASKS_MAX);
    shape->decode_tasks = shards ? at_most(pieces * peers, SEND_TASKS_MAX) : 0;
}

/** A collective over channels of its own. @param raw  without its codec, if it has one */
static struct wring_shape shape_alone(const struct wring_bucket *bucket, bool raw)
{
    struct wring_operation operation = wring_shape_operation(bucket, raw);
    bool leg = operation.kind != WRING_CALL_ALLREDUCE;
    struct wring_shape shape = {.raw = raw};

    shape.partition =
        wring_partition_make(bucket->elems, operation.elem_bytes, operation.members,
                             raw ? NULL : bucket->codec, bucket->session->config.chunk_bytes);
    if (leg) /* raw, and cut where codes may be */
        shape.partition.grain = wring_partition_grain(bucket->elems, bucket->codec);
    struct wring_reach reach = bucket_reach(bucket, shape.partition.chunk_elems);
    reach.code_bytes = raw || bucket->elems > reach.piece_elems
                           ? 0
                           : wring_codec_bound(bucket->codec, bucket->elems);
    shape.algorithm = wring_algorithm_select(&operation, &reach);
    if (wring_algorithm_is_ring(shape.algorithm))
        wring_ring_cut(&shape.partition);
    size_pieces(bucket, leg || wring_algorithm_has_owners(shape.algorithm), &shape);
    return shape;
}

static void choose_shape(struct wring_bucket *bucket)
{
    const struct wring_bucket *chosen = bucket->whole != NULL ? bucket->whole : bucket;
    bool within = bucket->whole != NULL && bucket->leg != WRING_LEG_ACROSS;

    bucket->shape = shape_alone(bucket, within || chosen->choice.bypass || has_raw_codec(bucket));
}

bool wring_shape_has_partners(const struct wring_bucket *bucket)
{
    const struct wring_fabric *fabric = bucket->session->fabric;
    const struct wring_config *config = &bucket->session->config;
    const struct wring_members *members = &bucket->group->members;
    struct wring_operation operation = wring_shape_operation(bucket, has_raw_codec(bucket));
    struct wring_reach reach = {
        .eager_bytes = config->flat_bytes,
        .chunk_bytes = config->chunk_bytes,
        .piece_elems = UINT64_MAX,
        .code_bytes = has_raw_codec(bucket) ? 0 : wring_codec_bound(bucket->codec, bucket->elems)};

    if (bucket->levels != NULL || bucket->whole != NULL || members->n == 1)
        return false;
    for (uint32_t i = 0; i < members->n; i++)
        if (i != members->me && wring_fabric_device(fabric, members->ranks[i])->caps.remote_map)
            return false;
    return wring_algorithm_has_partners(wring_algorithm_select(&operation, &reach));
}

/** The shape of a bucket that goes by legs is that of its leg between nodes. */
static void choose_shape_of_whole(struct wring_bucket *bucket)
{
    const struct wring_shape *across = &wring_leg_bucket(bucket, 0, WRING_LEG_ACROSS)->shape;

    bucket->shape = (struct wring_shape){
        .algorithm = WRING_ALLREDUCE_HIERARCHICAL,
        .raw = across->raw,
        .partition = across->partition,
    };
}

/** Choose the shapes of all buckets, by the ranks' agreement and by whether their codecs run. */
static void shapes_choose(struct wring_session *session)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->levels == NULL)
            choose_shape(at);
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->levels != NULL)
            choose_shape_of_whole(at);
}

/** Members that have slots in a channel of the bucket. */
static uint32_t count_senders(const struct wring_bucket *bucket)
{
    return wring_senders_of(bucket->shape.algorithm, bucket->group->members.n).most;
}

/** Bytes of the slots in both channels of a bucket, if its window is no wider than that. */
static uint64_t slot_bytes_of_bucket(const struct wring_bucket *bucket, uint32_t widest)
{
    const struct wring_shape *shape = &bucket->shape;
    const struct wring_algorithm_parts *parts = &wring_algorithms[shape->algorithm];
    uint32_t channels =
        parts->scatters + (parts->gathers && !wring_algorithm_is_placed(shape->algorithm));
    uint32_t window = shape->window < widest ? shape->window : widest;

    return channels *
           (uint64_t)wring_channel_memory(count_senders(bucket), window, shape->slot_bytes);
}

static uint64_t slot_bytes_of_all(const struct wring_session *session, uint32_t widest)
{
    uint64_t bytes = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        bytes += slot_bytes_of_bucket(at, widest);
    return bytes;
}

static void say_far_windows(const struct wring_session *session, uint32_t widest)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->shape.round_trip_ns > 0)
            wring_info(
                &session->log,
                "bucket '%s': a member is %.1f ms away and back, at up to %.0f Mbit/s, so each "
                "peer has %" PRIu32 " slots of %zu bytes%s",
                at->name, (double)at->shape.round_trip_ns / 1e6, at->shape.bytes_per_s * 8 / 1e6,
                at->shape.window, at->shape.slot_bytes,
                at->shape.window == widest ? ", as many as WRING_SLOT_BYTES allows" : "");
}

/**
 * Have slots of all buckets take no more than WRING_SLOT_BYTES: windows shrink, the widest ones
 * first, down to two slots. Each rank does so by itself, as each tells its own windows.
 * Errors: WRING_ERR_NO_MEMORY, logged with the figure: they do not fit even so.
 */
static enum wring_status shapes_fit(struct wring_session *session)
{
    uint64_t most = session->config.slot_bytes;
    uint32_t widest = WRING_WINDOW_MAX;

    while (widest > LEAST_WINDOW && slot_bytes_of_all(session, widest) > most)
        widest /= 2;
    uint64_t bytes = slot_bytes_of_all(session, widest);
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->shape.window > widest)
            at->shape.window = widest;
    if (bytes <= most) {
        say_far_windows(session, widest);
        return WRING_OK;
    }
    wring_error(&session->log,
                "buckets need %" PRIu64 " bytes of slots at least, and WRING_SLOT_BYTES is %" PRIu64
                ": raise it, or lower WRING_CHUNK_BYTES",
                bytes, most);
    return WRING_ERR_NO_MEMORY;
}

/** Find the span of a bucket without legs that this rank owns. @return whether there is one */
static bool find_own_shard(const struct wring_bucket *bucket, struct wring_span *out)
{
    struct wring_operation operation = wring_shape_operation(bucket, has_raw_codec(bucket));

    if (!wring_algorithm_encodes_sums(&operation))
        return false;
    struct wring_partition partition =
        wring_partition_make(bucket->elems, operation.elem_bytes, operation.members, bucket->codec,
                             bucket->session->config.chunk_bytes);
    struct wring_span shard = wring_partition_shard(&partition, bucket->group->members.me);
    *out = (struct wring_span){bucket->first + shard.begin, bucket->first + shard.end};
    return true;
}

/**
 * The elements whose sums we would encode again, if the codec runs.
 * @param spans  out, [WRING_SLICES_MAX], rising, of the bucket's elements
 * @return how many
 */
static uint32_t shape_find_owned(const struct wring_bucket *bucket, struct wring_span *spans)
{
    uint32_t n = 0;

    if (bucket->levels == NULL)
        return bucket->whole == NULL && find_own_shard(bucket, &spans[0]);
    for (uint32_t i = 0; i < bucket->levels->n; i++)
        n += find_own_shard(wring_leg_bucket(bucket, i, WRING_LEG_ACROSS), &spans[n]);
    return n;
}

/* ---- layout ---- */

#define ALIGN WRING_BOARD_ALIGN

/** Bytes that a member shows on its board. */
static size_t board_room(const struct wring_bucket *bucket)
{
    return wring_algorithm_is_direct(bucket->shape.algorithm) ? 1 : wring_bucket_bytes(bucket);
}

static size_t channel_bytes(const struct wring_bucket *bucket)
{
    const struct wring_shape *shape = &bucket->shape;
    return wring_channel_memory(count_senders(bucket), shape->window, shape->slot_bytes);
}

/** What a leg's steps are called in the trace. */
static uint32_t label_leg(const struct wring_bucket *leg)
{
    static const char *const words[] = {"into the node's sum", "between nodes", "within the node"};
    char label[WRING_NAME_MAX + 32];

    snprintf(label, sizeof(label), "%s: %s", leg->whole->name, words[leg->leg]);
    return wring_trace_label(leg->session->trace, label);
}

/** An average is divided once, where the nodes' sums are added; of 16-bit floats each sum is,
 *  where it is in float32 still: a node's might not fit. */
static void fill_op(const struct wring_bucket *leg, struct wring_work *work)
{
    bool short_type = leg->dtype == WRING_F16 || leg->dtype == WRING_BF16;

    if (leg->op != WRING_AVG || short_type)
        return;
    if (leg->leg == WRING_LEG_IN)
        work->op = WRING_SUM;
    else
        work->ranks = leg->whole->group->members.n;
}

/** Give a leg the properties of its bucket. */
static void fill_leg(struct wring_bucket *leg)
{
    struct wring_collective *collective = &leg->collective;
    const struct wring_bucket *whole = leg->whole;

    collective->whole = &leg->whole->collective;
    collective->cease = &whole->group->cease;
    collective->first = leg->first;
    collective->rows = whole->rows;
    collective->columns = whole->columns;
    collective->bucket = wring_bucket_id(whole->name);
    collective->label = label_leg(leg);
    collective->finished = wring_leg_finished;
    if (whole->residual != NULL && collective->work.codec != NULL)
        collective->residual = wring_residual_run(whole->codec, whole->residual, leg->first);
    if (whole->states != NULL && collective->work.codec != NULL)
        collective->states = whole->states->now;
    fill_op(leg, &collective->work);
}

/** May peers be sent what is contributed from where it lies, and none reads it at the result's? */
static bool can_read_source(const struct wring_bucket *bucket)
{
    enum wring_algorithm algorithm = bucket->shape.algorithm;
    return bucket->source != NULL && !bucket->multiplies && bucket->levels == NULL &&
           bucket->group->members.n > 1 && !wring_algorithm_has_board(algorithm) &&
           !wring_algorithm_is_direct(algorithm) &&
           wring_block_sendable(bucket->session->fabric, NULL);
}

/** Is somebody told of its steps who does not ask? */
static bool has_step_listener(const struct wring_bucket *bucket)
{
    const struct wring_bucket_fusion *joined = bucket->fuses;
    bool any = bucket->completion.done != NULL ||
               atomic_load_explicit(&bucket->session->completions.bell, memory_order_relaxed) >= 0;
    for (uint32_t i = 0; joined != NULL && i < joined->n; i++)
        any |= joined->members[i]->completion.done != NULL;
    return any;
}

static void fill_collective(struct wring_bucket *bucket)
{
    struct wring_session *session = bucket->session;
    const struct wring_shape *shape = &bucket->shape;
    const struct wring_algorithm_parts *parts = &wring_algorithms[shape->algorithm];
    bool staged = shape->raw && !wring_algorithm_has_board(shape->algorithm) &&
                  !wring_block_sendable(session->fabric, bucket->block);
    bool partials =
        partials_are_wide(bucket, shape) && !wring_block_sendable(session->fabric, NULL);
    bucket->collective = (struct wring_collective){
        .engine = session->engine,
        .cease = &bucket->group->cease,
        .queue = bucket->queue,
        .members = *wring_shape_members(bucket),
        .bucket = wring_bucket_id(bucket->name),
        .label = wring_trace_label(session->trace, bucket->name),
        .name = bucket->whole != NULL ? bucket->whole->name : bucket->name,
        .seed = session->seed,
        .rows = bucket->rows,
        .columns = bucket->columns,
        .priority = bucket->priority,
        .scatter = parts->scatters ? &bucket->scatter : NULL,
        .gather = parts->gathers ? &bucket->gather : NULL,
        .levels = bucket->levels != NULL ? &bucket->levels->driven : NULL,
        .residual = shape->raw ? NULL : bucket->residual,
        .states = bucket->states != NULL ? bucket->states->now : NULL,
        .residual_place = bucket->queue->executor->home,
        .send_tasks = shape->send_tasks,
        .reduce_tasks = shape->reduce_tasks,
        .decode_tasks = shape->decode_tasks,
        .slot_bytes = shape->raw && !staged && !partials ? 0 : shape->slot_bytes,
        .slots = &session->sources,
        .work = {.algorithm = shape->algorithm,
                 .ops = parts->ops,
                 .partition = shape->partition,
                 .codec = shape->raw ? NULL : bucket->codec,
                 .dtype = bucket->dtype,
                 .op = bucket->op,
                 .place = bucket->place,
                 .in = bucket->data,
                 .out = bucket->data,
                 .in_block = bucket->block,
                 .out_block = bucket->block,
                 .root = WRING_EVERYBODY,
                 .to_all = true,
                 .in_staged = staged,
                 .out_staged = staged},
        .step = bucket->collective.step,
        .cost = bucket->collective.cost,
        .error_stats = bucket->collective.error_stats,
    };
    bucket->reads_source = can_read_source(bucket);
    bucket->collective.error_stats.every = (uint64_t)session->config.stats_every;
    bucket->collective.finished = wring_bucket_finished;
    bucket->collective.owner = bucket;
    bucket->collective.watched = has_step_listener(bucket);
    if (bucket->whole != NULL)
        fill_leg(bucket);
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
        fill_collective(at);
        at->n_owned = shape_find_owned(at, at->owned);
        wring_residual_settle(at);
        at->idle = wring_residual_is_idle(at);
        total = (total + ALIGN - 1) / ALIGN * ALIGN;
        at->memory_offset = total;
        if (wring_algorithm_has_board(at->shape.algorithm))
            total += wring_shm_flags_memory(board_room(at));
        if (at->collective.scatter != NULL)
            total += channel_bytes(at);
        if (at->collective.gather != NULL && !wring_algorithm_is_placed(at->shape.algorithm))
            total += channel_bytes(at);
        at->sources_offset = *sources;
        *sources += (wring_collective_slot_memory(&at->collective) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return total;
}

static enum wring_status make_channel(struct wring_bucket *bucket, struct wring_channel *channel,
                                      uint32_t window, size_t slot_bytes, uint8_t **memory)
{
    struct wring_session *session = bucket->session;
    enum wring_status status =
        wring_channel_init(channel, session->fabric, *wring_shape_members(bucket), window,
                           window > 0 ? slot_bytes : 0, *memory);
    if (status != WRING_OK)
        return status;
    channel->owner = &bucket->collective;
    if (wring_algorithm_has_partners(bucket->shape.algorithm))
        wring_channel_seat(
            channel, wring_senders_of(bucket->shape.algorithm, bucket->group->members.n).place);
    *memory += wring_channel_memory(count_senders(bucket), window, slot_bytes);
    return wring_engine_add_channel(session->engine, channel);
}

/** Members put sums into its data. Legs share the keys of their bucket. */
static enum wring_status make_keys(struct wring_bucket *bucket)
{
    struct wring_bucket *owner = bucket->whole != NULL ? bucket->whole : bucket;

    if (bucket->block == NULL || owner->keys.fabric != NULL)
        return WRING_OK;
    return wring_block_add_keys(bucket->block, &owner->keys);
}

/** Memory of its steps for partial sums in float32, or for codes of all members. */
static size_t scratch_bytes(const struct wring_bucket *bucket)
{
    if (partials_are_wide(bucket, &bucket->shape))
        return (size_t)bucket->elems * sizeof(float);
    return wring_bruck_scratch_bytes(&bucket->collective.work, bucket->group->members.n);
}

static enum wring_status make_bucket_channels(struct wring_bucket *bucket)
{
    const struct wring_shape *shape = &bucket->shape;
    struct wring_collective *collective = &bucket->collective;
    bool board = wring_algorithm_has_board(shape->algorithm);
    uint8_t *memory = (uint8_t *)bucket->session->slots.memory.base + bucket->memory_offset;
    enum wring_status status = WRING_OK;

    if (board)
        status = wring_shm_flags_create(collective->members, board_room(bucket), memory,
                                        &collective->shm_flags);
    if (collective->scatter != NULL)
        status = make_channel(bucket, &bucket->scatter, shape->window, shape->slot_bytes, &memory);
    if (status == WRING_OK && collective->gather != NULL)
        status = make_channel(bucket, &bucket->gather,
                              wring_algorithm_is_placed(shape->algorithm) ? 0 : shape->window,
                              shape->slot_bytes, &memory);
    if (status == WRING_OK && bucket->gather.placed)
        status = make_keys(bucket);
    collective->slots_base =
        collective->slot_bytes > 0 && bucket->session->sources.memory.base != NULL
            ? (uint8_t *)bucket->session->sources.memory.base + bucket->sources_offset
            : NULL;
    if (status == WRING_OK)
        status = wring_collective_prepare(collective);
    size_t scratch = scratch_bytes(bucket);
    if (status == WRING_OK && scratch > 0)
        status = wring_collective_make_scratch(collective, scratch);
    if (status == WRING_OK && bucket->levels == NULL)
        status = wring_coding_create(collective, &collective->work, &collective->work.coding);
    if (status == WRING_OK && board) {
        wring_shm_flags_prepare(collective);
        wring_stats_list(bucket->session, collective->shm_flags);
    }
    return status;
}

static enum wring_status alloc_slots(struct wring_session *session)
{
    shapes_choose(session);
    enum wring_status status = shapes_fit(session);
    if (status != WRING_OK)
        return status;
    size_t sources, slots = plan_memory(session, &sources);

    status = wring_block_alloc(session->fabric, slots, &session->slots);
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
        uint64_t piece = at->collective.work.partition.chunk_elems;
        piece = wring_job_reserve_elems(piece < at->elems ? piece : at->elems,
                                        at->collective.work.codec != NULL ? at->collective.members.n
                                                                          : 1);
        most = piece > most ? piece : most;
        status = make_bucket_channels(at);
    }
    if (status == WRING_OK)
        status = wring_session_reserve(session, most);
    return status;
}
