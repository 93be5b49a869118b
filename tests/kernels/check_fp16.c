/* SPDX-License-Identifier: Apache-2.0 */
/** binary16: the scalar kernels against the definition in doubles, the other tiers against them. */
#include <math.h>
#include <string.h>

#include "base/fpenv.h"
#include "compress/kernels/fp16.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define CODES 65536

static const uint32_t tops[] = {WRING_FP16_SATURATE, WRING_FP16_OVERFLOW};
#define TOPS (sizeof(tops) / sizeof(tops[0]))

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_fp16_kernels *ref = wring_fp16_tiers[0].kernels;
    const struct wring_fp16_kernels *kernels = ((const struct wring_fp16_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1);
    float *other = trial_copy(left, n * 4), *sum = trial_copy(left, n * 4);
    float *other_sum = trial_copy(left, n * 4);
    void *want = wring_test_guarded(n * 2), *got = wring_test_guarded(n * 2);

    for (size_t t = 0; t < TOPS; t++) {
        ref->encode(want, src, n, tops[t]);
        kernels->encode(got, src, n, tops[t]);
        AGREE("encode", want, got, n * 2);
    }
    ref->encode_feedback(want, src, left, n);
    kernels->encode_feedback(got, src, other, n);
    AGREE("feedback code", want, got, n * 2);
    AGREE("feedback residual", left, other, n * 4);

    uint32_t random = trial->seed; /* codes that no encoder writes, too */
    for (uint64_t i = 0; i < n && trial->kind == TRIAL_ODD; i++)
        ((uint16_t *)want)[i] = (uint16_t)wring_test_random(&random) | (i % 3 == 0 ? 0x7C00 : 0);
    ref->decode(left, want, n);
    kernels->decode(other, want, n);
    AGREE("decode", left, other, n * 4);
    ref->decode_add(sum, want, n);
    kernels->decode_add(other_sum, want, n);
    AGREE_BUT_NAN("decode_add", sum, other_sum, n);
}

void check_half(void)
{
    for (const struct wring_fp16_tier *tier = wring_fp16_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 1024);
}

/** What binary16 bits mean, by the standard's formula. */
static double meaning(uint32_t code)
{
    double fraction = code & 0x3FF, sign = code & 0x8000 ? -1 : 1;
    int exponent = (int)(code >> 10 & 31);
    if (exponent == 31)
        return fraction == 0 ? sign * (double)INFINITY : (double)NAN;
    return exponent == 0 ? sign * ldexp(fraction, -24)
                         : sign * ldexp(1024 + fraction, exponent - 25);
}

/** Every code decodes to what it means, and every finite one encodes to itself. */
void check_half_every_code(void)
{
    uint16_t *codes = wring_test_guarded(CODES * 2), *back = wring_test_guarded(CODES * 2);
    float *values = wring_test_guarded(CODES * 4);
    for (uint32_t c = 0; c < CODES; c++)
        codes[c] = (uint16_t)c;

    for (const struct wring_fp16_tier *tier = wring_fp16_tiers; tier->head.name; tier++) {
        if (!wring_cpu_has(tier->head.tier))
            continue;
        tier->kernels->decode(values, codes, CODES);
        tier->kernels->encode(back, values, CODES, WRING_FP16_OVERFLOW);
        for (uint32_t c = 0; c < CODES; c++) {
            double want = meaning(c);
            bool finite = isfinite(want) != 0;
            CHECK(isnan(want) ? wring_bits_of(values[c]) == WRING_NAN_BITS
                              : (double)values[c] == want && !signbit(values[c]) == !signbit(want),
                  "%s: code %x is %a, not %a", tier->head.name, c, values[c], want);
            CHECK(back[c] == (finite ? c : WRING_FP16_NAN), "%s: %x came back as %x",
                  tier->head.name, c, back[c]);
        }
    }
}

/** The nearest binary16 in doubles, where everything here is exact; ties to even. */
static double nearest(double value)
{
    int exponent;
    frexp(value, &exponent); /* |value| = f 2^exponent, f in [1/2, 1) */
    double step = ldexp(1, (exponent < -13 ? -13 : exponent) - 11);
    double rounded = nearbyint(value / step) * step;
    return fabs(rounded) < 65536 ? rounded : copysign(INFINITY, value);
}

static void check_nearest(const float *values, const uint16_t *codes, uint32_t n, uint32_t top)
{
    for (uint32_t i = 0; i < n; i++) {
        double want = nearest(values[i]);
        if (isinf(want) && top == WRING_FP16_SATURATE)
            want = copysign(65504, values[i]);
        bool finite = isfinite(values[i]) != 0;
        CHECK(finite ? meaning(codes[i]) == want && codes[i] >> 15 == !!signbit(values[i])
                     : codes[i] == WRING_FP16_NAN,
              "%a became %x, not %a", values[i], codes[i], want);
    }
}

/** Each of the upper halves with lower halves around all ties: whatever rounding can meet. */
void check_half_rounding(void)
{
    static const uint32_t lower[] = {0,      1,      0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000,
                                     0x3000, 0x4000, 0x7FFF, 0x8000, 0x8001, 0xF000, 0xFFFF};
    float *values = wring_test_guarded(CODES * 4);
    uint16_t *want = wring_test_guarded(CODES * 2), *got = wring_test_guarded(CODES * 2);

    for (size_t l = 0; l < TOPS * sizeof(lower) / sizeof(lower[0]); l++) {
        uint32_t top = tops[l % TOPS];
        for (uint32_t upper = 0; upper < CODES; upper++)
            values[upper] = wring_float_of(upper << 16 | lower[l / TOPS]);
        wring_fp16_tiers[0].kernels->encode(want, values, CODES, top);
        check_nearest(values, want, CODES, top);
        for (const struct wring_fp16_tier *tier = wring_fp16_tiers + 1; tier->head.name; tier++) {
            if (!wring_cpu_has(tier->head.tier))
                continue;
            tier->kernels->encode(got, values, CODES, top);
            CHECK(trial_same(want, got, CODES * 2), "%s lower half %x", tier->head.name,
                  lower[l / TOPS]);
        }
    }
}

#if defined(__x86_64__)
static void set_odd_mode(void)
{
    _mm_setcsr(WRING_MXCSR_DEFAULT | 0x8040u | 0x4000u); /* flush, and round up */
}
#else
static void set_odd_mode(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)(1u << 24 | 1u << 22)));
}
#endif

/** Converting does not even need the library's floating-point mode. */
void check_half_in_any_mode(void)
{
    if (trial_is_quick()) {
        puts("not on an emulated processor: QEMU 7.2 flushes in conversions, processors do not");
        return;
    }
    uint16_t *codes = wring_test_guarded(CODES * 2), *want = wring_test_guarded(CODES * 2);
    float *values = wring_test_guarded(CODES * 4), *wide = wring_test_guarded(CODES * 4);
    for (uint32_t i = 0; i < CODES; i++)
        values[i] = wring_float_of(i << 16 | (i * 40503 & 0xFFFF));
    wring_fp16_tiers[0].kernels->encode(want, values, CODES, WRING_FP16_OVERFLOW);
    for (uint32_t i = 0; i < CODES; i++)
        want[i] ^= (uint16_t)(i * 40503); /* all kinds of codes */
    wring_fp16_tiers[0].kernels->decode(wide, want, CODES);

    for (const struct wring_fp16_tier *tier = wring_fp16_tiers; tier->head.name; tier++) {
        if (!wring_cpu_has(tier->head.tier) || tier->head.tier == WRING_CPU_NEON)
            continue; /* Arm rounds as the mode says, which is the library's wherever kernels run */
        float *got = wring_test_guarded(CODES * 4);
        uint16_t *plain = wring_test_guarded(CODES * 2);
        wring_fp16_tiers[0].kernels->encode(plain, values, CODES, WRING_FP16_SATURATE);
        set_odd_mode();
        tier->kernels->decode(got, want, CODES);
        tier->kernels->encode(codes, values, CODES, WRING_FP16_SATURATE);
        (void)wring_fp_enter(); /* the usual mode again */
        CHECK(trial_same(got, wide, CODES * 4), "%s: the mode changes decoding", tier->head.name);
        CHECK(trial_same(codes, plain, CODES * 2), "%s: the mode changes encoding",
              tier->head.name);
    }
}
