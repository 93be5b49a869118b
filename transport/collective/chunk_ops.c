/* SPDX-License-Identifier: Apache-2.0 */
/* How pieces are made, taken and reduced: what the state machines share. */
#include "compress/residual.h"
#include "transport/collective/collective.h"

/** Of runs of any lengths elements count from the beginning of each, and there is no more than it.
 */
static void set_run_context(const struct wring_collective *collective, struct wring_span run,
                            struct wring_span span, struct wring_codec_context *context)
{
    if (collective->work.partition.begins == NULL)
        return;
    context->element = span.begin - run.begin;
    context->elems = run.end - run.begin;
}

struct wring_codec_context wring_collective_context(const struct wring_collective *collective,
                                                    struct wring_span span, uint32_t phase)
{
    const struct wring_partition *partition = &collective->work.partition;
    struct wring_codec_context context = {
        .seed = collective->seed,
        .bucket = collective->bucket,
        .rank = collective->members.me,
        .ranks = collective->members.n,
        .phase = phase,
        .step = collective->step,
        .element =
            collective->first + wring_partition_element(&collective->work.partition, span.begin),
        .first = collective->first,
        .elems = collective->work.partition.elems,
        .rows = collective->rows,
        .columns = collective->columns,
        .statistics = wring_coding_statistics(collective->work.coding),
        .states = collective->states,
    };
    if (partition->begins != NULL) /* it is our own run, unless the caller enters another */
        set_run_context(collective, wring_partition_shard(partition, collective->members.me), span,
                        &context);
    return context;
}

float wring_collective_divisor(const struct wring_collective *collective)
{
    const struct wring_work *work = &collective->work;
    if (work->op != WRING_AVG)
        return 1;
    return (float)(work->ranks > 0 ? work->ranks : collective->members.n);
}

/** The job of a task, without operands. */
static struct wring_job *new_job(struct wring_task *task, enum wring_job_kind kind,
                                 struct wring_span span, struct wring_codec_context context)
{
    const struct wring_work *work = &task->collective->work;
    task->job = (struct wring_job){
        .kind = kind,
        .dtype = work->dtype,
        .op = work->op,
        .tier = task->collective->engine->config->cpu,
        .elems = span.end - span.begin,
        .context = context,
        .divisor = wring_collective_divisor(task->collective),
        .priority = task->collective->priority,
        .cookie = task,
    };
    task->span = span;
    return &task->job;
}

/** The codec of one way (as the contexts' phase counts), or NULL for raw. */
static const struct wring_codec *collective_way(const struct wring_collective *collective,
                                                uint32_t phase)
{
    const struct wring_codec *codec = collective->work.codec;
    return codec != NULL ? wring_codec_way(codec, phase) : NULL;
}

/** Where what is received lies, and what is sent that is not our data. */
static const struct wring_memory_place slots = {WRING_MEMORY_SHARED, 0};

struct wring_source wring_collective_own(const struct wring_collective *collective,
                                         struct wring_span span)
{
    return (struct wring_source){wring_collective_in(collective, span),
                                 wring_partition_bytes(&collective->work.partition, span), NULL,
                                 collective->work.place};
}

struct wring_source wring_collective_piece(const struct wring_task *task,
                                           const struct wring_codec *codec)
{
    return (struct wring_source){task->piece, task->piece_bytes, codec,
                                 task->piece == task->slot ? slots : task->collective->work.place};
}

/** Of one way, the residual of a job. */
static float *residual_of(const struct wring_task *task, uint32_t phase)
{
    const struct wring_collective *collective = task->collective;
    const struct wring_codec *in = collective_way(collective, 0);

    const struct wring_codec *way = collective_way(collective, phase);

    if (phase == 0 || in->owed == 0)
        return wring_residual_run(way, collective->residual, task->span.begin);
    return wring_residual_run(way, collective->states[in->owed - 1], task->job.context.element);
}

/** Have a job make the code of one way, with its part of the residual if that way has feedback. */
static void add_encoding(struct wring_job *job, const struct wring_task *task, uint32_t phase)
{
    struct wring_codec_error_stats *error_stats =
        &wring_collective_whole(task->collective)->error_stats;
    job->codec_out = collective_way(task->collective, phase);
    job->residual = NULL;
    if (wring_codec_info(job->codec_out)->flags & WRING_CODEC_FEEDBACK)
        job->residual = residual_of(task, phase);
    job->places.residual = task->collective->residual_place;
    job->places.code = slots;
    job->code = task->slot;
    job->measure = wring_codec_error_stats_wants(error_stats, phase, task->collective->step);
}

const void *wring_collective_in(const struct wring_collective *collective, struct wring_span span)
{
    const struct wring_work *work = &collective->work;
    uint64_t offset = (span.begin - work->in_origin) * work->partition.elem_bytes;
    return work->in != NULL ? (const uint8_t *)work->in + offset : NULL;
}

void *wring_collective_out(const struct wring_collective *collective, struct wring_span span)
{
    const struct wring_work *work = &collective->work;
    uint64_t offset = (span.begin - work->out_origin) * work->partition.elem_bytes;
    return work->out != NULL ? (uint8_t *)work->out + offset : NULL;
}

/** Encode a span of a shard of our contribution. */
static void encode_span(struct wring_task *task, struct wring_span shard, struct wring_span span,
                        void *code)
{
    struct wring_collective *collective = task->collective;
    struct wring_job *job =
        new_job(task, WRING_JOB_ENCODE, span, wring_collective_context(collective, span, 0));

    set_run_context(collective, shard, span, &job->context);
    job->src = wring_collective_in(collective, span);
    job->places.src = collective->work.place;
    add_encoding(job, task, 0);
    job->code = code;
    wring_engine_submit(collective->engine, job);
}

void wring_collective_encode(struct wring_task *task, struct wring_span span)
{
    task->chunk = 0;
    task->span = span;
    encode_span(task, span, span, task->slot);
}

static void reserve_slots(struct wring_task *task, struct wring_channel *channel)
{
    for (uint32_t i = 0; i < channel->members.n; i++)
        if (i != channel->members.me && (task->member == i || task->member == WRING_EVERYBODY))
            task->sequence = wring_channel_reserve(channel, i);
}

struct wring_task *wring_collective_send_next(struct wring_collective *collective, uint32_t member,
                                              struct wring_span shard, uint64_t chunks)
{
    bool all = member == WRING_EVERYBODY;
    struct wring_channel *channel = all ? collective->gather : collective->scatter;
    uint32_t me = collective->members.me;
    uint64_t *sent = &collective->sent[all ? me : member];

    if (*sent == chunks || !(all ? wring_channel_has_credits(channel)
                                 : member == me || wring_channel_has_credit(channel, member)))
        return NULL;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_SEND);
    if (task == NULL)
        return NULL;

    task->member = member;
    task->chunk = (*sent)++;
    task->span = wring_partition_chunk(&collective->work.partition, shard, task->chunk);
    reserve_slots(task, channel);
    if (collective->work.codec != NULL)
        encode_span(task, shard, task->span, task->slot);
    else
        wring_collective_ready(task, wring_collective_in(collective, task->span),
                               wring_partition_bytes(&collective->work.partition, task->span));
    return task;
}

bool wring_collective_send_word(struct wring_collective *collective, uint32_t member)
{
    if (collective->sent[member] > 0 || !wring_channel_has_credit(collective->scatter, member))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_SEND);
    if (task == NULL)
        return false;
    task->member = member;
    task->chunk = collective->sent[member]++;
    task->span = (struct wring_span){0, 0};
    reserve_slots(task, collective->scatter);
    wring_collective_ready(task, NULL, 0);
    return true;
}

void wring_collective_take(struct wring_task *task, struct wring_span span,
                           struct wring_source source, struct wring_codec_context context)
{
    struct wring_collective *collective = task->collective;
    bool coded = source.codec != NULL;
    struct wring_job *job = new_job(task, coded ? WRING_JOB_DECODE : WRING_JOB_COPY, span, context);

    if (!coded)
        job->elems = wring_partition_bytes(&collective->work.partition, span);
    task->sources[0] = source;
    job->sources = task->sources;
    job->n_sources = 1;
    job->sum_codes = context.phase == 1 && wring_codec_adds_codes(source.codec);
    if (job->sum_codes)
        job->context.rank = 0; /* it is nobody's */
    job->dst = wring_collective_out(collective, span);
    job->places.dst = collective->work.place;
    wring_engine_submit(collective->engine, job);
}

bool wring_collective_take_next(struct wring_collective *collective, struct wring_channel *channel,
                                uint32_t member, struct wring_span shard, struct wring_span from,
                                uint32_t phase)
{
    const struct wring_partition *partition = &collective->work.partition;
    size_t bytes;
    const void *piece;

    if (collective->decoded[member] == wring_partition_chunks(partition, shard) ||
        (piece = wring_channel_peek(channel, member, &bytes)) == NULL)
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_DECODE);
    if (task == NULL)
        return false;

    task->member = member;
    task->taken[member] = wring_channel_take(channel, member);
    uint64_t chunk = collective->decoded[member]++;
    struct wring_codec_context context =
        wring_collective_context(collective, wring_partition_chunk(partition, from, chunk), phase);
    context.rank = member;
    set_run_context(collective, from, wring_partition_chunk(partition, from, chunk), &context);
    struct wring_source source = {piece, bytes, collective_way(collective, phase), slots};
    wring_collective_take(task, wring_partition_chunk(partition, shard, chunk), source, context);
    return true;
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

/** Direct: where a task's span lies at a member. */
static void *mapped_at(const struct wring_task *task, uint32_t member)
{
    const struct wring_collective *collective = task->collective;
    return collective->gather->out[member].mapped +
           task->span.begin * collective->work.partition.elem_bytes;
}

/** Direct: the sum goes to its places as it is made, while their lines are near. */
static void add_copies_to_all(struct wring_task *task)
{
    const struct wring_members *members = &task->collective->members;
    task->job.copies = task->copies;
    for (uint32_t i = 0; i < members->n; i++)
        if (i != members->me)
            task->copies[task->job.n_copies++] = mapped_at(task, i);
}

/** Everyone's pieces of a chunk, by member; of direct ones the data itself. */
static void take_sources(struct wring_task *task, struct wring_channel *channel,
                         struct wring_source own)
{
    const struct wring_collective *collective = task->collective;
    const struct wring_members *members = &collective->members;
    bool direct = wring_algorithm_is_direct(collective->work.algorithm);
    for (uint32_t i = 0; i < members->n; i++) {
        struct wring_source *source = &task->sources[i];
        if (i == members->me) {
            *source = own;
            continue;
        }
        source->place = slots;
        if (direct) {
            source->data = mapped_at(task, i);
            source->bytes = own.bytes;
            source->codec = own.codec;
            continue;
        }
        source->data = wring_channel_peek(channel, i, &source->bytes);
        source->codec = collective_way(task->collective, 0);
        task->taken[i] = wring_channel_take(channel, i);
    }
}

/** Where a sum is made: in its place, or on its way to the root. */
static void set_sum(struct wring_job *job, const struct wring_task *task, struct wring_span span)
{
    const struct wring_collective *collective = task->collective;
    ptrdiff_t at = task - &collective->tasks[collective->send_tasks];

    if (wring_collective_ends_here(collective)) {
        job->dst = wring_collective_out(collective, span);
        job->places.dst = collective->work.place;
    } else if (collective->work.codec == NULL) {
        job->dst = task->slot;
        job->places.dst = slots;
    } else {
        job->dst = collective->sums + (uint64_t)at * collective->sum_elems;
        job->places.dst = (struct wring_memory_place){WRING_MEMORY_HOST, 0};
    }
}

/** The reduction of the task's sources, which are taken already. */
static struct wring_job *make_reduction(struct wring_task *task, struct wring_span span,
                                        bool encoded)
{
    struct wring_collective *collective = task->collective;
    struct wring_job *job =
        new_job(task, WRING_JOB_REDUCE, span, wring_collective_context(collective, span, 1));

    job->sources = task->sources;
    job->n_sources = collective->members.n;
    set_sum(job, task, span);
    if (wring_algorithm_is_direct(collective->work.algorithm) &&
        !wring_algorithm_keeps_sums(collective->work.algorithm))
        add_copies_to_all(task);
    if (wring_codec_adds_codes(collective->work.codec)) {
        job->sum_codes = true;
        job->context.rank = 0;
        job->codec_out = collective->work.codec;
        job->code = task->slot;
        job->places.code = slots;
    } else if (encoded) {
        add_encoding(job, task, 1);
    }
    return job;
}

void wring_collective_reduce_sources(struct wring_task *task, struct wring_span span)
{
    for (uint32_t i = 0; i < task->collective->members.n; i++)
        task->sources[i].codec = collective_way(task->collective, 0);
    task->span = span;
    task->encoded = false;
    wring_engine_submit(task->collective->engine, make_reduction(task, span, false));
}

void wring_collective_reduction(struct wring_task *task, struct wring_channel *channel,
                                struct wring_span span, struct wring_source own, bool encoded)
{
    task->span = span;
    take_sources(task, channel, own);
    make_reduction(task, span, encoded);
}

/** Where the code of our own piece lies. */
static void *own_code(const struct wring_task *task)
{
    const struct wring_collective *collective = task->collective;
    ptrdiff_t index = task - collective->tasks - (ptrdiff_t)collective->send_tasks;
    return wring_coding_own(collective->work.coding, (uint32_t)index);
}

void wring_collective_reduce(struct wring_task *task, struct wring_channel *channel,
                             struct wring_span span, struct wring_source own, bool encoded)
{
    struct wring_collective *collective = task->collective;

    wring_collective_reduction(task, channel, span, own, encoded);
    task->encoded = encoded;
    if (own.codec == NULL && wring_codec_encodes_own(collective->work.codec)) {
        uint32_t me = collective->members.me;
        encode_span(task, wring_partition_shard(&collective->work.partition, me), span,
                    own_code(task));
        return;
    }
    wring_engine_submit(collective->engine, &task->job);
}

bool wring_collective_reduce_on(struct wring_task *task)
{
    struct wring_collective *collective = task->collective;
    struct wring_source *own = &task->sources[collective->members.me];

    if (task->job.kind != WRING_JOB_ENCODE)
        return false;
    own->data = own_code(task);
    own->bytes = task->job.result.code_bytes;
    own->codec = collective_way(collective, 0);
    own->place = (struct wring_memory_place){WRING_MEMORY_HOST, 0};
    wring_engine_submit(collective->engine, make_reduction(task, task->span, task->encoded));
    return true;
}

void wring_collective_release_all(struct wring_task *task, struct wring_channel *channel)
{
    const struct wring_members *members = &task->collective->members;
    for (uint32_t i = 0; i < members->n; i++)
        if (i != members->me)
            wring_channel_release(channel, i, task->taken[i]);
}
