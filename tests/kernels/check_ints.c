/* SPDX-License-Identifier: Apache-2.0 */
/** int4 and int2: the scalar kernels against the definition in doubles, the other tiers against
 * them. */
#include <math.h>
#include <string.h>

#include "compress/kernels/ints.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define FORMS 5

/** Of 2 and 4 bits, and then of 2, 4 and 8 with minmax. */
static const struct wring_ints_form *form_of(const void *entry, size_t index)
{
    const struct wring_ints_kernels *kernels = ((const struct wring_ints_tier *)entry)->kernels;
    return index < 2 ? &kernels->absmax[index] : &kernels->minmax[index - 2];
}

static bool is_minmax(size_t index)
{
    return index >= 2;
}

static unsigned bits_of(size_t index)
{
    static const unsigned bits[FORMS] = {2, 4, 2, 4, 8};
    return bits[index];
}

static uint64_t head_of(size_t index)
{
    return is_minmax(index) ? 2 * WRING_INTS_HEAD : WRING_INTS_HEAD;
}

static uint64_t code_bytes(size_t index, uint64_t n, uint64_t block)
{
    uint64_t rest = n % block, bytes = head_of(index) + block * bits_of(index) / 8;
    return n / block * bytes + (rest > 0 ? head_of(index) + (rest * bits_of(index) + 7) / 8 : 0);
}

static void check_form(const void *entry, const struct trial *trial, size_t index, uint64_t block)
{
    const struct wring_ints_form *ref = form_of(wring_ints_tiers, index);
    const struct wring_ints_form *form = form_of(entry, index);
    uint64_t n = trial->n, bytes = code_bytes(index, n, block);
    uint64_t step_bytes = (n * bits_of(index) + 7) / 8;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1), *other = trial_copy(left, n * 4);
    float *sum = trial_copy(left, n * 4), *other_sum = trial_copy(left, n * 4);
    uint8_t *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);
    uint8_t *steps = wring_test_guarded(step_bytes);
    const struct wring_ints_scale scale = {0x1.8p-100f, is_minmax(index) ? -0x1.234p-98f : 0};
    uint32_t random = trial->seed;

    ref->encode(want, src, NULL, n, block);
    form->encode(got, src, NULL, n, block);
    AGREE("encode", want, got, bytes);
    ref->encode(want, src, left, n, block);
    form->encode(got, src, other, n, block);
    AGREE("feedback code", want, got, bytes);
    AGREE("feedback residual", left, other, n * 4);
    for (uint64_t i = 0; i < step_bytes; i++) /* all that there are, of one block */
        steps[i] = (uint8_t)wring_test_random(&random);
    ref->decode(left, steps, n, scale);
    form->decode(other, steps, n, scale);
    AGREE("decode", left, other, n * 4);
    ref->decode_add(sum, steps, n, scale);
    form->decode_add(other_sum, steps, n, scale);
    AGREE_BUT_NAN("decode_add", sum, other_sum, n);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    for (size_t index = 0; index < FORMS; index++)
        for (uint64_t block = 32; block <= 288; block *= 3)
            check_form(entry, trial, index, block);
}

void check_ints(void)
{
    for (const struct wring_ints_tier *tier = wring_ints_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 1024);
}

/** Steps that are equally far apart, from end to end; each number becomes the nearest. */
static void check_block(const float *src, uint64_t n, size_t index)
{
    const struct wring_ints_form *form = form_of(wring_ints_tiers, index);
    double most = -INFINITY, least = INFINITY, steps = (1 << bits_of(index)) - 1;
    uint8_t code[2 * WRING_INTS_HEAD + 256];
    struct wring_ints_scale scale = {0};
    float out[256];

    for (uint64_t i = 0; i < n; i++) {
        most = fmax(most, (double)src[i]);
        least = fmin(least, (double)src[i]);
    }
    if (!is_minmax(index)) {
        most = fmax(fabs(most), fabs(least));
        least = -most;
        steps -= 1; /* of an odd number of values, one is 0 */
    }
    form->encode(code, src, NULL, n, 256);
    memcpy(&scale, code, head_of(index));
    form->decode(out, code + head_of(index), n, scale);
    double apart = (most - least) / steps, ulp = fmax(fabs(most), fabs(least)) * 0x1p-22;
    double near = apart * 0.50001 + ulp;
    CHECK(fabs((double)scale.scale - apart) <= apart * 0x1p-22, "steps of %a, not %a",
          (double)scale.scale, apart);
    for (uint64_t i = 0; i < n; i++) {
        double place = ((double)out[i] - least) / apart;
        CHECK(fabs((double)out[i] - (double)src[i]) <= near, "%a became %a, steps are %a apart",
              (double)src[i], (double)out[i], apart);
        CHECK(fabs(place - round(place)) * apart < apart * 1e-4 + ulp && place > -0.5 &&
                  place < steps + 0.5,
              "%a is none of the values from %a on, %a apart", (double)out[i], least, apart);
    }
}

void check_ints_definition(void)
{
    uint32_t random = 5;

    for (int round = 0; round < (trial_is_quick() ? 20 : 500); round++) {
        uint64_t n = wring_test_random(&random) % 256 + 1;
        float size = exp2f((float)(wring_test_random(&random) % 200) - 100);
        float src[256];
        for (uint64_t i = 0; i < n; i++)
            src[i] = size * (wring_test_random_float(&random) + (round % 3 == 0 ? 0.75f : 0));
        src[n - 1] = round % 2 == 0 ? size : -size;
        if (n > 1) /* or there is nothing between the least and the largest */
            for (size_t index = 0; index < FORMS; index++)
                check_block(src, n, index);
    }
}
