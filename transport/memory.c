/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static enum wring_status status_of_errno(void)
{
    return errno == ENOMEM || errno == EFBIG || errno == ENOSPC ? WRING_ERR_NO_MEMORY
                                                                : WRING_ERR_SYSTEM;
}

enum wring_status wring_memory_alloc(size_t bytes, struct wring_memory *out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > (SIZE_MAX >> 1) - page)
        return WRING_ERR_NO_MEMORY;
    size_t mapped = bytes == 0 ? page : (bytes + page - 1) / page * page;

    int fd = memfd_create("wring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return status_of_errno();

    enum wring_status status;
    void *base = MAP_FAILED;
    /* sealed: a process that maps it must not be killed by our cutting it short */
    if (ftruncate(fd, (off_t)mapped) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        status = status_of_errno();
        goto close_fd;
    }

    *out =
        (struct wring_memory){.base = base, .bytes = mapped, .kind = WRING_MEMORY_SHARED, .fd = fd};
    return WRING_OK;

close_fd:;
    int saved = errno;
    close(fd);
    errno = saved;
    return status;
}

void wring_memory_free(struct wring_memory *memory)
{
    if (memory == NULL || memory->base == NULL)
        return;
    munmap(memory->base, memory->bytes);
    close(memory->fd);
    *memory = (struct wring_memory){.fd = -1};
}
