/* SPDX-License-Identifier: Apache-2.0 */
/**
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
#ifndef WRING_BASE_FORKED_H
#define WRING_BASE_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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
void wring_forked_release(void);

/** A child closes it. While held. @return false with errno where there is no memory for that */
bool wring_forked_keep_descriptor(int fd);

/** It is closed here, or about to be. While held. One that was never kept is fine. */
void wring_forked_drop_descriptor(int fd);

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

#endif
