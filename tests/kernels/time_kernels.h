/* SPDX-License-Identifier: Apache-2.0 */
/** test_kernels --bench: how fast each kernel is, beside memcpy and beside its twin. */
#ifndef WRING_TESTS_TIME_KERNELS_H
#define WRING_TESTS_TIME_KERNELS_H

#include "compress/kernels/kernels.h"
#include "tests/kernels/twin.h"

enum bench_stream {
    BENCH_SRC,
    BENCH_RESIDUAL,
    BENCH_DST,
    BENCH_CODE,
    BENCH_OTHER, /* further sources */
    BENCH_MAP,
};

/** The memory of all streams, whole cache lines each. */
struct bench_memory {
    float *src, *residual, *dst;
    uint8_t *code;
    float *other;
    uint64_t *map;
};

struct bench_kernel {
    const char *name;  /* of the table, and of the function in it */
    const void *tiers; /* a table as kernels.h describes */
    size_t entry_bytes;
    uint64_t block;                                             /* the most elements of a call */
    unsigned read_bits[TWIN_STREAMS], write_bits[TWIN_STREAMS]; /* of an element, by stream */
    /** Run on elements [0, n) of the memory. */
    void (*run)(const void *tier, const struct bench_memory *memory, uint64_t n);
};

/** All kernels; one without a name ends the list. */
extern const struct bench_kernel bench_kernels[];

/** Print the table for buffers of so many elements, rounded up. @return exit status */
int bench_run(uint64_t elems);

#endif
