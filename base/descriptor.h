/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Descriptors of the library's own. None is 0, 1 or 2, which a program may have closed: what it
 * then prints would go into our sockets. None survives in a child that fork() makes (forked.h).
 *
 *     int fd = WRING_DESCRIPTOR(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
 *     if (fd < 0) ... errno says why
 *     wring_descriptor_close(fd);
 *
 * Threads: safe.
 */
#ifndef WRING_BASE_DESCRIPTOR_H
#define WRING_BASE_DESCRIPTOR_H

#include "base/forked.h"

/** The descriptor that a call returns, which does not wait. @return it, or -1 with errno */
#define WRING_DESCRIPTOR(call) (wring_forked_hold(), wring_descriptor_keep(call))

/** The second half of WRING_DESCRIPTOR(): between hold and here it was made. Releases. */
int wring_descriptor_keep(int fd);

/** One that another library made and will close: a child closes it as ours. @return false with
 * errno where there is no memory for that */
bool wring_descriptor_lend(int fd);

/** Before that library closes it. One that was never lent, or -1, is fine. */
void wring_descriptor_take_back(int fd);

/** Close one of ours. Keeps errno. Another one, or -1, is fine. */
void wring_descriptor_close(int fd);

/**
 * A descriptor of someone else's making that is no more than open here, like one of a file that is
 * read: above 2 as well. @return it or its duplicate, close-on-exec; -1 with errno, and it is
 * closed
 */
int wring_descriptor_above_stdio(int fd);

/** Which of 0, 1 and 2 were taken by wring_stdio_fill(). */
struct wring_stdio {
    bool filled[3];
};

/** Take what is free of 0, 1 and 2, while another library opens what stays open. */
void wring_stdio_fill(struct wring_stdio *out);

/** Free it again. */
void wring_stdio_free(const struct wring_stdio *stdio);

#endif
