/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Stand-ins for the C library's allocators and for its calls into the kernel: they count, in all
 * threads, while counting is on, and pass the call on. For binaries that are linked with counted.c.
 */
#ifndef WRING_TESTS_COUNTED_H
#define WRING_TESTS_COUNTED_H

#include <stdbool.h>
#include <stddef.h>

#define COUNTED_CALLERS 10

struct counted {
    unsigned long allocations;
    unsigned long kernel_calls;
    const char *last; /* name of the last one of either */
    int n_callers;    /* of the last allocation, innermost first */
    void *callers[COUNTED_CALLERS];
};

void counted_start(void);

/** Stop, and say what was counted since the start. */
struct counted counted_stop(void);

/** Who allocated last, for people: each caller as file+offset, as addr2line takes it. */
const char *counted_callers(const struct counted *counted, char text[], size_t bytes);

#endif
