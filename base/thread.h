/* SPDX-License-Identifier: Apache-2.0 */
/** Threads of the library's own. */
#ifndef WRING_BASE_THREAD_H
#define WRING_BASE_THREAD_H

#include <pthread.h>

/**
 * Start one that blocks all signals from its first moment: signals to the process belong to the
 * application's threads, which may block them all to take them by signalfd() or sigwait(). Those
 * that a thread brings upon itself stay as they are, since a blocked one kills the process without
 * its handler: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGSYS.
 * @return 0, or an errno
 */
int wring_thread_create(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
