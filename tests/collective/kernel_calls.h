/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every call of this process into the kernel, counted by what it is for: also those that the C
 * library makes inside itself, such as a contended mutex's. The kernel hands each call back as a
 * signal, whose handler counts it and makes it. For binaries that are linked with one
 * kernel_calls_*.c.
 */
#ifndef WRING_TESTS_KERNEL_CALLS_H
#define WRING_TESTS_KERNEL_CALLS_H

#include <stdbool.h>

struct kernel_calls {
    unsigned long sleeps;      /* ppoll, poll */
    unsigned long futex_waits; /* of mutexes and conditions */
    unsigned long futex_wakes; /* of either */
    unsigned long writes;      /* to a descriptor: wakes a sleeper of this process */
    unsigned long sends;       /* to a socket: wakes the peer */
    unsigned long reads;       /* of what woke us */
    unsigned long yields;
    unsigned long fences; /* before a sleep: who writes what the sleeper waits for has none */
    unsigned long others;
    long other; /* number of the last one of these */
};

/** Ready to count this thread and those that are started from now on.
 *  @return false, with the reason, where kernel or processor cannot */
bool kernel_calls_init(const char **why);

/** No thread may be started or end while calls are counted. */
void kernel_calls_start(void);

/** Stop, and say what all threads have called since the start. */
struct kernel_calls kernel_calls_stop(void);

/** All of them. */
unsigned long kernel_calls_sum(const struct kernel_calls *calls);

#endif
