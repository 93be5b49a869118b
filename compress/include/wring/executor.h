/* SPDX-License-Identifier: Apache-2.0 */
/**
 * For authors of executors, which run codec jobs. A collective hands jobs to an executor, which
 * says when they are done. It may run them at once in the caller (inline), on pinned cores (pool)
 * or on a device; that never changes a bit of the result.
 *
 * Each job says where the memory lies that it works on. An executor that cannot reach one of these
 * places ends the job with WRING_ERR_UNSUPPORTED.
 *
 * One thread at a time, the one that makes progress, calls the functions of an executor; any thread
 * may call cpu_ns. tests/offload holds all executors against this contract.
 */
#ifndef WRING_EXECUTOR_H
#define WRING_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/codec.h>
#include <wring/memory.h>
#include <wring/status.h>
#include <wring/types.h>
#include <wring/wait_set.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

enum wring_job_kind {
    /** code = encode(src + residual), residual updated. */
    WRING_JOB_ENCODE,
    /** dst = decode(sources[0]). */
    WRING_JOB_DECODE,
    /**
     * acc = sum of sources in the order of FORMAT.md, "Reductions", in float32; divided by
     * `divisor` if that is not 1. With codec_out: code = encode(acc + residual), residual updated,
     * dst = decode(code). Without: dst = acc. Other types than float32, and `op` min or max: dst =
     * the reduction that FORMAT.md, "Reductions", defines; no codecs.
     */
    WRING_JOB_REDUCE,
    /** dst = sources[0] as it is; `elems` counts bytes. No codec. */
    WRING_JOB_COPY,
    /** dst = codec_out's statistics of src and residual for round `round`, as its begin makes them
     *  of the operation's identity. No scratch elements. */
    WRING_JOB_ROUND_BEGIN,
    /** dst = the result of the round's end, which works on dst in place. */
    WRING_JOB_ROUND_END,
};

/** One contribution to a reduction. */
struct wring_source {
    const void *data; /* borrowed until the job is done */
    size_t bytes;
    const struct wring_codec *codec; /* NULL: data is [elems] of dtype, aligned to its size */
    struct wring_memory_place place; /* of data */
};

#define WRING_NO_SOURCE UINT32_MAX

/** How a job ended. All of it is written before the job comes back from poll. */
struct wring_job_result {
    enum wring_status status; /* WRING_OK; WRING_ERR_FRAME: the bytes of a source are malformed,
                                 and the session names the rank that sent them. Any other error, as
                                 WRING_ERR_DEVICE or _NO_MEMORY, is the executor's own: the session
                                 ends and names this rank and executor */
    uint32_t bad_source;      /* index of the source with malformed bytes; else WRING_NO_SOURCE */
    size_t code_bytes;        /* ENCODE, REDUCE with codec_out: of the code */
    uint64_t cut;             /* REDUCE of codes: numbers of the sum that were cut off */
    uint64_t began_ns;        /* when the work began, CLOCK_MONOTONIC */
    uint64_t took_ns;         /* wall time of the work itself */
    int core; /* the processor that did it, by the system's number; -1: none of the system's, or
                 the job is untimed */
    double lost, whole; /* if measured: sums of squares of the code's loss, and of its input,
                           residual included; NaN where the input was not finite */
};

struct wring_event; /* the executor's own: see wring_executor_ops.event_create */

/**
 * One piece of work on `elems` elements that start at a unit of every codec involved.
 * The caller owns the job and all it points to, and leaves both alone until poll returns the job.
 * dst may be exactly one of the raw sources, and each of the copies another; else nothing overlaps.
 */
struct wring_job {
    enum wring_job_kind kind;
    enum wring_dtype dtype;
    enum wring_op op; /* REDUCE; AVG is a sum whose divisor is not 1 */
    uint64_t elems;
    const char *tier;                   /* highest kernel tier of work without a codec, as for
                                           wring_codec_create(); a codec brings its own */
    struct wring_codec_context context; /* ENCODE, DECODE: of the code. REDUCE: of the code it
                           makes; sources[i] is decoded as a code of rank i and phase 0 */

    const void *src;                    /* ENCODE, ROUND_BEGIN: in, [elems] of dtype: f32, or f16 or
                                           bf16, which codecs see as f32 */
    const struct wring_source *sources; /* DECODE, COPY: one; REDUCE: n_sources, by their index */
    uint32_t n_sources;
    float divisor; /* REDUCE, sum_codes: 1 for a sum, the number of ranks for an average */

    const struct wring_codec *codec_out; /* ENCODE, REDUCE: the codec of code; NULL: no code.
                                            ROUND_BEGIN, ROUND_END: of the round */
    uint32_t round;                      /* ROUND_BEGIN, ROUND_END: which of its rounds */
    bool sum_codes;      /* REDUCE: all sources are codes of codec_out, and are added as codes:
                            code = that sum, as sum_end leaves it, and
                            dst = decode(code) / divisor.
                            DECODE: the source is such a sum, to be divided */
    float *residual;     /* ENCODE, REDUCE: [elems] or NULL */
    void *code;          /* ENCODE, REDUCE: out, [bound(codec_out, elems)]; with sum_codes
                            [sum_bound] if that is more: the sum is made there */
    void *dst;           /* DECODE, REDUCE, COPY: out, [elems] of dtype */
    void *const *copies; /* REDUCE: [n_copies] out, further copies of that in shared memory,
                            written as soon as it is known */
    uint32_t n_copies;
    struct {
        struct wring_memory_place src, residual, code, dst;
    } places; /* of these pointers; a source says its own */

    const struct wring_event *after; /* the job begins only after this event; NULL: at once */
    int32_t priority; /* of the jobs that could begin, the one with the smallest begins first */
    bool untimed;     /* nobody asks for began_ns, took_ns and core: 0, 0, -1 */
    bool measure;     /* with codec_out: also say how much the code lost, which takes a decode */

    struct wring_job_result result; /* out */
    void *cookie;                   /* the submitter's */
    struct wring_job *next;         /* the executor's, from submit to poll */
    uint64_t ticket;                /* the same */
};

/** Elements for which a job needs scratch: at most as many as wring_job_reserve_elems() says for
 * it. Jobs on 16-bit elements, and reductions of more than 8 codes, need more than they have. */
uint64_t wring_job_scratch_elems(const struct wring_job *job);

/**
 * Elements to reserve for jobs of at most `elems` elements of any type.
 * @param coded  sources of a reduction, if there are codes among them; else 1
 */
uint64_t wring_job_reserve_elems(uint64_t elems, uint32_t coded);

/** Scratch bytes that wring_job_run() needs for jobs of at most that many elements. */
size_t wring_job_scratch_bytes(uint64_t max_elems);

/**
 * Run a job on memory of this process now, in this thread, and write its result. It ignores
 * `after`, the places and the priority, and sets the floating-point mode while it runs. Threads:
 * safe on different jobs and scratch.
 *
 * @param scratch  [wring_job_scratch_bytes(wring_job_scratch_elems(job))], 64-byte aligned, the
 * thread's own
 */
void wring_job_run(struct wring_job *job, void *scratch);

struct wring_executor {
    const struct wring_executor_ops *ops; /* first member of every executor's own struct */
    struct wring_memory_place home;       /* where residuals and state best lie for its jobs */
};

/** No entry is NULL. Errors are WRING_ERR_NO_MEMORY and WRING_ERR_DEVICE, unless said otherwise. */
struct wring_executor_ops {
    const char *name;
    bool at_once; /* jobs are over when submit returns */

    /** Make room for jobs of max_elems elements. Called while idle. */
    enum wring_status (*reserve)(struct wring_executor *executor, uint64_t max_elems);

    /** Take n jobs. Never fails and never blocks: the queue is the jobs' own `next`. */
    void (*submit)(struct wring_executor *executor, struct wring_job *const *jobs, size_t n);

    /**
     * Finished jobs, in any order. It may also launch submitted jobs: until all have come back, the
     * caller calls it again and again, or sleeps in between as arm says. Never blocks.
     * @return how many of done[max] were written.
     */
    size_t (*poll)(struct wring_executor *executor, struct wring_job **done, size_t max);

    /**
     * Prepare for sleep: add a descriptor that turns readable when a job finishes after this call,
     * or lower the deadline, or set busy. Set busy also if the set has no room left. If no job can
     * finish by itself, do nothing. The caller polls once more after arm, before it sleeps; a poll
     * that finds something disarms.
     */
    void (*arm)(struct wring_executor *executor, struct wring_wait_set *set);

    /**
     * Make an event; it counts as happened. Its maker records it again for each use, once no job
     * that names it is left, and destroys it; NULL is fine.
     */
    enum wring_status (*event_create)(struct wring_executor *executor, struct wring_event **out);
    void (*event_destroy)(struct wring_executor *executor, struct wring_event *event);

    /**
     * The event happens once all jobs are over that were submitted before. With a stream, it
     * happens once all work is over that the application had put into that stream. Never blocks.
     * @param stream  borrowed for the call; NULL: the executor's own jobs
     * Errors: WRING_ERR_UNSUPPORTED (a stream of a device that it does not work on).
     */
    enum wring_status (*event_record)(struct wring_executor *executor, struct wring_event *event,
                                      const struct wring_stream *stream);

    /**
     * Memory for residuals and state: zeros, aligned to 64 bytes. Memory of WRING_MEMORY_HOST comes
     * from the C library, so that release() of any executor can free it.
     * Errors: WRING_ERR_UNSUPPORTED (a place that its jobs cannot reach).
     */
    enum wring_status (*allocate)(struct wring_executor *executor, struct wring_memory_place place,
                                  size_t bytes, void **out);
    void (*release)(struct wring_executor *executor, struct wring_memory_place place, void *memory);

    /** Copy between two places now, and wait for it. No job works on either. Errors: also
     * WRING_ERR_UNSUPPORTED, as allocate. */
    enum wring_status (*copy)(struct wring_executor *executor, void *dst,
                              struct wring_memory_place to, const void *src,
                              struct wring_memory_place from, size_t bytes);

    /** CPU time spent in jobs so far by threads of the executor's own, in ns. Threads: safe. */
    uint64_t (*cpu_ns)(struct wring_executor *executor);

    /** Waits for jobs under way and drops the rest. NULL is fine. */
    void (*destroy)(struct wring_executor *executor);
};

/** Make an executor that runs each job inside submit(). Free it with its ops->destroy. */
enum wring_status wring_executor_inline_create(struct wring_executor **out);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
