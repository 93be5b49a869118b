/* SPDX-License-Identifier: Apache-2.0 */
/** Between the command line of `wring bench codec` and its measurement. */
#ifndef WRING_TOOLS_BENCH_CODEC_H
#define WRING_TOOLS_BENCH_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "compress/solo.h"
#include "tools/bench/twin.h"
#include <wring/codec.h>
#include <wring/provider.h>

#define WRING_BENCH_THREADS_MAX 256

struct wring_codec_bench {
    const char *name; /* of the command, before messages */
    uint64_t elems;   /* float32 numbers per thread and call, > 0 */
    uint32_t threads;
    const unsigned *cores; /* [threads] the system's numbers, one for each thread */
    double seconds;        /* per codec */
};

/** Speeds are of all threads together, in 1e9 bytes of float32 per second: medians of turns. */
struct wring_codec_speed {
    double encode, decode, decode_add;
    double encode_limit, decode_add_limit;   /* of the twins */
    double copy;                             /* memcpy */
    bool encode_streams, decode_add_streams; /* the faster twin's stores went past the caches */
    uint64_t encoded_bytes;                  /* of the first call */
    double nmse;                             /* of the first call: |x - decode|² / |x|² */
    uint32_t turns;
};

/**
 * Measure one codec. Starts the threads, which end with the call.
 * @return an exit status; failures are said
 */
int wring_codec_measure(const struct wring_codec_bench *bench, const struct wring_codec *codec,
                        struct wring_codec_speed *out);

/** Bytes of memory that one thread's measurement takes. */
uint64_t wring_codec_measure_bytes(const struct wring_codec *codec, uint64_t elems);

/* What one thread of `wring bench codec` does: its buffers, and the calls that are timed. */

enum wring_codec_task_kind {
    WRING_TASK_TWIN_ENCODE, /* spoils the code, which the next ENCODE makes good */
    WRING_TASK_ENCODE,
    WRING_TASK_COPY,
    WRING_TASK_DECODE,
    WRING_TASK_TWIN_DECODE_ADD,
    WRING_TASK_DECODE_ADD,
};

struct wring_codec_task {
    enum wring_codec_task_kind kind;
    unsigned store; /* of a twin: enum wring_twin_store */
};

#define WRING_CODEC_TASKS_MAX 12

struct wring_codec_work {
    const struct wring_codec *codec;
    uint64_t elems;
    struct wring_codec_context context;
    struct wring_solo solo;                       /* of which the context is */
    struct wring_memory src, residual, code, dst; /* as sessions allocate their buffers */
    uint64_t code_bytes, first_bytes;             /* of the last encode, and of the first */
    double nmse;                                  /* of the first encode */
    const struct wring_twin_tier *twin;
    struct wring_twin_work encode_twin, decode_add_twin;
    uint64_t seen; /* by the twins */
    enum wring_status status;
};

/**
 * Allocate, fill with bell-shaped numbers, encode and decode once. Touches all memory from the
 * calling thread, which has base/fpenv.h's mode in force, here and in run.
 *
 * @param index  of the thread: each has other numbers
 * Errors: WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM, WRING_ERR_FRAME (the codec refused its own code).
 */
enum wring_status wring_codec_work_init(struct wring_codec_work *work,
                                        const struct wring_codec *codec, uint64_t elems,
                                        uint32_t index);
void wring_codec_work_finish(struct wring_codec_work *work);

/** Do a task so many times. A decoder that fails leaves its status in work->status. */
void wring_codec_work_run(struct wring_codec_work *work, const struct wring_codec_task *task,
                          uint64_t times);

#endif
