/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Differences of weights, of hostile bytes: every tier agrees about them, and what one takes comes
 * back from an encoder. Input: u16 bytes, the base, the code.
 */
#include <stdbool.h>

#include "compress/delta.h"
#include "tests/fuzz/fuzz.h"

/** What each tier makes of a code, in place and not. @return whether it takes it */
static bool check_tier(enum wring_cpu_tier tier, const uint8_t *base, size_t n, const uint8_t *code,
                       size_t code_bytes, uint8_t *out)
{
    void *memory;
    uint8_t *in_place = fuzz_copy(base, n, 0, &memory);
    enum wring_status status = wring_delta_apply(tier, out, base, n, code, code_bytes);

    FUZZ_CHECK(wring_delta_apply(tier, in_place, in_place, n, code, code_bytes) == status,
               "%s: in place it says otherwise", wring_cpu_tier_name(tier));
    FUZZ_CHECK(status != WRING_OK || n == 0 || memcmp(in_place, out, n) == 0,
               "%s: in place it gives other bytes", wring_cpu_tier_name(tier));
    free(memory);
    return status == WRING_OK;
}

static void check_encode(enum wring_cpu_tier tier, const uint8_t *base, const uint8_t *now,
                         size_t n)
{
    uint8_t *code = malloc(wring_delta_bound(n) + 1), *back = malloc(n + 1);
    size_t bytes = wring_delta_encode(tier, base, now, n, code);

    FUZZ_CHECK(bytes <= wring_delta_bound(n), "%zu bytes of %zu", bytes, n);
    FUZZ_CHECK(wring_delta_apply(tier, back, base, n, code, bytes) == WRING_OK &&
                   memcmp(back, now, n) == 0,
               "%s: it does not come back", wring_cpu_tier_name(tier));
    free(code);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    size_t n = fuzz_take(&input, 2);
    void *base_memory, *code_memory;
    bool first = false;

    n = n < input.left ? n : input.left;
    uint8_t *base = fuzz_copy(input.data, n, 0, &base_memory);
    uint8_t *code = fuzz_copy(input.data + n, input.left - n, n % 4, &code_memory);
    uint8_t *want = malloc(n + 1), *out = malloc(n + 1);
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (!wring_cpu_has((enum wring_cpu_tier)tier))
            continue;
        bool takes = check_tier((enum wring_cpu_tier)tier, base, n, code, input.left - n,
                                tier == 0 ? want : out);
        FUZZ_CHECK(tier == 0 || takes == first, "%s disagrees about the code",
                   wring_cpu_tier_name((enum wring_cpu_tier)tier));
        FUZZ_CHECK(tier == 0 || !takes || memcmp(out, want, n) == 0, "%s gives other bytes",
                   wring_cpu_tier_name((enum wring_cpu_tier)tier));
        first = takes;
        if (takes)
            check_encode((enum wring_cpu_tier)tier, base, want, n);
    }
    free(want);
    free(out);
    free(base_memory);
    free(code_memory);
    return 0;
}
