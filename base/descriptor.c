/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define FIRST (STDERR_FILENO + 1)

static void close_quietly(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
}

int wring_descriptor_above_stdio(int fd)
{
    if (fd < 0 || fd >= FIRST)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);
    close_quietly(fd);
    return moved;
}

int wring_descriptor_keep(int fd)
{
    fd = wring_descriptor_above_stdio(fd);
    if (fd >= 0 && !wring_forked_keep_descriptor(fd)) {
        close(fd);
        errno = ENOMEM;
        fd = -1;
    }
    wring_forked_release();
    return fd;
}

bool wring_descriptor_lend(int fd)
{
    if (fd < 0)
        return true;
    wring_forked_hold();
    bool kept = wring_forked_keep_descriptor(fd);
    wring_forked_release();
    return kept;
}

void wring_descriptor_take_back(int fd)
{
    if (fd < 0)
        return;
    wring_forked_hold();
    wring_forked_drop_descriptor(fd);
    wring_forked_release();
}

void wring_descriptor_close(int fd)
{
    if (fd < 0)
        return;
    wring_forked_hold();
    wring_forked_drop_descriptor(fd);
    close_quietly(fd);
    wring_forked_release();
}

void wring_stdio_fill(struct wring_stdio *out)
{
    for (int fd = 0; fd < FIRST; fd++) {
        out->filled[fd] = false;
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        /* the lowest that is free, unless another thread came first */
        int got = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (got >= 0 && got < FIRST)
            out->filled[got] = true;
        else if (got >= 0)
            close(got);
    }
}

void wring_stdio_free(const struct wring_stdio *stdio)
{
    for (int fd = 0; fd < FIRST; fd++)
        if (stdio->filled[fd])
            close_quietly(fd);
}
