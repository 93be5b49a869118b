/* SPDX-License-Identifier: Apache-2.0 */
/* A library of the CUDA driver's name, with one function of its interface and made-up devices. */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define BYTES (1u << 20)
#define INVALID_VALUE 1

__attribute__((visibility("default"))) int cuPointerGetAttribute(void *data, int attribute,
                                                                 unsigned long long pointer);
__attribute__((visibility("default"))) void *fake_memory(int managed);

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
