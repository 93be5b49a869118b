/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writing under a limit on file sizes (ulimit -f): the kernel sends SIGXFSZ, which kills, before it
 * lets the call fail with EFBIG. What becomes of signals is the application's to say, so ours is
 * held back in the thread that writes, and taken from it.
 */
#ifndef WRING_BASE_FILE_LIMIT_H
#define WRING_BASE_FILE_LIMIT_H

#include <signal.h>
#include <stdbool.h>

struct wring_file_limit {
    sigset_t before; /* the thread's mask */
    bool pending;    /* there was one before, which is not ours */
};

/** From here on what is too large fails with EFBIG in this thread. Pairs may be nested. */
void wring_file_limit_hold(struct wring_file_limit *held);

/** As it was before, in the same thread. errno stays. */
void wring_file_limit_release(const struct wring_file_limit *held);

#endif
