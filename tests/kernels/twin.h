/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A kernel's twin moves the bytes that the kernel moves, in the same memory, and computes next to
 * nothing: what a kernel could reach if its arithmetic were free. Built once for each width of
 * vectors, by ordinary stores; memcpy, which is timed beside it, may use others. It reads a step of
 * each stream before it writes one, so that a kernel which works in place may beat it in the cache.
 */
#ifndef WRING_TESTS_TWIN_H
#define WRING_TESTS_TWIN_H

#include <stdint.h>

#define TWIN_STREAMS 6
#define TWIN_STEP 1024 /* elements that are read before as many are written */

/** What an element moves, in bits; not touched where both are 0. */
struct twin_stream {
    uint8_t *data;
    unsigned read_bits, write_bits;
};

/** @param elems  a multiple of TWIN_STEP */
typedef void (*twin_fn)(const struct twin_stream streams[TWIN_STREAMS], uint64_t elems);

void twin_16(const struct twin_stream streams[TWIN_STREAMS], uint64_t elems);
void twin_32(const struct twin_stream streams[TWIN_STREAMS], uint64_t elems);
void twin_64(const struct twin_stream streams[TWIN_STREAMS], uint64_t elems);

#endif
