/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that depend on where they are used, not on when: FORMAT.md, "Random numbers". */
#include "compress/philox.h"

#define WORDS WRING_PHILOX_WORDS

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash += value + 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
    return hash ^ hash >> 31;
}

struct wring_philox_stream wring_codec_stream(const struct wring_codec_context *context,
                                              enum wring_codec_draw draw)
{
    uint64_t who = draw == WRING_DRAW_PRIVATE ? context->rank + UINT64_C(1) : 0;
    uint64_t key = mix(mix(mix(mix(0, context->seed), context->bucket), who), context->phase);
    return (struct wring_philox_stream){{(uint32_t)key, (uint32_t)(key >> 32)}, context->step};
}

void wring_codec_random(const struct wring_codec_context *context, enum wring_codec_draw draw,
                        uint64_t element, uint32_t *out, size_t n)
{
    struct wring_philox_stream stream = wring_codec_stream(context, draw);
    uint32_t words[WORDS];
    size_t done = 0;

    for (uint64_t block = element / WORDS; done < n; block++) {
        wring_philox_tiers[0].kernels->words(words, &stream, block, 1);
        for (uint64_t word = (element + done) % WORDS; word < WORDS && done < n; word++)
            out[done++] = words[word];
    }
}
