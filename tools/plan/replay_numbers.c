/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/replay_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/kernels/reduce.h"
#include "compress/kernels/streaming.h"

#define NUMBERS WRING_REPLAY_NUMBERS
#define BLOCK 1024 /* elements that are checked at a time */

static uint64_t mix_bits(uint64_t bits)
{
    bits *= 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 32) * 0xd6e8feb86659fd93;
    return bits ^ bits >> 32;
}

/** Number i, before it is rounded to a type. */
static float draw_number(uint32_t i)
{
    uint64_t bits = mix_bits(i + 1);
    uint64_t dice =
        (bits & 0xfff) + (bits >> 12 & 0xfff) + (bits >> 24 & 0xfff) + (bits >> 36 & 0xfff);

    return (float)((int)dice - 2 * 0xfff);
}

/** The reference kernels: they stand for no tier that the exchange may have used. */
static const struct wring_reduce_kernels *reference(void)
{
    return wring_reduce_tiers[0].kernels;
}

static void widen(enum wring_dtype dtype, float *to, const void *from, uint64_t n)
{
    if (dtype == WRING_F32)
        memcpy(to, from, n * sizeof(*to));
    else
        reference()->widen[dtype](to, from, n);
}

static void narrow(enum wring_dtype dtype, void *to, const float *from, uint64_t n)
{
    if (dtype == WRING_F32)
        memcpy(to, from, n * sizeof(*from));
    else
        reference()->narrow[dtype](to, from, n, 1);
}

static const char *number_at(const struct wring_replay_turn *turn, uint32_t i)
{
    return (const char *)turn->numbers->of[turn->dtype] + i * wring_dtype_bytes(turn->dtype);
}

static void *make_numbers(enum wring_dtype dtype)
{
    char *numbers = malloc(NUMBERS * wring_dtype_bytes(dtype));
    float block[BLOCK], scale = dtype == WRING_F16 ? 0x1p-7f : 1;

    for (uint32_t at = 0; numbers != NULL && at < NUMBERS; at += BLOCK) {
        for (uint32_t i = 0; i < BLOCK; i++)
            block[i] = draw_number(at + i) * scale;
        narrow(dtype, numbers + at * wring_dtype_bytes(dtype), block, BLOCK);
    }
    return numbers;
}

enum wring_status wring_replay_numbers_init(struct wring_replay_numbers *numbers,
                                            const struct wring_tensor_trace *trace)
{
    *numbers = (struct wring_replay_numbers){0};
    for (uint32_t i = 0; i < trace->n; i++) {
        enum wring_dtype dtype = wring_tensor_trace_dtype(trace, i);
        if (numbers->of[dtype] == NULL)
            numbers->of[dtype] = make_numbers(dtype);
        if (numbers->of[dtype] == NULL) {
            wring_replay_numbers_finish(numbers);
            return WRING_ERR_NO_MEMORY;
        }
    }
    return WRING_OK;
}

void wring_replay_numbers_finish(struct wring_replay_numbers *numbers)
{
    for (size_t i = 0; i < sizeof(numbers->of) / sizeof(*numbers->of); i++)
        free(numbers->of[i]);
    *numbers = (struct wring_replay_numbers){0};
}

/** Where a rank begins in an iteration. */
static uint32_t first_of(uint32_t rank, uint64_t iteration)
{
    return (uint32_t)mix_bits(((uint64_t)rank << 44) + (iteration << 1) + 1) % NUMBERS;
}

void wring_replay_fill(const struct wring_replay_turn *turn, uint32_t rank, void *data,
                       uint64_t elems)
{
    size_t width = wring_dtype_bytes(turn->dtype);
    uint32_t from = first_of(rank, turn->iteration);

    for (uint64_t at = 0, n; at < elems; at += n, from = 0) {
        n = elems - at < NUMBERS - from ? elems - at : NUMBERS - from;
        wring_streaming_stream((char *)data + at * width, number_at(turn, from), n * width);
    }
}

/** The exact sum of a block, and that of magnitudes. @param n  at most BLOCK */
static void sum_block(const struct wring_replay_turn *turn, uint64_t at, uint64_t n, float *sum,
                      float *magnitude)
{
    float own[BLOCK];

    memset(sum, 0, n * sizeof(*sum));
    memset(magnitude, 0, n * sizeof(*magnitude));
    for (uint32_t rank = 0; rank < turn->ranks; rank++) {
        uint32_t from = (uint32_t)((first_of(rank, turn->iteration) + at) % NUMBERS);
        uint64_t first = n < NUMBERS - from ? n : NUMBERS - from;
        widen(turn->dtype, own, number_at(turn, from), first);
        widen(turn->dtype, own + first, number_at(turn, 0), n - first);
        for (uint64_t i = 0; i < n; i++) {
            sum[i] += own[i];
            magnitude[i] += fabsf(own[i]);
        }
    }
}

/** Is it that sum, rounded once to its type? */
static bool is_rounded(enum wring_dtype dtype, const void *data, const float *sum, uint64_t n)
{
    float wanted[BLOCK]; /* as many of the type */

    narrow(dtype, wanted, sum, n);
    return memcmp(data, wanted, n * wring_dtype_bytes(dtype)) == 0;
}

/** Half of the last place of 1. */
static float half_place_of(enum wring_dtype dtype)
{
    return dtype == WRING_F16 ? 0x1p-11f : 0x1p-8f;
}

/** Nodes' sums are off by half a place of their magnitudes, and so is the sum of these. */
static bool is_rounded_twice(enum wring_dtype dtype, const void *data, const float *sum,
                             const float *magnitude, uint64_t n)
{
    float got[BLOCK], half = half_place_of(dtype);

    widen(dtype, got, data, n);
    for (uint64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - sum[i]) <= (double)magnitude[i] * half * (2 + half)))
            return false;
    return true;
}

static bool are_all(const struct wring_replay_turn *turn, const void *data, uint64_t elems,
                    bool near)
{
    size_t width = wring_dtype_bytes(turn->dtype);
    float sum[BLOCK], magnitude[BLOCK];

    for (uint64_t at = 0; at < elems; at += BLOCK) {
        uint64_t n = elems - at < BLOCK ? elems - at : BLOCK;
        const char *block = (const char *)data + at * width;
        sum_block(turn, at, n, sum, magnitude);
        if (near ? !is_rounded_twice(turn->dtype, block, sum, magnitude, n)
                 : !is_rounded(turn->dtype, block, sum, n))
            return false;
    }
    return true;
}

bool wring_replay_is_sum(const struct wring_replay_turn *turn, const void *data, uint64_t elems)
{
    return are_all(turn, data, elems, false);
}

bool wring_replay_is_near_sum(const struct wring_replay_turn *turn, const void *data,
                              uint64_t elems)
{
    return are_all(turn, data, elems, turn->dtype != WRING_F32);
}

int64_t wring_replay_digest(enum wring_dtype dtype, const void *data, uint64_t elems)
{
    size_t width = wring_dtype_bytes(dtype);
    uint64_t hash = 14695981039346656037u;

    for (uint64_t i = 0; i < elems; i++) {
        uint32_t bits = 0;
        memcpy(&bits, (const char *)data + i * width, width);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return (int64_t)(hash >> 1);
}
