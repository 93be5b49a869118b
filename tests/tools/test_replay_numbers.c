/* SPDX-License-Identifier: Apache-2.0 */
/** What wring replay exchanges: sums are known to the last bit, and wrong ones are seen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/kernels/reduce.h"
#include "compress/kernels/streaming.h"
#include "tests/lib/elements.h"
#include "tests/lib/test.h"
#include "tools/plan/replay_numbers.h"

#define ELEMS 5001 /* several blocks, and a part of one */

static const enum wring_dtype dtypes[] = {WRING_F32, WRING_F16, WRING_BF16};
static struct wring_tensor tensors[] = {
    {"a", ELEMS, 0, WRING_F32}, {"b", ELEMS, 0, WRING_F16}, {"c", ELEMS, 0, WRING_BF16}};
static const struct wring_tensor_trace trace = {.n = 3, .tensors = tensors};

static struct wring_replay_turn turn_of(const struct wring_replay_numbers *numbers,
                                        enum wring_dtype dtype, uint32_t ranks)
{
    return (struct wring_replay_turn){numbers, dtype, ranks, 7};
}

/** The sum of some ranks, in double, by what each of them writes. @param sum  in and out */
static void add_ranks(const struct wring_replay_turn *turn, uint32_t begin, uint32_t end,
                      double *sum)
{
    char data[ELEMS * sizeof(float)];
    float wide[ELEMS];

    for (uint32_t rank = begin; rank < end; rank++) {
        wring_replay_fill(turn, rank, data, ELEMS);
        wring_streaming_settle();
        wring_test_widen(turn->dtype, wide, data, ELEMS);
        for (int i = 0; i < ELEMS; i++)
            sum[i] += wide[i];
    }
}

/** Rounded to the type. */
static void round_sum(enum wring_dtype dtype, const double *sum, char *data)
{
    float wide[ELEMS];

    for (int i = 0; i < ELEMS; i++) {
        wide[i] = (float)sum[i];
        CHECK(wide[i] == sum[i], "%d of %s: %.17g is no f32", i, wring_dtype_name(dtype), sum[i]);
    }
    wring_test_narrow(dtype, data, wide, ELEMS);
    wring_test_widen(dtype, wide, data, ELEMS);
    for (int i = 0; i < ELEMS; i++)
        CHECK(isfinite(wide[i]), "%d of %s is not finite", i, wring_dtype_name(dtype));
}

static void exact(void)
{
    static const uint32_t ranks[] = {1, 2, 3, 9, 512};
    struct wring_replay_numbers numbers;

    REQUIRE(wring_replay_numbers_init(&numbers, &trace) == WRING_OK, "no numbers");
    for (size_t d = 0; d < 3; d++)
        for (size_t r = 0; r < sizeof(ranks) / sizeof(*ranks); r++) {
            const struct wring_replay_turn turn = turn_of(&numbers, dtypes[d], ranks[r]);
            size_t width = wring_dtype_bytes(dtypes[d]);
            double sum[ELEMS] = {0};
            char data[ELEMS * sizeof(float)];
            add_ranks(&turn, 0, ranks[r], sum);
            round_sum(dtypes[d], sum, data);
            CHECK(wring_replay_is_sum(&turn, data, ELEMS) &&
                      wring_replay_is_near_sum(&turn, data, ELEMS),
                  "%u ranks of %s", ranks[r], wring_dtype_name(dtypes[d]));
            int64_t digest = wring_replay_digest(dtypes[d], data, ELEMS);
            data[(ELEMS - 1) * width] ^= 1; /* the last place of the last one */
            CHECK(!wring_replay_is_sum(&turn, data, ELEMS) &&
                      wring_replay_digest(dtypes[d], data, ELEMS) != digest,
                  "%u ranks of %s: a wrong bit", ranks[r], wring_dtype_name(dtypes[d]));
        }
    wring_replay_numbers_finish(&numbers);
}

/** Nodes' sums are rounded, and so is the sum of these: near, and other bits of many. */
static void rounded_twice(void)
{
    struct wring_replay_numbers numbers;

    REQUIRE(wring_replay_numbers_init(&numbers, &trace) == WRING_OK, "no numbers");
    for (size_t d = 1; d < 3; d++) {
        const struct wring_replay_turn turn = turn_of(&numbers, dtypes[d], 9);
        double sum[ELEMS] = {0};
        char data[ELEMS * sizeof(float)];
        float wide[ELEMS];
        for (uint32_t node = 0; node < 3; node++) {
            double of_node[ELEMS] = {0};
            add_ranks(&turn, 3 * node, 3 * node + 3, of_node);
            round_sum(dtypes[d], of_node, data);
            wring_test_widen(dtypes[d], wide, data, ELEMS);
            for (int i = 0; i < ELEMS; i++)
                sum[i] += wide[i];
        }
        round_sum(dtypes[d], sum, data);
        CHECK(wring_replay_is_near_sum(&turn, data, ELEMS), "%s", wring_dtype_name(dtypes[d]));
        CHECK(!wring_replay_is_sum(&turn, data, ELEMS), "%s", wring_dtype_name(dtypes[d]));
        double lacking[ELEMS] = {0};
        add_ranks(&turn, 0, 8, lacking);
        round_sum(dtypes[d], lacking, data);
        CHECK(!wring_replay_is_near_sum(&turn, data, ELEMS), "%s: a rank is missing",
              wring_dtype_name(dtypes[d]));
    }
    wring_replay_numbers_finish(&numbers);
}

/** Ranks and iterations differ, and only the types of the trace have numbers. */
static void draws(void)
{
    static struct wring_tensor half = {"a", ELEMS, 0, WRING_F32};
    const struct wring_tensor_trace halves = {.dtype = WRING_F16, .n = 1, .tensors = &half};
    struct wring_replay_numbers numbers;
    char data[3][ELEMS * 2];

    REQUIRE(wring_replay_numbers_init(&numbers, &halves) == WRING_OK, "no numbers");
    CHECK(numbers.of[WRING_F16] != NULL && numbers.of[WRING_F32] == NULL &&
              numbers.of[WRING_BF16] == NULL,
          "numbers of other types");
    struct wring_replay_turn turn = turn_of(&numbers, WRING_F16, 2);
    wring_replay_fill(&turn, 0, data[0], ELEMS);
    wring_replay_fill(&turn, 1, data[1], ELEMS);
    turn.iteration++;
    wring_replay_fill(&turn, 0, data[2], ELEMS);
    wring_streaming_settle();
    for (int i = 0; i < 3; i++)
        CHECK(memcmp(data[i], data[(i + 1) % 3], sizeof(data[i])) != 0, "%d", i);
    wring_replay_numbers_finish(&numbers);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"exact", exact}, {"rounded_twice", rounded_twice}, {"draws", draws}, {NULL, NULL}};

    return wring_test_main(argc, argv, cases);
}
