/* SPDX-License-Identifier: Apache-2.0 */
/**
 * For authors of executors: who runs codec jobs. Collectives hand jobs to an executor and are told
 * when they are done; whether that means "at once, in the caller" (inline), "on a pinned core"
 * (pool) or "on the device" is the executor's affair and never changes a bit of the result.
 *
 * Each job says where the memory lies that it works on. An executor that cannot reach one of these
 * places ends the job with WRING_ERR_UNSUPPORTED.
 *
 * The functions of an executor are called by one thread at a time (the one that makes progress),
 * except cpu_ns. tests/offload holds all executors against this contract.
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
    /** dst = what the round's end makes of what is there. */
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
                                 for which the rank that sent them is named; any other error is the
                                 executor's own, as WRING_ERR_DEVICE or _NO_MEMORY, and the session
                                 ends with this rank and executor named */
    uint32_t bad_source; /* whose bytes are malformed, an index of sources; else WRING_NO_SOURCE */
    size_t code_bytes;   /* ENCODE, REDUCE with codec_out: of the code */
    uint64_t began_ns;   /* when the work began, CLOCK_MONOTONIC */
    uint64_t took_ns;    /* wall time of the work itself */
    int core; /* the processor that did it, by the system's number; -1: none of the system's, or
                 the job is untimed */
    double lost, whole; /* if measured: sums of squares of what the code lacks, and of what was
                           encoded, residual included; NaN where that was not finite */
};

struct wring_event; /* the executor's own: see wring_executor_ops.event_create */

/**
 * One piece of work on `elems` elements that start at a unit of every codec involved.
 * The caller owns the job and all it points to, and leaves both alone until it is polled.
 * dst may be exactly one of the raw sources, and each of the copies another; else nothing overlaps.
 */
struct wring_job {
    enum wring_job_kind kind;
    enum wring_dtype dtype;
    enum wring_op op; /* REDUCE; AVG is a sum whose divisor is not 1 */
    uint64_t elems;
    const char *tier; /* highest kernel tier of work that has no codec, which brings its own;
                         as for wring_codec_create() */
    struct wring_codec_context context; /* ENCODE, DECODE: of the code. REDUCE: of the code it
                           makes; sources[i] is decoded as what rank i encoded in phase 0 */

    const void *src;                    /* ENCODE, ROUND_BEGIN: in, [elems] of dtype: f32, or f16 or
                                           bf16, which codecs see as f32 */
    const struct wring_source *sources; /* DECODE, COPY: one; REDUCE: n_sources, by their index */
    uint32_t n_sources;
    float divisor; /* REDUCE, sum_codes: 1 for a sum, the number of ranks for an average */

    const struct wring_codec *codec_out; /* ENCODE, REDUCE: what makes code; NULL: no code. Of
                                            rounds whose they are */
    uint32_t round;                      /* ROUND_BEGIN, ROUND_END: which of its rounds */
    bool sum_codes;      /* REDUCE: all sources are codes of codec_out, and are added as such:
                            code = that sum, dst = decode(code) / divisor.
                            DECODE: the source is such a sum, to be divided */
    float *residual;     /* ENCODE, REDUCE: [elems] or NULL */
    void *code;          /* ENCODE, REDUCE: out, [bound(codec_out, elems)] */
    void *dst;           /* DECODE, REDUCE, COPY: out, [elems] of dtype */
    void *const *copies; /* REDUCE: [n_copies] out, where that goes, too, as soon as it is known;
                            shared memory */
    uint32_t n_copies;
    struct {
        struct wring_memory_place src, residual, code, dst;
    } places; /* where these pointers lead; a source says its own */

    const struct wring_event *after; /* what has to be over before the job begins; NULL: nothing */
    int32_t priority; /* of jobs that could begin, one with a smaller number does so first */
    bool untimed;     /* began_ns, took_ns and core are not asked for: 0, 0, -1 */
    bool measure;     /* with codec_out: also say what the code lacks, which takes a decode */

    struct wring_job_result result; /* out */
    void *cookie;                   /* the submitter's */
    struct wring_job *next;         /* the executor's, from submit to poll */
    uint64_t ticket;                /* the same */
};

/** Elements for which a job needs scratch: at most what its executor was told to reserve. As many
 *  as it has, but where more than 8 codes are reduced: there sums of several levels wait. */
uint64_t wring_job_scratch_elems(const struct wring_job *job);

/** What to reserve for jobs of at most so many elements of any type. @param coded  sources of a
 * reduction, if there are codes among them; else 1 */
uint64_t wring_job_reserve_elems(uint64_t elems, uint32_t coded);

/** Scratch bytes that wring_job_run() needs for jobs of at most that many elements. */
size_t wring_job_scratch_bytes(uint64_t max_elems);

/**
 * Run a job on memory of this process now, in this thread, and write its result; `after`, the
 * places and the priority are not looked at. Sets the floating-point mode for the while. Threads:
 * safe on different jobs and scratch.
 *
 * @param scratch  [wring_job_scratch_bytes(wring_job_scratch_elems(job))], 64-byte aligned, the
 * thread's own
 */
void wring_job_run(struct wring_job *job, void *scratch);

struct wring_executor {
    const struct wring_executor_ops *ops; /* first member of every executor's own struct */
    struct wring_memory_place home;       /* where its jobs like residuals and state to lie */
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
     * Finished jobs, in any order. It may also launch what was submitted: until jobs come back it
     * is called again and again, or after arm has said so. Never blocks.
     * @return how many of done[max] were written.
     */
    size_t (*poll)(struct wring_executor *executor, struct wring_job **done, size_t max);

    /**
     * Prepare for sleep: add a descriptor that turns readable when a job finishes after this call,
     * lower the deadline, or set busy, also where the set has no room left; nothing, where no job
     * can finish by itself. Poll once more after arming, before sleeping; a poll that finds
     * something disarms.
     */
    void (*arm)(struct wring_executor *executor, struct wring_wait_set *set);

    /**
     * An event that has happened. It is recorded again for each use, once no job that names it is
     * left, and destroyed by its maker; NULL is fine.
     */
    enum wring_status (*event_create)(struct wring_executor *executor, struct wring_event **out);
    void (*event_destroy)(struct wring_executor *executor, struct wring_event *event);

    /**
     * The event happens once all is over that was submitted before, or, with a stream, all that
     * the application had put into that stream. Never blocks.
     * @param stream  borrowed for the call; NULL: the executor's own jobs
     * Errors: WRING_ERR_UNSUPPORTED (a stream of a device that it does not work on).
     */
    enum wring_status (*event_record)(struct wring_executor *executor, struct wring_event *event,
                                      const struct wring_stream *stream);

    /**
     * Memory for residuals and state: zeros, aligned to 64 bytes. That of WRING_MEMORY_HOST comes
     * from the C library, so that release() of any executor takes it.
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
