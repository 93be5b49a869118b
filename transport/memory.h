/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory that every provider can register and that another process on this host can map; and memory
 * of this process alone, which comes on large pages more often.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_TRANSPORT_MEMORY_H
#define WRING_TRANSPORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <wring/provider.h>

/**
 * Map zeroed, page-aligned memory of kind WRING_MEMORY_SHARED behind a file without a name in the
 * file system, which is gone with its last descriptor and mapping and which cannot shrink. A
 * child's writes there stay its own (base/descriptor.h).
 *
 * @param bytes  0 is fine; rounded up to whole pages, at least one
 * @param out    owned by the caller; out->bytes is the rounded size
 *
 * Errors: WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM (out of descriptors, for one); errno says why.
 */
enum wring_status wring_memory_alloc(size_t bytes, struct wring_memory *out);

#define WRING_MEMORY_LARGE ((size_t)2 << 20) /* from here on large pages are asked for */

/** The pages that memory lies on. Devices and processors look up fewer large pages than small
 *  ones. */
enum wring_memory_pages {
    WRING_PAGES_SMALL,
    WRING_PAGES_TRANSPARENT, /* small ones, which the kernel was asked to join to large ones. It
                                does so where /sys/kernel/mm/transparent_hugepage/shmem_enabled lets
                                it */
    WRING_PAGES_POOL,        /* large ones out of those reserved by vm.nr_hugepages */
};

/**
 * The same on large pages, where they can be had: less than WRING_MEMORY_LARGE stays on small ones,
 * and of a pool no more than a quarter goes to waste by rounding.
 * @param got  out, what it became: the next lesser kind where the wish could not be met
 */
enum wring_status wring_memory_alloc_on(size_t bytes, enum wring_memory_pages wish,
                                        struct wring_memory *out, enum wring_memory_pages *got);

/**
 * The same of kind WRING_MEMORY_HOST, which no other process can map: transparent large pages are
 * let be almost everywhere (/sys/kernel/mm/transparent_hugepage/enabled: madvise or always). A
 * child has a copy of its own.
 * @param wish  WRING_PAGES_POOL is as WRING_PAGES_TRANSPARENT
 */
enum wring_status wring_memory_alloc_own(size_t bytes, enum wring_memory_pages wish,
                                         struct wring_memory *out, enum wring_memory_pages *got);

/**
 * Have all pages now, instead of each when it is first used.
 *
 * Errors: WRING_ERR_UNSUPPORTED where the kernel cannot (before Linux 5.14), WRING_ERR_NO_MEMORY
 * where there are not so many, WRING_ERR_SYSTEM; errno says why.
 */
enum wring_status wring_memory_populate(const struct wring_memory *memory);

/** The most bytes that memory of kind WRING_MEMORY_SHARED can have: it counts as a file, and there
 *  are limits on these (ulimit -f). Whole pages. */
size_t wring_memory_most(void);

/** Make a file of this host's memory so large. A limit on file sizes is an error, and no signal.
 *  @return false with errno */
bool wring_memory_resize(int fd, size_t bytes);

/** Unmap, close and forget. Fine for NULL and for memory that was freed before or is all zero. */
void wring_memory_free(struct wring_memory *memory);

#endif
