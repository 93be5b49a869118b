/* SPDX-License-Identifier: Apache-2.0 */
/** qsgd: the scalar kernels against the definition in doubles, the other tiers against them. */
#include <math.h>
#include <string.h>

#include "compress/kernels/qsgd.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static const unsigned widths[WRING_QSGD_WIDTHS] = {2, 4, 8};

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

static struct wring_qsgd_scale scale_for(const float *src, const float *residual, uint64_t n,
                                         int partition, unsigned bits)
{
    uint32_t peak = wring_peak(src, residual, n);
    float norm = wring_float_of(peak), s = (float)((1u << (bits - 1)) - 1);

    if (peak >= WRING_INF_BITS || norm < 0x1p-100f)
        return (struct wring_qsgd_scale){0, 0, 0};
    if (partition == WRING_QSGD_NATURAL)
        return (struct wring_qsgd_scale){1 / norm, norm, 0};
    return (struct wring_qsgd_scale){s * 0x1p16f / norm, norm / s, (int32_t)s * 65536};
}

static void check_form(const struct wring_qsgd_kernels *kernels, const struct trial *trial,
                       int partition, int width, const float *src, const float *left)
{
    const struct wring_qsgd_form *ref = &wring_qsgd_tiers[0].kernels->forms[partition][width];
    const struct wring_qsgd_form *form = &kernels->forms[partition][width];
    uint64_t n = trial->n, bytes = (n * widths[width] + 7) / 8;
    const uint32_t *noise = draw_noise(n, trial->seed);
    float *residual = trial_copy(left, n * 4), *other = trial_copy(left, n * 4);
    float *sum = trial_copy(left, n * 4), *other_sum = trial_copy(left, n * 4);
    uint8_t *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);
    struct wring_qsgd_scale scale = scale_for(src, NULL, n, partition, widths[width]);
    struct wring_qsgd_scale fed = scale_for(src, left, n, partition, widths[width]);

    /* nobody encodes what is not finite */
    if (wring_peak(src, NULL, n) < WRING_INF_BITS) {
        ref->encode(want, src, NULL, n, &scale, noise);
        form->encode(got, src, NULL, n, &scale, noise);
        AGREE("encode", want, got, bytes);
    }
    if (wring_peak(src, left, n) < WRING_INF_BITS) {
        ref->encode(want, src, residual, n, &fed, noise);
        form->encode(got, src, other, n, &fed, noise);
        AGREE("feedback code", want, got, bytes);
        AGREE("feedback residual", residual, other, n * 4);
    }
    uint32_t random = trial->seed; /* codes that no encoder writes, too */
    for (uint64_t i = 0; i < bytes && trial->kind >= TRIAL_HUGE; i++)
        want[i] = (uint8_t)wring_test_random(&random);
    ref->decode(residual, want, n, 0.3f);
    form->decode(other, want, n, 0.3f);
    AGREE("decode", residual, other, n * 4);
    ref->decode_add(sum, want, n, 0.3f);
    form->decode_add(other_sum, want, n, 0.3f);
    AGREE_BUT_NAN("decode_add", sum, other_sum, n);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_qsgd_kernels *ref = wring_qsgd_tiers[0].kernels;
    const struct wring_qsgd_kernels *kernels = ((const struct wring_qsgd_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1);

    for (int fed = 0; fed < 2; fed++) {
        const float *residual = fed ? left : NULL;
        uint32_t peak = ref->peak(src, residual, n), other = kernels->peak(src, residual, n);
        double squares = ref->squares(src, residual, n);
        double others = kernels->squares(src, residual, n);
        CHECK(peak == other || (peak >= WRING_INF_BITS && other >= WRING_INF_BITS),
              "%s peak n=%zu: %x, not %x", trial->tier, (size_t)n, other, peak);
        CHECK(squares == others || (!isfinite(squares) && !isfinite(others)),
              "%s squares n=%zu: %a, not %a", trial->tier, (size_t)n, others, squares);
    }
    for (int partition = 0; partition < WRING_QSGD_PARTITIONS; partition++)
        for (int width = 0; width < WRING_QSGD_WIDTHS; width++)
            check_form(kernels, trial, partition, width, src, left);
}

void check_qsgd(void)
{
    for (const struct wring_qsgd_tier *tier = wring_qsgd_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 1024);
}

/** The share of all noise that rounds x of the norm up, to a level that follows the definition. */
static void check_odds(int partition, int width, double x)
{
    const struct wring_qsgd_form *form = &wring_qsgd_tiers[0].kernels->forms[partition][width];
    unsigned bits = widths[width];
    double s = (1u << (bits - 1)) - 1, expected = 0;
    struct wring_qsgd_scale scale = {(float)(partition ? 1 : s * 65536),
                                     (float)(partition ? 1 : 1 / s), (int32_t)s * 65536};
    double below, above;

    if (partition == WRING_QSGD_LINEAR || x < exp2(1 - s)) {
        double apart = partition == WRING_QSGD_LINEAR ? 1 / s : exp2(1 - s);
        below = floor(x / apart) * apart;
        above = below + apart;
    } else {
        below = exp2(floor(log2(x)));
        above = 2 * below;
    }
    enum {
        DRAWS = 65536
    };
    for (uint32_t h = 0; h < DRAWS; h += 2) {
        const float src[32] = {[0] = (float)x, [1] = -(float)x, [16] = (float)x};
        uint32_t noise[16] = {(h + 1) << 16 | h, h};
        uint8_t code[32];
        float out[32];
        form->encode(code, src, NULL, 32, &scale, noise);
        form->decode(out, code, 32, scale.step);
        for (int i = 0; i < 32; i++) {
            double sign = i == 1 ? -1 : 1, value = sign * out[i];
            if (src[i] == 0)
                CHECK(out[i] == 0, "zero became %a", out[i]);
            else
                CHECK(fabs(value - below) < 1e-6 * above || fabs(value - above) < 1e-6 * above,
                      "%u bits, partition %d: %a became %a, between %a and %a", bits, partition, x,
                      value, below, above);
        }
        expected += (double)out[0] + (double)out[16];
    }
    expected /= DRAWS;
    CHECK(fabs(expected - x) <= (above - below) * 0x1p-15,
          "%u bits, partition %d: %a is expected to become %a", bits, partition, x, expected);
}

/** Over all noise that there is: neighbours of the value alone, and the value on the average. */
void check_qsgd_odds(void)
{
    static const double parts[] = {1,       0.999, 0.5,    0.500001, 0.75, 0.3,
                                   1.0 / 7, 0.01,  0.0158, 0.001,    1e-5};

    for (int partition = 0; partition < WRING_QSGD_PARTITIONS; partition++)
        for (int width = 0; width < WRING_QSGD_WIDTHS; width++)
            for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i += trial_is_quick() ? 4 : 1)
                check_odds(partition, width, parts[i]);
}
