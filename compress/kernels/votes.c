/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/votes.h"

#include "compress/kernels/bits.h"

static unsigned votes_scalar(uint8_t *bits, const float *src, uint64_t n)
{
    unsigned found = 0;

    memset(bits, 0, (n + 7) / 8);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = wring_magnitude(src[i]);
        bits[i / 8] |= (uint8_t)((wring_bits_of(src[i]) >> 31) << i % 8);
        found |= magnitude == 0 ? WRING_VOTES_ZERO : 0;
        found |= magnitude >= WRING_INF_BITS ? WRING_VOTES_LOST : 0;
    }
    return found;
}

static void mix_scalar(float *out, const float *momentum, const float *src, uint64_t n, float keep,
                       float take)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = keep * momentum[i] + take * src[i];
}

static const struct wring_votes_kernels scalar = {votes_scalar, mix_scalar};

const struct wring_votes_tier wring_votes_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_votes){{NULL, 0}, NULL},
};
