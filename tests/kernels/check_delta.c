/* SPDX-License-Identifier: Apache-2.0 */
/** Words that differ from a base: the scalar kernels give them back, the other tiers do as they. */
#include <string.h>

#include "compress/kernels/delta.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

/** Another word in one of `every` places, by any difference. */
static uint16_t *change(const uint16_t *base, uint64_t n, uint32_t every, uint32_t seed)
{
    uint16_t *now = trial_copy(base, n * sizeof(*base));
    uint32_t random = seed;

    for (uint64_t i = 0; i < n; i++)
        if (wring_test_random(&random) % every == 0)
            now[i] = (uint16_t)(now[i] + (wring_test_random(&random) >> (random % 16 + 16)));
    return now;
}

static void check_changes(const struct wring_delta_tier_kernels *kernels, const struct trial *trial,
                          const uint16_t *base, const uint16_t *now)
{
    const struct wring_delta_tier_kernels *ref = wring_delta_tiers[0].kernels;
    uint64_t n = trial->n, map[2][WRING_DELTA_MAP];
    size_t room = (n + WRING_DELTA_SLACK) * sizeof(uint16_t);
    size_t few = (WRING_DELTA_FEW + WRING_DELTA_SLACK) * sizeof(uint16_t);
    uint16_t *want = wring_test_guarded(room), *got = wring_test_guarded(room);
    uint16_t *places = wring_test_guarded(few), *other_places = wring_test_guarded(few);
    uint16_t *out = wring_test_guarded(n * 2), *in_place = trial_copy(base, n * 2);

    uint32_t count = ref->compare(map[0], want, places, base, now, n);
    CHECK(kernels->compare(map[1], got, other_places, base, now, n) == count, "%s n=%zu: count",
          trial->tier, (size_t)n);
    uint32_t listed = count < WRING_DELTA_FEW ? count : WRING_DELTA_FEW;
    AGREE("map of changes", map[0], map[1], sizeof(map[0]));
    AGREE("steps", want, got, count * sizeof(*want));
    AGREE("places", places, other_places, listed * sizeof(*places));
    ref->apply(out, base, map[0], want, n);
    AGREE("stepped back", now, out, n * 2);
    memset(out, 0xA5, n * 2);
    kernels->apply(out, base, map[0], want, n);
    AGREE("stepped", now, out, n * 2);
    kernels->apply(in_place, in_place, map[0], want, n);
    AGREE("stepped in place", now, in_place, n * 2);
}

static void check_tier(const void *entry, const struct trial *trial)
{
    static const uint32_t shares[] = {1000, 43, 5, 1};
    const struct wring_delta_tier_kernels *kernels =
        ((const struct wring_delta_tier *)entry)->kernels;
    uint16_t *base = wring_test_guarded(trial->n * 2);

    if (trial->kind > TRIAL_TIES) /* what words mean does not matter */
        return;
    memcpy(base, trial_fill((trial->n + 1) / 2, trial->kind, trial->seed), trial->n * 2);
    for (size_t s = 0; s < sizeof(shares) / sizeof(shares[0]); s++)
        check_changes(kernels, trial, base,
                      change(base, trial->n, shares[s], trial->seed + (uint32_t)s));
}

void check_delta(void)
{
    for (const struct wring_delta_tier *tier = wring_delta_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, WRING_DELTA_WORDS);
}
