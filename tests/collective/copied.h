/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Stand-ins for the C library's copies: they count, in all threads, while counting is on. Compilers
 * make copies of sizes that they do not know by these calls, and loops that copy become such calls
 * too. For binaries that are linked with copied.c.
 */
#ifndef WRING_TESTS_COPIED_H
#define WRING_TESTS_COPIED_H

#define COPIED_LARGE 512 /* bytes; more than any message between two ends has */

struct copied {
    unsigned long bytes;       /* in all */
    unsigned long large_bytes; /* in copies of COPIED_LARGE or more */
};

void copied_start(void);

/** Stop, and say what was copied since the start. */
struct copied copied_stop(void);

#endif
