/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/reduce.h"

#include <stdalign.h>
#include <string.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "compress/kernels/bits.h"

/** The largest power of two that is not more than n. */
static uint32_t leaves_of(uint32_t n)
{
    uint32_t p = 1;
    while (p <= n / 2)
        p *= 2;
    return p;
}

static uint32_t trailing_ones(uint32_t i)
{
    uint32_t ones = 0;
    for (; i & 1; i >>= 1)
        ones++;
    return ones;
}

struct wring_order wring_order_begin(uint32_t n)
{
    bool folded = n <= WRING_ORDER_FOLDED;
    return (struct wring_order){.n = n, .p = folded ? n : leaves_of(n)};
}

static bool next_folded(struct wring_order *order, struct wring_order_step *step)
{
    if (order->leaf + 1 >= order->n)
        return false;
    *step = (struct wring_order_step){0, order->leaf == 0 ? 0 : WRING_ORDER_SLOT, order->leaf + 1};
    order->leaf++;
    return true;
}

/** Leaves 0 to `leaf` - 1 have been begun: those blocks that are complete now are to be joined.
 *  @param joined  of level 0, in the step itself */
static void note_leaf(struct wring_order *order, uint32_t leaf, bool joined)
{
    order->joins = trailing_ones(leaf) - joined;
    order->leaf = leaf + 1;
}

static void next_leaf(struct wring_order *order, struct wring_order_step *step)
{
    uint32_t i = order->leaf;

    if (i < order->n - order->p) { /* it has a second source */
        *step = (struct wring_order_step){order->slots++, i, order->p + i};
        note_leaf(order, i, false);
    } else if (i % 2 == 0) { /* neither has it, nor the next one */
        *step = (struct wring_order_step){order->slots++, i, i + 1};
        note_leaf(order, i + 1, true);
    } else {
        *step = (struct wring_order_step){order->slots - 1, WRING_ORDER_SLOT, i};
        note_leaf(order, i, true);
    }
}

bool wring_order_next(struct wring_order *order, struct wring_order_step *step)
{
    if (order->n <= WRING_ORDER_FOLDED)
        return next_folded(order, step);
    if (order->joins > 0) {
        order->joins--;
        order->slots--;
        *step = (struct wring_order_step){order->slots - 1, WRING_ORDER_SLOT, WRING_ORDER_SLOT};
        return true;
    }
    if (order->leaf == order->p)
        return false;
    next_leaf(order, step);
    return true;
}

uint32_t wring_order_slots(uint32_t n)
{
    return n <= WRING_ORDER_FOLDED ? 1 : trailing_ones(leaves_of(n) - 1) + 1;
}

/* ---- tree ---- */

#define ROOM 12288     /* bytes of all blocks: the nearest cache holds them, and a small stack */
#define BLOCK_MAX 2048 /* bytes of one: sources' blocks are to stay there, too */

struct wring_tree wring_tree_find(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed)
{
    const struct wring_reduce_tier *tier =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), allowed);
    bool sums = op <= WRING_AVG || op == WRING_PROD;
    bool wide = sums && tier->kernels->widen[dtype] != NULL;
    enum wring_dtype carried = wide ? WRING_F32 : dtype;
    struct wring_tree tree = {
        .fold = wring_reduce_fold(carried, op, allowed),
        .widen = wide ? tier->kernels->widen[dtype] : NULL,
        .narrow = wide ? tier->kernels->narrow[dtype] : NULL,
        .elem_bytes = wring_dtype_bytes(dtype),
        .block_bytes = wring_dtype_bytes(carried),
    };
    if (tree.fold == NULL)
        tree.sum = wring_sum_find(allowed);
    return tree;
}

/** to = a op b; all travel in one type */
static void combine(const struct wring_tree *tree, void *to, const void *a, const void *b,
                    uint64_t n, float divisor)
{
    if (tree->sum != NULL)
        tree->sum(to, (const void *const[]){a, b}, 2, n, divisor);
    else
        tree->fold(to, (const struct wring_source[]){{.data = a}, {.data = b}}, 2, n, divisor);
}

/** A part of an operand as it travels. @param spare  [n], to widen it into */
static const void *travelling(const struct wring_tree *tree, struct wring_tree_run run,
                              uint64_t begin, uint64_t n, float *spare)
{
    bool wide = run.partial || tree->widen == NULL;
    const unsigned char *at =
        (const unsigned char *)run.data + begin * (wide ? tree->block_bytes : tree->elem_bytes);

    if (wide)
        return at;
    tree->widen(spare, at, n);
    return spare;
}

void wring_tree_step(const struct wring_tree *tree, void *to, struct wring_tree_run first,
                     struct wring_tree_run second, uint64_t elems, float divisor)
{
    alignas(64) float a[BLOCK_MAX / sizeof(float)], b[BLOCK_MAX / sizeof(float)];
    uint64_t length = tree->widen != NULL ? BLOCK_MAX / sizeof(float) : elems;

    for (uint64_t done = 0; done < elems; done += length) {
        uint64_t n = elems - done < length ? elems - done : length;
        combine(tree, (unsigned char *)to + done * tree->block_bytes,
                travelling(tree, first, done, n, a), travelling(tree, second, done, n, b), n,
                divisor);
    }
}

/** One block of the reduction: its elements [begin, begin + n). */
struct block {
    const struct wring_tree *tree;
    const struct wring_source *src;
    uint64_t begin, n;
    size_t stride;        /* bytes from slot to slot */
    unsigned char *slots; /* and behind the last one a place for a widened run */
    unsigned char *spare;
};

/** An operand of combine(). @param in  where it lies, or is to be widened to */
static const void *load_operand(const struct block *block, uint32_t source, unsigned char *in)
{
    const struct wring_tree *tree = block->tree;
    if (source == WRING_ORDER_SLOT)
        return in;
    const unsigned char *run =
        (const unsigned char *)block->src[source].data + block->begin * tree->elem_bytes;
    if (tree->widen == NULL)
        return run;
    tree->widen((float *)(void *)in, run, block->n);
    return in;
}

/** dst = the reduction of one block. The last step has both its operands in slots: dst, which may
 *  be a source, is not written before all sources have been read. */
static void reduce_block(const struct block *block, void *dst, uint32_t n_src, float divisor)
{
    const struct wring_tree *tree = block->tree;
    struct wring_order order = wring_order_begin(n_src);
    struct wring_order_step step;

    for (uint32_t left = n_src - 1; wring_order_next(&order, &step); left--) {
        unsigned char *slot = block->slots + step.slot * block->stride;
        bool next = step.second == WRING_ORDER_SLOT, last = left == 1 && tree->narrow == NULL;
        const void *a = load_operand(block, step.first, slot);
        const void *b =
            load_operand(block, step.second, next ? slot + block->stride : block->spare);
        combine(tree, last ? dst : slot, a, b, block->n, last ? divisor : 1);
    }
    if (tree->narrow != NULL)
        tree->narrow(dst, (const float *)(const void *)block->slots, block->n, divisor);
}

/**
 * Reduce, in the library's floating-point mode.
 * @param dst      out, [n] elements; may be exactly that part of one of the sources
 * @param src      in, [n_src], more than WRING_ORDER_FOLDED; only `data` is looked at, at any
 *                 address
 * @param begin    the first element that is looked at there
 * @param divisor  as for wring_reduce_fn, once at the end
 */
static void tree_run(const struct wring_tree *tree, void *dst, const struct wring_source *src,
                     size_t n_src, uint64_t begin, uint64_t n, float divisor)
{
    alignas(64) unsigned char room[ROOM];
    uint32_t slots = wring_order_slots((uint32_t)n_src);
    size_t stride = BLOCK_MAX;
    while ((slots + 1) * stride > ROOM)
        stride /= 2;
    struct block block = {
        .tree = tree, .src = src, .stride = stride, .slots = room, .spare = room + slots * stride};
    uint64_t length = stride / tree->block_bytes;

    for (uint64_t done = 0; done < n; done += length) {
        block.begin = begin + done;
        block.n = n - done < length ? n - done : length;
        reduce_block(&block, (unsigned char *)dst + done * tree->elem_bytes, (uint32_t)n_src,
                     divisor);
    }
}

/* ---- reduce ---- */

#define COPY_TILE_BYTES 4096 /* of each source: four fill half of the first cache */

enum wring_cpu_tier wring_job_tier(const struct wring_job *job)
{
    enum wring_cpu_tier tier;
    return job->tier != NULL && wring_cpu_tier_parse(job->tier, &tier) ? tier : wring_cpu_best();
}

wring_reduce_fn wring_reduce_fold(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed)
{
    static const enum wring_reduce_kind kinds[WRING_OPS] = {
        [WRING_SUM] = WRING_REDUCE_SUM,   [WRING_AVG] = WRING_REDUCE_SUM, /* which divides */
        [WRING_MIN] = WRING_REDUCE_MIN,   [WRING_MAX] = WRING_REDUCE_MAX,
        [WRING_PROD] = WRING_REDUCE_PROD, [WRING_BAND] = WRING_REDUCE_AND,
        [WRING_BOR] = WRING_REDUCE_OR,    [WRING_BXOR] = WRING_REDUCE_XOR,
        [WRING_LAND] = WRING_REDUCE_LAND, [WRING_LOR] = WRING_REDUCE_LOR,

    };
    return wring_reduce_find(dtype, kinds[op], allowed);
}

static enum wring_status check_source(const struct wring_job *job, uint32_t i)
{
    if (job->sources[i].codec != NULL)
        return WRING_ERR_UNSUPPORTED;
    return job->sources[i].bytes == job->elems * wring_dtype_bytes(job->dtype) ? WRING_OK
                                                                               : WRING_ERR_FRAME;
}

/** dst, and its copies while what was read for it is in the nearest cache: they lie there. */
static void fold_all(const struct wring_job *job, wring_reduce_fn fold)
{
    uint64_t length = wring_reduce_tile(job), elem_bytes = wring_dtype_bytes(job->dtype);
    struct wring_source part[WRING_ORDER_FOLDED];

    for (uint64_t begin = 0; begin < job->elems; begin += length) {
        uint64_t left = job->elems - begin, n = left < length ? left : length;
        for (uint32_t i = 0; n < job->elems && i < job->n_sources; i++)
            part[i].data = (const uint8_t *)job->sources[i].data + begin * elem_bytes;
        fold((uint8_t *)job->dst + begin * elem_bytes, n < job->elems ? part : job->sources,
             job->n_sources, n, job->divisor);
        wring_reduce_copy(job, begin * elem_bytes, n * elem_bytes);
    }
}

void wring_reduce_by_tree(const struct wring_job *job)
{
    struct wring_tree tree = wring_tree_find(job->dtype, job->op, wring_job_tier(job));
    uint64_t length = wring_reduce_tile(job), elem_bytes = wring_dtype_bytes(job->dtype);

    for (uint64_t begin = 0; begin < job->elems; begin += length) {
        uint64_t left = job->elems - begin, n = left < length ? left : length;
        tree_run(&tree, (uint8_t *)job->dst + begin * elem_bytes, job->sources, job->n_sources,
                 begin, n, job->divisor);
        wring_reduce_copy(job, begin * elem_bytes, n * elem_bytes);
    }
}

enum wring_status wring_reduce_run(struct wring_job *job)
{
    if (!wring_op_takes(job->op, job->dtype) || job->op == WRING_PREMUL_SUM ||
        job->kind != WRING_JOB_REDUCE || job->codec_out != NULL)
        return WRING_ERR_UNSUPPORTED;
    if (job->n_sources == 0)
        return WRING_ERR_INVALID;
    for (uint32_t i = 0; i < job->n_sources; i++) {
        enum wring_status status = check_source(job, i);
        if (status == WRING_ERR_FRAME)
            job->result.bad_source = i;
        if (status != WRING_OK)
            return status;
    }
    if (job->n_sources > WRING_ORDER_FOLDED)
        wring_reduce_by_tree(job);
    else
        fold_all(job, wring_reduce_fold(job->dtype, job->op, wring_job_tier(job)));
    return WRING_OK;
}

uint64_t wring_reduce_tile(const struct wring_job *job)
{
    uint64_t tile = COPY_TILE_BYTES / wring_dtype_bytes(job->dtype);
    return job->n_copies > 0 && job->elems > tile ? tile : job->elems;
}

void wring_reduce_copy(const struct wring_job *job, uint64_t at, uint64_t bytes)
{
    for (uint32_t i = 0; i < job->n_copies; i++)
        memcpy((uint8_t *)job->copies[i] + at, (const uint8_t *)job->dst + at, bytes);
}

/* ---- scale ---- */

#define NAN64_BITS 0x7FF8000000000000u
#define BLOCK 256 /* elements; all loops but the last one's have a constant length */

static void scale_f32(void *dst, const void *src, size_t n, float factor)
{
    float block[BLOCK];
    memcpy(block, src, n * sizeof(*block));
    for (size_t i = 0; i < n; i++)
        block[i] = wring_canonical(block[i] * factor);
    memcpy(dst, block, n * sizeof(*block));
}

static double canonical_f64(double value)
{
    const uint64_t bits = NAN64_BITS;
    double nan;
    memcpy(&nan, &bits, sizeof(nan));
    return value == value ? value : nan;
}

static void scale_f64(void *dst, const void *src, size_t n, double factor)
{
    double block[BLOCK];
    memcpy(block, src, n * sizeof(*block));
    for (size_t i = 0; i < n; i++)
        block[i] = canonical_f64(block[i] * factor);
    memcpy(dst, block, n * sizeof(*block));
}

/** A 16-bit type, which kernels widen and narrow. */
static void scale_short(const struct wring_reduce_kernels *kernels, enum wring_dtype dtype,
                        void *dst, const void *src, size_t n, float factor)
{
    float block[BLOCK];
    kernels->widen[dtype](block, src, n);
    for (size_t i = 0; i < n; i++)
        block[i] *= factor;
    kernels->narrow[dtype](dst, block, n, 1);
}

static enum wring_dtype part_type_of(enum wring_dtype dtype)
{
    return dtype == WRING_COMPLEX64 ? WRING_F32 : dtype == WRING_COMPLEX128 ? WRING_F64 : dtype;
}

void wring_scale(enum wring_dtype dtype, void *dst, const void *src, uint64_t elems, double factor,
                 const char *tier)
{
    const struct wring_job job = {.tier = tier};
    const struct wring_reduce_tier *kernels =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), wring_job_tier(&job));
    enum wring_dtype part = part_type_of(dtype);
    size_t bytes = wring_dtype_bytes(part);
    uint64_t mode = wring_fp_enter(), n = part == dtype ? elems : 2 * elems;

    for (uint64_t at = 0; at < n; at += BLOCK) {
        size_t length = n - at < BLOCK ? (size_t)(n - at) : BLOCK;
        void *to = (char *)dst + at * bytes;
        const void *from = (const char *)src + at * bytes;
        if (part == WRING_F64)
            scale_f64(to, from, length, factor);
        else if (part == WRING_F32)
            scale_f32(to, from, length, (float)factor);
        else
            scale_short(kernels->kernels, part, to, from, length, (float)factor);
    }
    wring_fp_leave(mode);
}

/* ---- reduction ---- */

static float load_f32(const void *run, uint64_t i)
{
    float value;
    memcpy(&value, (const char *)run + i * sizeof(value), sizeof(value));
    return value;
}

/** Sum two runs, without SIMD: most small collectives do just this, and wait for each instruction.
 */
static void sum_few_of_two(float *dst, const void *const *runs, size_t n_runs, uint64_t n,
                           float divisor)
{
    (void)n_runs, (void)divisor; /* 2, and 1: x / 1 is x, bit for bit */
    for (uint64_t i = 0; i < n; i++)
        dst[i] = wring_canonical(load_f32(runs[0], i) + load_f32(runs[1], i));
}

struct wring_reduction wring_reduction_find(enum wring_dtype dtype, enum wring_op op, size_t runs,
                                            const char *tier)
{
    struct wring_reduction reduction = {
        .runs = runs,
        .divisor = op == WRING_AVG ? (float)runs : 1,
    };
    const struct wring_job job = {.tier = tier};
    enum wring_cpu_tier allowed = wring_job_tier(&job);

    if (runs > WRING_ORDER_FOLDED) {
        reduction.tree = wring_tree_find(dtype, op, allowed);
        return reduction;
    }
    reduction.fold = wring_reduce_fold(dtype, op, allowed);
    if (reduction.fold != NULL)
        return reduction;
    reduction.sum = wring_sum_find(allowed);
    reduction.few =
        runs == 2 && reduction.divisor == 1 ? sum_few_of_two : wring_reduce_tiers[0].kernels->sum;
    return reduction;
}

void wring_reduction_fold(const struct wring_reduction *reduction, void *dst,
                          const void *const *runs, uint64_t elems)
{
    struct wring_source sources[WRING_REDUCTION_RUNS];
    for (size_t i = 0; i < reduction->runs; i++)
        sources[i].data = runs[i];
    if (reduction->fold == NULL)
        tree_run(&reduction->tree, dst, sources, reduction->runs, 0, elems, reduction->divisor);
    else
        reduction->fold(dst, sources, reduction->runs, elems, reduction->divisor);
}
