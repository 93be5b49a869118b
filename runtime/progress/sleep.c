/* SPDX-License-Identifier: Apache-2.0 */
/* How those who make progress sleep, and how they are woken. */
#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "runtime/progress/state.h"

#define WRING_MODULE "progress"

/** By which another thread wakes the sleeper. @return false: there is none */
static bool make_wake_up(struct wring_sleeper *sleeper)
{
    sleeper->fd = WRING_DESCRIPTOR(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return sleeper->fd >= 0;
}

enum wring_status wring_sleep_init(struct wring_progress *progress, bool threaded)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&progress->park_mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->resume, &monotonic);
    pthread_cond_init(&progress->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (wring_clock_here() != NULL) /* simulated ranks have but one thread, and are very many */
        return WRING_OK;
    if (make_wake_up(&progress->caller) && (!threaded || make_wake_up(&progress->own)))
        return WRING_OK;
    wring_error(progress->engine->log, "no wake-up descriptor: %s", WRING_REFUSED("eventfd"));
    return WRING_ERR_SYSTEM;
}

void wring_sleep_finish(struct wring_progress *progress)
{
    wring_descriptor_close(progress->caller.fd);
    wring_descriptor_close(progress->own.fd);
    pthread_cond_destroy(&progress->changed);
    pthread_cond_destroy(&progress->resume);
    pthread_mutex_destroy(&progress->park_mutex);
}

static void signal_sleeper(const struct wring_sleeper *sleeper)
{
    uint64_t one = 1;
    ssize_t ignored = write(sleeper->fd, &one, sizeof(one));
    (void)ignored; /* full means that it will be seen anyway */
}

/** Lower a sleeper's flag. @return whether it was up */
static bool lower_flag(atomic_bool *flag)
{
    return atomic_load(flag) && atomic_exchange(flag, false);
}

static bool wake_sleeper(struct wring_sleeper *sleeper)
{
    if (!lower_flag(&sleeper->asleep))
        return false;
    signal_sleeper(sleeper);
    return true;
}

void wring_wake_driver(struct wring_progress *progress)
{
    wake_sleeper(&progress->caller);
    wake_sleeper(&progress->own);
}

void wring_wake_onlookers(struct wring_progress *progress)
{
    if (atomic_load(&progress->onlookers) == 0)
        return;
    pthread_mutex_lock(&progress->park_mutex);
    pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->park_mutex);
}

void wring_wake_thread(struct wring_progress *progress)
{
    if (!progress->threaded)
        return;
    if (wake_sleeper(&progress->own))
        return;
    atomic_store(&progress->resumed, true);
    if (!lower_flag(&progress->parked))
        return;
    pthread_mutex_lock(&progress->park_mutex);
    pthread_cond_signal(&progress->resume);
    pthread_mutex_unlock(&progress->park_mutex);
}

bool wring_spin(const struct wring_progress *progress, uint64_t idle_ns)
{
    bool crowded = progress->engine->fabric->crowded;
    uint64_t spin_ns = progress->spin_ns * (crowded ? wring_wait_policy.crowded_spins : 1);
    if (idle_ns >= spin_ns)
        return false;
    if (crowded || idle_ns > spin_ns / 4)
        sched_yield();
    return true;
}

static void count_sleep(struct wring_progress *progress)
{
    atomic_fetch_add_explicit(&progress->sleeps, 1, memory_order_relaxed);
}

bool wring_sleep_prepare(struct wring_progress *progress, struct wring_wait_set *set,
                         struct wring_sleeper *sleeper)
{
    count_sleep(progress);
    atomic_store(&sleeper->asleep, true); /* before the last look for posts */
    set->fds[set->n++] = (struct pollfd){sleeper->fd, POLLIN, 0};
    wring_engine_arm(progress->engine, set);
    bool wanted = set->busy || wring_engine_has_posted(progress->engine) ||
                  atomic_load(&progress->stop) || atomic_load(&progress->lockers) > 0;
    if (!wanted && !wring_engine_poll(progress->engine))
        return true;
    atomic_store(&sleeper->asleep, false);
    wring_wake_onlookers(progress);
    return false;
}

void wring_sleep_end(struct wring_sleeper *sleeper)
{
    uint64_t count;
    atomic_store(&sleeper->asleep, false);
    ssize_t ignored = read(sleeper->fd, &count, sizeof(count));
    (void)ignored; /* EAGAIN: something else woke us */
}

/** May a rank on another core send next? Then keep the core for a while, and look for its data. */
static bool may_look_beside(struct wring_progress *progress)
{
    if (!wring_engine_waits_beside(progress->engine))
        return false;
    uint64_t now = wring_now_ns();
    if (progress->beside_ns == 0)
        progress->beside_ns = now;
    return now - progress->beside_ns < wring_wait_policy.beside_ns;
}

void wring_yield_core(struct wring_progress *progress)
{
    if (!progress->engine->fabric->crowded || wring_engine_works_long(progress->engine) ||
        may_look_beside(progress))
        return;
    progress->beside_ns = 0;
    sched_yield();
}

/**
 * The scheduler may wake a sleeping rank on its peer's busy core and leave its own idle, which
 * doubles encode time. So a caller goes on looking for as long as pieces take that are encoded in
 * one go.
 */
static bool may_look_longer(const struct wring_progress *progress, uint64_t idle_ns)
{
    if (idle_ns >= progress->spin_ns * wring_wait_policy.caller_spins)
        return false;
    sched_yield();
    return true;
}

bool wring_spin_as_driver(struct wring_progress *progress, uint64_t idle_ns)
{
    if (!progress->engine->fabric->crowded)
        return wring_spin(progress, idle_ns) || may_look_longer(progress, idle_ns);
    if (idle_ns >= progress->spin_ns * wring_wait_policy.crowded_spins)
        return false;
    wring_yield_core(progress);
    return true;
}

bool wring_nap_if_crowded(struct wring_progress *progress, uint64_t deadline_ns)
{
    if (!progress->engine->fabric->crowded || !wring_engine_works_long(progress->engine))
        return false;
    uint64_t until_ns = wring_now_ns() + wring_wait_policy.nap_ns;
    struct wring_wait_set set = {.fds = {{progress->caller.fd, POLLIN, 0}},
                                 .n = 1,
                                 .deadline_ns = until_ns < deadline_ns ? until_ns : deadline_ns};
    count_sleep(progress);
    atomic_store(&progress->caller.asleep, true); /* before the last look for posts */
    if (!wring_engine_has_posted(progress->engine) && !atomic_load(&progress->stop))
        wring_wait_set_sleep(&set);
    wring_sleep_end(&progress->caller);
    return true;
}

bool wring_sleep_on(struct wring_progress *progress, pthread_cond_t *condition, uint64_t ns)
{
    struct timespec until;
    uint64_t at = wring_clock_ns(CLOCK_MONOTONIC) + ns;

    until.tv_sec = (time_t)(at / WRING_NS_PER_S);
    until.tv_nsec = (long)(at % WRING_NS_PER_S);
    count_sleep(progress);
    return pthread_cond_timedwait(condition, &progress->park_mutex, &until) == ETIMEDOUT;
}
