/* SPDX-License-Identifier: Apache-2.0 */
/** thc against its definition: how far sums of many ranks are off, and what rotation is for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define N 16384
#define RANKS_MAX 16

static float input[RANKS_MAX][N], residual[RANKS_MAX][N], sum[N];
static uint64_t cut; /* numbers of the last sum */

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    CHECK(wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK, "%s", spec);
    return codec;
}

/** About bell-shaped, of deviation 1. */
static float bell(uint32_t *random)
{
    float x = 0;
    for (int i = 0; i < 12; i++)
        x += wring_test_random_float(random);
    return x / 2;
}

static void fill(uint32_t ranks, uint32_t seed)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (uint64_t i = 0; i < N; i++)
            input[r][i] = bell(&seed);
}

/** The round by its functions, then codes that are added. */
static void sum_all(const struct wring_codec *codec, uint32_t ranks, uint64_t step, bool fed)
{
    const struct wring_codec_round *round = &codec->ops->rounds[0];
    struct wring_codec_context context = {.seed = 3, .ranks = ranks, .elems = N, .step = step};
    uint64_t units = round->count(codec, &context);
    double *powers = malloc(units * sizeof(*powers)), *own = malloc(units * sizeof(*own));
    const void *statistics[] = {powers};
    size_t bytes = wring_codec_bound(codec, N), sum_bytes = codec->ops->sum_bound(codec, N);
    void *code = wring_test_guarded(bytes), *total = wring_test_guarded(sum_bytes);

    for (uint32_t r = 0; r < ranks; r++) {
        round->begin(codec, &context, input[r], N, fed ? residual[r] : NULL, own, NULL);
        for (uint64_t u = 0; u < units; u++)
            powers[u] = r == 0 || own[u] > powers[u] ? own[u] : powers[u];
    }
    round->end(codec, &context, powers, units);
    context.statistics = statistics;
    memset(total, 0, sum_bytes);
    for (uint32_t r = 0; r < ranks; r++) {
        context.rank = r;
        wring_codec_encode(codec, &context, input[r], N, fed ? residual[r] : NULL, code);
        CHECK(codec->ops->code_sum(codec, &context, total, code, bytes, N) == WRING_OK,
              "codes do not fit");
    }
    context.phase = 1;
    cut = 0;
    sum_bytes = codec->ops->sum_end(codec, &context, total, N, &cut);
    CHECK(wring_codec_decode(codec, &context, total, sum_bytes, sum, N, false) == WRING_OK, "sum");
    wring_test_free_guarded();
    free(powers);
    free(own);
}

static double error_of_sum(uint32_t ranks)
{
    double error = 0, power = 0;
    for (uint64_t i = 0; i < N; i++) {
        double want = 0;
        for (uint32_t r = 0; r < ranks; r++)
            want += (double)input[r][i];
        error += ((double)sum[i] - want) * ((double)sum[i] - want);
        power += want * want;
    }
    return error / power;
}

/** Of bell-shaped numbers: what steps lose, and what is beyond the clip. */
static double theory(double clip, double levels)
{
    double step = clip / levels, beyond = 0;
    for (double x = clip; x < 8; x += 1e-3)
        beyond += 2e-3 * (x - clip) * (x - clip) * exp(-x * x / 2) / sqrt(2 * M_PI);
    return step * step / 12 + beyond;
}

static void check_error(const char *spec, uint32_t ranks, double clip, double levels)
{
    struct wring_codec *codec = make(spec);
    fill(ranks, 7 + ranks);
    sum_all(codec, ranks, 0, false);
    double error = error_of_sum(ranks), want = theory(clip, levels);
    CHECK(error > 0.7 * want && error < 1.5 * want, "%s, %u ranks: %g, theory %g", spec, ranks,
          error, want);
    wring_codec_destroy(codec);
}

static void errors(void)
{
    check_error("thc", 2, 3.5, 63);
    check_error("thc", 16, 3.5, 7);
    check_error("thc:clip=2", 16, 2, 7);
    check_error("thc:block=2048:clip=2.5", 4, 2.5, 31);
    check_error("thc:width=16:clip=6", 4, 6, 8191);
    check_error("thc:width=4:clip=2.5", 4, 2.5, 7);
    check_error("thc:width=4:clip=2.5", 16, 2.5, 7);
    check_error("thc:rotate=64", 4, 3.5, 31);
    check_error("thc:block=2048:clip=2.5:rotate=1024", 4, 2.5, 31);
}

/** One large number in a block costs all others their steps, unless it is spread over them. */
static void outliers(void)
{
    struct wring_codec *rotated = make("thc"), *plain = make("sharedint:block=1024");
    float largest = 0, scales[N / 1024];
    double lost = 0, power = 0;

    fill(1, 3);
    for (uint64_t i = 0; i < N; i += 1024)
        input[0][i] = 1000;
    sum_all(rotated, 1, 0, false);
    for (uint64_t i = 0; i < N; i++)
        largest = i % 1024 != 0 && fabsf(sum[i] - input[0][i]) > largest
                      ? fabsf(sum[i] - input[0][i])
                      : largest;
    CHECK(largest < 4, "a number beside a large one is off by %g", (double)largest);

    struct wring_codec_context context = {.ranks = 1, .elems = N};
    plain->ops->rounds[0].begin(plain, &context, input[0], N, NULL, scales, NULL);
    plain->ops->rounds[0].end(plain, &context, scales, N / 1024);
    context.statistics = (const void *const[]){scales};
    void *code = wring_test_guarded(wring_codec_bound(plain, N));
    size_t bytes = wring_codec_encode(plain, &context, input[0], N, NULL, code);
    CHECK(wring_codec_decode(plain, &context, code, bytes, sum, N, false) == WRING_OK, "decode");
    for (uint64_t i = 0; i < N; i++) {
        lost += i % 1024 != 0 ? (double)(input[0][i] - sum[i]) * (double)(input[0][i] - sum[i]) : 0;
        power += i % 1024 != 0 ? (double)input[0][i] * (double)input[0][i] : 0;
    }
    CHECK(lost > 0.9 * power, "without rotation as well: %g of %g", lost, power);
    wring_test_free_guarded();
    wring_codec_destroy(rotated);
    wring_codec_destroy(plain);
}

/** Of bell-shaped numbers of many ranks: what steps lose, and what of a sum is beyond the clip. */
static double theory_saturated(double clip, double levels, double ranks)
{
    double z = clip / sqrt(ranks), tail = erfc(z / sqrt(2)) / 2;
    double density = exp(-z * z / 2) / sqrt(2 * M_PI);
    return clip * clip / levels / levels / 12 + 2 * ((1 + z * z) * tail - z * density);
}

/** The largest deviation of a rank in a block of 1024, on average. */
static double largest_deviation(uint32_t ranks)
{
    double mean = 0;

    for (uint64_t begin = 0; begin < N; begin += 1024) {
        double most = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            double power = 0;
            for (uint64_t i = begin; i < begin + 1024; i++)
                power += (double)input[r][i] * (double)input[r][i];
            most = power > most ? power : most;
        }
        mean += sqrt(most / 1024) * 1024 / N;
    }
    return mean;
}

static void check_saturated(const char *spec, uint32_t ranks, double clip, double levels)
{
    struct wring_codec *codec = make(spec);
    fill(ranks, 70 + ranks);
    clip *= largest_deviation(ranks);
    sum_all(codec, ranks, 0, false);
    double error = error_of_sum(ranks), want = theory_saturated(clip, levels, ranks);
    double beyond = erfc(clip / sqrt(2.0 * ranks));
    CHECK(error > 0.9 * want && error < 1.15 * want, "%s, %u ranks: %g, theory %g", spec, ranks,
          error, want);
    CHECK((double)cut > 0.8 * beyond * N && (double)cut < 1.2 * beyond * N,
          "%s: %zu numbers cut off, theory %g", spec, (size_t)cut, beyond * N);
    wring_codec_destroy(codec);
}

static void saturated(void)
{
    check_saturated("thc:width=4:clip=2:sums=saturate", 4, 2, 7);
    check_saturated("thc:clip=4:sums=saturate", 4, 4, 127);
    check_saturated("thc:clip=4:sums=saturate", 16, 4, 127);

    struct wring_codec *exact = make("thc:clip=24:sums=saturate"); /* nothing is beyond that */
    fill(4, 5);
    sum_all(exact, 4, 0, false);
    CHECK(cut == 0 && error_of_sum(4) < 1.3 * 24 * 24 / (127.0 * 127 * 12), "%zu numbers, %g",
          (size_t)cut, error_of_sum(4));
    CHECK(exact->ops->most_ranks(exact) == 32767, "other limits of ranks");
    wring_codec_destroy(exact);
}

/** Runs spread a large number over themselves alone, so more of it is beyond the clip. */
static void partial(void)
{
    static const struct {
        const char *spec;
        double least, most; /* of the input's power, what is lost */
    } cases[] = {{"thc", 0, 1e-3}, {"thc:rotate=1024", 0, 1e-3}, {"thc:rotate=32", 0.1, 0.2}};

    memset(input, 0, sizeof(input));
    for (uint64_t i = 0; i < N; i += 1024)
        input[0][i] = 1000;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wring_codec *codec = make(cases[i].spec);
        sum_all(codec, 1, 0, false);
        double error = error_of_sum(1);
        CHECK(error >= cases[i].least && error <= cases[i].most, "%s loses %g", cases[i].spec,
              error);
        wring_codec_destroy(codec);
    }
}

/** What steps and clips lose comes through later. */
static void feedback(void)
{
    struct wring_codec *codec = make("thc:clip=2+ef");
    static double missing[N];
    double first = 0, last = 0;

    memset(residual, 0, sizeof(residual));
    memset(missing, 0, sizeof(missing));
    for (uint32_t step = 0; step < 60; step++) {
        fill(4, step + 1);
        sum_all(codec, 4, step, true);
        double square = 0;
        for (uint64_t i = 0; i < N; i++) {
            missing[i] -= (double)sum[i];
            for (uint32_t r = 0; r < 4; r++)
                missing[i] += (double)input[r][i];
            square += missing[i] * missing[i];
        }
        first = step == 9 ? square : first;
        last = square;
    }
    CHECK(last < 2 * first, "what is missing grows from %g to %g", first, last);
    wring_codec_destroy(codec);
}

static const struct wring_test_case cases[] = {{"errors", errors},     {"outliers", outliers},
                                               {"partial", partial},   {"saturated", saturated},
                                               {"feedback", feedback}, {0}};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
