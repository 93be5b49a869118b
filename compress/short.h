/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Jobs of codecs on elements of 16 bits. Codecs see float32: the source is widened run by run,
 * while it is in the nearest cache, and what is decoded is rounded once, to nearest even.
 * Reductions, which add in float32, are in job.c.
 */
#ifndef WRING_COMPRESS_SHORT_H
#define WRING_COMPRESS_SHORT_H

#include <stdbool.h>

#include <wring/executor.h>

/** Is this a job that has to be cut into ones of float32? */
bool wring_short_takes(const struct wring_job *job);

/** Elements that are widened at a time: whole units. */
uint64_t wring_short_tile(const struct wring_job *job);

/** Run one. @param scratch  as for wring_job_run() @param run  what runs the float32 jobs */
enum wring_status wring_short_run(struct wring_job *job, void *scratch,
                                  enum wring_status (*run)(struct wring_job *job, void *scratch));

#endif
