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
    static const float of_widths[] = {7, 63, 16383};
    size_t bytes = index == 0 ? (n + 1) / 2 : n * index;
    float most = of_widths[index];
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
}

/** Any bytes are steps. @return [bytes], half as large where sums are to fit */
static unsigned char *any_steps(const struct trial *trial, size_t bytes, uint32_t seed,
                                unsigned char mask)
{
    unsigned char *steps = wring_test_guarded(bytes);
    uint32_t random = seed;

    for (size_t i = 0; i < bytes; i++)
        steps[i] =
            (unsigned char)wring_test_random(&random) & (trial->kind == TRIAL_ODD ? 255 : mask);
    return steps;
}

/** Sums that fit, and where some do not. */
static void check_add(wring_steps_add_fn ref, wring_steps_add_fn ours, const struct trial *trial,
                      size_t sum_bytes, size_t code_bytes)
{
    unsigned char *code = any_steps(trial, code_bytes, trial->seed + 2, 0x33);
    unsigned char *want = any_steps(trial, sum_bytes, trial->seed + 3, 0x33);
    unsigned char *got = trial_copy(want, sum_bytes);

    bool fits = ref(want, code, trial->n), other_fits = ours(got, code, trial->n);
    AGREE("sum", want, got, sum_bytes);
    CHECK(fits == other_fits, "%s sum n=%zu kind=%d", trial->tier, (size_t)trial->n, trial->kind);
    CHECK(fits || trial->kind == TRIAL_ODD, "%s n=%zu: sums of small steps do not fit", trial->tier,
          (size_t)trial->n);
}

/** In place; what is behind the steps, where sums were, is nobody's. */
static void check_cut(wring_steps_cut_fn ref, wring_steps_cut_fn ours, const struct trial *trial,
                      size_t bytes)
{
    unsigned char *want = any_steps(trial, 2 * trial->n, trial->seed + 4, 0xFF);
    for (uint64_t i = 0; trial->kind == TRIAL_PLAIN && i < trial->n; i++) /* a few are beyond */
        want[2 * i + 1] = (want[2 * i + 1] & 7) == 0 ? want[2 * i + 1] : 0;
    unsigned char *got = trial_copy(want, 2 * trial->n);

    uint64_t beyond = ref(want, trial->n), other_beyond = ours(got, trial->n);
    AGREE("cut", want, got, bytes);
    CHECK(beyond == other_beyond, "%s cut n=%zu kind=%d: %zu, not %zu", trial->tier,
          (size_t)trial->n, trial->kind, (size_t)other_beyond, (size_t)beyond);
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
    for (unsigned index = 0; index < 3; index++)
        check_width(kernels, trial, index);
    uint64_t n = trial->n;
    check_add(ref->add4_to8, kernels->add4_to8, trial, n, (n + 1) / 2);
    check_add(ref->add8, kernels->add8, trial, n, n);
    check_add(ref->add16, kernels->add16, trial, 2 * n, 2 * n);
    check_add(ref->add4_to16, kernels->add4_to16, trial, 2 * n, (n + 1) / 2);
    check_add(ref->add8_to16, kernels->add8_to16, trial, 2 * n, n);
    check_cut(ref->cut_to4, kernels->cut_to4, trial, (n + 1) / 2);
    check_cut(ref->cut_to8, kernels->cut_to8, trial, n);
}

static void check_definition(void)
{
    static const float x[] = {1, -1, 2.5f, 3.5f, -0.5f, 1e9f, -INFINITY, 0};
    static const int8_t want[] = {1, -1, 2, 4, 0, 100, -100, 0};
    static const uint8_t halves[] = {0xF1, 0x42, 0x70, 0x09};
    const struct wring_steps_kernels *scalar = wring_steps_tiers[0].kernels;
    const struct wring_steps_width *eight = &scalar->width[1], *four = &scalar->width[0];
    static const int8_t cut[] = {127, -127, 127, 0, -8};
    static const uint8_t cut_again[] = {0x97, 0x07, 0x09};
    int16_t wide[] = {300, -128, 127, 0, -8}, again[] = {300, -7, 7, 0, -8};
    int8_t code[8], most[8] = {127, 0, 0, 0, 0, 0, 0, 0}, least[8] = {-126, 0, 0, 0, 0, 0, 0, 0};
    float residual[8] = {0.25f}, out[8];

    eight->encode(code, x, NULL, 8, 1, 1, 100);
    CHECK(memcmp(code, want, sizeof(want)) == 0, "other steps than defined");
    eight->decode(out, code, 8, 0.5f);
    CHECK(out[3] == 2 && out[6] == -50, "%g and %g", (double)out[3], (double)out[6]);
    eight->encode(code, x, residual, 1, 1, 1, 100);
    CHECK(code[0] == 1 && residual[0] == 0.25f, "%d leaves %g", code[0], (double)residual[0]);
    CHECK(!scalar->add8(most, code, 1), "127 and 1 fit 8 bits");
    code[0] = -2;
    CHECK(scalar->add8(least, code, 1) && least[0] == -128, "-126 and -2 do not fit 8 bits");
    CHECK(scalar->peak(x, NULL, 4) == 0x40600000, "the peak is not 3.5");
    code[3] = 0x55;
    four->encode(code, x, NULL, 7, 1, 1, 7);
    CHECK(memcmp(code, halves, 4) == 0, "other steps of 4 bits than defined");
    most[0] = 127, most[1] = -8;
    CHECK(!scalar->add4_to8(most, halves, 2) && most[1] == -9, "127 and 1 fit 8 bits");
    CHECK(scalar->cut_to8(wide, 5) == 2 && memcmp(wide, cut, 5) == 0, "8 bits saturate otherwise");
    CHECK(scalar->cut_to4(again, 5) == 2 && memcmp(again, cut_again, 3) == 0,
          "4 bits saturate otherwise");
}

void check_steps(void)
{
    check_definition();
    for (const struct wring_steps_tier *tier = wring_steps_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
