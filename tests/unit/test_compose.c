/* SPDX-License-Identifier: Apache-2.0 */
/** What a spec adds to a codec: momentum by its definition, warm-up, values that another codec
 *  codes. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/residual.h"
#include "compress/solo.h"
#include "tests/lib/test.h"

#define N 1000
#define RANKS 4
#define STEPS 30

/** A codec, its state, and what the last step gave. */
struct rig {
    struct wring_codec *codec;
    struct wring_solo solo;
    struct wring_codec_context context;
    float out[N];
    size_t bytes;
};

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    char why[300] = "";

    wring_codec_create(spec, NULL, NULL, why, sizeof(why), &codec);
    CHECK(codec != NULL, "%s: %s", spec, why);
    return codec;
}

static void open_rig(struct rig *rig, const char *spec)
{
    *rig = (struct rig){.codec = make(spec),
                        .context = {.seed = 5, .bucket = 2, .ranks = RANKS, .elems = N}};
    REQUIRE(rig->codec != NULL, "not made");
    REQUIRE(wring_solo_init(&rig->solo, wring_codec_way(rig->codec, 0), &rig->context) == WRING_OK,
            "no memory");
}

static void close_rig(struct rig *rig)
{
    wring_solo_finish(&rig->solo);
    wring_codec_destroy(rig->codec);
    wring_test_free_guarded();
}

/** out = decode(encode(x)), of one way of a step. */
static void pass(struct rig *rig, uint32_t phase, const float *x, float *residual)
{
    size_t bound = wring_codec_bound(rig->codec, N);
    unsigned char *code = wring_test_guarded(bound);

    rig->context.phase = phase;
    if (phase == 0)
        wring_solo_rounds(&rig->solo, &rig->context, x, residual);
    rig->bytes = wring_codec_encode(rig->codec, &rig->context, x, N, residual, code);
    CHECK(rig->bytes <= bound, "%zu bytes, bound %zu", rig->bytes, bound);
    CHECK(wring_codec_decode(rig->codec, &rig->context, code, rig->bytes, rig->out, N, false) ==
              WRING_OK,
          "decode");
}

static void draw(float *x, uint32_t *random)
{
    for (int i = 0; i < N; i++)
        x[i] = wring_test_random_float(random);
}

/* ---- momentum ---- */

/** By the papers, in binary64: what is sent in each step, and what the rank keeps. */
struct paper {
    double m[N], sent[N];
};

static void step_by_paper(struct paper *paper, const float *x, double beta, bool nesterov)
{
    for (int i = 0; i < N; i++) {
        paper->m[i] = beta * paper->m[i] + (double)x[i];
        paper->sent[i] = nesterov ? (double)x[i] + beta * paper->m[i] : paper->m[i];
    }
}

static void check_sent(const struct rig *rig, const struct paper *paper, double most,
                       const char *spec)
{
    for (int i = 0; i < N; i++) {
        double off = fabs((double)rig->out[i] - paper->sent[i]);
        CHECK(off <= most, "%s: element %d is off by %g", spec, i, off);
    }
}

/** lossless sends just what momentum makes of the input; of int8, values are near it. */
static void momentum_is_that_of_the_papers(void)
{
    static const struct {
        const char *spec;
        double beta, most;
        bool nesterov;
    } cases[] = {
        {"lossless+momentum", 0.9, 1e-5, false},
        {"lossless+nesterov", 0.9, 1e-5, true},
        {"lossless+momentum:beta=0", 0, 0, false},
        {"lossless+nesterov:beta=0.5", 0.5, 1e-6, true},
        {"int8:block=32+momentum", 0.9, 0.05, false},
        {"sharedint:width=16:block=32+nesterov", 0.9, 0.01, true},
    };

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        static struct rig rig;
        static struct paper paper;
        static float x[N];
        uint32_t random = 7;

        open_rig(&rig, cases[c].spec);
        memset(&paper, 0, sizeof(paper));
        for (rig.context.step = 0; rig.context.step < STEPS; rig.context.step++) {
            draw(x, &random);
            pass(&rig, 0, x, NULL);
            step_by_paper(&paper, x, cases[c].beta, cases[c].nesterov);
            check_sent(&rig, &paper, cases[c].most, cases[c].spec);
        }
        close_rig(&rig);
    }
}

/** Momentum comes before the residual: over all steps, what was sent and what is left is momentum.
 */
static void residual_is_of_momentum(void)
{
    static const char *const specs[] = {
        "topk:ratio=0.05:block=256+momentum+ef", "onebit:block=32+nesterov+ef",
        "sharedint:block=32+momentum+ef", "topk:ratio=0.05:block=256/int8+nesterov+ef"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        static struct rig rig;
        static struct paper paper;
        static double wanted[N], sent[N];
        static float x[N], residual[N];
        uint32_t random = 9;

        open_rig(&rig, specs[s]);
        memset(&paper, 0, sizeof(paper));
        memset(wanted, 0, sizeof(wanted));
        memset(sent, 0, sizeof(sent));
        memset(residual, 0, sizeof(residual));
        for (rig.context.step = 0; rig.context.step < STEPS; rig.context.step++) {
            draw(x, &random);
            pass(&rig, 0, x, residual);
            step_by_paper(&paper, x, 0.9, strstr(specs[s], "nesterov") != NULL);
            for (int i = 0; i < N; i++) {
                wanted[i] += paper.sent[i];
                sent[i] += (double)rig.out[i];
            }
        }
        for (int i = 0; i < N; i++)
            CHECK(fabs(wanted[i] - sent[i] - (double)residual[i]) < 1e-3,
                  "%s: element %d: %g are lost", specs[s], i,
                  wanted[i] - sent[i] - (double)residual[i]);
        close_rig(&rig);
    }
}

/** A sum has no momentum: it goes back as the plain codec sends it. */
static void way_back_has_none(void)
{
    static struct rig rig, plain;
    static float x[N], kept[N];
    uint32_t random = 3;

    open_rig(&rig, "int8:block=32+nesterov");
    open_rig(&plain, "int8:block=32");
    draw(x, &random);
    pass(&rig, 0, x, NULL);
    memcpy(kept, rig.context.states[0], sizeof(kept));
    pass(&rig, 1, x, NULL);
    pass(&plain, 1, x, NULL);
    CHECK(memcmp(rig.out, plain.out, sizeof(rig.out)) == 0, "the way back is another");
    CHECK(memcmp(kept, rig.context.states[0], sizeof(kept)) == 0, "it changes momentum");
    close_rig(&rig);
    wring_codec_destroy(plain.codec);
    wring_solo_finish(&plain.solo);
}

/** A unit that is not finite is NaN and leaves its momentum; so do others of the same call. */
static void what_is_not_finite_leaves_momentum(void)
{
    static const char *const specs[] = {"int8:block=32+momentum", "bf16+nesterov",
                                        "sharedint:block=32+nesterov"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        static struct rig rig;
        static float x[N], before[N];
        uint32_t random = 4;

        open_rig(&rig, specs[s]);
        uint64_t unit = rig.codec->info.unit;
        for (int step = 0; step < 2; step++) {
            draw(x, &random);
            pass(&rig, 0, x, NULL);
        }
        memcpy(before, rig.context.states[0], sizeof(before));
        draw(x, &random);
        x[100] = INFINITY;
        x[701] = NAN;
        pass(&rig, 0, x, NULL);
        const float *after = rig.context.states[0];
        for (uint64_t i = 0; i < N; i++) {
            bool lost = i / unit == 100 / unit || i / unit == 701 / unit;
            CHECK(isnan(rig.out[i]) == lost, "%s: element %d comes to %g", specs[s], (int)i,
                  (double)rig.out[i]);
            CHECK((memcmp(&before[i], &after[i], sizeof(float)) == 0) == lost,
                  "%s: momentum of element %d goes from %g to %g", specs[s], (int)i,
                  (double)before[i], (double)after[i]);
        }
        close_rig(&rig);
    }
}

/** What grows beyond a float32 stays the largest one, and comes down again. */
static void momentum_stays_finite(void)
{
    static struct rig rig;
    static float x[N];

    open_rig(&rig, "lossless+momentum");
    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    for (int step = 0; step < 5; step++)
        pass(&rig, 0, x, NULL);
    CHECK(rig.out[0] == -FLT_MAX && rig.out[1] == FLT_MAX, "%g %g", (double)rig.out[0],
          (double)rig.out[1]);
    memset(x, 0, sizeof(x));
    for (int step = 0; step < 2000; step++)
        pass(&rig, 0, x, NULL);
    CHECK(fabsf(rig.out[1]) < FLT_MIN, "%g is left", (double)rig.out[1]);
    close_rig(&rig);
}

/* ---- differences ---- */

/** A mean beyond the largest float32 marks a unit in which all is finite: it brings nothing, so
 *  what the rank has sent stays what it was. Other units of the call go on. */
static void what_is_marked_leaves_what_was_sent(void)
{
    static const char *const specs[] = {"onebit:block=128+ef21", "onebit:block=128:means=2+ef21",
                                        "topk:ratio=0.5:block=256/onebit+ef21",
                                        "onebit:block=128+momentum:beta=0+ef21"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        static struct rig rig;
        static float x[N], residual[N], before[N];
        uint32_t random = 4;

        open_rig(&rig, specs[s]);
        uint64_t unit = rig.codec->info.unit;
        memset(residual, 0, sizeof(residual));
        for (int step = 0; step < 3; step++) {
            draw(x, &random);
            pass(&rig, 0, x, residual);
        }
        memcpy(before, residual, sizeof(before));
        for (uint64_t i = unit; i < 2 * unit; i++)
            x[i] = FLT_MAX / 8;
        pass(&rig, 0, x, residual);
        for (uint64_t i = 0; i < N; i++) {
            bool lost = i / unit == 1;
            REQUIRE(isnan(rig.out[i]) == lost, "%s: element %d comes to %g", specs[s], (int)i,
                    (double)rig.out[i]);
            REQUIRE(!lost || memcmp(&before[i], &residual[i], sizeof(float)) == 0,
                    "%s: the residual of element %d goes from %g to %g", specs[s], (int)i,
                    (double)before[i], (double)residual[i]);
        }
        close_rig(&rig);
    }
}

/* ---- warm-up ---- */

static int count_sent(const float *out)
{
    int count = 0;

    for (int i = 0; i < N; i++)
        count += out[i] != 0;
    return count;
}

/** Four stages of equal length, from a quarter of the elements on, each a quarter of the one
 *  before; the rest has the ratio that was asked for. */
static void warmup_has_stages(void)
{
    static const struct {
        const char *spec;
        int sent[6]; /* in steps 0, 2, 4, 6, 8 and 9 */
    } cases[] = {
        {"topk:ratio=0.01:block=65536+warmup:steps=8", {250, 63, 16, 10, 10, 10}},
        {"topk:ratio=0.1:block=65536/int8+warmup:steps=8+ef", {250, 100, 100, 100, 100, 100}},
        {"topk:ratio=0.5:block=65536+warmup:steps=8", {500, 500, 500, 500, 500, 500}},
        {"randk:ratio=0.01:block=1024+warmup:steps=8+ef", {250, 63, 16, 10, 10, 10}},
        {"topkc:ratio=0.01:chunk=32:block=1024+warmup:steps=8", {256, 64, 32, 32, 32, 32}},
        {"topk:ratio=0.01:block=65536+warmup:steps=8+nesterov", {250, 63, 16, 10, 10, 10}},
    };

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        static struct rig rig;
        static float x[N], residual[N];
        uint32_t random = 11;

        open_rig(&rig, cases[c].spec);
        memset(residual, 0, sizeof(residual));
        bool fed = rig.codec->info.flags & WRING_CODEC_FEEDBACK;
        for (int step = 0; step < 10; step++) {
            rig.context.step = (uint64_t)step;
            draw(x, &random);
            pass(&rig, 0, x, fed ? residual : NULL);
            int want = cases[c].sent[step < 8 ? step / 2 : step - 4], sent = count_sent(rig.out);
            CHECK(sent <= want && sent > want - want / 8 - 3, "%s: step %d sends %d, not %d",
                  cases[c].spec, step, sent, want);
            CHECK(step > 0 || rig.bytes == wring_codec_bound(rig.codec, N) || sent < want,
                  "%s: the first step does not fill its bound", cases[c].spec);
        }
        close_rig(&rig);
    }
}

/** The way back of a codec that names itself has the same stages. */
static void warmup_comes_back(void)
{
    static const char *const specs[] = {"randk:block=32+warmup:steps=8+ef",
                                        "topkc:chunk=32:block=320+warmup:steps=8+momentum+ef"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        static struct rig rig;
        static float x[N], sum[N], residual[N];
        uint32_t random = 12;

        open_rig(&rig, specs[s]);
        memset(residual, 0, sizeof(residual));
        for (rig.context.step = 0; rig.context.step < 10; rig.context.step++) {
            draw(x, &random);
            pass(&rig, 0, x, residual);
            memcpy(sum, rig.out, sizeof(sum));
            size_t bytes = rig.bytes;
            pass(&rig, 1, sum, NULL);
            CHECK(memcmp(sum, rig.out, sizeof(sum)) == 0 && rig.bytes == bytes,
                  "%s: step %d: the sum comes back as another", specs[s], (int)rig.context.step);
        }
        close_rig(&rig);
    }
}

/** A decoder of another step refuses what has another size. */
static void warmup_sizes_are_checked(void)
{
    static const char *const specs[] = {"randk:block=32+warmup:steps=8",
                                        "topkc:chunk=32:block=320+warmup:steps=8",
                                        "hashed:block=256+warmup:steps=8"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        static struct rig rig;
        static float x[N];
        uint32_t random = 13;
        unsigned char *code;

        open_rig(&rig, specs[s]);
        draw(x, &random);
        wring_solo_rounds(&rig.solo, &rig.context, x, NULL);
        code = wring_test_guarded(wring_codec_bound(rig.codec, N));
        size_t bytes = wring_codec_encode(rig.codec, &rig.context, x, N, NULL, code);
        rig.context.step = 8;
        CHECK(wring_codec_decode(rig.codec, &rig.context, code, bytes, rig.out, N, false) ==
                  WRING_ERR_FRAME,
              "%s: taken for a later step", specs[s]);
        close_rig(&rig);
    }
}

/* ---- values ---- */

/** The same elements are sent as without, off by what the codec of the values loses. */
static void values_are_near(void)
{
    static const struct {
        const char *spec, *plain;
        double most; /* of the largest magnitude, which is 1 */
    } cases[] = {
        {"topk:ratio=0.1:block=256/int8:block=32", "topk:ratio=0.1:block=256", 1.01 / 254},
        {"topk:ratio=1:block=256/int8", "topk:ratio=1:block=256", 1.01 / 254},
        {"topk:ratio=0.1/fp16", "topk:ratio=0.1", 0x1p-11},
        {"topk:ratio=0.3/bf16", "topk:ratio=0.3", 0x1p-8},
    };

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        static struct rig rig, plain;
        static float x[N], residual[N], other[N];
        uint32_t random = 15;

        open_rig(&rig, cases[c].spec);
        open_rig(&plain, cases[c].plain);
        draw(x, &random);
        memset(residual, 0, sizeof(residual));
        memset(other, 0, sizeof(other));
        pass(&rig, 0, x, residual);
        pass(&plain, 0, x, other);
        CHECK(rig.bytes < plain.bytes, "%s: %zu bytes, without %zu", cases[c].spec, rig.bytes,
              plain.bytes);
        for (int i = 0; i < N; i++) {
            CHECK(fabs((double)rig.out[i] - (double)plain.out[i]) <= cases[c].most,
                  "%s: element %d comes to %g, not %g", cases[c].spec, i, (double)rig.out[i],
                  (double)plain.out[i]);
            CHECK(residual[i] == x[i] - rig.out[i], "%s: element %d leaves %g", cases[c].spec, i,
                  (double)residual[i]);
        }
        wring_solo_finish(&plain.solo);
        wring_codec_destroy(plain.codec);
        close_rig(&rig);
    }
}

/** A value that its codec cannot hold costs the block, not a frame that peers refuse. With feedback
 *  it costs nothing. */
static void values_out_of_range(void)
{
    static struct rig rig;
    static float x[N], residual[N];

    memset(x, 0, sizeof(x));
    memset(residual, 0, sizeof(residual));
    x[3] = 100000; /* beyond binary16 */
    x[300] = 2;
    residual[4] = 0.5f;
    open_rig(&rig, "topk:ratio=0.1:block=256/fp16");
    pass(&rig, 0, x, NULL);
    CHECK(isnan(rig.out[0]) && isnan(rig.out[255]) && rig.out[300] == 2, "%g, %g and %g",
          (double)rig.out[0], (double)rig.out[255], (double)rig.out[300]);
    close_rig(&rig);
    open_rig(&rig, "topk:ratio=0.1:block=256/fp16+ef");
    pass(&rig, 0, x, residual);
    CHECK(rig.out[3] == 65504 && rig.out[4] == 0.5f && rig.out[300] == 2, "%g, %g and %g",
          (double)rig.out[3], (double)rig.out[4], (double)rig.out[300]);
    CHECK(residual[3] == 100000 - 65504 && residual[4] == 0 && residual[300] == 0,
          "%g, %g and %g are left", (double)residual[3], (double)residual[4],
          (double)residual[300]);
    close_rig(&rig);
}

/* ---- residuals of 16 and 8 bits ---- */

/** Each becomes one of its two neighbours, and stays as it is on average. */
static void bf16_residuals_round_at_random(void)
{
    static float x[N], residual[N], out[N];
    static double mean[N];
    struct wring_codec *codec = make("int8:block=32+ef:residual=bf16");
    struct wring_codec_context context = {.seed = 1, .ranks = 2, .element = 64, .elems = N};
    uint32_t random = 17;
    const int steps = 4000;

    draw(x, &random);
    x[5] = 0, x[6] = 1, x[7] = -0x1p-130f, x[8] = FLT_MAX;
    memset(mean, 0, sizeof(mean));
    for (context.step = 0; context.step < (uint64_t)steps; context.step++) {
        wring_residual_round(codec, &context, residual, x, N);
        wring_residual_read(codec, residual, 0, N, out);
        for (int i = 0; i < N; i++) {
            double size = fabs((double)x[i]), off = fabs((double)out[i] - (double)x[i]);
            REQUIRE(off < size * 0x1p-7 + 0x1p-133, "%g becomes %g", (double)x[i], (double)out[i]);
            mean[i] += (double)out[i] / steps;
        }
    }
    CHECK(out[5] == 0 && out[6] == 1, "%g and %g", (double)out[5], (double)out[6]);
    for (int i = 0; i < 1000; i++) { /* a rounding is off by less than half a step, squared */
        double step = fabs((double)x[i]) * 0x1p-7;
        CHECK(i == 7 || i == 8 || fabs(mean[i] - (double)x[i]) <= 5 * step / 2 / sqrt(steps),
              "%g becomes %g on average", (double)x[i], mean[i]);
    }
    wring_codec_destroy(codec);
}

/** As a state that is loaded: ties go to the even one, and nothing is beyond the largest. */
static void bf16_residuals_are_written_to_nearest(void)
{
    static const float x[] = {0x1.01p0f, -0x1.03p0f, 0x1.010002p0f, -0.0f, FLT_MAX, -INFINITY};
    static const float want[] = {1, -0x1.04p0f, 0x1.02p0f, -0.0f, 0x1.fep127f, -0x1.fep127f};
    enum {
        VALUES = sizeof(x) / sizeof(x[0])
    };
    float residual[VALUES], out[VALUES];
    struct wring_codec *codec = make("int8:block=32+ef:residual=bf16");

    wring_residual_write(codec, residual, 1, VALUES, x);
    wring_residual_read(codec, residual, 1, VALUES, out);
    for (int i = 0; i < VALUES; i++)
        CHECK(memcmp(&out[i], &want[i], sizeof(out[i])) == 0, "%a becomes %a", (double)x[i],
              (double)out[i]);
    wring_codec_destroy(codec);
}

/** The largest of 32 is at least 63.5 steps. */
static void int8_residuals_round_at_random(void)
{
    static float x[N], residual[N], out[N];
    static double mean[N];
    struct wring_codec *codec = make("int8:block=32+ef:residual=int8");
    struct wring_codec_context context = {.seed = 1, .ranks = 2, .element = 64, .elems = N};
    uint32_t random = 18;
    const int steps = 4000;

    draw(x, &random);
    memset(mean, 0, sizeof(mean));
    for (context.step = 0; context.step < (uint64_t)steps; context.step++) {
        wring_residual_round(codec, &context, residual, x, N);
        wring_residual_read(codec, residual, 0, N, out);
        for (int i = 0; i < N; i++)
            mean[i] += (double)out[i] / steps;
    }
    for (int i = 0; i < N; i++) {
        double top = 0;
        for (int k = i / 32 * 32; k < i / 32 * 32 + 32 && k < N; k++)
            top = fmax(top, fabs((double)x[k]));
        double step = top / 63.5;
        CHECK(fabs((double)out[i] - (double)x[i]) <= step, "%g becomes %g", (double)x[i],
              (double)out[i]);
        CHECK(fabs(mean[i] - (double)x[i]) <= 5 * step / 2 / sqrt(steps),
              "%g becomes %g on average", (double)x[i], mean[i]);
    }
    wring_codec_destroy(codec);
}

/** As a state that is loaded into a part of a bucket is: what else is in a block stays. */
static void int8_residuals_are_written_anywhere(void)
{
    static float x[N], residual[N], out[N];
    struct wring_codec *codec = make("int8:block=32+ef:residual=int8");

    memset(residual, 0, sizeof(residual));
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 63 - 31) / 64;
    for (int at = 0, some; at < N; at += some) {
        some = at % 70 + 1 < N - at ? at % 70 + 1 : N - at;
        wring_residual_write(codec, residual, (uint64_t)at, (uint64_t)some, x + at);
    }
    for (int at = 0, some; at < N; at += some) {
        some = at % 41 + 1 < N - at ? at % 41 + 1 : N - at;
        wring_residual_read(codec, residual, (uint64_t)at, (uint64_t)some, out + at);
    }
    for (int i = 0; i < N; i++)
        CHECK(out[i] == x[i], "element %d, %g, becomes %g", i, (double)x[i], (double)out[i]);
    CHECK(wring_residual_size(codec, N) < N * sizeof(float) / 3, "%zu bytes",
          wring_residual_size(codec, N));
    wring_codec_destroy(codec);
}

/** A small gradient adds up beside a large residual, which rounding to nearest would not allow. */
static void add_up(const char *spec)
{
    static struct rig rig;
    static float x[N], residual[N], out[N];
    double sum = 0;

    open_rig(&rig, spec);
    for (int i = 0; i < N; i++)
        residual[i] = 0, x[i] = i == 0 ? 1000 : 1;
    rig.context.step = 0;
    pass(&rig, 0, x, residual); /* the large one alone is sent */
    for (int i = 0; i < N; i++)
        x[i] = i == 0 ? 1000 : 0x1p-10f;
    for (rig.context.step = 1; rig.context.step <= 1024; rig.context.step++)
        pass(&rig, 0, x, residual);
    wring_residual_read(rig.codec, residual, 0, N, out);
    for (int i = 1; i < N; i++)
        sum += (double)out[i] / (N - 1);
    CHECK(fabs(sum - 2) < 0.02, "%s: 1 and 1024 times 2^-10 come to %g", spec, sum);
    close_rig(&rig);
}

static void small_gradients_add_up(void)
{
    add_up("topk:ratio=0.001:block=1024+ef:residual=bf16");
    add_up("topk:ratio=0.001:block=1024+ef:residual=int8");
}

static const struct wring_test_case cases[] = {
    {"bf16_residuals_round_at_random", bf16_residuals_round_at_random},
    {"bf16_residuals_are_written_to_nearest", bf16_residuals_are_written_to_nearest},
    {"int8_residuals_round_at_random", int8_residuals_round_at_random},
    {"int8_residuals_are_written_anywhere", int8_residuals_are_written_anywhere},
    {"small_gradients_add_up", small_gradients_add_up},
    {"momentum_is_that_of_the_papers", momentum_is_that_of_the_papers},
    {"residual_is_of_momentum", residual_is_of_momentum},
    {"way_back_has_none", way_back_has_none},
    {"what_is_not_finite_leaves_momentum", what_is_not_finite_leaves_momentum},
    {"momentum_stays_finite", momentum_stays_finite},
    {"what_is_marked_leaves_what_was_sent", what_is_marked_leaves_what_was_sent},
    {"warmup_has_stages", warmup_has_stages},
    {"warmup_comes_back", warmup_comes_back},
    {"warmup_sizes_are_checked", warmup_sizes_are_checked},
    {"values_are_near", values_are_near},
    {"values_out_of_range", values_out_of_range},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
