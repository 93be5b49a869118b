/* SPDX-License-Identifier: Apache-2.0 */
/* Every codec's two ways, by bytes of float32; sums without a codec too. */
#include "tests/counts/counts.h"

#include <stdlib.h>
#include <string.h>

#include "compress/solo.h"
#include <wring/codec.h>
#include <wring/executor.h>

#define ELEMS 65536 /* a piece of 256 KiB, as they travel */
#define BYTES (ELEMS * sizeof(float))

/** One codec and what it works on. */
struct subject {
    const struct wring_codec *codec;
    float *src, *residual, *sum; /* [ELEMS]; residual NULL: no error feedback */
    void *code;
    size_t code_bytes;
    struct wring_codec_context context;
    struct wring_solo solo;
};

/** On pages of their own, so that the same instructions run each time. */
static void *pages(size_t bytes)
{
    return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}

static void encode(void *arg)
{
    struct subject *subject = arg;
    subject->code_bytes = wring_codec_encode(subject->codec, &subject->context, subject->src, ELEMS,
                                             subject->residual, subject->code);
}

static void decode_and_add(void *arg)
{
    struct subject *subject = arg;
    enum wring_status status = wring_codec_decode(subject->codec, &subject->context, subject->code,
                                                  subject->code_bytes, subject->sum, ELEMS, true);
    CHECK(status == WRING_OK, "decode: %s", wring_status_text(status));
}

static void count(struct subject *subject, const char *what, void (*work)(void *))
{
    const struct wring_codec_info *info = wring_codec_info(subject->codec);
    char name[WRING_CODEC_SPEC_MAX + 64];
    counted(work, subject);
    snprintf(name, sizeof(name), "%s %s, %s", what, info->spec, info->tier);
    counts_say(BYTES, "byte", name);
}

/** Fresh numbers, bell-shaped as gradients are. */
static void fill(float *values, uint32_t seed)
{
    for (size_t i = 0; i < ELEMS; i++) {
        values[i] = 0;
        for (int j = 0; j < 4; j++)
            values[i] += wring_test_random_float(&seed);
    }
}

static void count_spec(const char *spec, const char *tier)
{
    struct wring_codec *codec;
    char why[256];
    enum wring_status status = wring_codec_create(spec, tier, NULL, why, sizeof(why), &codec);
    if (status == WRING_ERR_INVALID && strstr(spec, "+ef") != NULL)
        return; /* a codec without error feedback */
    REQUIRE(status == WRING_OK, "%s: %s", spec, why);
    bool feeds = wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK;
    struct subject subject = {
        .codec = codec,
        .src = pages(BYTES),
        .residual = feeds ? pages(BYTES) : NULL,
        .sum = pages(BYTES),
        .code = pages(wring_codec_bound(codec, ELEMS)),
        .context = {.ranks = 2, .elems = ELEMS},
    };
    REQUIRE(wring_solo_init(&subject.solo, codec, &subject.context) == WRING_OK, "memory");
    fill(subject.src, 1);
    fill(subject.sum, 2);
    if (feeds)
        fill(subject.residual, 3);
    wring_solo_rounds(&subject.solo, &subject.context, subject.src, subject.residual);
    count(&subject, "encode", encode);
    if (!feeds) /* it decodes as it does without */
        count(&subject, "decode and add", decode_and_add);
    free(subject.src);
    free(subject.residual);
    free(subject.sum);
    free(subject.code);
    wring_solo_finish(&subject.solo);
    wring_codec_destroy(codec);
}

static void run_job(void *arg)
{
    struct wring_job *job = arg;
    wring_job_run(job, (void *)job->cookie);
}

/** What a reduction without a codec takes: two contributions, as two ranks have them. */
static void count_sum(const char *tier)
{
    float *values[2] = {pages(BYTES), pages(BYTES)};
    struct wring_source sources[2] = {{values[0], BYTES, NULL, {0}}, {values[1], BYTES, NULL, {0}}};
    struct wring_job job = {
        .kind = WRING_JOB_REDUCE,
        .dtype = WRING_F32,
        .op = WRING_SUM,
        .elems = ELEMS,
        .tier = tier,
        .context = {.ranks = 2},
        .sources = sources,
        .n_sources = 2,
        .divisor = 1,
        .dst = values[0],
        .cookie = pages(wring_job_scratch_bytes(ELEMS)),
    };
    char name[64];
    fill(values[0], 1);
    fill(values[1], 2);
    counted(run_job, &job);
    CHECK(job.result.status == WRING_OK, "reduce: %s", wring_status_text(job.result.status));
    snprintf(name, sizeof(name), "sum of two, %s", tier);
    counts_say(BYTES, "byte", name);
    free(job.cookie);
    free(values[0]);
    free(values[1]);
}

void counts_codecs(const char *tier)
{
    for (const struct wring_codec_ops *const *at = wring_codec_list(); *at != NULL; at++) {
        char spec[WRING_CODEC_SPEC_MAX];
        if ((*at)->flags & WRING_CODEC_RAW)
            continue; /* nothing to run */
        count_spec((*at)->name, tier);
        if ((*at)->flags & WRING_CODEC_EXACT)
            continue; /* no error to feed back */
        snprintf(spec, sizeof(spec), "%s+ef", (*at)->name);
        count_spec(spec, tier);
    }
    count_sum(tier);
}
