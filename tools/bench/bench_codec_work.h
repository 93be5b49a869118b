/* SPDX-License-Identifier: Apache-2.0 */
/** What one thread of `wring bench codec` does: its buffers, and the calls that are timed. */
#ifndef WRING_TOOLS_BENCH_CODEC_WORK_H
#define WRING_TOOLS_BENCH_CODEC_WORK_H

#include <wring/codec.h>
#include <wring/provider.h>

#include "tools/bench/bench_twin.h"

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
    struct wring_memory src, residual, code, dst; /* as sessions allocate their buffers */
    uint64_t code_bytes, first_bytes;             /* of the last encode, and of the first */
    double nmse;                                  /* of the first encode */
    const struct wring_twin_tier *twin;
    struct wring_twin_work encode_twin, decode_add_twin;
    uint64_t seen; /* by the twins */
    enum wring_status status;
};

/** What a round consists of, in its order. @return how many; at most WRING_CODEC_TASKS_MAX */
size_t wring_codec_tasks(const struct wring_codec *codec, struct wring_codec_task *out);

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
