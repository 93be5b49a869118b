/* SPDX-License-Identifier: Apache-2.0 */
/** What wring replay exchanges: numbers of a type whose sums are known. */
#ifndef WRING_TOOLS_PLAN_REPLAY_NUMBERS_H
#define WRING_TOOLS_PLAN_REPLAY_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/files/tensor_trace.h"
#include <wring/status.h>
#include <wring/types.h>

#define WRING_REPLAY_NUMBERS (1u << 20) /* that there are of each type */

/**
 * The numbers that gradients are made of. Each is a sum of four dice, since codecs depend on the
 * distribution. Of f32 they are whole numbers below 2^13; of bf16 the same, rounded; of f16 as many
 * 128ths, rounded. So every sum of 512 ranks is an f32 exactly, in any order, and no sum is beyond
 * an f16.
 */
struct wring_replay_numbers {
    void *of[WRING_BF16 + 1]; /* [WRING_REPLAY_NUMBERS] by type; NULL: no tensor has it */
};

/** Where gradients come from: a rank in an iteration. */
struct wring_replay_turn {
    const struct wring_replay_numbers *numbers;
    enum wring_dtype dtype;
    uint32_t ranks;
    uint64_t iteration;
};

/** Numbers of each type that the trace has. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_replay_numbers_init(struct wring_replay_numbers *numbers,
                                            const struct wring_tensor_trace *trace);

/** One that is all zero is fine. */
void wring_replay_numbers_finish(struct wring_replay_numbers *numbers);

/**
 * One tensor's gradient of a rank. Numbers are drawn once, and each rank and iteration begins at
 * another one: writing takes no longer than the memory does. Past the caches: of a model's
 * gradients these hold little, and never what travels first. Others may see it after
 * wring_streaming_settle().
 * @param data  out, [elems] of the type
 */
void wring_replay_fill(const struct wring_replay_turn *turn, uint32_t rank, void *data,
                       uint64_t elems);

/** Is it the sum of all ranks' gradients, to the last bit? @param data  in, [elems] of the type */
bool wring_replay_is_sum(const struct wring_replay_turn *turn, const void *data, uint64_t elems);

/**
 * Is it a sum that was rounded twice, first within each node? Each rounding changes a number by at
 * most half of its last place, so that the magnitudes of all ranks' numbers bound the error. Of f32
 * no rounding does anything, and it is as wring_replay_is_sum().
 */
bool wring_replay_is_near_sum(const struct wring_replay_turn *turn, const void *data,
                              uint64_t elems);

/** FNV-1a of its bits, element by element; not negative. */
int64_t wring_replay_digest(enum wring_dtype dtype, const void *data, uint64_t elems);

#endif
