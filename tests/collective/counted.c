/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/counted.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_bool counting;
static atomic_ulong allocations, kernel_calls;
static _Atomic(const char *) last;
static void *callers[COUNTED_CALLERS];
static int n_callers;

void counted_start(void)
{
    static bool ready;
    if (!ready) /* the first walk over a stack allocates */
        backtrace(callers, 1);
    ready = true;
    n_callers = 0;
    atomic_store(&allocations, 0);
    atomic_store(&kernel_calls, 0);
    atomic_store(&last, "none");
    atomic_store(&counting, true);
}

struct counted counted_stop(void)
{
    atomic_store(&counting, false);
    struct counted counted = {
        .allocations = atomic_load(&allocations),
        .kernel_calls = atomic_load(&kernel_calls),
        .last = atomic_load(&last),
        .n_callers = n_callers,
    };
    memcpy(counted.callers, callers, sizeof(callers));
    return counted;
}

const char *counted_callers(const struct counted *counted, char text[], size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < counted->n_callers && used < bytes; i++) {
        Dl_info found;
        if (dladdr(counted->callers[i], &found) == 0)
            continue;
        const char *file = strrchr(found.dli_fname, '/');
        int n = snprintf(text + used, bytes - used, " %s+0x%zx",
                         file != NULL ? file + 1 : found.dli_fname,
                         (size_t)((uintptr_t)counted->callers[i] - (uintptr_t)found.dli_fbase));
        used += n < 0 ? 0 : (size_t)n;
    }
    return text;
}

static void count(atomic_ulong *counter, const char *name)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed)) {
        atomic_fetch_add(counter, 1);
        atomic_store(&last, name);
    }
}

/** Two threads at once may mix their callers: one of them is what is looked for as well. */
static void count_allocation(const char *name)
{
    if (!atomic_load_explicit(&counting, memory_order_relaxed))
        return;
    count(&allocations, name);
    n_callers = backtrace(callers, COUNTED_CALLERS);
}

/* What glibc's own allocators are called by under their public names. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes)
{
    count_allocation("malloc");
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count_allocation("calloc");
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    count_allocation("realloc");
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    count_allocation("aligned_alloc");
    return __libc_memalign(align, bytes);
}

/** Define a stand-in: result type, name, parameters, arguments. */
#define STAND_IN(type, name, parameters, arguments)               \
    type name parameters                                          \
    {                                                             \
        static type(*real) parameters;                            \
        if (real == NULL)                                         \
            *(void **)(uintptr_t)&real = dlsym(RTLD_NEXT, #name); \
        count(&kernel_calls, #name);                              \
        return real arguments;                                    \
    }

STAND_IN(ssize_t, read, (int fd, void *data, size_t n), (fd, data, n))
STAND_IN(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
STAND_IN(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
STAND_IN(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
STAND_IN(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
STAND_IN(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
STAND_IN(ssize_t, send, (int fd, const void *data, size_t n, int flags), (fd, data, n, flags))
STAND_IN(ssize_t, recv, (int fd, void *data, size_t n, int flags), (fd, data, n, flags))
STAND_IN(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
STAND_IN(int, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *s),
         (fds, n, t, s))
STAND_IN(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
STAND_IN(int, epoll_ctl, (int fd, int op, int on, struct epoll_event *event), (fd, op, on, event))
STAND_IN(int, sched_yield, (void), ())
STAND_IN(int, nanosleep, (const struct timespec *t, struct timespec *left), (t, left))
STAND_IN(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
STAND_IN(int, pthread_cond_timedwait,
         (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t), (c, m, t))
STAND_IN(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t offset),
         (at, n, prot, flags, fd, offset))
STAND_IN(int, munmap, (void *at, size_t n), (at, n))

/** Only a thread's or process's own clocks take the kernel. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL)
        *(void **)(uintptr_t)&real = dlsym(RTLD_NEXT, "clock_gettime");
    if (id != CLOCK_MONOTONIC && id != CLOCK_REALTIME)
        count(&kernel_calls, "clock_gettime of a thread");
    return real(id, t);
}
