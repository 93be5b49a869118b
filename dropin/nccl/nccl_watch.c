/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The plugin's one thread: it opens links, and drives those that no caller drives. It sleeps on the
 * descriptors of all of them.
 */
#include "dropin/nccl/nccl_own.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"

#define BREATH_NS (50 * WRING_NS_PER_US) /* for others to get the mutex */
#define STOP_NS (5 * WRING_NS_PER_MS)    /* between looks whether it is to stop */
#define LOOK_NS (1 * WRING_NS_PER_S)     /* at the latest */

static struct {
    pthread_t thread;
    bool runs; /* under the mutex */
    atomic_bool stops;
    atomic_int wake; /* an eventfd; -1: there is no thread */
} watcher = {.wake = -1};

void wring_nccl_watch_wake(void)
{
    uint64_t one = 1;
    int fd = atomic_load(&watcher.wake);
    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        return; /* it is awake as it is */
}

unsigned wring_nccl_watch_add(struct wring_nccl_watch *watch, int fd, short events)
{
    if (watch->n == watch->room) {
        unsigned room = 2 * watch->room + 16;
        struct pollfd *fds = realloc(watch->fds, room * sizeof(*fds));
        if (fds == NULL) {
            watch->moves = true;
            return UINT_MAX;
        }
        watch->fds = fds;
        watch->room = room;
    }
    watch->fds[watch->n] = (struct pollfd){fd, events, 0};
    return watch->n++;
}

void wring_nccl_watch_until(struct wring_nccl_watch *watch, uint64_t deadline_ns)
{
    if (deadline_ns < watch->deadline_ns)
        watch->deadline_ns = deadline_ns;
}

static void pause_thread(void)
{
    nanosleep(&(struct timespec){0, BREATH_NS}, NULL);
}

/** Whoever stops this thread holds the mutex meanwhile. @return false: it is to stop */
static bool lock_unless_stopped(void)
{
    while (!atomic_load(&watcher.stops)) {
        uint64_t at = wring_clock_ns(CLOCK_REALTIME) + STOP_NS;
        const struct timespec until = {(time_t)(at / WRING_NS_PER_S), (long)(at % WRING_NS_PER_S)};
        if (pthread_mutex_timedlock(&wring_nccl_own.mutex, &until) == 0)
            return true;
    }
    return false;
}

static void sleep_on_watch(struct wring_nccl_watch *watch)
{
    uint64_t now = wring_now_ns(), count;
    uint64_t left = watch->deadline_ns > now ? watch->deadline_ns - now : 0;
    struct timespec until = {(time_t)(left / WRING_NS_PER_S), (long)(left % WRING_NS_PER_S)};

    if (watch->moves) {
        pause_thread();
        until = (struct timespec){0, 0};
    }
    if (ppoll(watch->fds, watch->n, &until, NULL) > 0 && watch->fds[0].revents != 0 &&
        read(watch->fds[0].fd, &count, sizeof(count)) < 0)
        return; /* somebody else's signal */
}

static void *thread_main(void *arg)
{
    struct wring_nccl_watch watch = {0};

    (void)arg;
    while (lock_unless_stopped()) {
        watch.deadline_ns = wring_deadline_in(LOOK_NS);
        watch.moves = false;
        wring_nccl_own.look(&watch, atomic_load(&watcher.wake));
        pthread_mutex_unlock(&wring_nccl_own.mutex);
        sleep_on_watch(&watch);
    }
    free(watch.fds);
    return NULL;
}

bool wring_nccl_watch_start(void)
{
    if (watcher.runs)
        return true;
    int wake = WRING_DESCRIPTOR(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (wake < 0) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: no thread for links: %s",
                       WRING_REFUSED("eventfd"));
        return false;
    }
    atomic_store(&watcher.wake, wake);
    atomic_store(&watcher.stops, false);
    int error = wring_thread_create(&watcher.thread, thread_main, NULL);
    if (error == 0) {
        watcher.runs = true;
        return true;
    }
    wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: no thread for links: %s", strerror(error));
    wring_descriptor_close(atomic_exchange(&watcher.wake, -1));
    return false;
}

void wring_nccl_watch_stop(void)
{
    if (!watcher.runs)
        return;
    atomic_store(&watcher.stops, true);
    wring_nccl_watch_wake();
    pthread_join(watcher.thread, NULL);
    wring_descriptor_close(atomic_exchange(&watcher.wake, -1));
    watcher.runs = false;
}
