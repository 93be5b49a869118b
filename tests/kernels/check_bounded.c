/* SPDX-License-Identifier: Apache-2.0 */
/** bounded: the scalar kernels against the definition, the other tiers against them. */
#include <math.h>
#include <string.h>

#include "compress/kernels/bounded.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static const struct wring_bounded_kernels *kernels_of(const void *entry)
{
    return ((const struct wring_bounded_tier *)entry)->kernels;
}

/** Steps of all widths, not only those that an encoder would pack so. */
static int32_t *draw_steps(uint64_t n, uint32_t seed)
{
    int32_t *steps = wring_test_guarded(n * sizeof(*steps));
    uint32_t random = seed;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t word = wring_test_random(&random);
        steps[i] = i % 5 == 0 ? 0 : (int32_t)word >> (wring_test_random(&random) % 32);
    }
    return steps;
}

static void check_quantise(const void *entry, const struct trial *trial, const float *residual,
                           float inverse)
{
    const struct wring_bounded_kernels *ref = kernels_of(wring_bounded_tiers);
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed);
    int32_t *want = wring_test_guarded(n * 4), *got = wring_test_guarded(n * 4);

    struct wring_bounded_found a = ref->quantise(want, src, residual, n, inverse);
    struct wring_bounded_found b = kernels_of(entry)->quantise(got, src, residual, n, inverse);
    bool lost = a.peak >= WRING_INF_BITS;
    CHECK(lost ? b.peak >= WRING_INF_BITS : a.peak == b.peak && a.width == b.width,
          "%s n=%zu kind=%d: peak %x and width %u, not %x and %u", trial->tier, (size_t)n,
          trial->kind, b.peak, b.width, a.peak, a.width);
    if (lost)
        return;
    AGREE("steps", want, got, n * 4);
    float *left = trial_fill(n, trial->kind, trial->seed + 1), *other = trial_copy(left, n * 4);
    ref->keep(left, src, want, n, 1 / inverse);
    kernels_of(entry)->keep(other, src, want, n, 1 / inverse);
    AGREE_BUT_NAN("keep", left, other, n);
}

static void check_width(const void *entry, const struct trial *trial, unsigned width)
{
    const struct wring_bounded_kernels *ref = kernels_of(wring_bounded_tiers);
    const struct wring_bounded_kernels *kernels = kernels_of(entry);
    uint64_t n = trial->n, words = (n + 63) / 64, bytes = (n + 7) / 8 * width;
    const int32_t *steps = draw_steps(n, trial->seed + width);
    uint64_t *map = wring_test_guarded(words * 8), *other_map = wring_test_guarded(words * 8);
    uint8_t *planes = wring_test_guarded(bytes), *other_planes = wring_test_guarded(bytes);
    float *want = trial_fill(n, trial->kind, trial->seed), *got = trial_copy(want, n * 4);

    uint64_t count = ref->mark(map, steps, n, width);
    uint64_t other_count = kernels->mark(other_map, steps, n, width);
    AGREE("mark", map, other_map, words * 8);
    CHECK(count == other_count, "%s n=%zu width=%u: %zu marks, not %zu", trial->tier, (size_t)n,
          width, (size_t)other_count, (size_t)count);
    ref->pack(planes, steps, n, width);
    kernels->pack(other_planes, steps, n, width);
    AGREE("pack", planes, other_planes, bytes);
    ref->unpack_add(want, planes, n, width, 0x1.234p-5f);
    kernels->unpack_add(got, planes, n, width, 0x1.234p-5f);
    AGREE_BUT_NAN("unpack_add", want, got, n);
    ref->unpack(want, planes, n, width, 0x1.234p-5f);
    kernels->unpack(got, planes, n, width, 0x1.234p-5f);
    AGREE("unpack", want, got, n * 4);
    for (uint64_t i = 0; i < n; i++) /* those that fit come back, and no others are there */
        CHECK((map[i / 64] >> i % 64 & 1) || want[i] == (float)steps[i] * 0x1.234p-5f,
              "step %d of %u bits became %a", steps[i], width, (double)want[i]);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    static const unsigned widths[] = {0, 1, 2, 5, 8, 15, 16};
    static const float inverses[] = {0x1.8p-3f, 0x1.1p9f, 0x1.fcp28f};

    for (size_t i = 0; i < sizeof(inverses) / sizeof(inverses[0]); i++) {
        check_quantise(entry, trial, NULL, inverses[i]);
        check_quantise(entry, trial, trial_fill(trial->n, trial->kind, trial->seed + 2),
                       inverses[i]);
    }
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        check_width(entry, trial, widths[i]);
}

void check_bounded(void)
{
    for (const struct wring_bounded_tier *tier = wring_bounded_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 1024);
}

/** Which width each step needs, by counting down. */
void check_bounded_widths(void)
{
    const struct wring_bounded_kernels *ref = kernels_of(wring_bounded_tiers);
    static const struct {
        float value;
        unsigned width;
    } rows[] = {{0, 0},       {-1, 1},       {1, 2},        {-2, 2},        {2, 3},
                {-3, 3},      {127, 8},      {-128, 8},     {128, 9},       {32767, 16},
                {-32768, 16}, {32768, 17},   {0.5f, 0},     {1.5f, 3},      {-0.5f, 0},
                {2.5f, 3},    {0x1p30f, 32}, {0x1p31f, 32}, {-0x1p80f, 32}, {0x1.8p100f, 32}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int32_t step;
        uint64_t map;
        struct wring_bounded_found found = ref->quantise(&step, &rows[i].value, NULL, 1, 1);
        CHECK(found.width == rows[i].width, "%a needs %u bits, not %u", (double)rows[i].value,
              rows[i].width, found.width);
        for (unsigned width = 0; width <= WRING_BOUNDED_WIDTH_MAX; width++)
            CHECK(ref->mark(&map, &step, 1, width) == (width < rows[i].width) && map < 2,
                  "step %d and %u bits", step, width);
    }
}
