/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "base/clock.h"
#include "base/wait_set.h"

atomic_bool wring_clocks_given;
static _Thread_local struct wring_clock *thread_clock;

struct wring_clock *wring_clock_given(void)
{
    return thread_clock;
}

void wring_clock_give(struct wring_clock *clock)
{
    thread_clock = clock;
    if (clock != NULL)
        atomic_store_explicit(&wring_clocks_given, true, memory_order_relaxed);
}

void wring_wait_set_sleep(struct wring_wait_set *set)
{
    struct wring_clock *clock = wring_clock_here();
    if (clock != NULL) {
        clock->sleep(clock, set);
        return;
    }
    uint64_t now = wring_now_ns();
    if (set->busy || set->deadline_ns <= now)
        return;
    uint64_t ns = set->deadline_ns - now;
    struct timespec timeout = {(time_t)(ns / WRING_NS_PER_S), (long)(ns % WRING_NS_PER_S)};
    ppoll(set->fds, set->n, set->deadline_ns == WRING_NEVER ? NULL : &timeout, NULL);
}
