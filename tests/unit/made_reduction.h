/* SPDX-License-Identifier: Apache-2.0 */
/** A reduction of raw data and codes, as a job, and what it should give. */
#ifndef WRING_TESTS_MADE_REDUCTION_H
#define WRING_TESTS_MADE_REDUCTION_H

#include <wring/executor.h>

#define N 9001 /* more than two of the tiles that a job works in */
#define SOURCES 4

/** One reduction with all it points to. */
struct made_reduction {
    float raw[SOURCES][N];
    struct wring_codec *codecs[SOURCES]; /* NULL: raw */
    void *codes[SOURCES];
    struct wring_source sources[SOURCES];
    float dst[N], residual[N];
    unsigned char code[N * sizeof(float) + 1024];
    struct wring_job job;
};

/** With scratch of its own. */
void made_reduction_run(struct wring_job *job);

/** Fill sources with codes of the given specs (NULL: raw; "sealed" is one, too). */
struct made_reduction *made_reduction_set_up(const char *const specs[SOURCES],
                                             const char *spec_out);

void made_reduction_tear_down(struct made_reduction *r);

/** The same sum by the plainest means: decode all, then add in order. */
void made_reduction_expect(const struct made_reduction *r, float *want);

#endif
