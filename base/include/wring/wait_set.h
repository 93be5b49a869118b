/* SPDX-License-Identifier: Apache-2.0 */
/** What a thread that wants to sleep waits for: providers and executors add to it. */
#ifndef WRING_WAIT_SET_H
#define WRING_WAIT_SET_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define WRING_WAIT_SET_MAX 16 /* descriptors */

struct wring_wait_set {
    struct pollfd fds[WRING_WAIT_SET_MAX];
    unsigned n;           /* of those that are taken: others come before whoever arms, and after */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC: wake then even so; UINT64_MAX: nothing is timed */
    bool busy;            /* do not sleep: there is something to poll, or sleep is not possible */
};

#endif
