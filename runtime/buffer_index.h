/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Finds the registered memory that holds an address, in the logarithm of how much there is.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_RUNTIME_BUFFER_INDEX_H
#define WRING_RUNTIME_BUFFER_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Memory and whatever it belongs to. */
struct wring_indexed {
    uintptr_t begin, end;
    uintptr_t reach; /* the highest end of this one and all before it: pieces may overlap */
    void *owner;
};

struct wring_buffer_index {
    struct wring_indexed *all; /* [n], ascending by begin; of equal ones the latest last */
    size_t n, max;
};

/** @return false: no memory */
bool wring_buffer_index_add(struct wring_buffer_index *index, const void *base, size_t bytes,
                            void *owner);

/** It is there. */
void wring_buffer_index_remove(struct wring_buffer_index *index, const void *base,
                               const void *owner);

/** @return an owner whose memory holds [data, data + bytes), or NULL */
void *wring_buffer_index_find(const struct wring_buffer_index *index, const void *data,
                              size_t bytes);

void wring_buffer_index_finish(struct wring_buffer_index *index);

#endif
