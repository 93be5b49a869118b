/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/trial.h"

#include <string.h>

#define LONGEST 140

static bool quick;

void trial_be_quick(void)
{
    quick = true;
}

bool trial_is_quick(void)
{
    return quick;
}

static float draw(enum trial_kind kind, uint32_t *random)
{
    static const uint32_t odd[] = {0,          0x80000000, 1,          0x80000001, 0x007FFFFF,
                                   0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F7F7FFF, 0x7F7F8000,
                                   0x3F808000, 0x3F818000, 0x3F800000, 0xBF800000, 0x7F800000,
                                   0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x477FEFFF,
                                   0xC77FF000, 0x33000000, 0xB3000001, 0x33C00000, 0x387FE000};
    float value = wring_test_random_float(random);
    switch (kind) {
    case TRIAL_PLAIN:
        return value;
    case TRIAL_TIES:
        return (float)(int)(value * 250) * 0.5f;
    case TRIAL_DENORMAL:
        return value * 0x1p-127f;
    case TRIAL_SMALL: /* half of them midway between two codes */
        return wring_test_random(random) % 2 ? value * 0x1p-13f
                                             : (float)(int)(value * 4096) * 0x1p-25f;
    case TRIAL_LARGE:
        return value * 0x1p17f;
    case TRIAL_HUGE:
        return value * 0x1.8p127f;
    case TRIAL_ODD:
        return wring_float_of(odd[wring_test_random(random) % (sizeof(odd) / sizeof(odd[0]))]);
    case TRIAL_KINDS:
        break;
    }
    return 0;
}

float *trial_fill(uint64_t n, enum trial_kind kind, uint32_t seed)
{
    float *values = wring_test_guarded(n * sizeof(*values));
    for (uint64_t i = 0; i < n; i++)
        values[i] = draw(kind, &seed);
    return values;
}

void *trial_copy(const void *data, size_t bytes)
{
    return memcpy(wring_test_guarded(bytes), data, bytes);
}

bool trial_same(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

bool trial_same_but_nan(const float *a, const float *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (wring_bits_of(wring_canonical(a[i])) != wring_bits_of(wring_canonical(b[i])))
            return false;
    return true;
}

void trial_sweep(const struct wring_kernel_tier *tier,
                 void (*check)(const void *tier, const struct trial *trial), uint64_t top)
{
    static const uint64_t more[] = {256, 511, 512, 1000, 1024, 4096, 65535, 65536};

    if (!wring_cpu_has(tier->tier))
        return;
    for (int kind = 0; kind < TRIAL_KINDS; kind++)
        for (uint64_t n = 1; n <= LONGEST + sizeof(more) / sizeof(more[0]); n += quick ? 5 : 1) {
            uint64_t length = n <= LONGEST ? n : more[n - LONGEST - 1];
            struct trial trial = {tier->name, length, (enum trial_kind)kind, (uint32_t)(n * 7 + 1)};
            if (length <= top)
                check(tier, &trial);
            wring_test_free_guarded();
        }
}
