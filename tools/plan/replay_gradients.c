/* SPDX-License-Identifier: Apache-2.0 */
/* What is exchanged in the place of gradients. */
#include <stdlib.h>
#include <string.h>

#include "compress/kernels/far.h"
#include "tools/plan/replay.h"

#define NUMBERS (1u << 20) /* that there are */

static uint64_t mix(uint64_t bits)
{
    bits *= 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 32) * 0xd6e8feb86659fd93;
    return bits ^ bits >> 32;
}

float *wring_replay_numbers(void)
{
    float *numbers = malloc(NUMBERS * sizeof(*numbers));

    for (uint32_t i = 0; numbers != NULL && i < NUMBERS; i++) {
        uint64_t bits = mix(i + 1);
        uint64_t dice =
            (bits & 0xfff) + (bits >> 12 & 0xfff) + (bits >> 24 & 0xfff) + (bits >> 36 & 0xfff);
        numbers[i] = (float)((int)dice - 2 * 0xfff);
    }
    return numbers;
}

/** Where a rank begins in an iteration. */
static uint32_t first_of(uint32_t rank, uint64_t round)
{
    return (uint32_t)mix(((uint64_t)rank << 44) + (round << 1) + 1) % NUMBERS;
}

void wring_replay_fill(float *data, uint64_t elems, const float *numbers, uint32_t rank,
                       uint64_t round)
{
    uint32_t from = first_of(rank, round);

    for (uint64_t at = 0, n; at < elems; at += n, from = 0) {
        n = elems - at < NUMBERS - from ? elems - at : NUMBERS - from;
        wring_far_stream(data + at, numbers + from, n * sizeof(*data));
    }
}

bool wring_replay_is_sum(const float *data, uint64_t elems, const float *numbers, uint32_t ranks,
                         uint64_t round)
{
    for (uint64_t i = 0; i < elems; i++) {
        float sum = 0;
        for (uint32_t rank = 0; rank < ranks; rank++)
            sum += numbers[(first_of(rank, round) + i) % NUMBERS];
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
