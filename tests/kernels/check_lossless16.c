/* SPDX-License-Identifier: Apache-2.0 */
/** Packing elements of 16 bits: the scalar kernels give back each bit, the other tiers do as they.
 */
#include <string.h>

#include "compress/kernels/lossless16.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static const struct wring_lossless16_form forms[] = {
    {0, WRING_LOSSLESS_BLOCK_NARROW, 0},
    {0, WRING_LOSSLESS_BLOCK_WIDE, 0},
    {WRING_LOSSLESS16_F16, WRING_LOSSLESS_BLOCK_NARROW, 0},
    {WRING_LOSSLESS16_F16, WRING_LOSSLESS_BLOCK_WIDE, 0},
};

/** The upper halves of floats, every fourth of any bits. */
static uint16_t *fill(const struct trial *trial)
{
    float *wide = trial_fill(trial->n, trial->kind, trial->seed);
    uint16_t *src = wring_test_guarded(trial->n * sizeof(*src));
    uint32_t random = trial->seed + 1;

    for (uint64_t i = 0; i < trial->n; i++)
        src[i] = (uint16_t)(wring_test_random(&random) % 4 == 0 ? wring_test_random(&random)
                                                                : wring_bits_of(wide[i]) >> 16);
    return src;
}

static uint32_t exponent_of(uint16_t bits, unsigned fraction)
{
    return (bits & 0x7FFFu) >> (7 + fraction);
}

/** What packing says of a block, counted straight from what it means. */
static bool counts_are_right(const uint16_t *src, uint64_t n, struct wring_lossless16_form form,
                             struct wring_lossless_far far)
{
    uint32_t narrow = 0, wide = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t distance =
            (form.top - exponent_of(src[i], form.fraction)) % (256u >> form.fraction);
        narrow += distance >= 7;
        wide += distance >= 15;
    }
    return far.narrow == narrow && far.wide == wide;
}

static void check_unpack(const struct wring_lossless16_tier_kernels *kernels,
                         const struct trial *trial, const uint8_t *packed, const uint8_t *others,
                         uint64_t count, struct wring_lossless16_form form)
{
    const struct wring_lossless16_tier_kernels *ref = wring_lossless16_tiers[0].kernels;
    uint64_t n = trial->n;
    uint16_t *want = wring_test_guarded(n * 2), *got = wring_test_guarded(n * 2);

    uint64_t taken = ref->unpack(want, packed, others, count, n, form);
    CHECK(kernels->unpack(got, packed, others, count, n, form) == taken, "%s n=%zu: other others",
          trial->tier, (size_t)n);
    AGREE("unpack of 16 bits", want, got, n * 2);
}

static void check_form(const struct wring_lossless16_tier_kernels *kernels,
                       const struct trial *trial, const uint16_t *src,
                       struct wring_lossless16_form form)
{
    const struct wring_lossless16_tier_kernels *ref = wring_lossless16_tiers[0].kernels;
    uint64_t n = trial->n;
    size_t planes = WRING_LOSSLESS16_OTHERS(n, form), room = WRING_LOSSLESS16_ROOM(n);
    uint8_t *want = wring_test_guarded(room), *got = wring_test_guarded(room);
    uint8_t *tight = wring_test_guarded(planes);
    uint16_t *back = wring_test_guarded(n * 2);
    uint32_t random = trial->seed;

    ref->pack(want, src, n, form);
    struct wring_lossless_far far = kernels->pack(got, src, n, form);
    uint64_t count = form.width == WRING_LOSSLESS_BLOCK_NARROW ? far.narrow : far.wide;
    CHECK(counts_are_right(src, n, form, far), "%s counts of 16 bits n=%zu kind=%d", trial->tier,
          (size_t)n, trial->kind);
    AGREE("pack of 16 bits", want, got, planes + count);
    uint8_t *others = trial_copy(want + planes, count);
    memcpy(tight, want, planes);
    CHECK(ref->unpack(back, tight, others, count, n, form) == count, "others are lost");
    AGREE("unpacked 16 bits", src, back, n * 2);
    check_unpack(kernels, trial, tight, others, count, form);
    for (uint64_t i = 0; i < planes; i++) /* what no encoder writes, too */
        tight[i] = (uint8_t)wring_test_random(&random);
    check_unpack(kernels, trial, tight, others, count, form);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_lossless16_tier_kernels *kernels =
        ((const struct wring_lossless16_tier *)entry)->kernels;
    uint16_t *src = fill(trial);
    uint32_t largest = 0;

    for (uint64_t i = 0; i < trial->n; i++)
        largest = (uint16_t)(src[i] << 1) > largest ? (uint16_t)(src[i] << 1) : largest;
    CHECK(kernels->peak(src, trial->n) == largest, "%s n=%zu kind=%d: the peak of 16 bits",
          trial->tier, (size_t)trial->n, trial->kind);
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        struct wring_lossless16_form form = forms[f];
        form.top = trial->n % 5 ? largest >> 8 >> form.fraction
                                : exponent_of(src[trial->n / 2], form.fraction);
        check_form(kernels, trial, src, form);
    }
}

void check_split16(void)
{
    for (const struct wring_lossless16_tier *tier = wring_lossless16_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, WRING_LOSSLESS_BLOCK_MAX);
}
