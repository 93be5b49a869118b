/* SPDX-License-Identifier: Apache-2.0 */
/* Every codec with error feedback and its defaults, and some with other parameters, residuals of
 * fewer bits or momentum, over many steps: what is held back stays bounded, and what sums lack by
 * then is held back, not lost. The same while steps without the codec come in between.
 * thc:sums=saturate+ef is no such codec: what it cuts off is lost. */
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
#define ELEMS 4096
#define SWITCHED_ELEMS 1024
#define COLUMNS 64
#define STEPS 1000
#define GROWTH 1.25   /* of what is held back, from the first half of the steps to the second */
#define ROUNDING 1e-6 /* of a step, of what is held back: binary32 */
#define BETA 0.9f     /* of +momentum */
#define PEAK 4        /* the largest of a block, of the root mean square */
#define DEVIATIONS 6  /* that no sum of random roundings is off */

static const char *const more_specs[] = {
    "int8+ef:residual=bf16",   "int8+ef:residual=int8", "onebit+ef:residual=bf16",
    "onebit+ef:residual=int8", "topk+ef:residual=bf16", "topk/int8+ef",
    "topk:index=packed+ef",    "qsgd:bits=2+ef",        "thc:width=4:clip=2.5+ef",
    "powersgd:rank=1+ef",      "onebit:means=2+ef",     "int8+momentum+ef",
    "topk+momentum+ef",
};
#define MORE_SPECS (sizeof(more_specs) / sizeof(more_specs[0]))
#define MOST_SPECS 64 /* more than there are */

struct story {
    char spec[WRING_CODEC_SPEC_MAX];
    double first_half, second_half; /* the most that was held back, as stats have it */
    double lost, allowed;
};

/** Specs that run beside each other, a bucket each, of the same numbers. */
struct series {
    struct story stories[MOST_SPECS];
    unsigned n_stories, n_skipped;
    int elems;
    bool switches; /* codecs are left out in every other step */
};

/** One rank's part of a story. */
struct part {
    struct wring_bucket *bucket;
    float *data;
    double *missing;   /* of sums by now */
    double held, most; /* back: root mean squares */
};

/** What all ranks give, which each of them knows. */
struct given {
    uint32_t random[RANKS];
    float drawn[RANKS][ELEMS], momenta[RANKS][ELEMS];
    double sums[ELEMS], momentum_sums[ELEMS];
};

/** Of what a training's gradients are like: bell-shaped, all magnitudes between blocks. */
static void draw(float *data, int elems, uint32_t *random)
{
    for (int i = 0; i < elems; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++)
            sum += (float)(wring_test_random(random) % 65536) / 32768 - 1;
        data[i] = sum * (1 + (float)(i / 512) / 4);
    }
}

/** @return the worst of what sums lack by now, less what all ranks hold back of it */
static double find_lost(struct wring_session *session, struct wring_bucket *bucket, int elems,
                        const double *missing)
{
    static float held[RANKS][ELEMS];
    float *own = held[wring_session_rank(session)];
    double worst = 0;

    memset(own, 0, ELEMS * sizeof(float));
    wring_residual_loosen(bucket);
    for (int i = 0; i < elems && bucket->residual != NULL; i++)
        own[i] = wring_residual_get(bucket, (uint64_t)i);
    wring_residual_settle(bucket);
    CHECK(wring_allreduce(wring_session_world(session), own, own, (uint64_t)elems, WRING_F32,
                          WRING_SUM, NULL, NULL) == WRING_OK,
          "allreduce");
    for (int i = 0; i < elems; i++) {
        CHECK(isfinite(missing[i]) && isfinite(own[i]), "element %d is no number", i);
        worst = fmax(worst, fabs(missing[i] - own[i]));
    }
    return worst;
}

static bool has_momentum(const char *spec)
{
    return strstr(spec, "+momentum") != NULL;
}

/**
 * What sums may lack beside what is held back: roundings of binary32, and of a residual of fewer
 * bits, which two members round at random.
 * @param most  root mean square of what was held back
 */
static double find_allowed(const struct wring_bucket *bucket, double most)
{
    double peak = PEAK * most, step = 0;

    if (bucket->codec->residual_form == WRING_RESIDUAL_BF16)
        step = ldexp(peak, -7);
    else if (bucket->codec->residual_form == WRING_RESIDUAL_INT8)
        step = ldexp(peak, -6);
    return ROUNDING * STEPS * (1 + 8 * most) + DEVIATIONS * sqrt(2.0 * STEPS) * step / 2;
}

static void choose_codec(struct wring_session *session, bool without)
{
    REQUIRE(wring_commit_take_back(session) == WRING_OK, "something is under way");
    snprintf(session->config.bypass, sizeof(session->config.bypass), "%s",
             without ? "always" : "never");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
}

static void make_part(struct wring_session *session, const struct series *series, const char *spec,
                      struct part *part)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    uint64_t elems = (uint64_t)series->elems;

    REQUIRE(wring_buffer_alloc(session, elems * sizeof(float), (void **)&part->data) == WRING_OK,
            "alloc");
    params.name = spec;
    params.data = part->data;
    params.elems = elems;
    params.shape.rows = elems / COLUMNS;
    params.shape.columns = COLUMNS;
    params.codec = spec;
    REQUIRE(wring_bucket_register(session, &params, &part->bucket) == WRING_OK, "%s", spec);
    part->missing = calloc(elems, sizeof(double));
}

static void draw_step(struct given *given, int elems)
{
    memset(given->sums, 0, sizeof(given->sums));
    memset(given->momentum_sums, 0, sizeof(given->momentum_sums));
    for (uint32_t r = 0; r < RANKS; r++) {
        draw(given->drawn[r], elems, &given->random[r]);
        for (int i = 0; i < elems; i++) {
            given->momenta[r][i] = BETA * given->momenta[r][i] + given->drawn[r][i];
            given->sums[i] += (double)given->drawn[r][i];
            given->momentum_sums[i] += (double)given->momenta[r][i];
        }
    }
}

static void begin_step(const struct given *given, const float *drawn, const char *spec, int elems,
                       const struct part *part)
{
    const double *sums = has_momentum(spec) ? given->momentum_sums : given->sums;

    memcpy(part->data, drawn, (size_t)elems * sizeof(float));
    for (int i = 0; i < elems; i++)
        part->missing[i] += sums[i];
    REQUIRE(wring_bucket_post(part->bucket) == WRING_OK, "post");
}

static void end_step(struct part *part, const char *spec, int elems, bool without)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;

    REQUIRE(wring_bucket_wait(part->bucket, WAIT_NS, NULL) == WRING_OK, "wait");
    for (int i = 0; i < elems; i++)
        part->missing[i] -= (double)part->data[i];
    REQUIRE(wring_bucket_stats(part->bucket, &stats) == WRING_OK, "stats");
    CHECK(without ? strcmp(stats.codec, "none") == 0 && !(stats.residual_rms > 0)
                  : strcmp(stats.codec, "none") != 0,
          "%s: a step ran %s and holds %g back", spec, stats.codec, stats.residual_rms);
    part->held = stats.residual_rms;
    part->most = fmax(part->most, part->held);
}

static void end_part(struct wring_session *session, struct story *story, int elems,
                     struct part *part)
{
    double lost = find_lost(session, part->bucket, elems, part->missing),
           allowed = find_allowed(part->bucket, part->most);

    CHECK(lost <= allowed, "%s: %g is lost or sent twice, more than %g", story->spec, lost,
          allowed);
    if (wring_session_rank(session) == 0)
        story->lost = lost, story->allowed = allowed;
    free(part->missing);
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct series *series = arg;
    struct part parts[MOST_SPECS] = {0};
    struct given *given = calloc(1, sizeof(*given));

    given->random[0] = 17, given->random[1] = 18;
    for (unsigned k = 0; k < series->n_stories; k++)
        make_part(session, series, series->stories[k].spec, &parts[k]);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (unsigned step = 0; step < STEPS; step++) {
        bool without = series->switches && step % 2 == 1;

        if (series->switches)
            choose_codec(session, without);
        draw_step(given, series->elems);
        for (unsigned k = 0; k < series->n_stories; k++)
            begin_step(given, given->drawn[rank], series->stories[k].spec, series->elems,
                       &parts[k]);
        for (unsigned k = 0; k < series->n_stories; k++) {
            struct story *story = &series->stories[k];
            end_step(&parts[k], story->spec, series->elems, without);
            double *half = step < STEPS / 2 ? &story->first_half : &story->second_half;
            if (rank == 0)
                *half = fmax(*half, parts[k].held);
        }
    }
    for (unsigned k = 0; k < series->n_stories; k++)
        end_part(session, &series->stories[k], series->elems, &parts[k]);
    free(given);
}

static void skip_spec(struct series *series, const char *spec, const char *why)
{
    printf("%s is skipped: %s\n", spec, why);
    series->n_skipped++;
}

static void add_spec(struct series *series, const char *spec)
{
    char why[256];
    struct wring_codec *codec;

    if (wring_codec_create(spec, NULL, NULL, why, sizeof(why), &codec) != WRING_OK) {
        skip_spec(series, spec, why);
        return;
    }
    wring_codec_destroy(codec);
    REQUIRE(series->n_stories < MOST_SPECS, "more specs than room");
    snprintf(series->stories[series->n_stories++].spec, WRING_CODEC_SPEC_MAX, "%s", spec);
}

/** Each codec of the library that takes +ef, and the other specs. */
static void run_series(struct series *series)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_BYPASS=never", NULL};

    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        char spec[WRING_CODEC_SPEC_MAX];
        snprintf(spec, sizeof(spec), "%s+ef", (*ops)->name);
        add_spec(series, spec);
    }
    CHECK(series->n_stories >= 20, "%u codecs take +ef", series->n_stories);
    unsigned want = series->n_stories;
    for (size_t i = 0; i < MORE_SPECS; i++)
        if (series->switches && has_momentum(more_specs[i]))
            skip_spec(series, more_specs[i], "no commit leaves momentum out");
        else
            add_spec(series, more_specs[i]), want++;
    CHECK(series->n_stories == want, "the library does not know all specs");
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = RANKS, .settings = settings, .arg = series, .run = run_rank});
    for (unsigned k = 0; k < series->n_stories; k++) {
        const struct story *story = &series->stories[k];
        printf("%-24s holds back %.3g at most in the first %d steps, %.3g in the next; lost %.2g "
               "of %.2g allowed\n",
               story->spec, story->first_half, STEPS / 2, story->second_half, story->lost,
               story->allowed);
        CHECK(story->first_half > 0, "%s holds nothing back", story->spec);
    }
    printf("%u specs ran %d steps each, %u were skipped\n", series->n_stories, STEPS,
           series->n_skipped);
}

static void a_thousand_steps(void)
{
    struct series series = {.elems = ELEMS};

    run_series(&series);
    for (unsigned k = 0; k < series.n_stories; k++) {
        const struct story *story = &series.stories[k];
        CHECK(story->second_half <= GROWTH * story->first_half, "%s holds %g back, then %g",
              story->spec, story->first_half, story->second_half);
    }
}

static void without_them_in_every_other_step(void)
{
    struct series series = {.elems = SWITCHED_ELEMS, .switches = true};
    run_series(&series);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_thousand_steps", a_thousand_steps},
        {"without_them_in_every_other_step", without_them_in_every_other_step},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
