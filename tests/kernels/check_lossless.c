/* SPDX-License-Identifier: Apache-2.0 */
/** Packing float32 losslessly: the scalar kernels give back each bit, the other tiers do as they.
 */
#include <string.h>

#include "compress/kernels/lossless.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static const unsigned widths[] = {WRING_LOSSLESS_BLOCK_NARROW, WRING_LOSSLESS_BLOCK_WIDE};
#define WIDTHS (sizeof(widths) / sizeof(widths[0]))

static uint32_t exponent_of(float value)
{
    return wring_bits_of(value) >> 23 & 0xFF;
}

static uint32_t largest_of(const float *src, uint64_t n)
{
    uint32_t largest = 0;

    for (uint64_t i = 0; i < n; i++)
        if (wring_bits_of(src[i]) << 1 > largest)
            largest = wring_bits_of(src[i]) << 1;
    return largest;
}

/** What packing says of a block, counted straight from what it means. */
static bool counts_are_right(const struct trial *trial, const float *src, unsigned width,
                             uint32_t top, struct wring_lossless_far far)
{
    uint32_t narrow = 0, wide = 0;

    for (uint64_t i = 0; i < trial->n; i++) {
        uint32_t distance = (top - exponent_of(src[i])) & 0xFF;
        narrow += distance >= 7;
        wide += distance >= 15 && width == WRING_LOSSLESS_BLOCK_WIDE;
    }
    return far.narrow == narrow && far.wide == wide;
}

/** A block packed by the reference. @param others  out, [n + slack], zeros behind them */
static size_t pack(uint8_t *packed, uint8_t *others, const float *src, uint64_t n, unsigned width,
                   uint32_t top)
{
    const struct wring_lossless_tier_kernels *ref = wring_lossless_tiers[0].kernels;
    struct wring_lossless_beside nothing = {0};
    struct wring_lossless_far far = ref->pack(packed, src, n, width, top, &nothing);
    size_t count = width == WRING_LOSSLESS_BLOCK_NARROW ? far.narrow : far.wide;

    memset(others, 0, n + WRING_LOSSLESS_SLACK);
    memcpy(others, packed + WRING_LOSSLESS_OTHERS(n, width), count);
    return count;
}

/**
 * Pack a block; meanwhile the next one's sample is looked at and other code stored, or neither.
 * @param straight  where the block belongs, if it goes straight; or NULL
 */
static struct wring_lossless_far pack_beside(const struct wring_lossless_tier_kernels *kernels,
                                             const struct trial *trial, uint8_t *packed,
                                             const float *src, unsigned width, uint32_t top,
                                             void *straight)
{
    uint64_t n = trial->n, lines = (n * 4 + WRING_LOSSLESS_SLACK) / WRING_LINE * (n % 3);
    uint64_t leaving = lines - lines / 9;
    bool looks = (n + trial->kind) % 2;
    size_t bytes = lines * WRING_LINE, cut = leaving * WRING_LINE;
    float *next = trial_fill(n, trial->kind, trial->seed + 1);
    uint8_t *from = wring_test_guarded(bytes + 1), *to = wring_test_guarded(bytes);
    uint32_t random = trial->seed;
    struct wring_lossless_beside beside = {.next = looks ? next : NULL,
                                           .peak = 1,
                                           .fetch = looks ? next : NULL,
                                           .leaving = {from, to, leaving},
                                           .last = {from + cut, to + cut, lines - leaving},
                                           .straight = straight};

    for (size_t i = 0; i < bytes; i++)
        from[i] = (uint8_t)wring_test_random(&random);
    struct wring_lossless_far far = kernels->pack(packed, src, n, width, top, &beside);
    wring_streaming_settle();
    AGREE("code beside", from, to, bytes);
    CHECK(beside.peak == (looks ? largest_of(next, n < 64 ? n : 64) : 0),
          "%s n=%zu kind=%d: the peak beside", trial->tier, (size_t)n, trial->kind);
    return far;
}

/**
 * A block that goes straight, to several places of a line: what left of it and what is in memory
 * are the block, and the lines before and behind what left are as they were.
 * @param want  what it packs to, `bytes` of it
 */
static void check_straight(const struct wring_lossless_tier_kernels *kernels,
                           const struct trial *trial, const float *src, unsigned width,
                           uint32_t top, const uint8_t *want, size_t bytes)
{
    uint64_t n = trial->n;
    size_t gone = WRING_LOSSLESS_STRAIGHT(n) * WRING_LINE;
    uint8_t *packed = wring_test_guarded(WRING_LOSSLESS_BLOCK_ROOM(n)), kept[WRING_LINE];
    uint8_t *code = wring_test_guarded(gone + 2 * WRING_LINE); /* begins with a line */

    memset(kept, 0xA5, sizeof(kept));
    for (size_t skip = 0; skip < WRING_LINE; skip += 7) {
        memset(code, 0xA5, gone + 2 * WRING_LINE);
        memset(packed, 0x5A, WRING_LOSSLESS_BLOCK_ROOM(n));
        struct wring_lossless_far far =
            pack_beside(kernels, trial, packed, src, width, top, code + skip);
        CHECK(counts_are_right(trial, src, width, top, far), "%s counts, straight, kind=%d",
              trial->tier, trial->kind);
        memcpy(packed + WRING_LINE - skip, code + WRING_LINE, gone);
        AGREE("pack straight", want, packed, bytes);
        AGREE("the line before", kept, code, WRING_LINE);
        AGREE("the line behind", kept, code + WRING_LINE + gone, WRING_LINE);
    }
}

static void check_unpack(const struct wring_lossless_tier_kernels *kernels,
                         const struct trial *trial, const uint8_t *packed, const uint8_t *others,
                         unsigned width, uint32_t top)
{
    const struct wring_lossless_tier_kernels *ref = wring_lossless_tiers[0].kernels;
    uint64_t n = trial->n;
    float *want = wring_test_guarded(n * 4), *got = wring_test_guarded(n * 4);
    float *sum = trial_fill(n, trial->kind, 5), *other_sum = trial_copy(sum, n * 4);

    uint64_t taken = ref->unpack(want, packed, others, n, width, top);
    CHECK(kernels->unpack(got, packed, others, n, width, top) == taken, "%s n=%zu: other others",
          trial->tier, (size_t)n);
    AGREE("unpack", want, got, n * 4);
    ref->unpack_add(sum, packed, others, n, width, top);
    CHECK(kernels->unpack_add(other_sum, packed, others, n, width, top) == taken,
          "%s n=%zu: other others added", trial->tier, (size_t)n);
    AGREE_BUT_NAN("unpack_add", sum, other_sum, n);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_lossless_tier_kernels *ref = wring_lossless_tiers[0].kernels;
    const struct wring_lossless_tier_kernels *kernels =
        ((const struct wring_lossless_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed), *back = wring_test_guarded(n * 4);
    uint8_t *others = wring_test_guarded(n + WRING_LOSSLESS_SLACK);
    uint32_t peak = kernels->peak(src, n), random = trial->seed;
    uint32_t top = n % 5 ? peak >> 24 : exponent_of(src[n / 2]); /* larger ones wrap */

    CHECK(peak == largest_of(src, n), "%s n=%zu kind=%d: the peak", trial->tier, (size_t)n,
          trial->kind);
    for (size_t w = 0; w < WIDTHS; w++) {
        size_t planes = WRING_LOSSLESS_OTHERS(n, widths[w]), room = WRING_LOSSLESS_BLOCK_ROOM(n);
        uint8_t *want = wring_test_guarded(room), *got = wring_test_guarded(room);
        uint8_t *tight = wring_test_guarded(planes);
        size_t count = pack(want, others, src, n, widths[w], top);
        struct wring_lossless_far far = pack_beside(kernels, trial, got, src, widths[w], top, NULL);
        CHECK(counts_are_right(trial, src, widths[w], top, far), "%s counts n=%zu kind=%d",
              trial->tier, (size_t)n, trial->kind);
        AGREE("pack", want, got, planes + count);
        if (kernels->straight && n == WRING_LOSSLESS_BLOCK_USUAL)
            check_straight(kernels, trial, src, widths[w], top, want, planes + count);
        memcpy(tight, want, planes);
        CHECK(ref->unpack(back, tight, others, n, widths[w], top) == count, "others are lost");
        AGREE("unpacked", src, back, n * 4);
        check_unpack(kernels, trial, tight, others, widths[w], top);
        for (uint64_t i = 0; i < planes; i++) /* what no encoder writes, too */
            tight[i] = (uint8_t)wring_test_random(&random);
        check_unpack(kernels, trial, tight, others, widths[w], top / 64);
    }
}

void check_split(void)
{
    for (const struct wring_lossless_tier *tier = wring_lossless_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, WRING_LOSSLESS_BLOCK_MAX);
}
