/* SPDX-License-Identifier: Apache-2.0 */
/** Rotations: the scalar kernels against the definition in doubles, the other tiers against them.
 */
#include <math.h>
#include <string.h>

#include "compress/kernels/rotate.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static void fill_signs(uint32_t *signs, uint32_t seed)
{
    for (unsigned i = 0; i < WRING_ROTATE_MAX / 32; i++)
        signs[i] = wring_test_random(&seed);
}

static uint64_t order_of(uint64_t n)
{
    uint64_t m = WRING_ROTATE_MIN;
    while (m < n)
        m *= 2;
    return m;
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_rotate_kernels *ref = wring_rotate_tiers[0].kernels;
    const struct wring_rotate_kernels *kernels = ((const struct wring_rotate_tier *)entry)->kernels;
    uint64_t n = trial->n, m = order_of(n);
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *residual = trial_fill(n, trial->kind, trial->seed + 1);
    float *want = wring_test_guarded(m * 4), *got = wring_test_guarded(m * 4);
    float *back = trial_copy(residual, n * 4), *other = trial_copy(residual, n * 4);
    uint32_t signs[WRING_ROTATE_MAX / 32];

    fill_signs(signs, trial->seed + 2);
    for (int fed = 0; fed < 2; fed++) {
        const float *more = fed ? residual : NULL;
        double power = ref->power(src, more, n), other_power = kernels->power(src, more, n);
        CHECK(trial_same(&power, &other_power, sizeof(power)) ||
                  (isnan(power) && isnan(other_power)),
              "%s power n=%zu kind=%d: %a, not %a", trial->tier, (size_t)n, trial->kind,
              other_power, power);
        ref->forward(want, src, more, n, signs, m);
        kernels->forward(got, src, more, n, signs, m);
        CHECK(trial_same_but_nan(want, got, m), "%s forward n=%zu kind=%d seed=%u", trial->tier,
              (size_t)n, trial->kind, trial->seed);
    }
    float *again = trial_copy(want, m * 4), *once = trial_copy(want, m * 4);
    float *more = trial_copy(want, m * 4), *much = trial_copy(want, m * 4);
    ref->back(back, again, n, signs, m);
    kernels->back(other, once, n, signs, m);
    AGREE_BUT_NAN("back", back, other, n);
    ref->back_add(back, more, n, signs, m);
    kernels->back_add(other, much, n, signs, m);
    AGREE_BUT_NAN("back_add", back, other, n);
}

static void check_definition(void)
{
    const struct wring_rotate_kernels *ref = wring_rotate_tiers[0].kernels;
    uint32_t signs[WRING_ROTATE_MAX / 32], m = 64, seed = 5;
    float x[64], y[64], back[64];

    fill_signs(signs, 9);
    for (uint32_t i = 0; i < m; i++)
        x[i] = wring_test_random_float(&seed);
    ref->forward(y, x, NULL, m, signs, m);
    double power = 0;
    for (uint32_t k = 0; k < m; k++) {
        double want = 0;
        for (uint32_t i = 0; i < m; i++) {
            int minus = __builtin_parity(i & k) ^ (int)(signs[i / 32] >> i % 32 & 1);
            want += minus ? -(double)x[i] : (double)x[i];
        }
        CHECK(fabs((double)y[k] - want) < 1e-5, "coefficient %u is %g, not %g", k, (double)y[k],
              want);
        power += (double)x[k] * (double)x[k];
    }
    CHECK(fabs(ref->power(x, NULL, m) - power) < 1e-12 * power, "another power");
    ref->back(back, y, m, signs, m);
    for (uint32_t i = 0; i < m; i++)
        CHECK(fabsf(back[i] / (float)m - x[i]) < 1e-6f, "element %u comes back as %g, not %g", i,
              (double)(back[i] / (float)m), (double)x[i]);
}

void check_rotate(void)
{
    check_definition();
    for (const struct wring_rotate_tier *tier = wring_rotate_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, WRING_ROTATE_MAX);
}
