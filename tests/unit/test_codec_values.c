/* SPDX-License-Identifier: Apache-2.0 */
/** What a code decodes to, held against a plain reference in double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "tests/unit/codec_check.h"

static double peak_of(const float *x, uint64_t n)
{
    double peak = 0;
    for (uint64_t i = 0; i < n; i++)
        peak = fmax(peak, fabs((double)x[i]));
    return peak;
}

static void check_onebit(const struct wring_codec *codec, const float *x, const float *y,
                         uint64_t n)
{
    double sums[2] = {0}, counts[2] = {0};
    bool split = strstr(wring_codec_info(codec)->spec, "means=2") != NULL;
    for (uint64_t i = 0; i < n; i++) {
        sums[split && signbit(x[i])] += fabs((double)x[i]);
        counts[split && signbit(x[i])]++;
    }
    for (uint64_t i = 0; i < n; i++) {
        int side = split && signbit(x[i]);
        double want = sums[side] / counts[side];
        CHECK(!signbit(x[i]) == !signbit(y[i]) && fabs(fabs((double)y[i]) - want) <= want * 1e-5,
              "%s i=%zu: %g became %g, mean %g", wring_codec_info(codec)->spec, (size_t)i, x[i],
              y[i], want);
    }
}

static double parameter_of(const char *spec, const char *name, double usual)
{
    const char *text = strstr(spec, name);
    return text != NULL ? strtod(text + strlen(name), NULL) : usual;
}

/** Of a first step. */
static double ratio_of(const char *spec)
{
    double ratio = parameter_of(spec, "ratio=", 0.01);
    return strstr(spec, "+warmup") != NULL ? fmax(ratio, 0.25) : ratio;
}

/** Chosen elements travel exactly, and none left behind is larger than one that was chosen. */
static void check_topk(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    double least = INFINITY, left = 0;
    uint64_t count = 0;

    for (uint64_t i = 0; i < n; i++) {
        CHECK(y[i] == 0 || y[i] == x[i], "%s i=%zu: %g became %g", spec, (size_t)i, x[i], y[i]);
        if (y[i] != 0) {
            least = fmin(least, fabs((double)y[i]));
            count++;
        } else {
            left = fmax(left, fabs((double)x[i]));
        }
    }
    CHECK(count == 0 || left <= least, "%s n=%zu: %g stayed, %g was sent", spec, (size_t)n, left,
          least);
    double k = fmax(1, ceil(ratio_of(spec) * (double)n));
    bool exact = n < 16384 || strstr(spec, "exact") != NULL;
    CHECK((double)count <= (exact ? k : floor(k * 1.25) + 8), "%s n=%zu: %zu sent, wanted %g", spec,
          (size_t)n, (size_t)count, k);
    CHECK((double)count >= (exact ? k : k / 2), "%s n=%zu: only %zu sent, wanted %g", spec,
          (size_t)n, (size_t)count, k);
}

/** Of zeros there is no more to say than that each is a vote. */
static void check_votes(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(x[i] == 0 ? fabsf(y[i]) == 1 : y[i] == (x[i] < 0 ? -1 : 1), "%s i=%zu: %g became %g",
              wring_codec_info(codec)->spec, (size_t)i, x[i], y[i]);
}

/** A share of the elements travels, each n/k times, and none but those. */
static void check_randk(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    double k = fmax(1, ceil(ratio_of(spec) * (double)n));
    bool fed = wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK;
    float scale = fed ? 1 : (float)n / (float)k;
    uint64_t count = 0;

    for (uint64_t i = 0; i < n; i++) {
        CHECK(y[i] == 0 || y[i] == x[i] * scale, "%s i=%zu: %g became %g", spec, (size_t)i, x[i],
              y[i]);
        count += y[i] != 0;
    }
    CHECK((double)count == k, "%s n=%zu: %zu sent, wanted %g", spec, (size_t)n, (size_t)count, k);
}

/** Elements travel as they are, if at all, and most that are large enough do. */
static void check_hashed(const struct wring_codec *codec, const float *x, const float *y,
                         uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    double k = fmax(1, ceil(ratio_of(spec) * (double)n)), least = INFINITY;
    uint64_t count = 0, passed = 0;

    for (uint64_t i = 0; i < n; i++) {
        CHECK(y[i] == 0 || y[i] == x[i], "%s i=%zu: %g became %g", spec, (size_t)i, x[i], y[i]);
        least = y[i] != 0 ? fmin(least, fabs((double)y[i])) : least;
        count += y[i] != 0;
    }
    for (uint64_t i = 0; i < n; i++)
        passed += y[i] == 0 && fabs((double)x[i]) >= least;
    CHECK((double)(count + passed) <= 2 * k + 8 && (double)(count + passed) >= k / 2,
          "%s n=%zu: %zu are large enough, wanted %g", spec, (size_t)n, (size_t)(count + passed),
          k);
    CHECK(passed <= 4 + count, "%s n=%zu: %zu met others, %zu were sent", spec, (size_t)n,
          (size_t)passed, (size_t)count);
}

/** What reaches the value, or where that is more than the cap the largest of it. */
static void check_threshold(const struct wring_codec *codec, const float *x, const float *y,
                            uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    double value = parameter_of(spec, "value=", 0.01), least = INFINITY, left = 0;
    double cap = fmax(1, ceil(parameter_of(spec, "cap=", 0.1) * (double)n));
    uint64_t reach = 0, count = 0;

    for (uint64_t i = 0; i < n; i++) {
        double size = fabs((double)x[i]);
        CHECK(y[i] == 0 || y[i] == x[i], "%s i=%zu: %g became %g", spec, (size_t)i, x[i], y[i]);
        reach += size >= value;
        count += y[i] != 0;
        least = y[i] != 0 ? fmin(least, size) : least;
        left = y[i] == 0 ? fmax(left, size) : left;
    }
    CHECK(count == (uint64_t)fmin((double)reach, cap), "%s n=%zu: %zu sent, %zu reach it", spec,
          (size_t)n, (size_t)count, (size_t)reach);
    CHECK(left <= least && least >= value, "%s n=%zu: %g stayed, %g was sent", spec, (size_t)n,
          left, least);
}

static double norm_of(const char *spec, const float *x, uint64_t n)
{
    double squares = 0;

    if (strstr(spec, "norm=l2") == NULL)
        return peak_of(x, n);
    for (uint64_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/** The level below or that above; under +ef the same of a code that is scaled. */
static void check_qsgd(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    unsigned bits = strstr(spec, "bits=2") != NULL ? 2 : strstr(spec, "bits=8") != NULL ? 8 : 4;
    double s = (1u << (bits - 1)) - 1, norm = norm_of(spec, x, n);

    for (uint64_t i = 0; i < n; i++) {
        double size = fabs((double)x[i]), error = fabs((double)x[i] - (double)y[i]);
        double gap = strstr(spec, "natural") != NULL ? fmax(size, norm * exp2(1 - s)) : norm / s;
        double fed = strstr(spec, "+ef") != NULL ? size : 0;
        CHECK(error <= (gap + fed) * 1.00001, "%s i=%zu: %g became %g, a gap is %g", spec,
              (size_t)i, x[i], y[i], gap);
    }
}

/** The power of two below or above; under +ef 8/9 of it. */
static void check_natural(const struct wring_codec *codec, const float *x, const float *y,
                          uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    double keep = strstr(spec, "+ef") != NULL ? (double)(8.0f / 9) : 1;

    for (uint64_t i = 0; i < n; i++) {
        double power = fabs((double)y[i]) / keep, size = fabs((double)x[i]);
        int exponent;
        double part = frexp(power, &exponent);
        CHECK((power == 0 && size < 0x1p-86) ||
                  (fabs(part - 0.5) < 1e-6 && power < 2.00001 * size && power > size * 0.49999 &&
                   !signbit(x[i]) == !signbit(y[i])),
              "%s i=%zu: %g became %g", spec, (size_t)i, x[i], y[i]);
    }
}

/** The nearest of values that are equally far apart, from end to end or around 0. */
static void check_ints(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    int steps = 1 << (spec[3] - '0');
    double least = INFINITY, most = -INFINITY, peak = peak_of(x, n);

    for (uint64_t i = 0; i < n; i++) {
        least = fmin(least, (double)x[i]);
        most = fmax(most, (double)x[i]);
    }
    double apart =
        strstr(spec, "minmax") != NULL ? (most - least) / (steps - 1) : 2 * peak / (steps - 2);
    for (uint64_t i = 0; i < n; i++)
        CHECK(fabs((double)x[i] - (double)y[i]) <= apart * 0.50001 + peak * 0x1p-22,
              "%s i=%zu: %g became %g, steps are %g apart", spec, (size_t)i, x[i], y[i], apart);
}

/** Never more than the user said. */
static void check_bounded(const struct wring_codec *codec, const float *x, const float *y,
                          uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec, *text = strstr(spec, "error=");
    double error = text != NULL ? strtod(text + 6, NULL) : 0.0001;

    for (uint64_t i = 0; i < n; i++)
        CHECK(fabs((double)x[i] - (double)y[i]) <= error, "%s i=%zu: %a became %a", spec, (size_t)i,
              (double)x[i], (double)y[i]);
}

/** Of the formats by their definitions: fraction bits, the exponents of least and largest. */
struct small_float {
    int fraction, least, most;
    double largest, omega;
};

static struct small_float small_float_of(const char *spec)
{
    if (strstr(spec, "mxfp4") != NULL)
        return (struct small_float){1, 0, 2, 6, 5.0 / 18};
    if (strstr(spec, "nvfp4") != NULL)
        return (struct small_float){1, 0, 2, 6, 391.0 / 4096};
    if (strstr(spec, "e5m2") != NULL)
        return (struct small_float){2, -14, 15, 57344, 0x1p-6};
    return (struct small_float){3, -6, 8, 448, 0x1p-8};
}

/** The step of a block whose largest is `peak`, and how much it may be off either way. */
static double step_of(const char *spec, struct small_float format, double peak, double of_unit,
                      double *slack)
{
    bool random = strstr(spec, "random") != NULL;

    *slack = 1e-6 * peak / format.largest;
    if (strncmp(spec, "fp8", 3) == 0)
        return peak / format.largest;
    if (strncmp(spec, "nvfp4", 5) == 0) { /* itself e4m3, and as coarse */
        double step = peak / 6, apart = fmax(step / 8, of_unit / 2688 * 0x1p-9);
        *slack += apart / 2;
        return random ? step + apart / 2 : step;
    }
    double step = exp2(floor(log2(peak)) - format.most);
    return random && peak > format.largest * step ? 2 * step : step;
}

/** Half of the distance of two neighbours, all of it at random, or what is cut off. */
static void check_small_floats(const struct wring_codec *codec, const float *x, const float *y,
                               uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    struct small_float format = small_float_of(spec);
    bool random = strstr(spec, "random") != NULL;
    double lost = random && strstr(spec, "+ef") != NULL ? 1 - 1 / (1 + format.omega) : 0;
    uint64_t block = spec[0] == 'f' ? n : spec[0] == 'm' ? 32 : 16;
    double of_unit = peak_of(x, n);

    for (uint64_t at = 0; at < n; at += block) {
        uint64_t end = n - at < block ? n : at + block;
        double slack, step = step_of(spec, format, peak_of(x + at, end - at), of_unit, &slack);
        for (uint64_t i = at; i < end; i++) {
            double size = fabs((double)x[i]), error = fabs((double)x[i] - (double)y[i]);
            double apart = fmax(size * exp2(-format.fraction),
                                (step + slack) * exp2(format.least - format.fraction));
            double near = fmax(random ? apart : apart / 2, size - format.largest * (step - slack));
            CHECK(error <= near * 1.00001 + size * lost &&
                      (y[i] == 0 || !signbit(x[i]) == !signbit(y[i])),
                  "%s i=%zu: %g became %g, in steps of %g", spec, (size_t)i, x[i], y[i], step);
        }
    }
}

static void check_unit(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    if (codec_is_named(codec, "signsgd")) {
        check_votes(codec, x, y, n);
        return;
    }
    if (strchr(wring_codec_info(codec)->spec, '/') != NULL)
        return; /* test_compose.c holds their values */
    if (codec_is_named(codec, "topk")) {
        check_topk(codec, x, y, n);
    } else if (codec_is_named(codec, "randk")) {
        check_randk(codec, x, y, n);
    } else if (codec_is_named(codec, "hashed")) {
        check_hashed(codec, x, y, n);
    } else if (codec_is_named(codec, "threshold")) {
        check_threshold(codec, x, y, n);
    } else if (codec_is_named(codec, "natural")) {
        check_natural(codec, x, y, n);
    } else if (codec_is_named(codec, "int4") || codec_is_named(codec, "int2") ||
               strstr(wring_codec_info(codec)->spec, "minmax") != NULL) {
        check_ints(codec, x, y, n);
    } else if (codec_is_named(codec, "bounded")) {
        check_bounded(codec, x, y, n);
    } else if (codec_is_named(codec, "qsgd")) {
        check_qsgd(codec, x, y, n);
    } else if (codec_is_named(codec, "fp8") || codec_is_named(codec, "mxfp8") ||
               codec_is_named(codec, "mxfp4") || codec_is_named(codec, "nvfp4")) {
        check_small_floats(codec, x, y, n);
    } else if (codec_is_named(codec, "onebit")) {
        check_onebit(codec, x, y, n);
    } else {
        double step = codec_is_named(codec, "int8") ? peak_of(x, n) / 127 * 0.50001 : 0;
        for (uint64_t i = 0; i < n; i++) {
            double size = fabs((double)x[i]), near = step;
            bool random = strstr(wring_codec_info(codec)->spec, "random") != NULL;
            if (codec_is_named(codec, "bf16"))
                near = size * (random ? 0x1p-7 : 0x1p-8);
            if (codec_is_named(codec, "fp16"))
                near = fmax(size * 0x1p-11, 0x1p-25) * (random ? 2 : 1);
            double error = fabs((double)x[i] - (double)y[i]);
            CHECK(error <= near, "%s i=%zu: %g became %g", wring_codec_info(codec)->spec, (size_t)i,
                  x[i], y[i]);
        }
    }
}

static void check_error_bound(const struct wring_codec *codec, uint64_t n)
{
    size_t bytes;
    float *x = wring_test_gradient(n, 7);
    unsigned char *code = codec_encode(codec, x, n, NULL, &bytes);
    float *y = codec_decode(codec, code, bytes, n);
    uint64_t unit = wring_codec_info(codec)->unit == 1 ? n : wring_codec_info(codec)->unit;

    for (uint64_t at = 0; at < n; at += unit)
        check_unit(codec, x + at, y + at, n - at < unit ? n - at : unit);
}

static void error_bounds(void)
{
    codec_for_each(check_error_bound, true);
}

/** fp16 from its denormals to its largest number, over which the plain bound holds too. */
static void check_half_range(const struct wring_codec *codec, uint64_t n)
{
    if (!codec_is_named(codec, "fp16"))
        return;
    uint32_t random = 71;
    float *x = wring_test_guarded(n * sizeof(*x));
    for (uint64_t i = 0; i < n; i++)
        x[i] =
            wring_test_random_float(&random) * exp2f((float)(wring_test_random(&random) % 46) - 30);
    size_t bytes;
    unsigned char *code = codec_encode(codec, x, n, NULL, &bytes);
    check_unit(codec, x, codec_decode(codec, code, bytes, n), n);
}

/** What is too large for binary16: infinite on the way in, the largest number elsewhere. */
static void check_half_overflow(const struct wring_codec *codec, uint64_t n)
{
    static const float large[] = {65520, -65536, 1e9f, -0x1.fffffep127f};
    const struct wring_codec_context back = {.ranks = 1, .phase = 1};
    unsigned char code[8];
    float y[4], residual[4] = {0};

    (void)n;
    if (!codec_is_named(codec, "fp16"))
        return;
    wring_codec_encode(codec, &codec_alone, large, 4, NULL, code);
    wring_codec_decode(codec, &codec_alone, code, sizeof(code), y, 4, false);
    for (int i = 0; i < 4; i++)
        CHECK(isinf(y[i]) && (y[i] < 0) == (large[i] < 0), "%g became %g", large[i], y[i]);
    wring_codec_encode(codec, &back, large, 4, NULL, code);
    wring_codec_decode(codec, &back, code, sizeof(code), y, 4, false);
    for (int i = 0; i < 4; i++)
        CHECK(y[i] == copysignf(65504, large[i]), "the sum %g became %g", large[i], y[i]);
    wring_codec_encode(codec, &codec_alone, large, 4, residual, code);
    wring_codec_decode(codec, &codec_alone, code, sizeof(code), y, 4, false);
    for (int i = 0; i < 4; i++)
        CHECK(y[i] == copysignf(65504, large[i]) && residual[i] == large[i] - y[i],
              "fed %g became %g and left %g", large[i], y[i], residual[i]);
}

static void half_limits(void)
{
    codec_for_each(check_half_range, false);
    codec_for_each(check_half_overflow, false);
}

/** Numbers midway between two steps, or near where widths and others end, of any size. */
static float near_the_bound(double error, uint32_t *random)
{
    int32_t step = (int32_t)wring_test_random(random) >> (wring_test_random(random) % 32);
    double half = wring_test_random(random) % 2 * 0.5;
    float value = (float)((step + half) * error * 1.96875);
    float next = wring_test_random(random) % 2 == 0 ? INFINITY : -INFINITY;

    return wring_test_random(random) % 3 == 0 ? nextafterf(value, next) : value;
}

/** Whatever the error and the numbers: it holds exactly. */
static void error_is_bounded(void)
{
    static const char *const errors[] = {"0.0001", "0.000000001", "0.1", "3.7", "1000000"};
    enum {
        N = 1000
    };
    uint32_t random = 37;

    for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
        for (int round = 0; round < 40; round++) {
            float *x = wring_test_guarded(N * sizeof(*x));
            char spec[64];
            snprintf(spec, sizeof(spec), "bounded:error=%s:block=%d", errors[e],
                     round % 2 == 0 ? 32 : 256);
            struct wring_codec *codec = codec_make(spec, NULL, NULL);
            for (int i = 0; i < N; i++)
                x[i] = near_the_bound(strtod(errors[e], NULL), &random);
            size_t bytes;
            unsigned char *code = codec_encode(codec, x, N, NULL, &bytes);
            check_bounded(codec, x, codec_decode(codec, code, bytes, N), N);
            wring_codec_destroy(codec);
            wring_test_free_guarded();
        }
}

static const struct wring_test_case cases[] = {
    {"error_bounds", error_bounds},
    {"error_is_bounded", error_is_bounded},
    {"half_limits", half_limits},
    {0},
};

int main(int argc, char **argv)
{
    return codec_test_main(argc, argv, cases);
}
