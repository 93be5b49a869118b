/* SPDX-License-Identifier: Apache-2.0 */
/* The root sends its data to all, chunk by chunk. Elements are bytes here. */
#include "transport/collective/collective.h"

static uint8_t *bytes_of(const struct wring_collective *collective)
{
    return (uint8_t *)collective->data;
}

static struct wring_span chunk_of(const struct wring_collective *collective, uint64_t chunk)
{
    struct wring_span whole = {0, collective->geometry.elems};
    return wring_geometry_chunk(&collective->geometry, whole, chunk);
}

static uint64_t chunks_of(const struct wring_collective *collective)
{
    struct wring_span whole = {0, collective->geometry.elems};
    return wring_geometry_chunks(&collective->geometry, whole);
}

static void broadcast_start(struct wring_collective *collective)
{
    collective->encoded = 0;
}

static bool send_next(struct wring_collective *collective)
{
    if (collective->encoded == chunks_of(collective) ||
        !wring_channel_has_credits(collective->gather))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_SEND);
    if (task == NULL)
        return false;

    struct wring_span span = chunk_of(collective, collective->encoded++);
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me)
            task->sequence = wring_channel_reserve(collective->gather, i);
    const void *piece = bytes_of(collective) + span.begin;
    if (collective->data_block == NULL && task->slot != NULL) /* not every device sends from it */
        piece = memcpy(task->slot, piece, span.end - span.begin);
    wring_collective_ready(task, piece, span.end - span.begin, collective->members.n - 1);
    return true;
}

/** Copy what the root sent. A piece of another size than ours means another count at the root. */
static bool receive_next(struct wring_collective *collective)
{
    size_t bytes;
    const void *piece;
    if (collective->encoded == chunks_of(collective) ||
        (piece = wring_channel_peek(collective->gather, collective->root, &bytes)) == NULL)
        return false;

    struct wring_span span = chunk_of(collective, collective->encoded++);
    if (bytes != span.end - span.begin) {
        wring_fabric_fail(collective->engine->fabric, WRING_ERR_MISMATCH,
                          (int32_t)collective->members.ranks[collective->root],
                          "broadcast: rank %u sent %zu bytes where this rank expects %zu: do all "
                          "ranks pass the same count?",
                          (unsigned)collective->members.ranks[collective->root], bytes,
                          (size_t)(span.end - span.begin));
        return false;
    }
    memcpy(bytes_of(collective) + span.begin, piece, bytes);
    uint32_t taken = wring_channel_take(collective->gather, collective->root);
    wring_channel_release(collective->gather, collective->root, taken);
    return true;
}

static void broadcast_advance(struct wring_collective *collective)
{
    bool sends = collective->members.me == collective->root;
    bool any = true;
    while (any) {
        any = sends ? send_next(collective) : receive_next(collective);
        any |= wring_collective_send(collective);
    }
    if (collective->busy == 0 && collective->encoded == chunks_of(collective))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

static void broadcast_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task; /* it has none */
}

static bool broadcast_needs(const struct wring_collective *collective, uint32_t member)
{
    bool sends = collective->members.me == collective->root;
    return (sends || member == collective->root) && collective->encoded < chunks_of(collective);
}

const struct wring_collective_ops wring_broadcast_ops = {
    .name = "broadcast",
    .start = broadcast_start,
    .advance = broadcast_advance,
    .job_done = broadcast_job_done,
    .needs = broadcast_needs,
};
