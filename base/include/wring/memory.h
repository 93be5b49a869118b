/* SPDX-License-Identifier: Apache-2.0 */
/** Where memory lies, and which queue of a device's work uses it. */
#ifndef WRING_MEMORY_H
#define WRING_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The kinds of memory. Wherever a pointer is handed over, its kind goes with it. */
enum wring_memory_kind {
    WRING_MEMORY_HOST,   /* any memory of this process */
    WRING_MEMORY_SHARED, /* a mapping of a file, which another process can map as well */
    WRING_MEMORY_DEVICE, /* memory of an accelerator, at an address of its own that this process may
                            be unable to read */
};

/** Where memory lies. All zero is the memory of this process. */
struct wring_memory_place {
    enum wring_memory_kind kind;
    int32_t ordinal; /* DEVICE: which one, as its driver counts; else 0 */
};

/** A queue of an application's work on a device: a CUDA stream. Borrowed for the call. */
struct wring_stream {
    size_t struct_bytes;         /* sizeof(struct wring_stream) as the program was compiled */
    enum wring_memory_kind kind; /* of the memory that the queue works on: WRING_MEMORY_DEVICE */
    int32_t ordinal;             /* of the device, as its driver counts */
    void *handle;                /* CUstream or cudaStream_t; NULL: the device's default stream */
};

#ifdef __cplusplus
}
#endif
#endif
