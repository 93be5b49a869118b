/* SPDX-License-Identifier: Apache-2.0 */
/** wring_job_run(): sums of more contributions than are folded from the left, codes among them. */
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/lib/elements.h"
#include "tests/lib/test.h"
#include <wring/executor.h>

#define N 9001 /* more than two of the tiles that a job works in */
#define MANY 33

struct contribution {
    float raw[N], decoded[N];
    struct wring_codec *codec; /* NULL: raw */
    void *code;
};

static struct contribution all[MANY];
static struct wring_source sources[MANY];

static void contribute(uint32_t index, const char *spec, uint32_t *random)
{
    struct contribution *c = &all[index];

    for (int i = 0; i < N; i++)
        c->raw[i] = wring_test_random_float(random);
    memcpy(c->decoded, c->raw, sizeof(c->raw));
    c->codec = NULL;
    c->code = NULL;
    sources[index] = (struct wring_source){.data = c->raw, .bytes = sizeof(c->raw)};
    if (spec == NULL)
        return;
    struct wring_codec_context context = {0};
    REQUIRE(wring_codec_create(spec, NULL, NULL, NULL, 0, &c->codec) == WRING_OK, "%s", spec);
    c->code = malloc(wring_codec_bound(c->codec, N));
    size_t bytes = wring_codec_encode(c->codec, &context, c->raw, N, NULL, c->code);
    CHECK(wring_codec_decode(c->codec, &context, c->code, bytes, c->decoded, N, false) == WRING_OK,
          "%s", spec);
    sources[index] = (struct wring_source){.data = c->code, .bytes = bytes, .codec = c->codec};
}

/** By an executor that has reserved no more than it is to. */
static void run(struct wring_job *job, uint32_t n, bool coded)
{
    struct wring_executor *executor;
    struct wring_job *done = NULL;

    REQUIRE(wring_executor_inline_create(&executor) == WRING_OK, "executor");
    executor->ops->reserve(executor, wring_job_reserve_elems(job->elems, coded ? n : 1));
    executor->ops->submit(executor, &job, 1);
    CHECK(executor->ops->poll(executor, &done, 1) == 1 && done == job, "the job is not over");
    executor->ops->destroy(executor);
}

/** How many elements would have other bits if they were folded from the left. */
static uint32_t count_unlike_fold(uint32_t n, const float *sum)
{
    uint32_t unlike = 0;
    for (uint32_t i = 0; i < N; i++) {
        float fold = all[0].decoded[i];
        for (uint32_t s = 1; s < n; s++)
            fold += all[s].decoded[i];
        unlike += memcmp(&fold, &sum[i], sizeof(fold)) != 0;
    }
    return unlike;
}

static void check(const char *const specs[3], uint32_t n, float divisor)
{
    static float want[N], got[N];
    const float *decoded[MANY];
    uint32_t random = n, own = n / 2;
    bool coded = false;

    for (uint32_t s = 0; s < n; s++) {
        const char *spec = s == own ? NULL : specs[s % 3];
        contribute(s, spec, &random);
        decoded[s] = all[s].decoded;
        coded |= spec != NULL;
    }
    for (uint32_t i = 0; i < N; i++)
        want[i] = wring_test_sum(decoded, n, i);
    CHECK(count_unlike_fold(n, want) > N / 100, "%u sources tell no tree from a fold", n);
    for (uint32_t i = 0; i < N; i++)
        want[i] /= divisor;

    struct wring_job job = {.kind = WRING_JOB_REDUCE,
                            .elems = N,
                            .sources = sources,
                            .n_sources = n,
                            .divisor = divisor,
                            .dst = got};
    run(&job, n, coded);
    CHECK(job.result.status == WRING_OK && memcmp(got, want, sizeof(want)) == 0,
          "%u sources, %s: %s", n, specs[0] != NULL ? specs[0] : "raw",
          wring_status_text(job.result.status));
    job.dst = all[own].raw;
    run(&job, n, coded);
    CHECK(memcmp(all[own].raw, want, sizeof(want)) == 0, "%u sources, %s: over its own", n,
          specs[0] != NULL ? specs[0] : "raw");
    for (uint32_t s = 0; s < n; s++) {
        wring_codec_destroy(all[s].codec);
        free(all[s].code);
    }
}

static void sums(void)
{
    static const char *const mixes[][3] = {
        {NULL, NULL, NULL},
        {"bf16", "bf16", "bf16"},
        {"int8:block=64", "int8:block=64", "int8:block=64"},
        {"onebit", NULL, "onebit"},
        {"lossless", "none", NULL},
        {"topk:ratio=0.5", "topk:ratio=0.5", "topk:ratio=0.5"},
    };
    static const uint32_t counts[] = {9, 12, 16, 17, MANY};
    uint64_t mode = wring_fp_enter();
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            check(mixes[i], counts[c], c % 2 ? (float)counts[c] : 1);
    wring_fp_leave(mode);
}

static void too_little_was_reserved(void)
{
    static float got[N];
    uint32_t random = 9;
    struct wring_job job = {.kind = WRING_JOB_REDUCE,
                            .elems = N,
                            .sources = sources,
                            .n_sources = 9,
                            .divisor = 1,
                            .dst = got};

    for (uint32_t s = 0; s < 9; s++)
        contribute(s, "bf16", &random);
    run(&job, 9, false);
    CHECK(job.result.status == WRING_ERR_INVALID, "%s", wring_status_text(job.result.status));
    for (uint32_t s = 0; s < 9; s++) {
        wring_codec_destroy(all[s].codec);
        free(all[s].code);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sums", sums},
        {"too_little_was_reserved", too_little_was_reserved},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
