/* SPDX-License-Identifier: Apache-2.0 */
/** Sparse codecs past element 2^32 of a bucket, by contexts that say so: nothing that long is
 * there.
 */
#include <string.h>
#include <sys/mman.h>

#include "compress/codec.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define UNIT 256
#define UNITS 4
#define N (UNITS * UNIT)
#define CHUNK 32
#define FAR (UINT64_C(1) << 32)

#define ARRAYS 3
#define NEAR 65536 /* elements, before 2^32 and behind, that an array's memory has */

static const struct far_case {
    const char *spec;
    bool draws; /* random numbers, by the numbers of its elements */
    unsigned states, statistics;
} cases_of_codecs[] = {
    {"topk:ratio=0.1:block=256", false, 0, 0},
    {"topk:ratio=0.1:block=256:index=packed", false, 0, 0},
    {"topk:ratio=0.1:block=256:index=packed/qsgd:block=32", true, 0, 0},
    {"randk:ratio=0.1:block=256", true, 0, 0},
    {"randk:ratio=0.1:block=256:seed=private", true, 0, 0},
    {"hashed:ratio=0.1:block=256:load=1", true, 0, 0},
    {"threshold:value=0.02:block=256", false, 0, 0},
    {"threshold:value=0.02:block=256:index=packed", false, 0, 0},
    {"union:block=256", false, 0, 0},
    {"topkc:ratio=0.25:chunk=32:block=256", false, 0, 1},
    {"dgc:ratio=0.1:block=256", false, 2, 0},
    {"dgc:ratio=0.1:block=256:index=packed", false, 2, 0},
};
#define CASES (sizeof(cases_of_codecs) / sizeof(cases_of_codecs[0]))

/** Addresses for more than `middle` numbers, of which only those around it have memory. */
static float *new_array(uint64_t middle)
{
    size_t begin = (size_t)(middle - NEAR) * sizeof(float), bytes = (size_t)(middle + NEAR) * 4;
    char *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        wring_test_skip("the system has no addresses for 2^32 numbers");
    if (mprotect(memory + begin, bytes - begin, PROT_READ | PROT_WRITE) != 0)
        wring_test_skip("the system has no memory for the numbers around 2^32");
    return (float *)(void *)memory;
}

static void free_array(float *array, uint64_t middle)
{
    munmap(array, (size_t)(middle + NEAR) * 4);
}

/** A codec, and the arrays that it finds by the numbers of elements, from the bucket's beginning.
 */
struct run {
    const struct far_case *at;
    struct wring_codec *codec;
    float *states[2], *norms;
};

/** Encode, as a first step, a run that begins at that element. */
static size_t encode_at(const struct run *run, struct wring_codec_context *context, const float *x,
                        uint64_t n, unsigned char *code)
{
    const struct wring_codec_ops *ops = run->codec->ops;

    for (unsigned s = 0; s < run->at->states; s++)
        memset(run->states[s] + context->element, 0, n * sizeof(float));
    if (run->at->statistics > 0) {
        memset(run->norms + context->element / CHUNK, 0, n / CHUNK * sizeof(float));
        ops->rounds[0].begin(run->codec, context, x, n, NULL, run->norms, NULL);
    }
    return wring_codec_encode(run->codec, context, x, n, NULL, code);
}

/**
 * A run of units, the first two of which are before element 2^32. Each of them has the code that it
 * has alone; near the bucket's beginning that is the same one if nothing is drawn, else another.
 */
static void check_run(const struct run *run, const struct run *near, const float *x)
{
    const char *spec = run->at->spec;
    size_t bound = wring_codec_bound(run->codec, N), at = 0;
    unsigned char *whole = wring_test_guarded(bound), *alone = wring_test_guarded(bound),
                  *first = wring_test_guarded(bound);
    float *y = wring_test_guarded(N * sizeof(float)), *sum = wring_test_guarded(N * sizeof(float));
    const void *statistics[] = {run->norms}, *near_statistics[] = {near->norms};
    struct wring_codec_context context = {
        .seed = 7,
        .bucket = 2,
        .ranks = 1,
        .elems = FAR + N,
        .element = FAR - N / 2,
        .statistics = statistics,
        .states = (void *const *)run->states,
    };
    struct wring_codec_context begin = context;

    begin.statistics = near_statistics, begin.states = (void *const *)near->states;
    size_t bytes = encode_at(run, &context, x, N, whole);
    CHECK(wring_codec_decode(run->codec, &context, whole, bytes, y, N, false) == WRING_OK,
          "%s: decode", spec);
    memset(sum, 0, N * sizeof(float));
    for (uint64_t i = 0; i < N; i += UNIT) {
        context.element = FAR - N / 2 + i;
        size_t some = encode_at(run, &context, x + i, UNIT, alone);
        CHECK(at + some <= bytes && memcmp(whole + at, alone, some) == 0,
              "%s: unit %d has another code alone", spec, (int)(i / UNIT));
        CHECK(wring_codec_decode(run->codec, &context, alone, some, sum + i, UNIT, true) ==
                  WRING_OK,
              "%s: decode and add", spec);
        /* 2^32 behind the place of the last two units, and no other bit differs */
        begin.element = context.element - FAR;
        size_t other = i < N / 2 ? some : encode_at(near, &begin, x + i, UNIT, first);
        CHECK(i < N / 2 || run->at->draws == (other != some || memcmp(first, alone, some) != 0),
              "%s: unit %d, and the same 2^32 elements before", spec, (int)(i / UNIT));
        at += some;
    }
    CHECK(at == bytes && memcmp(y, sum, N * sizeof(float)) == 0, "%s: whole, and unit by unit",
          spec);
    unsigned sent[UNITS] = {0};
    for (int i = 0; i < N; i++) {
        sent[i / UNIT] += y[i] != 0;
        CHECK(y[i] == 0 || y[i] * x[i] > 0, "%s: %d: %g became %g", spec, i, (double)x[i],
              (double)y[i]);
    }
    for (int u = 0; u < UNITS; u++)
        CHECK(sent[u] > 5, "%s: %u of unit %d are sent", spec, sent[u], u);
    wring_test_free_guarded();
}

static void past_2_to_the_32(void)
{
    static float x[N];
    static float near_arrays[ARRAYS][N];
    uint32_t random = 5;

    for (int i = 0; i < N; i++)
        x[i] = wring_test_random_float(&random);
    for (size_t c = 0; c < CASES; c++) {
        char why[200] = "";
        struct run run = {.at = &cases_of_codecs[c]}, near;
        wring_codec_create(run.at->spec, NULL, NULL, why, sizeof(why), &run.codec);
        REQUIRE(run.codec != NULL, "%s: %s", run.at->spec, why);
        near = run;
        near.states[0] = near_arrays[0], near.states[1] = near_arrays[1];
        near.norms = near_arrays[2];
        for (unsigned s = 0; s < run.at->states; s++)
            run.states[s] = new_array(FAR);
        if (run.at->statistics > 0)
            run.norms = new_array(FAR / CHUNK);
        check_run(&run, &near, x);
        for (unsigned s = 0; s < run.at->states; s++)
            free_array(run.states[s], FAR);
        if (run.at->statistics > 0)
            free_array(run.norms, FAR / CHUNK);
        wring_codec_destroy(run.codec);
    }
}

static const struct wring_test_case cases[] = {
    {"past_2_to_the_32", past_2_to_the_32},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
