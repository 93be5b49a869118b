/* SPDX-License-Identifier: Apache-2.0 */
/** test_kernels --bench: how fast each kernel is, beside memcpy and beside its twin. */
#ifndef WRING_TESTS_TIME_KERNELS_H
#define WRING_TESTS_TIME_KERNELS_H

#include "compress/kernels/kernels.h"
#include "tools/bench/twin.h"

#define BENCH_STEP 1024 /* elements: whole cache lines, also of a bit each */

enum bench_stream {
    BENCH_SRC,
    BENCH_RESIDUAL,
    BENCH_DST,
    BENCH_CODE,
    BENCH_OTHER, /* further sources */
    BENCH_MAP,
    BENCH_STREAMS
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
    uint64_t block; /* the most elements of a call */
    /* of an element, by stream: one is written in place, one written, two read, at most */
    unsigned read_bits[BENCH_STREAMS], write_bits[BENCH_STREAMS];
    /** Run on elements [0, n) of the memory. */
    void (*run)(const void *tier, const struct bench_memory *memory, uint64_t n);
};

/** All kernels; one without a name ends the list. */
extern const struct bench_kernel bench_kernels[];

/** Print the table for buffers of so many elements, rounded up. @return exit status */
int bench_run(uint64_t elems);

#endif
