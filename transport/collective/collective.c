/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/collective.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"

#define SLOT_ALIGN 64

static size_t slot_stride(const struct wring_collective *collective)
{
    return (collective->slot_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

static uint32_t task_count(const struct wring_collective *collective)
{
    return collective->send_tasks + collective->reduce_tasks + collective->decode_tasks;
}

size_t wring_collective_slot_memory(const struct wring_collective *collective)
{
    return (size_t)(collective->send_tasks + collective->reduce_tasks) * slot_stride(collective);
}

static enum wring_status prepare_task(struct wring_collective *collective, uint32_t i)
{
    struct wring_task *task = &collective->tasks[i];
    uint32_t slots = collective->send_tasks + collective->reduce_tasks;

    task->collective = collective;
    task->kind = i < collective->send_tasks ? WRING_TASK_SEND
                 : i < slots                ? WRING_TASK_REDUCE
                                            : WRING_TASK_DECODE;
    task->job.cookie = task;
    if (i < slots && collective->slots_base != NULL)
        task->slot = collective->slots_base + (size_t)i * slot_stride(collective);
    task->sources = calloc(collective->members.n, sizeof(*task->sources));
    task->put_to = calloc(collective->members.n, sizeof(*task->put_to));
    task->taken = calloc(collective->members.n, sizeof(*task->taken));
    return task->sources != NULL && task->put_to != NULL && task->taken != NULL
               ? WRING_OK
               : WRING_ERR_NO_MEMORY;
}

enum wring_status wring_collective_prepare(struct wring_collective *collective)
{
    uint32_t n = collective->members.n;

    collective->tasks = calloc(task_count(collective) + 1, sizeof(*collective->tasks));
    collective->sent = calloc(n, sizeof(*collective->sent));
    collective->decoded = calloc(n, sizeof(*collective->decoded));
    collective->arrivals = calloc(n, sizeof(*collective->arrivals));
    enum wring_status status = WRING_OK;
    if (collective->tasks == NULL || collective->sent == NULL || collective->decoded == NULL ||
        collective->arrivals == NULL)
        status = WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; status == WRING_OK && i < task_count(collective); i++)
        status = prepare_task(collective, i);
    if (status != WRING_OK)
        wring_collective_finish(collective);
    return status;
}

void wring_collective_finish(struct wring_collective *collective)
{
    for (uint32_t i = 0; collective->tasks != NULL && i < task_count(collective); i++) {
        free(collective->tasks[i].sources);
        free(collective->tasks[i].put_to);
        free(collective->tasks[i].taken);
    }
    free(collective->tasks);
    free(collective->sent);
    free(collective->decoded);
    free(collective->arrivals);
    collective->tasks = NULL;
    collective->sent = NULL;
    collective->decoded = NULL;
    collective->arrivals = NULL;
}

struct wring_task *wring_collective_task(struct wring_collective *collective,
                                         enum wring_task_kind kind)
{
    for (uint32_t i = 0; i < task_count(collective); i++) {
        struct wring_task *task = &collective->tasks[i];
        if (task->kind == kind && task->state == WRING_TASK_FREE) {
            task->state = WRING_TASK_WORKING;
            task->puts_left = task->puts_under_way = 0;
            collective->busy++;
            return task;
        }
    }
    return NULL;
}

void wring_collective_free_task(struct wring_task *task)
{
    task->state = WRING_TASK_FREE;
    task->held = false;
    task->collective->busy--;
    task->collective->runnable = true;
}

struct wring_codec_context wring_collective_context(const struct wring_collective *collective,
                                                    struct wring_span span, uint32_t phase)
{
    return (struct wring_codec_context){
        .seed = collective->seed,
        .bucket = collective->bucket,
        .rank = collective->members.me,
        .ranks = collective->members.n,
        .phase = phase,
        .step = collective->step,
        .element = span.begin,
    };
}

/** The job of a task, without operands. */
static struct wring_job *new_job(struct wring_task *task, enum wring_job_kind kind,
                                 struct wring_span span, uint32_t phase)
{
    task->job = (struct wring_job){
        .kind = kind,
        .dtype = WRING_F32,
        .elems = span.end - span.begin,
        .context = wring_collective_context(task->collective, span, phase),
        .divisor = 1,
        .cookie = task,
    };
    task->span = span;
    return &task->job;
}

/** Have a job make the code of one way, with its part of the residual if that way has feedback. */
static void encode_by(struct wring_job *job, const struct wring_task *task, uint32_t phase)
{
    const struct wring_collective *collective = task->collective;

    job->codec_out = wring_codec_way(collective->codec, phase);
    job->residual = NULL;
    if (wring_codec_info(job->codec_out)->flags & WRING_CODEC_FEEDBACK)
        job->residual = collective->residual + task->span.begin;
    job->code = task->slot;
}

void wring_collective_ready(struct wring_task *task, const void *piece, size_t bytes, uint32_t puts)
{
    task->state = WRING_TASK_SENDING;
    task->piece = piece;
    task->piece_bytes = bytes;
    task->puts_left = puts;
    if (task->collective->engine->trace != NULL)
        task->ready_ns = wring_now_ns();
    memset(task->put_to, 0, task->collective->members.n * sizeof(*task->put_to));
}

void wring_collective_encode(struct wring_task *task, struct wring_span span)
{
    struct wring_collective *collective = task->collective;
    struct wring_job *job = new_job(task, WRING_JOB_ENCODE, span, 0);

    job->src = collective->data + span.begin;
    encode_by(job, task, 0);
    wring_engine_submit(collective->engine, job);
}

bool wring_collective_all_arrived(const struct wring_collective *collective,
                                  const struct wring_channel *channel)
{
    size_t bytes;
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me && wring_channel_peek(channel, i, &bytes) == NULL)
            return false;
    return true;
}

void wring_collective_reduce(struct wring_task *task, struct wring_channel *channel,
                             struct wring_span span, struct wring_source own)
{
    struct wring_collective *collective = task->collective;
    struct wring_job *job = new_job(task, WRING_JOB_REDUCE, span, 1);

    for (uint32_t i = 0; i < collective->members.n; i++) {
        struct wring_source *source = &task->sources[i];
        if (i == collective->members.me) {
            *source = own;
            continue;
        }
        source->data = wring_channel_peek(channel, i, &source->bytes);
        source->codec = collective->codec != NULL ? wring_codec_way(collective->codec, 0) : NULL;
        task->taken[i] = wring_channel_take(channel, i);
    }
    job->sources = task->sources;
    job->n_sources = collective->members.n;
    job->divisor = collective->divisor;
    job->dst = collective->data + span.begin;
    if (collective->ops == &wring_sharded && collective->codec != NULL)
        encode_by(job, task, 1);
    wring_engine_submit(collective->engine, job);
}

void wring_collective_release_all(struct wring_task *task, struct wring_channel *channel)
{
    const struct wring_members *members = &task->collective->members;
    for (uint32_t i = 0; i < members->n; i++)
        if (i != members->me)
            wring_channel_release(channel, i, task->taken[i]);
}

/** Memory that is sent from, as the member's device knows it. */
static struct wring_region *region_for(const struct wring_task *task, const struct wring_peer *peer)
{
    const struct wring_collective *collective = task->collective;
    const struct wring_block *block =
        task->piece == task->slot ? collective->slots : collective->data_block;
    return block != NULL ? block->regions[peer->device] : NULL;
}

static enum wring_status put(struct wring_task *task, uint32_t member)
{
    struct wring_collective *collective = task->collective;
    bool scatter = collective->ops == &wring_sharded && task->kind == WRING_TASK_SEND;
    struct wring_channel *channel = scatter ? collective->scatter : collective->gather;
    struct wring_region *region = region_for(task, channel->out[member].peer);
    uint64_t cookie = (uintptr_t)task;

    if (channel->placed)
        return wring_channel_place(channel, member, region, task->piece,
                                   task->span.begin * sizeof(float), task->piece_bytes, cookie);
    return wring_channel_put(channel, member, task->sequence, region, task->piece,
                             task->piece_bytes, cookie);
}

/** Whether this member is one that the task's piece goes to. */
static bool goes_to(const struct wring_task *task, uint32_t member)
{
    const struct wring_collective *collective = task->collective;
    if (member == collective->members.me || task->put_to[member])
        return false;
    if (collective->ops == &wring_sharded && task->kind == WRING_TASK_SEND)
        return member == task->member;
    return true;
}

static bool send_task(struct wring_task *task)
{
    struct wring_collective *collective = task->collective;
    uint32_t n = collective->members.n;
    bool any = false;

    for (uint32_t d = 1; d < n && task->puts_left > 0; d++) {
        uint32_t member = (collective->members.me + d) % n;
        if (!goes_to(task, member))
            continue;
        enum wring_status status = put(task, member);
        if (status == WRING_ERR_AGAIN) {
            collective->blocked = true;
            continue;
        }
        if (status != WRING_OK) {
            struct wring_fabric *fabric = collective->engine->fabric;
            wring_engine_put_failed(collective->engine,
                                    &fabric->peers[collective->members.ranks[member]], status);
            return any;
        }
        task->put_to[member] = true;
        collective->cost.wire_bytes += task->piece_bytes;
        task->puts_left--;
        task->puts_under_way++;
        any = true;
    }
    return any;
}

bool wring_collective_send(struct wring_collective *collective)
{
    bool any = false;
    for (uint32_t i = 0; i < collective->send_tasks + collective->reduce_tasks; i++)
        if (collective->tasks[i].state == WRING_TASK_SENDING && collective->tasks[i].puts_left > 0)
            any |= send_task(&collective->tasks[i]);
    return any;
}

void wring_collective_put_done(struct wring_task *task)
{
    task->puts_under_way--;
    task->collective->runnable = true;
    if (task->puts_left > 0 || task->puts_under_way > 0)
        return;
    wring_collective_trace_sent(task);
    if (!task->held)
        wring_collective_free_task(task);
}

uint32_t wring_collective_missing(const struct wring_collective *collective)
{
    const struct wring_channel *channels[] = {collective->scatter, collective->gather};
    size_t bytes;
    for (int c = 0; c < 2; c++)
        for (uint32_t i = 0; channels[c] != NULL && i < collective->members.n; i++) {
            if (i == collective->members.me)
                continue;
            if (channels[c]->placed ? channels[c]->in[i].arrivals != collective->arrivals[i]
                                    : wring_channel_peek(channels[c], i, &bytes) == NULL)
                return i;
        }
    return collective->members.n;
}
