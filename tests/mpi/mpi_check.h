/* SPDX-License-Identifier: Apache-2.0 */
/* What programs of MPI check by; they are compiled by each MPI's own compiler, without wring. */
#ifndef MPI_CHECK_H
#define MPI_CHECK_H

#include <stdio.h>

/** Says what is not as it should be, and counts it in the program's own `failures`. */
#define CHECK(condition, ...)                                                      \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "rank %d: line %d: %s: ", rank, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                          \
            fprintf(stderr, "\n");                                                 \
            failures++;                                                            \
        }                                                                          \
    } while (0)

#endif
