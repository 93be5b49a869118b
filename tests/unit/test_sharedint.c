/* SPDX-License-Identifier: Apache-2.0 */
/** sharedint against its definition: sums of many ranks, with and without feedback. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define N 1000
#define UNIT 128
#define UNITS ((N + UNIT - 1) / UNIT)
#define RANKS_MAX 127

static float input[RANKS_MAX][N], residual[RANKS_MAX][N], sum[N];
static float scales[UNITS];

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    CHECK(wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK, "%s", spec);
    return codec;
}

static void fill(uint32_t ranks, uint32_t seed)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (uint64_t i = 0; i < N; i++)
            input[r][i] = wring_test_random_float(&seed) * (float)(1 + i / UNIT);
}

/** The round, by its functions. */
static void agree(const struct wring_codec *codec, struct wring_codec_context *context, bool fed)
{
    const struct wring_codec_round *round = &codec->ops->rounds[0];
    static const void *statistics[] = {scales};
    float own[UNITS];

    REQUIRE(round->count(codec, context) == UNITS, "units");
    for (uint64_t u = 0; u < UNITS; u++)
        scales[u] = -INFINITY;
    for (uint32_t r = 0; r < context->ranks; r++) {
        round->begin(codec, context, input[r], N, fed ? residual[r] : NULL, own, NULL);
        for (uint64_t u = 0; u < UNITS; u++)
            scales[u] = own[u] > scales[u] ? own[u] : scales[u];
    }
    round->end(codec, context, scales, UNITS);
    context->statistics = statistics;
}

static void sum_all(const struct wring_codec *codec, struct wring_codec_context context, bool fed)
{
    size_t bytes = wring_codec_bound(codec, N), sum_bytes = codec->ops->sum_bound(codec, N);
    void *code = wring_test_guarded(bytes), *total = wring_test_guarded(sum_bytes);

    memset(total, 0, sum_bytes);
    for (uint32_t r = 0; r < context.ranks; r++) {
        context.rank = r;
        wring_codec_encode(codec, &context, input[r], N, fed ? residual[r] : NULL, code);
        REQUIRE(codec->ops->code_sum(codec, &context, total, code, bytes, N) == WRING_OK,
                "%u ranks' codes do not fit", context.ranks);
    }
    context.phase = 1;
    REQUIRE(wring_codec_decode(codec, &context, total, sum_bytes, sum, N, false) == WRING_OK,
            "sum");
}

/** Each rank is off by half a step at most, and a step is the peak over what the width leaves. */
static void check_sum(const char *spec, uint32_t ranks, double levels)
{
    struct wring_codec *codec = make(spec);
    struct wring_codec_context context = {.ranks = ranks, .elems = N};

    fill(ranks, ranks);
    for (uint64_t i = 0; i < N && ranks > 1;
         i += 50) /* all ranks at the peak, so the sum is full */
        for (uint32_t r = 0; r < ranks; r++)
            input[r][i] = (float)(1 + i / UNIT);
    agree(codec, &context, false);
    sum_all(codec, context, false);
    for (uint64_t i = 0; i < N; i++) {
        double want = 0, step = (double)(1 + i / UNIT) / levels;
        for (uint32_t r = 0; r < ranks; r++)
            want += (double)input[r][i];
        REQUIRE(fabs((double)sum[i] - want) <= ranks * step * 0.5001, "%s, %u ranks: %g, not %g",
                spec, ranks, (double)sum[i], want);
    }
    wring_codec_destroy(codec);
    wring_test_free_guarded();
}

static void sums(void)
{
    static const uint32_t ranks[] = {1, 2, 3, 4, 7, 9, 16, 64, 127};

    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        check_sum("sharedint:block=128", ranks[i], floor(127.0 / ranks[i]));
        check_sum("sharedint:block=128:width=16", ranks[i], floor(32767.0 / ranks[i]));
        check_sum("sharedint:block=128:width=4", ranks[i], fmin(7, floor(127.0 / ranks[i])));
    }
}

/** What steps lose comes through later: the sums over time are off by one step's loss. */
static void feedback(void)
{
    struct wring_codec *codec = make("sharedint:block=128+ef");
    static double missing[N];
    const uint32_t ranks = 16;

    memset(residual, 0, sizeof(residual));
    memset(missing, 0, sizeof(missing));
    for (uint32_t step = 0; step < 200; step++) {
        struct wring_codec_context context = {.ranks = ranks, .elems = N, .step = step};
        fill(ranks, step + 1);
        agree(codec, &context, true);
        sum_all(codec, context, true);
        for (uint64_t i = 0; i < N; i++) {
            missing[i] -= (double)sum[i];
            for (uint32_t r = 0; r < ranks; r++)
                missing[i] += (double)input[r][i];
        }
        wring_test_free_guarded();
    }
    for (uint64_t i = 0; i < N; i++)
        REQUIRE(fabs(missing[i]) < ranks * 2.0 * (double)(1 + i / UNIT) / 7,
                "element %zu misses %g after 200 steps", (size_t)i, missing[i]);
    wring_codec_destroy(codec);
}

static void limits(void)
{
    struct wring_codec *eight = make("sharedint"), *sixteen = make("sharedint:width=16");
    struct wring_codec *four = make("sharedint:width=4");

    CHECK(eight->ops->most_ranks(eight) == 127 && sixteen->ops->most_ranks(sixteen) == 32767 &&
              four->ops->most_ranks(four) == 127,
          "other limits of ranks");
    CHECK(wring_codec_bound(four, 513) == 257 && four->ops->sum_bound(four, 513) == 513,
          "%zu and %zu bytes", wring_codec_bound(four, 513), four->ops->sum_bound(four, 513));
    wring_codec_destroy(four);
    wring_codec_destroy(eight);
    wring_codec_destroy(sixteen);
}

static const struct wring_test_case cases[] = {
    {"sums", sums}, {"feedback", feedback}, {"limits", limits}, {0}};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
