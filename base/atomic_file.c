/* SPDX-License-Identifier: Apache-2.0 */
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"

static sigset_t make_sigxfsz_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

void wring_file_limit_hold(struct wring_file_limit *held)
{
    sigset_t set = make_sigxfsz_set(), pending;

    pthread_sigmask(SIG_BLOCK, &set, &held->before);
    held->pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

void wring_file_limit_release(const struct wring_file_limit *held)
{
    static const struct timespec at_once = {0, 0};
    sigset_t set = make_sigxfsz_set();
    int saved = errno;

    while (!held->pending && sigtimedwait(&set, NULL, &at_once) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
    errno = saved;
}

/* ---- draft ---- */

bool wring_atomic_file_open(struct wring_atomic_file *draft, const char *path, mode_t mode)
{
    if (asprintf(&draft->path, "%s.XXXXXX", path) < 0)
        return false;
    int fd = wring_descriptor_above_stdio(mkostemp(draft->path, O_CLOEXEC)), why;
    if (fd < 0)
        goto free_path;
    if (fchmod(fd, mode) == 0 && (draft->file = fdopen(fd, "w")) != NULL) {
        wring_file_limit_hold(&draft->held);
        return true;
    }

    why = errno;
    close(fd);
    unlink(draft->path);
    errno = why;
free_path:
    why = errno;
    free(draft->path);
    errno = why;
    return false;
}

bool wring_atomic_file_close(struct wring_atomic_file *draft, const char *path, bool well)
{
    well = fclose(draft->file) == 0 && well && rename(draft->path, path) == 0;
    int why = errno;

    wring_file_limit_release(&draft->held);
    if (!well)
        unlink(draft->path);
    free(draft->path);
    errno = why;
    return well;
}
