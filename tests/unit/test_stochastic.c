/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Codecs that round at random, against their papers' definitions: the expectation of a code is its
 * input, its variance is at most omega times the input's square, ranks and steps round apart from
 * each other, and error feedback keeps what is left bounded and loses nothing over time.
 */
#include <math.h>
#include <string.h>

#include "compress/codec.h"
#include "tests/unit/codec_check.h"

#define N 1000 /* elements, with a short unit at the end of most */
#define STEPS 1500

static const struct {
    const char *spec;
    double omega; /* of FORMAT.md */
} codecs[] = {
    {"qsgd:bits=2", 7.98436},
    {"qsgd:bits=2:norm=l2:block=1024", 32},
    {"qsgd", 1.14065},
    {"qsgd:norm=l2", 1.30613},
    {"qsgd:partition=natural", 0.140625},
    {"qsgd:bits=8:block=32", 0.000481},
    {"qsgd:bits=8:norm=l2:partition=natural", 0.125},
    {"natural", 0.125},
    {"natural:bits=8", 0.125},
    {"bf16:round=random", 0x1p-16},
    {"fp16:round=random", 0x1p-22},
    {"fp8:round=random", 0.00390625},
    {"fp8:format=e5m2:round=random:block=32", 0.015625},
    {"mxfp8:round=random", 0.00390625},
    {"mxfp8:round=random:format=e5m2", 0.015625},
    {"mxfp4:round=random", 0.277778},
    {"nvfp4:round=random", 0.095459},
};
#define CODECS (sizeof(codecs) / sizeof(codecs[0]))

/** Errors of the few large numbers are left out of sums: where errors grow with each number, theirs
 * would be all that counts. */
static bool is_large(int i)
{
    return i % 97 == 0;
}

/** Some large among many small ones, as gradients are; zeros too. */
static void make_input(float *x, uint32_t seed)
{
    uint32_t random = seed;
    for (int i = 0; i < N; i++) {
        float u = wring_test_random_float(&random), v = wring_test_random_float(&random);
        x[i] = i % 10 == 0 ? 0 : u * v * v * (is_large(i) ? 10.0f : 1.0f);
    }
}

static double square_of(const float *x)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/** What x becomes under that context. @param residual  or NULL */
static void pass(const struct wring_codec *codec, struct wring_codec_context context,
                 const float *x, float *residual, float *out)
{
    static unsigned char code[16 * N];
    size_t bytes = wring_codec_encode(codec, &context, x, N, residual, code);
    CHECK(wring_codec_decode(codec, &context, code, bytes, out, N, false) == WRING_OK, "decode");
}

/** Over many steps: their mean is as near to the input as that of independent errors is. */
static void check_moments(const char *spec, double omega)
{
    struct wring_codec *codec = codec_make(spec, NULL, NULL);
    static float x[N], out[N];
    static double sum[N], errors[N]; /* in squares */
    double variance = 0, spread = 0, bias = 0;

    CHECK(wring_codec_info(codec)->flags & WRING_CODEC_UNBIASED, "%s does not say so", spec);
    make_input(x, 3);
    memset(sum, 0, sizeof(sum));
    memset(errors, 0, sizeof(errors));
    for (uint64_t step = 0; step < STEPS; step++) {
        pass(codec, (struct wring_codec_context){.seed = 5, .ranks = 1, .step = step}, x, NULL,
             out);
        for (int i = 0; i < N; i++) {
            sum[i] += (double)out[i];
            errors[i] += ((double)out[i] - (double)x[i]) * ((double)out[i] - (double)x[i]);
            CHECK(x[i] != 0 || out[i] == 0, "%s: zero became %a", spec, (double)out[i]);
        }
    }
    for (int i = 0; i < N; i++) {
        bias += (sum[i] / STEPS - (double)x[i]) * (sum[i] / STEPS - (double)x[i]);
        variance += errors[i] / STEPS;
        spread += errors[i] / STEPS * errors[i] / STEPS;
    }
    double square = square_of(x);
    CHECK(variance <= omega * square, "%s: the variance is %g times the square, above %g", spec,
          variance / square, omega);
    /* where errors grow with numbers, those of a few count, and chance has more to say */
    double slack = fmax(0.5 * variance, 4 * sqrt(2 * spread));
    CHECK(fabs(bias * STEPS - variance) < slack,
          "%s: the mean of %d steps is off by %g, not by %g +- %g", spec, STEPS, bias,
          variance / STEPS, slack / STEPS);
    wring_codec_destroy(codec);
}

static void moments(void)
{
    for (size_t i = 0; i < CODECS; i++)
        check_moments(codecs[i].spec, codecs[i].omega);
}

/** Errors of ranks, and of a sum on its way back, are independent: those of a sum add in squares.
 */
static void independence(void)
{
    enum {
        RANKS = 64
    };
    for (size_t c = 0; c < CODECS; c++) {
        struct wring_codec *codec = codec_make(codecs[c].spec, NULL, NULL);
        static float x[N], out[N];
        static double sum[N];
        double errors = 0, of_sum = 0;

        make_input(x, 9);
        memset(sum, 0, sizeof(sum));
        for (uint32_t r = 0; r < RANKS; r++) {
            const struct wring_codec_context context = {
                .seed = 5, .ranks = RANKS, .rank = r / 2, .phase = r % 2, .step = 7};
            pass(codec, context, x, NULL, out);
            for (int i = 0; i < N; i++) {
                double error = (double)out[i] - (double)x[i];
                sum[i] += error;
                errors += is_large(i) ? 0 : error * error;
            }
        }
        for (int i = 0; i < N; i++)
            of_sum += is_large(i) ? 0 : sum[i] * sum[i];
        CHECK(of_sum < 1.4 * errors && of_sum > 0.6 * errors,
              "%s: a sum's error has the square %g, its parts' %g", codecs[c].spec, of_sum, errors);
        wring_codec_destroy(codec);
    }
}

/** @param omega  of the codec without feedback */
static void check_feedback(const char *plain, double omega)
{
    char spec[WRING_CODEC_SPEC_MAX];
    snprintf(spec, sizeof(spec), "%s+ef", plain);
    struct wring_codec *codec = codec_make(spec, NULL, NULL);
    static float x[N], out[N], residual[N];
    static double sent[N], given[N];
    double largest = 0, most = 0;

    CHECK(!(wring_codec_info(codec)->flags & WRING_CODEC_UNBIASED), "%s is scaled", spec);
    memset(sent, 0, sizeof(sent));
    memset(given, 0, sizeof(given));
    memset(residual, 0, sizeof(residual));
    for (uint64_t step = 0; step < 1000; step++) {
        make_input(x, (uint32_t)step + 1);
        pass(codec, (struct wring_codec_context){.seed = 5, .ranks = 1, .step = step}, x, residual,
             out);
        for (int i = 0; i < N; i++) {
            sent[i] += (double)out[i];
            given[i] += (double)x[i];
        }
        largest = fmax(largest, sqrt(square_of(x)));
        most = fmax(most, sqrt(square_of(residual)));
    }
    /* a contraction by 1 - 1 / (1 + omega) per step, in squares */
    double bound = 2 * (1 + omega) * largest;
    CHECK(most <= bound, "%s: the residual grows to %g, above %g", spec, most, bound);
    for (int i = 0; i < N; i++)
        CHECK(fabs(given[i] - sent[i] - (double)residual[i]) <= 1e-4 * largest,
              "%s: of %g in all, %g is lost", spec, given[i],
              given[i] - sent[i] - (double)residual[i]);
    wring_codec_destroy(codec);
}

static void feedback(void)
{
    for (size_t i = 0; i < CODECS; i++)
        check_feedback(codecs[i].spec, codecs[i].omega);
}

/* ---- terngrad: under the scale that a round gave ---- */

static struct wring_codec_context with_scale(const void *const *statistics, uint64_t step)
{
    return (struct wring_codec_context){
        .seed = 5, .ranks = 2, .step = step, .elems = N, .statistics = statistics};
}

/** The least of 2.5 deviations and the largest magnitude, of the rank that has the larger one. */
static void shared_scale(void)
{
    struct wring_codec *codec = codec_make("terngrad", NULL, NULL);
    const struct wring_codec_round *round = codec->ops->rounds;
    static float x[2][N];
    float scale = 0, flat[32], of_flat = 0;
    double want = 0;

    for (int rank = 0; rank < 2; rank++) {
        float own = 0;
        make_input(x[rank], (uint32_t)rank + 3);
        const struct wring_codec_context context = with_scale(NULL, 0);
        CHECK(round->count(codec, &context) == 1, "one block has more scales");
        round->begin(codec, &context, x[rank], N, NULL, &own, NULL);
        scale = fmaxf(scale, own);
        want = fmax(want, 2.5 * sqrt(square_of(x[rank]) / N));
    }
    CHECK(fabs((double)scale - want) < want * 1e-6, "the scale is %g, not %g", (double)scale, want);
    for (int i = 0; i < 32; i++)
        flat[i] = i % 2 ? -0.5f : 0.5f;
    struct wring_codec_context few = with_scale(NULL, 0);
    few.elems = 32;
    round->begin(codec, &few, flat, 32, NULL, &of_flat, NULL);
    CHECK(of_flat == 0.5f, "2.5 deviations are %g, above the largest", (double)of_flat);
    wring_codec_destroy(codec);
}

/** Over many steps the mean is the input, or the scale where that is less. */
static void clipped_mean(void)
{
    struct wring_codec *codec = codec_make("terngrad", NULL, NULL);
    static float x[N], out[N];
    static double sum[N];
    float scale = 0.9f;
    const void *const statistics[] = {&scale};
    double off = 0, variance = 0;

    make_input(x, 11);
    for (uint64_t step = 0; step < STEPS; step++) {
        pass(codec, with_scale(statistics, step), x, NULL, out);
        for (int i = 0; i < N; i++) {
            sum[i] += (double)out[i];
            CHECK(out[i] == 0 || fabsf(out[i]) == scale, "%g became %g", (double)x[i],
                  (double)out[i]);
        }
    }
    for (int i = 0; i < N; i++) {
        double size = fmin(fabs((double)x[i]), (double)scale);
        double error = sum[i] / STEPS - copysign(size, (double)x[i]);
        off += error * error;
        variance += size * (double)scale - size * size;
    }
    CHECK(off < 1.3 * variance / STEPS && off > 0.7 * variance / STEPS,
          "the mean of %d steps is off by %g, not by %g", STEPS, off, variance / STEPS);
    wring_codec_destroy(codec);
}

/** With the scale of each step's own round: bounded, and nothing is lost. */
static void clipped_feedback(void)
{
    struct wring_codec *codec = codec_make("terngrad+ef", NULL, NULL);
    static float x[N], out[N], residual[N];
    static double left[N];
    double largest = 0, most = 0;

    for (uint64_t step = 0; step < 1000; step++) {
        float scale = 0;
        const void *const statistics[] = {&scale};
        const struct wring_codec_context context = with_scale(statistics, step);
        make_input(x, (uint32_t)step + 1);
        codec->ops->rounds->begin(codec, &context, x, N, residual, &scale, NULL);
        pass(codec, context, x, residual, out);
        for (int i = 0; i < N; i++)
            left[i] += (double)x[i] - (double)out[i];
        largest = fmax(largest, sqrt(square_of(x)));
        most = fmax(most, sqrt(square_of(residual)));
    }
    CHECK(most <= 2 * 2.5 * largest, "the residual grows to %g, inputs are %g", most, largest);
    for (int i = 0; i < N; i++)
        CHECK(fabs(left[i] - (double)residual[i]) <= 1e-4 * largest, "%g is lost",
              left[i] - (double)residual[i]);
    wring_codec_destroy(codec);
}

/** The largest levels of as many ranks as may be fill the width, in a last half byte, too; those of
 *  one more do not fit. */
static void check_full_sum(const char *spec, uint32_t most)
{
    enum {
        ELEMS = 33
    };
    struct wring_codec *codec = codec_make(spec, NULL, NULL);
    float scale = 0.5f, x[ELEMS], out[ELEMS];
    const void *const statistics[] = {&scale};
    struct wring_codec_context context = with_scale(statistics, 0);
    unsigned char code[ELEMS], sum[ELEMS];

    context.elems = ELEMS;
    context.ranks = most;
    CHECK(codec->ops->most_ranks(codec) == most, "%s: up to %u ranks", spec,
          codec->ops->most_ranks(codec));
    for (int i = 0; i < ELEMS; i++)
        x[i] = (float)(1 - i % 3) * scale;
    size_t bytes = wring_codec_encode(codec, &context, x, ELEMS, NULL, code);
    memcpy(sum, code, bytes);
    for (uint32_t rank = 1; rank < most; rank++)
        CHECK(codec->ops->code_sum(codec, &context, sum, code, bytes, ELEMS) == WRING_OK,
              "%s: rank %u does not fit", spec, rank);
    context.phase = 1;
    CHECK(wring_codec_decode(codec, &context, sum, bytes, out, ELEMS, false) == WRING_OK, "%s",
          spec);
    for (int i = 0; i < ELEMS; i++)
        CHECK(out[i] == (float)most * x[i], "%s: element %d is %g", spec, i, (double)out[i]);
    CHECK(codec->ops->code_sum(codec, &context, sum, code, bytes, ELEMS) == WRING_ERR_FRAME,
          "%s: %u ranks fit", spec, most + 1);
    wring_codec_destroy(codec);
}

static void full_sums(void)
{
    check_full_sum("terngrad:bits=4", 7);
    check_full_sum("terngrad:bits=8", 127);
}

static const struct wring_test_case cases[] = {
    {"moments", moments},           {"independence", independence},
    {"feedback", feedback},         {"shared_scale", shared_scale},
    {"clipped_mean", clipped_mean}, {"clipped_feedback", clipped_feedback},
    {"full_sums", full_sums},       {0},
};

int main(int argc, char **argv)
{
    return codec_test_main(argc, argv, cases);
}
