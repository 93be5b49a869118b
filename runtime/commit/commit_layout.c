/* SPDX-License-Identifier: Apache-2.0 */
/* The channels and slots that each bucket's exchange runs on. */
#include "runtime/commit/commit.h"
#include "runtime/commit/commit_shape.h"
#include "runtime/commit/legs.h"
#include "runtime/residual.h"
#include "runtime/session/session_executor.h"
#include "runtime/stats.h"

#include <stdio.h>

#define ALIGN WRING_BOARD_ALIGN

/** Of what is shown on a board. */
static size_t board_room(const struct wring_bucket *bucket)
{
    return wring_algorithm_is_direct(bucket->shape.algorithm) ? 1 : wring_bucket_bytes(bucket);
}

static size_t channel_bytes(const struct wring_bucket *bucket)
{
    const struct wring_shape *shape = &bucket->shape;
    return wring_channel_memory(bucket->group->members.n, shape->window, shape->slot_bytes);
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

/** What a leg has of the bucket that it is of. */
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
        collective->residual = whole->residual + leg->first;
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

static void fill_collective(struct wring_bucket *bucket)
{
    struct wring_session *session = bucket->session;
    const struct wring_shape *shape = &bucket->shape;
    const struct wring_algorithm_parts *parts = &wring_algorithms[shape->algorithm];
    bool staged = shape->raw && !wring_algorithm_has_board(shape->algorithm) &&
                  !wring_block_sendable(session->fabric, bucket->block);
    bucket->collective = (struct wring_collective){
        .engine = session->engine,
        .cease = &bucket->group->cease,
        .lane = bucket->lane,
        .members = bucket->group->members,
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
        .residual_place = bucket->lane->executor->home,
        .send_tasks = shape->send_tasks,
        .reduce_tasks = shape->reduce_tasks,
        .decode_tasks = shape->decode_tasks,
        .slot_bytes = shape->raw && !staged ? 0 : shape->slot_bytes,
        .slots = &session->sources,
        .work = {.algorithm = shape->algorithm,
                 .ops = parts->ops,
                 .geometry = shape->geometry,
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
        .measured = bucket->collective.measured,
    };
    bucket->reads_source = can_read_source(bucket);
    bucket->collective.measured.every = (uint64_t)session->config.stats_every;
    bucket->collective.finished = wring_bucket_finished;
    bucket->collective.owner = bucket;
    bucket->collective.watched = wring_bucket_is_watched(bucket);
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
        at->n_owned = wring_shape_find_owned(at, at->owned);
        wring_residual_settle(at);
        at->idle = wring_residual_is_idle(at);
        total = (total + ALIGN - 1) / ALIGN * ALIGN;
        at->memory_offset = total;
        if (wring_algorithm_has_board(at->shape.algorithm))
            total += wring_mapped_memory(board_room(at));
        if (at->collective.scatter != NULL)
            total += channel_bytes(at);
        if (at->collective.gather != NULL && !wring_algorithm_places(at->shape.algorithm))
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
    enum wring_status status = wring_channel_init(channel, session->fabric, bucket->group->members,
                                                  window, window > 0 ? slot_bytes : 0, *memory);
    if (status != WRING_OK)
        return status;
    channel->owner = &bucket->collective;
    *memory += wring_channel_memory(bucket->group->members.n, window, slot_bytes);
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

static enum wring_status make_bucket(struct wring_bucket *bucket)
{
    const struct wring_shape *shape = &bucket->shape;
    struct wring_collective *collective = &bucket->collective;
    bool board = wring_algorithm_has_board(shape->algorithm);
    uint8_t *memory = (uint8_t *)bucket->session->slots.memory.base + bucket->memory_offset;
    enum wring_status status = WRING_OK;

    if (board)
        status = wring_mapped_create(collective->members, board_room(bucket), memory,
                                     &collective->mapped);
    if (collective->scatter != NULL)
        status = make_channel(bucket, &bucket->scatter, shape->window, shape->slot_bytes, &memory);
    if (status == WRING_OK && collective->gather != NULL)
        status = make_channel(bucket, &bucket->gather,
                              wring_algorithm_places(shape->algorithm) ? 0 : shape->window,
                              shape->slot_bytes, &memory);
    if (status == WRING_OK && bucket->gather.placed)
        status = make_keys(bucket);
    collective->slots_base =
        collective->slot_bytes > 0
            ? (uint8_t *)bucket->session->sources.memory.base + bucket->sources_offset
            : NULL;
    if (status == WRING_OK)
        status = wring_collective_prepare(collective);
    if (status == WRING_OK && bucket->levels == NULL)
        status = wring_coding_create(collective, &collective->work, &collective->work.coding);
    if (status == WRING_OK && board) {
        wring_mapped_prepare(collective);
        wring_stats_list(bucket->session, collective->mapped);
    }
    return status;
}

static enum wring_status alloc_slots(struct wring_session *session)
{
    wring_shapes_choose(session);
    enum wring_status status = wring_shapes_fit(session);
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
        uint64_t piece = at->collective.work.geometry.chunk_elems;
        piece = wring_job_reserve_elems(piece < at->elems ? piece : at->elems,
                                        at->collective.work.codec != NULL ? at->collective.members.n
                                                                          : 1);
        most = piece > most ? piece : most;
        status = make_bucket(at);
    }
    if (status == WRING_OK)
        status = wring_session_reserve(session, most);
    return status;
}
