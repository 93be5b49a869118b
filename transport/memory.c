/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/file_limit.h"

#define WASTE 4 /* of a pool at most one part in so many is left unused */

static enum wring_status status_of_errno(void)
{
    return errno == ENOMEM || errno == EFBIG || errno == ENOSPC ? WRING_ERR_NO_MEMORY
                                                                : WRING_ERR_SYSTEM;
}

/** The size of a file's pages; 0 where it cannot be had. */
static size_t page_of(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && stat.st_blksize > 0 ? (size_t)stat.st_blksize : 0;
}

static bool too_much(size_t bytes)
{
    return bytes > (SIZE_MAX >> 1) - WRING_MEMORY_LARGE;
}

static size_t round_up(size_t bytes, size_t page)
{
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

/** @return what it lies on now, if large pages are wished for and the kernel agrees to join them */
static enum wring_memory_pages ask_for_large(const struct wring_memory *memory, size_t bytes,
                                             enum wring_memory_pages wish)
{
    bool large = wish != WRING_PAGES_SMALL && bytes >= WRING_MEMORY_LARGE &&
                 madvise(memory->base, memory->bytes, MADV_HUGEPAGE) == 0;
    return large ? WRING_PAGES_TRANSPARENT : WRING_PAGES_SMALL;
}

bool wring_memory_resize(int fd, size_t bytes)
{
    struct wring_file_limit held;
    wring_file_limit_hold(&held);
    bool well = ftruncate(fd, (off_t)bytes) == 0;
    wring_file_limit_release(&held);
    return well;
}

/** Map a new file of whole pages. @param flags of memfd_create() @return false with errno */
static bool map_file(size_t bytes, unsigned flags, struct wring_memory *out)
{
    int fd = WRING_DESCRIPTOR(memfd_create("wring", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    if (fd < 0)
        return false;
    size_t page = page_of(fd);
    void *base = MAP_FAILED;
    if (page == 0)
        goto close_fd;
    size_t mapped = round_up(bytes, page);
    errno = ENOMEM;
    if ((flags & MFD_HUGETLB) != 0 && (mapped - bytes) * WASTE > bytes)
        goto close_fd;
    /* sealed: a process that maps it must not be killed by our cutting it short */
    if (wring_memory_resize(fd, mapped) && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        goto close_fd;
    if (!wring_forked_keep_shared(base, mapped, fd, 0)) {
        munmap(base, mapped);
        errno = ENOMEM;
        goto close_fd;
    }
    *out =
        (struct wring_memory){.base = base, .bytes = mapped, .kind = WRING_MEMORY_SHARED, .fd = fd};
    return true;

close_fd:;
    wring_descriptor_close(fd);
    return false;
}

/**
 * Out of the pool of reserved pages. Touched at once: where a limit that is looked at late (a
 * control group's) takes a page back, that shall be an error here and not a signal later.
 */
static bool map_pool(size_t bytes, struct wring_memory *out)
{
    if (!map_file(bytes, MFD_HUGETLB, out))
        return false;
    if (wring_memory_populate(out) == WRING_OK)
        return true;
    wring_memory_free(out);
    return false;
}

enum wring_status wring_memory_populate(const struct wring_memory *memory)
{
    if (memory->base == NULL || madvise(memory->base, memory->bytes, MADV_POPULATE_WRITE) == 0)
        return WRING_OK;
    if (errno == EINVAL)
        return WRING_ERR_UNSUPPORTED;
    return errno == EFAULT ? WRING_ERR_NO_MEMORY : status_of_errno();
}

enum wring_status wring_memory_alloc_on(size_t bytes, enum wring_memory_pages wish,
                                        struct wring_memory *out, enum wring_memory_pages *got)
{
    errno = ENOMEM;
    if (too_much(bytes))
        return WRING_ERR_NO_MEMORY;
    if (wish == WRING_PAGES_POOL && bytes >= WRING_MEMORY_LARGE && map_pool(bytes, out)) {
        *got = WRING_PAGES_POOL;
        return WRING_OK;
    }
    if (!map_file(bytes, 0, out))
        return status_of_errno();
    *got = ask_for_large(out, bytes, wish);
    return WRING_OK;
}

/** Where a large page can begin, at once: not every kernel sees to that. @return NULL with errno */
static void *map_aligned(size_t bytes)
{
    size_t spare = bytes < WRING_MEMORY_LARGE ? 0 : WRING_MEMORY_LARGE;
    uint8_t *base =
        mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return NULL;
    size_t before = spare == 0 ? 0 : -(uintptr_t)base & (WRING_MEMORY_LARGE - 1);
    if (before > 0)
        munmap(base, before);
    if (spare > before)
        munmap(base + before + bytes, spare - before);
    return base + before;
}

enum wring_status wring_memory_alloc_own(size_t bytes, enum wring_memory_pages wish,
                                         struct wring_memory *out, enum wring_memory_pages *got)
{
    errno = ENOMEM;
    if (too_much(bytes))
        return WRING_ERR_NO_MEMORY;
    size_t mapped = round_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
    void *base = map_aligned(mapped);
    if (base == NULL)
        return status_of_errno();
    *out =
        (struct wring_memory){.base = base, .bytes = mapped, .kind = WRING_MEMORY_HOST, .fd = -1};
    *got = ask_for_large(out, bytes, wish);
    return WRING_OK;
}

enum wring_status wring_memory_alloc(size_t bytes, struct wring_memory *out)
{
    enum wring_memory_pages got;
    return wring_memory_alloc_on(bytes, WRING_PAGES_SMALL, out, &got);
}

void wring_memory_hide(const struct wring_memory *memory)
{
    wring_forked_drop_shared(memory->base);
    wring_forked_hide(memory->base, memory->bytes);
}

size_t wring_memory_most(void)
{
    struct rlimit limit;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), most = SIZE_MAX / 2;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < most)
        most = (size_t)limit.rlim_cur;
    return most / page * page;
}

void wring_memory_close_file(struct wring_memory *memory)
{
    wring_descriptor_close(memory->fd);
    memory->fd = -1;
}

void wring_memory_free(struct wring_memory *memory)
{
    if (memory == NULL || memory->base == NULL)
        return;
    wring_forked_drop_shared(memory->base);
    munmap(memory->base, memory->bytes);
    wring_descriptor_close(memory->fd);
    *memory = (struct wring_memory){.fd = -1};
}
