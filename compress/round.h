/* SPDX-License-Identifier: Apache-2.0 */
/** Rounds of codecs, as jobs. */
#ifndef WRING_COMPRESS_ROUND_H
#define WRING_COMPRESS_ROUND_H

#include <wring/executor.h>

/** Run a job that begins or ends a round. @param scratch  what a codec works in */
enum wring_status wring_round_run(const struct wring_job *job, void *scratch);

/** The statistics of a job that begins one, at first. */
void wring_round_fill(const struct wring_job *job);

/** Fold the job's elements, of float32, into its statistics. */
void wring_round_fold(const struct wring_job *job, void *scratch);

#endif
