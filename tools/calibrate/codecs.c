/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What copies and codecs take on one core of rank 0, while the other ranks rest: calls of rising
 * size, in turns, in each of which all have theirs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "compress/codec.h"
#include "planner/core/fit.h"
#include "tools/bench/codec.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include <wring/codec.h>

#define SIZES WRING_COLLECTIVE_BENCH_SIZES
#define TURNS_MIN 5
#define TURNS_MAX 40
#define SAMPLE_NS 30000.0 /* shorter calls are repeated to take about so long */
#define NMSE_SIZE 5       /* 1 Mi elements, or the largest there is */

enum task {
    TASK_ENCODE,
    TASK_DECODE,
    TASK_DECODE_ADD,
    TASK_SUM,
    TASK_COPY,
    TASKS
};

static const enum wring_codec_task_kind kinds[TASKS] = {
    WRING_TASK_ENCODE, WRING_TASK_DECODE, WRING_TASK_DECODE_ADD, WRING_TASK_SUM, WRING_TASK_COPY};

struct bench {
    const struct wring_calibration *job;
    const struct wring_codec *codec;
    bool copies; /* these, too */
    uint32_t n;  /* sizes */
    struct wring_codec_work work[SIZES];
    uint64_t times[TASKS][SIZES];
    double samples[TASKS][SIZES][TURNS_MAX]; /* us */
    uint32_t turns;
    uint64_t deadline_ns;
    double seconds; /* for the executors, beside that */
    struct wring_collective_bench_noise *noise;
};

static double time_task(struct bench *bench, enum task task, uint32_t size, uint64_t times)
{
    struct wring_codec_task what = {kinds[task], 0};
    uint64_t began = wring_now_ns();

    wring_codec_work_run(&bench->work[size], &what, times);
    return (double)(wring_now_ns() - began) / (double)times;
}

static bool is_timed(const struct bench *bench, enum task task)
{
    if (task == TASK_COPY)
        return bench->copies;
    return task != TASK_SUM || wring_codec_adds_codes(bench->codec);
}

static enum wring_status prepare_works(struct bench *bench)
{
    enum wring_status status = WRING_OK;

    while (bench->n < SIZES && status == WRING_OK &&
           (bench->n < 2 || wring_collective_bench_size(bench->n) <= bench->job->max_elems)) {
        const struct wring_codec_subject subject = {.codec = bench->codec,
                                                    .elems = wring_collective_bench_size(bench->n)};
        status = wring_codec_work_init(&bench->work[bench->n], &subject, &wring_bench_data_bell, 0);
        bench->n++;
    }
    for (uint32_t size = 0; size < bench->n && status == WRING_OK; size++)
        for (enum task task = 0; task < TASKS; task++)
            if (is_timed(bench, task))
                bench->times[task][size] =
                    (uint64_t)ceil(SAMPLE_NS / fmax(time_task(bench, task, size, 1), 1));
    return status;
}

/** Is a median not known yet? */
static bool is_in_doubt(struct bench *bench)
{
    for (uint32_t size = 0; size < bench->n; size++)
        for (enum task task = 0; task < TASKS; task++)
            if (is_timed(bench, task) &&
                wring_calibrate_is_in_doubt(bench->samples[task][size], bench->turns))
                return true;
    return false;
}

/** Measure past the deadline, until late_ns, while a median is in doubt. */
static bool needs_more_turns(struct bench *bench)
{
    uint64_t now = wring_now_ns();

    return bench->turns < TURNS_MAX && (bench->turns < TURNS_MIN || now < bench->deadline_ns ||
                                        (now < bench->job->late_ns && is_in_doubt(bench)));
}

static void run_turn(struct bench *bench, uint32_t size)
{
    for (enum task task = 0; task < TASKS; task++) {
        if (!is_timed(bench, task))
            continue;
        time_task(bench, task, size, 1); /* finds what it left in the caches itself */
        bench->samples[task][size][bench->turns] =
            time_task(bench, task, size, bench->times[task][size]) / 1e3;
    }
}

static enum wring_status run_turns(struct bench *bench)
{
    enum wring_status status = WRING_OK;

    while (status == WRING_OK && needs_more_turns(bench)) {
        for (uint32_t size = 0; size < bench->n; size++)
            run_turn(bench, size);
        bench->turns++;
        for (uint32_t size = 0; size < bench->n && status == WRING_OK; size++)
            status = bench->work[size].status;
    }
    return status;
}

static enum wring_status fit_task(struct bench *bench, enum task task, double per_element,
                                  struct wring_cost *out, struct wring_profile_trust *trust)
{
    struct wring_fit_point points[SIZES];
    struct wring_profile_curve curve;

    for (uint32_t i = 0; i < bench->n; i++) {
        points[i] = (struct wring_fit_point){(double)bench->work[i].elems * per_element,
                                             bench->samples[task][i], bench->turns};
        wring_calibrate_count(&points[i], bench->noise);
    }
    enum wring_status status = wring_fit_curve(points, bench->n, WRING_FIT_MEDIAN, &curve);
    if (status != WRING_OK)
        return status;
    *out = curve.us;
    *trust = curve.trust;
    return WRING_OK;
}

/** Bytes of a code, as the runtime's codes are: each of one piece by itself would be a little more.
 */
static enum wring_status fit_bytes(struct bench *bench, struct wring_cost *out)
{
    struct wring_fit_point points[SIZES];
    double bytes[SIZES];
    struct wring_profile_curve curve;

    for (uint32_t i = 0; i < bench->n; i++) {
        bytes[i] = (double)bench->work[i].first_bytes;
        points[i] = (struct wring_fit_point){(double)bench->work[i].elems, &bytes[i], 1};
    }
    enum wring_status status = wring_fit_curve(points, bench->n, WRING_FIT_MEDIAN, &curve);
    if (status == WRING_OK)
        *out = curve.us;
    return status;
}

static enum wring_status put_into_profile(struct bench *bench, const char *spec,
                                          struct wring_profile *profile)
{
    const struct wring_codec_info *info = wring_codec_info(bench->codec);
    enum wring_status status = WRING_OK;

    if (strcmp(spec, "none") != 0) {
        struct wring_profile_codec *codec = wring_profile_put_codec(profile, spec);
        if (codec == NULL)
            return WRING_ERR_NO_MEMORY;
        struct wring_profile_coding *coding = &codec->at[WRING_SITE_CPU];
        codec->summable = (info->flags & WRING_CODEC_SUMMABLE) != 0;
        codec->feedback = (info->flags & WRING_CODEC_FEEDBACK) != 0;
        codec->nmse = bench->work[bench->n > NMSE_SIZE ? NMSE_SIZE : bench->n - 1].nmse;
        coding->present = true;
        status = wring_calibrate_traits(bench->codec, &codec->traits);
        if (status == WRING_OK)
            status = fit_bytes(bench, &codec->wire_bytes);
        if (status == WRING_OK)
            status = wring_calibrate_coders(bench->job, bench->seconds, codec, bench->noise);
        if (status == WRING_OK)
            status = fit_task(bench, TASK_ENCODE, 1, &coding->encode_us, &coding->encode_trust);
        if (status == WRING_OK)
            status = fit_task(bench, TASK_DECODE, 1, &coding->decode_us, &coding->decode_trust);
        if (status == WRING_OK)
            status = fit_task(bench, TASK_DECODE_ADD, 1, &coding->decode_add_us,
                              &coding->decode_add_trust);
        if (status == WRING_OK && is_timed(bench, TASK_SUM))
            status = fit_task(bench, TASK_SUM, 1, &coding->sum_us, &coding->sum_trust);
    }
    if (status == WRING_OK && bench->copies)
        status = fit_task(bench, TASK_COPY, sizeof(float), &profile->copy_us, &profile->copy_trust);
    return status;
}

static enum wring_status measure_codec(const struct wring_calibration *job, const char *spec,
                                       bool copies, double seconds, struct wring_profile *profile,
                                       struct wring_collective_bench_noise *noise)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    struct wring_codec *codec = NULL;
    uint64_t saved = wring_fp_enter();

    if (bench == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_calibration_tell(job, "codecs: %s", spec);
    enum wring_status status = wring_codec_create(spec, NULL, NULL, NULL, 0, &codec);
    *bench = (struct bench){.job = job,
                            .codec = codec,
                            .copies = copies,
                            .noise = noise,
                            .seconds = seconds / 2,
                            .deadline_ns = wring_deadline_in((uint64_t)(seconds / 2 * 1e9))};
    if (status == WRING_OK)
        status = prepare_works(bench);
    if (status == WRING_OK)
        status = run_turns(bench);
    if (status == WRING_OK)
        status = put_into_profile(bench, spec, profile);
    for (uint32_t i = 0; i < SIZES; i++)
        wring_codec_work_finish(&bench->work[i]);
    wring_codec_destroy(codec);
    wring_fp_leave(saved);
    free(bench);
    return status;
}

/** In rank 0. */
static enum wring_status measure_all(const struct wring_calibration *job, double seconds,
                                     struct wring_profile *profile,
                                     struct wring_collective_bench_noise *noise)
{
    const struct wring_calibrate_wants *wants = &job->wants;
    enum wring_status status = WRING_OK;
    double each = seconds / (wants->coded.n + wants->copies);

    if (wants->copies)
        status = measure_codec(job, "none", true, each, profile, noise);
    for (uint32_t i = 0; i < wants->coded.n && status == WRING_OK; i++)
        status = measure_codec(job, wants->coded.specs[i], false, each, profile, noise);
    return status;
}

enum wring_status wring_calibrate_codecs(struct wring_calibration *job, double share,
                                         struct wring_profile *profile,
                                         struct wring_collective_bench_noise *noise)
{
    enum wring_status own = WRING_OK;
    bool well = true;

    if (job->rank == 0) {
        job->late_ns = wring_deadline_in((uint64_t)(2e9 * job->params->seconds * share));
        own = measure_all(job, job->params->seconds * share, profile, noise);
        well = own == WRING_OK;
    }
    enum wring_status status = wring_calibration_agree(job, &well); /* the others wait here */
    if (status != WRING_OK || job->rank == 0)
        return status != WRING_OK ? status : own;
    return well ? WRING_OK : WRING_ERR_PEER;
}
