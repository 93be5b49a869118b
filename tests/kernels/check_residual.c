/* SPDX-License-Identifier: Apache-2.0 */
/** Residuals in bf16: the scalar kernels against the definition, the other tiers against them. */
#include <float.h>
#include <math.h>

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
    const uint32_t *noise = draw_noise(n, trial->seed);
    uint16_t *want = wring_test_guarded(n * 2), *got = wring_test_guarded(n * 2);
    float *wide = wring_test_guarded(n * 4), *other = wring_test_guarded(n * 4);

    ref->narrow(want, values, n, noise);
    kernels->narrow(got, values, n, noise);
    AGREE("narrow", want, got, n * 2);
    ref->widen(wide, want, n);
    kernels->widen(other, want, n);
    AGREE("widen", wide, other, n * 4);
}

/** Over all noise that there is: both neighbours alone, and the value on the average. */
static void check_odds(float value)
{
    const struct wring_residual_kernels *kernels = wring_residual_tiers[0].kernels;
    double sum = 0;

    for (uint32_t noise = 0; noise < 65536; noise++) {
        uint16_t half;
        float wide;
        kernels->narrow(&half, &value, 1, &noise);
        kernels->widen(&wide, &half, 1);
        CHECK(fabs((double)wide - (double)value) <= fabs((double)value) * 0x1p-7, "%a becomes %a",
              (double)value, (double)wide);
        sum += (double)wide;
    }
    CHECK(fabs(sum / 65536 - (double)value) <= fabs((double)value) * 0x1p-23,
          "%a is %a on the average", (double)value, sum / 65536);
}

void check_residual(void)
{
    static const float values[] = {1, -1, 1.001f, -3.99f, 0x1.fep-100f, 0x1.8p-126f, 1e38f};

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        check_odds(values[i]);
    for (const struct wring_residual_tier *tier = wring_residual_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
