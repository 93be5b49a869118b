/* SPDX-License-Identifier: Apache-2.0 */
/** bf16 and fp16 rounded at random: the scalar kernels against the definition, the other tiers
 * against them. */
#include <math.h>
#include <string.h>

#include "compress/kernels/bf16.h"
#include "compress/kernels/fp16.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define RUN WRING_NOISE_RUN

typedef void (*encode_fn)(void *code, const float *src, float *residual, uint64_t n,
                          const uint32_t *noise, uint32_t top, bool far);

static uint32_t *draw_noise(uint64_t n, uint32_t seed)
{
    uint64_t words = (n + RUN - 1) / RUN * WRING_NOISE_RUN_WORDS;
    uint32_t *noise = wring_test_guarded(words * sizeof(*noise)), random = seed;

    for (uint64_t i = 0; i < words; i++) {
        uint32_t word = wring_test_random(&random);
        noise[i] = i % 7 == 3 ? 0xFFFF0000 : i % 7 == 5 ? 0x0000FFFF : word;
    }
    return noise;
}

static void check_encode(encode_fn ref, encode_fn encode, const struct trial *trial, uint32_t top)
{
    static _Alignas(64) unsigned char lines[2 * 4096];
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1), *other = trial_copy(left, n * 4);
    void *want = wring_test_guarded(n * 2), *got = wring_test_guarded(n * 2);
    const uint32_t *noise = draw_noise(n, trial->seed);

    ref(want, src, NULL, n, noise, top, false);
    encode(got, src, NULL, n, noise, top, false);
    AGREE("encode_random", want, got, n * 2);
    if (n * 2 <= sizeof(lines)) {
        encode(lines, src, NULL, n, noise, top, true);
        AGREE("encode_random, past the caches", want, lines, n * 2);
    }
    ref(want, src, left, n, noise, top, false);
    encode(got, src, other, n, noise, top, false);
    AGREE("random feedback code", want, got, n * 2);
    AGREE("random feedback residual", left, other, n * 4);
}

static void check_bf16(const void *entry, const struct trial *trial)
{
    check_encode(wring_bf16_tiers[0].kernels->encode_random,
                 ((const struct wring_bf16_tier *)entry)->kernels->encode_random, trial,
                 WRING_BF16_LARGEST);
}

static void check_fp16(const void *entry, const struct trial *trial)
{
    static const uint32_t tops[] = {WRING_FP16_SATURATE, WRING_FP16_OVERFLOW};

    for (int t = 0; t < 2; t++)
        check_encode(wring_fp16_tiers[0].kernels->encode_random,
                     ((const struct wring_fp16_tier *)entry)->kernels->encode_random, trial,
                     tops[t]);
}

void check_casts(void)
{
    for (const struct wring_bf16_tier *tier = wring_bf16_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_bf16, 1024);
    for (const struct wring_fp16_tier *tier = wring_fp16_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_fp16, 1024);
}

/** A format: how many bits its fractions have, and the exponent of its least normal number. */
struct format {
    const char *name;
    encode_fn encode;
    void (*decode)(float *dst, const void *code, uint64_t n);
    uint32_t top;
    int fraction, least;
    double largest;
};

/** Over all noise that there is: the numbers on either side alone, and x on the average. */
static void check_odds(const struct format *format, double x)
{
    enum {
        DRAWS = 65536
    };
    int exponent = x < ldexp(1, format->least) ? format->least : ilogb(x);
    double ulp = ldexp(1, exponent - format->fraction), below = floor(x / ulp) * ulp;
    double above = fmin(below == x ? x : below + ulp, format->largest), expected = 0;

    for (uint32_t h = 0; h < DRAWS; h += 2) {
        const float src[RUN] = {[0] = (float)x, [1] = -(float)x, [16] = (float)x};
        uint32_t noise[WRING_NOISE_RUN_WORDS] = {(h + 1) << 16 | h, h};
        uint16_t code[RUN];
        float out[RUN];
        format->encode(code, src, NULL, RUN, noise, format->top, false);
        format->decode(out, code, RUN);
        for (int i = 0; i < RUN; i++) {
            double value = i == 1 ? -(double)out[i] : (double)out[i];
            CHECK(src[i] == 0 ? value == 0 : value == below || value == above,
                  "%s: %a became %a, between %a and %a", format->name, (double)src[i], value, below,
                  above);
        }
        expected += (double)out[0] + (double)out[16];
    }
    expected /= DRAWS;
    CHECK(x > format->largest ? expected == format->largest : fabs(expected - x) <= ulp * 0x1p-13,
          "%s: %a is expected to become %a", format->name, x, expected);
}

void check_casts_odds(void)
{
    const struct format formats[] = {
        {"bf16", wring_bf16_tiers[0].kernels->encode_random, wring_bf16_tiers[0].kernels->decode,
         WRING_BF16_LARGEST, 7, -126, 0x1.fep127},
        {"fp16", wring_fp16_tiers[0].kernels->encode_random, wring_fp16_tiers[0].kernels->decode,
         WRING_FP16_SATURATE, 10, -14, 65504},
    };
    static const double values[] = {1,       0.999, 1.5,     1.0 / 3,       0x1.fffffep-15, 0x1p-14,
                                    0x1p-25, 3e-7,  0x1p-30, 0x1.234p-128,  0x1p-149,       65503.5,
                                    65519,   65520, 1e30,    0x1.fffffep127};

    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i += trial_is_quick() ? 4 : 1)
            check_odds(&formats[f], (double)(float)values[i]);
}
