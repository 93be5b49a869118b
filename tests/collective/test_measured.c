/* SPDX-License-Identifier: Apache-2.0 */
/* What samples of collectives become in a profile: made ones, of which the truth is known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/collective_bench_inside.h"
#include "tests/lib/test.h"

#define SIZES WRING_COLLECTIVE_BENCH_SIZES
#define SAMPLES 9
#define CHUNK_BYTES (256u << 10)
#define ONCE_US 150.0 /* fills and empties a chain of pieces */
#define PER_ELEM_US 1e-3

/** How far a sample is off: each other one by as much, up and down, and one in the middle not. */
static double off_by(uint32_t sample, double most)
{
    return sample == SAMPLES - 1 ? 0 : sample % 2 == 0 ? most : -most;
}

/** A raw collective: k buckets take ONCE_US, once, and k times as long as their elements; single
 * ones of the largest size are said to take `late` times that. */
static struct wring_collective_bench *make_bench(double late)
{
    struct wring_collective_bench *bench = calloc(1, sizeof(*bench));
    struct wring_session *session = calloc(1, sizeof(*session));
    struct wring_collective_bench_params *params = calloc(1, sizeof(*params));

    CHECK(bench != NULL && session != NULL && params != NULL, "memory");
    session->size = 2;
    session->config.chunk_bytes = CHUNK_BYTES;
    params->codecs.n = 1;
    params->cores = 2;
    strcpy(params->codecs.specs[0], "none");
    bench->session = session;
    bench->params = params;
    bench->n = 1;
    bench->sizes = SIZES;
    struct wring_collective_bench_case *collective = &bench->collectives[0];
    collective->scheme = WRING_SCHEME_AUTO;
    collective->n = SIZES;
    for (uint32_t size = 0; size < SIZES; size++) {
        uint32_t k = collective->batch[size] = wring_collective_bench_batch(size);
        double each = PER_ELEM_US * (double)wring_collective_bench_size(size);
        collective->samples[size] = SAMPLES;
        collective->wire_bytes[size] = 4.0 * (double)wring_collective_bench_size(size);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            double solo = (ONCE_US + each) * (size + 1 == SIZES ? late : 1) * (1 + off_by(i, 0.01));
            collective->all_us[size][i] = ONCE_US + k * each;
            collective->us[WRING_COLLECTIVE_BENCH_SOLO][size][i] = solo;
            collective->us[WRING_COLLECTIVE_BENCH_BUSY][size][i] =
                fmax(collective->all_us[size][i] - solo, WRING_COLLECTIVE_BENCH_LEAST_US) / (k - 1);
            collective->us[WRING_COLLECTIVE_BENCH_CPU][size][i] = each;
        }
    }
    return bench;
}

static void free_bench(struct wring_collective_bench *bench)
{
    free((void *)bench->params);
    free(bench->session);
    free(bench);
}

/** @param share  of a processor that a rank has; 0: nobody has measured it
 *  @return what a further bucket of so many elements is said to take */
static double busy_shared_us(double late, double share, double elems)
{
    struct wring_collective_bench *bench = make_bench(late);
    struct wring_profile *profile = calloc(1, sizeof(*profile));

    CHECK(profile != NULL, "memory");
    profile->nodes = 1;
    profile->ranks_per_node = 2;
    profile->computing.present = share > 0;
    profile->computing.core_share = share;
    CHECK(wring_collective_profile_put(bench, profile) == WRING_OK, "put");
    const struct wring_measured_collective *collective =
        wring_profile_find_collective(profile, "none", "auto", 2);
    CHECK(collective != NULL, "the collective is missing");
    double us = wring_cost_at(&collective->busy.us, elems);
    wring_profile_destroy(profile);
    free_bench(bench);
    return us;
}

static double busy_us(double late, double elems)
{
    return busy_shared_us(late, 0, elems);
}

static void a_further_bucket_takes_what_its_elements_do(void)
{
    for (double elems = 1 << 20; elems <= 1 << 24; elems *= 4) {
        double is = busy_us(1, elems), expected = PER_ELEM_US * elems;
        CHECK(fabs(is / expected - 1) < 0.03, "%.0f elements: %g us, not %g", elems, is, expected);
    }
}

/** One rank per node: all bytes pass a link. @param link_us  that a byte takes, as the link's own
 *  measurement has it. @param sizes  that there was time for. @return what a further bucket of so
 * many elements is said to take */
static double busy_on_link_us(double link_us, uint32_t sizes, double elems)
{
    struct wring_collective_bench *bench = make_bench(1);
    struct wring_profile *profile = calloc(1, sizeof(*profile));

    CHECK(profile != NULL, "memory");
    bench->sizes = bench->collectives[0].n = sizes;
    profile->nodes = 2;
    profile->ranks_per_node = 1;
    profile->links[WRING_LEVEL_INTER].present = true;
    profile->links[WRING_LEVEL_INTER].us = wring_cost_line(0, link_us);
    CHECK(wring_collective_profile_put(bench, profile) == WRING_OK, "put");
    const struct wring_measured_collective *collective =
        wring_profile_find_collective(profile, "none", "auto", 2);
    CHECK(collective != NULL, "the collective is missing");
    double us = wring_cost_at(&collective->busy.us, elems);
    wring_profile_destroy(profile);
    free_bench(bench);
    return us;
}

/** A link that was slow when it was measured has let a backlog of 128 MiB through all the same. */
static void a_link_is_as_fast_as_it_was_seen(void)
{
    double seen = PER_ELEM_US * (1 << 24);

    for (double factor = 0.5; factor <= 4; factor *= 2) {
        double is = busy_on_link_us(factor * PER_ELEM_US / 4, SIZES, 1 << 24);
        CHECK(fabs(is / seen - 1) < 0.03, "a link %g times as slow: %g us, not %g", factor, is,
              seen);
    }
}

/** Past the largest size that there was time for it is the link that tells, if it had told before;
 *  where all sizes are there, they do. */
static void larger_buckets_take_what_the_link_does(void)
{
    static const double factor[] = {0.5, 0.9, 1};

    for (int i = 0; i < 6; i++) {
        uint32_t sizes = i < 3 ? SIZES - 1 : SIZES;
        double share = factor[i % 3], largest = (double)wring_collective_bench_size(sizes - 1);
        double own = share < 0.75 || sizes == SIZES ? 1 : share;
        double further = own * PER_ELEM_US * 3 * largest, link_us = share * PER_ELEM_US / 4;
        double is =
            busy_on_link_us(link_us, sizes, 4 * largest) - busy_on_link_us(link_us, sizes, largest);
        CHECK(fabs(is / further - 1) < 0.01, "%u sizes, the link's share is %g: %g us more, not %g",
              sizes, share, is, further);
    }
}

/** Of the largest size there are few samples, and it is by it that larger ones are told. */
static void a_slow_single_bucket_makes_no_fast_backlog(void)
{
    double late[] = {0.8, 1.3};

    for (int i = 0; i < 2; i++)
        for (double elems = 1 << 24; elems <= 1 << 26; elems *= 4) {
            double is = busy_us(late[i], elems), expected = PER_ELEM_US * elems;
            CHECK(fabs(is / expected - 1) < 0.03,
                  "%.0f elements, a single one %g times as long: "
                  "%g us, not %g",
                  elems, late[i], is, expected);
        }
}

/** A bucket keeps the processor busy for as long as it takes: ranks that share it take turns. */
static void who_has_half_a_processor_takes_twice_as_long(void)
{
    static const double share[] = {1, 0.9, 0.5, 0.25};

    for (int i = 0; i < 4; i++)
        for (double elems = 1 << 18; elems <= 1 << 24; elems *= 8) {
            double times = share[i] < 0.75 ? 1 / share[i] : 1;
            double is = busy_shared_us(1, share[i], elems), expected = times * PER_ELEM_US * elems;
            CHECK(fabs(is / expected - 1) < 0.03, "%.0f elements, %g of a processor: %g us, not %g",
                  elems, share[i], is, expected);
        }
}

/** What a profile says of a codec's bytes, of a code and of a sum on its way back. */
static void check_codec_bytes(const char *spec, double code, double back)
{
    struct wring_collective_bench *bench = make_bench(1);
    struct wring_profile *profile = calloc(1, sizeof(*profile));

    CHECK(profile != NULL, "memory");
    strcpy(((struct wring_collective_bench_params *)bench->params)->codecs.specs[0], spec);
    for (uint32_t size = 0; size < SIZES; size++)
        bench->collectives[0].codec_us[size] =
            PER_ELEM_US * (double)wring_collective_bench_size(size);
    profile->nodes = 1;
    profile->ranks_per_node = 2;
    CHECK(wring_collective_profile_put(bench, profile) == WRING_OK, "%s: put", spec);
    CHECK(profile->n_codecs == 1, "%s: %u codecs", spec, profile->n_codecs);
    const struct wring_profile_codec *codec = profile->codecs;
    for (double elems = 1 << 12; elems <= 1 << 24 && profile->n_codecs == 1; elems *= 64) {
        double is = wring_cost_at(&codec->wire_bytes, elems) / elems;
        double comes_back = wring_cost_at(&codec->traits.way_back.bytes, elems) / elems;
        CHECK(fabs(is - code) < 0.01, "%s: %g bytes an element", spec, is);
        CHECK(fabs(comes_back - back) < 0.01, "%s: %g bytes back", spec, comes_back);
    }
    wring_profile_destroy(profile);
    free_bench(bench);
}

static void sums_may_be_wider_than_codes(void)
{
    check_codec_bytes("sharedint:width=4", 0.5, 1);
    check_codec_bytes("thc:width=4", 0.5, 1);
    check_codec_bytes("thc:width=4:sums=saturate", 0.5, 0);
    check_codec_bytes("sharedint", 1, 0);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a further bucket takes what its elements do",
         a_further_bucket_takes_what_its_elements_do},
        {"a link is as fast as it was seen", a_link_is_as_fast_as_it_was_seen},
        {"larger buckets take what the link does", larger_buckets_take_what_the_link_does},
        {"who has half a processor takes twice as long",
         who_has_half_a_processor_takes_twice_as_long},
        {"a slow single bucket makes no fast backlog", a_slow_single_bucket_makes_no_fast_backlog},
        {"sums may be wider than codes", sums_may_be_wider_than_codes},
        {0},
    };
    return wring_test_main(argc, argv, cases);
}
