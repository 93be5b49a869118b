/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What codecs lose of recorded gradients: each tensor's sample, of each rank, is coded step by step
 * as if it were the tensor, with error feedback going on where steps follow each other. And how
 * long codes are that lose nothing, which depends on the numbers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/solo.h"
#include "planner/core/files/profile_errors.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

#define ERROR_MAX 1e9 /* of a profile's file */
#define ELEMS_MIN \
    wring_collective_bench_size(0) /* of samples whose codes are as long as a profile says */

/** Sums of squares. */
struct sums {
    double lost, power;    /* of steps, what feedback adds among them */
    double missing, total; /* of runs of steps: of their sum, and what has not come through of it */
};

/** One way of one codec. */
struct bench {
    const struct wring_gradients *gradients;
    const struct wring_codec *codec;
    bool feedback;
    uint32_t phase;
    float *input, *residual, *output; /* [n of the largest tensor] */
    double *missing, *total;          /* likewise: of the run so far */
    void *code;
    struct wring_codec_context context; /* of a tensor */
    struct wring_solo solo;             /* of which the context is */
    const struct wring_cost *expected;  /* bytes of a code */
    double bytes, expected_bytes;       /* of all codes of long samples */
};

static void add_sums(struct sums *to, const struct sums *sums)
{
    to->lost += sums->lost;
    to->power += sums->power;
    to->missing += sums->missing;
    to->total += sums->total;
}

static double square(double x)
{
    return x * x;
}

static enum wring_status code_step(struct bench *bench, uint32_t step, uint32_t tensor,
                                   struct sums *sums)
{
    const float *values = wring_gradients_at(bench->gradients, bench->context.rank, step, tensor);
    struct wring_codec_context context = bench->context;
    uint32_t n = bench->gradients->tensors[tensor].n;

    context.step = bench->gradients->steps[step];
    wring_solo_rounds(&bench->solo, &context, values, bench->feedback ? bench->residual : NULL);

    for (uint32_t i = 0; i < n; i++)
        bench->input[i] = values[i] + (bench->feedback ? bench->residual[i] : 0);
    size_t bytes = wring_codec_encode(bench->codec, &context, values, n,
                                      bench->feedback ? bench->residual : NULL, bench->code);
    if (n >= ELEMS_MIN) {
        bench->bytes += (double)bytes;
        bench->expected_bytes += wring_cost_at(bench->expected, n);
    }
    enum wring_status status =
        wring_codec_decode(bench->codec, &context, bench->code, bytes, bench->output, n, false);
    for (uint32_t i = 0; i < n && status == WRING_OK; i++) {
        sums->lost += square((double)bench->input[i] - (double)bench->output[i]);
        sums->power += square((double)bench->input[i]);
        bench->missing[i] += (double)values[i] - (double)bench->output[i];
        bench->total[i] += (double)values[i];
    }
    return status;
}

static void end_run(const struct bench *bench, uint32_t n, struct sums *sums)
{
    for (uint32_t i = 0; i < n; i++) {
        sums->missing += square(bench->missing[i]);
        sums->total += square(bench->total[i]);
    }
}

/** As many as the file has, and at least two, but no more than the codec's codes can be added of.
 */
static uint32_t ranks_that_sum(const struct bench *bench)
{
    const struct wring_codec *codec = bench->codec;
    uint32_t most = codec->ops->most_ranks != NULL ? codec->ops->most_ranks(codec) : UINT32_MAX;
    uint32_t ranks = bench->gradients->n_ranks > 2 ? bench->gradients->n_ranks : 2;

    return ranks < most ? ranks : most;
}

/** What a rank coded of a tensor. */
static enum wring_status code_sample(struct bench *bench, uint32_t rank, uint32_t tensor,
                                     struct sums *sums)
{
    const struct wring_gradients *gradients = bench->gradients;
    uint32_t n = gradients->tensors[tensor].n;

    bench->context = (struct wring_codec_context){.seed = 1,
                                                  .bucket = tensor,
                                                  .rank = rank,
                                                  .ranks = ranks_that_sum(bench),
                                                  .phase = bench->phase,
                                                  .elems = n};
    enum wring_status status = wring_solo_init(&bench->solo, bench->codec, &bench->context);
    if (status != WRING_OK)
        return status;

    for (uint32_t step = 0; step < gradients->n_steps && status == WRING_OK; step++) {
        if (step == 0 || gradients->steps[step] != gradients->steps[step - 1] + 1) {
            memset(bench->residual, 0, n * sizeof(*bench->residual));
            memset(bench->missing, 0, n * sizeof(*bench->missing));
            memset(bench->total, 0, n * sizeof(*bench->total));
            wring_solo_restart(&bench->solo, &bench->context);
        }
        status = code_step(bench, step, tensor, sums);
        if (step + 1 == gradients->n_steps ||
            gradients->steps[step + 1] != gradients->steps[step] + 1)
            end_run(bench, n, sums);
    }
    wring_solo_finish(&bench->solo);
    return status;
}

/** A share, within what a file may have: of nothing, anything is too much. */
static double error_share(double part, double whole)
{
    double is = part == 0 ? 0 : part / whole; /* NaN, where nothing came of it, is too much */
    return is <= ERROR_MAX ? is : ERROR_MAX;
}

/** What two ways lose adds up. */
static void add_loss(const struct bench *bench, const struct sums *sums,
                     struct wring_profile_loss *out)
{
    double nmse = error_share(sums->lost, sums->power);

    out->nmse = fmin(out->nmse + nmse, ERROR_MAX);
    out->fed = fmin(out->fed + (bench->feedback ? error_share(sums->missing, sums->total) : nmse),
                    ERROR_MAX);
}

static enum wring_status measure_way(struct bench *bench, struct wring_profile_losses *out)
{
    enum wring_status status = WRING_OK;
    struct sums all = {0};

    for (uint32_t tensor = 0; tensor < bench->gradients->n_tensors && status == WRING_OK;
         tensor++) {
        struct sums sums = {0};
        for (uint32_t rank = 0; rank < bench->gradients->n_ranks && status == WRING_OK; rank++)
            status = code_sample(bench, rank, tensor, &sums);
        add_loss(bench, &sums, &out->each[tensor]);
        add_sums(&all, &sums);
    }
    add_loss(bench, &all, &out->all);
    return status;
}

static void finish_bench(struct bench *bench)
{
    free(bench->input);
    free(bench->residual);
    free(bench->output);
    free(bench->missing);
    free(bench->total);
    free(bench->code);
}

static enum wring_status init_bench(struct bench *bench, const struct wring_gradients *gradients,
                                    const struct wring_codec *way, uint32_t phase)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < gradients->n_tensors; i++)
        most = gradients->tensors[i].n > most ? gradients->tensors[i].n : most;
    *bench = (struct bench){.gradients = gradients,
                            .codec = way,
                            .phase = phase,
                            .feedback = (wring_codec_info(way)->flags & WRING_CODEC_FEEDBACK) != 0,
                            .input = calloc(most, sizeof(float)),
                            .residual = calloc(most, sizeof(float)),
                            .output = calloc(most, sizeof(float)),
                            .missing = calloc(most, sizeof(double)),
                            .total = calloc(most, sizeof(double)),
                            .code = malloc(wring_codec_bound(way, most))};
    if (bench->input != NULL && bench->residual != NULL && bench->output != NULL &&
        bench->missing != NULL && bench->total != NULL && bench->code != NULL)
        return WRING_OK;
    finish_bench(bench);
    return WRING_ERR_NO_MEMORY;
}

/** The bytes of a code that is as long as the numbers make it, where enough of them were coded. */
static void put_bytes(const struct bench *bench, struct wring_cost *wire_bytes)
{
    unsigned flags = wring_codec_info(bench->codec)->flags;

    if ((flags & WRING_CODEC_EXACT) == 0 || (flags & WRING_CODEC_FIXED) != 0 ||
        !(bench->expected_bytes > 0))
        return;
    *wire_bytes = wring_cost_scale(wire_bytes, bench->bytes / bench->expected_bytes, 1);
}

/** @param wire_bytes  of its codes, in and out */
static enum wring_status measure_codec(const struct wring_gradients *gradients,
                                       const struct wring_codec *codec,
                                       struct wring_cost *wire_bytes,
                                       struct wring_profile_losses *out)
{
    uint32_t ways = wring_codec_info(codec)->flags & WRING_CODEC_TWO_WAYS ? 2 : 1;
    enum wring_status status = WRING_OK;

    for (uint32_t phase = 0; phase < ways && status == WRING_OK; phase++) {
        struct bench bench;
        status = init_bench(&bench, gradients, wring_codec_way(codec, phase), phase);
        if (status != WRING_OK)
            return status;
        bench.expected = wire_bytes;
        status = measure_way(&bench, out);
        if (ways == 1)
            put_bytes(&bench, wire_bytes);
        finish_bench(&bench);
    }
    return status;
}

static enum wring_status name_all(const struct wring_gradients *gradients,
                                  struct wring_profile_errors *errors)
{
    for (uint32_t i = 0; i < gradients->n_tensors; i++) {
        errors->tensors[i] = strdup(gradients->tensors[i].name);
        if (errors->tensors[i] == NULL)
            return WRING_ERR_NO_MEMORY;
    }
    wring_profile_errors_sort(errors);
    /* a source may be longer than a profile keeps; cut where a character ends */
    size_t n = strnlen(gradients->source, sizeof(errors->source) - 1);
    while (n > 0 && gradients->source[n] != '\0' &&
           ((unsigned char)gradients->source[n] & 0xC0) == 0x80)
        n--;
    memcpy(errors->source, gradients->source, n);
    errors->gradients = gradients->hash;
    errors->n_steps = gradients->n_steps;
    return WRING_OK;
}

/** Codecs that this build has not, of a file that was written by hand, are left out. */
static enum wring_status measure_all(const struct wring_gradients *gradients,
                                     struct wring_profile *profile,
                                     struct wring_profile_errors *errors)
{
    enum wring_status status = WRING_OK;
    uint32_t n = 0;

    for (uint32_t i = 0; i < profile->n_codecs && status == WRING_OK; i++) {
        struct wring_codec *codec;
        if (wring_codec_create(profile->codecs[i].spec, NULL, NULL, NULL, 0, &codec) != WRING_OK)
            continue;
        memcpy(errors->codecs[n].spec, profile->codecs[i].spec, sizeof(errors->codecs[n].spec));
        status =
            measure_codec(gradients, codec, &profile->codecs[i].wire_bytes, &errors->codecs[n++]);
        wring_codec_destroy(codec);
    }
    for (uint32_t i = n; i < errors->n_codecs; i++)
        free(errors->codecs[i].each);
    errors->n_codecs = n;
    return status;
}

enum wring_status wring_calibrate_errors(const struct wring_calibration *job,
                                         const struct wring_gradients *gradients,
                                         struct wring_profile *profile)
{
    struct wring_profile_errors errors;
    uint64_t saved = wring_fp_enter();

    wring_calibration_tell(job, "errors on recorded gradients");
    enum wring_status status =
        wring_profile_errors_init(&errors, gradients->n_tensors, profile->n_codecs);
    if (status == WRING_OK)
        status = name_all(gradients, &errors);
    if (status == WRING_OK)
        status = measure_all(gradients, profile, &errors);
    wring_fp_leave(saved);
    if (status != WRING_OK) {
        wring_profile_errors_finish(&errors);
        return status;
    }
    wring_profile_errors_finish(&profile->errors);
    profile->errors = errors;
    return WRING_OK;
}
