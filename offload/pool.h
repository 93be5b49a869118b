/* SPDX-License-Identifier: Apache-2.0 */
/** An executor of threads, each pinned to a core of its own. */
#ifndef WRING_OFFLOAD_POOL_H
#define WRING_OFFLOAD_POOL_H

#include "base/log.h"
#include <wring/executor.h>

#define WRING_POOL_THREADS_MAX 256

struct wring_pool_params {
    /**
     * How many cores, or which: "2", "cores=0,2-3" (the system's numbers). NULL or "": one core.
     * A count takes cores that this process may use, last ones first and the caller's own last of
     * all, so that the application keeps the core it runs on while there is a choice.
     */
    const char *cores;
    const struct wring_log *log; /* borrowed for the call; NULL: silent */
};

/**
 * Start the threads. The calling thread counts as the application's.
 *
 * Errors: WRING_ERR_INVALID (malformed list, or a core that this process may not use),
 * WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM (a thread or descriptor was refused).
 */
enum wring_status wring_executor_pool_create(const struct wring_pool_params *params,
                                             struct wring_executor **out);

#endif
