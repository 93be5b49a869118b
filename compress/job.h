/* SPDX-License-Identifier: Apache-2.0 */
/** The loss of an encoding, for a job that was asked to say so. */
#ifndef WRING_COMPRESS_JOB_H
#define WRING_COMPRESS_JOB_H

#include <stdbool.h>

#include <wring/executor.h>

/** A run of elements that has been encoded. */
struct wring_encoded {
    const float *input;    /* what was encoded, without a residual; unused where there is one */
    const float *decoded;  /* what the code decodes to */
    const float *residual; /* what the code lacks; NULL: input - decoded */
    uint64_t elems;
};

/* Rounds of codecs, as jobs. */

/** The statistics of a job that begins one, at first. */
void wring_round_fill(const struct wring_job *job);

/** Fold the job's elements, of float32, into its statistics. */
void wring_round_fold(const struct wring_job *job, void *scratch);

#endif
