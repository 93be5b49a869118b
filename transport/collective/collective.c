/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: the core that a rank moves to, tasks, and records in the session's trace. */
#include "transport/collective/collective.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "compress/codec.h"
#include "transport/collective/partition.h"

#define RAW_GRAIN 32 /* elements, 128 bytes: what suits stores and cache lines */
#define GATHER_UP 4  /* times the bytes of a piece may be encoded into one */

/**
 * The elements of a chunk: as many grains as a code of chunk_bytes holds, so that with a codec of
 * few bits a message does not cost more than its payload. At most GATHER_UP times chunk_bytes are
 * coded into one, so that something is left to overlap.
 */
static uint64_t choose_chunk_elems(const struct wring_codec *codec, uint64_t grain,
                                   uint32_t elem_bytes, size_t chunk_bytes)
{
    uint64_t chunk = chunk_bytes / elem_bytes;
    if (codec != NULL) {
        chunk = wring_partition_most(chunk_bytes);
        uint64_t bytes = wring_codec_piece_bytes(codec, chunk);
        if (bytes > chunk_bytes)
            chunk = (uint64_t)((double)chunk * (double)chunk_bytes / (double)bytes);
    }
    chunk = chunk / grain * grain;
    while (codec != NULL && chunk > grain && wring_codec_piece_bytes(codec, chunk) > chunk_bytes)
        chunk -= grain;
    return chunk > grain ? chunk : grain;
}

uint64_t wring_partition_grain(uint64_t elems, const struct wring_codec *codec)
{
    uint64_t unit = codec != NULL ? wring_codec_info(codec)->unit : 1;
    if (unit == 0) /* the whole bucket */
        unit = elems > 0 ? elems : 1;
    uint64_t grain = unit;
    while (grain < RAW_GRAIN)
        grain *= 2;
    return grain;
}

struct wring_partition wring_partition_make(uint64_t elems, uint32_t elem_bytes, uint32_t shards,
                                            const struct wring_codec *codec, size_t chunk_bytes)
{
    uint64_t grain = wring_partition_grain(elems, codec);
    return (struct wring_partition){
        .elems = elems,
        .grain = grain,
        .chunk_elems = choose_chunk_elems(codec, grain, elem_bytes, chunk_bytes),
        .shards = shards,
        .elem_bytes = elem_bytes,
    };
}

uint64_t wring_partition_most(size_t chunk_bytes)
{
    return chunk_bytes / sizeof(float) * GATHER_UP;
}

static uint64_t count_grains(const struct wring_partition *partition)
{
    return (partition->elems + partition->grain - 1) / partition->grain;
}

struct wring_span wring_partition_shard(const struct wring_partition *partition, uint32_t shard)
{
    if (partition->begins != NULL)
        return (struct wring_span){partition->begins[shard], partition->begins[shard + 1]};
    if (partition->each)
        return (struct wring_span){partition->elems * shard, partition->elems * (shard + 1)};
    uint64_t grains = count_grains(partition);
    uint64_t whole = grains / partition->shards, rest = grains % partition->shards;
    /* the first `rest` shards have one grain more */
    uint64_t first = whole * shard + (shard < rest ? shard : rest);
    uint64_t count = whole + (shard < rest ? 1 : 0);
    struct wring_span span = {first * partition->grain, (first + count) * partition->grain};
    if (span.begin > partition->elems)
        span.begin = partition->elems;
    if (span.end > partition->elems)
        span.end = partition->elems;
    return span;
}

uint64_t wring_partition_chunks(const struct wring_partition *partition, struct wring_span span)
{
    return (span.end - span.begin + partition->chunk_elems - 1 + partition->told) /
           partition->chunk_elems;
}

/** Runs of these lengths follow one another. @param begins out, [n + 1], the last one their end */
static void partition_lay_out(const uint64_t *elems, uint32_t n, uint64_t *begins)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        begins[i] = at;
        at += elems[i];
    }
    begins[n] = at;
}

struct wring_span wring_partition_chunk(const struct wring_partition *partition,
                                        struct wring_span span, uint64_t chunk)
{
    uint64_t begin = span.begin + chunk * partition->chunk_elems;
    uint64_t end = begin + partition->chunk_elems;
    return (struct wring_span){begin, end < span.end ? end : span.end};
}

uint64_t wring_partition_element(const struct wring_partition *partition, uint64_t element)
{
    if (!partition->each || partition->elems == 0)
        return element;
    uint64_t shard = element / partition->elems;
    return shard * count_grains(partition) * partition->grain + element % partition->elems;
}

/* ---- collectives ---- */

/** Members on each core. @return false: nobody can tell */
static bool count_per_core(const uint32_t *cores, uint32_t n, uint32_t load[CPU_SETSIZE])
{
    for (uint32_t i = 0; i < n; i++) {
        if (cores[i] == 0 || cores[i] > CPU_SETSIZE)
            return false;
        load[cores[i] - 1]++;
    }
    return true;
}

/** Is it the last member on its core? Only one may move at a time. */
static bool is_last_on_core(const uint32_t *cores, uint32_t n, uint32_t me)
{
    for (uint32_t i = me + 1; i < n; i++)
        if (cores[i] == cores[me])
            return false;
    return true;
}

static int find_emptiest_core(const uint32_t load[CPU_SETSIZE], const cpu_set_t *usable)
{
    int best = -1;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, usable) && (best < 0 || load[core] < load[best]))
            best = core;
    return best;
}

int wring_core_balance_choose(const uint32_t *cores, uint32_t n, uint32_t me,
                              const cpu_set_t *usable)
{
    uint32_t load[CPU_SETSIZE] = {0};

    if (!is_last_on_core(cores, n, me) || !count_per_core(cores, n, load))
        return -1;
    int core = find_emptiest_core(load, usable);
    return core >= 0 && load[core] + 2 <= load[cores[me] - 1] ? core : -1;
}

void wring_core_balance_move(int core, const cpu_set_t *usable)
{
    cpu_set_t there;

    CPU_ZERO(&there);
    CPU_SET(core, &there);
    if (sched_setaffinity(0, sizeof(there), &there) == 0)
        sched_setaffinity(0, sizeof(*usable), usable);
}

/* ---- for the session's trace ---- */

static void add_trace_event(const struct wring_collective *collective,
                            struct wring_trace_event event)
{
    event.label = collective->label;
    wring_trace_add(collective->engine->trace, &event);
}

static void collective_trace_step(const struct wring_collective *collective, uint64_t took_ns)
{
    if (collective->engine->trace != NULL)
        add_trace_event(collective, (struct wring_trace_event){.kind = WRING_TRACE_STEP,
                                                               .begin_ns = collective->started_ns,
                                                               .took_ns = took_ns,
                                                               .peer = -1,
                                                               .number = collective->step});
}

void wring_collective_trace_job(const struct wring_task *task)
{
    static const enum wring_trace_kind kinds[] = {
        [WRING_JOB_ENCODE] = WRING_TRACE_ENCODE,      [WRING_JOB_REDUCE] = WRING_TRACE_REDUCE,
        [WRING_JOB_DECODE] = WRING_TRACE_DECODE,      [WRING_JOB_COPY] = WRING_TRACE_DECODE,
        [WRING_JOB_ROUND_BEGIN] = WRING_TRACE_ENCODE, [WRING_JOB_ROUND_END] = WRING_TRACE_DECODE,
    };
    if (task->collective->engine->trace != NULL)
        add_trace_event(task->collective,
                        (struct wring_trace_event){.kind = kinds[task->job.kind],
                                                   .begin_ns = task->job.result.began_ns,
                                                   .took_ns = task->job.result.took_ns,
                                                   .peer = -1,
                                                   .number = task->chunk});
}

void wring_collective_trace_wait(const struct wring_collective *collective, uint64_t began_ns)
{
    if (collective->engine->trace != NULL)
        add_trace_event(collective, (struct wring_trace_event){.kind = WRING_TRACE_WAIT,
                                                               .begin_ns = began_ns,
                                                               .took_ns = wring_now_ns() - began_ns,
                                                               .peer = -1,
                                                               .number = collective->step});
}

void wring_collective_trace_sent(const struct wring_task *task)
{
    if (task->collective->engine->trace != NULL)
        add_trace_event(task->collective,
                        (struct wring_trace_event){.kind = WRING_TRACE_SEND,
                                                   .begin_ns = task->ready_ns,
                                                   .took_ns = wring_now_ns() - task->ready_ns,
                                                   .bytes = task->piece_bytes,
                                                   .peer = -1,
                                                   .number = task->chunk});
}

void wring_collective_trace_arrived(const struct wring_collective *collective, uint32_t rank,
                                    size_t bytes)
{
    if (collective->engine->trace != NULL)
        add_trace_event(collective, (struct wring_trace_event){.kind = WRING_TRACE_ARRIVE,
                                                               .begin_ns = wring_now_ns(),
                                                               .bytes = bytes,
                                                               .peer = (int32_t)rank,
                                                               .number = collective->step});
}

/* ---- collective ---- */

#define SLOT_ALIGN 64

static size_t slot_stride(const struct wring_collective *collective)
{
    return (collective->slot_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

static uint32_t count_tasks(const struct wring_collective *collective)
{
    return collective->send_tasks + collective->reduce_tasks + collective->decode_tasks;
}

size_t wring_collective_slot_memory(const struct wring_collective *collective)
{
    return (size_t)(collective->send_tasks + collective->reduce_tasks) * slot_stride(collective);
}

void wring_collective_give_slots(struct wring_collective *collective, uint8_t *base)
{
    collective->slots_base = base;
    for (uint32_t i = 0; i < collective->send_tasks + collective->reduce_tasks; i++)
        collective->tasks[i].slot = base + (size_t)i * slot_stride(collective);
}

/** Bytes of a task's arrays, all of which have an entry for each member. */
static size_t task_arrays_bytes(const struct wring_collective *collective)
{
    const struct wring_task *task = NULL;
    size_t each = sizeof(*task->sources) + sizeof(*task->copies) + sizeof(*task->taken) +
                  sizeof(*task->put_to);
    return (collective->members.n * each + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

/** All tasks' arrays are one piece of memory: in large groups most of it is never touched. */
static void prepare_task(struct wring_collective *collective, uint32_t i)
{
    uint8_t *arrays = collective->task_arrays + i * task_arrays_bytes(collective);
    size_t n = collective->members.n;
    struct wring_task *task = &collective->tasks[i];
    uint32_t slots = collective->send_tasks + collective->reduce_tasks;

    task->collective = collective;
    task->kind = i < collective->send_tasks ? WRING_TASK_SEND
                 : i < slots                ? WRING_TASK_REDUCE
                                            : WRING_TASK_DECODE;
    task->job.cookie = task;
    if (i < slots && collective->slots_base != NULL)
        task->slot = collective->slots_base + (size_t)i * slot_stride(collective);
    task->sources = (struct wring_source *)(void *)arrays;
    task->copies = (void **)(void *)(task->sources + n);
    task->taken = (uint32_t *)(void *)(task->copies + n);
    task->put_to = (bool *)(task->taken + n);
}

size_t wring_collective_state_bytes(uint32_t members, uint32_t tasks)
{
    const struct wring_collective *of = NULL;
    size_t task =
        sizeof(*of->tasks) + members * (sizeof(*of->tasks->sources) + sizeof(*of->tasks->copies) +
                                        sizeof(*of->tasks->put_to) + sizeof(*of->tasks->taken));
    return tasks * task +
           members * (sizeof(*of->sent) + sizeof(*of->decoded) + sizeof(*of->arrivals) +
                      sizeof(*of->standstill.others) + 2 * sizeof(*of->begins));
}

/** It can be asked where it is: a bucket's, or that of a group's calls. */
static void list_collective(struct wring_collective *collective)
{
    if (collective->engine == NULL || collective->link != NULL)
        return;
    collective->link = &collective->engine->listed;
    collective->next_listed = collective->engine->listed;
    if (collective->next_listed != NULL)
        collective->next_listed->link = &collective->next_listed;
    collective->engine->listed = collective;
}

static void unlist_collective(struct wring_collective *collective)
{
    if (collective->link == NULL)
        return;
    *collective->link = collective->next_listed;
    if (collective->next_listed != NULL)
        collective->next_listed->link = collective->link;
    collective->next_listed = NULL;
    collective->link = NULL;
}

enum wring_status wring_collective_prepare(struct wring_collective *collective)
{
    uint32_t n = collective->members.n;

    collective->tasks = calloc(count_tasks(collective) + 1, sizeof(*collective->tasks));
    collective->task_arrays = calloc(count_tasks(collective) + 1, task_arrays_bytes(collective));
    collective->sent = calloc(n, sizeof(*collective->sent));
    collective->decoded = calloc(n, sizeof(*collective->decoded));
    collective->arrivals = calloc(n, sizeof(*collective->arrivals));
    collective->standstill.others = calloc(n, sizeof(*collective->standstill.others));
    if (collective->calls != NULL)
        collective->begins = calloc(2 * ((size_t)n + 1), sizeof(*collective->begins));
    enum wring_status status = WRING_OK;
    if ((collective->calls != NULL && collective->begins == NULL) || collective->tasks == NULL ||
        collective->task_arrays == NULL || collective->sent == NULL ||
        collective->decoded == NULL || collective->arrivals == NULL ||
        collective->standstill.others == NULL)
        status = WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; status == WRING_OK && i < count_tasks(collective); i++)
        prepare_task(collective, i);
    if (status != WRING_OK)
        wring_collective_finish(collective);
    else
        list_collective(collective);
    return status;
}

void wring_collective_finish(struct wring_collective *collective)
{
    unlist_collective(collective);
    wring_shm_flags_destroy(collective->shm_flags);
    free(collective->standstill.others);
    free(collective->tasks);
    free(collective->task_arrays);
    free(collective->sent);
    free(collective->decoded);
    free(collective->arrivals);
    free(collective->begins);
    free(collective->sums);
    free(collective->scratch);
    collective->standstill = (struct wring_standstill){0};
    collective->shm_flags = NULL;
    collective->tasks = NULL;
    collective->task_arrays = NULL;
    collective->sent = NULL;
    collective->decoded = NULL;
    collective->arrivals = NULL;
    collective->begins = NULL;
    collective->sums = NULL;
    collective->scratch = NULL;
}

enum wring_status wring_collective_make_sums(struct wring_collective *collective)
{
    if (collective->sums != NULL)
        return WRING_OK;
    collective->sum_elems = wring_partition_most(collective->slot_bytes);
    collective->sums = malloc(collective->reduce_tasks * collective->sum_elems * sizeof(float));
    return collective->sums != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

enum wring_status wring_collective_make_scratch(struct wring_collective *collective, size_t bytes)
{
    collective->work.scratch_bytes = bytes;
    collective->work.scratch = collective->scratch =
        aligned_alloc(SLOT_ALIGN, (bytes + SLOT_ALIGN) / SLOT_ALIGN * SLOT_ALIGN);
    return collective->scratch != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

void wring_collective_lay_out(struct wring_collective *collective)
{
    struct wring_work *work = &collective->work;
    uint32_t n = collective->members.n;

    partition_lay_out(work->in_runs, n, collective->begins);
    work->partition.begins = collective->begins;
    if (work->out_runs == NULL)
        return;
    partition_lay_out(work->out_runs, n, collective->begins + n + 1);
    work->out_begins = collective->begins + n + 1;
}

struct wring_task *wring_collective_task(struct wring_collective *collective,
                                         enum wring_task_kind kind)
{
    for (uint32_t i = 0; i < count_tasks(collective); i++) {
        struct wring_task *task = &collective->tasks[i];
        if (task->kind == kind && task->state == WRING_TASK_FREE) {
            task->state = WRING_TASK_WORKING;
            task->puts_left = task->puts_under_way = 0;
            task->in_place = false;
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

static bool is_in_scratch(const struct wring_work *work, const void *piece)
{
    uintptr_t at = (uintptr_t)piece, begin = (uintptr_t)work->scratch;
    return begin != 0 && at >= begin && at - begin < work->scratch_bytes;
}

/** Has a device to be given a copy, as it cannot send from where the piece lies? */
static bool is_staged(const struct wring_task *task, const void *piece)
{
    const struct wring_collective *collective = task->collective;
    const struct wring_work *work = &collective->work;

    if (is_in_scratch(work, piece))
        return !wring_block_sendable(collective->engine->fabric, NULL);
    return task->kind == WRING_TASK_REDUCE ? work->out_staged : work->in_staged;
}

void wring_collective_ready(struct wring_task *task, const void *piece, size_t bytes)
{
    struct wring_collective *collective = task->collective;

    if (is_staged(task, piece) && piece != task->slot && bytes > 0)
        piece = memcpy(task->slot, piece, bytes);
    task->state = WRING_TASK_SENDING;
    task->piece = piece;
    task->piece_bytes = bytes;
    task->puts_left = task->member == WRING_EVERYBODY ? collective->members.n - 1
                                                      : task->member != collective->members.me;
    if (collective->engine->trace != NULL)
        task->ready_ns = wring_now_ns();
    if (task->member == WRING_EVERYBODY)
        memset(task->put_to, 0, collective->members.n * sizeof(*task->put_to));
}

/** Memory that is sent from, as the member's device knows it. */
static struct wring_region *source_region(const struct wring_task *task,
                                          const struct wring_peer *peer)
{
    const struct wring_collective *collective = task->collective;
    const struct wring_work *work = &collective->work;
    const struct wring_block *block =
        task->kind == WRING_TASK_REDUCE ? work->out_block : work->in_block;
    if (task->piece == task->slot)
        block = collective->slots;
    if (is_in_scratch(work, task->piece))
        return NULL; /* it may be sent from anywhere, or a copy in the slot is sent */
    return block != NULL ? block->regions[peer->device] : NULL;
}

static enum wring_status put_piece(struct wring_task *task, uint32_t member)
{
    struct wring_collective *collective = task->collective;
    bool gathers = task->member == WRING_EVERYBODY || task->in_place;
    struct wring_channel *channel = gathers ? collective->gather : collective->scatter;
    struct wring_region *region = source_region(task, wring_channel_out(channel, member)->peer);
    uint64_t cookie = (uintptr_t)task;

    if (channel->placed) {
        uint64_t offset = task->span.begin * collective->work.partition.elem_bytes;
        const void *piece = task->piece;
        if (wring_algorithm_is_direct(
                collective->work.algorithm)) { /* it lies there already: the word alone goes */
            piece = channel->out[member].mapped + offset;
            region = NULL;
        }
        return wring_channel_put_placed(channel, member, region, piece, offset, task->piece_bytes,
                                        cookie);
    }
    return wring_channel_put(channel, member, task->sequence, region, task->piece,
                             task->piece_bytes, cookie);
}

/** Put the task's piece to a member. Errors: those of put_piece(). */
static enum wring_status send_to(struct wring_task *task, uint32_t member)
{
    struct wring_collective *collective = task->collective;
    struct wring_peer *peer =
        wring_fabric_peer(collective->engine->fabric, collective->members.ranks[member]);
    enum wring_status status = put_piece(task, member);

    if (status == WRING_ERR_AGAIN)
        collective->blocked = true;
    else if (status != WRING_OK)
        wring_fabric_put_failed(peer, status);
    if (status != WRING_OK)
        return status;
    wring_collective_whole(collective)->cost.wire_bytes += task->piece_bytes;
    task->puts_left--;
    task->puts_under_way += !peer->put_copies;
    return WRING_OK;
}

static bool send_to_all(struct wring_task *task)
{
    const struct wring_members *members = &task->collective->members;
    bool any = false;

    for (uint32_t d = 1; d < members->n && task->puts_left > 0; d++) {
        uint32_t member = (members->me + d) % members->n;
        if (task->put_to[member])
            continue;
        enum wring_status status = send_to(task, member);
        if (status != WRING_OK && status != WRING_ERR_AGAIN)
            return any;
        task->put_to[member] = status == WRING_OK;
        any |= status == WRING_OK;
    }
    return any;
}

static bool send_task(struct wring_task *task)
{
    return task->member == WRING_EVERYBODY ? send_to_all(task)
                                           : send_to(task, task->member) == WRING_OK;
}

static bool is_task_sent(const struct wring_task *task)
{
    return task->puts_left == 0 && task->puts_under_way == 0;
}

static void end_sent_task(struct wring_task *task)
{
    wring_collective_trace_sent(task);
    if (!task->held)
        wring_collective_free_task(task);
}

bool wring_collective_send(struct wring_collective *collective)
{
    bool any = false;
    for (uint32_t i = 0; i < collective->send_tasks + collective->reduce_tasks; i++) {
        struct wring_task *task = &collective->tasks[i];
        if (task->state != WRING_TASK_SENDING || task->puts_left == 0 || !send_task(task))
            continue;
        any = true;
        if (is_task_sent(task)) /* else its puts' completion will tell */
            end_sent_task(task);
    }
    return any;
}

void wring_collective_let_go(struct wring_task *task)
{
    task->held = false;
    if (is_task_sent(task))
        wring_collective_free_task(task);
}

void wring_collective_put_done(struct wring_task *task)
{
    task->puts_under_way--;
    task->collective->runnable = true;
    if (is_task_sent(task))
        end_sent_task(task);
}

bool wring_collective_is_quiet(const struct wring_collective *collective)
{
    uint32_t n = collective->send_tasks + collective->reduce_tasks + collective->decode_tasks;
    for (uint32_t i = 0; i < n; i++)
        if (collective->tasks[i].has_job || (collective->tasks[i].state == WRING_TASK_SENDING &&
                                             collective->tasks[i].puts_under_way > 0))
            return false;
    return true;
}

uint32_t wring_collective_missing(const struct wring_collective *collective)
{
    const struct wring_members *members = &collective->members;
    for (uint32_t i = 0; i < members->n; i++)
        if (i != members->me && collective->work.ops->awaits(collective, i))
            return i;
    return members->n;
}

void wring_collective_add_cost(struct wring_collective *collective)
{
    uint64_t took_ns = wring_now_ns() - collective->started_ns;
    collective_trace_step(collective, took_ns);
    collective->cost.steps_ns += took_ns;
    collective->cost.timed++;
}
