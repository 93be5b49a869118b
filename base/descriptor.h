/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Descriptors of the library's own. None is 0, 1 or 2, which a program may have closed: what it
 * then prints would go into our sockets. None survives in a child that fork() makes.
 *
 *     int fd = WRING_DESCRIPTOR(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
 *     if (fd < 0) ... errno says why
 *     wring_descriptor_close(fd);
 *
 * Threads: safe.
 */
#ifndef WRING_BASE_DESCRIPTOR_H
#define WRING_BASE_DESCRIPTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * fork() must not hand on two things to a child: descriptors of ours, which would keep a dead
 * rank's connections open and its ports taken, and memory that other ranks share with this process.
 *
 * A child does not know which sessions of its parent there are, and nobody asks it: so this is the
 * one place with variables of the process. A handler of pthread_atfork() closes and remaps in the
 * child before fork() returns there. vfork(), posix_spawn() and clone() run no handlers: after
 * vfork() and posix_spawn() comes exec, which closes descriptors and unmaps memory by itself.
 *
 * Threads: safe.
 */

/** Written by the handler alone; read through wring_forked_count(). */
extern atomic_uint wring_forked_times;

/**
 * By how many forks this process descends from the one that first used the library. An object that
 * remembers the count of its making can tell whether this process made it.
 */
static inline unsigned wring_forked_count(void)
{
    return atomic_load_explicit(&wring_forked_times, memory_order_relaxed);
}

/** The same, for code that makes such an object: from here on forks are counted. */
unsigned wring_forked_begin(void);

/** No fork() of another thread comes between this and the release. Held for no longer than a
 *  system call takes that does not wait. Keeps errno. */
void wring_forked_hold(void);

/**
 * Memory that other processes map: a child gets it as a mapping of its own, so that what it writes
 * is seen by nobody else. It may or may not see writes of others after the fork.
 *
 * @param fd  of its file, borrowed until the drop; -1: none, and the child can only read it
 * @return false where there is no memory to remember it by
 */
bool wring_forked_keep_shared(void *base, size_t bytes, int fd, off_t offset);

/** Before it is unmapped. Memory that was never kept is fine. */
void wring_forked_drop_shared(void *base);

/** A child does not have these whole pages at all. */
void wring_forked_hide(void *base, size_t bytes);

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
