/* SPDX-License-Identifier: Apache-2.0 */
/** signsgd against its definition: what many ranks' votes come to, by sums and averages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/solo.h"
#include "tests/lib/test.h"
#include <wring/codec.h>
#include <wring/executor.h>

#define N 4100
#define RANKS_MAX 9

static float input[RANKS_MAX][N], result[N];

/** The owner's job: all contributions, and its code for the way back. */
static void vote(const struct wring_codec *codec, uint32_t ranks, uint64_t step, float divisor)
{
    struct wring_codec_context context = {
        .seed = 5, .bucket = 6, .ranks = ranks, .step = step, .elems = N};
    struct wring_source sources[RANKS_MAX];
    size_t bytes = wring_codec_bound(codec, N);

    for (uint32_t r = 0; r < ranks; r++) {
        void *code = wring_test_guarded(bytes);
        context.rank = r;
        CHECK(wring_codec_encode(codec, &context, input[r], N, NULL, code) == bytes, "bytes");
        sources[r] = (struct wring_source){.data = code, .bytes = bytes, .codec = codec};
    }
    context.phase = 1;
    struct wring_job job = {.kind = WRING_JOB_REDUCE,
                            .elems = N,
                            .context = context,
                            .sources = sources,
                            .n_sources = ranks,
                            .divisor = divisor,
                            .codec_out = codec,
                            .code = wring_test_guarded(bytes),
                            .dst = result};
    void *scratch =
        wring_test_guarded((wring_job_scratch_bytes(wring_job_scratch_elems(&job)) + 63) / 64 * 64);
    wring_job_run(&job, scratch);
    REQUIRE(job.result.status == WRING_OK, "%s", wring_status_text(job.result.status));
}

/** Numbers without zeros, and a few of these. */
static void fill(uint32_t ranks, uint32_t seed)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (uint64_t i = 0; i < N; i++) {
            float x = wring_test_random_float(&seed);
            input[r][i] = i % 50 == 0 ? 0 : x == 0 ? 1 : x;
        }
}

static int majority(uint32_t ranks, uint64_t i)
{
    int votes = 0;
    for (uint32_t r = 0; r < ranks; r++)
        votes += input[r][i] > 0 ? 1 : -1;
    return votes;
}

/** A zero's vote is nobody's: only where no rank has one is the majority known here. */
static void majorities(void)
{
    struct wring_codec *codec = NULL;

    REQUIRE(wring_codec_create("signsgd:block=64", NULL, NULL, NULL, 0, &codec) == WRING_OK,
            "codec");
    for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++)
        for (int average = 0; average < 2; average++) {
            fill(ranks, ranks);
            vote(codec, ranks, 3, average ? (float)ranks : 1);
            for (uint64_t i = 0; i < N; i++) {
                int votes = majority(ranks, i);
                REQUIRE(fabsf(result[i]) == 1, "element %zu is %g", (size_t)i, (double)result[i]);
                REQUIRE(i % 50 == 0 || votes == 0 || (result[i] > 0) == (votes > 0),
                        "%u ranks: element %zu is %g, with %d more votes for +", ranks, (size_t)i,
                        (double)result[i], votes);
            }
            wring_test_free_guarded();
        }
    wring_codec_destroy(codec);
}

/** Draws lean to no side: +1 for each would give pure noise of 4 ranks a mean of 3/8. */
static void draws_are_even(void)
{
    struct wring_codec *codec = NULL;
    double sum = 0, draws = 0, of_draws = 0, changed = 0;
    float before[N];

    REQUIRE(wring_codec_create("signsgd", NULL, NULL, NULL, 0, &codec) == WRING_OK, "codec");
    for (uint64_t step = 0; step < 4; step++) {
        fill(4, 11);
        vote(codec, 4, step, 1);
        for (uint64_t i = 0; i < N; i++) {
            bool draw = majority(4, i) == 0 && i % 50 != 0;
            sum += (double)result[i];
            draws += draw;
            of_draws += draw ? (double)result[i] : 0;
            changed += draw && step > 0 && result[i] != before[i];
            before[i] = result[i];
        }
        wring_test_free_guarded();
    }
    CHECK(fabs(sum / (4 * N)) < 0.05, "the mean sign of noise is %g", sum / (4 * N));
    CHECK(draws > 1000 && fabs(of_draws / draws) < 0.1, "the mean sign of %g draws is %g", draws,
          of_draws / draws);
    CHECK(fabs(changed / (draws * 3 / 4) - 0.5) < 0.1, "%g of %g draws differ from step to step",
          changed, draws * 3 / 4);
    wring_codec_destroy(codec);
}

/** All ranks' zeros vote alike. */
static void zeros(void)
{
    struct wring_codec *codec = NULL;
    double sum = 0;

    REQUIRE(wring_codec_create("signsgd", NULL, NULL, NULL, 0, &codec) == WRING_OK, "codec");
    memset(input, 0, sizeof(input));
    vote(codec, 3, 0, 1);
    for (uint64_t i = 0; i < N; i++)
        sum += (double)result[i];
    CHECK(fabs(sum / N) < 0.1, "the mean sign of zeros is %g", sum / N);
    wring_codec_destroy(codec);
    wring_test_free_guarded();
}

/** Votes of the momentum, step after step; a step that is not finite leaves it alone. */
static void momentum(void)
{
    struct wring_codec_context context = {.seed = 5, .ranks = 2, .elems = N};
    static float wanted[N], decoded[N];
    struct wring_codec *codec = NULL;
    struct wring_solo solo;

    REQUIRE(wring_codec_create("signum:beta=0.75", NULL, NULL, NULL, 0, &codec) == WRING_OK,
            "codec");
    REQUIRE(wring_solo_init(&solo, codec, &context) == WRING_OK, "memory");
    memset(wanted, 0, sizeof(wanted));
    for (uint32_t step = 0; step < 6; step++) {
        size_t bytes = wring_codec_bound(codec, N);
        void *code = wring_test_guarded(bytes);
        context.step = step;
        fill(1, 100 + step);
        if (step == 3)
            input[0][7] = INFINITY;
        for (uint64_t i = 0; i < N; i++)
            if (step != 3 || i >= 1024)
                wanted[i] = 0.75f * wanted[i] + 0.25f * input[0][i];
        CHECK(wring_codec_encode(codec, &context, input[0], N, NULL, code) == bytes, "bytes");
        CHECK(wring_codec_decode(codec, &context, code, bytes, decoded, N, false) == WRING_OK,
              "its own code is refused");
        for (uint64_t i = 0; i < N; i++) {
            bool lost = step == 3 && i < 1024;
            REQUIRE(lost ? isnan(decoded[i])
                         : wanted[i] == 0 || decoded[i] == (wanted[i] > 0 ? 1 : -1),
                    "step %u: element %zu is %g, of a momentum of %g", step, (size_t)i,
                    (double)decoded[i], (double)wanted[i]);
        }
        wring_test_free_guarded();
    }
    CHECK(memcmp(wanted, solo.states[0], sizeof(wanted)) == 0, "another momentum is kept");
    wring_solo_finish(&solo);
    wring_codec_destroy(codec);
}

static const struct wring_test_case cases[] = {{"majorities", majorities},
                                               {"draws_are_even", draws_are_even},
                                               {"zeros", zeros},
                                               {"momentum", momentum},
                                               {0}};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
