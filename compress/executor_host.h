/* SPDX-License-Identifier: Apache-2.0 */
/** The common part of executors that work on memory of this process alone. */
#ifndef WRING_COMPRESS_EXECUTOR_HOST_H
#define WRING_COMPRESS_EXECUTOR_HOST_H

#include <wring/executor.h>

#define WRING_SCRATCH_ALIGN 64

/** Is all that a job works on memory that this process reads and writes? */
bool wring_job_on_host(const struct wring_job *job);

/** End a job without running it. */
void wring_job_refuse(struct wring_job *job, enum wring_status status);

/**
 * Run a job as an executor does that has scratch for max_elems elements. One that is longer ends
 * with WRING_ERR_INVALID, one whose memory lies elsewhere with WRING_ERR_UNSUPPORTED.
 */
void wring_host_run(struct wring_job *job, void *scratch, uint64_t max_elems);

/** As in struct wring_executor_ops: all memory is HOST or SHARED, and any thread may call. */
enum wring_status wring_host_allocate(struct wring_executor *executor,
                                      struct wring_memory_place place, size_t bytes, void **out);
void wring_host_release(struct wring_executor *executor, struct wring_memory_place place,
                        void *memory);
enum wring_status wring_host_copy(struct wring_executor *executor, void *dst,
                                  struct wring_memory_place to, const void *src,
                                  struct wring_memory_place from, size_t bytes);

#endif
