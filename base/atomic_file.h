/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writing under a limit on file sizes (ulimit -f): the kernel sends SIGXFSZ, which kills, before it
 * lets the call fail with EFBIG. Signals are the application's to handle, so the writing thread
 * blocks this one and discards it.
 */
#ifndef WRING_BASE_ATOMIC_FILE_H
#define WRING_BASE_ATOMIC_FILE_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct wring_file_limit {
    sigset_t before; /* the thread's mask */
    bool pending;    /* there was one before, which is not ours */
};

/** From here on a write past the limit fails with EFBIG in this thread. Pairs may be nested. */
void wring_file_limit_hold(struct wring_file_limit *held);

/** As it was before, in the same thread. errno stays. */
void wring_file_limit_release(const struct wring_file_limit *held);

/* Files that are replaced whole or not at all: others may read them meanwhile. */

struct wring_atomic_file {
    FILE *file; /* to write to */
    char *path; /* beside the one that it will replace */
    struct wring_file_limit held;
};

/** Begin one. The same thread closes it; until then a write past the limit fails there.
 *  @param mode  the file's. @return false: errno says why, and nothing is left */
bool wring_atomic_file_open(struct wring_atomic_file *draft, const char *path, mode_t mode);

/** Put it in the place of `path`, or remove it. @param well  all was written. @return false: it was
 *  removed, and where `well` was true errno says why */
bool wring_atomic_file_close(struct wring_atomic_file *draft, const char *path, bool well);

#endif
