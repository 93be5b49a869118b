/* SPDX-License-Identifier: Apache-2.0 */
/** Kernels that sparse codecs share: the scalar ones by their definition, the others by them. */
#include <math.h>

#include "compress/kernels/sparse.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static uint32_t peak_of(const float *src, const float *residual, uint64_t n)
{
    float peak = 0;

    for (uint64_t i = 0; i < n; i++) {
        float value = residual != NULL ? src[i] + residual[i] : src[i];
        if (!isfinite(value))
            return WRING_INF_BITS;
        peak = fmaxf(peak, fabsf(value));
    }
    return wring_bits_of(peak);
}

static uint32_t capped(uint32_t peak)
{
    return peak < WRING_INF_BITS ? peak : WRING_INF_BITS;
}

/** Squares are exact, and so many additions err by little. */
static void check_squares(const float *src, uint64_t n, double sum)
{
    long double whole = 0;

    for (uint64_t i = 0; i < n; i++)
        whole += (long double)src[i] * (long double)src[i];
    CHECK(!isfinite(whole) || fabsl(whole - (long double)sum) <= whole * 0x1p-40L,
          "squares n=%zu: %g", (size_t)n, sum);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_sparse_kernels *ref = wring_sparse_tiers[0].kernels;
    const struct wring_sparse_kernels *kernels = ((const struct wring_sparse_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1), *other = trial_copy(left, n * 4);

    CHECK(capped(kernels->peak(src, NULL, n)) == peak_of(src, NULL, n), "%s peak n=%zu kind=%d",
          trial->tier, (size_t)n, trial->kind);
    CHECK(capped(kernels->peak(src, left, n)) == peak_of(src, left, n),
          "%s peak of sums n=%zu kind=%d", trial->tier, (size_t)n, trial->kind);
    double want[] = {ref->squares(src, NULL, n), ref->squares(src, left, n)};
    double got[] = {kernels->squares(src, NULL, n), kernels->squares(src, left, n)};
    CHECK(got[0] == want[0] || (isnan(got[0]) && isnan(want[0])), "%s squares n=%zu kind=%d",
          trial->tier, (size_t)n, trial->kind);
    CHECK(got[1] == want[1] || (isnan(got[1]) && isnan(want[1])),
          "%s squares of sums n=%zu kind=%d", trial->tier, (size_t)n, trial->kind);
    check_squares(src, n, want[0]);
    ref->feed(left, src, n);
    kernels->feed(other, src, n);
    AGREE_BUT_NAN("feed", left, other, n);
}

void check_sparse(void)
{
    for (const struct wring_sparse_tier *tier = wring_sparse_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
