/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory that every provider can register and that another process on this host can map.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_TRANSPORT_MEMORY_H
#define WRING_TRANSPORT_MEMORY_H

#include <stddef.h>

#include <wring/provider.h>

/**
 * Map zeroed, page-aligned memory of kind WRING_MEMORY_SHARED behind a file without a name in the
 * file system, which is gone with its last descriptor and mapping and which cannot shrink.
 *
 * @param bytes  0 is fine; rounded up to whole pages, at least one
 * @param out    owned by the caller; out->bytes is the rounded size
 *
 * Errors: WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM (out of descriptors, for one); errno says why.
 */
enum wring_status wring_memory_alloc(size_t bytes, struct wring_memory *out);

/** Unmap, close and forget. Fine for NULL and for memory that was freed before or is all zero. */
void wring_memory_free(struct wring_memory *memory);

#endif
