/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's ranks send of a bucket, beside what is predicted of it. */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/model/option_work.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tools/bench/codec.h"
#include "tools/calibrate/calibrate.h"

#define ELEMS (1u << 18)
#define ROWS (1u << 9)
#define STEPS 2
#define WAIT_NS (60ull * 1000000000)
#define ROUNDING 0.02 /* small rounds are sent in one step, to every rank */

/* ---- of a session ---- */

struct subject {
    const char *codec;
    enum wring_scheme scheme;
    uint32_t ranks;
    enum wring_dtype dtype;
    float *data;  /* [ranks × ELEMS], of which 16-bit elements are the first half of each */
    double bytes; /* of rank 0, in a step */
};

static void count_bucket(struct wring_session *session, uint32_t rank, void *arg)
{
    struct subject *subject = arg;
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = {.name = "sent",
                                         .data = subject->data + rank * (size_t)ELEMS,
                                         .elems = ELEMS,
                                         .dtype = subject->dtype,
                                         .op = WRING_SUM,
                                         .codec = subject->codec,
                                         .scheme = subject->scheme,
                                         .shape = {ROWS, ELEMS / ROWS}};

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
                wring_session_commit(session) == WRING_OK,
            "%s: no bucket", subject->codec);
    for (int step = 0; step < STEPS; step++) {
        REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                    wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                "%s: step %d", subject->codec, step);
    }
    REQUIRE(wring_bucket_stats(bucket, &stats) == WRING_OK, "%s: no stats", subject->codec);
    CHECK(strcmp(stats.codec, subject->codec) == 0 && stats.steps == STEPS, "%s ran as %s",
          subject->codec, stats.codec);
    if (rank == 0)
        subject->bytes = (double)stats.wire_bytes_sent / STEPS;
}

/** @return bytes that rank 0 sends in a step */
static double count_session(const char *codec, enum wring_scheme scheme, uint32_t ranks,
                            enum wring_dtype dtype)
{
    static const char *const settings[] = {"WRING_BYPASS=never", NULL};
    struct subject subject = {.codec = codec,
                              .scheme = scheme,
                              .ranks = ranks,
                              .dtype = dtype,
                              .data = calloc(ranks * (size_t)ELEMS, sizeof(float)),
                              .bytes = NAN};
    struct wring_test_job job = {
        .ranks = ranks, .settings = settings, .run = count_bucket, .arg = &subject};
    uint32_t random = 7;

    if (subject.data == NULL)
        return NAN;
    for (size_t i = 0; i < ranks * (size_t)ELEMS; i++)
        subject.data[i] = wring_test_random_float(&random);
    for (uint32_t rank = 0; rank < ranks; rank++)
        wring_test_narrow(dtype, subject.data + rank * (size_t)ELEMS,
                          subject.data + rank * (size_t)ELEMS, ELEMS);
    wring_test_run_ranks(&job);
    free(subject.data);
    return subject.bytes;
}

/* ---- of a plan ---- */

#define RANKS 4
#define OPTIONS 4
#define STEP(what)                                        \
    {                                                     \
        .kind = WRING_STEP_##what, .site = WRING_SITE_CPU \
    }
#define CODED(how)                                                             \
    {                                                                          \
        .kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_##how, .coded = true \
    }

/* in one step; in two, where owners encode sums, or add codes: the last by either name */
static const struct wring_option whole = {3, {STEP(ENCODE), CODED(ALLGATHER), STEP(DECODE)}};
static const struct wring_option recoded = {
    6, {STEP(ENCODE), CODED(ALLTOALL), STEP(DECODE), STEP(ENCODE), CODED(ALLGATHER), STEP(DECODE)}};
static const struct wring_option halves = {
    4, {STEP(ENCODE), CODED(REDUCE_SCATTER), CODED(ALLGATHER), STEP(DECODE)}};
static const struct wring_option summed = {3, {STEP(ENCODE), CODED(ALLREDUCE), STEP(DECODE)}};

/** Bytes of a node's one rank, as a link tells that takes 1 us for each. */
static double predict(const struct wring_profile_codec *codec, const struct wring_option *option,
                      enum wring_dtype dtype)
{
    struct wring_profile profile = {.name = "bytes", .chunked = true};
    struct wring_work_params params = {.profile = &profile,
                                       .nodes = RANKS,
                                       .ranks_per_node = 1,
                                       .link_scale = 1,
                                       .elem_bytes = (uint32_t)wring_dtype_bytes(dtype),
                                       .in = codec,
                                       .out = codec};
    struct wring_work work;

    profile.links[WRING_LEVEL_INTER] =
        (struct wring_profile_link){.present = true, .us = wring_cost_line(0, 1)};
    wring_option_work(&params, option, &work);
    return wring_cost_at(&work.us[WRING_WORKER_INTER], ELEMS);
}

/** What a calibration says of a codec's bytes. */
static void describe(const char *spec, struct wring_profile_codec *out)
{
    struct wring_codec *codec;

    *out = (struct wring_profile_codec){.nmse = NAN, .at[WRING_SITE_CPU].present = true};
    REQUIRE(wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK, "no codec %s", spec);
    strcpy(out->spec, spec);
    out->summable = (wring_codec_info(codec)->flags & WRING_CODEC_SUMMABLE) != 0;
    out->wire_bytes = wring_cost_line(0, (double)wring_codec_bound(codec, ELEMS) / ELEMS);
    CHECK(wring_calibrate_traits(codec, &out->traits) == WRING_OK, "no traits of %s", spec);
    wring_codec_destroy(codec);
}

/** @param back  bytes of a sum's element on its way back; 0: those of a code */
static void compare_plans(const char *spec, double back, enum wring_dtype dtype)
{
    struct wring_profile_codec codec;
    const struct wring_option *const options[OPTIONS] = {&whole, &recoded, &halves, &summed};

    describe(spec, &codec);
    const bool runs[OPTIONS] = {true, !codec.summable, codec.summable, codec.summable};
    double said = wring_cost_at(&codec.traits.way_back.bytes, ELEMS) / ELEMS;
    CHECK(fabs(said - back) < 1e-3, "%s: a sum of %g bytes an element, not %g", spec, said, back);
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *run_as = wring_option_run_as(options[i], spec, 1);
        CHECK((run_as[0] != '\0') == runs[i], "%s runs option %zu as \"%s\"", spec, i, run_as);
        if (run_as[0] == '\0')
            continue;
        double predicted = predict(&codec, options[i], dtype);
        double sent = count_session(spec, wring_scheme_find(run_as), RANKS, dtype);
        CHECK(fabs(predicted / sent - 1) < ROUNDING, "%s, option %zu: %.0f bytes, but %.0f went",
              spec, i, predicted, sent);
    }
}

/** Codes of 4 bits add up in 8, whatever feedback keeps; saturating ones go back in 4. */
static void wider_sums(void)
{
    compare_plans("sharedint:width=4", 1, WRING_F32);
    compare_plans("sharedint:width=4+ef", 1, WRING_F32);
    compare_plans("thc:width=4", 1, WRING_F32);
}

/** Codes and sums of one width, and sums that are encoded as contributions are. */
static void sums_of_a_code_s_width(void)
{
    compare_plans("sharedint", 0, WRING_F32);
    compare_plans("thc:width=4:sums=saturate", 0, WRING_F32);
    compare_plans("terngrad:bits=8", 0, WRING_F32);
    compare_plans("int8", 0, WRING_F32);
}

/** Codes of 16-bit elements are those of float32; raw ones travel as they are, and so in half of
 * the bytes: a cast of them to bf16 saves nothing. */
static void elements_of_16_bits(void)
{
    static const struct wring_option raw = {
        1, {{.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLREDUCE}}};

    compare_plans("int8", 0, WRING_BF16);
    compare_plans("bf16", 0, WRING_BF16);
    compare_plans("sharedint:width=4", 1, WRING_BF16);
    compare_plans("int8", 0, WRING_F16);
    for (enum wring_dtype dtype = WRING_F32; dtype <= WRING_BF16; dtype++) {
        if (dtype == WRING_F64)
            continue;
        double predicted = predict(NULL, &raw, dtype);
        double sent = count_session("none", WRING_SCHEME_AUTO, RANKS, dtype);
        CHECK(fabs(predicted / sent - 1) < ROUNDING, "raw %s: %.0f bytes, but %.0f went",
              wring_dtype_name(dtype), predicted, sent);
    }
}

/* ---- of wring bench codec ---- */

/** Two ranks send each other what one encodes, in half contributions and half sums, and what it
 *  gives to rounds. */
static void compare_bench(const char *spec)
{
    const unsigned cores[] = {(unsigned)sched_getcpu()};
    struct wring_bench_data data;
    struct wring_codec_speed speed;
    struct wring_codec *codec;

    REQUIRE(wring_bench_data_open(&data, "bell") == 0, "no data");
    REQUIRE(wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK, "no codec %s", spec);
    const struct wring_codec_bench bench = {
        .name = "test", .elems = ELEMS, .threads = 1, .cores = cores, .data = &data, .ranks = 1};
    CHECK(wring_codec_measure(&bench, codec, 0, &speed) == 0, "%s is not measured", spec);
    double sent = count_session(spec, WRING_SCHEME_AUTO, 2, WRING_F32);
    double said = (double)(speed.encoded_bytes + speed.round_bytes);
    CHECK(fabs(said / sent - 1) < ROUNDING, "%s: %.0f bytes, but %.0f went", spec, said, sent);
    wring_codec_destroy(codec);
    wring_bench_data_close(&data);
}

static void rounds_count_in_a_ratio(void)
{
    compare_bench("powersgd");
    compare_bench("powersgd:rank=1+ef");
    compare_bench("sharedint");
    compare_bench("thc");
    compare_bench("bf16");
}

static const struct wring_test_case cases[] = {
    {"wider_sums", wider_sums},
    {"sums_of_a_code_s_width", sums_of_a_code_s_width},
    {"elements_of_16_bits", elements_of_16_bits},
    {"rounds_count_in_a_ratio", rounds_count_in_a_ratio},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
