/* SPDX-License-Identifier: Apache-2.0 */
/** Sparse codecs against the definitions of their papers: what is sent, how often, and what stays.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define N 1000
#define LONG 70000
#define RANKS 4

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    char why[200] = "";

    wring_codec_create(spec, NULL, NULL, why, sizeof(why), &codec);
    CHECK(codec != NULL, "%s: %s", spec, why);
    return codec;
}

/** out = decode(encode(src + residual)). @return bytes of the code */
static size_t pass(const struct wring_codec *codec, const struct wring_codec_context *context,
                   const float *src, uint64_t n, float *residual, float *out)
{
    size_t bound = wring_codec_bound(codec, n);
    unsigned char *code = wring_test_guarded(bound);
    size_t bytes = wring_codec_encode(codec, context, src, n, residual, code);

    CHECK(bytes <= bound, "%zu bytes, bound %zu", bytes, bound);
    CHECK(wring_codec_decode(codec, context, code, bytes, out, n, false) == WRING_OK, "decode");
    return bytes;
}

/* ---- randk ---- */

/** So many steps, in each of which an element is sent or not. */
#define DRAWS 4000

/**
 * Without replacement each element is sent in k of n steps, and two elements together in
 * k (k - 1) of n (n - 1): counts are within five standard deviations of that.
 */
static void randk_draws_evenly(void)
{
    const uint64_t n = 112, k = 7;
    struct wring_codec *codec = make("randk:ratio=0.0625");
    struct wring_codec_context context = {.seed = 11, .ranks = 1, .element = 8192};
    unsigned alone[112] = {0}, with_first[112] = {0};
    float x[112], y[112];

    for (uint64_t i = 0; i < n; i++)
        x[i] = 1;
    for (context.step = 0; context.step < DRAWS; context.step++) {
        uint64_t count = 0;
        pass(codec, &context, x, n, NULL, y);
        for (uint64_t i = 0; i < n; i++) {
            count += y[i] != 0;
            alone[i] += y[i] != 0;
            with_first[i] += y[0] != 0 && y[i] != 0;
        }
        REQUIRE(count == k, "%d elements are sent", (int)count);
        wring_test_free_guarded();
    }
    double one = (double)k / (double)n, two = one * (double)(k - 1) / (double)(n - 1);
    for (uint64_t i = 0; i < n; i++) {
        CHECK(fabs(alone[i] - DRAWS * one) < 5 * sqrt(DRAWS * one * (1 - one)),
              "element %d is sent %u times", (int)i, alone[i]);
        CHECK(i == 0 || fabs(with_first[i] - DRAWS * two) < 5 * sqrt(DRAWS * two),
              "element %d is sent with the first one %u times", (int)i, with_first[i]);
    }
    wring_codec_destroy(codec);
}

/** E C(x) = x, and E |C(x) - x|^2 = (n/k - 1) |x|^2. */
static void randk_is_unbiased(void)
{
    static float x[N], y[N];
    static double mean[N];
    struct wring_codec *codec = make("randk:ratio=0.1:block=512");
    struct wring_codec_context context = {.seed = 3, .ranks = 1};
    double error = 0, whole = 0;
    uint32_t random = 5;

    for (int i = 0; i < N; i++)
        x[i] = wring_test_random_float(&random);
    for (context.step = 0; context.step < DRAWS; context.step++) {
        pass(codec, &context, x, N, NULL, y);
        for (int i = 0; i < N; i++) {
            double off = (double)y[i] - (double)x[i];
            mean[i] += (double)y[i] / DRAWS;
            error += off * off / DRAWS;
        }
        wring_test_free_guarded();
    }
    for (int i = 0; i < N; i++) {
        double deviation = fabs((double)x[i]) * 3 / sqrt(DRAWS); /* n/k - 1 is 9 */
        CHECK(fabs(mean[i] - (double)x[i]) <= 5 * deviation, "%d: %g comes to %g on average", i,
              (double)x[i], mean[i]);
        whole += (double)x[i] * (double)x[i];
    }
    CHECK(fabs(error / whole - 9) < 0.3, "the error is %g times the power, should be 9",
          error / whole);
    wring_codec_destroy(codec);
}

/** All ranks send the same elements, and the sum of what they send comes back bit by bit. */
static void check_randk_sum(const char *spec, bool fed)
{
    struct wring_codec *codec = make(spec);
    static float x[N], y[N], sum[N], back[N], residual[RANKS][N], want[N];
    struct wring_codec_context context = {.seed = 8, .bucket = 3, .ranks = RANKS};
    uint32_t random = 6;

    memset(residual, 0, sizeof(residual));
    for (context.step = 0; context.step < 20; context.step++) {
        memset(sum, 0, sizeof(sum));
        context.phase = 0;
        for (context.rank = 0; context.rank < RANKS; context.rank++) {
            for (int i = 0; i < N; i++)
                x[i] = wring_test_random_float(&random);
            pass(codec, &context, x, N, fed ? residual[context.rank] : NULL, y);
            for (int i = 0; i < N; i++)
                sum[i] += y[i];
        }
        context.phase = 1;
        context.rank = 2;
        pass(codec, &context, sum, N, NULL, back);
        CHECK(memcmp(sum, back, sizeof(sum)) == 0, "%s: the sum comes back as another", spec);
        for (int i = 0; i < N && context.step > 0; i++)
            CHECK(want[i] == 0 || want[i] != back[i], "%s: the step draws nothing new", spec);
        memcpy(want, back, sizeof(want));
        wring_test_free_guarded();
    }
    wring_codec_destroy(codec);
}

static void randk_sums_come_back(void)
{
    check_randk_sum("randk:ratio=0.03:block=256", false);
    check_randk_sum("randk:ratio=0.03:block=256+ef", true);
    check_randk_sum("randk:ratio=1", false);
}

/** Sent and kept, over many steps, is all that came: and what is kept stays bounded. */
static void randk_feeds_back(void)
{
    struct wring_codec *codec = make("randk:ratio=0.05:block=128+ef");
    static float x[N], y[N], residual[N];
    static double came[N], sent[N];
    struct wring_codec_context context = {.seed = 2, .ranks = 1};
    uint32_t random = 7;

    for (context.step = 0; context.step < 1000; context.step++) {
        for (int i = 0; i < N; i++)
            x[i] = wring_test_random_float(&random);
        pass(codec, &context, x, N, residual, y);
        for (int i = 0; i < N; i++) {
            came[i] += (double)x[i];
            sent[i] += (double)y[i];
            CHECK(fabsf(residual[i]) < 200, "step %d: %g is kept", (int)context.step,
                  (double)residual[i]);
        }
        wring_test_free_guarded();
    }
    for (int i = 0; i < N; i++)
        CHECK(fabs(came[i] - sent[i] - (double)residual[i]) < 1e-3, "%d: %g came, %g was sent", i,
              came[i], sent[i]);
    wring_codec_destroy(codec);
}

/* ---- topkc ---- */

#define CHUNK 32
#define CHUNKS ((N + CHUNK - 1) / CHUNK)

/** The norms of all ranks' chunks, added by rank. */
static void agree_on_norms(const struct wring_codec *codec, struct wring_codec_context context,
                           float (*x)[N], float *norms)
{
    const struct wring_codec_round *round = &codec->ops->rounds[0];

    REQUIRE(round->count(codec, &context) == CHUNKS, "%d norms",
            (int)round->count(codec, &context));
    memset(norms, 0, CHUNKS * sizeof(*norms));
    for (context.rank = 0; context.rank < RANKS; context.rank++) {
        float own[CHUNKS] = {0};
        round->begin(codec, &context, x[context.rank], N, NULL, own, NULL);
        for (int c = 0; c < CHUNKS; c++)
            norms[c] += own[c];
    }
}

static double norm_of(const float *x, int chunk)
{
    double squares = 0;
    for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK && i < N; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/** By the definition: so many chunks, those of the largest sums of norms, from every rank. */
static void check_topkc_step(const struct wring_codec *codec, struct wring_codec_context context,
                             float (*x)[N])
{
    static float y[N], sum[N], back[N];
    float norms[CHUNKS];
    double least = INFINITY, left = 0;
    int count = 0;

    agree_on_norms(codec, context, x, norms);
    context.statistics = (const void *const[]){norms};
    memset(sum, 0, sizeof(sum));
    for (context.rank = 0; context.rank < RANKS; context.rank++) {
        pass(codec, &context, x[context.rank], N, NULL, y);
        for (int i = 0; i < N; i++)
            sum[i] += y[i];
    }
    for (int c = 0; c < CHUNKS; c++) {
        double whole = 0;
        bool sent = y[c * CHUNK] != 0;
        for (int r = 0; r < RANKS; r++)
            whole += norm_of(x[r], c);
        CHECK(fabs(whole - (double)norms[c]) < whole * 1e-6, "chunk %d has norm %g", c, whole);
        least = sent ? fmin(least, (double)norms[c]) : least;
        left = sent ? left : fmax(left, (double)norms[c]);
        count += sent;
        for (int i = c * CHUNK; i < (c + 1) * CHUNK && i < N; i++)
            CHECK(y[i] == (sent ? x[RANKS - 1][i] : 0), "%d: %g became %g", i,
                  (double)x[RANKS - 1][i], (double)y[i]);
    }
    CHECK(count == 7, "%d of %d chunks are sent", count, CHUNKS); /* ceil(0.2 * 32) */
    CHECK(left <= least, "a chunk of norm %g stayed, one of %g was sent", left, least);
    context.phase = 1;
    pass(codec, &context, sum, N, NULL, back);
    CHECK(memcmp(sum, back, sizeof(sum)) == 0, "the sum comes back as another");
}

static void topkc_sends_what_matters_to_all(void)
{
    struct wring_codec *codec = make("topkc:ratio=0.2:chunk=32:block=1024");
    struct wring_codec_context context = {.ranks = RANKS, .elems = N};
    static float x[RANKS][N];
    uint32_t random = 9;

    for (int step = 0; step < 20; step++) {
        for (int r = 0; r < RANKS; r++)
            for (int i = 0; i < N; i++)
                x[r][i] = wring_test_random_float(&random) *
                          (float)(1 + wring_test_random(&random) % 3 * (uint32_t)(i / CHUNK % 5));
        check_topkc_step(codec, context, x);
        wring_test_free_guarded();
    }
    wring_codec_destroy(codec);
}

/* ---- dgc ---- */

/** A rank's state, and what the definition makes of it in doubles. */
struct dgc {
    float u[N], v[N];
    void *states[2];
    double want_u[N], want_v[N];
};

static struct wring_codec_context dgc_context(struct dgc *dgc)
{
    memset(dgc, 0, sizeof(*dgc));
    dgc->states[0] = dgc->u;
    dgc->states[1] = dgc->v;
    return (struct wring_codec_context){.ranks = RANKS, .elems = N, .states = dgc->states};
}

/** @return how many elements are sent */
static int check_dgc_step(const struct wring_codec *codec,
                          const struct wring_codec_context *context, struct dgc *dgc,
                          const float *x, double momentum, double factor)
{
    static float y[N];
    double least = INFINITY, left = 0;
    int count = 0;

    pass(codec, context, x, N, NULL, y);
    for (int i = 0; i < N; i++) {
        dgc->want_u[i] = momentum * dgc->want_u[i] + factor * (double)x[i];
        dgc->want_v[i] += dgc->want_u[i];
        if (y[i] != 0) {
            CHECK(fabs((double)y[i] - dgc->want_v[i]) < 1e-4, "%d: %g is sent, should be %g", i,
                  (double)y[i], dgc->want_v[i]);
            CHECK(dgc->u[i] == 0 && dgc->v[i] == 0, "%d: what is sent is kept, too", i);
            least = fmin(least, fabs((double)y[i]));
            dgc->want_u[i] = dgc->want_v[i] = 0;
            count++;
        } else {
            left = fmax(left, fabs((double)dgc->v[i]));
        }
        CHECK(fabs((double)dgc->u[i] - dgc->want_u[i]) < 1e-4 &&
                  fabs((double)dgc->v[i] - dgc->want_v[i]) < 1e-4,
              "%d: %g and %g are kept, should be %g and %g", i, (double)dgc->u[i],
              (double)dgc->v[i], dgc->want_u[i], dgc->want_v[i]);
    }
    CHECK(left <= least, "%g stayed, %g was sent", left, least);
    return count;
}

static void fill_random(float *x, uint32_t *random)
{
    for (int i = 0; i < N; i++)
        x[i] = wring_test_random_float(random);
}

static void dgc_follows_its_definition(void)
{
    struct wring_codec *codec = make("dgc:ratio=0.01:momentum=0.5:block=1024");
    static struct dgc dgc;
    static float x[N];
    struct wring_codec_context context = dgc_context(&dgc);
    uint32_t random = 10;

    for (context.step = 0; context.step < 100; context.step++) {
        fill_random(x, &random);
        int count = check_dgc_step(codec, &context, &dgc, x, 0.5, 1);
        CHECK(count == 10, "%d are sent", count);
        wring_test_free_guarded();
    }
    wring_codec_destroy(codec);
}

/** Each stage of the warm-up sends a quarter of the one before, in the room of the first. */
static void dgc_warms_up(void)
{
    static const int counts[] = {250, 250, 63, 63, 16,
                                 16,  10,  10, 10, 10}; /* not below the ratio */
    struct wring_codec *codec = make("dgc:ratio=0.01:warmup=8:momentum=0.9:block=1024");
    static struct dgc dgc;
    static float x[N];
    struct wring_codec_context context = dgc_context(&dgc);
    uint32_t random = 11;

    for (context.step = 0; context.step < 10; context.step++) {
        fill_random(x, &random);
        int count = check_dgc_step(codec, &context, &dgc, x, 0.9, 1);
        CHECK(count == counts[context.step], "step %d: %d are sent", (int)context.step, count);
        wring_test_free_guarded();
    }
    wring_codec_destroy(codec);
}

/** Four ranks, so a block's norm is cut down to half of the bound. */
static void dgc_clips(void)
{
    struct wring_codec *codec = make("dgc:ratio=0.01:clip=6:block=1024");
    static struct dgc dgc;
    static float x[N];
    struct wring_codec_context context = dgc_context(&dgc);
    uint32_t random = 12;

    for (context.step = 0; context.step < 20; context.step++) {
        double squares = 0;
        fill_random(x, &random);
        for (int i = 0; i < N; i++) {
            x[i] *= context.step % 2 == 0 ? 1 : 0.01f;
            squares += (double)x[i] * (double)x[i];
        }
        double factor = sqrt(squares) > 3 ? 3 / sqrt(squares) : 1;
        CHECK((factor < 1) == (context.step % 2 == 0), "step %d: factor %g", (int)context.step,
              factor);
        check_dgc_step(codec, &context, &dgc, x, 0.9, factor);
        wring_test_free_guarded();
    }
    wring_codec_destroy(codec);
}

/** A block that is not finite, or would become so, leaves its state, and others go on. */
static void dgc_keeps_what_nan_would_spoil(void)
{
    struct wring_codec *codec = make("dgc:ratio=0.01:block=512:clip=1");
    static struct dgc dgc, before;
    static float x[N], y[N];
    struct wring_codec_context context = dgc_context(&dgc);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint32_t random = 13;

    for (int b = 0; b < 3; b++) {
        fill_random(x, &random);
        pass(codec, &context, x, N, NULL, y);
        before = dgc;
        x[700] = bad[b];
        pass(codec, &context, x, N, NULL, y);
        for (int i = 0; i < N; i++)
            CHECK((i >= 512) == (isnan(y[i]) != 0), "%d: %g", i, (double)y[i]);
        CHECK(memcmp(dgc.v + 512, before.v + 512, (N - 512) * sizeof(float)) == 0 &&
                  memcmp(dgc.u + 512, before.u + 512, (N - 512) * sizeof(float)) == 0,
              "%g changes the state", (double)bad[b]);
        CHECK(memcmp(dgc.v, before.v, 512 * sizeof(float)) != 0, "the other block stands still");
        wring_test_free_guarded();
    }
    wring_codec_destroy(codec);
}

/** Without momentum: what was sent and what is kept is all that came. */
static void dgc_loses_nothing(void)
{
    struct wring_codec *codec = make("dgc:ratio=0.02:momentum=0:block=256");
    static struct dgc dgc;
    static float x[N], y[N];
    static double came[N], sent[N];
    struct wring_codec_context context = dgc_context(&dgc);
    uint32_t random = 14;

    for (context.step = 0; context.step < 1000; context.step++) {
        fill_random(x, &random);
        pass(codec, &context, x, N, NULL, y);
        for (int i = 0; i < N; i++) {
            came[i] += (double)x[i];
            sent[i] += (double)y[i];
            CHECK(fabsf(dgc.v[i]) < 100, "step %d: %g is kept", (int)context.step,
                  (double)dgc.v[i]);
        }
        wring_test_free_guarded();
    }
    for (int i = 0; i < N; i++)
        CHECK(fabs(came[i] - sent[i] - (double)dgc.v[i]) < 1e-3, "%d: %g came, %g was sent", i,
              came[i], sent[i]);
    wring_codec_destroy(codec);
}

/* ---- hashed ---- */

/** The slot of an element, by FORMAT.md. */
static uint32_t slot_of(const struct wring_codec_context *context, uint32_t index, uint32_t slots)
{
    uint32_t hash;
    wring_codec_random(context, WRING_DRAW_SHARED, 0, &hash, 1);
    hash ^= index;
    hash = (hash ^ hash >> 16) * 0x85EBCA6B;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35;
    return (uint32_t)((uint64_t)(hash ^ hash >> 16) * slots >> 32);
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/** Of the elements that reach the threshold and meet, the first is sent, and the others are kept.
 */
static void check_hashed_step(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *x, int k,
                              float *residual, int *met)
{
    static float y[N], v[N], sizes[N];
    bool taken[2 * N] = {false};

    for (int i = 0; i < N; i++) {
        v[i] = x[i] + residual[i];
        sizes[i] = fabsf(v[i]);
    }
    qsort(sizes, N, sizeof(sizes[0]), by_size);
    pass(codec, context, x, N, residual, y);
    for (int i = 0; i < N; i++) {
        uint32_t slot = slot_of(context, (uint32_t)i, (uint32_t)(2 * k));
        bool large = fabsf(v[i]) >= sizes[k - 1], first = large && !taken[slot];
        taken[slot] |= large;
        *met += large && !first;
        CHECK(y[i] == (first ? v[i] : 0), "%d: %g became %g", i, (double)v[i], (double)y[i]);
        CHECK(residual[i] == (first ? 0 : v[i]), "%d: %g is kept of %g", i, (double)residual[i],
              (double)v[i]);
    }
}

static void hashed_sends_the_first_of_a_slot(void)
{
    struct wring_codec *codec = make("hashed:ratio=0.1:block=1024+ef");
    struct wring_codec_context context = {.seed = 9, .ranks = RANKS};
    static float x[N], residual[N];
    uint32_t random = 15;
    int met = 0;

    memset(residual, 0, sizeof(residual));
    for (context.step = 0; context.step < 100; context.step++) {
        fill_random(x, &random);
        check_hashed_step(codec, &context, x, 100, residual, &met);
        wring_test_free_guarded();
    }
    CHECK(met > 1500 && met < 2600, "%d of 10000 met others", met); /* 1 - 2 (1 - e^-0.5) = 0.21 */
    wring_codec_destroy(codec);
}

/* ---- threshold ---- */

/** So many elements of a block are sent at most. */
static int cap_of(double cap, int n)
{
    int most = (int)ceil(cap * n);
    return most < 1 ? 1 : most;
}

/** The magnitude from which on elements of a block are sent: the value, or the last one that the
 * cap leaves. @param equals  out, how many that have just it are sent */
static double least_sent(const float *v, int n, double value, double cap, int *equals)
{
    static float sizes[LONG];
    int most = cap_of(cap, n), reach = 0;

    for (int i = 0; i < n; i++) {
        sizes[i] = fabsf(v[i]);
        reach += (double)sizes[i] >= value;
    }
    *equals = n;
    if (reach <= most)
        return value;
    qsort(sizes, (size_t)n, sizeof(sizes[0]), by_size);
    for (*equals = 1; *equals < most && sizes[most - 1 - *equals] == sizes[most - 1];)
        ++*equals;
    return (double)sizes[most - 1];
}

/** Of elements that reach the value all are sent, or the largest; the others stay as they are. */
static void check_threshold_step(const char *spec, const float *x, int n, int block, double value,
                                 double cap, float *residual)
{
    struct wring_codec *codec = make(spec);
    const struct wring_codec_context context = {.ranks = RANKS};
    static float y[LONG], v[LONG];
    int wrong = 0;

    for (int i = 0; i < n; i++)
        v[i] = x[i] + residual[i];
    pass(codec, &context, x, (uint64_t)n, residual, y);
    for (int from = 0; from < n; from += block) {
        int some = n - from < block ? n - from : block, equals;
        double least = least_sent(v + from, some, value, cap, &equals);
        for (int i = from; i < from + some; i++) {
            double size = fabs((double)v[i]);
            bool sent = size > least || (size == least && equals-- > 0);
            wrong += y[i] != (sent ? v[i] : 0) || residual[i] != (sent ? 0 : v[i]);
        }
    }
    CHECK(wrong == 0, "%s: %d of %d are wrong", spec, wrong, n);
    wring_codec_destroy(codec);
    wring_test_free_guarded();
}

/** Values that floats are not, that few, many and all reach, and caps that some of them reach. */
static void threshold_follows_its_definition(void)
{
    static const struct {
        double value, cap;
        int n, block;
        bool steps; /* eighths: many are equal, and some equal the value */
    } cases[] = {
        {0.9, 0.1, N, 256, false},
        {0.7, 0.1, N, 256, false},
        {0.5, 1, N, 1024, false},
        {0.5, 0.2, N, 256, true},
        {1.25, 1, N, 256, true},
        {3, 0.1, N, 256, false},
        {0.999, 0.1, LONG, 65536, false},
        {0.9, 0.01, LONG, 65536, false},
        {0.5, 1, LONG, 65536, false},
        {0.001, 0.3, LONG, 65536, true},
        {0.000000001, 1, LONG, 65536, false},
        {0.875, 0.05, LONG, 32768, true},
    };
    static float x[LONG], residual[LONG];
    uint32_t random = 21;

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        char spec[100];
        snprintf(spec, sizeof(spec), "threshold:value=%.9f:cap=%g:block=%d+ef", cases[c].value,
                 cases[c].cap, cases[c].block);
        memset(residual, 0, sizeof(residual));
        for (int step = 0; step < 4; step++) {
            for (int i = 0; i < cases[c].n; i++) {
                x[i] = wring_test_random_float(&random);
                x[i] = cases[c].steps ? roundf(8 * x[i]) / 8 : x[i];
            }
            check_threshold_step(spec, x, cases[c].n, cases[c].block, cases[c].value, cases[c].cap,
                                 residual);
        }
    }
}

/** The float next below a value that no float is does not reach it; the next above does. */
static void threshold_compares_exactly(void)
{
    const struct wring_codec_context context = {.ranks = RANKS};
    static const double values[] = {0.7, 0.1, 0.3, 0.01, 0.5, 1000000, 0.000000001};
    float out[4];

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char spec[100];
        snprintf(spec, sizeof(spec), "threshold:value=%.*f:cap=1", values[i] < 1 ? 9 : 0,
                 values[i]);
        struct wring_codec *codec = make(spec);
        float near = (float)values[i];
        const float x[4] = {nextafterf(near, 0), -near, near, -nextafterf(near, INFINITY)};
        pass(codec, &context, x, 4, NULL, out);
        for (int j = 0; j < 4; j++)
            CHECK(out[j] == (fabs((double)x[j]) >= values[i] ? x[j] : 0), "%s: %a became %a", spec,
                  (double)x[j], (double)out[j]);
        wring_codec_destroy(codec);
        wring_test_free_guarded();
    }
}

/* ---- blocks of zeros ---- */

/** They take their head alone, and the others what they take without them. */
static void blocks_of_zeros_are_skipped(void)
{
    enum {
        BLOCK = 4096,
        BLOCKS = 16
    };
    static const struct {
        const char *spec;
        size_t zeros,
            more; /* bytes where all is zero; and how many more where one element is not */
    } cases[] = {
        {"union", BLOCKS * 4, 4 + 4},
        {"lossless:block=4096", BLOCKS * 4, BLOCK * 4},
        {"lossless", BLOCKS * BLOCK / 512 * 4, 512 * 4},
    };
    static float x[BLOCKS * BLOCK], out[BLOCKS * BLOCK];
    const struct wring_codec_context context = {.ranks = 1, .elems = BLOCKS * BLOCK};

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct wring_codec *codec = make(cases[c].spec);
        x[5 * BLOCK + 7] = 0;
        size_t zeros = pass(codec, &context, x, BLOCKS * BLOCK, NULL, out);
        x[5 * BLOCK + 7] = -1.5f;
        size_t one = pass(codec, &context, x, BLOCKS * BLOCK, NULL, out);
        CHECK(zeros == cases[c].zeros, "%s: zeros take %zu bytes", cases[c].spec, zeros);
        CHECK(one == zeros + cases[c].more, "%s: one number takes %zu bytes more", cases[c].spec,
              one - zeros);
        CHECK(memcmp(x, out, sizeof(x)) == 0, "%s: other numbers come back", cases[c].spec);
        wring_codec_destroy(codec);
        wring_test_free_guarded();
    }
}

static const struct wring_test_case cases[] = {
    {"hashed_sends_the_first_of_a_slot", hashed_sends_the_first_of_a_slot},
    {"threshold_follows_its_definition", threshold_follows_its_definition},
    {"threshold_compares_exactly", threshold_compares_exactly},
    {"dgc_follows_its_definition", dgc_follows_its_definition},
    {"dgc_warms_up", dgc_warms_up},
    {"dgc_clips", dgc_clips},
    {"dgc_keeps_what_nan_would_spoil", dgc_keeps_what_nan_would_spoil},
    {"dgc_loses_nothing", dgc_loses_nothing},
    {"topkc_sends_what_matters_to_all", topkc_sends_what_matters_to_all},
    {"randk_draws_evenly", randk_draws_evenly},
    {"randk_is_unbiased", randk_is_unbiased},
    {"randk_sums_come_back", randk_sums_come_back},
    {"randk_feeds_back", randk_feeds_back},
    {"blocks_of_zeros_are_skipped", blocks_of_zeros_are_skipped},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
