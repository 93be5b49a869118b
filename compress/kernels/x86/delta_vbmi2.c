/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/delta.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define STEP 32 /* words at a time: a half of a number of the map */

static inline __m512i load(const uint16_t *at)
{
    return _mm512_loadu_si512(at);
}

static inline __m512i step_of(__m512i base, __m512i now)
{
    __m512i d = _mm512_sub_epi16(now, base);
    __m512i z = _mm512_xor_si512(_mm512_add_epi16(d, d), _mm512_srai_epi16(d, 15));
    return _mm512_sub_epi16(z, _mm512_set1_epi16(1));
}

static inline __m512i stepped(__m512i base, __m512i step)
{
    const __m512i one = _mm512_set1_epi16(1);
    __m512i z = _mm512_add_epi16(step, one);
    __m512i sign = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z, one));
    return _mm512_add_epi16(base, _mm512_xor_si512(_mm512_srli_epi16(z, 1), sign));
}

/** What was found up to here. */
struct found {
    uint16_t *steps, *places;
    uint32_t count;
    __m512i number; /* of each word that is compared next */
};

/** @return which words differ */
static inline uint32_t compare_step(struct found *found, __m512i base, __m512i now)
{
    uint32_t bits = _mm512_cmpneq_epi16_mask(base, now);
    uint32_t at = found->count < WRING_DELTA_FEW ? found->count : WRING_DELTA_FEW;

    _mm512_storeu_si512(found->steps + found->count,
                        _mm512_maskz_compress_epi16(bits, step_of(base, now)));
    _mm512_storeu_si512(found->places + at, _mm512_maskz_compress_epi16(bits, found->number));
    found->count += (uint32_t)__builtin_popcount(bits);
    found->number = _mm512_add_epi16(found->number, _mm512_set1_epi16(STEP));
    return bits;
}

static inline __m512i first_numbers(void)
{
    return _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
                            13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

static uint32_t compare(uint64_t *map, uint16_t *steps, uint16_t *places, const uint16_t *base,
                        const uint16_t *now, uint64_t n)
{
    struct found found = {steps, places, 0, first_numbers()};
    uint64_t i = 0;

    memset(map, 0, WRING_DELTA_MAP * sizeof(*map));
    for (; i + 2 * STEP <= n; i += 2 * STEP) {
        uint64_t bits = compare_step(&found, load(base + i), load(now + i));
        uint64_t more = compare_step(&found, load(base + i + STEP), load(now + i + STEP));
        map[i / 64] = bits | more << 32;
    }
    for (; i < n; i += STEP) {
        __mmask32 live = n - i < STEP ? (1u << (n - i)) - 1 : UINT32_MAX;
        uint64_t bits = compare_step(&found, _mm512_maskz_loadu_epi16(live, base + i),
                                     _mm512_maskz_loadu_epi16(live, now + i));
        map[i / 64] |= bits << i % 64;
    }
    return found.count;
}

/** @return how many steps were taken */
static inline uint32_t apply_step(uint16_t *dst, const uint16_t *base, uint32_t bits,
                                  const uint16_t *steps, __mmask32 live)
{
    __m512i step = _mm512_maskz_expand_epi16(bits, load(steps));
    __m512i old = _mm512_maskz_loadu_epi16(live, base);
    __m512i now = _mm512_mask_mov_epi16(old, bits, stepped(old, step));

    _mm512_mask_storeu_epi16(dst, live, now);
    return (uint32_t)__builtin_popcount(bits);
}

static void apply(uint16_t *dst, const uint16_t *base, const uint64_t *map, const uint16_t *steps,
                  uint64_t n)
{
    bool in_place = dst == base;

    for (uint64_t i = 0; i < n; i += STEP) {
        uint32_t bits = (uint32_t)(map[i / 64] >> i % 64);
        if (in_place && bits == 0)
            continue;
        if (n - i < STEP)
            apply_step(dst + i, base + i, bits, steps, (1u << (n - i)) - 1);
        else
            steps += apply_step(dst + i, base + i, bits, steps, UINT32_MAX);
    }
}

const struct wring_delta_tier_kernels wring_delta_vbmi2 = {compare, apply};
