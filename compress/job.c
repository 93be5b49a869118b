/* SPDX-License-Identifier: Apache-2.0 */
/** Codec jobs, run in the calling thread. */
#include "compress/job.h"

#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/compose.h"
#include "compress/loss.h"
#include "compress/reduce.h"
#include "compress/residual.h"
#include <wring/executor.h>

/** Decode an ENCODE job's code, and add. @param scratch  [job->elems] */
static enum wring_status job_loss_encode(struct wring_job *job, float *scratch)
{
    const struct wring_coded_run run = {job->src, scratch, job->residual, job->elems};
    enum wring_status status =
        wring_codec_decode(job->codec_out, &job->context, job->code, job->result.code_bytes,
                           scratch, job->elems, false);
    if (status == WRING_OK)
        wring_loss_add(job, &run);
    return status;
}

/* ---- round ---- */

/** A number of a round's type. */
union number {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
};

/** The value that a sum, a minimum or a maximum begins with. */
static union number identity_of(enum wring_dtype dtype, enum wring_op op)
{
    union number number = {.i64 = 0};

    if (op == WRING_SUM)
        return number;
    bool low = op == WRING_MAX;
    if (dtype == WRING_F32)
        number.f32 = low ? -INFINITY : INFINITY;
    else if (dtype == WRING_F64)
        number.f64 = low ? -(double)INFINITY : (double)INFINITY;
    else if (dtype == WRING_I32)
        number.i32 = low ? INT32_MIN : INT32_MAX;
    else
        number.i64 = low ? INT64_MIN : INT64_MAX;
    return number;
}

static void fill_identity(const struct wring_codec_round *round, void *statistics, uint64_t count)
{
    union number identity = identity_of(round->dtype, round->op);
    size_t bytes = wring_dtype_bytes(round->dtype);

    for (uint64_t i = 0; i < count; i++)
        memcpy((char *)statistics + i * bytes, &identity, bytes);
}

static const struct wring_codec_round *round_of(const struct wring_job *job)
{
    return &job->codec_out->ops->rounds[job->round];
}

void wring_round_fill(const struct wring_job *job)
{
    const struct wring_codec_round *round = round_of(job);
    fill_identity(round, job->dst, round->count(job->codec_out, &job->context));
}

void wring_round_fold(const struct wring_job *job, void *scratch)
{
    round_of(job)->begin(job->codec_out, &job->context, job->src, job->elems, job->residual,
                         job->dst, scratch);
}

/** Run a job that begins or ends a round. @param scratch  what a codec works in */
static enum wring_status round_run(const struct wring_job *job, void *scratch)
{
    const struct wring_codec *codec = job->codec_out;
    if (codec == NULL || job->round >= codec->ops->n_rounds)
        return WRING_ERR_INVALID;
    const struct wring_codec_round *round = round_of(job);

    if (job->kind == WRING_JOB_ROUND_BEGIN) {
        wring_round_fill(job);
        wring_round_fold(job, scratch);
    } else if (round->end != NULL) {
        round->end(codec, &job->context, job->dst, round->count(codec, &job->context));
    }
    return WRING_OK;
}

/* ---- short ---- */

#define GRAIN 32        /* elements: no smaller run is worth a call */
#define TILE_ELEMS 4096 /* 16 KiB of float32 stay in the first cache */
#define RUN_ELEMS 256   /* widened on the stack */

static const struct wring_reduce_kernels *kernels_of(const struct wring_job *job)
{
    const struct wring_reduce_tier *tier =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), wring_job_tier(job));
    return tier->kernels;
}

/** The codec of a run's phase, if it takes the job's elements of 16 bits as they are; else NULL.
 *  @param codec  NULL: raw */
static const struct wring_codec *taker_of_16(const struct wring_job *job,
                                             const struct wring_codec *codec, uint32_t phase)
{
    if (codec == NULL || !wring_reduce_is_short(job))
        return NULL;
    const struct wring_codec *way = wring_codec_way(codec, phase);
    return way->ops->encode16 != NULL ? way : NULL;
}

/** That of a job that encodes or decodes one run. */
static const struct wring_codec *taker_of_job(const struct wring_job *job)
{
    if (job->kind == WRING_JOB_ENCODE)
        return taker_of_16(job, job->codec_out, job->context.phase);
    if (job->kind == WRING_JOB_DECODE && job->n_sources == 1 && !job->sum_codes)
        return taker_of_16(job, job->sources[0].codec, job->context.phase);
    return NULL;
}

/** Is this a job that has to be cut into ones of float32? */
static bool must_cut_to_f32(const struct wring_job *job)
{
    if (!wring_reduce_is_short(job) || taker_of_job(job) != NULL)
        return false;
    return job->kind == WRING_JOB_ENCODE || job->kind == WRING_JOB_DECODE ||
           job->kind == WRING_JOB_ROUND_BEGIN || (job->kind == WRING_JOB_REDUCE && job->sum_codes);
}

/** The unit, doubled until it has so many. @return not more than the job has */
static uint64_t tile_of_units(const struct wring_job *job, uint64_t least)
{
    uint64_t tile = job->codec_out != NULL ? wring_codec_info(job->codec_out)->unit : 0;

    if (tile == 0)
        return job->elems;
    while (tile < least)
        tile *= 2;
    return tile < job->elems ? tile : job->elems;
}

/** Elements that are widened at a time: whole units. */
static uint64_t short_tile(const struct wring_job *job)
{
    return tile_of_units(job, GRAIN); /* as small as a piece can be, for which there is scratch */
}

static const void *src_at(const struct wring_job *job, uint64_t element)
{
    return (const char *)(const void *)job->src + element * sizeof(uint16_t);
}

/** From an element of the job on. */
static float *residual_from(const struct wring_job *job, uint64_t element)
{
    return job->residual != NULL ? wring_residual_run(job->codec_out, job->residual, element)
                                 : NULL;
}

/** Is the residual, if there is one, what the code lacks? */
static bool leaves_loss(const struct wring_job *job)
{
    return job->residual == NULL || wring_compose_leaves_loss(job->codec_out, job->context.phase);
}

/** The float32 job of a run of elements, which lie in `wide` then. */
static struct wring_job widen_part(const struct wring_job *job, uint64_t begin, uint64_t n,
                                   float *wide)
{
    struct wring_job part = *job;

    kernels_of(job)->widen[job->dtype](wide, src_at(job, begin), n);
    part.dtype = WRING_F32;
    part.elems = n;
    part.context.element += begin;
    part.src = wide;
    part.residual = residual_from(job, begin);
    return part;
}

static enum wring_status encode_short(struct wring_job *job, float *scratch,
                                      enum wring_status (*run)(struct wring_job *, void *))
{
    uint64_t tile = tile_of_units(job, TILE_ELEMS);
    enum wring_status status = WRING_OK;

    for (uint64_t begin = 0; status == WRING_OK && begin < job->elems; begin += tile) {
        uint64_t left = job->elems - begin, n = left < tile ? left : tile;
        struct wring_job part = widen_part(job, begin, n, scratch);
        part.code = (char *)job->code + job->result.code_bytes;
        part.result.lost = part.result.whole = 0;
        status = run(&part, scratch + (tile + 15) / 16 * 16);
        job->result.code_bytes += part.result.code_bytes;
        job->result.lost += part.result.lost;
        job->result.whole += part.result.whole;
    }
    return status;
}

/** Decode as float32, then divide and round at once. */
static enum wring_status decode_short(struct wring_job *job, float *scratch,
                                      enum wring_status (*run)(struct wring_job *, void *))
{
    float divisor = job->sum_codes ? job->divisor : 1;
    struct wring_job part = *job;

    part.dtype = WRING_F32;
    part.dst = scratch;
    part.divisor = 1;
    enum wring_status status = run(&part, NULL);
    job->result = part.result;
    if (status == WRING_OK)
        kernels_of(job)->narrow[job->dtype](job->dst, scratch, job->elems, divisor);
    return status;
}

static enum wring_status begin_short_round(struct wring_job *job, float *scratch)
{
    uint64_t tile = short_tile(job);
    void *behind = (char *)scratch + wring_job_scratch_bytes(tile) - WRING_CODEC_ROOM_MAX;

    wring_round_fill(job);
    for (uint64_t begin = 0; begin < job->elems; begin += tile) {
        uint64_t left = job->elems - begin, n = left < tile ? left : tile;
        struct wring_job part = widen_part(job, begin, n, scratch);
        wring_round_fold(&part, behind);
    }
    return WRING_OK;
}

/** Nothing is lost. @param src  of 16 bits */
static void add_whole_16(struct wring_job *job, const void *src)
{
    float wide[RUN_ELEMS];
    const uint64_t length = RUN_ELEMS;

    for (uint64_t begin = 0; begin < job->elems; begin += length) {
        uint64_t left = job->elems - begin, n = left < length ? left : length;
        const struct wring_coded_run run = {wide, wide, NULL, n};
        kernels_of(job)->widen[job->dtype](wide, (const uint16_t *)src + begin, n);
        wring_loss_add(job, &run);
    }
}

/** Encode or decode as they are. @param scratch  for an encoder */
static enum wring_status run_16(struct wring_job *job, const struct wring_codec *codec,
                                void *scratch)
{
    if (job->kind == WRING_JOB_DECODE) {
        const struct wring_source *source = &job->sources[0];
        enum wring_status status = codec->ops->decode16(
            codec, &job->context, job->dtype, source->data, source->bytes, job->dst, job->elems);
        if (status == WRING_ERR_FRAME)
            job->result.bad_source = 0;
        return status;
    }
    job->result.code_bytes = codec->ops->encode16(codec, &job->context, job->dtype, job->src,
                                                  job->elems, job->code, scratch);
    if (job->measure)
        add_whole_16(job, job->src);
    return WRING_OK;
}

/** Run one. @param scratch  as for wring_job_run() @param run  what runs the float32 jobs */
static enum wring_status short_run(struct wring_job *job, void *scratch,
                                   enum wring_status (*run)(struct wring_job *job, void *scratch))
{
    if (job->kind == WRING_JOB_ENCODE)
        return encode_short(job, scratch, run);
    if (job->kind == WRING_JOB_ROUND_BEGIN)
        return begin_short_round(job, scratch);
    return decode_short(job, scratch, run);
}

/* ---- job ---- */

#define SCRATCH_ALIGN 64
#define SHORT_MORE 32   /* elements, where two runs of them are aligned */
#define TREE_ELEMS 1024 /* where there are sums of several levels */

/** Of the scratch, before the codec's part: as many elements as the job has. */
static size_t element_bytes(uint64_t elems)
{
    return (elems * sizeof(float) + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

size_t wring_job_scratch_bytes(uint64_t max_elems)
{
    return element_bytes(max_elems) + WRING_CODEC_ROOM_MAX;
}

/** Scratch memory for an encode of the job, behind its elements. NULL: it was given none */
static void *codec_scratch(const struct wring_job *job, void *scratch)
{
    return scratch != NULL ? (char *)scratch + element_bytes(wring_job_scratch_elems(job)) : NULL;
}

static bool is_raw(const struct wring_source *source)
{
    return source->codec == NULL;
}

static wring_sum_fn find_sum(const struct wring_job *job)
{
    return wring_sum_find(wring_job_tier(job));
}

static enum wring_status run_encode(struct wring_job *job, void *scratch)
{
    if (job->codec_out == NULL)
        return WRING_ERR_INVALID;
    job->result.code_bytes =
        wring_codec_encode_in(job->codec_out, &job->context, job->src, job->elems, job->residual,
                              job->code, codec_scratch(job, scratch));
    return job->measure && leaves_loss(job) ? job_loss_encode(job, scratch) : WRING_OK;
}

/** Elements [begin, begin + n) of a job: what is worked on while it stays in the nearest cache. */
struct tile {
    uint64_t begin, n;
};

/** Of a source of the job. @param codec  NULL: raw */
static size_t code_bytes(const struct wring_job *job, const struct wring_codec *codec,
                         uint64_t elems)
{
    return codec == NULL ? elems * wring_dtype_bytes(job->dtype) : wring_codec_bound(codec, elems);
}

/** Where an element of dst is. */
static void *dst_at(const struct wring_job *job, uint64_t element)
{
    return (char *)job->dst + element * wring_dtype_bytes(job->dtype);
}

/** For elements of 16 bits. */
/** A source's part of a tile; less than all of it is only asked for where codes have fixed sizes.
 */
static struct wring_source part_of_source(const struct wring_job *job, uint32_t index,
                                          struct tile tile)
{
    struct wring_source part = job->sources[index];
    if (tile.n < job->elems) {
        part.data = (const char *)part.data + code_bytes(job, part.codec, tile.begin);
        part.bytes = code_bytes(job, part.codec, tile.n);
    }
    return part;
}

static struct wring_codec_context context_of_tile(const struct wring_job *job, struct tile tile)
{
    struct wring_codec_context context = job->context;
    context.element += tile.begin;
    return context;
}

/** The context in which a source was encoded. A reduce job's own context is that of the sum; its
 *  sources were encoded on the way in. */
static struct wring_codec_context source_context(const struct wring_job *job, uint32_t index,
                                                 struct tile tile)
{
    struct wring_codec_context context = context_of_tile(job, tile);
    if (job->kind == WRING_JOB_REDUCE) {
        context.phase = 0;
        context.rank = index;
    }
    return context;
}

/** The same of 16 bits each. @param wide  [n], what is added; NULL: acc = source */
static void take_short_source(const struct wring_job *job, wring_sum_fn sum, const void *data,
                              uint64_t n, float *acc, float *wide)
{
    const void *runs[] = {acc, wide};

    kernels_of(job)->widen[job->dtype](wide != NULL ? wide : acc, data, n);
    if (wide != NULL)
        sum(acc, runs, 2, n, 1);
}

/** acc = the 16 bits each that a code holds, or acc += those. @param narrow  [n], where they go */
static enum wring_status take_code_of_16(const struct wring_job *job, wring_sum_fn sum,
                                         const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const struct wring_source *part, uint64_t n, float *acc,
                                         bool add, uint16_t *narrow)
{
    float wide[RUN_ELEMS];
    const uint64_t length = RUN_ELEMS;
    enum wring_status status =
        codec->ops->decode16(codec, context, job->dtype, part->data, part->bytes, narrow, n);

    for (uint64_t begin = 0; status == WRING_OK && begin < n; begin += length) {
        uint64_t left = n - begin;
        take_short_source(job, sum, narrow + begin, left < length ? left : length, acc + begin,
                          add ? wide : NULL);
    }
    return status;
}

/** acc = source, or acc += source with `add`: a code is decoded and added.
 *  @param wide  [tile.n], for one of 16 bits each that is added or coded; else unused */
static enum wring_status take_source(struct wring_job *job, wring_sum_fn sum, uint32_t index,
                                     struct tile tile, float *acc, bool add, float *wide)
{
    struct wring_source part = part_of_source(job, index, tile);
    struct wring_codec_context context = source_context(job, index, tile);
    const void *runs[] = {add ? acc : part.data, part.data};
    const struct wring_codec *taker = taker_of_16(job, part.codec, context.phase);
    enum wring_status status = WRING_OK;

    if (taker != NULL)
        status = take_code_of_16(job, sum, taker, &context, &part, tile.n, acc, add,
                                 (uint16_t *)(void *)wide);
    else if (!is_raw(&part))
        status = wring_codec_decode(part.codec, &context, part.data, part.bytes, acc, tile.n, add);
    else if (part.bytes != code_bytes(job, NULL, tile.n))
        status = WRING_ERR_FRAME;
    else if (wring_reduce_is_short(job))
        take_short_source(job, sum, part.data, tile.n, acc, add ? wide : NULL);
    else
        sum(acc, runs, add ? 2 : 1, tile.n, 1);
    if (status == WRING_ERR_FRAME)
        job->result.bad_source = index;
    return status;
}

static enum wring_status run_copy(struct wring_job *job)
{
    if (job->n_sources != 1 || !is_raw(&job->sources[0]))
        return WRING_ERR_INVALID;
    if (job->sources[0].bytes != job->elems) {
        job->result.bad_source = 0;
        return WRING_ERR_FRAME;
    }
    if (job->elems > 0)
        memcpy(job->dst, job->sources[0].data, job->elems);
    return WRING_OK;
}

/** Also makes every NaN the one NaN. */
static void divide_sum(const struct wring_job *job, wring_sum_fn sum)
{
    const void *runs[] = {job->dst};
    sum(job->dst, runs, 1, job->elems, job->divisor);
}

static enum wring_status run_decode(struct wring_job *job)
{
    if (job->n_sources != 1)
        return WRING_ERR_INVALID;
    enum wring_status status =
        take_source(job, find_sum(job), 0, (struct tile){0, job->elems}, job->dst, false, NULL);
    if (status == WRING_OK && job->sum_codes)
        divide_sum(job, find_sum(job));
    if (status == WRING_OK && !is_raw(&job->sources[0]))
        wring_compose_hold(job->sources[0].codec, &job->context, job->dst, job->elems);
    return status;
}

/** code = the sum of all codes. */
static enum wring_status add_codes(struct wring_job *job)
{
    const struct wring_codec *codec = job->codec_out;
    size_t bytes = wring_codec_bound(codec, job->elems);
    bool apart = codec->ops->sum_bound != NULL; /* sums are laid out otherwise than codes */
    size_t sum_bytes = apart ? codec->ops->sum_bound(codec, job->elems) : bytes;
    enum wring_status status = WRING_OK;

    if (apart && sum_bytes > 0)
        memset(job->code, 0, sum_bytes);
    for (uint32_t i = 0; i < job->n_sources && status == WRING_OK; i++) {
        const struct wring_source *source = &job->sources[i];
        if (source->bytes != bytes)
            status = WRING_ERR_FRAME;
        else if (i > 0 || apart)
            status = codec->ops->code_sum(codec, &job->context, job->code, source->data, bytes,
                                          job->elems);
        else if (bytes > 0)
            memcpy(job->code, source->data, bytes);
        if (status == WRING_ERR_FRAME)
            job->result.bad_source = i;
    }
    if (status == WRING_OK && codec->ops->sum_end != NULL)
        sum_bytes =
            codec->ops->sum_end(codec, &job->context, job->code, job->elems, &job->result.cut);
    job->result.code_bytes = sum_bytes;
    return status;
}

static enum wring_status run_sum_codes(struct wring_job *job)
{
    if (!wring_codec_adds_codes(job->codec_out) || job->n_sources == 0)
        return WRING_ERR_INVALID;
    enum wring_status status = add_codes(job);
    if (status == WRING_OK)
        status = wring_codec_decode(job->codec_out, &job->context, job->code,
                                    job->result.code_bytes, job->dst, job->elems, false);
    if (status == WRING_OK)
        divide_sum(job, find_sum(job));
    return status;
}

/** dst of the raw sources' part of a tile, and the copies of that while it is near. */
static void sum_raw_tile(const struct wring_job *job, wring_sum_fn sum, struct tile tile)
{
    const void *runs[WRING_ORDER_FOLDED];
    for (uint32_t i = 0; i < job->n_sources; i++)
        runs[i] = (const float *)job->sources[i].data + tile.begin;
    sum((float *)job->dst + tile.begin, runs, job->n_sources, tile.n, job->divisor);
    wring_reduce_copy(job, tile.begin * sizeof(float), tile.n * sizeof(float));
}

/** The usual case without codecs: every source is read once and the sum written once. */
static bool sum_raw(const struct wring_job *job, wring_sum_fn sum)
{
    uint64_t length = wring_reduce_tile(job);

    for (uint32_t i = 0; i < job->n_sources; i++)
        if (!is_raw(&job->sources[i]) || job->sources[i].bytes != job->elems * sizeof(float))
            return false;
    if (job->n_sources > WRING_ORDER_FOLDED) {
        wring_reduce_by_tree(job);
        return true;
    }
    for (uint64_t begin = 0; begin < job->elems; begin += length) {
        uint64_t left = job->elems - begin;
        sum_raw_tile(job, sum, (struct tile){begin, left < length ? left : length});
    }
    return true;
}

/** Where a slot of the order is, as long as a tile. The first is dst itself, unless that is a
 *  source that is still to be read after the sum has begun. */
static float *slot_of(const struct wring_job *job, struct tile tile, uint32_t slot, void *scratch)
{
    bool own = slot > 0 || wring_reduce_is_short(job);
    for (uint32_t i = 1; i < job->n_sources && !own; i++)
        own = job->sources[i].data == job->dst;
    if (!own)
        return (float *)job->dst + tile.begin;
    return (float *)scratch + slot * tile.n;
}

/** Behind the slots: where what is to be added is widened, or a sum remembered. */
static float *spare_of(const struct wring_job *job, struct tile tile, void *scratch)
{
    return (float *)scratch + wring_order_slots(job->n_sources) * tile.n;
}

/** Do a step: its second operand is a source, or the next slot. */
static enum wring_status sum_step(struct wring_job *job, wring_sum_fn sum, struct tile tile,
                                  struct wring_order_step step, void *scratch)
{
    float *acc = slot_of(job, tile, step.slot, scratch), *spare = spare_of(job, tile, scratch);
    enum wring_status status = WRING_OK;

    if (step.first != WRING_ORDER_SLOT)
        status = take_source(job, sum, step.first, tile, acc, false, spare);
    if (status == WRING_OK && step.second != WRING_ORDER_SLOT)
        return take_source(job, sum, step.second, tile, acc, true, spare);
    if (status == WRING_OK) {
        const void *runs[] = {acc, slot_of(job, tile, step.slot + 1, scratch)};
        sum(acc, runs, 2, tile.n, 1);
    }
    return status;
}

/** dst = the sum in the order of FORMAT.md, divided. */
static enum wring_status sum_tile(struct wring_job *job, wring_sum_fn sum, struct tile tile,
                                  void *scratch)
{
    const void *runs[] = {slot_of(job, tile, 0, scratch)};
    struct wring_order order = wring_order_begin(job->n_sources);
    struct wring_order_step step;
    enum wring_status status = WRING_OK;

    if (job->n_sources == 1)
        status =
            take_source(job, sum, 0, tile, (float *)runs[0], false, spare_of(job, tile, scratch));
    while (status == WRING_OK && wring_order_next(&order, &step))
        status = sum_step(job, sum, tile, step, scratch);
    if (status != WRING_OK)
        return status;
    if (!wring_reduce_is_short(job)) /* also makes every NaN the one NaN */
        sum((float *)job->dst + tile.begin, runs, 1, tile.n, job->divisor);
    else if (job->codec_out != NULL)
        sum((float *)runs[0], runs, 1, tile.n, job->divisor);
    else
        kernels_of(job)->narrow[job->dtype](dst_at(job, tile.begin), runs[0], tile.n, job->divisor);
    return WRING_OK;
}

/** Round the sum, and encode it as it is then. @param sum  [tile.n] */
static enum wring_status encode_sum_16(struct wring_job *job, const struct wring_codec *codec,
                                       struct tile tile, const float *sum, void *scratch)
{
    struct wring_codec_context context = context_of_tile(job, tile);
    void *dst = dst_at(job, tile.begin);
    const struct wring_coded_run run = {sum, sum, NULL, tile.n};

    kernels_of(job)->narrow[job->dtype](dst, sum, tile.n, 1);
    job->result.code_bytes += codec->ops->encode16(
        codec, &context, job->dtype, dst, tile.n,
        (unsigned char *)job->code + job->result.code_bytes, codec_scratch(job, scratch));
    if (job->measure)
        wring_loss_add(job, &run);
    return WRING_OK;
}

/** Keep what sources of a sum of differences brought in vain. @param wide  [tile.n] */
static enum wring_status keep_differences(struct wring_job *job, struct tile tile, const float *sum,
                                          float *residual, float *wide)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < job->n_sources && status == WRING_OK; i++) {
        status = take_source(job, find_sum(job), i, tile, wide, false, NULL);
        if (status == WRING_OK)
            wring_compose_keep(job->codec_out, residual, sum, wide, tile.n, job->divisor);
    }
    return status;
}

/** Encode the sum for its way back. The owner decodes it too, so that it goes on with the same
 *  values as its peers. */
static enum wring_status encode_sum(struct wring_job *job, struct tile tile, void *scratch)
{
    struct wring_codec_context context = context_of_tile(job, tile);
    bool is_short = wring_reduce_is_short(job);
    float *dst = is_short ? slot_of(job, tile, 0, scratch) : dst_at(job, tile.begin);
    float *before = is_short ? spare_of(job, tile, scratch) : scratch;
    float *residual = residual_from(job, tile.begin);
    unsigned char *code = (unsigned char *)job->code + job->result.code_bytes;

    const struct wring_coded_run run = {before, dst, residual, tile.n};
    if (job->measure && residual == NULL)
        memcpy(before, dst, tile.n * sizeof(*dst));
    size_t bytes = wring_codec_encode_in(job->codec_out, &context, dst, tile.n, residual, code,
                                         codec_scratch(job, scratch));
    job->result.code_bytes += bytes;
    enum wring_status status =
        wring_codec_decode(job->codec_out, &context, code, bytes, dst, tile.n, false);
    if (job->measure && status == WRING_OK && leaves_loss(job))
        wring_loss_add(job, &run);
    if (status == WRING_OK && !wring_compose_hold(job->codec_out, &context, dst, tile.n) &&
        residual != NULL)
        status = keep_differences(job, tile, dst, residual, before);
    if (is_short && status == WRING_OK)
        kernels_of(job)->narrow[job->dtype](dst_at(job, tile.begin), dst, tile.n, 1);
    return status;
}

/** May this codec's part of the job be cut into tiles? */
static bool may_cut_codec(const struct wring_codec *codec, uint64_t tile)
{
    if (codec == NULL)
        return true;
    const struct wring_codec_info *info = wring_codec_info(codec);
    return info->flags & WRING_CODEC_FIXED && info->unit != 0 && tile % info->unit == 0;
}

static bool may_cut_job(const struct wring_job *job, uint64_t tile)
{
    bool cut = may_cut_codec(job->codec_out, tile);
    for (uint32_t i = 0; cut && i < job->n_sources; i++)
        cut = may_cut_codec(job->sources[i].codec, tile) &&
              job->sources[i].bytes == code_bytes(job, job->sources[i].codec, job->elems);
    return cut;
}

static uint64_t tile_elems(const struct wring_job *job)
{
    bool tree = job->n_sources > WRING_ORDER_FOLDED;

    if (tree && job->elems > TREE_ELEMS && may_cut_job(job, TREE_ELEMS))
        return TREE_ELEMS;
    return job->elems > TILE_ELEMS && may_cut_job(job, TILE_ELEMS) ? TILE_ELEMS : job->elems;
}

uint64_t wring_job_scratch_elems(const struct wring_job *job)
{
    bool is_short = wring_reduce_is_short(job);
    uint32_t coded = 1;

    switch (job->kind) {
    case WRING_JOB_COPY:
    case WRING_JOB_ROUND_END:
        return 0;
    case WRING_JOB_ROUND_BEGIN:
        return is_short ? short_tile(job) : 0;
    case WRING_JOB_ENCODE:
    case WRING_JOB_DECODE:
        return is_short ? 2 * job->elems + SHORT_MORE : job->elems;
    case WRING_JOB_REDUCE:
        break;
    }
    if (job->sum_codes)
        return is_short ? job->elems : 0;
    for (uint32_t i = 0; i < job->n_sources; i++)
        if (!is_raw(&job->sources[i]))
            coded = job->n_sources;
    uint32_t slots = wring_order_slots(is_short ? job->n_sources : coded);
    return job->elems * (is_short ? slots + 1 : slots);
}

uint64_t wring_job_reserve_elems(uint64_t elems, uint32_t coded)
{
    return elems * (wring_order_slots(coded) + 1) + SHORT_MORE;
}

static enum wring_status run_reduce(struct wring_job *job, void *scratch)
{
    wring_sum_fn sum = find_sum(job);
    uint64_t length = tile_elems(job);
    const struct wring_codec *taker = taker_of_16(job, job->codec_out, job->context.phase);
    enum wring_status status = WRING_OK;

    if (job->n_sources == 0)
        return WRING_ERR_INVALID;
    if (job->codec_out == NULL && !wring_reduce_is_short(job) && sum_raw(job, sum))
        return WRING_OK;
    for (uint64_t begin = 0; begin < job->elems && status == WRING_OK; begin += length) {
        uint64_t left = job->elems - begin;
        struct tile tile = {begin, left < length ? left : length};
        status = sum_tile(job, sum, tile, scratch);
        if (status == WRING_OK && taker != NULL)
            status = encode_sum_16(job, taker, tile, slot_of(job, tile, 0, scratch), scratch);
        else if (status == WRING_OK && job->codec_out != NULL)
            status = encode_sum(job, tile, scratch);
        if (status == WRING_OK)
            wring_reduce_copy(job, code_bytes(job, NULL, tile.begin),
                              code_bytes(job, NULL, tile.n));
    }
    return status;
}

static enum wring_status run(struct wring_job *job, void *scratch)
{
    const struct wring_codec *taker = taker_of_job(job);

    if (taker != NULL)
        return run_16(job, taker, codec_scratch(job, scratch));
    if (must_cut_to_f32(job))
        return short_run(job, scratch, run);
    if (job->kind == WRING_JOB_REDUCE && job->sum_codes)
        return run_sum_codes(job);
    if (wring_reduce_takes(job))
        return wring_reduce_run(job);
    switch (job->kind) {
    case WRING_JOB_ENCODE:
        return run_encode(job, scratch);
    case WRING_JOB_DECODE:
        return run_decode(job);
    case WRING_JOB_REDUCE:
        return run_reduce(job, scratch);
    case WRING_JOB_COPY:
        return run_copy(job);
    case WRING_JOB_ROUND_BEGIN:
    case WRING_JOB_ROUND_END:
        return round_run(job, scratch);
    }
    return WRING_ERR_INVALID;
}

void wring_job_run(struct wring_job *job, void *scratch)
{
    uint64_t mode = wring_fp_enter();
    job->result.began_ns = job->untimed ? 0 : wring_now_ns();
    job->result.code_bytes = 0;
    job->result.bad_source = WRING_NO_SOURCE;
    job->result.lost = job->result.whole = 0;
    job->result.cut = 0;
    job->result.status = run(job, scratch);
    job->result.core = job->untimed ? -1 : sched_getcpu();
    wring_fp_leave(mode);
    job->result.took_ns = job->untimed ? 0 : wring_now_ns() - job->result.began_ns;
}
