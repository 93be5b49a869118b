/* SPDX-License-Identifier: Apache-2.0 */
/** Descriptors and a deadline that end a thread's sleep: providers and executors add to them. */
#ifndef WRING_WAIT_SET_H
#define WRING_WAIT_SET_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define WRING_WAIT_SET_MAX 16 /* descriptors */

struct wring_wait_set {
    struct pollfd fds[WRING_WAIT_SET_MAX];
    unsigned n;           /* entries taken; several objects add theirs, one after the other */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC: wake at the latest then; UINT64_MAX: no deadline */
    bool busy;            /* do not sleep: there is something to poll, or sleep is not possible */
};

#endif
