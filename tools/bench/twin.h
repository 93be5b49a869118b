/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Twin kernels measure the cost of memory traffic alone. A twin reads and writes as many bytes as a
 * codec or kernel, in the same buffers, and computes nothing. No codec or kernel that touches these
 * bytes can be faster, unless it finds some of them in a cache. `wring bench codec` and the
 * kernels' benchmark in the tests time each codec or kernel beside its twin.
 *
 * Memory counts in lines of 64 bytes. This header is included by files built for one instruction
 * set each: declarations and macros only.
 */
#ifndef WRING_TOOLS_BENCH_TWIN_H
#define WRING_TOOLS_BENCH_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define WRING_TWIN_LINE 64u

/** Which stores go past the caches, and what is asked for in advance. */
enum wring_twin_store {
    WRING_TWIN_PLAIN = 0,
    WRING_TWIN_STREAM_WRITES = 1 << 0,  /* those to memory that is only written */
    WRING_TWIN_STREAM_UPDATES = 1 << 1, /* those to memory that is read first */
    WRING_TWIN_FETCH_UPDATES = 1 << 2,  /* that memory, a block at a time, before it is read */
    WRING_TWIN_STORES = 1 << 3
};
#define WRING_TWIN_STREAMS (WRING_TWIN_STREAM_WRITES | WRING_TWIN_STREAM_UPDATES)

/** One of a twin's streams; lines = 0 where there is none. */
struct wring_twin_stream {
    void *base;     /* 64-byte aligned */
    uint64_t lines; /* so many are touched */
    uint64_t span;  /* out of so many, in runs spread evenly over them; lines <= span < 2^32 */
};

/** The traffic of one call. */
struct wring_twin_work {
    struct wring_twin_stream read, update, write;
    struct wring_twin_stream other; /* read too, where there are two sources */
};

/** A piece of that traffic, in lines: small enough that the streams take turns in the caches.
 * Pointers are not NULL where there are no lines either. */
struct wring_twin_block {
    const char *read;
    char *update, *write;
    size_t n_read, n_update, n_write;
};

/**
 * Read, update and write a block, every line once.
 * @param store  of enum wring_twin_store
 * @param key    what updated memory is xor'ed with; 0 leaves its bits as they are
 * @return something that depends on all that was read, unless it was written
 */
typedef uint64_t (*wring_twin_fn)(const struct wring_twin_block *block, unsigned store,
                                  uint64_t key);

struct wring_twin_tier {
    const char *name;
    enum wring_cpu_tier tier;
    bool streams; /* it has streaming stores */
    wring_twin_fn run;
    void (*fence)(void); /* streaming stores are done after this */
};

/** All tiers, plain C first; an entry without a name ends the table. */
extern const struct wring_twin_tier wring_twin_tiers[];

/** The one with the widest vectors that this processor has. */
const struct wring_twin_tier *wring_twin_widest(void);

/**
 * Do the work once. Updated memory keeps its contents; written memory holds rubbish afterwards.
 * @return something that depends on all that was read and not written
 */
uint64_t wring_twin_run(const struct wring_twin_tier *tier, const struct wring_twin_work *work,
                        unsigned store);

/** Bytes as a stream of whole lines. */
struct wring_twin_stream wring_twin_all(const void *base, uint64_t bytes);

uint64_t wring_twin_avx2(const struct wring_twin_block *block, unsigned store, uint64_t key);
uint64_t wring_twin_avx512(const struct wring_twin_block *block, unsigned store, uint64_t key);
void wring_twin_fence_x86(void);

#endif
