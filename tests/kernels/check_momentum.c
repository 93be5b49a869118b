/* SPDX-License-Identifier: Apache-2.0 */
/** Momentum: the scalar kernels against the definition, the other tiers against them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "compress/kernels/momentum.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define BETA 0.9f

/** A copy to work on. */
static float *copy_of(const float *values, uint64_t n)
{
    float *copy = wring_test_guarded(n * sizeof(*copy));

    if (n > 0)
        memcpy(copy, values, n * sizeof(*copy));
    return copy;
}

/** Kernels are given finite numbers only. */
static float *finite_fill(const struct trial *trial, uint32_t seed)
{
    float *values = trial_fill(trial->n, trial->kind, seed);

    for (uint64_t i = 0; i < trial->n; i++)
        values[i] = isfinite(values[i]) ? values[i] : FLT_MAX;
    return values;
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_momentum_kernels *ref = wring_momentum_tiers[0].kernels;
    const struct wring_momentum_kernels *kernels =
        ((const struct wring_momentum_tier *)entry)->kernels;
    uint64_t n = trial->n;
    const float *src = finite_fill(trial, trial->seed);
    const float *before = finite_fill(trial, trial->seed + 1);
    float *want = copy_of(before, n), *got = copy_of(before, n);

    ref->advance(want, src, n, BETA);
    kernels->advance(got, src, n, BETA);
    AGREE("advance", want, got, n * sizeof(*want));
    ref->look_ahead(want, src, n, BETA);
    kernels->look_ahead(got, src, n, BETA);
    AGREE("look_ahead", want, got, n * sizeof(*want));
    ref->step_back(want, src, n);
    kernels->step_back(got, src, n);
    AGREE("step_back", want, got, n * sizeof(*want));
}

static void check_definition(void)
{
    const struct wring_momentum_kernels *kernels = wring_momentum_tiers[0].kernels;
    const float src[] = {1, -2, FLT_MAX, -FLT_MAX};
    float m[] = {4, 0.5f, FLT_MAX, -FLT_MAX}, ahead[] = {4, 0.5f, FLT_MAX, -FLT_MAX};

    kernels->advance(m, src, 4, 0.5f);
    CHECK(m[0] == 3 && m[1] == -1.75f && m[2] == FLT_MAX && m[3] == -FLT_MAX,
          "advance: %g %g %g %g", (double)m[0], (double)m[1], (double)m[2], (double)m[3]);
    kernels->look_ahead(ahead, src, 4, 0.5f);
    CHECK(ahead[0] == 3.5f && ahead[1] == -2.75f && ahead[2] == FLT_MAX && ahead[3] == -FLT_MAX,
          "look_ahead: %g %g %g %g", (double)ahead[0], (double)ahead[1], (double)ahead[2],
          (double)ahead[3]);
    kernels->step_back(ahead, src, 2);
    CHECK(ahead[0] == 2.5f && ahead[1] == -0.75f, "step_back: %g %g", (double)ahead[0],
          (double)ahead[1]);
}

void check_momentum(void)
{
    check_definition();
    for (const struct wring_momentum_tier *tier = wring_momentum_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
