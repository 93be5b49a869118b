/* SPDX-License-Identifier: Apache-2.0 */
/** What an encoding lost, for a job that was asked to say so. */
#ifndef WRING_COMPRESS_JOB_LOSS_H
#define WRING_COMPRESS_JOB_LOSS_H

#include <wring/executor.h>

/** A run of elements that has been encoded. */
struct wring_encoded {
    const float *input;    /* what was encoded, without a residual; unused where there is one */
    const float *decoded;  /* what the code decodes to */
    const float *residual; /* what the code lacks; NULL: input - decoded */
    uint64_t elems;
};

/** Add to the job's lost and whole: the sums of squares of what the code lacks, and of all that was
 *  to be encoded, the residual included. */
void wring_job_loss_add(struct wring_job *job, const struct wring_encoded *run);

/** Decode an ENCODE job's code, and add. @param scratch  [job->elems] */
enum wring_status wring_job_loss_encode(struct wring_job *job, float *scratch);

#endif
