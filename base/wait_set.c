/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "base/clock.h"
#include "base/wait_set.h"

_Thread_local struct wring_clock *wring_thread_clock;

void wring_wait_set_sleep(struct wring_wait_set *set)
{
    if (wring_thread_clock != NULL) {
        wring_thread_clock->sleep(wring_thread_clock, set);
        return;
    }
    uint64_t now = wring_now_ns();
    if (set->busy || set->deadline_ns <= now)
        return;
    uint64_t ns = set->deadline_ns - now;
    struct timespec timeout = {(time_t)(ns / WRING_NS_PER_S), (long)(ns % WRING_NS_PER_S)};
    ppoll(set->fds, set->n, set->deadline_ns == WRING_NEVER ? NULL : &timeout, NULL);
}
