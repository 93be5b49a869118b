/* SPDX-License-Identifier: Apache-2.0 */
/** Protection domains and regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/provider/mock/mock_inside.h"

#undef ibv_reg_mr /* the header's wrap the functions of those names */
#undef ibv_reg_mr_iova

#define PAGE 4096u
#define REMOTE_CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    if (mock_call_fails("ibv_alloc_pd"))
        return NULL;
    struct mock_pd *pd = calloc(1, sizeof(*pd));
    if (pd == NULL)
        return NULL;
    net_lock(mock_self.net);
    pd->base = (struct ibv_pd){.context = context, .handle = mock_self.net->next_pd++};
    mock_self.counts.pds++;
    net_unlock(mock_self.net);
    return &pd->base;
}

int ibv_dealloc_pd(struct ibv_pd *base)
{
    struct mock_pd *pd = (struct mock_pd *)base;
    net_lock(mock_self.net);
    unsigned users = pd->users;
    mock_self.counts.pds -= users == 0;
    net_unlock(mock_self.net);
    if (users > 0) {
        mock_misuse("ibv_dealloc_pd with %u regions and queue pairs", users);
        return EBUSY;
    }
    free(pd);
    return 0;
}

/** Are all its pages there? A device pins them. */
static bool is_mapped(const void *addr, size_t bytes)
{
    uintptr_t from = (uintptr_t)addr & ~(uintptr_t)(PAGE - 1);
    uintptr_t to = ((uintptr_t)addr + bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    return msync((void *)from, to - from, MS_ASYNC) == 0;
}

/** Can a core read it? What none can is a GPU's. */
static bool is_readable(const void *addr, size_t bytes)
{
    char byte;
    const struct iovec to = {&byte, 1};
    const struct iovec ends[] = {{(void *)(uintptr_t)addr, 1},
                                 {(char *)(uintptr_t)addr + bytes - 1, 1}};
    for (size_t i = 0; i < 2; i++)
        if (process_vm_readv(getpid(), &to, 1, &ends[i], 1, 0) != 1)
            return false;
    return true;
}

/** @return 0 or an errno */
static int check(const struct ibv_pd *pd, const void *addr, size_t bytes, unsigned access)
{
    const struct mock_context *context = (const struct mock_context *)verbs_get_ctx(pd->context);
    bool relaxed = (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
    if (bytes == 0 || ((access & REMOTE_CHANGES) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
        (access & (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND)) != 0)
        return EINVAL;
    if (relaxed && !mock_self.options.device[context->device->index].relaxed)
        return EOPNOTSUPP;
    return addr == NULL || is_mapped(addr, bytes) ? 0 : EFAULT;
}

/** Under the limit of locked memory. Locked. */
static int32_t take(size_t bytes)
{
    if (bytes > mock_self.options.memlock ||
        mock_self.counts.pinned_bytes > mock_self.options.memlock - bytes) {
        errno = ENOMEM;
        return -1;
    }
    return net_take_mr(mock_self.net);
}

static struct ibv_mr *enter(struct ibv_pd *pd, struct mock_mr *mr, void *host, uint64_t iova,
                            size_t bytes, unsigned access)
{
    const struct mock_context *context = (const struct mock_context *)verbs_get_ctx(pd->context);
    net_lock(mock_self.net);
    int32_t index = take(bytes);
    if (index >= 0) {
        struct net_mr *shared = &mock_self.net->mrs[index];
        shared->pd = pd->handle;
        shared->iova = iova;
        shared->host = (uintptr_t)host;
        shared->bytes = bytes;
        shared->access = access;
        shared->late =
            mr->mapping != NULL && mock_self.options.device[context->device->index].late != 0;
        uint32_t key = (uint32_t)index << 8 | shared->generation;
        mr->index = (uint32_t)index;
        mr->base = (struct ibv_mr){pd->context, pd, host, bytes, key, key, key};
        ((struct mock_pd *)pd)->users++;
        mock_self.counts.mrs++;
        mock_self.counts.registrations++;
        mock_self.counts.relaxed_registrations += (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
        mock_self.counts.dmabuf_registrations += mr->mapping != NULL;
        mock_self.counts.local_registrations += (access & IBV_ACCESS_REMOTE_WRITE) == 0;
        mock_self.counts.pinned_bytes += bytes;
    }
    net_unlock(mock_self.net);
    return index >= 0 ? &mr->base : NULL;
}

/** Any file that can be mapped stands in for a dma-buf. */
static bool map_dmabuf(struct mock_mr *mr, uint64_t offset, size_t bytes, int fd)
{
    uint64_t from = offset / PAGE * PAGE;
    mr->mapping_bytes = bytes + (size_t)(offset - from);
    mr->mapping =
        mmap(NULL, mr->mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);
    return mr->mapping != MAP_FAILED;
}

/** Where the device finds memory that no core can read. @return false: it does not */
static bool map_peer_memory(const struct ibv_pd *pd, struct mock_mr *mr, const void *addr,
                            size_t bytes, void **host)
{
    const struct mock_context *context = (const struct mock_context *)verbs_get_ctx(pd->context);
    uintptr_t from = (uintptr_t)addr;
    const struct mock_peer_memory *at = mock_self.peer_memory;
    const struct mock_peer_memory *end = at + mock_self.n_peer_memory;

    while (at < end && (from < at->from || from + bytes > at->to))
        at++;
    if (at == end || !mock_self.options.device[context->device->index].peermem ||
        !map_dmabuf(mr, from - at->from, bytes, at->fd)) {
        mr->mapping = NULL;
        return false;
    }
    *host = (uint8_t *)mr->mapping + (from - at->from) % PAGE;
    return true;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
                                unsigned access)
{
    if (mock_call_fails("ibv_reg_mr"))
        return NULL;
    int error = check(pd, addr, bytes, access);
    struct mock_mr *mr = error == 0 ? calloc(1, sizeof(*mr)) : NULL;
    void *host = addr;
    if (mr != NULL && !is_readable(addr, bytes) && !map_peer_memory(pd, mr, addr, bytes, &host)) {
        free(mr);
        mr = NULL;
        error = EFAULT;
    }
    if (mr == NULL) {
        errno = error != 0 ? error : ENOMEM;
        return NULL;
    }
    struct ibv_mr *entered = enter(pd, mr, host, iova, bytes, access);
    if (entered == NULL) {
        if (mr->mapping != NULL)
            munmap(mr->mapping, mr->mapping_bytes);
        free(mr);
    }
    return entered;
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
                               int access)
{
    return ibv_reg_mr_iova2(pd, addr, bytes, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
    return ibv_reg_mr_iova2(pd, addr, bytes, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                 int fd, int access)
{
    const struct mock_context *context = (const struct mock_context *)verbs_get_ctx(pd->context);
    if (mock_call_fails("ibv_reg_dmabuf_mr"))
        return NULL;
    int error = mock_self.options.device[context->device->index].dmabuf ? 0 : EOPNOTSUPP;
    if (error == 0 && (offset % PAGE != iova % PAGE))
        error = EINVAL;
    if (error == 0 && fd < 0)
        error = EBADF; /* so it can be asked for without a buffer */
    if (error == 0)
        error = check(pd, NULL, bytes, (unsigned)access);
    struct mock_mr *mr = error == 0 ? calloc(1, sizeof(*mr)) : NULL;
    if (mr == NULL) {
        errno = error != 0 ? error : ENOMEM;
        return NULL;
    }
    struct ibv_mr *entered = NULL;
    if (map_dmabuf(mr, offset, bytes, fd)) {
        entered =
            enter(pd, mr, (uint8_t *)mr->mapping + offset % PAGE, iova, bytes, (unsigned)access);
        if (entered == NULL)
            munmap(mr->mapping, mr->mapping_bytes);
    }
    if (entered == NULL)
        free(mr);
    else
        entered->addr = NULL; /* as there is none that the processor knows */
    return entered;
}

int ibv_dereg_mr(struct ibv_mr *base)
{
    struct mock_mr *mr = (struct mock_mr *)base;
    net_lock(mock_self.net);
    mock_self.net->mrs[mr->index].pid = 0;
    ((struct mock_pd *)base->pd)->users--;
    mock_self.counts.mrs--;
    mock_self.counts.pinned_bytes -= base->length;
    net_unlock(mock_self.net);
    if (mr->mapping != NULL)
        munmap(mr->mapping, mr->mapping_bytes);
    free(mr);
    return 0;
}
