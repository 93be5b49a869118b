/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that wait, and make progress with the engine meanwhile. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "runtime/progress/state.h"

#define WRING_MODULE "progress"
#define POLLS_MAX 256 /* of polling in one call: an event loop has other things to do, too */

static enum wring_status refuse_event_loop(const struct wring_progress *progress, const char *call)
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
        return refuse_event_loop(progress, "eventfd");
    atomic_store(&progress->completions->bell, fd);
    return WRING_OK;
}

/** Without a thread of ours the loop sees to the providers, too: a set of their descriptors. */
static enum wring_status make_epoll_set(struct wring_progress *progress)
{
    struct epoll_event bell = {.events = EPOLLIN};

    if (progress->threaded || atomic_load(&progress->outside_fd) >= 0)
        return WRING_OK;
    int fd = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (fd < 0)
        return refuse_event_loop(progress, "epoll_create1");
    if (epoll_ctl(fd, EPOLL_CTL_ADD, atomic_load(&progress->completions->bell), &bell) != 0) {
        enum wring_status status = refuse_event_loop(progress, "epoll_ctl");
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
        status = make_epoll_set(progress);
    if (status == WRING_OK)
        *fd = progress->threaded ? atomic_load(&progress->completions->bell)
                                 : atomic_load(&progress->outside_fd);
    return status;
}

static bool has_descriptor(const struct wring_wait_set *set, int fd)
{
    unsigned i = 0;
    while (i < set->n && set->fds[i].fd != fd)
        i++;
    return i < set->n;
}

/** A descriptor that was closed has left the set by itself, and its number may be another's now. */
static bool watch_descriptor(int set, const struct pollfd *one)
{
    struct epoll_event event = {.events = (uint32_t)one->events};
    return epoll_ctl(set, EPOLL_CTL_MOD, one->fd, &event) == 0 ||
           (errno == ENOENT && epoll_ctl(set, EPOLL_CTL_ADD, one->fd, &event) == 0);
}

/** @return false: the system does not let us watch all of them */
static bool watch_whole_set(struct wring_progress *progress, const struct wring_wait_set *now)
{
    int fd = atomic_load(&progress->outside_fd);
    bool all = true;

    for (unsigned i = 0; i < progress->outside.n; i++)
        if (!has_descriptor(now, progress->outside.fds[i].fd))
            epoll_ctl(fd, EPOLL_CTL_DEL, progress->outside.fds[i].fd, NULL); /* or it is closed */
    for (unsigned i = 0; i < now->n; i++)
        all &= watch_descriptor(fd, &now->fds[i]);
    progress->outside = *now;
    return all;
}

/** Nothing moves: what would change that is watched from now on. Under the driver lock. */
static void arm_event_loop(struct wring_progress *progress)
{
    struct wring_wait_set set = {.deadline_ns = WRING_NEVER};

    wring_engine_arm(progress->engine, &set);
    bool all = watch_whole_set(progress, &set);
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
        unsigned polls = 0;
        while (polls++ < POLLS_MAX && wring_engine_poll(progress->engine)) {
        }
        arm_event_loop(progress);
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

/* ---- caller ---- */

#define METER_SHORT_NS (20 * WRING_NS_PER_US)
#define METER_SHARE 127 /* one of so many short waits counts; a prime, so all take turns */

/** A caller comes to wait: was that at once after the first post? */
static void note_wait(struct wring_progress *progress)
{
    if (atomic_load_explicit(&progress->prompt, memory_order_relaxed))
        return;
    uint64_t posted_ns = atomic_exchange_explicit(&progress->posted_ns, 0, memory_order_relaxed);
    if (posted_ns != 0 && wring_now_ns() - posted_ns < wring_wait_policy.prompt_ns)
        atomic_store_explicit(&progress->prompt, true, memory_order_relaxed);
}

/** Tell an event loop, and deliver completions, after a nudge. */
__attribute__((noinline)) static void ring_and_deliver(struct wring_progress *progress)
{
    wring_disturb_loop(progress);
    if (wring_completions_wait(progress->completions))
        wring_completions_deliver(progress->completions);
}

void wring_progress_nudge(struct wring_progress *progress)
{
    if (wring_is_stopped(progress) || pthread_mutex_trylock(&progress->driver) != 0)
        return;
    wring_engine_poll(progress->engine);
    bool idle = wring_engine_idle(progress->engine);
    pthread_mutex_unlock(&progress->driver);
    if (atomic_load_explicit(&progress->completions->heeded, memory_order_relaxed))
        ring_and_deliver(progress);
    if (!idle && atomic_load(&progress->own.asleep))
        wring_wake_thread(progress);
}

/** Somebody wants the engine still for a moment, and would wait for as long as we drive. */
static bool is_engine_claimed(struct wring_progress *progress)
{
    return atomic_load_explicit(&progress->lockers, memory_order_relaxed) > 0;
}

/** The thread is to stand back, even if it is asleep: what wakes it may be ours to take. */
static void begin_visits(struct wring_progress *progress)
{
    atomic_fetch_add(&progress->takers, 1); /* first: the thread takes one away once it is marked */
    if (atomic_exchange(&progress->visited, true))
        atomic_fetch_sub(&progress->takers, 1);
    else
        wring_wake_driver(progress);
}

/** @return whether callers come often */
static bool note_visit(struct wring_progress *progress)
{
    unsigned visits = atomic_load_explicit(&progress->visits, memory_order_relaxed) + 1;

    atomic_store_explicit(&progress->visits, visits, memory_order_relaxed);
    if (atomic_load_explicit(&progress->visited, memory_order_relaxed))
        return true;
    if (visits % wring_wait_policy.visits != 0)
        return false;
    begin_visits(progress);
    return true;
}

void wring_progress_visit(struct wring_progress *progress)
{
    if (!progress->visitable || !note_visit(progress)) {
        wring_progress_nudge(progress);
        return;
    }
    if (wring_is_stopped(progress) || is_engine_claimed(progress) ||
        pthread_mutex_trylock(&progress->driver) != 0)
        return;
    wring_engine_poll(progress->engine);
    wring_let_go(progress);
}

static bool is_goal_reached(const struct wring_goal *goal)
{
    return goal->reached(goal->arg);
}

/** Holds the driver lock. @param idle_since  in, out: when something last moved; 0: just now
 *  @return false: the deadline has come, it is to be let go of for a while, or nobody drives any
 *  more */
static bool drive_as_caller(struct wring_progress *progress, const struct wring_goal *goal,
                            uint64_t deadline_ns, uint64_t *idle_since)
{
    const struct wring_fabric *fabric = progress->engine->fabric;
    progress->beside_ns = 0;
    while (!is_goal_reached(goal)) {
        if (wring_is_stopped(progress) || is_engine_claimed(progress) ||
            wring_completions_wait(progress->completions))
            return false;
        if (wring_engine_poll(progress->engine)) {
            *idle_since = progress->beside_ns = 0;
            wring_wake_onlookers(progress);
            continue;
        }
        uint64_t now = fabric->tick_ns;
        if (!fabric->ticked) { /* `now` may be older than the last events */
            wring_yield_core(progress);
            continue;
        }
        if (now >= deadline_ns)
            return false;
        *idle_since = *idle_since == 0 ? now : *idle_since;
        if (wring_nap_if_crowded(progress, deadline_ns) ||
            wring_spin_as_driver(progress, now - *idle_since))
            continue;
        struct wring_wait_set set = {.deadline_ns = deadline_ns};
        if (wring_sleep_prepare(progress, &set, &progress->caller)) {
            if (!is_goal_reached(goal))
                wring_wait_set_sleep(&set);
            wring_sleep_end(&progress->caller);
        }
        if (progress->aside.fn == NULL)
            *idle_since = 0;
    }
    return true;
}

static bool is_driver_locked(struct wring_progress *progress)
{
    if (pthread_mutex_trylock(&progress->driver) != 0)
        return true;
    pthread_mutex_unlock(&progress->driver);
    return false;
}

/**
 * Another thread drives: wait until it lets go or something finishes. A driver that lets go after
 * the last look sees an onlooker, and cannot wake it before it waits.
 */
static void sleep_as_onlooker(struct wring_progress *progress, const struct wring_goal *goal)
{
    pthread_mutex_lock(&progress->park_mutex);
    atomic_fetch_add(&progress->onlookers, 1);
    if (!is_goal_reached(goal) && is_driver_locked(progress))
        wring_sleep_on(progress, &progress->changed, wring_wait_policy.park_ns);
    pthread_mutex_unlock(&progress->park_mutex);
    atomic_fetch_sub(&progress->onlookers, 1);
}

/** Interrupt a wait after another quarter of its time so far, within bounds. */
static uint64_t aside_in_ns(uint64_t waited_ns)
{
    uint64_t in_ns = waited_ns / 4;
    if (in_ns < wring_wait_policy.aside_min_ns)
        return wring_wait_policy.aside_min_ns;
    return in_ns < wring_wait_policy.aside_max_ns ? in_ns : wring_wait_policy.aside_max_ns;
}

/** What else the program wants done while it waits. */
struct aside {
    uint64_t began_ns, due_ns;
};

static struct aside aside_begin(const struct wring_progress *progress)
{
    uint64_t now = progress->aside.fn != NULL ? wring_now_ns() : 0;
    return (struct aside){now, now + aside_in_ns(0)};
}

/** @return until when to wait at a stretch */
static uint64_t aside_until(const struct wring_progress *progress, const struct aside *aside,
                            uint64_t deadline_ns)
{
    if (progress->aside.fn == NULL || deadline_ns < aside->due_ns)
        return deadline_ns;
    return aside->due_ns;
}

/** Without the driver lock. @return whether it was due */
static bool aside_do_if_due(const struct wring_progress *progress, struct aside *aside,
                            uint64_t now)
{
    if (progress->aside.fn == NULL || now < aside->due_ns)
        return false;
    progress->aside.fn(progress->aside.arg);
    now = wring_now_ns();
    aside->due_ns = now + aside_in_ns(now - aside->began_ns);
    return true;
}

/** Drive, or see another do so, until the goal is reached or the deadline has come. */
static void drive_or_look_on(struct wring_progress *progress, const struct wring_goal *goal,
                             uint64_t deadline_ns)
{
    uint64_t since = 0, idle_since = 0;
    struct aside aside = aside_begin(progress);
    while (!is_goal_reached(goal) && !wring_is_stopped(progress)) {
        if (!is_engine_claimed(progress) && pthread_mutex_trylock(&progress->driver) == 0) {
            unsigned taken = atomic_load_explicit(&progress->taken, memory_order_relaxed);
            atomic_store_explicit(&progress->taken, taken + 1, memory_order_relaxed);
            bool done = drive_as_caller(progress, goal, aside_until(progress, &aside, deadline_ns),
                                        &idle_since);
            wring_let_go(progress);
            if (done)
                return;
        }
        uint64_t now = wring_now_ns();
        if (now >= deadline_ns)
            return;
        if (aside_do_if_due(progress, &aside, now))
            continue;
        since = since == 0 ? now : since;
        wring_wake_driver(progress);
        if (!wring_spin(progress, now - since))
            sleep_as_onlooker(progress, goal);
    }
}

uint64_t wring_meter_begin(struct wring_progress *progress)
{
    if (!atomic_load_explicit(&progress->metered, memory_order_relaxed))
        return 0;
    unsigned unmetered = atomic_load_explicit(&progress->unmetered, memory_order_relaxed) + 1;
    bool due = unmetered >= atomic_load_explicit(&progress->meter_every, memory_order_relaxed);
    atomic_store_explicit(&progress->unmetered, due ? 0 : unmetered, memory_order_relaxed);
    return due ? wring_thread_cpu_ns() : 0;
}

void wring_meter_end(struct wring_progress *progress, uint64_t began_ns)
{
    if (began_ns == 0)
        return;
    uint64_t took_ns = wring_thread_cpu_ns() - began_ns;
    unsigned every = atomic_load_explicit(&progress->meter_every, memory_order_relaxed);
    atomic_fetch_add(&progress->waiter_ns, took_ns * (every > 1 ? every : 1));
    atomic_store_explicit(&progress->meter_every, took_ns < METER_SHORT_NS ? METER_SHARE : 1,
                          memory_order_relaxed);
}

bool wring_progress_drive(struct wring_progress *progress, struct wring_goal goal,
                          uint64_t deadline_ns)
{
    if (is_goal_reached(&goal))
        return true;

    note_wait(progress);
    uint64_t began_ns = wring_meter_begin(progress);
    atomic_fetch_add(&progress->takers, 1);
    drive_or_look_on(progress, &goal, deadline_ns);
    if (wring_is_stopped(progress)) /* the caller's memory is in use until jobs have ended */
        wring_progress_drop(progress);
    /* Other work in flight goes on without us. A thread that posts after we have left sees that no
     * taker is there; earlier posts we see. */
    bool last = atomic_fetch_sub(&progress->takers, 1) == 1;
    if (last &&
        (atomic_load(&progress->engine->n_active) > 0 || wring_engine_has_posted(progress->engine)))
        wring_hand_over(progress);
    wring_meter_end(progress, began_ns);
    return is_goal_reached(&goal);
}

static bool has_status_ended(const void *arg)
{
    const atomic_int *status = arg;
    return atomic_load_explicit(status, memory_order_acquire) != WRING_ERR_AGAIN;
}

enum wring_status wring_progress_wait(struct wring_progress *progress, const atomic_int *status,
                                      uint64_t deadline_ns)
{
    wring_progress_drive(progress, (struct wring_goal){has_status_ended, (const void *)status},
                         deadline_ns);
    bool stopped = wring_is_stopped(progress);
    int ended = atomic_load_explicit(status, memory_order_acquire);
    return stopped && ended == WRING_ERR_AGAIN ? WRING_ERR_CLOSED : (enum wring_status)ended;
}
