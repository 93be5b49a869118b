/* SPDX-License-Identifier: Apache-2.0 */
/** Reductions without codecs, of any element type and operation. Private to compress/. */
#ifndef WRING_COMPRESS_REDUCE_H
#define WRING_COMPRESS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "compress/kernels/reduce.h"
#include <wring/executor.h>
#include <wring/types.h>

/*
 * In which order contributions become one: FORMAT.md, "Reductions". Private to compress/.
 *
 *     n <= 8    ((s0 op s1) op s2) op …
 *     n > 8     a binary tree over the index, p the largest power of two that is not more than n:
 *               leaf i is s[i], or s[i] op s[p + i] where there is that source, for i < p;
 *               then, for l = 0, 1, …, the block of leaves with bit l clear op the one with it set
 *
 * A walk gives the n - 1 steps of that. Partial results lie in slots, as many as the tree is high:
 * work block by block needs no other memory.
 */

#define WRING_ORDER_FOLDED 8        /* so many are folded from the left; more by the tree */
#define WRING_ORDER_SLOT UINT32_MAX /* for a source: what lies in a slot */

/** slot[step.slot] = first op second: sources, or WRING_ORDER_SLOT. Of `second` that is the next
 *  slot, of `first` this one. */
struct wring_order_step {
    uint32_t slot, first, second;
};

struct wring_order {
    uint32_t n, p;         /* sources; leaves */
    uint32_t leaf;         /* the next one */
    uint32_t slots, joins; /* in use; to be joined before that leaf */
};

/** @param n  sources, 1 or more */
struct wring_order wring_order_begin(uint32_t n);

/** @return false: there is no further step. A single source has none */
bool wring_order_next(struct wring_order *order, struct wring_order_step *step);

/** Slots that a walk over n sources needs. */
uint32_t wring_order_slots(uint32_t n);

/* WRING_PREMUL_SUM scales a contribution before it is summed. */

/**
 * dst[i] = src[i] * factor, rounded to the type. The factor is first rounded to the precision that
 * sums of the type have: f64 and complex128 keep it, all others make it a float32; 16-bit floats
 * are multiplied in float32. Every NaN is the one NaN of its type. Sets the floating-point mode for
 * the while. Threads: safe.
 *
 * @param dtype  one that WRING_PREMUL_SUM takes
 * @param dst    out, [elems]; may be exactly src
 * @param tier   the highest allowed, as for wring_codec_create()
 */
void wring_scale(enum wring_dtype dtype, void *dst, const void *src, uint64_t elems, double factor,
                 const char *tier);

/*
 * Reductions of more raw runs than are folded from the left (above), block by block in
 * the nearest cache. Private to compress/.
 *
 * A step of the tree is "block = block op block", which is the fold of two sources that kernels
 * have for every type and operation; what travels in another type, as sums of 16-bit floats do in
 * float32, is widened before its first step and narrowed after its last one.
 */

/** How two runs become one, chosen once. */
struct wring_tree {
    wring_sum_fn sum;               /* of float32; or NULL */
    wring_reduce_fn fold;           /* of anything else */
    wring_widen_fn widen;           /* NULL: runs travel as they are */
    wring_narrow_fn narrow;         /* likewise */
    size_t elem_bytes, block_bytes; /* of one element in the runs, and on its way */
};

/** @param dtype, op  that there are; AVG is a sum, divided at its end */
struct wring_tree wring_tree_find(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed);

/* The same tree with its sources on many ranks, of which each makes a step or two of it. */

/** An operand: `elems` of a contribution as it is, or of a partial result as it travels. */
struct wring_tree_run {
    const void *data; /* at any address */
    bool partial;     /* of block_bytes an element, where runs do not travel as they are */
};

/**
 * to[i] = first[i] op second[i], in the library's floating-point mode: between wring_fp_enter() and
 * wring_fp_leave().
 * @param to       out, [elems] of block_bytes; may be exactly a partial operand, or either one
 * where runs travel as they are
 * @param divisor  1 but in the last step of an average that is not narrowed
 */
void wring_tree_step(const struct wring_tree *tree, void *to, struct wring_tree_run first,
                     struct wring_tree_run second, uint64_t elems, float divisor);

/** Elements of 16 bits, which codecs see as float32. */
static inline bool wring_reduce_is_short(const struct wring_job *job)
{
    return job->dtype == WRING_F16 || job->dtype == WRING_BF16;
}

/** Does a codec take part? */
static inline bool wring_reduce_is_coded(const struct wring_job *job)
{
    bool coded = job->codec_out != NULL;
    for (uint32_t i = 0; i < job->n_sources; i++)
        coded |= job->sources[i].codec != NULL;
    return coded;
}

/** Is this a job for wring_reduce_run()? The others are copies, and what codecs can take part in.
 */
static inline bool wring_reduce_takes(const struct wring_job *job)
{
    if (job->kind == WRING_JOB_COPY || (job->dtype == WRING_F32 && job->op <= WRING_AVG))
        return false;
    return !(wring_reduce_is_short(job) && job->op <= WRING_AVG && wring_reduce_is_coded(job));
}

/** The highest tier that a job allows; an unknown name allows the best. */
enum wring_cpu_tier wring_job_tier(const struct wring_job *job);

/** The kernel that folds so; NULL for sums of float32, which have their own. */
wring_reduce_fn wring_reduce_fold(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed);

/** Run a REDUCE job of more than WRING_ORDER_FOLDED raw sources, which have been checked. */
void wring_reduce_by_tree(const struct wring_job *job);

/**
 * Run a REDUCE job, in one pass over its sources.
 * Errors: WRING_ERR_UNSUPPORTED (a codec, another kind of job, no such type or operation),
 * WRING_ERR_INVALID (no sources), WRING_ERR_FRAME (bad_source has another size).
 */
enum wring_status wring_reduce_run(struct wring_job *job);

/** Elements of a REDUCE job that are best reduced at a time: all, unless the result is copied. */
uint64_t wring_reduce_tile(const struct wring_job *job);

/** Copy bytes [at, at + bytes) of dst to the job's copies. */
void wring_reduce_copy(const struct wring_job *job, uint64_t at, uint64_t bytes);

/*
 * A reduction of raw runs, chosen once and run often: for work that takes less time than the making
 * of a job. Its result is, bit for bit, that of a REDUCE job without codecs.
 */

#define WRING_REDUCTION_RUNS 64 /* at most */

#define WRING_REDUCTION_FEW 4 /* elements: a wide kernel takes as long to begin as to sum these */

struct wring_reduction {
    wring_sum_fn sum;       /* of float32; or NULL */
    wring_sum_fn few;       /* the same, of WRING_REDUCTION_FEW elements at most */
    wring_reduce_fn fold;   /* of anything else; NULL: by the tree */
    struct wring_tree tree; /* of more runs than are folded */
    size_t runs;
    float divisor;
};

/**
 * @param runs  1..WRING_REDUCTION_RUNS; an average is divided by it
 * @param tier  the highest allowed, as for wring_codec_create()
 */
struct wring_reduction wring_reduction_find(enum wring_dtype dtype, enum wring_op op, size_t runs,
                                            const char *tier);

/** For wring_reduction_run(): reductions other than sums of float32, or of more runs than are
 *  folded. */
void wring_reduction_fold(const struct wring_reduction *reduction, void *dst,
                          const void *const *runs, uint64_t elems);

/**
 * Reduce in the order that FORMAT.md gives to so many runs, in the library's floating-point mode:
 * between wring_fp_enter() and wring_fp_leave(), which may take as long as a short reduction.
 * @param dst  out, [elems]; may be exactly one of the runs
 * @param runs in, as many as the reduction was chosen for, [elems] each at any address
 */
static inline void wring_reduction_run(const struct wring_reduction *reduction, void *dst,
                                       const void *const *runs, uint64_t elems)
{
    if (reduction->sum == NULL)
        wring_reduction_fold(reduction, dst, runs, elems);
    else if (elems <= WRING_REDUCTION_FEW)
        reduction->few(dst, runs, reduction->runs, elems, reduction->divisor);
    else
        reduction->sum(dst, runs, reduction->runs, elems, reduction->divisor);
}

#endif
