/* SPDX-License-Identifier: Apache-2.0 */
/** powersgd against its definition: sums of low rank, better ones step by step, and feedback. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "tests/lib/codec_conform.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define ROWS 60
#define COLUMNS 130
#define N (ROWS * COLUMNS)
#define RANKS 3
#define RANK_MAX 8

struct rank {
    float input[N], residual[N];
    float *q, *own;
    void *states[2];
};

static struct rank ranks[RANKS];
static float p[N], q[N], out[N];
static const void *statistics[] = {p, q};

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    CHECK(wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK, "%s", spec);
    return codec;
}

static struct wring_codec_context context_of(uint32_t rank, uint64_t step)
{
    return (struct wring_codec_context){.seed = 9,
                                        .rank = rank,
                                        .ranks = RANKS,
                                        .step = step,
                                        .elems = N,
                                        .rows = ROWS,
                                        .columns = COLUMNS,
                                        .statistics = statistics,
                                        .states = ranks[rank].states};
}

static void begin(const struct wring_codec *codec)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        struct wring_codec_context context = context_of(r, 0);
        for (size_t s = 0; s < 2; s++) {
            const struct wring_codec_state *state = &codec->ops->states[s];
            uint64_t count = state->count(codec, &context);
            ranks[r].states[s] = calloc(count, sizeof(float));
            if (state->init != NULL)
                state->init(codec, &context, ranks[r].states[s], count);
        }
        memset(ranks[r].residual, 0, sizeof(ranks[r].residual));
    }
}

static void end(struct wring_codec *codec)
{
    for (uint32_t r = 0; r < RANKS; r++)
        free(ranks[r].states[0]), free(ranks[r].states[1]);
    wring_codec_destroy(codec);
}

static void run_round(const struct wring_codec *codec, uint32_t index, float *result, uint64_t step,
                      bool fed)
{
    const struct wring_codec_round *round = &codec->ops->rounds[index];
    struct wring_codec_context context = context_of(0, step);
    uint64_t count = round->count(codec, &context);
    static float own[N], of_rank[N];

    memset(result, 0, count * sizeof(*result));
    for (uint32_t r = 0; r < RANKS; r++) {
        context = context_of(r, step);
        memset(own, 0, sizeof(own));
        round->begin(codec, &context, ranks[r].input, N, fed ? ranks[r].residual : NULL, own, NULL);
        for (uint64_t i = 0; i < count; i++)
            result[i] += own[i];
    }
    memcpy(own, result, count * sizeof(*own));
    for (uint32_t r = 0; r < RANKS; r++) {
        context = context_of(r, step);
        memcpy(of_rank, own, count * sizeof(*own));
        round->end(codec, &context, of_rank, count);
        CHECK(r == 0 || memcmp(of_rank, result, count * sizeof(*own)) == 0,
              "rank %u finds something else", r);
        memcpy(result, of_rank, count * sizeof(*own));
    }
}

/** out = the sum. */
static void run_step(const struct wring_codec *codec, uint64_t step, bool fed)
{
    unsigned char code[4];

    run_round(codec, 0, p, step, fed);
    run_round(codec, 1, q, step, fed);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct wring_codec_context context = context_of(r, step);
        wring_codec_encode(codec, &context, ranks[r].input, N, fed ? ranks[r].residual : NULL,
                           code);
    }
    struct wring_codec_context context = context_of(0, step);
    context.phase = 1;
    CHECK(wring_codec_decode(codec, &context, code, sizeof(code), out, N, false) == WRING_OK,
          "decode");
}

static float number(uint32_t *random)
{
    return wring_test_random_float(random);
}

/** Each rank's matrix is of the same directions, in other shares. @param noise  beside them */
static void fill(int of_rank, float noise, uint32_t seed)
{
    uint32_t directions = 77, random = seed;
    float left[RANK_MAX][ROWS], right[RANK_MAX][COLUMNS];

    for (int k = 0; k < of_rank; k++) {
        for (int i = 0; i < ROWS; i++)
            left[k][i] = number(&directions);
        for (int i = 0; i < COLUMNS; i++)
            right[k][i] = number(&directions);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        float share[RANK_MAX];
        for (int k = 0; k < of_rank; k++)
            share[k] = 1 + number(&random) / 2;
        for (int i = 0; i < N; i++) {
            float x = noise * number(&random);
            for (int k = 0; k < of_rank; k++)
                x += share[k] * left[k][i / COLUMNS] * right[k][i % COLUMNS];
            ranks[r].input[i] = x;
        }
    }
}

static double error_of_sum(void)
{
    double error = 0, power = 0;
    for (uint64_t i = 0; i < N; i++) {
        double want = 0;
        for (uint32_t r = 0; r < RANKS; r++)
            want += (double)ranks[r].input[i];
        error += ((double)out[i] - want) * ((double)out[i] - want);
        power += want * want;
    }
    return error / power;
}

static const struct {
    const char *spec;
    int rank;
} each_rank[] = {
    {"powersgd:rank=1", 1},
    {"powersgd:rank=2", 2},
    {"powersgd", 4},
    {"powersgd:rank=8", 8},
};
#define RANKS_OF_CODECS (sizeof(each_rank) / sizeof(each_rank[0]))

/** P's columns are orthonormal, and a sum of the codec's rank comes out whole. */
static void exact_of_its_rank(void)
{
    for (size_t c = 0; c < RANKS_OF_CODECS; c++) {
        struct wring_codec *codec = make(each_rank[c].spec);
        begin(codec);
        fill(each_rank[c].rank, 0, 5);
        run_step(codec, 0, false);
        for (int j = 0; j < each_rank[c].rank; j++)
            for (int k = 0; k <= j; k++) {
                double product = 0;
                for (int i = 0; i < ROWS; i++)
                    product += (double)p[j * ROWS + i] * (double)p[k * ROWS + i];
                CHECK(fabs(product - (j == k)) < 1e-4, "%s: columns %d and %d: %g",
                      each_rank[c].spec, j, k, product);
            }
        CHECK(error_of_sum() < 1e-9, "%s: a sum of its rank is off by %g", each_rank[c].spec,
              error_of_sum());
        end(codec);
    }
}

/** Of a sum of rank 4 each codec of less rank misses something, the less the higher its rank is;
 *  one of more rank brings it whole, and no noise in the columns that are left. */
static void more_rank_less_error(void)
{
    double before = 1;

    for (size_t c = 0; c < RANKS_OF_CODECS; c++) {
        struct wring_codec *codec = make(each_rank[c].spec);
        begin(codec);
        fill(4, 0, 5);
        for (uint64_t step = 0; step < 20; step++)
            run_step(codec, step, false);
        double error = error_of_sum();
        if (each_rank[c].rank < 4)
            CHECK(error > 0.01 && error < 0.9 * before, "%s: off by %g, after %g",
                  each_rank[c].spec, error, before);
        else
            CHECK(error < 1e-9, "%s: off by %g", each_rank[c].spec, error);
        for (int k = 4; k < each_rank[c].rank; k++)
            for (int i = 0; i < ROWS; i++)
                REQUIRE(p[k * ROWS + i] == 0, "column %d holds %g", k, (double)p[k * ROWS + i]);
        before = error;
        end(codec);
    }
}

/** Of the same numbers again and again each step is nearer to the best of rank 4. */
static void warm_start(void)
{
    struct wring_codec *codec = make("powersgd");
    double first = 0, last = 0;

    begin(codec);
    fill(4, 0.3f, 5);
    for (uint64_t step = 0; step < 8; step++) {
        run_step(codec, step, false);
        first = step == 0 ? error_of_sum() : first;
        last = error_of_sum();
    }
    double noise = 0.09 / 3 * RANKS; /* a number's power from -1 to 1 is a third */
    double power = 0;
    for (uint64_t i = 0; i < N; i++) {
        double sum = 0;
        for (uint32_t r = 0; r < RANKS; r++)
            sum += (double)ranks[r].input[i];
        power += sum * sum;
    }
    CHECK(last < first && last < 1.05 * noise * N / power, "from %g to %g, of noise %g", first,
          last, noise * N / power);
    end(codec);
}

/** What has not come through stays bounded, and nothing is lost. */
static void check_feedback(const char *spec)
{
    struct wring_codec *codec = make(spec);
    static double missing[N];
    double early = 0, late = 0;

    begin(codec);
    memset(missing, 0, sizeof(missing));
    for (uint64_t step = 0; step < 200; step++) {
        double kept = 0, whole = 0;
        fill(4, 1, (uint32_t)step + 1);
        run_step(codec, step, true);
        for (uint64_t i = 0; i < N; i++) {
            double left = 0;
            missing[i] -= (double)out[i];
            for (uint32_t r = 0; r < RANKS; r++) {
                missing[i] += (double)ranks[r].input[i];
                left += (double)ranks[r].residual[i];
                kept += (double)ranks[r].residual[i] * (double)ranks[r].residual[i];
            }
            whole += (missing[i] - left) * (missing[i] - left);
        }
        CHECK(whole < 1e-6 * kept, "%s: step %d: %g of %g is lost", spec, (int)step, whole, kept);
        early = step == 49 ? kept : early;
        late = kept;
    }
    CHECK(late < 2.5 * early, "%s: residuals grow from %g to %g", spec, early, late);
    end(codec);
}

static void feedback(void)
{
    check_feedback("powersgd:rank=2+ef");
    check_feedback("powersgd+ef");
    check_feedback("powersgd:rank=8+ef");
}

/** Nothing at all, and then something: the directions are not lost. */
static void zeros(void)
{
    struct wring_codec *codec = make("powersgd");

    begin(codec);
    for (uint32_t r = 0; r < RANKS; r++)
        memset(ranks[r].input, 0, sizeof(ranks[r].input));
    for (uint64_t step = 0; step < 3; step++) {
        run_step(codec, step, false);
        for (uint64_t i = 0; i < N; i++)
            REQUIRE(out[i] == 0, "zero became %g", (double)out[i]);
    }
    fill(4, 0, 5);
    run_step(codec, 3, false);
    CHECK(error_of_sum() < 1e-9, "after zeros a sum is off by %g", error_of_sum());
    end(codec);
}

#define CORNER 4 /* rows and columns */

/** A few numbers that are nearly as large as a float32 may be, of any signs. */
static void fill_corner(float *x, uint32_t *random)
{
    memset(x, 0, N * sizeof(*x));
    for (uint64_t i = 0; i < CORNER * CORNER; i++) {
        float part = (float)(1 + wring_test_random(random) % 4) / 4;
        x[i / CORNER * COLUMNS + i % CORNER] =
            wring_test_random(random) % 2 ? FLT_MAX * part : -FLT_MAX * part;
    }
}

/** @return whether an element less what the rank's own code says of it is beyond a float32 */
static bool rest_is_infinite(const struct rank *rank, uint64_t row, uint64_t column, unsigned n)
{
    double rest = (double)rank->input[row * COLUMNS + column];
    const float *own = rank->states[1];

    for (unsigned k = 0; k < n; k++)
        rest -= (double)p[k * ROWS + row] * (double)own[k * COLUMNS + column];
    return !isfinite((float)rest);
}

/** What no float32 can keep is lost, and is not in the way of later steps. */
static void residuals_stay_finite(void)
{
    struct wring_codec *codec = make("powersgd:rank=2+ef");
    uint32_t random = 7;
    uint64_t infinite = 0;

    for (int trial = 0; trial < 300; trial++) {
        begin(codec);
        for (uint32_t r = 1; r < RANKS; r++)
            memset(ranks[r].input, 0, sizeof(ranks[r].input));
        fill_corner(ranks[0].input, &random);
        run_step(codec, 0, true);
        bool lost = !isfinite(q[0]);
        for (uint64_t i = 0; i < N && !lost; i++) {
            infinite += rest_is_infinite(&ranks[0], i / COLUMNS, i % COLUMNS, 2);
            REQUIRE(isfinite(ranks[0].residual[i]), "trial %d: the residual of %d is %g", trial,
                    (int)i, (double)ranks[0].residual[i]);
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            free(ranks[r].states[0]);
            free(ranks[r].states[1]);
        }
    }
    CHECK(infinite > 0, "no rest was infinite");
    begin(codec);
    end(codec);
}

/** The suite's own lengths make few matrices. */
static void conformance(void)
{
    static const uint64_t lengths[] = {1024, 1056, 4128, 32 * 77};
    static const char *const specs[] = {"powersgd", "powersgd+ef", "powersgd:rank=1+ef",
                                        "powersgd:rank=2", "powersgd:rank=8+ef"};
    const struct codec_conform_limits limits = {
        .lengths = lengths, .n_lengths = 4, .deep = 4128, .seed = 3};
    char why[400];

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        CHECK(codec_conform(NULL, specs[i], &limits, why, sizeof(why)), "%s", why);
}

static const struct wring_test_case cases[] = {{"exact_of_its_rank", exact_of_its_rank},
                                               {"more_rank_less_error", more_rank_less_error},
                                               {"warm_start", warm_start},
                                               {"feedback", feedback},
                                               {"zeros", zeros},
                                               {"residuals_stay_finite", residuals_stay_finite},
                                               {"conformance", conformance},
                                               {0}};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
