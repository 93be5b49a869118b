/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a rank of a job will take and send, before the job runs: from the structs, constants and
 * functions by which it does. For `wring info --scale`.
 */
#ifndef WRING_RUNTIME_SCALE_H
#define WRING_RUNTIME_SCALE_H

#include "base/config.h"
#include "base/log.h"

/** Bytes of memory that is a rank's own, at most. */
struct wring_scale_memory {
    uint64_t table;       /* what all ranks say of themselves */
    uint64_t state;       /* what is kept for each rank, whether or not anything is sent to it */
    uint64_t connections; /* sockets' buffers of the kernel not counted */
    uint64_t slots;       /* for pieces of calls on the way */
    uint64_t fixed;       /* whatever the number of ranks */
};

struct wring_scale_rank {
    uint64_t connections, descriptors, messages;
    struct wring_scale_memory memory;
};

#define WRING_SCALE_NAME 32

struct wring_scale {
    char provider[WRING_SCALE_NAME]; /* that leads to the other ranks */
    const char *algorithm;           /* of the sum */
    uint32_t most_rank;              /* the rank that takes most descriptors */
    struct wring_scale_rank root, most;
    uint64_t table_bytes_per_rank;
};

struct wring_scale_job {
    uint32_t ranks;       /* 2 or more */
    const char *provider; /* one, or "auto" */
    uint64_t bytes;       /* of the sums of float32 that it makes by wring_allreduce() */
};

uint64_t wring_scale_bytes(const struct wring_scale_memory *memory);

/**
 * Of a job whose ranks are all on hosts like this one. Opens the provider's devices for a moment.
 * Errors, logged: those of wring_fabric_create().
 */
enum wring_status wring_scale_predict(const struct wring_config *config,
                                      const struct wring_log *log,
                                      const struct wring_scale_job *job, struct wring_scale *out);

#endif
