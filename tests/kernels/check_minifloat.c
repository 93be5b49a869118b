/* SPDX-License-Identifier: Apache-2.0 */
/** Small floats: the scalar kernels against the definition in doubles, other tiers against them. */
#include <math.h>
#include <string.h>

#include "compress/kernels/minifloat.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

/** The formats as their papers have them. */
static const struct format {
    const char *name;
    int bits, fraction, bias;
    double largest;
    uint32_t odd; /* the first code that is no number */
    uint64_t block;
} formats[WRING_MINIFLOATS] = {
    [WRING_E4M3] = {"e4m3", 8, 3, 7, 448, 0x7F, 0},
    [WRING_E5M2] = {"e5m2", 8, 2, 15, 57344, 0x7C, 0},
    [WRING_E4M3_BY_32] = {"e4m3 by 32", 8, 3, 7, 448, 0x7F, 32},
    [WRING_E5M2_BY_32] = {"e5m2 by 32", 8, 2, 15, 57344, 0x7C, 32},
    [WRING_E2M1_BY_32] = {"e2m1 by 32", 4, 1, 1, 6, 8, 32},
    [WRING_E2M1_BY_16] = {"e2m1 by 16", 4, 1, 1, 6, 8, 16},
};

/** What a code without sign stands for. */
static double number_of(const struct format *format, uint32_t code)
{
    int field = (int)(code >> format->fraction);
    double part = code & ((1u << format->fraction) - 1);
    return field == 0
               ? ldexp(part, 1 - format->bias - format->fraction)
               : ldexp(part + (1 << format->fraction), field - format->bias - format->fraction);
}

/** Words for n elements, of which some are the least and the largest. */
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

static uint64_t blocks_of(const struct format *format, uint64_t n)
{
    return format->block == 0 ? 1 : (n + format->block - 1) / format->block;
}

/** Such that the largest of a block fills the format, or in each third one is too large. */
static void find_scales(const struct format *format, const float *src, const float *residual,
                        uint64_t n, float *inverse, float *step)
{
    for (uint64_t b = 0; b < blocks_of(format, n); b++) {
        uint64_t at = b * format->block, live = format->block == 0 ? n : format->block;
        if (live > n - at)
            live = n - at;
        float peak =
            wring_float_of(wring_peak(src + at, residual == NULL ? NULL : residual + at, live));
        bool tiny = peak < 0x1p-100f;
        step[b] = tiny ? 0 : peak / (float)format->largest;
        inverse[b] = tiny ? 0 : (float)format->largest / peak * (b % 3 == 2 ? 1.4f : 1);
    }
}

/** @param left  or NULL */
static void check_encode(const struct wring_minifloat_form *ref,
                         const struct wring_minifloat_form *form, const struct trial *trial,
                         const struct format *format, const float *src, const float *left)
{
    uint64_t n = trial->n, bytes = (n * (uint64_t)format->bits + 7) / 8;
    uint64_t blocks = blocks_of(format, n);
    const uint32_t *noise = draw_noise(n, trial->seed);
    float *inverse = wring_test_guarded(blocks * 4), *step = wring_test_guarded(blocks * 4);
    uint8_t *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);

    if (wring_peak(src, left, n) >= WRING_INF_BITS)
        return; /* nobody encodes what is not finite */
    find_scales(format, src, left, n, inverse, step);
    for (int rounding = 0; rounding < WRING_ROUNDINGS; rounding++) {
        float *residual = left == NULL ? NULL : trial_copy(left, n * 4);
        float *other = left == NULL ? NULL : trial_copy(left, n * 4);
        const uint32_t *drawn = rounding == WRING_ROUND_RANDOM ? noise : NULL;
        ref->encode[rounding](want, src, residual, n, inverse, left == NULL ? NULL : step, drawn);
        form->encode[rounding](got, src, other, n, inverse, left == NULL ? NULL : step, drawn);
        AGREE(format->name, want, got, bytes);
        if (left != NULL)
            AGREE("residual", residual, other, n * 4);
    }
}

/** Of any codes, also those that no encoder writes, and any steps. */
static void check_decode(const struct wring_minifloat_form *ref,
                         const struct wring_minifloat_form *form, const struct trial *trial,
                         const struct format *format, const float *sums)
{
    static const uint32_t steps[] = {0x3F800000, WRING_NAN_BITS, 0, 0x00400000, 0x7F000000};
    uint64_t n = trial->n, bytes = (n * (uint64_t)format->bits + 7) / 8;
    uint64_t blocks = blocks_of(format, n);
    uint8_t *code = wring_test_guarded(bytes);
    float *step = wring_test_guarded(blocks * 4);
    float *want = wring_test_guarded(n * 4), *got = wring_test_guarded(n * 4);
    float *sum = trial_copy(sums, n * 4), *other = trial_copy(sums, n * 4);
    uint32_t random = trial->seed;

    for (uint64_t i = 0; i < bytes; i++)
        code[i] = i % 9 == 4 ? 0xFF : i % 9 == 5 ? 0x7C : (uint8_t)wring_test_random(&random);
    for (uint64_t b = 0; b < blocks; b++)
        step[b] = wring_float_of(steps[(b + trial->kind + n) % 5]);
    ref->decode(want, code, n, step);
    form->decode(got, code, n, step);
    AGREE("decode", want, got, n * 4);
    ref->decode_add(sum, code, n, step);
    form->decode_add(other, code, n, step);
    AGREE_BUT_NAN("decode_add", sum, other, n);
}

static void check_peaks(const struct wring_minifloat_kernels *kernels, const struct trial *trial,
                        const float *src, const float *left, uint64_t block)
{
    uint64_t n = trial->n, blocks = (n + block - 1) / block;
    uint32_t *want = wring_test_guarded(blocks * 4), *got = wring_test_guarded(blocks * 4);

    wring_minifloat_tiers[0].kernels->peaks(want, src, left, n, block);
    kernels->peaks(got, src, left, n, block);
    for (uint64_t b = 0; b < blocks; b++)
        CHECK(want[b] == got[b] || (want[b] >= WRING_INF_BITS && got[b] >= WRING_INF_BITS),
              "%s peaks of %zu, n=%zu: %x, not %x", trial->tier, (size_t)block, (size_t)n, got[b],
              want[b]);
}

/** Also of steps that are 0, or so small that the inverse is infinite. */
static void check_invert(const struct wring_minifloat_kernels *kernels, const struct trial *trial,
                         const float *src)
{
    uint64_t n = trial->n;
    float *step = trial_copy(src, n * 4);
    float *want = wring_test_guarded(n * 4), *got = wring_test_guarded(n * 4);

    for (uint64_t i = 0; i < n; i++)
        step[i] = i % 5 == 3 ? 0 : fabsf(step[i]);
    wring_minifloat_tiers[0].kernels->invert(want, step, n);
    kernels->invert(got, step, n);
    AGREE("invert", want, got, n * 4);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_minifloat_kernels *ref = wring_minifloat_tiers[0].kernels;
    const struct wring_minifloat_kernels *kernels =
        ((const struct wring_minifloat_tier *)entry)->kernels;
    float *src = trial_fill(trial->n, trial->kind, trial->seed);
    float *left = trial_fill(trial->n, trial->kind, trial->seed + 1);

    for (uint64_t block = 16; block <= 96; block += block)
        for (int fed = 0; fed < 2; fed++)
            check_peaks(kernels, trial, src, fed ? left : NULL, block);
    check_invert(kernels, trial, src);
    for (int f = 0; f < WRING_MINIFLOATS; f++) {
        check_encode(&ref->forms[f], &kernels->forms[f], trial, &formats[f], src, NULL);
        check_encode(&ref->forms[f], &kernels->forms[f], trial, &formats[f], src, left);
        check_decode(&ref->forms[f], &kernels->forms[f], trial, &formats[f], left);
    }
}

void check_minifloat(void)
{
    for (const struct wring_minifloat_tier *tier = wring_minifloat_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 1024);
}

/** The code of one number with a step of 1. */
static uint32_t encode_one(const struct wring_minifloat_form *form, const struct format *format,
                           int rounding, float x, uint32_t drawn)
{
    const uint32_t noise[WRING_NOISE_RUN_WORDS] = {drawn};
    const float one = 1;
    uint8_t code;

    form->encode[rounding](&code, &x, NULL, 1, &one, &one, noise);
    CHECK(code >> format->bits == 0, "%s: %a became %x", format->name, (double)x, code);
    return code;
}

/** The nearest of all numbers of the format; of two the one whose code is even. */
static uint32_t nearest_of(const struct format *format, double x)
{
    uint32_t best = 0;

    for (uint32_t code = 1; code < format->odd; code++) {
        double error = fabs(number_of(format, code) - x), least = fabs(number_of(format, best) - x);
        if (error < least || (error == least && code % 2 == 0))
            best = code;
    }
    return best;
}

/** Each code and its neighbours, what lies midway, and what is too large. */
static void check_numbers(const struct wring_minifloat_form *form, const struct format *format)
{
    uint32_t sign = 1u << (format->bits - 1);
    const float one = 1;

    for (uint32_t code = 0; code < format->odd; code++) {
        double number = number_of(format, code), next = number_of(format, code + 1);
        const double near[] = {number, (number + next) / 2, number * 0.75 + next * 0.25,
                               number * 0.25 + next * 0.75};
        for (int i = 0; i < 4; i++) {
            uint32_t want = nearest_of(format, near[i]);
            uint32_t got = encode_one(form, format, WRING_ROUND_EVEN, (float)near[i], 0);
            CHECK(got == want, "%s: %a became %x, not %x", format->name, near[i], got, want);
            got = encode_one(form, format, WRING_ROUND_EVEN, (float)-near[i], 0);
            CHECK(got == (want | sign), "%s: %a became %x", format->name, -near[i], got);
        }
        for (int negative = 0; negative < 2; negative++) {
            uint8_t byte = (uint8_t)(negative ? code | sign : code);
            float value;
            form->decode(&value, &byte, 1, &one);
            CHECK((double)value == (negative ? -number : number) &&
                      !signbit(value) == (negative == 0),
                  "%s: %x is %a, not %a", format->name, byte, (double)value, number);
        }
    }
    for (uint32_t code = format->odd; code < sign; code++) {
        uint8_t byte = (uint8_t)code;
        float value;
        form->decode(&value, &byte, 1, &one);
        CHECK(wring_bits_of(value) == WRING_NAN_BITS, "%s: %x is %a", format->name, code,
              (double)value);
    }
    CHECK(number_of(format, format->odd - 1) == format->largest, "%s", format->name);
    CHECK(encode_one(form, format, WRING_ROUND_EVEN, 1e9f, 0) == format->odd - 1 &&
              encode_one(form, format, WRING_ROUND_RANDOM, 1e9f, 0xFFFF) == format->odd - 1,
          "%s: what is too large", format->name);
}

/** Over all noise that there is: neighbours of x alone, and x on the average. */
static void check_odds(const struct wring_minifloat_form *form, const struct format *format,
                       double x)
{
    uint32_t below = format->odd - 1;
    double expected = 0;

    while (number_of(format, below) > x)
        below--;
    double low = number_of(format, below), high = number_of(format, below + 1);
    for (uint32_t h = 0; h < 65536; h++) {
        uint32_t code = encode_one(form, format, WRING_ROUND_RANDOM, (float)x, h);
        CHECK(code == below || (code == below + 1 && x > low), "%s: %a became %x, above is %x",
              format->name, x, code, below);
        expected += number_of(format, code) / 65536;
    }
    CHECK(fabs(expected - x) <= (high - low) * 0x1p-16, "%s: %a is expected to become %a",
          format->name, x, expected);
}

void check_minifloat_numbers(void)
{
    static const double parts[] = {1, 0.999, 0.7, 0.5, 0.3, 0.1, 0.01, 1e-4, 1e-6, 1e-8, 0};
    const struct wring_minifloat_form *forms = wring_minifloat_tiers[0].kernels->forms;

    for (int f = 0; f < WRING_MINIFLOATS; f++) {
        check_numbers(&forms[f], &formats[f]);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i += trial_is_quick() ? 4 : 1)
            check_odds(&forms[f], &formats[f], (double)(float)(formats[f].largest * parts[i]));
    }
}
