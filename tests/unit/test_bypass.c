/* SPDX-License-Identifier: Apache-2.0 */
/* When a codec gains time, by measurements that are made up. */
#include "runtime/commit/codec_bypass.h"
#include "tests/lib/test.h"

#define US 1000
#define MS 1000000
#define KI 1024
#define MI (1024 * 1024)

static const struct wring_curve slow_link = {
    3, {{4 * KI, 100 * US}, {64 * KI, 600 * US}, {1 * MI, 8800 * US}}};

static void a_curve_goes_through_its_points(void)
{
    for (uint32_t i = 0; i < slow_link.n; i++)
        CHECK(wring_curve_at(&slow_link, slow_link.points[i].bytes) == slow_link.points[i].ns,
              "point %u", i);
}

static void between_points_it_is_straight(void)
{
    CHECK(wring_curve_at(&slow_link, 34 * KI) == 350 * US, "%llu",
          (unsigned long long)wring_curve_at(&slow_link, 34 * KI));
}

static void small_buckets_cost_what_the_smallest_did(void)
{
    CHECK(wring_curve_at(&slow_link, 4) == 100 * US, "4 bytes");
    CHECK(wring_curve_at(&slow_link, 0) == 100 * US, "none");
}

/** 8200 us for 960 KiB more: so much for each further 960 KiB. */
static void large_ones_go_on_as_the_last_points_did(void)
{
    uint64_t ns = wring_curve_at(&slow_link, MI + 10 * 960 * KI);
    CHECK(ns == 90800 * US, "%llu", (unsigned long long)ns);
}

/** Noise can make a larger step the faster one; it does not make larger ones take no time. */
static void time_does_not_fall_beyond_the_points(void)
{
    const struct wring_curve noisy = {2, {{4 * KI, 30 * US}, {64 * KI, 20 * US}}};
    CHECK(wring_curve_at(&noisy, 64 * MI) == 20 * US, "fell");
}

static void one_point_is_taken_for_bandwidth(void)
{
    const struct wring_curve one = {1, {{4 * KI, 10 * US}}};
    CHECK(wring_curve_at(&one, 2 * KI) == 10 * US, "below");
    CHECK(wring_curve_at(&one, 40 * KI) == 100 * US, "beyond");
}

static void a_slow_link_wants_its_codec(void)
{
    const struct wring_curve codec = {3,
                                      {{4 * KI, 90 * US}, {64 * KI, 120 * US}, {1 * MI, 500 * US}}};
    struct wring_choice choice = wring_codec_bypass_rule(&codec, &slow_link, MI);
    CHECK(!choice.bypass, "left out");
    CHECK(choice.with_ns == 500 * US && choice.without_ns == 8800 * US, "%llu, %llu",
          (unsigned long long)choice.with_ns, (unsigned long long)choice.without_ns);
    CHECK(!wring_codec_bypass_rule(&codec, &slow_link, 64 * MI).bypass, "left out of 64 MiB");
}

static void a_fast_one_does_without(void)
{
    const struct wring_curve raw = {2, {{4 * KI, 2 * US}, {1 * MI, 50 * US}}};
    const struct wring_curve codec = {2, {{4 * KI, 3 * US}, {1 * MI, 150 * US}}};
    CHECK(wring_codec_bypass_rule(&codec, &raw, 4 * KI).bypass, "4 KiB");
    CHECK(wring_codec_bypass_rule(&codec, &raw, 64 * MI).bypass, "64 MiB");
}

/** Neither a gain of less than 15 % counts, nor one of less than 5 us. */
static void near_the_same_time_it_is_left_out(void)
{
    const struct wring_curve raw = {1, {{MI, 10 * MS}}}, slow = {1, {{MI, 8500 * US + 1}}},
                             fast = {1, {{MI, 8500 * US}}}, tiny = {1, {{MI, 9 * US}}},
                             less = {1, {{MI, 4 * US + 1}}}, just = {1, {{MI, 4 * US}}};
    CHECK(wring_codec_bypass_rule(&raw, &raw, MI).bypass, "the same");
    CHECK(wring_codec_bypass_rule(&slow, &raw, MI).bypass, "15 per cent less a hair");
    CHECK(!wring_codec_bypass_rule(&fast, &raw, MI).bypass, "15 per cent");
    CHECK(wring_codec_bypass_rule(&less, &tiny, MI).bypass, "less than 5 us");
    CHECK(!wring_codec_bypass_rule(&just, &tiny, MI).bypass, "5 us");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_curve_goes_through_its_points", a_curve_goes_through_its_points},
        {"between_points_it_is_straight", between_points_it_is_straight},
        {"small_buckets_cost_what_the_smallest_did", small_buckets_cost_what_the_smallest_did},
        {"large_ones_go_on_as_the_last_points_did", large_ones_go_on_as_the_last_points_did},
        {"time_does_not_fall_beyond_the_points", time_does_not_fall_beyond_the_points},
        {"one_point_is_taken_for_bandwidth", one_point_is_taken_for_bandwidth},
        {"a_slow_link_wants_its_codec", a_slow_link_wants_its_codec},
        {"a_fast_one_does_without", a_fast_one_does_without},
        {"near_the_same_time_it_is_left_out", near_the_same_time_it_is_left_out},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
