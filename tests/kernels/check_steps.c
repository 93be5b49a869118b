/* SPDX-License-Identifier: Apache-2.0 */
/** Steps of a shared scale: the scalar kernels against the definition, the other tiers against
 * them. */
#include <math.h>
#include <string.h>

#include "compress/kernels/steps.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define SCALE 0x1.8p-6f

static void check_width(const struct wring_steps_kernels *ours, const struct trial *trial,
                        unsigned index)
{
    const struct wring_steps_width *ref = &wring_steps_tiers[0].kernels->width[index];
    const struct wring_steps_width *width = &ours->width[index];
    uint64_t n = trial->n;
    size_t bytes = n * (index + 1);
    float most = index == 0 ? 63 : 16383;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1), *other = trial_copy(left, n * 4);
    float *sum = trial_copy(left, n * 4), *other_sum = trial_copy(left, n * 4);
    unsigned char *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);

    ref->encode(want, src, NULL, n, SCALE, 1 / SCALE, most);
    width->encode(got, src, NULL, n, SCALE, 1 / SCALE, most);
    AGREE("encode", want, got, bytes);
    ref->encode(want, src, left, n, SCALE, 1 / SCALE, most);
    width->encode(got, src, other, n, SCALE, 1 / SCALE, most);
    AGREE("feedback code", want, got, bytes);
    AGREE_BUT_NAN("feedback residual", left, other, n);
    ref->decode(left, want, n, SCALE);
    width->decode(other, want, n, SCALE);
    AGREE("decode", left, other, n * 4);
    ref->decode_add(sum, want, n, SCALE);
    width->decode_add(other_sum, want, n, SCALE);
    AGREE_BUT_NAN("decode_add", sum, other_sum, n);

    uint32_t random = trial->seed; /* sums that fit, and where one does not */
    unsigned char *more = wring_test_guarded(bytes);
    for (size_t i = 0; i < bytes; i++)
        more[i] = (unsigned char)(trial->kind == TRIAL_ODD ? wring_test_random(&random) : 0);
    bool fits = ref->sum(want, more, n), other_fits = width->sum(got, more, n);
    AGREE("sum", want, got, bytes);
    CHECK(fits == other_fits, "%s sum n=%zu kind=%d", trial->tier, (size_t)n, trial->kind);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_steps_kernels *ref = wring_steps_tiers[0].kernels;
    const struct wring_steps_kernels *kernels = ((const struct wring_steps_tier *)entry)->kernels;
    float *src = trial_fill(trial->n, trial->kind, trial->seed);
    float *residual = trial_fill(trial->n, trial->kind, trial->seed + 1);

    for (int fed = 0; fed < 2; fed++) {
        uint32_t want = ref->peak(src, fed ? residual : NULL, trial->n);
        uint32_t got = kernels->peak(src, fed ? residual : NULL, trial->n);
        bool nan = want > WRING_INF_BITS && got > WRING_INF_BITS; /* whichever NaN is largest */
        CHECK(want == got || nan, "%s peak n=%zu kind=%d: %x, not %x", trial->tier,
              (size_t)trial->n, trial->kind, got, want);
    }
    for (unsigned index = 0; index < 2; index++)
        check_width(kernels, trial, index);
}

static void check_definition(void)
{
    static const float x[] = {1, -1, 2.5f, 3.5f, -0.5f, 1e9f, -INFINITY, 0};
    static const int8_t want[] = {1, -1, 2, 4, 0, 100, -100, 0};
    const struct wring_steps_width *eight = &wring_steps_tiers[0].kernels->width[0];
    int8_t code[8], most[8] = {127, 0, 0, 0, 0, 0, 0, 0}, least[8] = {-126, 0, 0, 0, 0, 0, 0, 0};
    float residual[8] = {0.25f}, out[8];

    eight->encode(code, x, NULL, 8, 1, 1, 100);
    CHECK(memcmp(code, want, sizeof(want)) == 0, "other steps than defined");
    eight->decode(out, code, 8, 0.5f);
    CHECK(out[3] == 2 && out[6] == -50, "%g and %g", (double)out[3], (double)out[6]);
    eight->encode(code, x, residual, 1, 1, 1, 100);
    CHECK(code[0] == 1 && residual[0] == 0.25f, "%d leaves %g", code[0], (double)residual[0]);
    CHECK(!eight->sum(most, code, 1), "127 and 1 fit 8 bits");
    code[0] = -2;
    CHECK(eight->sum(least, code, 1) && least[0] == -128, "-126 and -2 do not fit 8 bits");
    CHECK(wring_steps_tiers[0].kernels->peak(x, NULL, 4) == 0x40600000, "the peak is not 3.5");
}

void check_steps(void)
{
    check_definition();
    for (const struct wring_steps_tier *tier = wring_steps_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
