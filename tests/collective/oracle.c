/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allreduce must give, computed in one thread straight from the definition of its scheme:
 * whole spans at once, scalar codecs, sums in a plain loop. The machine under test has to agree
 * with it bit for bit; how far codecs may be off the true sum is checked against doubles.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/collective/matrix.h"
#include "tests/lib/test.h"
#include "transport/collective/collective.h"

struct oracle {
    const struct wring_matrix_case *c;
    struct wring_codec *codec;
    bool raw;
    float **inputs, **residuals; /* [ranks][elems] */
    float *scratch, *sum;        /* [elems] */
    uint8_t *code;
};

static float one_nan(float x)
{
    return isnan(x) ? NAN : x;
}

/** scratch[span] = decode(encode(in + residual)), by the codec of that way. */
static void through_codec(struct oracle *o, const float *in, float *residual,
                          struct wring_span span, unsigned step, uint32_t rank, uint32_t phase)
{
    struct wring_codec_context context = {.seed = 1234,
                                          .rank = rank,
                                          .ranks = o->c->ranks,
                                          .phase = phase,
                                          .step = step,
                                          .element = span.begin};
    const struct wring_codec *codec = wring_codec_way(o->codec, phase);
    bool feedback = (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) != 0;
    uint64_t n = span.end - span.begin;
    size_t bytes = wring_codec_encode(codec, &context, in + span.begin, n,
                                      feedback ? residual + span.begin : NULL, o->code);
    CHECK(bytes <= wring_codec_bound(codec, n), "%zu bytes", bytes);
    CHECK(wring_codec_decode(codec, &context, o->code, bytes, o->scratch + span.begin, n, false) ==
              WRING_OK,
          "decode");
}

static void add(struct oracle *o, const float *x, struct wring_span span, bool first)
{
    for (uint64_t i = span.begin; i < span.end; i++)
        o->sum[i] = one_nan(first ? x[i] : o->sum[i] + x[i]);
}

static void divide(struct oracle *o, struct wring_span span)
{
    for (uint64_t i = span.begin; o->c->op == WRING_AVG && i < span.end; i++)
        o->sum[i] = one_nan(o->sum[i] / (float)o->c->ranks);
}

static void reduce_span(struct oracle *o, struct wring_span span, uint32_t owner, unsigned step)
{
    for (uint32_t r = 0; r < o->c->ranks; r++) {
        const float *x = o->inputs[r];
        if (!o->raw && r != owner) {
            through_codec(o, x, o->residuals[r], span, step, r, 0);
            x = o->scratch;
        }
        add(o, x, span, r == 0);
    }
    divide(o, span);
}

static bool is_sharded(const struct oracle *o)
{
    if (o->c->scheme != WRING_SCHEME_AUTO)
        return o->c->scheme == WRING_SCHEME_DIVISIBLE;
    if (wring_codec_info(o->codec)->flags & WRING_CODEC_TWO_WAYS)
        return true;
    return o->raw ? o->c->elems * sizeof(float) > 8192 : o->c->ranks > 2;
}

static void step_sharded(struct oracle *o, unsigned step)
{
    struct wring_geometry geometry =
        wring_geometry_make(o->c->elems, o->c->ranks, o->raw ? NULL : o->codec, 4096);
    for (uint32_t owner = 0; owner < o->c->ranks; owner++) {
        struct wring_span span = wring_geometry_shard(&geometry, owner);
        if (span.begin == span.end)
            continue;
        reduce_span(o, span, owner, step);
        if (!o->raw) {
            through_codec(o, o->sum, o->residuals[owner], span, step, owner, 1);
            memcpy(o->sum + span.begin, o->scratch + span.begin,
                   (span.end - span.begin) * sizeof(float));
        }
    }
}

static void run_step(struct oracle *o, unsigned step)
{
    for (uint32_t r = 0; r < o->c->ranks; r++)
        wring_matrix_input(o->c, r, step, o->inputs[r]);
    if (o->c->elems == 0)
        return;
    if (o->c->ranks == 1)
        memcpy(o->sum, o->inputs[0], o->c->elems * sizeof(float));
    else if (is_sharded(o))
        step_sharded(o, step);
    else
        reduce_span(o, (struct wring_span){0, o->c->elems}, UINT32_MAX, step);
}

/** How far one encoding of a value may be off, in a block whose largest magnitude is `peak`. */
static double step_error(const char *codec, double x, double peak)
{
    if (strcmp(codec, "none") == 0)
        return 0;
    if (strcmp(codec, "bf16") == 0)
        return fabs(x) * 0x1p-8 + 1e-40;
    if (strcmp(codec, "fp16") == 0)
        return fabs(x) * 0x1p-11 + 0x1p-25;
    return peak / 127 * 0.5001 + 1e-35; /* int8 */
}

static void check_bound(const struct oracle *o)
{
    const struct wring_matrix_case *c = o->c;
    double peak = c->ranks * 1.0; /* inputs are below 1 */
    for (uint64_t i = 0; i < c->elems; i++) {
        double sum = 0, bound = c->ranks * 1e-44; /* where denormals end */
        for (uint32_t r = 0; r < c->ranks; r++) {
            sum += o->inputs[r][i];
            bound += step_error(c->codec, o->inputs[r][i], 1) + fabs(o->inputs[r][i]) * 0x1p-22;
        }
        bound += step_error(c->codec, fabs(sum) + bound, peak + bound) + fabs(sum) * 0x1p-22;
        double divisor = c->op == WRING_AVG ? c->ranks : 1;
        if (fabs(o->sum[i] * divisor - sum) > bound) {
            char text[256];
            CHECK(false, "element %llu is %g, not %g, bound %g: %s", (unsigned long long)i,
                  o->sum[i] * divisor, sum, bound, wring_matrix_text(c, text, sizeof(text)));
            return;
        }
    }
}

static float **make_rows(uint32_t n, uint64_t elems)
{
    float **rows = calloc(n, sizeof(*rows));
    for (uint32_t i = 0; i < n; i++)
        rows[i] = calloc(elems + 1, sizeof(float));
    return rows;
}

static void free_rows(float **rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(rows[i]);
    free(rows);
}

static bool has_plain_bound(const struct wring_matrix_case *c)
{
    return c->special == 0 &&
           (strcmp(c->codec, "none") == 0 || strcmp(c->codec, "bf16") == 0 ||
            strcmp(c->codec, "fp16") == 0 || strncmp(c->codec, "int8", 4) == 0) &&
           strpbrk(c->codec, "+>") == NULL;
}

void wring_matrix_check(const struct wring_matrix_case *c, const float *out)
{
    struct oracle o = {.c = c};
    char text[256];
    REQUIRE(wring_codec_create(c->codec, "scalar", NULL, 0, &o.codec) == WRING_OK, "codec");
    const struct wring_codec_info *info = wring_codec_info(o.codec);
    o.raw = (info->flags & WRING_CODEC_RAW) != 0;
    o.inputs = make_rows(c->ranks, c->elems);
    o.residuals = make_rows(c->ranks, c->elems);
    o.scratch = calloc(c->elems + 1, sizeof(float));
    o.sum = calloc(c->elems + 1, sizeof(float));
    o.code = malloc(wring_codec_bound(o.codec, c->elems) + 64);

    uint64_t saved = wring_fp_enter();
    for (unsigned step = 0; step < c->steps; step++)
        run_step(&o, step);
    wring_fp_leave(saved);

    uint64_t i = 0;
    while (i < c->elems && memcmp(&o.sum[i], &out[i], sizeof(float)) == 0)
        i++;
    CHECK(i == c->elems, "element %llu is %a, should be %a: %s", (unsigned long long)i, out[i],
          o.sum[i], wring_matrix_text(c, text, sizeof(text)));
    if (has_plain_bound(c))
        check_bound(&o);
    free_rows(o.inputs, c->ranks);
    free_rows(o.residuals, c->ranks);
    free(o.scratch);
    free(o.sum);
    free(o.code);
    wring_codec_destroy(o.codec);
}
