/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_limit.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static sigset_t only_this(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

void wring_file_limit_hold(struct wring_file_limit *held)
{
    sigset_t set = only_this(), pending;

    pthread_sigmask(SIG_BLOCK, &set, &held->before);
    held->pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

void wring_file_limit_release(const struct wring_file_limit *held)
{
    static const struct timespec at_once = {0, 0};
    sigset_t set = only_this();
    int saved = errno;

    while (!held->pending && sigtimedwait(&set, NULL, &at_once) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
    errno = saved;
}
