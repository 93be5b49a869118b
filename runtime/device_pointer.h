/* SPDX-License-Identifier: Apache-2.0 */
/** Whose memory a pointer leads to. */
#ifndef WRING_RUNTIME_DEVICE_POINTER_H
#define WRING_RUNTIME_DEVICE_POINTER_H

#include <wring/memory.h>

/**
 * Ask the CUDA driver, if the process has loaded its library already: whoever has not owns no
 * pointer into a device. Memory that the driver moves to whoever touches it (managed, and pinned
 * host memory) counts as the host's.
 *
 * For registrations: it looks the library up each time. Threads: safe.
 *
 * @return WRING_MEMORY_DEVICE and its ordinal, or WRING_MEMORY_HOST
 */
struct wring_memory_place wring_pointer_place(const void *pointer);

#endif
