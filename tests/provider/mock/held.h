/* SPDX-License-Identifier: Apache-2.0 */
/** All that connections over the mock take, so that it can be told whether something stays. */
#ifndef WRING_TESTS_HELD_H
#define WRING_TESTS_HELD_H

#include <stddef.h>

#include "tests/provider/mock/mock.h"

struct held {
    struct mock_counts counts; /* contexts, domains, regions, queue pairs, completion queues */
    int fds;
    size_t heap_bytes; /* in use; with GLIBC_TUNABLES=glibc.malloc.tcache_count=0 */
    size_t private_bytes, mapped_bytes; /* of the whole process: pages in memory, addresses */
};

/** What this process holds now. */
struct held held_now(void);

/** A failed check for each kind of which there is more than before, or less. */
void held_compare(const struct held *before, const struct held *after);

#endif
