/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/device_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void device_memory_create(struct device_memory *memory, size_t bytes)
{
    int fd = memfd_create("stands in for a dma-buf", MFD_CLOEXEC);
    bool good = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0;

    *memory = (struct device_memory){.bytes = bytes, .fd = fd};
    memory->base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory->seen = good ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory->base == MAP_FAILED || memory->seen == MAP_FAILED) {
        perror("device memory");
        abort();
    }
}

void device_memory_destroy(struct device_memory *memory)
{
    munmap(memory->base, memory->bytes);
    munmap(memory->seen, memory->bytes);
    close(memory->fd);
}
