/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of shards, reduction in rank order at each shard's owner, allgather of the sums. */
#include "transport/collective/collective.h"

static uint64_t chunks_of(const struct wring_collective *collective, uint32_t shard)
{
    struct wring_span span = wring_geometry_shard(&collective->geometry, shard);
    return wring_geometry_chunks(&collective->geometry, span);
}

static struct wring_span chunk_of(const struct wring_collective *collective, uint32_t shard,
                                  uint64_t chunk)
{
    struct wring_span span = wring_geometry_shard(&collective->geometry, shard);
    return wring_geometry_chunk(&collective->geometry, span, chunk);
}

static void sharded_start(struct wring_collective *collective)
{
    collective->reduced = 0;
    for (uint32_t i = 0; i < collective->members.n; i++) {
        collective->sent[i] = 0;
        collective->decoded[i] = 0;
        if (collective->placed && i != collective->members.me)
            collective->arrivals[i] += (uint32_t)chunks_of(collective, i);
    }
}

/** Begin to send the next chunk of a member's shard, if there is credit and a free task. */
static bool send_next(struct wring_collective *collective, uint32_t member)
{
    if (collective->sent[member] == chunks_of(collective, member) ||
        !wring_channel_has_credit(collective->scatter, member))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_SEND);
    if (task == NULL)
        return false;

    struct wring_span span = chunk_of(collective, member, collective->sent[member]++);
    task->member = member;
    task->span = span;
    task->sequence = wring_channel_reserve(collective->scatter, member);
    if (collective->codec != NULL)
        wring_collective_encode(task, span);
    else
        wring_collective_ready(task, collective->data + span.begin,
                               (span.end - span.begin) * sizeof(float), 1);
    return true;
}

/** One chunk for each member in turn, beginning after us, so that no rank is flooded. */
static bool send_shards(struct wring_collective *collective)
{
    bool any = false;
    for (uint32_t d = 1; d < collective->members.n; d++)
        any |= send_next(collective, (collective->members.me + d) % collective->members.n);
    return any;
}

static bool reduce_next(struct wring_collective *collective)
{
    uint32_t me = collective->members.me;
    if (collective->reduced == chunks_of(collective, me) ||
        !wring_collective_all_arrived(collective, collective->scatter) ||
        (!collective->placed && !wring_channel_has_credits(collective->gather)))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_REDUCE);
    if (task == NULL)
        return false;

    struct wring_span span = chunk_of(collective, me, collective->reduced++);
    if (!collective->placed)
        for (uint32_t i = 0; i < collective->members.n; i++)
            if (i != me)
                task->sequence = wring_channel_reserve(collective->gather, i);
    struct wring_source own = {collective->data + span.begin,
                               (span.end - span.begin) * sizeof(float), NULL};
    wring_collective_reduce(task, collective->scatter, span, own);
    return true;
}

static bool decode_next(struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    const void *piece;
    if (collective->decoded[member] == chunks_of(collective, member) ||
        (piece = wring_channel_peek(collective->gather, member, &bytes)) == NULL)
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_DECODE);
    if (task == NULL)
        return false;

    struct wring_span span = chunk_of(collective, member, collective->decoded[member]++);
    task->member = member;
    task->span = span;
    task->taken[member] = wring_channel_take(collective->gather, member);
    task->sources[0] = (struct wring_source){piece, bytes, NULL};
    if (collective->codec != NULL)
        task->sources[0].codec = wring_codec_way(collective->codec, 1);
    task->job = (struct wring_job){
        .kind = WRING_JOB_DECODE,
        .dtype = WRING_F32,
        .elems = span.end - span.begin,
        .context = wring_collective_context(collective, span, 1),
        .sources = task->sources,
        .n_sources = 1,
        .divisor = 1,
        .dst = collective->data + span.begin,
        .cookie = task,
    };
    wring_engine_submit(collective->engine, &task->job);
    return true;
}

static bool decode_shards(struct wring_collective *collective)
{
    bool any = false;
    for (uint32_t i = 0; !collective->placed && i < collective->members.n; i++)
        if (i != collective->members.me)
            any |= decode_next(collective, i);
    return any;
}

static bool complete(const struct wring_collective *collective)
{
    uint32_t me = collective->members.me;
    if (collective->busy > 0 || collective->reduced < chunks_of(collective, me))
        return false;
    for (uint32_t i = 0; i < collective->members.n; i++) {
        if (i == me)
            continue;
        if (collective->sent[i] < chunks_of(collective, i))
            return false;
        if (collective->placed ? collective->gather->in[i].arrivals != collective->arrivals[i]
                               : collective->decoded[i] < chunks_of(collective, i))
            return false;
    }
    return true;
}

static void sharded_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any) { /* what unblocks the others comes first */
        any = reduce_next(collective);
        any |= decode_shards(collective);
        any |= send_shards(collective);
        any |= wring_collective_send(collective);
    }
    if (complete(collective))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

static void sharded_job_done(struct wring_collective *collective, struct wring_task *task)
{
    bool coded = collective->codec != NULL;

    switch (task->kind) {
    case WRING_TASK_SEND:
        wring_collective_ready(task, task->slot, task->job.code_bytes, 1);
        return;
    case WRING_TASK_REDUCE:
        wring_collective_release_all(task, collective->scatter);
        wring_collective_ready(task, coded ? (const void *)task->slot : task->job.dst,
                               coded ? task->job.code_bytes : task->job.elems * sizeof(float),
                               collective->members.n - 1);
        return;
    case WRING_TASK_DECODE:
        wring_channel_release(collective->gather, task->member, task->taken[task->member]);
        wring_collective_free_task(task);
        return;
    }
}

static bool sharded_needs(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    if (collective->sent[member] < chunks_of(collective, member))
        return true;
    if (collective->reduced < chunks_of(collective, collective->members.me) &&
        wring_channel_peek(collective->scatter, member, &bytes) == NULL)
        return true;
    if (collective->placed)
        return collective->gather->in[member].arrivals != collective->arrivals[member];
    return collective->decoded[member] < chunks_of(collective, member) &&
           wring_channel_peek(collective->gather, member, &bytes) == NULL;
}

const struct wring_collective_ops wring_sharded = {
    .name = "sharded",
    .start = sharded_start,
    .advance = sharded_advance,
    .job_done = sharded_job_done,
    .needs = sharded_needs,
};
