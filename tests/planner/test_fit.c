/* SPDX-License-Identifier: Apache-2.0 */
/** The fit: known curves under made noise come back, and what comes back is a cost. */
#include <math.h>
#include <string.h>

#include "planner/core/fit.h"
#include "tests/lib/test.h"

#define POINTS 14
#define SAMPLES 25

struct measured {
    struct wring_fit_point points[POINTS];
    double samples[POINTS][SAMPLES];
};

/** Sizes from 1 Ki on, each twice the one before. */
static double size_of(uint32_t i)
{
    return ldexp(1024, (int)i);
}

/** A latency, then one slope, and beyond 2^16 another. */
static double truth(double x)
{
    return 20 + 0.001 * fmin(x, 65536) + 0.003 * fmax(0, x - 65536);
}

/** Noise as machines have it: a little always, much now and then, never faster. */
static double noise(uint32_t *random, double share, double bursts)
{
    double little = (wring_test_random_float(random) + 1) * share / 2;
    return 1 + little + (wring_test_random_float(random) < 2 * bursts - 1 ? 9 : 0);
}

static void measure(struct measured *measured, uint32_t *random, double share, double bursts)
{
    for (uint32_t i = 0; i < POINTS; i++) {
        for (uint32_t s = 0; s < SAMPLES; s++)
            measured->samples[i][s] = truth(size_of(i)) * noise(random, share, bursts);
        measured->points[i] = (struct wring_fit_point){size_of(i), measured->samples[i], SAMPLES};
    }
}

static void check_is_cost(const struct wring_cost *cost)
{
    CHECK(cost->n >= 1 && cost->n <= WRING_COST_CORNERS && cost->slope >= 0 &&
              isfinite(cost->slope),
          "%u corners, slope %g", cost->n, cost->slope);
    for (uint32_t i = 0; i < cost->n; i++) {
        CHECK(isfinite(cost->corners[i].y) && cost->corners[i].y >= 0, "corner %u", i);
        CHECK(i == 0 || (cost->corners[i].x > cost->corners[i - 1].x &&
                         cost->corners[i].y >= cost->corners[i - 1].y),
              "corner %u falls", i);
    }
}

static void comes_back(void)
{
    uint32_t random = 1;

    for (int turn = 0; turn < 200; turn++) {
        double share = turn % 4 * 0.04; /* 0 to 12 % */
        struct measured measured;
        struct wring_profile_curve curve;
        measure(&measured, &random, share, 0.15);
        REQUIRE(wring_fit_curve(measured.points, POINTS, WRING_FIT_MEDIAN, &curve) == WRING_OK,
                "turn %d", turn);
        check_is_cost(&curve.us);
        for (double x = 1024; x < 5e7; x *= 1.3) {
            double off = wring_cost_at(&curve.us, x) / truth(x) - 1;
            CHECK(off > -0.03 - share && off < 0.03 + 2 * share, "turn %d: %g off at %g", turn, off,
                  x);
        }
        CHECK(curve.trust.samples == SAMPLES && curve.trust.points == POINTS, "counts");
        CHECK(curve.trust.error <= 0.03 + 2 * share, "error %g", curve.trust.error);
    }
}

/** Ten of them in a row, again and again: the median of their sums is what a plan's time is. */
static double median_of_ten(uint32_t *random, double share, double bursts)
{
    double sums[401];

    for (uint32_t s = 0; s < 401; s++) {
        sums[s] = 0;
        for (uint32_t i = 0; i < 10; i++)
            sums[s] += noise(random, share, bursts) / 10;
    }
    struct wring_fit_point point = {0, sums, 401};
    return wring_fit_look(&point).median;
}

static void means_are_what_many_take(void)
{
    uint32_t random = 5;

    for (int turn = 0; turn < 8; turn++) {
        double share = turn % 4 * 0.2, bursts = turn / 4 * 0.01;
        double samples[400], ten = median_of_ten(&random, share, bursts);
        for (uint32_t s = 0; s < 400; s++)
            samples[s] = noise(&random, share, bursts);
        struct wring_fit_point point = {1000, samples, 400};
        struct wring_profile_curve curve;
        REQUIRE(wring_fit_curve(&point, 1, WRING_FIT_MEAN, &curve) == WRING_OK, "turn %d", turn);
        double off = wring_cost_at(&curve.us, 1000) / ten - 1;
        CHECK(fabs(off) < 0.04, "turn %d: %g off", turn, off);
    }
    double skewed[] = {1, 1, 1, 1, 1,
                       1, 2, 2, 2, 1000}; /* the last one counts as three medians: no more */
    CHECK(wring_fit_mean(skewed, 10) == 1.5, "%g, not 1.5", wring_fit_mean(skewed, 10));
    double one[] = {7}, none[] = {0, 0, 5};
    CHECK(wring_fit_mean(one, 1) == 7 && wring_fit_mean(none, 3) == 0, "of one, and about none");
}

static void few_corners(void)
{
    struct measured measured;
    struct wring_profile_curve curve;
    uint32_t random = 7;

    measure(&measured, &random, 0, 0);
    REQUIRE(wring_fit_curve(measured.points, POINTS, WRING_FIT_MEDIAN, &curve) == WRING_OK,
            "exact");
    CHECK(curve.us.n == 3, "two pieces took %u corners", curve.us.n);
    CHECK(fabs(curve.us.slope - 0.003) < 1e-9, "slope %g", curve.us.slope);
    CHECK(curve.trust.spread == 0 && curve.trust.doubt == 0 && curve.trust.noisy == 0, "trust");
}

static void never_falls(void)
{
    double samples[][3] = {{10, 10, 10}, {30, 30, 30}, {20, 20, 20}, {40, 40, 40}, {5, 5, 5}};
    struct wring_fit_point points[5];
    struct wring_profile_curve curve;

    for (uint32_t i = 0; i < 5; i++)
        points[i] = (struct wring_fit_point){i * 10.0, samples[i], 3};
    REQUIRE(wring_fit_curve(points, 5, WRING_FIT_MEDIAN, &curve) == WRING_OK, "falls");
    check_is_cost(&curve.us);
    CHECK(curve.trust.error > 0.1, "and is off by %g only", curve.trust.error);
}

static void noise_is_told(void)
{
    struct measured calm, wild;
    uint32_t random = 3;

    measure(&calm, &random, 0.02, 0);
    measure(&wild, &random, 2, 0);
    for (uint32_t i = 0; i < POINTS; i++) {
        struct wring_fit_look quiet = wring_fit_look(&calm.points[i]);
        struct wring_fit_look loud = wring_fit_look(&wild.points[i]);
        CHECK(quiet.spread < 0.02 && quiet.doubt < 0.02, "calm %g %g", quiet.spread, quiet.doubt);
        CHECK(loud.spread > WRING_PROFILE_NOISE, "wild %g", loud.spread);
    }
    struct wring_profile_curve curve;
    REQUIRE(wring_fit_curve(wild.points, POINTS, WRING_FIT_MEDIAN, &curve) == WRING_OK, "wild");
    CHECK(curve.trust.noisy == POINTS, "%u are noisy", curve.trust.noisy);
    CHECK(curve.trust.doubtful > 0 && wring_profile_is_noise(&curve.trust, 0) &&
              !wring_profile_is_noise(&curve.trust, 1),
          "%u are in doubt", curve.trust.doubtful);
    REQUIRE(wring_fit_curve(calm.points, POINTS, WRING_FIT_MEDIAN, &curve) == WRING_OK, "calm");
    CHECK(curve.trust.doubtful == 0 && !wring_profile_is_noise(&curve.trust, 0), "calm is known");
}

static void single_points(void)
{
    double samples[] = {8, 12, 10};
    struct wring_fit_point point = {1000, samples, 3};
    struct wring_profile_curve curve;

    REQUIRE(wring_fit_curve(&point, 1, WRING_FIT_MEDIAN, &curve) == WRING_OK, "one point");
    CHECK(wring_cost_at(&curve.us, 10) == 10 && wring_cost_at(&curve.us, 3000) == 30,
          "as it is before, proportional beyond");
    point.n = 1;
    CHECK(wring_fit_look(&point).doubt == 1, "one sample is no measurement");
}

static void refusals(void)
{
    double good[] = {1, 2}, bad[] = {1, NAN}, negative[] = {-1, 2};
    struct wring_profile_curve curve;
    struct wring_fit_point same[2] = {{5, good, 2}, {5, good, 2}};
    struct wring_fit_point not_number = {1, bad, 2}, below = {1, negative, 2}, none = {1, good, 0};

    CHECK(wring_fit_curve(same, 0, WRING_FIT_MEDIAN, &curve) == WRING_ERR_INVALID, "no points");
    CHECK(wring_fit_curve(same, 2, WRING_FIT_MEDIAN, &curve) == WRING_ERR_INVALID,
          "the same x twice");
    CHECK(wring_fit_curve(&not_number, 1, WRING_FIT_MEDIAN, &curve) == WRING_ERR_INVALID, "NaN");
    CHECK(wring_fit_curve(&below, 1, WRING_FIT_MEDIAN, &curve) == WRING_ERR_INVALID, "negative");
    CHECK(wring_fit_curve(&none, 1, WRING_FIT_MEDIAN, &curve) == WRING_ERR_INVALID, "no samples");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"comes back", comes_back},       {"means are what many take", means_are_what_many_take},
        {"few corners", few_corners},     {"never falls", never_falls},
        {"noise is told", noise_is_told}, {"single points", single_points},
        {"refusals", refusals},           {0},
    };
    return wring_test_main(argc, argv, cases);
}
