/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a codec is, beside its times: rounds, state, and the way back of its sums. And the list of
 * all codecs whose coding can be measured.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compress/codec.h"
#include "compress/residual.h"
#include "compress/solo.h"
#include "planner/core/fit.h"
#include "tools/bench/bench.h"
#include "tools/bench/codec.h"
#include "tools/calibrate/calibrate.h"

#define SIZES 3
#define TURNS 5
#define CONTRIBUTIONS 4 /* in a sum whose error is measured */
#define GROWS 1.05      /* times as long as of one contribution: a full sum's code is another one */

static const uint64_t sizes[SIZES] = {4096, 65536, 1048576};

static struct wring_codec_context make_context(uint64_t elems)
{
    uint64_t rows = wring_codec_matrix_rows(elems);

    return (struct wring_codec_context){
        .seed = 1, .ranks = CONTRIBUTIONS, .elems = elems, .rows = rows, .columns = elems / rows};
}

static enum wring_status fit_sizes(const double values[SIZES], struct wring_cost *out)
{
    struct wring_fit_point points[SIZES];
    struct wring_profile_curve curve;
    double samples[SIZES];

    for (int i = 0; i < SIZES; i++) {
        samples[i] = values[i];
        points[i] = (struct wring_fit_point){(double)sizes[i], &samples[i], 1};
    }
    enum wring_status status = wring_fit_curve(points, SIZES, WRING_FIT_MEDIAN, &curve);
    if (status == WRING_OK)
        *out = curve.us;
    return status;
}

/* ---- rounds and state ---- */

static double round_bytes(const struct wring_codec *codec, uint64_t elems)
{
    const struct wring_codec_context context = make_context(elems);

    return (double)wring_solo_round_bytes(codec, &context);
}

static double state_bytes(const struct wring_codec *codec, uint64_t elems)
{
    const struct wring_codec_context context = make_context(elems);
    double bytes = 0;

    for (size_t i = 0; i < codec->ops->n_states; i++) {
        const struct wring_codec_state *state = &codec->ops->states[i];
        uint64_t count = state->count != NULL ? state->count(codec, &context) : elems;
        bytes += (double)count * (double)wring_dtype_bytes(state->dtype);
    }
    if (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK)
        bytes += (double)wring_residual_size(codec, elems);
    return bytes / (double)elems;
}

/* ---- the way back ---- */

/** One size: a contribution comes as `sum`, and numbers of bell shape are one of many ranks. */
struct bench {
    const struct wring_codec *codec;
    uint64_t elems;
    struct wring_codec_context context;
    struct wring_solo solo; /* of which the context is */
    float *numbers, *sum;   /* [elems] */
    void *code;
    double bytes, most_bytes, encode_us, decode_us, nmse; /* what came of it */
};

static void finish_bench(struct bench *bench)
{
    wring_solo_finish(&bench->solo);
    free(bench->numbers);
    free(bench->sum);
    free(bench->code);
}

static enum wring_status init_bench(struct bench *bench, const struct wring_codec *codec,
                                    uint64_t elems)
{
    *bench = (struct bench){.codec = codec, .elems = elems, .context = make_context(elems)};
    enum wring_status status = wring_solo_init(&bench->solo, codec, &bench->context);
    if (status != WRING_OK)
        return status;
    bench->numbers = calloc(elems, sizeof(float));
    bench->sum = calloc(elems, sizeof(float));
    bench->code = calloc(1, wring_codec_bound(codec, elems) + 1);
    if (bench->numbers == NULL || bench->sum == NULL || bench->code == NULL)
        return WRING_ERR_NO_MEMORY;
    return WRING_OK;
}

static double measure_error(const float *sum, const float *decoded, uint64_t elems)
{
    double lost = 0, power = 0;

    for (uint64_t i = 0; i < elems; i++) {
        double difference = (double)sum[i] - (double)decoded[i];
        lost += difference * difference;
        power += (double)sum[i] * (double)sum[i];
    }
    return power > 0 ? lost / power : 0;
}

static enum wring_status time_way_back(struct bench *bench)
{
    double encode_us[TURNS], decode_us[TURNS];
    float *out = bench->numbers; /* which are not needed any more */
    enum wring_status status = WRING_OK;
    size_t bytes = 0;

    for (int turn = 0; turn < TURNS && status == WRING_OK; turn++) {
        uint64_t began_ns = wring_now_ns();
        bytes = wring_codec_encode(bench->codec, &bench->context, bench->sum, bench->elems, NULL,
                                   bench->code);
        uint64_t coded_ns = wring_now_ns();
        status = wring_codec_decode(bench->codec, &bench->context, bench->code, bytes, out,
                                    bench->elems, false);
        encode_us[turn] = (double)(coded_ns - began_ns) / 1e3;
        decode_us[turn] = (double)(wring_now_ns() - coded_ns) / 1e3;
    }
    if (status != WRING_OK)
        return status;
    bench->bytes = (double)bytes;
    bench->encode_us = wring_spread_of(encode_us, TURNS).median;
    bench->decode_us = wring_spread_of(decode_us, TURNS).median;
    return WRING_OK;
}

/** A contribution into the sum. Each rank has a state of its own, as before its first step; all
 * have the results of the first one's rounds. */
static enum wring_status add_contribution(struct bench *bench, uint32_t rank)
{
    bench->context.phase = 0;
    bench->context.rank = rank;
    if (rank > 0)
        wring_solo_restart(&bench->solo, &bench->context);
    wring_pattern_fill(bench->numbers, bench->elems, rank);
    size_t bytes = wring_codec_encode(bench->codec, &bench->context, bench->numbers, bench->elems,
                                      NULL, bench->code);
    return wring_codec_decode(bench->codec, &bench->context, bench->code, bytes, bench->sum,
                              bench->elems, rank > 0);
}

/** The error of the way back, of the sum of a few: that of one may be all too simple. */
static enum wring_status lose_of_sum(struct bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t rank = 1; rank < CONTRIBUTIONS && status == WRING_OK; rank++)
        status = add_contribution(bench, rank);
    bench->context.phase = 1;
    if (status != WRING_OK)
        return status;
    size_t bytes = wring_codec_encode(bench->codec, &bench->context, bench->sum, bench->elems, NULL,
                                      bench->code);
    status = wring_codec_decode(bench->codec, &bench->context, bench->code, bytes, bench->numbers,
                                bench->elems, false);
    bench->nmse = measure_error(bench->sum, bench->numbers, bench->elems);
    return status;
}

/** In, and its sum back. */
static enum wring_status run_bench(struct bench *bench)
{
    wring_pattern_fill(bench->numbers, bench->elems, 0);
    wring_solo_rounds(&bench->solo, &bench->context, bench->numbers, NULL);
    enum wring_status status = add_contribution(bench, 0);
    if (status != WRING_OK)
        return status;
    bench->context.phase = 1;
    bench->most_bytes = (double)wring_codec_encode(bench->codec, &bench->context, bench->numbers,
                                                   bench->elems, NULL, bench->code);
    status = time_way_back(bench);
    return status == WRING_OK ? lose_of_sum(bench) : status;
}

static enum wring_status measure_way_back(const struct wring_codec *codec,
                                          struct wring_profile_way_back *out)
{
    double bytes[SIZES], most_bytes[SIZES], encode_us[SIZES], decode_us[SIZES];
    enum wring_status status = WRING_OK;

    for (int i = 0; i < SIZES && status == WRING_OK; i++) {
        struct bench bench;
        status = init_bench(&bench, codec, sizes[i]);
        if (status == WRING_OK)
            status = run_bench(&bench);
        bytes[i] = bench.bytes;
        most_bytes[i] = bench.most_bytes;
        encode_us[i] = bench.encode_us;
        decode_us[i] = bench.decode_us;
        out->nmse = bench.nmse; /* of the largest */
        finish_bench(&bench);
    }
    if (status == WRING_OK)
        status = fit_sizes(bytes, &out->bytes);
    if (status == WRING_OK)
        status = fit_sizes(encode_us, &out->encode_us);
    if (status == WRING_OK)
        status = fit_sizes(decode_us, &out->decode_us);
    if (status == WRING_OK && most_bytes[SIZES - 1] > GROWS * bytes[SIZES - 1])
        status = fit_sizes(most_bytes, &out->most_bytes);
    return status;
}

/** The sum of one contribution's code, as its owner sends it, and how long it takes to decode that.
 */
static enum wring_status run_sum(struct bench *bench, void *sum, size_t bytes)
{
    const struct wring_codec_ops *ops = bench->codec->ops;
    double decode_us[TURNS];
    uint64_t cut = 0;

    wring_pattern_fill(bench->numbers, bench->elems, 0);
    wring_solo_rounds(&bench->solo, &bench->context, bench->numbers, NULL);
    size_t code_bytes = wring_codec_encode(bench->codec, &bench->context, bench->numbers,
                                           bench->elems, NULL, bench->code);
    bench->context.phase = 1;
    enum wring_status status =
        ops->code_sum(bench->codec, &bench->context, sum, bench->code, code_bytes, bench->elems);
    if (status == WRING_OK && ops->sum_end != NULL)
        ops->sum_end(bench->codec, &bench->context, sum, bench->elems, &cut);
    for (int turn = 0; turn < TURNS && status == WRING_OK; turn++) {
        uint64_t began_ns = wring_now_ns();
        status = wring_codec_decode(bench->codec, &bench->context, sum, bytes, bench->sum,
                                    bench->elems, false);
        decode_us[turn] = (double)(wring_now_ns() - began_ns) / 1e3;
    }
    if (status == WRING_OK)
        bench->decode_us = wring_spread_of(decode_us, TURNS).median;
    return status;
}

/** @param bytes  of a sum, by size */
static enum wring_status time_sums(const struct wring_codec *codec, const double bytes[SIZES],
                                   struct wring_cost *out)
{
    double decode_us[SIZES];
    enum wring_status status = WRING_OK;

    for (int i = 0; i < SIZES && status == WRING_OK; i++) {
        struct bench bench = {.codec = NULL};
        void *sum = calloc(1, wring_codec_piece_bytes(codec, sizes[i]) + 1);
        status = sum != NULL ? init_bench(&bench, codec, sizes[i]) : WRING_ERR_NO_MEMORY;
        if (status == WRING_OK)
            status = run_sum(&bench, sum, (size_t)bytes[i]);
        decode_us[i] = bench.decode_us;
        finish_bench(&bench);
        free(sum);
    }
    return status == WRING_OK ? fit_sizes(decode_us, out) : status;
}

/** Codes that add up are not encoded again, and lose nothing more. Their sums may be wider, and
 * take longer to decode. */
static enum wring_status size_sums(const struct wring_codec *codec,
                                   struct wring_profile_way_back *out)
{
    double bytes[SIZES];
    bool differs = false;

    for (int i = 0; i < SIZES; i++) {
        size_t sum = 0;
        enum wring_status status = wring_solo_sum_bytes(codec, sizes[i], &sum);
        if (status != WRING_OK)
            return status;
        differs = differs || sum != wring_codec_bound(codec, sizes[i]);
        bytes[i] = (double)sum;
    }
    if (!differs)
        return WRING_OK;
    enum wring_status status = fit_sizes(bytes, &out->bytes);
    return status == WRING_OK ? time_sums(codec, bytes, &out->decode_us) : status;
}

/** Are sums encoded by another codec than contributions? Those of codes that add up are not. */
static bool has_way_back(const struct wring_codec *codec)
{
    unsigned flags = wring_codec_info(codec)->flags;

    return (flags & WRING_CODEC_SUMMABLE) == 0 &&
           ((flags & WRING_CODEC_TWO_WAYS) != 0 ||
            wring_codec_way(codec, 1) != wring_codec_way(codec, 0));
}

enum wring_status wring_calibrate_traits(const struct wring_codec *codec,
                                         struct wring_profile_traits *out)
{
    const struct wring_codec *in = wring_codec_way(codec, 0);
    double bytes[SIZES];
    enum wring_status status = WRING_OK;

    *out = (struct wring_profile_traits){.alters = wring_codec_alters(codec),
                                         .rounds = (uint32_t)in->ops->n_rounds,
                                         .state_bytes = state_bytes(in, sizes[SIZES - 1])};
    for (int i = 0; i < SIZES; i++)
        bytes[i] = round_bytes(in, sizes[i]);
    if (out->rounds > 0)
        status = fit_sizes(bytes, &out->round_bytes);
    if (status == WRING_OK && wring_codec_adds_codes(codec))
        status = size_sums(codec, &out->way_back);
    if (status == WRING_OK && has_way_back(codec))
        status = measure_way_back(codec, &out->way_back);
    return status;
}

/* ---- all codecs ---- */

/** Beside each codec with its defaults, and with +ef if it takes that. */
static const char *const variants[] = {
    "bf16:round=random",
    "int2:range=minmax+ef",
    "onebit:means=2",
    "onebit:means=2+ef",
    "topk:ratio=0.01+ef:residual=bf16",
    "topk:ratio=0.01/int8+ef",
    "topk:ratio=0.001+ef",
    "topk:ratio=0.01+momentum+ef",
    "topk:ratio=0.01+momentum+ef21",
    "sharedint:width=16",
    "fp8:round=random",
    "mxfp4:round=random",
    "nvfp4:round=random",
    "onebit+ef>int8",
    "topk:ratio=0.01:index=packed+ef",
    "topk:ratio=0.01:index=packed/int8+ef",
    "dgc:index=packed",
    "threshold:index=packed+ef",
    "thc:width=4",
    "thc:width=4:clip=2.5+ef",
};

static bool is_codec(const char *spec)
{
    struct wring_codec *codec;

    if (wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) != WRING_OK)
        return false;
    wring_codec_destroy(codec);
    return true;
}

/** One that is no codec is refused like one of the command line, and not passed over. */
static void add_spec(const char *spec, struct wring_calibrate_coded *out)
{
    assert(out->n < WRING_CALIBRATE_CODED_MAX);
    snprintf(out->specs[out->n++], WRING_CODEC_SPEC_MAX, "%s", spec);
}

void wring_calibrate_list_all(struct wring_calibrate_coded *out)
{
    char spec[WRING_CODEC_SPEC_MAX];

    out->n = 0;
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        const char *name = (*ops)->name;
        if (strcmp(name, "none") == 0)
            continue;
        if (strcmp(name, "topk") == 0)
            name = "topk:ratio=0.01"; /* as in the default list */
        add_spec(name, out);
        snprintf(spec, sizeof(spec), "%s+ef", name);
        if (((*ops)->flags & WRING_CODEC_EXACT) == 0 && is_codec(spec)) /* some take none */
            add_spec(spec, out);
    }
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
        add_spec(variants[i], out);
}
