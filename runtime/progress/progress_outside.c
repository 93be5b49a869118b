/* SPDX-License-Identifier: Apache-2.0 */
/* An event loop of the application's watches a descriptor, and drives when that is readable. */
#include "runtime/progress/progress_state.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/descriptor.h"
#include "base/refusal.h"

#define WRING_MODULE "progress"
#define ROUNDS_MAX 256 /* of polling in one call: an event loop has other things to do, too */

static enum wring_status refuse(const struct wring_progress *progress, const char *call)
{
    wring_error(progress->engine->log, "no descriptor for an event loop: %s", WRING_REFUSED(call));
    return WRING_ERR_SYSTEM;
}

/** That ends are told by. */
static enum wring_status make_bell(struct wring_progress *progress)
{
    if (atomic_load(&progress->completions->bell) >= 0)
        return WRING_OK;
    int fd = WRING_DESCRIPTOR(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (fd < 0)
        return refuse(progress, "eventfd");
    atomic_store(&progress->completions->bell, fd);
    return WRING_OK;
}

/** Without a thread of ours the loop sees to the providers, too: a set of their descriptors. */
static enum wring_status make_set(struct wring_progress *progress)
{
    struct epoll_event bell = {.events = EPOLLIN};

    if (progress->threaded || atomic_load(&progress->outside_fd) >= 0)
        return WRING_OK;
    int fd = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (fd < 0)
        return refuse(progress, "epoll_create1");
    if (epoll_ctl(fd, EPOLL_CTL_ADD, atomic_load(&progress->completions->bell), &bell) != 0) {
        enum wring_status status = refuse(progress, "epoll_ctl");
        wring_descriptor_close(fd);
        return status;
    }
    atomic_store(&progress->outside_fd, fd);
    wring_completions_loop(progress->completions);
    wring_completions_ring(progress->completions); /* nothing is armed yet */
    return WRING_OK;
}

enum wring_status wring_progress_watch(struct wring_progress *progress, int *fd)
{
    enum wring_status status = make_bell(progress);
    if (status == WRING_OK)
        status = make_set(progress);
    if (status == WRING_OK)
        *fd = progress->threaded ? atomic_load(&progress->completions->bell)
                                 : atomic_load(&progress->outside_fd);
    return status;
}

static bool is_watched(const struct wring_wait_set *set, int fd)
{
    unsigned i = 0;
    while (i < set->n && set->fds[i].fd != fd)
        i++;
    return i < set->n;
}

/** A descriptor that was closed has left the set by itself, and its number may be another's now. */
static bool watch(int set, const struct pollfd *one)
{
    struct epoll_event event = {.events = (uint32_t)one->events};
    return epoll_ctl(set, EPOLL_CTL_MOD, one->fd, &event) == 0 ||
           (errno == ENOENT && epoll_ctl(set, EPOLL_CTL_ADD, one->fd, &event) == 0);
}

/** @return false: the system does not let us watch all of them */
static bool watch_all(struct wring_progress *progress, const struct wring_wait_set *now)
{
    int fd = atomic_load(&progress->outside_fd);
    bool all = true;

    for (unsigned i = 0; i < progress->outside.n; i++)
        if (!is_watched(now, progress->outside.fds[i].fd))
            epoll_ctl(fd, EPOLL_CTL_DEL, progress->outside.fds[i].fd, NULL); /* or it is closed */
    for (unsigned i = 0; i < now->n; i++)
        all &= watch(fd, &now->fds[i]);
    progress->outside = *now;
    return all;
}

/** Nothing moves: what would change that is watched from now on. Under the driver lock. */
static void arm(struct wring_progress *progress)
{
    struct wring_wait_set set = {.deadline_ns = WRING_NEVER};

    wring_engine_arm(progress->engine, &set);
    bool all = watch_all(progress, &set);
    bool moved = wring_engine_poll(progress->engine);
    atomic_store(&progress->outside_ns, set.deadline_ns);
    if (!all || set.busy || moved || wring_engine_has_posted(progress->engine))
        wring_completions_ring(progress->completions);
}

void wring_progress_serve(struct wring_progress *progress)
{
    wring_completions_hush(progress->completions);
    if (atomic_load(&progress->outside_fd) >= 0 && !wring_is_stopped(progress) &&
        pthread_mutex_trylock(&progress->driver) == 0) { /* else its holder rings as it lets go */
        unsigned rounds = 0;
        while (rounds++ < ROUNDS_MAX && wring_engine_poll(progress->engine)) {
        }
        arm(progress);
        pthread_mutex_unlock(&progress->driver);
        wring_wake_onlookers(progress);
    }
    if (wring_completions_wait(progress->completions))
        wring_completions_deliver(progress->completions);
}

uint64_t wring_progress_next_ns(struct wring_progress *progress)
{
    if (atomic_load(&progress->outside_fd) < 0)
        return WRING_NEVER;
    uint64_t at_ns = atomic_load(&progress->outside_ns), now_ns = wring_now_ns();
    if (at_ns == WRING_NEVER)
        return WRING_NEVER;
    return at_ns > now_ns ? at_ns - now_ns : 0;
}
