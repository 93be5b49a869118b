/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/philox.h"

#define WORDS WRING_PHILOX_WORDS

void wring_philox(const uint32_t counter[WORDS], const uint32_t key[2], uint32_t out[WORDS])
{
    uint32_t c[WORDS] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};

    for (int round = 0; round < WRING_PHILOX_ROUNDS; round++) {
        uint64_t a = WRING_PHILOX_FACTOR_0 * (uint64_t)c[0];
        uint64_t b = WRING_PHILOX_FACTOR_1 * (uint64_t)c[2];
        uint32_t next[WORDS] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                                (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        for (int i = 0; i < WORDS; i++)
            c[i] = next[i];
        k[0] += WRING_PHILOX_WEYL_0;
        k[1] += WRING_PHILOX_WEYL_1;
    }
    for (int i = 0; i < WORDS; i++)
        out[i] = c[i];
}

static void words_scalar(uint32_t *out, const struct wring_philox_stream *stream, uint64_t block,
                         uint64_t blocks)
{
    for (uint64_t i = 0; i < blocks; i++, block++) {
        const uint32_t counter[WORDS] = {(uint32_t)block, (uint32_t)(block >> 32),
                                         (uint32_t)stream->step, (uint32_t)(stream->step >> 32)};
        wring_philox(counter, stream->key, out + WORDS * i);
    }
}

static const struct wring_philox_kernels scalar = {words_scalar};

const struct wring_philox_tier wring_philox_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_philox){{NULL, 0}, NULL},
};
