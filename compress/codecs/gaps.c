/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/gaps.h"

#include <string.h>

#define WORD 64
#define TOGETHER 4     /* low parts that are written at a time … */
#define TOGETHER_UP 14 /* … of no larger width: with 7 bits before them they fill a word */

_Static_assert(TOGETHER *TOGETHER_UP + 7 <= WORD, "low parts that are written at a time");

/** The largest width whose power of two is not above the mean gap. @param sum  of the gaps */
static unsigned width_of(uint32_t count, uint64_t sum)
{
    return sum < count ? 0 : (unsigned)(63 - __builtin_clzll(sum / count));
}

static size_t bytes_of(uint64_t bits)
{
    return (size_t)((bits + 7) / 8);
}

/* Gaps that are as large as can be take the most, and no more are cut off than their sum has. */
size_t wring_gaps_bound(uint64_t count, uint64_t n)
{
    if (count == 0)
        return 0;
    unsigned width = width_of((uint32_t)count, n - count);
    return bytes_of(count * (width + 1) + ((n - count) >> width));
}

/** @return bits that the high parts take: of each so many zeros, and a one */
static uint64_t put_high(uint64_t *words, const uint16_t *indices, uint32_t count, unsigned width)
{
    uint64_t bit = 0, word = 0, last = 0;
    uint32_t before = 0;

    for (uint32_t i = 0; i < count; i++) {
        bit += (uint32_t)(indices[i] - before) >> width;
        before = indices[i] + 1u;
        word = (bit / WORD == last ? word : 0) | (uint64_t)1 << bit % WORD;
        last = bit / WORD;
        words[last] = word;
        bit++;
    }
    return bit;
}

/** Bits that are written one after another. */
struct writer {
    unsigned char *to; /* where `bits` go; 8 bytes are written there */
    uint64_t bits;
    unsigned used; /* of `bits`, less than 8 */
};

static inline void put_bits(struct writer *writer, uint64_t bits, unsigned count)
{
    writer->bits |= bits << writer->used;
    memcpy(writer->to, &writer->bits, sizeof(writer->bits));
    writer->used += count;
    writer->to += writer->used / 8;
    writer->bits >>= writer->used & ~7u; /* not all 64: see TOGETHER_UP */
    writer->used %= 8;
}

static inline uint64_t low_of(const uint16_t *indices, uint32_t i, uint32_t mask)
{
    return (uint32_t)(indices[i] - indices[i - 1] - 1) & mask;
}

static void put_low(struct writer *writer, const uint16_t *indices, uint32_t count, unsigned width)
{
    uint32_t mask = (1u << width) - 1, i = 1;

    put_bits(writer, indices[0] & mask, width);
    for (; width <= TOGETHER_UP && i + TOGETHER <= count; i += TOGETHER) {
        uint64_t bits = low_of(indices, i, mask);
        for (unsigned k = 1; k < TOGETHER; k++)
            bits |= low_of(indices, i + k, mask) << k * width;
        put_bits(writer, bits, TOGETHER * width);
    }
    for (; i < count; i++)
        put_bits(writer, low_of(indices, i, mask), width);
}

size_t wring_gaps_put(unsigned char *to, const uint16_t *indices, uint32_t count, unsigned *width)
{
    uint64_t words[WRING_GAPS_WORDS + WRING_GAPS_SPARE];
    uint32_t end = indices[count - 1] + 1u;
    unsigned low = width_of(count, end - count);

    memset(words, 0, (wring_gaps_bound(count, end) + 7) / 8 * 8);
    uint64_t bits = put_high(words, indices, count, low);
    if (low > 0) {
        struct writer writer = {(unsigned char *)words + bits / 8, 0, bits % 8};
        writer.bits = *writer.to;
        put_low(&writer, indices, count, low);
    }
    size_t bytes = bytes_of(bits + (uint64_t)low * count);
    memcpy(to, words, bytes);
    *width = low;
    return bytes;
}

/** @return bits up to the last one of so many; 0: there are less in `bytes` */
static uint64_t bits_up_to(const uint64_t *words, size_t bytes, uint32_t ones)
{
    for (uint64_t word = 0; word < (bytes + 7) / 8; word++) {
        uint32_t some = (uint32_t)__builtin_popcountll(words[word]);
        if (some < ones) {
            ones -= some;
            continue;
        }
        uint64_t left = words[word];
        for (; ones > 1; ones--)
            left &= left - 1;
        return word * WORD + (unsigned)__builtin_ctzll(left) + 1;
    }
    return 0;
}

size_t wring_gaps_open(struct wring_gaps *gaps, const unsigned char *from, size_t left,
                       uint32_t count, unsigned width, uint64_t n)
{
    size_t bound = wring_gaps_bound(count, n), taken = left < bound ? left : bound;

    memcpy(gaps->words, from, taken);
    memset((unsigned char *)gaps->words + taken, 0, WRING_GAPS_SPARE * sizeof(gaps->words[0]));
    uint64_t high_bits = bits_up_to(gaps->words, taken, count);
    uint64_t bits = high_bits + (uint64_t)width * count;
    size_t bytes = bytes_of(bits);
    const unsigned char *last = (const unsigned char *)gaps->words + bytes - 1;

    if (high_bits == 0 || bytes > taken || (bits % 8 != 0 && *last >> bits % 8 != 0))
        return 0;
    gaps->n = n, gaps->count = count, gaps->width = width;
    gaps->done = 0, gaps->low_sum = 0, gaps->low_bit = (uint32_t)high_bits;
    gaps->high = gaps->words[0], gaps->word = 0;
    return bytes;
}

static inline uint32_t bits_at(const uint64_t *words, uint32_t bit)
{
    uint32_t bits;
    memcpy(&bits, (const unsigned char *)words + bit / 8, sizeof(bits));
    return bits >> bit % 8;
}

bool wring_gaps_next(struct wring_gaps *gaps, uint16_t *indices, uint32_t some)
{
    const unsigned width = gaps->width;
    const uint32_t mask = (1u << width) - 1, end = gaps->done + some;
    uint64_t high = gaps->high, index = 0;
    uint32_t word = gaps->word, low_bit = gaps->low_bit, low_sum = gaps->low_sum;

    for (uint32_t i = gaps->done; i < end; i++, low_bit += width) {
        while (high == 0)
            high = gaps->words[++word];
        uint64_t high_sum = (uint64_t)word * WORD + (unsigned)__builtin_ctzll(high) - i;
        high &= high - 1;
        low_sum += bits_at(gaps->words, low_bit) & mask;
        index = (high_sum << width) + low_sum + i;
        *indices++ = (uint16_t)index;
    }
    gaps->high = high, gaps->word = word;
    gaps->low_bit = low_bit, gaps->low_sum = low_sum, gaps->done = end;
    return index < gaps->n && /* and so are those before */
           (end < gaps->count || width == width_of(gaps->count, index + 1 - gaps->count));
}
