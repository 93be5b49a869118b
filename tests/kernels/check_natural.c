/* SPDX-License-Identifier: Apache-2.0 */
/** natural: the scalar kernels against the definition in doubles, the other tiers against them. */
#include <math.h>
#include <string.h>

#include "compress/kernels/natural.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define UNIT WRING_NATURAL_UNIT

static const struct wring_natural_scale scales[] = {{1, 1}, {1, 8.0f / 9}, {0x1p-40f, 0x1p40f}};

static uint32_t *draw_noise(uint64_t n, uint32_t seed)
{
    uint64_t words = (n + WRING_NOISE_RUN - 1) / WRING_NOISE_RUN * WRING_NOISE_RUN_WORDS;
    uint32_t *noise = wring_test_guarded(words * sizeof(*noise)), random = seed;

    for (uint64_t i = 0; i < words; i++) {
        uint32_t word = wring_test_random(&random);
        noise[i] = i % 7 == 3 ? 0xFFFF0000 : i % 7 == 5 ? 0x0000FFFF : word;
    }
    return noise;
}

static const struct wring_natural_form *form_of(const void *entry, bool nine)
{
    const struct wring_natural_kernels *kernels =
        ((const struct wring_natural_tier *)entry)->kernels;
    return nine ? &kernels->nine : &kernels->eight;
}

static void check_form(const void *entry, const struct trial *trial, bool nine,
                       struct wring_natural_scale scale)
{
    const struct wring_natural_form *ref = form_of(wring_natural_tiers, nine);
    const struct wring_natural_form *form = form_of(entry, nine);
    uint64_t n = trial->n, bytes = nine ? n + n / UNIT * (UNIT / 8) + (n % UNIT + 7) / 8 : n;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1), *other = trial_copy(left, n * 4);
    float *sum = trial_copy(left, n * 4), *other_sum = trial_copy(left, n * 4);
    uint8_t *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);
    const uint32_t *noise = draw_noise(n, trial->seed);

    ref->encode(want, src, NULL, n, scale, noise);
    form->encode(got, src, NULL, n, scale, noise);
    AGREE("encode", want, got, bytes);
    ref->encode(want, src, left, n, scale, noise);
    form->encode(got, src, other, n, scale, noise);
    AGREE("feedback code", want, got, bytes);
    AGREE("feedback residual", left, other, n * 4);

    uint32_t random = trial->seed; /* codes that no encoder writes, too */
    for (uint64_t i = 0; i < bytes && trial->kind == TRIAL_ODD; i++)
        want[i] = i % 5 == 0 ? 0xFF : i % 5 == 1 ? 0x80 : (uint8_t)wring_test_random(&random);
    ref->decode(left, want, n, scale.up);
    form->decode(other, want, n, scale.up);
    AGREE("decode", left, other, n * 4);
    ref->decode_add(sum, want, n, scale.up);
    form->decode_add(other_sum, want, n, scale.up);
    AGREE_BUT_NAN("decode_add", sum, other_sum, n);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
        for (int nine = 0; nine < 2; nine++)
            check_form(entry, trial, nine, scales[i]);
}

void check_natural(void)
{
    for (const struct wring_natural_tier *tier = wring_natural_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 1024);
}

/** Over all noise that there is: the powers on either side alone, and x on the average. */
static void check_odds(const struct wring_natural_form *form, struct wring_natural_scale scale,
                       double x, double least, double largest)
{
    enum {
        DRAWS = 65536
    };
    double below = x < least ? 0 : exp2(floor(log2(x))), above = x < least ? least : 2 * below;
    double expected = 0;

    above = fmin(above, largest);
    for (uint32_t h = 0; h < DRAWS; h += 2) {
        const float src[UNIT] = {[0] = (float)x, [1] = -(float)x, [16] = (float)x};
        uint32_t noise[WRING_NOISE_RUN_WORDS] = {(h + 1) << 16 | h, h};
        uint8_t code[UNIT + UNIT / 8];
        float out[UNIT];
        form->encode(code, src, NULL, UNIT, scale, noise);
        form->decode(out, code, UNIT, scale.up);
        for (int i = 0; i < UNIT; i++) {
            double value = i == 1 ? -(double)out[i] : (double)out[i];
            CHECK(src[i] == 0 ? value == 0 : value == below || value == above,
                  "%a became %a, between %a and %a", (double)src[i], value, below, above);
        }
        expected += (double)out[0] + (double)out[16];
    }
    expected /= DRAWS;
    CHECK(x > largest ? expected == largest : fabs(expected - x) <= (above - below) * 0x1p-15,
          "%a is expected to become %a", x, expected);
}

void check_natural_odds(void)
{
    static const double parts[] = {1,     0.999,   1.5,      3e-7,     0x1.8p-126, 0x1p-127,
                                   1e-41, 0x1p-86, 0x1.3p39, 0x1.8p40, 0x1.8p126};
    const struct wring_natural_kernels *kernels = wring_natural_tiers[0].kernels;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i += trial_is_quick() ? 4 : 1) {
        check_odds(&kernels->nine, scales[0], parts[i], 0x1p-126, 0x1p127);
        check_odds(&kernels->eight, scales[2], parts[i], 0x1p-86, 0x1p40);
    }
}
