/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/delta.h"
#include "compress/kernels/vector/vector.h"

static inline uint16_t take(const uint16_t *at)
{
    uint16_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

static inline uint16_t step_of(uint16_t base, uint16_t now)
{
    uint16_t d = (uint16_t)(now - base);
    return (uint16_t)(((uint32_t)d << 1 ^ (uint32_t)((int16_t)d >> 15)) - 1);
}

static inline uint16_t stepped(uint16_t base, uint16_t step)
{
    uint16_t z = (uint16_t)(step + 1);
    return (uint16_t)(base + (uint16_t)(z >> 1 ^ (uint16_t) - (z & 1)));
}

/* Which of STEP words differ: differing() */

#ifdef __AVX2__

#define STEP 32 /* a half of a number of the map */

static inline __m256i load_16(const uint16_t *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

static inline uint32_t differing(const uint16_t *base, const uint16_t *now)
{
    __m256i first = _mm256_cmpeq_epi16(load_16(base), load_16(now));
    __m256i second = _mm256_cmpeq_epi16(load_16(base + 16), load_16(now + 16));
    __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(first, second), 0xD8);
    return ~(uint32_t)_mm256_movemask_epi8(both);
}

#else

#define STEP 64 /* a number of the map */

/** All bits of the bytes of 16 words that are alike. */
static inline uint8x16_t alike(const uint16_t *base, const uint16_t *now)
{
    uint16x8_t first = vceqq_u16((uint16x8_t)load_words(base), (uint16x8_t)load_words(now));
    uint16x8_t second =
        vceqq_u16((uint16x8_t)load_words(base + 8), (uint16x8_t)load_words(now + 8));
    return vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second));
}

static inline uint64_t differing(const uint16_t *base, const uint16_t *now)
{
    uint8x16_t same[4];
    for (unsigned v = 0; v < 4; v++)
        same[v] = alike(base + 16 * v, now + 16 * v);
    return ~bits_of_bytes(same);
}

#endif

static inline uint32_t put_change(uint16_t *steps, uint16_t *places, uint32_t found,
                                  const uint16_t *base, const uint16_t *now, uint64_t at)
{
    places[found < WRING_DELTA_FEW ? found : WRING_DELTA_FEW] = (uint16_t)at;
    steps[found] = step_of(take(base + at), take(now + at));
    return found + 1;
}

static uint32_t compare(uint64_t *map, uint16_t *steps, uint16_t *places, const uint16_t *base,
                        const uint16_t *now, uint64_t n)
{
    uint32_t found = 0;
    uint64_t i = 0;

    memset(map, 0, WRING_DELTA_MAP * sizeof(*map));
    for (; i + STEP <= n; i += STEP) {
        uint64_t bits = differing(base + i, now + i);
        map[i / 64] |= bits << i % 64;
        for (; bits != 0; bits &= bits - 1)
            found = put_change(steps, places, found, base, now, i + zeros_below(bits));
    }
    for (; i < n; i++)
        if (take(base + i) != take(now + i)) {
            map[i / 64] |= UINT64_C(1) << i % 64;
            found = put_change(steps, places, found, base, now, i);
        }
    return found;
}

static void apply(uint16_t *dst, const uint16_t *base, const uint64_t *map, const uint16_t *steps,
                  uint64_t n)
{
    if (dst != base)
        memcpy(dst, base, n * sizeof(*dst));
    for (uint64_t i = 0; i < n; i += 64)
        for (uint64_t bits = map[i / 64]; bits != 0; bits &= bits - 1) {
            uint16_t *at = dst + i + __builtin_ctzll(bits);
            uint16_t word = stepped(take(at), *steps++);
            memcpy(at, &word, sizeof(word));
        }
}

const struct wring_delta_tier_kernels OF_TIER(wring_delta) = {compare, apply};
