/* SPDX-License-Identifier: Apache-2.0 */
/** Votes: the scalar kernels against the definition, the other tiers against them. */
#include <math.h>

#include "compress/kernels/votes.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

static void check_tier(const void *entry, const struct trial *trial)
{
    const struct wring_votes_kernels *ref = wring_votes_tiers[0].kernels;
    const struct wring_votes_kernels *kernels = ((const struct wring_votes_tier *)entry)->kernels;
    uint64_t n = trial->n, bytes = (n + 7) / 8;
    float *src = trial_fill(n, trial->kind, trial->seed);
    uint8_t *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);

    unsigned found = ref->votes(want, src, n), other = kernels->votes(got, src, n);
    AGREE("votes", want, got, bytes);
    CHECK(found == other, "%s n=%zu kind=%d: found %u, not %u", trial->tier, (size_t)n, trial->kind,
          other, found);
    float *momentum = trial_fill(n, trial->kind, trial->seed + 1);
    float *mixed = wring_test_guarded(n * 4), *also = wring_test_guarded(n * 4);
    ref->mix(mixed, momentum, src, n, 0.9f, 0.1f);
    kernels->mix(also, momentum, src, n, 0.9f, 0.1f);
    AGREE_BUT_NAN("mix", mixed, also, n);
    if (n == 0)
        return;
    src[n / 2] = -0.0f; /* one alone, wherever it is */
    found = kernels->votes(got, src, n);
    CHECK(found & WRING_VOTES_ZERO, "%s n=%zu: a zero is not seen", trial->tier, (size_t)n);
    src[n - 1] = -INFINITY;
    found = kernels->votes(got, src, n);
    CHECK(found & WRING_VOTES_LOST && got[(n - 1) / 8] >> (n - 1) % 8 & 1,
          "%s n=%zu: an infinity is not seen", trial->tier, (size_t)n);
}

static void check_definition(void)
{
    static const float x[] = {1, -1, 0, 3, -0.0f, -0x1p-149f, 0x1.fffffep127f, -4, 2};
    uint8_t bits[2];

    unsigned found = wring_votes_tiers[0].kernels->votes(bits, x, 9);
    CHECK(bits[0] == 0xB2 && bits[1] == 0 && found == WRING_VOTES_ZERO, "%02x %02x, found %u",
          bits[0], bits[1], found);
    found = wring_votes_tiers[0].kernels->votes(bits, x, 2);
    CHECK(bits[0] == 2 && found == 0, "%02x, found %u", bits[0], found);
}

void check_votes(void)
{
    check_definition();
    for (const struct wring_votes_tier *tier = wring_votes_tiers; tier->head.name; tier++)
        trial_sweep(&tier->head, check_tier, 4096);
}
