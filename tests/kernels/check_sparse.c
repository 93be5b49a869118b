/* SPDX-License-Identifier: Apache-2.0 */
/** Kernels that sparse codecs share: the scalar ones by their definition, the others by them. */
#include <math.h>

#include "compress/kernels/sparse.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static uint32_t peak_of(const float *src, const float *residual, uint64_t n)
{
    float peak = 0;

    for (uint64_t i = 0; i < n; i++) {
        float value = residual != NULL ? src[i] + residual[i] : src[i];
        if (!isfinite(value))
            return WRING_INF_BITS;
        peak = fmaxf(peak, fabsf(value));
    }
    return wring_bits_of(peak);
}

static uint32_t capped(uint32_t peak)
{
    return peak < WRING_INF_BITS ? peak : WRING_INF_BITS;
}

/** Squares are exact, and so many additions err by little. */
static void check_squares(const float *src, uint64_t n, double sum)
{
    long double whole = 0;

    for (uint64_t i = 0; i < n; i++)
        whole += (long double)src[i] * (long double)src[i];
    CHECK(!isfinite(whole) || fabsl(whole - (long double)sum) <= whole * 0x1p-40L,
          "squares n=%zu: %g", (size_t)n, sum);
}

static void check_dgc(const struct wring_sparse_kernels *kernels, const float *src,
                      const float *before, const struct trial *trial)
{
    const struct wring_sparse_kernels *ref = wring_sparse_tiers[0].kernels;
    const struct wring_sparse_step step = {0.9f, 0.3f};
    uint64_t n = trial->n;
    float *u = trial_copy(before, n * 4), *v = trial_fill(n, trial->kind, trial->seed + 2);
    float *other_u = trial_copy(u, n * 4), *other_v = trial_copy(v, n * 4);
    uint32_t want = capped(ref->foresee(u, v, src, n, step));

    CHECK(capped(kernels->foresee(u, v, src, n, step)) == want, "%s foresee n=%zu kind=%d",
          trial->tier, (size_t)n, trial->kind);
    ref->advance(u, v, src, n, step);
    kernels->advance(other_u, other_v, src, n, step);
    AGREE_BUT_NAN("momentum", u, other_u, n);
    AGREE_BUT_NAN("velocity", v, other_v, n);
    uint32_t peaks[] = {peak_of(u, NULL, n), peak_of(v, NULL, n)};
    CHECK(want == (peaks[0] > peaks[1] ? peaks[0] : peaks[1]), "%s foresees %x n=%zu kind=%d",
          trial->tier, want, (size_t)n, trial->kind);
    for (uint64_t i = 0; i < n; i++) { /* no operation is fused with the next */
        float grown = 0.9f * before[i], part = 0.3f * src[i], sum = grown + part;
        CHECK(u[i] == sum || isnan(sum), "u=%a", (double)u[i]);
    }
}

/** Maps from empty to full. */
static void check_list(const struct wring_sparse_kernels *kernels, const struct trial *trial)
{
    uint64_t words = trial->n / 64 + 1, count = 0;
    uint64_t *map = wring_test_guarded(words * sizeof(*map));
    uint16_t *got;
    uint32_t random = trial->seed + 1;

    for (uint64_t word = 0; word < words; word++) {
        map[word] = ~UINT64_C(0);
        for (unsigned halvings = (unsigned)(trial->n + word) % 9; halvings > 0; halvings--)
            map[word] &= (uint64_t)wring_test_random(&random) << 32 | wring_test_random(&random);
        count += (uint64_t)__builtin_popcountll(map[word]);
    }
    got = wring_test_guarded((count + WRING_SPARSE_SLACK) * sizeof(*got));
    CHECK(kernels->list(got, map, words) == count, "%s list of %zu words", trial->tier,
          (size_t)words);
    for (uint64_t i = 0, entry = 0; i < words * 64; i++)
        if (map[i / 64] >> i % 64 & 1)
            CHECK(got[entry++] == i, "%s list of %zu words, entry %zu", trial->tier, (size_t)words,
                  (size_t)entry);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_sparse_kernels *ref = wring_sparse_tiers[0].kernels;
    const struct wring_sparse_kernels *kernels = ((const struct wring_sparse_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *left = trial_fill(n, trial->kind, trial->seed + 1), *other = trial_copy(left, n * 4);

    CHECK(capped(kernels->peak(src, NULL, n)) == peak_of(src, NULL, n), "%s peak n=%zu kind=%d",
          trial->tier, (size_t)n, trial->kind);
    CHECK(capped(kernels->peak(src, left, n)) == peak_of(src, left, n),
          "%s peak of sums n=%zu kind=%d", trial->tier, (size_t)n, trial->kind);
    double want[] = {ref->squares(src, NULL, n), ref->squares(src, left, n)};
    double got[] = {kernels->squares(src, NULL, n), kernels->squares(src, left, n)};
    CHECK(got[0] == want[0] || (isnan(got[0]) && isnan(want[0])), "%s squares n=%zu kind=%d",
          trial->tier, (size_t)n, trial->kind);
    CHECK(got[1] == want[1] || (isnan(got[1]) && isnan(want[1])),
          "%s squares of sums n=%zu kind=%d", trial->tier, (size_t)n, trial->kind);
    check_squares(src, n, want[0]);
    check_dgc(kernels, src, left, trial);
    check_list(kernels, trial);
    ref->feed(left, src, n);
    kernels->feed(other, src, n);
    AGREE_BUT_NAN("feed", left, other, n);
}

void check_sparse(void)
{
    for (const struct wring_sparse_tier *tier = wring_sparse_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
