/* SPDX-License-Identifier: Apache-2.0 */
/** Products of low rank: the scalar kernels against the definition, the other tiers against them.
 */
#include <math.h>
#include <string.h>

#include "compress/kernels/lowrank.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define RANK 4 /* of the definition's example */

static void check_shape(const struct wring_lowrank_kernels *kernels, const struct trial *trial,
                        struct wring_lowrank_shape shape)
{
    const struct wring_lowrank_kernels *ref = wring_lowrank_tiers[0].kernels;
    const unsigned rank = shape.rank;
    uint64_t n = shape.rows * shape.columns;
    float *src = trial_fill(n, trial->kind, trial->seed);
    float *residual = trial_fill(n, trial->kind, trial->seed + 1);
    float *q = trial_fill(rank * shape.columns, trial->kind, trial->seed + 2);
    float *p = trial_fill(rank * shape.rows, TRIAL_PLAIN, trial->seed + 3);
    float *want = wring_test_guarded(rank * (shape.rows + shape.columns) * 4);
    float *got = wring_test_guarded(rank * (shape.rows + shape.columns) * 4);
    float *dst = trial_copy(src, n * 4), *other = trial_copy(src, n * 4);

    for (int fed = 0; fed < 2; fed++) {
        ref->right(want, src, fed ? residual : NULL, shape, q);
        kernels->right(got, src, fed ? residual : NULL, shape, q);
        CHECK(trial_same_but_nan(want, got, rank * shape.rows), "%s right %u n=%zu kind=%d",
              trial->tier, rank, (size_t)trial->n, trial->kind);
        ref->left(want, src, fed ? residual : NULL, shape, p);
        kernels->left(got, src, fed ? residual : NULL, shape, p);
        CHECK(trial_same_but_nan(want, got, rank * shape.columns), "%s left %u n=%zu kind=%d",
              trial->tier, rank, (size_t)trial->n, trial->kind);
    }
    ref->product(dst, shape, p, q);
    kernels->product(other, shape, p, q);
    CHECK(trial_same_but_nan(dst, other, n), "%s product %u n=%zu kind=%d", trial->tier, rank,
          (size_t)trial->n, trial->kind);
    memcpy(other, dst, n * 4);
    ref->product_add(dst, shape, p, q);
    kernels->product_add(other, shape, p, q);
    CHECK(trial_same_but_nan(dst, other, n), "%s product_add %u n=%zu kind=%d", trial->tier, rank,
          (size_t)trial->n, trial->kind);
    memcpy(other, dst, n * 4);
    ref->keep(dst, src, shape, p, q);
    kernels->keep(other, src, shape, p, q);
    CHECK(trial_same_but_nan(dst, other, n), "%s keep %u n=%zu kind=%d", trial->tier, rank,
          (size_t)trial->n, trial->kind);
}

/** Matrices of up to 9 rows. */
static void check_tier(const void *entry, const struct trial *trial)
{
    for (unsigned rank = 1; rank <= WRING_LOWRANK_RANK_MAX; rank *= 2) {
        const struct wring_lowrank_shape shape = {trial->n % 9 + 1, trial->n, rank};
        check_shape(((const struct wring_lowrank_tier *)entry)->kernels, trial, shape);
    }
}

/** Rows of more than a page; and matrices whose product goes past the caches, but for the
 *  third, whose rows begin within lines. */
static void check_large(const struct wring_lowrank_tier *tier)
{
    static const struct wring_lowrank_shape shapes[] = {
        {19, 2051, 4}, {1025, 1040, 4}, {1100, 1003, 4}, {1025, 1040, 1}, {530, 2064, 8},
    };

    if (!wring_cpu_has(tier->head.tier))
        return;
    for (size_t i = 0; i < (trial_is_quick() ? 2 : sizeof(shapes) / sizeof(shapes[0])); i++) {
        const struct trial trial = {tier->head.name, shapes[i].columns, TRIAL_PLAIN, (uint32_t)i};
        check_shape(tier->kernels, &trial, shapes[i]);
        wring_test_free_guarded();
    }
}

static void check_definition(void)
{
    const struct wring_lowrank_kernels *ref = wring_lowrank_tiers[0].kernels;
    const struct wring_lowrank_shape shape = {2, 3, RANK};
    static const float v[] = {1, 2, 3, 4, 5, 6}, q[RANK * 3] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1},
                       p[RANK * 2] = {1, 0, 0, 1, 2, 0, 0, 0};
    static const float right[RANK * 2] = {1, 4, 2, 5, 3, 6, 6, 15},
                                    left[RANK * 3] = {1, 2, 3, 4, 5, 6, 2, 4, 6, 0, 0, 0},
                                    product[6] = {1, 0, 2, 0, 1, 0};
    float out[RANK * 3];

    ref->right(out, v, NULL, shape, q);
    CHECK(memcmp(out, right, sizeof(right)) == 0, "another product from the right");
    ref->left(out, v, NULL, shape, p);
    CHECK(memcmp(out, left, sizeof(left)) == 0, "another product from the left");
    ref->product(out, shape, p, q);
    CHECK(memcmp(out, product, sizeof(product)) == 0, "another product of low rank");
}

void check_lowrank(void)
{
    check_definition();
    for (const struct wring_lowrank_tier *tier = wring_lowrank_tiers; tier->head.name; tier++) {
        trial_sweep(&tier->head, check_tier, 300);
        check_large(tier);
    }
}
