/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

static void fill_foreign_signals(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

    sigfillset(set);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        sigdelset(set, own[i]);
}

int wring_thread_create(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t foreign, before;

    fill_foreign_signals(&foreign);
    pthread_sigmask(SIG_BLOCK, &foreign, &before); /* a thread is born with its maker's */
    int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
