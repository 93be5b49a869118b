/* SPDX-License-Identifier: Apache-2.0 */
/** Time. All deadlines in the library are absolute values of wring_now_ns(). A simulation gives its
 *  thread another clock; all others have the system's. */
#ifndef WRING_BASE_CLOCK_H
#define WRING_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define WRING_NS_PER_US 1000ull
#define WRING_NS_PER_MS 1000000ull
#define WRING_NS_PER_S 1000000000ull
#define WRING_NEVER UINT64_MAX /* a deadline that does not come */

static inline uint64_t wring_clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * WRING_NS_PER_S + (uint64_t)t.tv_nsec;
}

struct wring_wait_set;

/** A clock that stands still while its thread runs, and goes on while the thread sleeps. */
struct wring_clock {
    uint64_t now_ns;
    /** Sleep until a descriptor of the set is ready or its deadline has come. */
    void (*sleep)(struct wring_clock *clock, const struct wring_wait_set *set);
};

/** Has any thread of this process ever had a clock of its own? Most have none: they need not look
 *  into thread-local memory, which takes a call in a shared library. */
extern atomic_bool wring_clocks_given;

struct wring_clock *wring_clock_given(void);

/** Give this thread another clock, borrowed; NULL: the system's. */
void wring_clock_give(struct wring_clock *clock);

/** This thread's; NULL: the system's. */
static inline struct wring_clock *wring_clock_here(void)
{
    return atomic_load_explicit(&wring_clocks_given, memory_order_relaxed) ? wring_clock_given()
                                                                           : NULL;
}

/** Monotonic time in ns; does not jump. Threads: safe. */
static inline uint64_t wring_now_ns(void)
{
    const struct wring_clock *clock = wring_clock_here();
    return clock == NULL ? wring_clock_ns(CLOCK_MONOTONIC) : clock->now_ns;
}

/** CPU time that the calling thread has used, in ns. */
static inline uint64_t wring_thread_cpu_ns(void)
{
    return wring_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/** Sleep until then, or till a signal. A time that is over takes a turn of the core all the same.
 */
static inline void wring_sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / WRING_NS_PER_S),
                          .tv_nsec = (long)(at_ns % WRING_NS_PER_S)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/** now + ns, WRING_NEVER where that would overflow. */
static inline uint64_t wring_deadline_in(uint64_t ns)
{
    if (ns == WRING_NEVER) /* to know the time costs as much as a small message */
        return WRING_NEVER;
    uint64_t now = wring_now_ns();
    return ns >= WRING_NEVER - now ? WRING_NEVER : now + ns;
}

#endif
