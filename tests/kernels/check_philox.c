/* SPDX-License-Identifier: Apache-2.0 */
/** Random words: those of all tiers are the scalar kernel's, wherever a run of blocks begins. */
#include <string.h>

#include "compress/kernels/philox.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/trial.h"

#define WORDS WRING_PHILOX_WORDS

static void check_run(const struct wring_philox_tier *tier, struct wring_philox_stream stream,
                      uint64_t block, uint64_t blocks)
{
    size_t bytes = (size_t)blocks * WORDS * sizeof(uint32_t);
    uint32_t *want = wring_test_guarded(bytes), *got = wring_test_guarded(bytes);

    wring_philox_tiers[0].kernels->words(want, &stream, block, blocks);
    tier->kernels->words(got, &stream, block, blocks);
    CHECK(trial_same(want, got, bytes), "%s: %zu blocks from %llx", tier->head.name, (size_t)blocks,
          (unsigned long long)block);
    wring_test_free_guarded();
}

void check_philox(void)
{
    static const uint64_t begins[] = {0, 1, 7, UINT32_MAX - 40, UINT64_MAX - 40};
    static const uint64_t more[] = {256, 1000, 4096};
    static const struct wring_philox_stream streams[] = {
        {{0, 0}, 0}, {{UINT32_MAX, 1}, UINT64_MAX}, {{0xa4093822, 0x299f31d0}, UINT64_C(1) << 33}};

    for (const struct wring_philox_tier *tier = wring_philox_tiers; tier->head.name; tier++) {
        if (!wring_cpu_has(tier->head.tier))
            continue;
        for (size_t b = 0; b < sizeof(begins) / sizeof(begins[0]); b++)
            for (size_t s = 0; s < sizeof(streams) / sizeof(streams[0]); s++) {
                for (uint64_t blocks = 0; blocks <= 70; blocks += trial_is_quick() ? 7 : 1)
                    check_run(tier, streams[s], begins[b], blocks);
                for (size_t m = 0; m < sizeof(more) / sizeof(more[0]); m++)
                    check_run(tier, streams[s], begins[b], more[m]);
            }
    }
}
