/* SPDX-License-Identifier: Apache-2.0 */
/* A library of the CUDA driver's name, with a few functions of its interface and a made-up device.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define BYTES (1u << 20)
#define INVALID_VALUE 1

__attribute__((visibility("default"))) int cuPointerGetAttribute(void *data, int attribute,
                                                                 unsigned long long pointer);
__attribute__((visibility("default"))) void *fake_memory(int managed);

__attribute__((visibility("default"))) int cuDeviceGetCount(int *n);
__attribute__((visibility("default"))) int cuDeviceGet(int *device, int ordinal);
__attribute__((visibility("default"))) int cuDeviceGetAttribute(int *value, int attribute,
                                                                int device);
__attribute__((visibility("default"))) void fake_dmabufs(int exported);

static int exports_dmabufs = 1;

void fake_dmabufs(int exported)
{
    exports_dmabufs = exported;
}

int cuDeviceGetCount(int *n)
{
    *n = 1;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal + 100; /* a handle is no ordinal */
    return ordinal == 0 ? 0 : INVALID_VALUE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    if (attribute != 124 || device != 100) /* can it export memory as a dma-buf? */
        return INVALID_VALUE;
    *value = exports_dmabufs;
    return 0;
}

/** Nobody but a device can touch the first one. */
static struct {
    void *base;
    int managed, ordinal;
} memories[2];

void *fake_memory(int managed)
{
    if (memories[managed].base == NULL) {
        void *base = mmap(NULL, BYTES, managed ? PROT_READ | PROT_WRITE : PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memories[managed].base = base != MAP_FAILED ? base : NULL;
        memories[managed].managed = managed;
        memories[managed].ordinal = 3;
    }
    return memories[managed].base;
}

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer)
{
    for (int i = 0; i < 2; i++) {
        unsigned long long base = (uintptr_t)memories[i].base;
        if (base == 0 || pointer < base || pointer >= base + BYTES)
            continue;
        switch (attribute) {
        case 2: /* the type of memory: a device's */
            *(unsigned *)data = 2;
            return 0;
        case 8: /* is it managed? */
            *(unsigned *)data = (unsigned)memories[i].managed;
            return 0;
        case 9: /* the device's ordinal */
            *(int *)data = memories[i].ordinal;
            return 0;
        default:
            return INVALID_VALUE;
        }
    }
    return INVALID_VALUE;
}
