/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The turns of `wring bench codec`: each times every task once, so that other load on the machine
 * slows the codec and its twins alike.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "base/log.h"
#include "base/thread.h"
#include "compress/codec.h"
#include "compress/job.h"
#include "tools/bench/bench.h"
#include "tools/bench/codec.h"
#include "tools/commands.h"
#include "transport/memory.h"

static bool keeps_residual(const struct wring_codec *codec)
{
    return (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) != 0;
}

static bool is_raw(const struct wring_codec *codec)
{
    return (wring_codec_info(codec)->flags & WRING_CODEC_RAW) != 0;
}

/* ---- jobs ---- */

/* f32 is coded by calls of the codec, and raw 16 bits are copied; coded 16 bits take jobs, which
 * widen and round. */

/** Of a call's numbers. */
static size_t number_bytes(const struct wring_codec_work *work)
{
    return work->elems * wring_dtype_bytes(work->dtype);
}

/** @param source  [2], of a DECODE or REDUCE */
static struct wring_job make_job(const struct wring_codec_work *work, enum wring_job_kind kind,
                                 struct wring_source *source)
{
    const struct wring_codec *code = is_raw(work->codec) ? NULL : work->codec;
    bool reduces = kind == WRING_JOB_REDUCE;

    source[0] = (struct wring_source){.data = work->dst.base, .bytes = number_bytes(work)};
    source[reduces] = (struct wring_source){
        .data = work->code.base, .bytes = (size_t)work->code_bytes, .codec = code};
    return (struct wring_job){.kind = kind,
                              .dtype = work->dtype,
                              .op = WRING_SUM,
                              .elems = work->elems,
                              .context = work->context,
                              .src = work->src.base,
                              .sources = source,
                              .n_sources = reduces ? 2 : 1,
                              .divisor = 1,
                              .codec_out = reduces || kind == WRING_JOB_DECODE ? NULL : code,
                              .residual = work->residual.base,
                              .code = work->code.base,
                              .dst = work->dst.base,
                              .untimed = true};
}

/** @return bytes of the code */
static size_t run_job(struct wring_codec_work *work, enum wring_job_kind kind)
{
    struct wring_source source[2];
    struct wring_job job = make_job(work, kind, source);

    wring_job_run(&job, work->scratch.base);
    if (job.result.status != WRING_OK)
        work->status = job.result.status;
    return job.result.code_bytes;
}

static void run_rounds_of_16(struct wring_codec_work *work)
{
    for (uint32_t r = 0; r < work->solo.codec->ops->n_rounds; r++) {
        struct wring_source source[2];
        struct wring_job job = make_job(work, WRING_JOB_ROUND_BEGIN, source);
        job.round = r;
        job.dst = work->solo.statistics[r];
        wring_job_run(&job, work->scratch.base);
        job.kind = WRING_JOB_ROUND_END;
        wring_job_run(&job, work->scratch.base);
    }
}

/** What the largest of a subject's jobs works in. */
static size_t job_scratch_bytes(const struct wring_codec_subject *subject)
{
    static const enum wring_job_kind kinds[] = {WRING_JOB_ENCODE, WRING_JOB_DECODE,
                                                WRING_JOB_ROUND_BEGIN, WRING_JOB_REDUCE};
    const struct wring_codec_work work = {.codec = wring_codec_way(subject->codec, subject->phase),
                                          .elems = subject->elems,
                                          .dtype = subject->dtype};
    uint64_t most = 0;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct wring_source source[2];
        struct wring_job job = make_job(&work, kinds[i], source);
        uint64_t elems = wring_job_scratch_elems(&job);
        most = elems > most ? elems : most;
    }
    return wring_job_scratch_bytes(most);
}

uint64_t wring_codec_measure_bytes(const struct wring_codec_subject *subject)
{
    const struct wring_codec *codec = wring_codec_way(subject->codec, subject->phase);
    uint64_t bytes = 2 * subject->elems * wring_dtype_bytes(subject->dtype); /* src and dst */

    bytes += keeps_residual(codec) ? subject->elems * sizeof(float) : 0;
    bytes += subject->dtype != WRING_F32 ? job_scratch_bytes(subject) : 0;
    return bytes + wring_codec_bound(codec, subject->elems);
}

/** A twin in all the modes to store that differ for it. */
static size_t add_twins(struct wring_codec_task *out, enum wring_codec_task_kind kind,
                        unsigned modes)
{
    size_t n = 0;

    if (!wring_twin_widest()->streams)
        modes &= WRING_TWIN_FETCH_UPDATES;
    for (unsigned store = 0; store <= modes; store++)
        if ((store & modes) == store)
            out[n++] = (struct wring_codec_task){kind, store};
    return n;
}

/** What a turn consists of, in its order. @return how many; at most WRING_CODEC_TASKS_MAX */
static size_t codec_tasks(const struct wring_codec *codec, uint32_t phase,
                          struct wring_codec_task *out)
{
    const struct wring_codec *way = wring_codec_way(codec, phase);
    unsigned encode_modes = WRING_TWIN_STREAM_WRITES;
    size_t n = 0;

    if (keeps_residual(way) || wring_codec_way(codec, 0)->ops->n_states > 0)
        encode_modes |= WRING_TWIN_STREAM_UPDATES;
    n += add_twins(out + n, WRING_TASK_TWIN_ENCODE, encode_modes);
    out[n++] = (struct wring_codec_task){WRING_TASK_ENCODE, 0};
    out[n++] = (struct wring_codec_task){WRING_TASK_COPY, 0};
    out[n++] = (struct wring_codec_task){WRING_TASK_DECODE, 0};
    n += add_twins(out + n, WRING_TASK_TWIN_DECODE_ADD,
                   WRING_TWIN_STREAM_UPDATES | WRING_TWIN_FETCH_UPDATES);
    out[n++] = (struct wring_codec_task){WRING_TASK_DECODE_ADD, 0};
    return n;
}

static enum wring_status allocate_work(struct wring_codec_work *work,
                                       const struct wring_codec_subject *subject)
{
    size_t bytes = number_bytes(work);
    enum wring_status status = wring_memory_alloc(bytes, &work->src);

    if (status == WRING_OK)
        status = wring_memory_alloc(bytes, &work->dst);
    if (status == WRING_OK)
        status = wring_memory_alloc(wring_codec_bound(work->codec, work->elems), &work->code);
    if (status == WRING_OK && keeps_residual(work->codec))
        status = wring_memory_alloc(work->elems * sizeof(float), &work->residual);
    if (status == WRING_OK && work->dtype != WRING_F32)
        status = wring_memory_alloc(job_scratch_bytes(subject), &work->scratch);
    return status;
}

/** Other numbers in each thread; zeros elsewhere. */
static enum wring_status fill_work(struct wring_codec_work *work,
                                   const struct wring_bench_data *data, uint32_t index)
{
    if (!wring_bench_data_fill_as(data, index, work->dtype, work->src.base, work->elems))
        return WRING_ERR_NO_MEMORY;
    memset(work->dst.base, 0, work->dst.bytes);
    memset(work->code.base, 0, work->code.bytes);
    if (work->residual.base != NULL)
        memset(work->residual.base, 0, work->residual.bytes);
    return WRING_OK;
}

static double measure_nmse(const struct wring_codec_work *work)
{
    double error = 0, power = 0;

    for (uint64_t i = 0; i < work->elems; i++) {
        double whole = (double)wring_bench_number(work->dtype, work->src.base, i);
        double lost = whole - (double)wring_bench_number(work->dtype, work->dst.base, i);
        error += lost * lost;
        power += whole * whole;
    }
    return power > 0 ? error / power : error;
}

/** Lines of the decoded run in which the code says anything: what adding it has to touch. */
static uint64_t count_lines(const struct wring_codec_work *work)
{
    const uint64_t per_line = WRING_TWIN_LINE / wring_dtype_bytes(work->dtype);
    uint64_t lines = 0, elems = work->elems;

    for (uint64_t begin = 0; begin < elems; begin += per_line) {
        uint64_t end = begin + per_line < elems ? begin + per_line : elems, i = begin;
        while (i < end && wring_bench_number(work->dtype, work->dst.base, i) == 0)
            i++;
        lines += i < end;
    }
    return lines;
}

/** On the way back there are none. */
static size_t count_rounds(const struct wring_codec_work *work)
{
    return work->context.phase == 0 ? work->solo.codec->ops->n_rounds : 0;
}

/** Is a state brought up to date on the way? */
static bool is_updated(const struct wring_codec_work *work, size_t state)
{
    bool owned = work->solo.codec->ops->states[state].holder == WRING_CODEC_OWNER;
    return owned == (work->context.phase > 0);
}

/** Adds a pass, as yet without traffic. */
static struct wring_twin_work *add_pass(struct wring_codec_twin *twin)
{
    return &twin->pass[twin->n++];
}

static struct wring_twin_stream stream_of_statistics(const struct wring_codec_work *work,
                                                     size_t round)
{
    return wring_twin_all(work->solo.statistics[round],
                          wring_solo_statistics_bytes(work->solo.codec, round, &work->context));
}

/**
 * Which lines of the input an encoder reads after its rounds, which have read all. Where values are
 * kept or fed those are all lines, too. Codes of matrices say nothing that rounds have not said.
 */
static uint64_t lines_to_encode(const struct wring_codec_work *work, uint64_t all, uint64_t said)
{
    const struct wring_codec *codec = work->solo.codec;

    if (count_rounds(work) == 0 || work->residual.base != NULL)
        return all;
    return codec->ops->flags & WRING_CODEC_MATRIX ? 0 : said;
}

/**
 * Each round reads the input and the residual, and adds to its statistics. Then the input is read,
 * code written, and residual and states brought up to date.
 * @param said  lines that the code has anything for
 */
static void plan_encode_twin(struct wring_codec_work *work, uint64_t said)
{
    const struct wring_codec_ops *ops = work->solo.codec->ops;
    uint64_t bytes = number_bytes(work);
    uint64_t kept = work->elems * sizeof(float);
    struct wring_codec_twin *twin = &work->encode_twin;

    for (size_t r = 0; r < count_rounds(work); r++) {
        struct wring_twin_work *round = add_pass(twin);
        round->read = wring_twin_all(work->src.base, bytes);
        if (work->residual.base != NULL)
            round->other = wring_twin_all(work->residual.base, kept);
        round->update = stream_of_statistics(work, r);
    }
    struct wring_twin_work *last = add_pass(twin);
    last->read = wring_twin_all(work->src.base, bytes);
    last->read.lines = lines_to_encode(work, last->read.span, said);
    last->write = wring_twin_all(work->code.base, work->code_bytes);
    if (work->residual.base != NULL)
        last->update = wring_twin_all(work->residual.base, kept);
    for (size_t s = 0; s < ops->n_states; s++)
        if (is_updated(work, s)) {
            struct wring_twin_work *pass = last->update.lines == 0 ? last : add_pass(twin);
            pass->update = wring_twin_all(
                work->solo.states[s], wring_solo_state_bytes(work->solo.codec, s, &work->context));
        }
}

/** Decoders read what rounds have left, too. */
static void plan_decode_twin(struct wring_codec_work *work, uint64_t said)
{
    struct wring_codec_twin *twin = &work->decode_add_twin;

    for (size_t r = 0; r < count_rounds(work); r++)
        add_pass(twin)->read = stream_of_statistics(work, r);
    struct wring_twin_work *last = add_pass(twin);
    last->read = wring_twin_all(work->code.base, work->code_bytes);
    last->update = wring_twin_all(work->dst.base, number_bytes(work));
    last->update.lines = said;
}

static void plan_twins(struct wring_codec_work *work)
{
    uint64_t said = count_lines(work);

    work->twin = wring_twin_widest();
    plan_encode_twin(work, said);
    plan_decode_twin(work, said);
}

static void run_twin(struct wring_codec_work *work, const struct wring_codec_twin *twin,
                     unsigned store)
{
    for (size_t pass = 0; pass < twin->n; pass++)
        work->seen |= wring_twin_run(work->twin, &twin->pass[pass], store);
}

static void encode_f32(struct wring_codec_work *work)
{
    if (work->context.phase == 0)
        wring_solo_rounds(&work->solo, &work->context, work->src.base, work->residual.base);
    work->code_bytes = wring_codec_encode(work->codec, &work->context, work->src.base, work->elems,
                                          work->residual.base, work->code.base);
}

static void encode_16(struct wring_codec_work *work)
{
    if (is_raw(work->codec)) {
        work->code_bytes = number_bytes(work);
        memcpy(work->code.base, work->src.base, work->code_bytes);
        return;
    }
    if (work->context.phase == 0)
        run_rounds_of_16(work);
    work->code_bytes = run_job(work, WRING_JOB_ENCODE);
}

/** A codec's rounds are a part of its encoding. */
static void encode_work(struct wring_codec_work *work)
{
    work->context.step++; /* codes are decoded as those of the step that they are of */
    (work->dtype == WRING_F32 ? encode_f32 : encode_16)(work);
}

static void decode_work(struct wring_codec_work *work, bool add)
{
    enum wring_status status = WRING_OK;

    if (work->dtype == WRING_F32)
        status = wring_codec_decode(work->codec, &work->context, work->code.base, work->code_bytes,
                                    work->dst.base, work->elems, add);
    else if (is_raw(work->codec) && !add)
        memcpy(work->dst.base, work->code.base, work->code_bytes);
    else
        run_job(work, add ? WRING_JOB_REDUCE : WRING_JOB_DECODE);
    if (status != WRING_OK)
        work->status = status;
}

/** Zeros, of a code and a sum. */
static enum wring_status allocate_sum(struct wring_codec_work *work)
{
    const struct wring_codec_ops *ops = work->codec->ops;
    size_t bytes = wring_codec_bound(work->codec, work->elems);
    size_t sum_bytes = ops->sum_bound != NULL ? ops->sum_bound(work->codec, work->elems) : bytes;
    enum wring_status status = wring_memory_alloc(bytes, &work->zeros);

    if (status == WRING_OK)
        status = wring_memory_alloc(sum_bytes, &work->sum);
    if (status != WRING_OK)
        return status;
    memset(work->zeros.base, 0, bytes);
    memset(work->sum.base, 0, sum_bytes);
    return WRING_OK;
}

static void sum_work(struct wring_codec_work *work)
{
    struct wring_codec_context context = work->context;
    enum wring_status status = work->sum.base == NULL ? allocate_sum(work) : WRING_OK;

    context.phase = 1;
    context.rank = 0;
    if (status == WRING_OK)
        status =
            work->codec->ops->code_sum(work->codec, &context, work->sum.base, work->zeros.base,
                                       wring_codec_bound(work->codec, work->elems), work->elems);
    if (status != WRING_OK)
        work->status = status;
}

uint64_t wring_codec_matrix_rows(uint64_t elems)
{
    uint64_t rows = 1;
    while (elems % (2 * rows) == 0 && 4 * rows * rows <= elems)
        rows *= 2;
    return rows;
}

/** In a job that adds a code to numbers, the code is rank 1's. */
static struct wring_codec_context make_context(const struct wring_codec_subject *subject,
                                               uint32_t index)
{
    uint64_t elems = subject->elems, rows = wring_codec_matrix_rows(elems);

    return (struct wring_codec_context){.seed = 1,
                                        .rank = subject->dtype == WRING_F32 ? index : 1,
                                        .ranks = 2,
                                        .phase = subject->phase,
                                        .elems = elems,
                                        .rows = rows,
                                        .columns = elems / rows};
}

enum wring_status wring_codec_work_init(struct wring_codec_work *work,
                                        const struct wring_codec_subject *subject,
                                        const struct wring_bench_data *data, uint32_t index)
{
    *work = (struct wring_codec_work){.codec = wring_codec_way(subject->codec, subject->phase),
                                      .elems = subject->elems,
                                      .dtype = subject->dtype,
                                      .context = make_context(subject, index)};
    enum wring_status status = wring_solo_init(&work->solo, subject->codec, &work->context);
    if (status == WRING_OK)
        status = allocate_work(work, subject);
    if (status == WRING_OK)
        status = fill_work(work, data, index);
    if (status != WRING_OK)
        return status;
    encode_work(work);
    work->first_bytes = work->code_bytes;
    decode_work(work, false);
    work->nmse = measure_nmse(work);
    plan_twins(work);
    return work->status;
}

void wring_codec_work_finish(struct wring_codec_work *work)
{
    wring_solo_finish(&work->solo);
    wring_memory_free(&work->src);
    wring_memory_free(&work->residual);
    wring_memory_free(&work->code);
    wring_memory_free(&work->dst);
    wring_memory_free(&work->zeros);
    wring_memory_free(&work->sum);
    wring_memory_free(&work->scratch);
}

static void run_once(struct wring_codec_work *work, const struct wring_codec_task *task)
{
    switch (task->kind) {
    case WRING_TASK_TWIN_ENCODE:
        run_twin(work, &work->encode_twin, task->store);
        return;
    case WRING_TASK_ENCODE:
        encode_work(work);
        return;
    case WRING_TASK_COPY:
        memcpy(work->dst.base, work->src.base, number_bytes(work));
        return;
    case WRING_TASK_DECODE:
        decode_work(work, false);
        return;
    case WRING_TASK_TWIN_DECODE_ADD:
        run_twin(work, &work->decode_add_twin, task->store);
        return;
    case WRING_TASK_DECODE_ADD:
        decode_work(work, true);
        return;
    case WRING_TASK_SUM:
        sum_work(work);
        return;
    }
}

void wring_codec_work_run(struct wring_codec_work *work, const struct wring_codec_task *task,
                          uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        run_once(work, task);
}

/* ---- codec turns ---- */

#define SAMPLE_NS 200000.0        /* shorter calls are repeated to take about so long */
#define SETTLE_BYTES (128u << 20) /* of input a task has gone over before it is timed, or */
#define SETTLE_PASSES 8           /* as often as this; once at least */
#define TURNS_MIN 5
#define TURNS_MAX 2000
#define SPINS 2000 /* polls of a barrier before the core is offered to others */

/** Lets threads go on together, to within a cache miss. */
struct gate {
    atomic_uint waiting, opened; /* opened: how often */
    atomic_bool abandoned;       /* nobody waits any more: not all threads could be started */
};

struct member {
    struct run *run;
    uint32_t index;
    pthread_t thread;
    struct wring_codec_work work;
    enum wring_status status;
    uint64_t begin_ns, end_ns; /* of the last task */
};

/** What the threads share. Member 0 writes it, between the tasks. */
struct run {
    const struct wring_codec_bench *bench;
    const struct wring_codec *codec;
    uint32_t phase;
    struct gate gate;
    struct wring_codec_task tasks[WRING_CODEC_TASKS_MAX];
    uint64_t times[WRING_CODEC_TASKS_MAX]; /* that a task is repeated in each turn */
    double *speeds[WRING_CODEC_TASKS_MAX]; /* [TURNS_MAX] */
    size_t n_tasks;
    uint32_t turns;
    uint64_t deadline_ns;
    bool stop;
    struct member members[WRING_BENCH_THREADS_MAX];
};

static void pass_gate(struct run *run)
{
    unsigned opened = atomic_load(&run->gate.opened), spins = 0;

    if (atomic_fetch_add(&run->gate.waiting, 1) + 1 == run->bench->threads) {
        atomic_store(&run->gate.waiting, 0);
        atomic_store(&run->gate.opened, opened + 1);
        return;
    }
    while (atomic_load(&run->gate.opened) == opened && !atomic_load(&run->gate.abandoned))
        if (++spins > SPINS)
            sched_yield();
}

static bool pin_thread(unsigned core)
{
    size_t bytes = CPU_ALLOC_SIZE(core + 1);
    cpu_set_t *set = CPU_ALLOC(core + 1);

    if (set == NULL)
        return false;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(core, bytes, set);
    int failed = pthread_setaffinity_np(pthread_self(), bytes, set);
    CPU_FREE(set);
    return failed == 0;
}

/** From the first thread's start to the last one's end, in ns. */
static double elapsed_ns(const struct run *run)
{
    uint64_t begin = run->members[0].begin_ns, end = run->members[0].end_ns;

    for (uint32_t i = 1; i < run->bench->threads; i++) {
        if (run->members[i].begin_ns < begin)
            begin = run->members[i].begin_ns;
        if (run->members[i].end_ns > end)
            end = run->members[i].end_ns;
    }
    return end > begin ? (double)(end - begin) : 1;
}

/** How often a task is done before it is timed. */
static uint64_t settle_passes(const struct wring_codec_bench *bench)
{
    uint64_t passes = SETTLE_BYTES / (bench->elems * wring_dtype_bytes(bench->dtype));

    if (passes > SETTLE_PASSES)
        return SETTLE_PASSES;
    return passes > 0 ? passes : 1;
}

/**
 * Time one task in all threads at once. Untimed passes come first, so that the timed ones find the
 * task's own data in the caches, not that of the task before. One pass is not enough: a last-level
 * cache evicts older data only after some passes. Several twins follow each other over the same
 * memory, and would find more of it cached than a codec that follows the copy.
 */
static void time_task(struct member *member, size_t task)
{
    struct run *run = member->run;
    const struct wring_codec_task *what = &run->tasks[task];

    pass_gate(run);
    uint64_t times = run->times[task];
    wring_codec_work_run(&member->work, what, settle_passes(run->bench));
    pass_gate(run);
    member->begin_ns = wring_now_ns();
    wring_codec_work_run(&member->work, what, times);
    member->end_ns = wring_now_ns();
    pass_gate(run);
}

/** How often each task must be repeated to be timed well. */
static void calibrate_repeats(struct member *member)
{
    struct run *run = member->run;

    for (size_t task = 0; task < run->n_tasks; task++) {
        time_task(member, task);
        if (member->index == 0)
            run->times[task] = (uint64_t)ceil(SAMPLE_NS / elapsed_ns(run));
    }
}

/**
 * Every other turn goes backwards: what a task leaves in the caches, besides its own, then helps
 * or hinders its neighbours alike. The code, which twins of encoders spoil, is whole whenever a
 * decoder comes.
 */
static void play_turn(struct member *member)
{
    struct run *run = member->run;
    const struct wring_codec_bench *bench = run->bench;
    double bytes = (double)(bench->elems * wring_dtype_bytes(bench->dtype)) * bench->threads;

    for (size_t i = 0; i < run->n_tasks; i++) {
        size_t task = run->turns % 2 == 0 ? i : run->n_tasks - 1 - i;
        time_task(member, task);
        if (member->index == 0)
            run->speeds[task][run->turns] = bytes * (double)run->times[task] / elapsed_ns(run);
    }
}

/** Member 0 decides; the others learn it behind the gate. */
static bool agree_to_go_on(struct member *member)
{
    struct run *run = member->run;

    if (member->index == 0)
        run->stop = run->turns == TURNS_MAX ||
                    (run->turns >= TURNS_MIN && wring_now_ns() >= run->deadline_ns);
    pass_gate(run);
    return !run->stop;
}

static bool agree_all_ready(struct run *run)
{
    pass_gate(run);
    if (atomic_load(&run->gate.abandoned))
        return false;
    for (uint32_t i = 0; i < run->bench->threads; i++)
        if (run->members[i].status != WRING_OK)
            return false;
    return true;
}

static void *member_main(void *arg)
{
    struct member *member = arg;
    struct run *run = member->run;
    const struct wring_codec_subject subject = {run->codec, run->bench->elems, run->bench->dtype,
                                                run->phase};
    uint64_t mode = wring_fp_enter();

    member->status = WRING_ERR_SYSTEM;
    if (pin_thread(run->bench->cores[member->index]))
        member->status =
            wring_codec_work_init(&member->work, &subject, run->bench->data, member->index);
    if (agree_all_ready(run)) {
        calibrate_repeats(member);
        if (member->index == 0)
            run->deadline_ns = wring_deadline_in((uint64_t)(run->bench->seconds * 1e9));
        while (agree_to_go_on(member)) {
            play_turn(member);
            if (member->index == 0)
                run->turns++;
        }
        member->status = member->work.status;
    }
    wring_fp_leave(mode);
    return NULL;
}

/** @return how many threads run; fewer than asked for where the system refused one */
static uint32_t start_threads(struct run *run)
{
    for (uint32_t i = 0; i < run->bench->threads; i++) {
        struct member *member = &run->members[i];
        member->run = run;
        member->index = i;
        errno = wring_thread_create(&member->thread, member_main, member);
        if (errno != 0) {
            wring_fail("wring bench codec", "thread %u of %u cannot start: %s", i + 1,
                       run->bench->threads, WRING_REFUSED("pthread_create"));
            return i;
        }
    }
    return run->bench->threads;
}

static enum wring_status run_threads(struct run *run)
{
    uint32_t started = start_threads(run);
    enum wring_status status = WRING_OK;

    if (started < run->bench->threads) { /* the others wait for it at the first gate */
        atomic_store(&run->gate.abandoned, true);
        status = WRING_ERR_SYSTEM;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(run->members[i].thread, NULL);
        if (status == WRING_OK)
            status = run->members[i].status;
    }
    return status;
}

static double median_speed(struct run *run, size_t task)
{
    return wring_spread_of(run->speeds[task], run->turns).median;
}

/** A limit is that of the fastest way to read and store. */
static void take_limit(double speed, unsigned store, double *limit, bool *streams)
{
    if (speed <= *limit)
        return;
    *limit = speed;
    *streams = (store & WRING_TWIN_STREAMS) != 0;
}

static void summarise_speeds(struct run *run, struct wring_codec_speed *out)
{
    *out = (struct wring_codec_speed){.turns = run->turns, .nmse = run->members[0].work.nmse};
    out->encoded_bytes = run->members[0].work.first_bytes;
    if (run->phase == 0)
        out->round_bytes =
            wring_solo_round_bytes(wring_codec_way(run->codec, 0), &run->members[0].work.context);
    for (size_t task = 0; task < run->n_tasks; task++) {
        double speed = median_speed(run, task);
        unsigned store = run->tasks[task].store;
        switch (run->tasks[task].kind) {
        case WRING_TASK_TWIN_ENCODE:
            take_limit(speed, store, &out->encode_limit, &out->encode_streams);
            break;
        case WRING_TASK_ENCODE:
            out->encode = speed;
            break;
        case WRING_TASK_COPY:
            out->copy = speed;
            break;
        case WRING_TASK_DECODE:
            out->decode = speed;
            break;
        case WRING_TASK_TWIN_DECODE_ADD:
            take_limit(speed, store, &out->decode_add_limit, &out->decode_add_streams);
            break;
        case WRING_TASK_DECODE_ADD:
            out->decode_add = speed;
            break;
        case WRING_TASK_SUM: /* of no turn here */
            break;
        }
    }
}

static struct run *create_run(const struct wring_codec_bench *bench,
                              const struct wring_codec *codec, uint32_t phase)
{
    struct run *run = calloc(1, sizeof(*run));
    double *speeds = calloc((size_t)WRING_CODEC_TASKS_MAX * TURNS_MAX, sizeof(*speeds));

    if (run == NULL || speeds == NULL) {
        free(run);
        free(speeds);
        return NULL;
    }
    run->bench = bench;
    run->codec = codec;
    run->phase = phase;
    run->n_tasks = codec_tasks(codec, phase, run->tasks);
    for (size_t task = 0; task < run->n_tasks; task++) {
        run->times[task] = 1;
        run->speeds[task] = speeds + task * TURNS_MAX;
    }
    return run;
}

static void destroy_run(struct run *run)
{
    for (uint32_t i = 0; i < run->bench->threads; i++)
        wring_codec_work_finish(&run->members[i].work);
    free(run->speeds[0]);
    free(run);
}

int wring_codec_measure(const struct wring_codec_bench *bench, const struct wring_codec *codec,
                        uint32_t phase, struct wring_codec_speed *out)
{
    const char *spec = wring_codec_info(codec)->spec;
    struct run *run = create_run(bench, codec, phase);

    if (run == NULL)
        return wring_fail(bench->name, "out of memory");
    enum wring_status status = run_threads(run);
    if (status == WRING_OK)
        summarise_speeds(run, out);
    destroy_run(run);
    if (status != WRING_OK)
        return wring_fail(bench->name, "%s: %s", spec, wring_status_text(status));
    return WRING_EXIT_OK;
}
