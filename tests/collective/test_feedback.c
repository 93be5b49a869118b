/* SPDX-License-Identifier: Apache-2.0 */
/* Every codec with error feedback and its defaults, over many steps: what is held back stays
 * bounded, and what sums lack by then is held back, not lost. The same while steps without the
 * codec come in between. thc:sums=saturate+ef is no such codec: what it cuts off is lost. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bucket.h"
#include "runtime/commit/commit.h"
#include "runtime/residual.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define RANKS 2
#define ROWS 64
#define ELEMS 4096
#define STEPS 1000
#define SWITCHED_STEPS 60
#define GROWTH 1.25   /* of what is held back, from the first half of the steps to the second */
#define ROUNDING 1e-6 /* of a step, of what is held back: binary32 */

struct story {
    const char *spec;
    bool switches;                  /* the codec is left out in every other step */
    double first_half, second_half; /* the most that was held back, as stats have it */
};

/** Of what a training's gradients are like: bell-shaped, all magnitudes between blocks. */
static void draw(float *data, uint32_t *random)
{
    for (int i = 0; i < ELEMS; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++)
            sum += (float)(wring_test_random(random) % 65536) / 32768 - 1;
        data[i] = sum * (1 + (float)(i / 512) / 4);
    }
}

/** @return the worst of what sums lack by now, less what all ranks hold back of it */
static double find_lost(struct wring_session *session, struct wring_bucket *bucket,
                        const double *missing)
{
    static float held[RANKS][ELEMS];
    float *own = held[wring_session_rank(session)];
    double worst = 0;

    memset(own, 0, ELEMS * sizeof(float));
    wring_residual_loosen(bucket);
    for (uint64_t i = 0; i < ELEMS && bucket->residual != NULL; i++)
        own[i] = wring_residual_get(bucket, i);
    wring_residual_settle(bucket);
    CHECK(wring_allreduce(wring_session_world(session), own, own, ELEMS, WRING_F32, WRING_SUM, NULL,
                          NULL) == WRING_OK,
          "allreduce");
    for (int i = 0; i < ELEMS; i++) {
        CHECK(isfinite(missing[i]) && isfinite(own[i]), "element %d is no number", i);
        worst = fmax(worst, fabs(missing[i] - own[i]));
    }
    return worst;
}

static void choose_codec(struct wring_session *session, bool without)
{
    REQUIRE(wring_commit_take_back(session) == WRING_OK, "something is under way");
    snprintf(session->config.bypass, sizeof(session->config.bypass), "%s",
             without ? "always" : "never");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket;
    uint32_t random[RANKS] = {17, 18}; /* each rank knows what all of them give */
    double *missing = calloc(ELEMS, sizeof(double)), most = 0;
    float *data, *other = malloc(ELEMS * sizeof(float));
    unsigned steps = story->switches ? SWITCHED_STEPS : STEPS;

    REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&data) == WRING_OK,
            "alloc");
    params.name = "bucket";
    params.data = data;
    params.elems = ELEMS;
    params.shape.rows = ROWS;
    params.shape.columns = ELEMS / ROWS;
    params.codec = story->spec;
    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "%s", story->spec);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (unsigned step = 0; step < steps; step++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        bool without = story->switches && step % 2 == 1;

        if (story->switches)
            choose_codec(session, without);
        for (uint32_t r = 0; r < RANKS; r++) {
            float *to = r == rank ? data : other;
            draw(to, &random[r]);
            for (int i = 0; i < ELEMS; i++)
                missing[i] += (double)to[i];
        }
        REQUIRE(wring_bucket_post(bucket) == WRING_OK, "post");
        REQUIRE(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "wait");
        for (int i = 0; i < ELEMS; i++)
            missing[i] -= (double)data[i];
        REQUIRE(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
        CHECK(!without || (strcmp(stats.codec, "none") == 0 && !(stats.residual_rms > 0)),
              "%s: step %u ran %s and holds %g back", story->spec, step, stats.codec,
              stats.residual_rms);
        most = fmax(most, stats.residual_rms);
        double *half = step < steps / 2 ? &story->first_half : &story->second_half;
        if (rank == 0)
            *half = fmax(*half, stats.residual_rms);
    }
    double lost = find_lost(session, bucket, missing);
    CHECK(lost <= ROUNDING * steps * (1 + 8 * most), "%s: %g is lost or sent twice", story->spec,
          lost);
    free(missing);
    free(other);
}

static void run_story(struct story *story)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_BYPASS=never", NULL};
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = RANKS, .settings = settings, .arg = story, .run = run_rank});
}

/** Call a function with each codec of the library that takes +ef. */
static void for_each_codec(void (*check)(const char *spec))
{
    unsigned taken = 0;

    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        char spec[WRING_CODEC_SPEC_MAX], why[256];
        struct wring_codec *codec;
        snprintf(spec, sizeof(spec), "%s+ef", (*ops)->name);
        if (wring_codec_create(spec, NULL, NULL, why, sizeof(why), &codec) != WRING_OK)
            continue;
        wring_codec_destroy(codec);
        check(spec);
        taken++;
    }
    CHECK(taken >= 20, "%u codecs take +ef", taken);
}

static void check_bounded(const char *spec)
{
    struct story story = {.spec = spec};

    run_story(&story);
    CHECK(story.first_half > 0 && story.second_half <= GROWTH * story.first_half,
          "%s holds %g back, then %g", spec, story.first_half, story.second_half);
    printf("%-16s holds back %.3g at most in the first %d steps, %.3g in the next\n", spec,
           story.first_half, STEPS / 2, story.second_half);
}

static void a_thousand_steps(void)
{
    for_each_codec(check_bounded);
}

static void check_switched(const char *spec)
{
    struct story story = {.spec = spec, .switches = true};
    run_story(&story);
}

static void without_it_in_every_other_step(void)
{
    for_each_codec(check_switched);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_thousand_steps", a_thousand_steps},
        {"without_it_in_every_other_step", without_it_in_every_other_step},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
