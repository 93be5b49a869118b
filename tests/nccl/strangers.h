/* SPDX-License-Identifier: Apache-2.0 */
/** Who is not of the job comes to where a rank listens: says nothing, nonsense, half of what a rank
 *  says first, or all of it without the key; and stays, or goes at once. */
#ifndef WRING_TESTS_NCCL_STRANGERS_H
#define WRING_TESTS_NCCL_STRANGERS_H

#include <netinet/in.h>
#include <pthread.h>

#include "tests/nccl/world.h"
#include <wring/status.h>

#define DOORS 16
#define STRANGERS 12

/** Where a rank listens; it may lie on its board. */
struct doors {
    unsigned n;
    struct sockaddr_in at[DOORS];
};

/** Where this process listens now. */
void doors_find(struct doors *doors);

struct strangers {
    int fds[STRANGERS]; /* -1: it has gone */
    pthread_t keyless;  /* one that goes through the whole handshake, */
    int keyless_fd;     /* on this socket */
    enum wring_status refused;
};

/** They come, before those do that are waited for. */
void strangers_come(struct strangers *strangers, const struct doors *doors);

/** The rest of them goes; none may have been taken for a rank. */
void strangers_leave(struct strangers *strangers);

#endif
