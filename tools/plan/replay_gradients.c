/* SPDX-License-Identifier: Apache-2.0 */
/* What is exchanged in the place of gradients. */
#include <string.h>

#include "compress/kernels/far.h"
#include "tools/plan/replay.h"

#define BLOCK 1024 /* elements that are made in the caches */

/**
 * Numbers of a rank and an iteration: four dice together, as codecs depend on how gradients are
 * shaped, and whole ones below 2^13, so that the sums of 1024 ranks are exact.
 */
static float number(uint32_t rank, uint64_t round, uint64_t i)
{
    uint64_t bits = (i + ((uint64_t)rank << 44) + (round << 54)) * 0x9e3779b97f4a7c15;

    bits = (bits ^ bits >> 32) * 0xd6e8feb86659fd93;
    bits ^= bits >> 32;
    uint64_t dice =
        (bits & 0xfff) + (bits >> 12 & 0xfff) + (bits >> 24 & 0xfff) + (bits >> 36 & 0xfff);
    return (float)((int)dice - 2 * 0xfff);
}

void wring_replay_fill(float *data, uint64_t elems, uint32_t rank, uint64_t round)
{
    float block[BLOCK];

    for (uint64_t at = 0; at < elems; at += BLOCK) {
        uint64_t n = elems - at < BLOCK ? elems - at : BLOCK;
        for (uint64_t i = 0; i < n; i++)
            block[i] = number(rank, round, at + i);
        wring_far_stream(data + at, block, n * sizeof(*block));
    }
}

bool wring_replay_is_sum(const float *data, uint64_t elems, uint32_t ranks, uint64_t round)
{
    for (uint64_t i = 0; i < elems; i++) {
        float sum = 0;
        for (uint32_t rank = 0; rank < ranks; rank++)
            sum += number(rank, round, i);
        if (data[i] != sum)
            return false;
    }
    return true;
}

int64_t wring_replay_digest(const float *data, uint64_t elems)
{
    uint64_t hash = 14695981039346656037u;

    for (uint64_t i = 0; i < elems; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof(bits));
        hash = (hash ^ bits) * 1099511628211u;
    }
    return (int64_t)(hash >> 1);
}
