/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/coding.h"

#include <stdlib.h>

#include "compress/codec.h"
#include "transport/collective/collective.h"

#define ALIGN 64
#define PIECE_MAX ((size_t)4096) /* of many statistics, which then travel in several pieces */

enum stage {
    BEGINNING,
    GATHERING,
    ENDING
};

struct wring_coding {
    struct wring_work payload; /* of the step, while the collective's work is a round's */
    uint32_t n_rounds;
    uint32_t round; /* under way; n_rounds: none is */
    enum stage stage;
    bool submitted; /* the stage's job is */
    void *statistics[WRING_CODEC_ROUNDS_MAX];
    uint64_t counts[WRING_CODEC_ROUNDS_MAX];
    uint8_t *own; /* codes; NULL: none */
    size_t own_stride;
};

static size_t align(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static const struct wring_codec_round *round_of(const struct wring_codec *codec, uint32_t round)
{
    return &wring_codec_way(codec, 0)->ops->rounds[round];
}

static uint64_t count_statistics(const struct wring_codec *codec, uint32_t round,
                                 const struct wring_codec_context *context)
{
    return round_of(codec, round)->count(wring_codec_way(codec, 0), context);
}

size_t wring_coding_piece_bytes(const struct wring_codec *codec,
                                const struct wring_codec_context *context)
{
    size_t most = 0;
    for (uint32_t i = 0; i < wring_codec_rounds(codec); i++) {
        size_t bytes =
            count_statistics(codec, i, context) * wring_dtype_bytes(round_of(codec, i)->dtype);
        most = bytes > most ? bytes : most;
    }
    return most < PIECE_MAX ? most : PIECE_MAX;
}

/** The context of rounds: all elements of the collective; without the step, which changes. */
static struct wring_codec_context whole_context(const struct wring_collective *collective,
                                                const struct wring_work *work)
{
    return (struct wring_codec_context){
        .seed = collective->seed,
        .bucket = collective->bucket,
        .rank = collective->members.me,
        .ranks = collective->members.n,
        .element = collective->first,
        .first = collective->first,
        .elems = work->partition.elems,
        .rows = collective->rows,
        .columns = collective->columns,
        .statistics = wring_coding_statistics(work->coding),
        .states = collective->states,
    };
}

static enum wring_status make_statistics(const struct wring_collective *collective,
                                         const struct wring_work *work, struct wring_coding *coding)
{
    struct wring_codec_context context = whole_context(collective, work);

    for (uint32_t i = 0; i < coding->n_rounds; i++) {
        size_t elem_bytes = wring_dtype_bytes(round_of(work->codec, i)->dtype);
        coding->counts[i] = count_statistics(work->codec, i, &context);
        if (coding->counts[i] > SIZE_MAX / 64)
            return WRING_ERR_NO_MEMORY;
        coding->statistics[i] = aligned_alloc(ALIGN, align(coding->counts[i] * elem_bytes + 1));
        if (coding->statistics[i] == NULL)
            return WRING_ERR_NO_MEMORY;
    }
    return WRING_OK;
}

static enum wring_status make_own_codes(const struct wring_collective *collective,
                                        struct wring_coding *coding)
{
    coding->own_stride = align(collective->slot_bytes);
    coding->own = aligned_alloc(ALIGN, align(collective->reduce_tasks * coding->own_stride + 1));
    return coding->own != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

enum wring_status wring_coding_create(const struct wring_collective *collective,
                                      const struct wring_work *work, struct wring_coding **out)
{
    uint32_t n_rounds = wring_codec_rounds(work->codec);
    bool own = wring_codec_encodes_own(work->codec);
    enum wring_status status = WRING_OK;

    *out = NULL;
    if ((n_rounds == 0 && !own) || work->partition.elems == 0)
        return WRING_OK;
    struct wring_coding *coding = calloc(1, sizeof(*coding));
    if (coding == NULL)
        return WRING_ERR_NO_MEMORY;
    coding->n_rounds = coding->round = n_rounds;
    status = make_statistics(collective, work, coding);
    if (status == WRING_OK && own)
        status = make_own_codes(collective, coding);
    if (status != WRING_OK)
        wring_coding_destroy(coding);
    else
        *out = coding;
    return status;
}

void wring_coding_destroy(struct wring_coding *coding)
{
    if (coding == NULL)
        return;
    for (uint32_t i = 0; i < coding->n_rounds; i++)
        free(coding->statistics[i]);
    free(coding->own);
    free(coding);
}

const void *const *wring_coding_statistics(const struct wring_coding *coding)
{
    return coding != NULL && coding->n_rounds > 0 ? (const void *const *)coding->statistics : NULL;
}

void *wring_coding_own(const struct wring_coding *coding, uint32_t index)
{
    return coding->own + index * coding->own_stride;
}

static bool is_in_round(const struct wring_coding *coding)
{
    return coding != NULL && coding->round < coding->n_rounds;
}

/** The step's own work, driven by a stage of the round. */
static void enter_stage(struct wring_collective *collective, enum stage stage,
                        const struct wring_collective_ops *ops)
{
    struct wring_coding *coding = collective->work.coding;

    coding->stage = stage;
    coding->submitted = false;
    collective->work = coding->payload;
    collective->work.ops = ops;
    collective->runnable = true;
    ops->start(collective);
}

/** An allreduce of the statistics. Pieces are copied into slots, from which every device sends. */
static void gather_statistics(struct wring_collective *collective)
{
    struct wring_coding *coding = collective->work.coding;
    const struct wring_codec_round *round = round_of(coding->payload.codec, coding->round);
    void *statistics = coding->statistics[coding->round];

    coding->stage = GATHERING;
    collective->work = (struct wring_work){
        .algorithm = WRING_ALLREDUCE_ONE_SHOT,
        .ops = &wring_round_gathered,
        .call = coding->payload.call,
        .coding = coding,
        .partition = wring_partition_make(coding->counts[coding->round],
                                          (uint32_t)wring_dtype_bytes(round->dtype), 1, NULL,
                                          collective->slot_bytes),
        .dtype = round->dtype,
        .op = round->op,
        .in = statistics,
        .out = statistics,
        .root = WRING_EVERYBODY,
        .to_all = true,
        .in_staged = true,
    };
    collective->runnable = true;
    wring_round_gathered.start(collective);
}

static void begin_next_stage(struct wring_collective *collective)
{
    struct wring_coding *coding = collective->work.coding;

    if (++coding->round < coding->n_rounds)
        enter_stage(collective, BEGINNING, &wring_round_job);
    else
        enter_stage(collective, ENDING, coding->payload.ops);
}

static void job_start(struct wring_collective *collective)
{
    (void)collective;
}

/** The job that begins or ends the round; no task is taken before it. */
static void job_advance(struct wring_collective *collective)
{
    struct wring_coding *coding = collective->work.coding;
    const struct wring_work *work = &collective->work;

    if (coding->submitted)
        return;
    coding->submitted = true;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_REDUCE);
    task->span = (struct wring_span){0, work->partition.elems};
    task->chunk = coding->round;
    task->job = (struct wring_job){
        .kind = coding->stage == BEGINNING ? WRING_JOB_ROUND_BEGIN : WRING_JOB_ROUND_END,
        .dtype = work->dtype,
        .tier = collective->engine->config->cpu,
        .elems = work->partition.elems,
        .context = whole_context(collective, work),
        .priority = collective->priority,
        .codec_out = wring_codec_way(work->codec, 0),
        .round = coding->round,
        .src = work->in,
        .places = {.src = work->place, .residual = collective->residual_place},
        .dst = coding->statistics[coding->round],
        .cookie = task,
    };
    task->job.context.step = collective->step;
    if (wring_codec_info(task->job.codec_out)->flags & WRING_CODEC_FEEDBACK)
        task->job.residual = collective->residual;
    wring_engine_submit(collective->engine, &task->job);
}

static void job_done(struct wring_collective *collective, struct wring_task *task)
{
    const struct wring_coding *coding = collective->work.coding;

    wring_collective_free_task(task);
    if (coding->stage == BEGINNING)
        gather_statistics(collective);
    else
        begin_next_stage(collective);
}

/** Pieces follow in any case. */
static bool job_owes(const struct wring_collective *collective, uint32_t member)
{
    (void)collective, (void)member;
    return true;
}

static bool job_awaits(const struct wring_collective *collective, uint32_t member)
{
    (void)collective, (void)member;
    return false;
}

const struct wring_collective_ops wring_round_job = {
    .name = "round",
    .start = job_start,
    .advance = job_advance,
    .job_done = job_done,
    .owes = job_owes,
    .awaits = job_awaits,
};

void wring_coding_start(struct wring_collective *collective)
{
    struct wring_coding *coding = collective->work.coding;

    if (coding == NULL || coding->n_rounds == 0) {
        collective->work.ops->start(collective);
        return;
    }
    coding->payload = collective->work;
    coding->round = 0;
    enter_stage(collective, BEGINNING, &wring_round_job);
}

bool wring_coding_goes_on(struct wring_collective *collective)
{
    struct wring_coding *coding = collective->work.coding;

    if (!is_in_round(coding))
        return false;
    if (round_of(coding->payload.codec, coding->round)->end != NULL)
        enter_stage(collective, ENDING, &wring_round_job);
    else
        begin_next_stage(collective);
    return true;
}

void wring_coding_stop(struct wring_collective *collective)
{
    struct wring_coding *coding = collective->work.coding;

    if (!is_in_round(coding))
        return;
    collective->work = coding->payload;
    coding->round = coding->n_rounds;
}
