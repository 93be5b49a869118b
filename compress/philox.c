/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that depend on where they are used, not on when: FORMAT.md, "Random numbers". */
#include <wring/codec.h>

#include "compress/philox.h"

#define ROUNDS 10
#define WORDS WRING_PHILOX_WORDS

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash += value + 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
    return hash ^ hash >> 31;
}

void wring_philox(const uint32_t counter[WORDS], const uint32_t key[2], uint32_t out[WORDS])
{
    uint32_t c[WORDS] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t a = 0xD2511F53u * (uint64_t)c[0], b = 0xCD9E8D57u * (uint64_t)c[2];
        uint32_t next[WORDS] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                                (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        for (int i = 0; i < WORDS; i++)
            c[i] = next[i];
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < WORDS; i++)
        out[i] = c[i];
}

void wring_codec_random(const struct wring_codec_context *context, enum wring_codec_draw draw,
                        uint64_t element, uint32_t *out, size_t n)
{
    uint64_t who = draw == WRING_DRAW_PRIVATE ? context->rank + UINT64_C(1) : 0;
    uint64_t key = mix(mix(mix(mix(0, context->seed), context->bucket), who), context->phase);
    const uint32_t keys[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t words[WORDS];
    size_t done = 0;

    for (uint64_t block = element / WORDS; done < n; block++) {
        const uint32_t counter[WORDS] = {(uint32_t)block, (uint32_t)(block >> 32),
                                         (uint32_t)context->step, (uint32_t)(context->step >> 32)};
        wring_philox(counter, keys, words);
        for (uint64_t word = (element + done) % WORDS; word < WORDS && done < n; word++)
            out[done++] = words[word];
    }
}
