/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A coded allreduce of more than eight members, each of whose contributions is one small code:
 * the codes travel together and through other members, in log2 of their number messages of each,
 * as in an allgather of relay.c. Then each member decodes all of them and adds them in order. No
 * sum is encoded, so the bits are those of allreduce_one_shot.c.
 *
 * Blocks of scratch memory hold the codes: j that of member m + j, with its length in front. A
 * message has, for each block, u32 length and the code.
 */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "compress/codec.h"
#include "transport/collective/collective.h"

#define ALIGN 64
#define HEAD sizeof(uint32_t) /* of a code in a message */

static size_t code_bytes(const struct wring_work *work)
{
    return wring_codec_bound(work->codec, work->partition.elems);
}

static size_t stride_of(const struct wring_work *work)
{
    return ALIGN + (code_bytes(work) + ALIGN - 1) / ALIGN * ALIGN;
}

size_t wring_bruck_scratch_bytes(const struct wring_work *work, uint32_t members)
{
    bool bruck = work->algorithm == WRING_ALLREDUCE_BRUCK && work->partition.elems > 0;
    return bruck ? members * stride_of(work) : 0;
}

size_t wring_bruck_message_bytes(uint32_t members, size_t code)
{
    uint32_t most = 0;
    for (uint32_t far = 1; far < members; far *= 2) {
        uint32_t blocks = far < members - far ? far : members - far;
        most = blocks > most ? blocks : most;
    }
    return most * (HEAD + code);
}

static uint32_t count_steps(const struct wring_collective *collective)
{
    return collective->work.partition.elems > 0 ? wring_bruck_most(collective->members.n) : 0;
}

static uint32_t member_at(const struct wring_collective *collective, uint32_t block)
{
    return (uint32_t)(((uint64_t)collective->members.me + block) % collective->members.n);
}

static uint8_t *block_at(const struct wring_collective *collective, uint32_t block)
{
    return (uint8_t *)collective->work.scratch + block * stride_of(&collective->work);
}

/** Bytes of a block's code. */
static uint32_t *length_of(const struct wring_collective *collective, uint32_t block)
{
    return (uint32_t *)(void *)block_at(collective, block);
}

static uint8_t *code_of(const struct wring_collective *collective, uint32_t block)
{
    return block_at(collective, block) + ALIGN;
}

/** Blocks that are sent in a step, and as many that come, from 2^k on. */
static uint32_t blocks_in(const struct wring_collective *collective, uint32_t step)
{
    uint32_t far = 1u << step, n = collective->members.n;
    return far < n - far ? far : n - far;
}

/* The state: our own code is made (all_ready), steps that are done (reduced; the reduction is one
 * more), and whether the piece of the one under way has been begun, and taken. */

static uint32_t step_of(const struct wring_collective *collective)
{
    return (uint32_t)collective->reduced;
}

static uint64_t *begun(const struct wring_collective *collective)
{
    return &collective->sent[collective->members.me];
}

static uint64_t *taken(const struct wring_collective *collective)
{
    return &collective->decoded[collective->members.me];
}

static uint32_t target_of(const struct wring_collective *collective)
{
    return member_at(collective, collective->members.n - (1u << step_of(collective)));
}

static uint32_t source_of(const struct wring_collective *collective)
{
    return member_at(collective, 1u << step_of(collective));
}

static struct wring_span whole_span(const struct wring_collective *collective)
{
    return (struct wring_span){0, collective->work.partition.elems};
}

static bool exchanges(const struct wring_collective *collective)
{
    return collective->all_ready && step_of(collective) < count_steps(collective);
}

static void bruck_start(struct wring_collective *collective)
{
    collective->reduced = 0;
    collective->all_ready = false;
    *begun(collective) = *taken(collective) = 0;
    if (count_steps(collective) > 0)
        wring_collective_encode(wring_collective_task(collective, WRING_TASK_SEND),
                                whole_span(collective));
}

/** @return bytes */
static size_t pack(const struct wring_collective *collective, uint32_t n, uint8_t *to)
{
    size_t at = 0;
    for (uint32_t block = 0; block < n; block++) {
        uint32_t bytes = *length_of(collective, block);
        wring_put_u32(to + at, bytes);
        memcpy(to + at + HEAD, code_of(collective, block), bytes);
        at += HEAD + bytes;
    }
    return at;
}

/** @return whether it is well formed */
static bool unpack(const struct wring_collective *collective, uint32_t first, uint32_t n,
                   const uint8_t *from, size_t left)
{
    size_t most = code_bytes(&collective->work);

    for (uint32_t block = first; block < first + n; block++) {
        if (left < HEAD)
            return false;
        uint32_t bytes = wring_get_u32(from);
        if (bytes > most || bytes > left - HEAD)
            return false;
        *length_of(collective, block) = bytes;
        memcpy(code_of(collective, block), from + HEAD, bytes);
        from += HEAD + bytes;
        left -= HEAD + bytes;
    }
    return left == 0;
}

static bool send_codes(struct wring_collective *collective)
{
    uint32_t target = target_of(collective);

    if (*begun(collective) > 0 || !wring_channel_has_credit(collective->scatter, target))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_SEND);
    if (task == NULL)
        return false;
    task->member = target;
    task->chunk = (*begun(collective))++;
    task->span = (struct wring_span){0, 0};
    task->sequence = wring_channel_reserve(collective->scatter, target);
    wring_collective_ready(
        task, task->slot, pack(collective, blocks_in(collective, step_of(collective)), task->slot));
    return true;
}

static bool take_codes(struct wring_collective *collective)
{
    uint32_t member = source_of(collective), step = step_of(collective);
    size_t bytes;

    if (*taken(collective) > 0)
        return false;
    const void *piece = wring_channel_peek(collective->scatter, member, &bytes);
    if (piece == NULL)
        return false;
    if (!unpack(collective, 1u << step, blocks_in(collective, step), piece, bytes)) {
        uint32_t rank = collective->members.ranks[member];
        wring_fabric_fail(collective->engine->fabric, WRING_ERR_FRAME, (int32_t)rank,
                          "rank %" PRIu32 " sent codes of other lengths than can be here: do all "
                          "ranks pass the same count, type and codec?",
                          rank);
        return false;
    }
    wring_channel_release(collective->scatter, member,
                          wring_channel_take(collective->scatter, member));
    ++*taken(collective);
    return true;
}

static bool go_on(struct wring_collective *collective)
{
    if (collective->busy > 0 || *begun(collective) == 0 || *taken(collective) == 0)
        return false;
    collective->reduced++;
    *begun(collective) = *taken(collective) = 0;
    return true;
}

/** All codes are here. */
static bool reduce_all(struct wring_collective *collective)
{
    if (*begun(collective) > 0)
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_REDUCE);
    if (task == NULL)
        return false;
    ++*begun(collective);
    for (uint32_t block = 0; block < collective->members.n; block++)
        task->sources[member_at(collective, block)] =
            (struct wring_source){.data = code_of(collective, block),
                                  .bytes = *length_of(collective, block),
                                  .place = {WRING_MEMORY_HOST, 0}};
    wring_collective_reduce_sources(task, whole_span(collective));
    return true;
}

static void bruck_advance(struct wring_collective *collective)
{
    uint32_t steps = count_steps(collective);
    bool any = true;

    while (any && exchanges(collective) && !wring_engine_turn_is_over(collective->engine)) {
        any = send_codes(collective);
        any |= wring_collective_send(collective);
        any |= take_codes(collective);
        any |= go_on(collective);
    }
    collective->runnable |= any && exchanges(collective);
    if (collective->all_ready && collective->reduced == steps && steps > 0)
        reduce_all(collective);
    if (collective->busy == 0 && (steps == 0 || collective->reduced > steps))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

static void bruck_job_done(struct wring_collective *collective, struct wring_task *task)
{
    if (task->kind == WRING_TASK_SEND) {
        *length_of(collective, 0) = (uint32_t)task->job.result.code_bytes;
        memcpy(code_of(collective, 0), task->slot, task->job.result.code_bytes);
        collective->all_ready = true;
    } else {
        collective->reduced++;
    }
    wring_collective_free_task(task);
}

static bool bruck_owes(const struct wring_collective *collective, uint32_t member)
{
    uint32_t n = collective->members.n, steps = count_steps(collective);

    for (uint32_t k = step_of(collective); k < steps; k++)
        if (member_at(collective, n - (1u << k)) == member &&
            (k > step_of(collective) || *begun(collective) == 0))
            return true;
    return false;
}

static bool bruck_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    return exchanges(collective) && source_of(collective) == member && *taken(collective) == 0 &&
           wring_channel_peek(collective->scatter, member, &bytes) == NULL;
}

const struct wring_collective_ops wring_allreduce_bruck = {
    .name = "codes",
    .start = bruck_start,
    .advance = bruck_advance,
    .job_done = bruck_job_done,
    .owes = bruck_owes,
    .awaits = bruck_awaits,
};
