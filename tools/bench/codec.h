/* SPDX-License-Identifier: Apache-2.0 */
/** Between the command line of `wring bench codec` and its measurement. */
#ifndef WRING_TOOLS_BENCH_CODEC_H
#define WRING_TOOLS_BENCH_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "compress/solo.h"
#include "tools/bench/data.h"
#include "tools/bench/twin.h"
#include <wring/codec.h>
#include <wring/provider.h>

#define WRING_BENCH_THREADS_MAX 256

struct wring_codec_bench {
    const char *name;       /* of the command, before messages */
    uint64_t elems;         /* numbers per thread and call, > 0 */
    enum wring_dtype dtype; /* of them: f32, f16 or bf16 */
    uint32_t threads;
    const unsigned *cores;               /* [threads] the system's numbers, one for each thread */
    double seconds;                      /* per codec */
    const struct wring_bench_data *data; /* thread t codes rank t's */
    uint32_t ranks;                      /* whose sum is measured; 1: none is */
};

/** Speeds are of all threads together, in 1e9 bytes of numbers per second: medians of turns. */
struct wring_codec_speed {
    double encode, decode, decode_add;
    double encode_limit, decode_add_limit;   /* of the twins */
    double copy;                             /* memcpy */
    bool encode_streams, decode_add_streams; /* the faster twin's stores went past the caches */
    uint64_t encoded_bytes;                  /* of the first call */
    uint64_t round_bytes;                    /* of statistics, which a rank gives to the rounds */
    double nmse;                             /* of the first call: |x - decode|² / |x|² */
    uint32_t turns;
};

/**
 * Measure one codec. Starts the threads, which end with the call.
 * @param phase  0: its way in; 1: its way back, which codes the same numbers as if they were sums
 * @return an exit status; failures are said
 */
int wring_codec_measure(const struct wring_codec_bench *bench, const struct wring_codec *codec,
                        uint32_t phase, struct wring_codec_speed *out);

/* The error of a sum. */

#define WRING_CODEC_SUM_RANKS_MAX 64

/** What the ranks of a sum have, the same for all codecs. */
struct wring_codec_sums {
    const char *name; /* of the command, before messages */
    uint32_t ranks;
    uint64_t elems;         /* numbers of each rank */
    enum wring_dtype dtype; /* of the numbers that are summed */
    float *inputs; /* [ranks × elems] numbers of that type; NULL: of one rank there is no sum */
    void *results; /* [ranks × elems] of dtype */
};

/** How many numbers of each rank are summed: those of a call, or the first ones of many. */
uint64_t wring_codec_sums_elems(const struct wring_codec_bench *bench);

/** @return an exit status; a failure is said */
int wring_codec_sums_init(struct wring_codec_sums *sums, const struct wring_codec_bench *bench);
void wring_codec_sums_finish(struct wring_codec_sums *sums);

/**
 * Sum a bucket once by the sessions of as many threads, which end with the call. WRING_SCHEME says
 * how, as in any job.
 *
 * @param tier  of the kernels
 * @param nmse  out, |sum - result|² / |sum|²; NAN: there is no sum
 * @return an exit status; failures are said, and it is one if ranks differ
 */
int wring_codec_sums_measure(const struct wring_codec_sums *sums, const char *spec,
                             const char *tier, double *nmse);

/** As square a matrix as the elements are by a power of two; a single row at worst. */
uint64_t wring_codec_matrix_rows(uint64_t elems);

/** What is measured of a codec. */
struct wring_codec_subject {
    const struct wring_codec *codec;
    uint64_t elems;
    enum wring_dtype dtype; /* f32; f16 or bf16: by jobs, as executors run them */
    uint32_t phase;         /* 0: the way in, 1: the way back */
};

/** Bytes of memory that one thread's measurement takes. */
uint64_t wring_codec_measure_bytes(const struct wring_codec_subject *subject);

/* What one thread of `wring bench codec` does: its buffers, and the calls that are timed. */

enum wring_codec_task_kind {
    WRING_TASK_TWIN_ENCODE, /* spoils the code, which the next ENCODE makes good */
    WRING_TASK_ENCODE,
    WRING_TASK_COPY,
    WRING_TASK_DECODE,
    WRING_TASK_TWIN_DECODE_ADD,
    WRING_TASK_DECODE_ADD,
    WRING_TASK_SUM, /* a code to a sum of codes, of a codec whose codes add up; both are zeros,
                       which no number of ranks overflows */
};

struct wring_codec_task {
    enum wring_codec_task_kind kind;
    unsigned store; /* of a twin: enum wring_twin_store */
};

#define WRING_CODEC_TASKS_MAX 12
#define WRING_CODEC_PASSES_MAX (WRING_CODEC_ROUNDS_MAX + WRING_CODEC_STATES_MAX + 1)

/** A twin's passes, one after the other: it cannot begin the next before it has ended one. */
struct wring_codec_twin {
    struct wring_twin_work pass[WRING_CODEC_PASSES_MAX];
    size_t n;
};

struct wring_codec_work {
    const struct wring_codec *codec; /* of the way */
    uint64_t elems;
    enum wring_dtype dtype;
    struct wring_codec_context context;
    struct wring_solo solo;                       /* of which the context is */
    struct wring_memory src, residual, code, dst; /* as sessions allocate their buffers */
    struct wring_memory zeros, sum;               /* a code, a sum; allocated by the first SUM */
    struct wring_memory scratch;                  /* of jobs; none for f32 */
    uint64_t code_bytes, first_bytes;             /* of the last encode, and of the first */
    double nmse;                                  /* of the first encode */
    const struct wring_twin_tier *twin;
    struct wring_codec_twin encode_twin, decode_add_twin;
    uint64_t seen; /* by the twins */
    enum wring_status status;
};

/**
 * Allocate, fill with numbers, encode and decode once. Touches all memory from the calling
 * thread, which has base/fpenv.h's mode in force, here and in run.
 *
 * @param index  of the thread: takes the data of that rank
 * Errors: WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM, WRING_ERR_FRAME (the codec refused its own code).
 */
enum wring_status wring_codec_work_init(struct wring_codec_work *work,
                                        const struct wring_codec_subject *subject,
                                        const struct wring_bench_data *data, uint32_t index);
void wring_codec_work_finish(struct wring_codec_work *work);

/** Do a task so many times. A decoder that fails leaves its status in work->status. */
void wring_codec_work_run(struct wring_codec_work *work, const struct wring_codec_task *task,
                          uint64_t times);

#endif
