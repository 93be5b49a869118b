/* SPDX-License-Identifier: Apache-2.0 */
/** What the checks of all kernels share: values that tell tiers apart, and a sweep of lengths. */
#ifndef WRING_TESTS_TRIAL_H
#define WRING_TESTS_TRIAL_H

#include "compress/kernels/bits.h"
#include "tests/lib/test.h"

/** What the values of a buffer are drawn from. */
enum trial_kind {
    TRIAL_PLAIN,
    TRIAL_TIES,     /* halves: each step of the int8 codec is met midway */
    TRIAL_DENORMAL, /* of float32 */
    TRIAL_SMALL,    /* around the denormals of binary16 */
    TRIAL_LARGE,    /* around the largest binary16 */
    TRIAL_HUGE,
    TRIAL_ODD, /* zeros, limits, infinities, NaN */
    TRIAL_KINDS
};

/** One comparison: what it runs on. */
struct trial {
    const char *tier;
    uint64_t n;
    enum trial_kind kind;
    uint32_t seed;
};

/** Fewer lengths, for emulated processors. */
void trial_be_quick(void);
bool trial_is_quick(void);

/** n values that end at an unmapped page: so each length begins at another alignment. */
float *trial_fill(uint64_t n, enum trial_kind kind, uint32_t seed);

/** Likewise a copy of any bytes. */
void *trial_copy(const void *data, size_t bytes);

bool trial_same(const void *a, const void *b, size_t bytes);

/** Bits agree, but for the payloads of NaN, which adding kernels leave to the end of a sum. */
bool trial_same_but_nan(const float *a, const float *b, uint64_t n);

#define AGREE(what, a, b, bytes)                                                     \
    CHECK(trial_same(a, b, bytes), "%s %s n=%zu kind=%d seed=%u", trial->tier, what, \
          (size_t)trial->n, trial->kind, trial->seed)

#define AGREE_BUT_NAN(what, a, b, n)                                                     \
    CHECK(trial_same_but_nan(a, b, n), "%s %s n=%zu kind=%d seed=%u", trial->tier, what, \
          (size_t)trial->n, trial->kind, trial->seed)

/** Call a check for all tails, kinds and the lengths of whole blocks, where the tier runs here. */
void trial_sweep(const struct wring_kernel_tier *tier,
                 void (*check)(const void *tier, const struct trial *trial), uint64_t top);

#endif
