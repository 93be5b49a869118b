/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "base/clock.h"
#include "base/wait_set.h"

void wring_wait_set_sleep(struct wring_wait_set *set)
{
    uint64_t now = wring_now_ns();
    if (set->busy || set->deadline_ns <= now)
        return;
    uint64_t ns = set->deadline_ns - now;
    struct timespec timeout = {(time_t)(ns / WRING_NS_PER_S), (long)(ns % WRING_NS_PER_S)};
    ppoll(set->fds, set->n, set->deadline_ns == WRING_NEVER ? NULL : &timeout, NULL);
}
