/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Long calls: what they read and write lies beyond the processor's own caches, and how it is
 * fetched and stored decides their speed. Three things help there, and hinder in a near cache:
 *
 * - One page at a time. Processors fetch ahead within a page and stop at its end. So each page of
 *   the input is asked for at once, while nothing else is read or written, and worked on then.
 * - What is only written goes past the caches, in whole lines: these need not be fetched first.
 * - What is read and written stays with ordinary stores.
 *
 * A piece of a bucket (WRING_CHUNK_BYTES) is not long: it is sent next, and stays near until then.
 * Included by files built for one instruction set each: declarations and macros only.
 */
#ifndef WRING_KERNELS_STREAMING_H
#define WRING_KERNELS_STREAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRING_LINE 64u
#define WRING_PAGE 1024u /* elements of 4 bytes */

/** Is a call of n elements long? From 4 MiB of float32 on, which no second cache holds. */
#define WRING_IS_LONG(n) ((n) >= (uint64_t)1 << 20)

/** So many elements of `size` bytes end where a line begins; 0 where none ever does. */
#define WRING_LEAD(at, size, n)                                                    \
    (!WRING_MEETS_LINE(at, size) || WRING_TO_LINE(at) / (size) > (n) ? (uint64_t)0 \
                                                                     : WRING_TO_LINE(at) / (size))

#define WRING_MEETS_LINE(at, size) ((uintptr_t)(at) % (size) == 0)
#define WRING_TO_LINE(at) (-(uintptr_t)(at) & (WRING_LINE - 1))

/**
 * Ask for the line with which the memory page at `at`, or else the next after it, begins: the way
 * there is found meanwhile, and those who fetch ahead have where to begin.
 */
void wring_streaming_enter(const void *at);

/** Ask for so many bytes, and go on. */
void wring_streaming_fetch(const void *at, size_t bytes);

/** The same of a unit of n elements, before a call comes to it; of a longer one the first page. */
void wring_streaming_fetch_unit(const float *at, uint64_t n);

/**
 * Where each n elements are looked at twice, ask for the n that follow while these are worked on.
 * If a residual is read and written, too, it takes the room that they would wait in: then for
 * these.
 */
void wring_streaming_fetch_ahead(const float *at, uint64_t n, bool has_residual);

/**
 * Read so many bytes, to the same end: it waits for them, which is better where further pages are
 * to be read and written after this one. One load instruction goes over them all: processors learn
 * by instruction how far to fetch ahead, and with four in turn onebit+ef loses a quarter.
 */
void wring_streaming_read(const void *at, size_t bytes);

/** Copy so many bytes past the caches; the runs do not overlap. Others may see them later … */
void wring_streaming_stream(void *to, const void *from, size_t bytes);

/** … than after this. */
void wring_streaming_settle(void);

/** Both. */
void wring_streaming_copy(void *to, const void *from, size_t bytes);

#endif
