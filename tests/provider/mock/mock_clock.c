/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Time, for requests that wait: for a peer to have room, for one that does not answer, or because
 * they are to be late. A thread of the process looks after them; it is there from the first request
 * that had to wait until the library is unloaded.
 */
#include <time.h>
#include <unistd.h>

#include "tests/provider/mock/mock_inside.h"

#define TURN_NS 500000 /* between two attempts */
#define NS_PER_S 1000000000ull

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool runs, work, stop;
} the;

uint64_t mock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/** @return true if a request still waits */
static bool turn(uint64_t *next_ns)
{
    *next_ns = UINT64_MAX;
    net_lock(mock_self.net);
    for (uint32_t i = 0; i < MOCK_QPS; i++) {
        struct mock_qp *qp = mock_self.qps[i];
        uint64_t at = qp != NULL && qp->waits ? mock_send_progress(qp) : UINT64_MAX;
        *next_ns = at < *next_ns ? at : *next_ns;
    }
    net_unlock(mock_self.net);
    return *next_ns != UINT64_MAX;
}

static void sleep_until(uint64_t ns)
{
    uint64_t turn_ns = mock_now_ns() + TURN_NS;
    ns = ns < turn_ns ? ns : turn_ns;
    struct timespec at = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
    pthread_cond_timedwait(&the.wake, &the.lock, &at);
}

static void *run(void *arg)
{
    uint64_t next_ns;
    pthread_setname_np(pthread_self(), "mock-clock"); /* tests that count threads leave it out */
    pthread_mutex_lock(&the.lock);
    while (!the.stop) {
        if (!the.work) {
            pthread_cond_wait(&the.wake, &the.lock);
            continue;
        }
        the.work = false; /* what begins to wait after the turn says so again */
        pthread_mutex_unlock(&the.lock);
        bool again = turn(&next_ns);
        pthread_mutex_lock(&the.lock);
        the.work |= again;
        if (again && !the.stop)
            sleep_until(next_ns);
    }
    pthread_mutex_unlock(&the.lock);
    return arg;
}

/** Also in a child, which has no thread but this one, and may have the lock as another left it. */
static void begin(void)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&the.lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&the.wake, &attr);
    pthread_condattr_destroy(&attr);
    the.runs = the.work = the.stop = false;
}

__attribute__((constructor)) static void loaded(void)
{
    begin();
    pthread_atfork(NULL, NULL, begin);
}

void mock_clock_start(void)
{
    pthread_mutex_lock(&the.lock);
    if (!the.runs)
        the.runs = pthread_create(&the.thread, NULL, run, NULL) == 0;
    if (!the.work) {
        the.work = true;
        pthread_cond_signal(&the.wake);
    }
    pthread_mutex_unlock(&the.lock);
}

void mock_clock_stop(void)
{
    pthread_mutex_lock(&the.lock);
    bool runs = the.runs;
    the.stop = true;
    pthread_cond_signal(&the.wake);
    pthread_mutex_unlock(&the.lock);
    if (runs)
        pthread_join(the.thread, NULL);
}
