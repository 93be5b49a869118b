/* SPDX-License-Identifier: Apache-2.0 */
/** Long calls go page by page and past the caches (kernels/streaming.h): the bits stay the
 * reference's.
 */
#include <string.h>

#include "compress/kernels/bf16.h"
#include "compress/kernels/fp16.h"
#include "compress/kernels/int8.h"
#include "compress/kernels/reduce.h"
#include "compress/kernels/streaming.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define SHORTEST ((uint64_t)1 << 20)
#define BLOCK 512
#define CODE_BYTES(n) ((n) + ((n) + BLOCK - 1) / BLOCK * WRING_INT8_HEAD)

/** What all tiers are given, and what the reference makes of it. */
struct inputs {
    uint64_t n;
    float *src, *residual, *dst;
};

/** A family of kernels, as functions that all look alike. `code` is as long as the longest. */
struct family {
    const char *name;
    const void *tiers;
    size_t entry_bytes;
    size_t element_bytes; /* of code; 0: as many as the int8 codec makes */
    void (*encode)(const void *tier, void *code, const float *src, uint64_t n);
    void (*encode_feedback)(const void *tier, void *code, const float *src, float *residual,
                            uint64_t n);
    void (*decode)(const void *tier, float *dst, const void *code, uint64_t n);
    void (*decode_add)(const void *tier, float *dst, const void *code, uint64_t n);
};

#define KERNELS(family, tier) (((const struct wring_##family##_tier *)(tier))->kernels)
#define WRAP(family, ...)                                                                      \
    static void family##_encode(const void *tier, void *code, const float *src, uint64_t n)    \
    {                                                                                          \
        KERNELS(family, tier)->encode(code, src, n __VA_ARGS__);                               \
    }                                                                                          \
    static void family##_feedback(const void *tier, void *code, const float *src, float *left, \
                                  uint64_t n)                                                  \
    {                                                                                          \
        KERNELS(family, tier)->encode_feedback(code, src, left, n);                            \
    }                                                                                          \
    static void family##_decode(const void *tier, float *dst, const void *code, uint64_t n)    \
    {                                                                                          \
        KERNELS(family, tier)->decode(dst, code, n);                                           \
    }                                                                                          \
    static void family##_add(const void *tier, float *dst, const void *code, uint64_t n)       \
    {                                                                                          \
        KERNELS(family, tier)->decode_add(dst, code, n);                                       \
    }

WRAP(bf16, )
WRAP(fp16, , WRING_FP16_OVERFLOW)

static void int8_encode(const void *tier, void *code, const float *src, uint64_t n)
{
    KERNELS(int8, tier)->encode(code, src, NULL, n, BLOCK);
}

static void int8_feedback(const void *tier, void *code, const float *src, float *left, uint64_t n)
{
    KERNELS(int8, tier)->encode(code, src, left, n, BLOCK);
}

static void int8_decode(const void *tier, float *dst, const void *code, uint64_t n)
{
    KERNELS(int8, tier)->decode(dst, code, n, 0x1p-6f);
}

static void int8_add(const void *tier, float *dst, const void *code, uint64_t n)
{
    KERNELS(int8, tier)->decode_add(dst, code, n, 0x1p-6f);
}

/** Adding "codes" that are float32 themselves. */
static void sum_encode(const void *tier, void *code, const float *src, uint64_t n)
{
    const void *runs[] = {src};
    ((const struct wring_reduce_tier *)tier)->kernels->sum(code, runs, 1, n, 1);
}

static void sum_feedback(const void *tier, void *code, const float *src, float *left, uint64_t n)
{
    const void *runs[] = {src, left, src};
    ((const struct wring_reduce_tier *)tier)->kernels->sum(code, runs, 3, n, 3);
}

static void sum_decode(const void *tier, float *dst, const void *code, uint64_t n)
{
    sum_encode(tier, dst, code, n);
}

static void sum_add(const void *tier, float *dst, const void *code, uint64_t n)
{
    const void *runs[] = {dst, code};
    ((const struct wring_reduce_tier *)tier)->kernels->sum(dst, runs, 2, n, 1);
}

#define FAMILY(name, bytes)                                                                 \
    {                                                                                       \
#name, wring_##name##_tiers, sizeof(wring_##name##_tiers[0]), bytes, name##_encode, \
            name##_feedback, name##_decode, name##_add                                      \
    }

static const struct family families[] = {
    FAMILY(bf16, 2),
    FAMILY(fp16, 2),
    FAMILY(int8, 0),
    {"sum", wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), 4, sum_encode, sum_feedback,
     sum_decode, sum_add},
};

static void check_tier(const struct family *family, const void *entry, const struct inputs *in)
{
    const char *tier = ((const struct wring_kernel_tier *)entry)->name;
    uint64_t n = in->n;
    size_t bytes = family->element_bytes == 0 ? CODE_BYTES(n) : n * family->element_bytes;
    void *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);
    float *left = trial_copy(in->residual, n * 4), *other = trial_copy(in->residual, n * 4);

#define LONG_AGREE(what, a, b, size) \
    CHECK(trial_same(a, b, size), "%s %s %s n=%zu", tier, family->name, what, (size_t)n)
    family->encode(family->tiers, want, in->src, n);
    family->encode(entry, got, in->src, n);
    LONG_AGREE("encode", want, got, bytes);
    family->encode_feedback(family->tiers, want, in->src, left, n);
    family->encode_feedback(entry, got, in->src, other, n);
    LONG_AGREE("feedback code", want, got, bytes);
    LONG_AGREE("feedback residual", left, other, n * 4);
    family->decode(family->tiers, left, want, n);
    family->decode(entry, other, want, n);
    LONG_AGREE("decode", left, other, n * 4);
    memcpy(left, in->dst, n * 4);
    memcpy(other, in->dst, n * 4);
    family->decode_add(family->tiers, left, want, n);
    family->decode_add(entry, other, want, n);
    CHECK(trial_same_but_nan(left, other, n), "%s %s decode_add n=%zu", tier, family->name,
          (size_t)n);
    wring_test_free_guarded();
}

static void check_length(const struct family *family, uint64_t n)
{
    for (const char *entry = family->tiers;; entry += family->entry_bytes) {
        const struct wring_kernel_tier *tier = (const void *)entry;
        if (tier->name == NULL)
            return;
        if (!wring_cpu_has(tier->tier))
            continue;
        struct inputs in = {n, trial_fill(n, TRIAL_PLAIN, 1), trial_fill(n, TRIAL_DENORMAL, 2),
                            trial_fill(n, TRIAL_PLAIN, 3)};
        in.src[n / 2] = wring_float_of(WRING_INF_BITS); /* a rare case in the midst of a page */
        in.src[n / 3] = wring_float_of(0x7F7FFFFF);
        check_tier(family, entry, &in);
    }
}

void check_long(void)
{
    static const uint64_t more[] = {0, 1, 2, 1234, 1 << 16};

    CHECK(WRING_IS_LONG(SHORTEST) && !WRING_IS_LONG(SHORTEST - 1), "the shortest long call");
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
        for (size_t m = 0; m < (trial_is_quick() ? 2 : sizeof(more) / sizeof(more[0])); m++)
            check_length(&families[f], SHORTEST + more[m]);
}
