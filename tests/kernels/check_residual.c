/* SPDX-License-Identifier: Apache-2.0 */
/** Residuals in int8: the scalar kernels against the definition, the other tiers against them. */
#include <float.h>
#include <math.h>

#include "base/cpu.h"
#include "compress/kernels/residual.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define RUN 32 /* elements whose noise stands in 16 words */

static uint32_t *draw_noise(uint64_t n, uint32_t seed)
{
    uint64_t words = (n + RUN - 1) / RUN * (RUN / 2);
    uint32_t *noise = wring_test_guarded(words * sizeof(*noise)), random = seed;

    for (uint64_t i = 0; i < words; i++)
        noise[i] = wring_test_random(&random);
    return noise;
}

/** Kernels are given no NaN. */
static float *fill(const struct trial *trial)
{
    float *values = trial_fill(trial->n, trial->kind, trial->seed);

    for (uint64_t i = 0; i < trial->n; i++)
        values[i] = isnan(values[i]) ? -FLT_MAX : values[i];
    return values;
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_residual_kernels *ref = wring_residual_tiers[0].kernels;
    const struct wring_residual_kernels *kernels =
        ((const struct wring_residual_tier *)entry)->kernels;
    uint64_t n = trial->n;
    const float *values = fill(trial);
    uint32_t *noise = draw_noise(n, trial->seed);
    float *wide = wring_test_guarded(n * 4), *other = wring_test_guarded(n * 4);

    uint64_t bytes = n + (n + RUN - 1) / RUN;
    unsigned char *blocks = wring_test_guarded(bytes), *other_blocks = wring_test_guarded(bytes);
    ref->pack(blocks, values, n, noise);
    kernels->pack(other_blocks, values, n, noise);
    AGREE("pack", blocks, other_blocks, bytes);
    ref->unpack(wide, blocks, n);
    kernels->unpack(other, blocks, n);
    AGREE("unpack", wide, other, n * 4);
    for (uint64_t i = 0; i < n; i++) /* what has been packed stays as it is */
        CHECK(isfinite(wide[i]), "%s %a becomes %a", trial->tier, (double)values[i],
              (double)wide[i]);
    for (uint64_t i = 0; i < (n + RUN - 1) / RUN * (RUN / 2); i++)
        noise[i] = 0x80008000;
    kernels->pack(other_blocks, wide, n, noise);
    kernels->unpack(other, other_blocks, n);
    AGREE("packed again", wide, other, n * 4);
}

/** Over all noise that there is: both neighbours alone, and the value on the average, of a block's
 *  second element, where the first one makes the step. */
static void check_odds_of_steps(float largest, float value, float step)
{
    const struct wring_residual_kernels *kernels = wring_residual_tiers[0].kernels;
    const float values[2] = {largest, value};
    double sum = 0;

    for (uint32_t drawn = 0; drawn < 65536; drawn++) {
        const uint32_t noise[2] = {0x8000, drawn};
        unsigned char block[WRING_RESIDUAL_BLOCK_BYTES];
        float wide[2];
        kernels->pack(block, values, 2, noise);
        kernels->unpack(wide, block, 2);
        CHECK(wide[0] == largest, "%a becomes %a", (double)largest, (double)wide[0]);
        CHECK(fabs((double)wide[1] - (double)value) < (double)step, "%a becomes %a", (double)value,
              (double)wide[1]);
        sum += (double)wide[1];
    }
    CHECK(fabs(sum / 65536 - (double)value) <= (double)step * 0x1p-17, "%a is %a on the average",
          (double)value, sum / 65536);
}

/** What has no step, and what is not finite, leaves nothing, not even noise. */
static void check_no_step(float largest)
{
    const uint32_t noise[16] = {0xFFFFFFFF, 0xFFFF};
    const float values[3] = {largest, 0x1p-130f, -0.0f};
    unsigned char block[WRING_RESIDUAL_BLOCK_BYTES];
    float wide[3];

    for (const struct wring_residual_tier *tier = wring_residual_tiers; tier->head.name; tier++) {
        if (!wring_cpu_has(tier->head.tier))
            continue;
        tier->kernels->pack(block, values, 3, noise);
        tier->kernels->unpack(wide, block, 3);
        for (int i = 0; i < 3; i++)
            CHECK(wide[i] == 0 && !signbit(wide[i]), "%s: %a becomes %a", tier->head.name,
                  (double)values[i], (double)wide[i]);
    }
}

void check_residual(void)
{
    check_odds_of_steps(1, 0.3f, 0x1p-6f);
    check_odds_of_steps(127, -100.01f, 1);
    check_no_step(0x1.f8p-106f);
    check_no_step(INFINITY);
    check_odds_of_steps(0x1p-100f, 0x1.23p-101f, 0x1p-106f);
    check_odds_of_steps(127 * 0x1p121f, 0x1p127f, 0x1p121f);
    for (const struct wring_residual_tier *tier = wring_residual_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
