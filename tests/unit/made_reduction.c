/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/made_reduction.h"

#include <stdlib.h>

#include "tests/lib/sealed.h"
#include "tests/lib/test.h"

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    char why[200] = "";
    if (spec != NULL &&
        wring_codec_create(spec, NULL, wring_test_sealed, why, sizeof(why), &codec) != WRING_OK)
        CHECK(false, "%s: %s", spec, why);
    return codec;
}

void made_reduction_run(struct wring_job *job)
{
    void *scratch = aligned_alloc(64, wring_job_scratch_bytes(wring_job_scratch_elems(job)));
    wring_job_run(job, scratch);
    free(scratch);
}

struct made_reduction *made_reduction_set_up(const char *const specs[SOURCES], const char *spec_out)
{
    struct made_reduction *r = calloc(1, sizeof(*r));
    uint32_t random = 41;

    for (int s = 0; s < SOURCES; s++) {
        for (int i = 0; i < N; i++)
            r->raw[s][i] = wring_test_random_float(&random);
        r->sources[s] = (struct wring_source){r->raw[s], sizeof(r->raw[s]), NULL, {0}};
        if (specs[s] == NULL)
            continue;
        struct wring_codec *codec = r->codecs[s] = make(specs[s]);
        void *code = r->codes[s] = malloc(wring_codec_bound(codec, N));
        struct wring_job encode = {.kind = WRING_JOB_ENCODE,
                                   .elems = N,
                                   .src = r->raw[s],
                                   .codec_out = codec,
                                   .code = code};
        made_reduction_run(&encode);
        CHECK(encode.result.status == WRING_OK, "encode: %s",
              wring_status_text(encode.result.status));
        r->sources[s] = (struct wring_source){code, encode.result.code_bytes, codec, {0}};
    }
    r->job = (struct wring_job){.kind = WRING_JOB_REDUCE,
                                .elems = N,
                                .sources = r->sources,
                                .n_sources = SOURCES,
                                .divisor = 1,
                                .dst = r->dst,
                                .codec_out = make(spec_out),
                                .code = r->code};
    return r;
}

void made_reduction_tear_down(struct made_reduction *r)
{
    for (int s = 0; s < SOURCES; s++) {
        wring_codec_destroy(r->codecs[s]);
        free(r->codes[s]);
    }
    wring_codec_destroy((struct wring_codec *)r->job.codec_out);
    free(r);
}

void made_reduction_expect(const struct made_reduction *r, float *want)
{
    static float decoded[N];
    for (uint32_t s = 0; s < r->job.n_sources; s++) {
        struct wring_job decode = {.kind = WRING_JOB_DECODE,
                                   .elems = N,
                                   .dst = decoded,
                                   .sources = &r->sources[s],
                                   .n_sources = 1};
        made_reduction_run(&decode);
        for (int i = 0; i < N; i++)
            want[i] = s == 0 ? decoded[i] : want[i] + decoded[i];
    }
    for (int i = 0; i < N; i++)
        want[i] = want[i] / r->job.divisor;
}
