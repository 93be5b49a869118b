/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every tier of every kernel against the scalar reference: same bits for each tail and alignment,
 * on values that tell tiers apart, in buffers that end at an unmapped page.
 *
 *     test_kernels quick          fewer lengths, for emulated processors
 *     test_kernels --bench [N]    no checks: how fast each is, on N elements (default 4096)
 */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "compress/kernels/bf16.h"
#include "compress/kernels/int8.h"
#include "compress/kernels/lossless.h"
#include "compress/kernels/onebit.h"
#include "compress/kernels/reduce.h"
#include "compress/kernels/topk.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/time_kernels.h"
#include "tests/kernels/trial.h"

/** Peaks agree; of blocks that are not finite only that is promised, not the NaN's own bits. */
static bool same_peak(uint32_t a, uint32_t b)
{
    return a == b || (a >= WRING_INF_BITS && b >= WRING_INF_BITS);
}

static void check_sum(const void *entry, const struct trial *trial)
{
    const struct wring_reduce_tier *tier = entry;
    uint64_t n = trial->n;
    const void *src[5];

    for (uint32_t s = 0; s < 5; s++)
        src[s] = trial_fill(n, trial->kind, trial->seed + s);
    for (size_t n_src = 1; n_src <= 5; n_src++)
        for (float divisor = 1; divisor <= 3; divisor++) {
            float *want = trial_fill(n, TRIAL_PLAIN, 1), *got = trial_fill(n, TRIAL_PLAIN, 2);
            wring_reduce_tiers[0].kernels->sum(want, src, n_src, n, divisor);
            tier->kernels->sum(got, src, n_src, n, divisor);
            AGREE("sum", want, got, n * 4);
            const void *in_place[5];
            memcpy(in_place, src, sizeof(src));
            float *last = trial_copy(src[n_src - 1], n * 4);
            in_place[n_src - 1] = last;
            tier->kernels->sum(last, in_place, n_src, n, divisor);
            AGREE("sum in place", want, last, n * 4);
        }
}

static void sums(void)
{
    for (const struct wring_reduce_tier *tier = wring_reduce_tiers; tier->head.name != NULL; tier++)
        trial_sweep(&tier->head, check_sum, 1024);
}

static void check_narrow(const void *entry, const struct trial *trial)
{
    const struct wring_bf16_kernels *ref = wring_bf16_tiers[0].kernels;
    const struct wring_bf16_kernels *kernels = ((const struct wring_bf16_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed),
          *left = trial_fill(n, trial->kind, trial->seed + 1);
    float *other = trial_copy(left, n * 4), *sum = trial_copy(left, n * 4),
          *other_sum = trial_copy(left, n * 4);
    void *want = wring_test_guarded(n * 2), *got = wring_test_guarded(n * 2);

    ref->encode(want, src, n);
    kernels->encode(got, src, n);
    AGREE("encode", want, got, n * 2);
    ref->encode_feedback(want, src, left, n);
    kernels->encode_feedback(got, src, other, n);
    AGREE("feedback code", want, got, n * 2);
    AGREE("feedback residual", left, other, n * 4);

    uint32_t random = trial->seed; /* codes that no encoder writes, too */
    for (uint64_t i = 0; i < n && trial->kind == TRIAL_ODD; i++)
        ((uint16_t *)want)[i] = (uint16_t)wring_test_random(&random) | (i % 3 == 0 ? 0x7F80 : 0);
    ref->decode(left, want, n);
    kernels->decode(other, want, n);
    AGREE("decode", left, other, n * 4);
    ref->decode_add(sum, want, n);
    kernels->decode_add(other_sum, want, n);
    AGREE_BUT_NAN("decode_add", sum, other_sum, n);
}

static void narrow(void)
{
    for (const struct wring_bf16_tier *tier = wring_bf16_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_narrow, 1024);
}

/** Each of the upper halves with lower halves around the middle: all that rounding can meet. */
static void narrow_every_upper_half(void)
{
    static const uint32_t lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    enum {
        N = 65536
    };
    float *src = wring_test_guarded(N * 4);
    void *want = wring_test_guarded(N * 2), *got = wring_test_guarded(N * 2);

    for (size_t l = 0; l < sizeof(lower) / sizeof(lower[0]); l++) {
        for (uint32_t upper = 0; upper < N; upper++)
            wring_put_u32(&src[upper], upper << 16 | lower[l]);
        wring_bf16_tiers[0].kernels->encode(want, src, N);
        for (const struct wring_bf16_tier *tier = wring_bf16_tiers; tier->head.name; tier++) {
            if (!wring_cpu_has(tier->head.tier))
                continue;
            tier->kernels->encode(got, src, N);
            CHECK(trial_same(want, got, N * 2), "%s lower half %x", tier->head.name, lower[l]);
        }
    }
}

static void check_quant(const void *entry, const struct trial *trial)
{
    const struct wring_int8_kernels *ref = wring_int8_tiers[0].kernels;
    const struct wring_int8_kernels *kernels = ((const struct wring_int8_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed),
          *left = trial_fill(n, trial->kind, trial->seed + 1);
    float *other = trial_copy(left, n * 4), *sum = trial_copy(left, n * 4),
          *other_sum = trial_copy(left, n * 4);
    int8_t *want = wring_test_guarded(n);

    if (trial->kind == TRIAL_TIES)
        src[0] = 127; /* the others are halves: each stays midway between two steps */
    for (uint64_t block = 32; block <= 512; block *= 4) {
        float *residual = trial_copy(left, n * 4), *other_residual = trial_copy(left, n * 4);
        uint64_t bytes = n + (n + block - 1) / block * WRING_INT8_HEAD;
        uint8_t *code = wring_test_guarded(bytes), *other_code = wring_test_guarded(bytes);
        ref->encode(code, src, NULL, n, block);
        kernels->encode(other_code, src, NULL, n, block);
        AGREE("encode", code, other_code, bytes);
        ref->encode(code, src, residual, n, block);
        kernels->encode(other_code, src, other_residual, n, block);
        AGREE("feedback code", code, other_code, bytes);
        AGREE("feedback residual", residual, other_residual, n * 4);
    }
    uint32_t random = trial->seed;
    for (uint64_t i = 0; i < n; i++)
        want[i] = (int8_t)wring_test_random(&random);
    ref->decode(left, want, n, 0x1.8p-100f);
    kernels->decode(other, want, n, 0x1.8p-100f);
    AGREE("decode", left, other, n * 4);
    ref->decode_add(sum, want, n, 0x1.234p-3f);
    kernels->decode_add(other_sum, want, n, 0x1.234p-3f);
    AGREE_BUT_NAN("decode_add", sum, other_sum, n);
}

static void quant(void)
{
    for (const struct wring_int8_tier *tier = wring_int8_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_quant, 4096);
}

static void check_sign(const void *entry, const struct trial *trial)
{
    const struct wring_onebit_kernels *ref = wring_onebit_tiers[0].kernels;
    const struct wring_onebit_kernels *kernels = ((const struct wring_onebit_tier *)entry)->kernels;
    uint64_t n = trial->n, bytes = (n + 7) / 8;
    float *src = trial_fill(n, trial->kind, trial->seed),
          *left = trial_fill(n, trial->kind, trial->seed + 1);
    float *other = trial_copy(left, n * 4), *sum = trial_copy(left, n * 4),
          *other_sum = trial_copy(left, n * 4);
    uint8_t *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);

    for (int fed = 0; fed < 2; fed++) {
        const float *residual = fed ? left : NULL;
        struct wring_onebit_split split, other_split;
        float total = ref->signs(want, src, residual, n);
        float other_total = kernels->signs(got, src, residual, n);
        bool lost = !(total < wring_float_of(WRING_INF_BITS)); /* its NaN's bits are of no use */
        CHECK(lost ? !(other_total < wring_float_of(WRING_INF_BITS))
                   : trial_same(&total, &other_total, 4),
              "%s sum n=%zu kind=%d: %a, not %a", trial->tier, (size_t)n, trial->kind, other_total,
              total);
        CHECK(lost || trial_same(want, got, bytes), "%s signs n=%zu", trial->tier, (size_t)n);
        ref->signs_split(want, src, residual, n, &split);
        kernels->signs_split(got, src, residual, n, &other_split);
        if (lost)
            continue;
        AGREE("signs_split", want, got, bytes);
        CHECK(trial_same(&split.positive, &other_split.positive, 4) &&
                  trial_same(&split.negative, &other_split.negative, 4) &&
                  split.negatives == other_split.negatives,
              "%s split sums n=%zu kind=%d", trial->tier, (size_t)n, trial->kind);
    }
    if (trial->kind != TRIAL_ODD) { /* finite blocks only come this far */
        ref->keep(left, src, n, 0.25f, -0.5f);
        kernels->keep(other, src, n, 0.25f, -0.5f);
        AGREE("keep", left, other, n * 4);
    }
    ref->spread(left, want, n, 0.25f, -0.5f);
    kernels->spread(other, want, n, 0.25f, -0.5f);
    AGREE("spread", left, other, n * 4);
    ref->spread_add(sum, want, n, 0.25f, -0.5f);
    kernels->spread_add(other_sum, want, n, 0.25f, -0.5f);
    AGREE_BUT_NAN("spread_add", sum, other_sum, n);
}

static void sign(void)
{
    for (const struct wring_onebit_tier *tier = wring_onebit_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_sign, 65536);
}

static uint64_t count_marks(const uint64_t *map, uint64_t n)
{
    uint64_t count = 0;
    for (uint64_t word = 0; word < WRING_TOPK_WORDS(n); word++)
        count += (uint64_t)__builtin_popcountll(map[word]);
    return count;
}

static int downward(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/** The magnitudes of some ranks against those of a sorted copy. */
static void check_rank(const void *entry, const struct trial *trial)
{
    const struct wring_topk_tier *tier = entry;
    uint64_t n = trial->n, ranks[] = {1, (n + 99) / 100, n / 2 + 1, n};
    float *src = trial_fill(n, trial->kind, trial->seed),
          *left = trial_fill(n, trial->kind, trial->seed + 1);
    uint32_t *sorted = wring_test_guarded(n * sizeof(*sorted));

    for (int fed = 0; fed < 2; fed++) {
        for (uint64_t i = 0; i < n; i++)
            sorted[i] = wring_magnitude(wring_fed(src, fed ? left : NULL, i));
        qsort(sorted, n, sizeof(*sorted), downward);
        for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
            uint32_t got = tier->kernels->rank(src, fed ? left : NULL, n, ranks[r]);
            uint32_t want = sorted[ranks[r] - 1];
            CHECK(same_peak(got, want), "%s rank %zu of %zu kind=%d: %#x, not %#x", trial->tier,
                  (size_t)ranks[r], (size_t)n, trial->kind, got, want);
        }
    }
}

static void check_pick_at(const struct wring_topk_kernels *kernels, const struct trial *trial,
                          uint32_t threshold, bool fed)
{
    const struct wring_topk_kernels *ref = wring_topk_tiers[0].kernels;
    uint64_t n = trial->n, words = WRING_TOPK_WORDS(n);
    float *src = trial_fill(n, trial->kind, trial->seed),
          *left = trial_fill(n, trial->kind, trial->seed + 1);
    float *other = trial_copy(left, n * 4);
    uint64_t *map = wring_test_guarded(words * 8), *other_map = wring_test_guarded(words * 8);

    struct wring_topk_found want = ref->mark(map, src, fed ? left : NULL, n, threshold);
    struct wring_topk_found got = kernels->mark(other_map, src, fed ? left : NULL, n, threshold);
    uint64_t count = count_marks(map, n);
    CHECK(same_peak(got.peak, want.peak), "%s peak n=%zu kind=%d", trial->tier, (size_t)n,
          trial->kind);
    AGREE("mark", map, other_map, words * 8);
    CHECK(want.count == count && got.count == count, "%s count n=%zu kind=%d", trial->tier,
          (size_t)n, trial->kind);
    if (want.peak >= WRING_INF_BITS)
        return;

    void *value = wring_test_guarded(count * 4), *other_value = wring_test_guarded(count * 4);
    void *index = wring_test_guarded(count * 2), *other_index = wring_test_guarded(count * 2);
    ref->gather(value, index, map, src, fed ? left : NULL, n);
    kernels->gather(other_value, other_index, map, src, fed ? left : NULL, n);
    AGREE("gather values", value, other_value, count * 4);
    AGREE("gather indices", index, other_index, count * 2);
    ref->retain(left, src, map, n);
    kernels->retain(other, src, map, n);
    AGREE("retain", left, other, n * 4);
}

static void check_pick(const void *entry, const struct trial *trial)
{
    static const float thresholds[] = {0x1p-149f, 0x1p-128f, 0.01f, 0.5f, 0.99f, 0x1p127f};
    const struct wring_topk_tier *tier = entry;

    for (size_t t = 0; t < sizeof(thresholds) / sizeof(thresholds[0]); t++)
        for (int fed = 0; fed < 2; fed++)
            check_pick_at(tier->kernels, trial, wring_bits_of(thresholds[t]), fed);
}

static void pick(void)
{
    for (const struct wring_topk_tier *tier = wring_topk_tiers; tier->head.name; tier++) {
        trial_sweep(&tier->head, check_rank, trial_is_quick() ? 4096 : 65536);
        trial_sweep(&tier->head, check_pick, trial_is_quick() ? 4096 : 65536);
    }
}

/** The tests mean little if the tables hold the reference alone, where there is more. */
static void tiers_are_there(void)
{
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        const struct wring_kernel_tier *got =
            wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), tier);
        CHECK(got->tier <= (enum wring_cpu_tier)tier && wring_cpu_has(got->tier), "tier %d", tier);
        printf("up to %s: %s\n", wring_cpu_tier_name(tier), got->name);
    }
#ifdef WRING_ARCH_X86
    enum wring_cpu_tier here = wring_cpu_best();
    const struct wring_kernel_tier *sum =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), WRING_CPU_AVX512);
    const struct wring_kernel_tier *split =
        wring_kernels_pick(wring_lossless_tiers, sizeof(wring_lossless_tiers[0]), WRING_CPU_VBMI2);
    CHECK(sum->tier == (here == WRING_CPU_VBMI2 ? WRING_CPU_AVX512 : here) && split->tier == here,
          "this processor has %s, the best of tables are %s and %s", wring_cpu_tier_name(here),
          sum->name, split->name);
#endif
}

static const struct wring_test_case cases[] = {
    {"tiers_are_there", tiers_are_there},
    {"sums", sums},
    {"narrow", narrow},
    {"narrow_every_upper_half", narrow_every_upper_half},
    {"sparse", check_sparse},
    {"half", check_half},
    {"half_every_code", check_half_every_code},
    {"half_rounding", check_half_rounding},
    {"half_in_any_mode", check_half_in_any_mode},
    {"quant", quant},
    {"long", check_long},
    {"sign", sign},
    {"split", check_split},
    {"delta", check_delta},
    {"split16", check_split16},
    {"lowrank", check_lowrank},
    {"rotate", check_rotate},
    {"steps", check_steps},
    {"votes", check_votes},
    {"pick", pick},
    {"philox", check_philox},
    {"qsgd", check_qsgd},
    {"qsgd_odds", check_qsgd_odds},
    {"natural", check_natural},
    {"natural_odds", check_natural_odds},
    {"ints", check_ints},
    {"ints_definition", check_ints_definition},
    {"casts", check_casts},
    {"casts_odds", check_casts_odds},
    {"bounded", check_bounded},
    {"bounded_widths", check_bounded_widths},
    {"minifloat", check_minifloat},
    {"minifloat_numbers", check_minifloat_numbers},
    {"momentum", check_momentum},
    {"residual", check_residual},
    {0},
};

static int bench(const char *elems)
{
    uint64_t mode = wring_fp_enter();
    int code = bench_run(elems != NULL ? strtoull(elems, NULL, 10) : 4096);
    wring_fp_leave(mode);
    return code;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench(argv[2]);
    if (argc > 1 && strcmp(argv[1], "quick") == 0) {
        trial_be_quick();
        argc--, argv++;
    }
    return wring_test_main_in_mode(argc, argv, cases);
}
