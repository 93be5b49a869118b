/* SPDX-License-Identifier: Apache-2.0 */
/** A codec's rounds, as jobs do them. wring_job_run() of <wring/executor.h> does all kinds. */
#ifndef WRING_COMPRESS_JOB_H
#define WRING_COMPRESS_JOB_H

#include <wring/executor.h>

/** The statistics of a job that begins one, at first. */
void wring_round_fill(const struct wring_job *job);

/** Fold the job's elements, of float32, into its statistics. */
void wring_round_fold(const struct wring_job *job, void *scratch);

#endif
