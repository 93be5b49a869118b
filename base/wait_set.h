/* SPDX-License-Identifier: Apache-2.0 */
/** Sleeping on a wait set. */
#ifndef WRING_BASE_WAIT_SET_H
#define WRING_BASE_WAIT_SET_H

#include <wring/wait_set.h>

/** Watch a descriptor until it is readable; without room for it nobody sleeps. */
static inline void wring_wait_set_watch(struct wring_wait_set *set, int fd)
{
    if (set->n < WRING_WAIT_SET_MAX)
        set->fds[set->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    else
        set->busy = true;
}

/** Sleep until a descriptor of the set is ready or its deadline has come; not if it is busy. */
void wring_wait_set_sleep(struct wring_wait_set *set);

#endif
