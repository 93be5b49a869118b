/* SPDX-License-Identifier: Apache-2.0 */
/** Memory of a device that is not there: a file stands in for its dma-buf. */
#ifndef WRING_TESTS_DEVICE_MEMORY_H
#define WRING_TESTS_DEVICE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/** A core that touches anything at `base` ends the process; `seen` is what the device itself sees.
 */
struct device_memory {
    size_t bytes;
    int fd;
    uint8_t *base, *seen;
};

/** Zeroed. @param bytes  whole pages. Ends the process where there is no memory. */
void device_memory_create(struct device_memory *memory, size_t bytes);
void device_memory_destroy(struct device_memory *memory);

#endif
