/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_codec_work.h"

#include <string.h>

#include "tools/bench/bench.h"
#include "tools/bench/bench_codec.h"
#include "transport/memory.h"

static bool keeps_residual(const struct wring_codec *codec)
{
    return (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) != 0;
}

uint64_t wring_codec_measure_bytes(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t runs = keeps_residual(codec) ? 3 : 2; /* source, destination, residual */
    return runs * elems * sizeof(float) + wring_codec_bound(codec, elems);
}

/** A twin in all the ways to store that differ for it. */
static size_t add_twins(struct wring_codec_task *out, enum wring_codec_task_kind kind,
                        unsigned ways)
{
    size_t n = 0;

    if (!wring_twin_widest()->streams)
        ways &= WRING_TWIN_FETCH_UPDATES;
    for (unsigned store = 0; store <= ways; store++)
        if ((store & ways) == store)
            out[n++] = (struct wring_codec_task){kind, store};
    return n;
}

size_t wring_codec_tasks(const struct wring_codec *codec, struct wring_codec_task *out)
{
    unsigned encode_ways = WRING_TWIN_STREAM_WRITES;
    size_t n = 0;

    if (keeps_residual(codec))
        encode_ways |= WRING_TWIN_STREAM_UPDATES;
    n += add_twins(out + n, WRING_TASK_TWIN_ENCODE, encode_ways);
    out[n++] = (struct wring_codec_task){WRING_TASK_ENCODE, 0};
    out[n++] = (struct wring_codec_task){WRING_TASK_COPY, 0};
    out[n++] = (struct wring_codec_task){WRING_TASK_DECODE, 0};
    n += add_twins(out + n, WRING_TASK_TWIN_DECODE_ADD,
                   WRING_TWIN_STREAM_UPDATES | WRING_TWIN_FETCH_UPDATES);
    out[n++] = (struct wring_codec_task){WRING_TASK_DECODE_ADD, 0};
    return n;
}

static enum wring_status allocate(struct wring_codec_work *work)
{
    size_t bytes = work->elems * sizeof(float);
    enum wring_status status = wring_memory_alloc(bytes, &work->src);

    if (status == WRING_OK)
        status = wring_memory_alloc(bytes, &work->dst);
    if (status == WRING_OK)
        status = wring_memory_alloc(wring_codec_bound(work->codec, work->elems), &work->code);
    if (status == WRING_OK && keeps_residual(work->codec))
        status = wring_memory_alloc(bytes, &work->residual);
    return status;
}

/** Bell-shaped numbers of 24 bits or so, other ones in each thread; zeros elsewhere. */
static void fill(struct wring_codec_work *work, uint32_t index)
{
    float *src = work->src.base;

    for (uint64_t i = 0; i < work->elems; i++)
        src[i] = wring_pattern(2 * index, i) + wring_pattern(2 * index + 1, i) * 0x1p-15f;
    memset(work->dst.base, 0, work->dst.bytes);
    memset(work->code.base, 0, work->code.bytes);
    if (work->residual.base != NULL)
        memset(work->residual.base, 0, work->residual.bytes);
}

static double measure_nmse(const struct wring_codec_work *work)
{
    const float *src = work->src.base, *dst = work->dst.base;
    double error = 0, power = 0;

    for (uint64_t i = 0; i < work->elems; i++) {
        double difference = (double)src[i] - (double)dst[i];
        error += difference * difference;
        power += (double)src[i] * (double)src[i];
    }
    return power > 0 ? error / power : error;
}

/** Lines of the decoded run in which the code says anything: what adding it has to touch. */
static uint64_t count_lines(const float *run, uint64_t elems)
{
    const uint64_t per_line = WRING_TWIN_LINE / sizeof(float);
    uint64_t lines = 0;

    for (uint64_t begin = 0; begin < elems; begin += per_line) {
        uint64_t end = begin + per_line < elems ? begin + per_line : elems, i = begin;
        while (i < end && run[i] == 0)
            i++;
        lines += i < end;
    }
    return lines;
}

static void plan_twins(struct wring_codec_work *work)
{
    uint64_t bytes = work->elems * sizeof(float);

    work->twin = wring_twin_widest();
    work->encode_twin.read = wring_twin_all(work->src.base, bytes);
    work->encode_twin.write = wring_twin_all(work->code.base, work->code_bytes);
    if (work->residual.base != NULL)
        work->encode_twin.update = wring_twin_all(work->residual.base, bytes);
    work->decode_add_twin.read = wring_twin_all(work->code.base, work->code_bytes);
    work->decode_add_twin.update = wring_twin_all(work->dst.base, bytes);
    work->decode_add_twin.update.lines = count_lines(work->dst.base, work->elems);
}

static void encode(struct wring_codec_work *work)
{
    work->code_bytes = wring_codec_encode(work->codec, &work->context, work->src.base, work->elems,
                                          work->residual.base, work->code.base);
    work->context.step++;
}

static void decode(struct wring_codec_work *work, bool add)
{
    enum wring_status status =
        wring_codec_decode(work->codec, &work->context, work->code.base, work->code_bytes,
                           work->dst.base, work->elems, add);
    if (status != WRING_OK)
        work->status = status;
}

enum wring_status wring_codec_work_init(struct wring_codec_work *work,
                                        const struct wring_codec *codec, uint64_t elems,
                                        uint32_t index)
{
    *work = (struct wring_codec_work){
        .codec = codec, .elems = elems, .context = {.seed = 1, .rank = index, .ranks = 2}};
    enum wring_status status = allocate(work);
    if (status != WRING_OK)
        return status;
    fill(work, index);
    encode(work);
    work->first_bytes = work->code_bytes;
    decode(work, false);
    work->nmse = measure_nmse(work);
    plan_twins(work);
    return work->status;
}

void wring_codec_work_finish(struct wring_codec_work *work)
{
    wring_memory_free(&work->src);
    wring_memory_free(&work->residual);
    wring_memory_free(&work->code);
    wring_memory_free(&work->dst);
}

static void run_once(struct wring_codec_work *work, const struct wring_codec_task *task)
{
    switch (task->kind) {
    case WRING_TASK_TWIN_ENCODE:
        work->seen |= wring_twin_run(work->twin, &work->encode_twin, task->store);
        return;
    case WRING_TASK_ENCODE:
        encode(work);
        return;
    case WRING_TASK_COPY:
        memcpy(work->dst.base, work->src.base, work->elems * sizeof(float));
        return;
    case WRING_TASK_DECODE:
        decode(work, false);
        return;
    case WRING_TASK_TWIN_DECODE_ADD:
        work->seen |= wring_twin_run(work->twin, &work->decode_add_twin, task->store);
        return;
    case WRING_TASK_DECODE_ADD:
        decode(work, true);
        return;
    }
}

void wring_codec_work_run(struct wring_codec_work *work, const struct wring_codec_task *task,
                          uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        run_once(work, task);
}
