/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Registered memory, and flushes of it.
 *
 * Memory of the host needs no registration: what tcp sends and shm reads lies where it is, and
 * verbs copies it through slots of its own. Device memory is registered with the path of the
 * connection's link, which finds it by its address when it is sent or received.
 */
#include "dropin/nccl/nccl_own.h"

#include <stdlib.h>

struct wring_nccl_region {          /* all under the mutex */
    struct wring_nccl_region *next; /* of its link */
    struct wring_nccl_link *link;   /* NULL: it is gone, and the block with it */
    struct wring_nccl_comm *comm;   /* NULL: closed */
    struct wring_nccl_block *block;
    bool left; /* NCCL has deregistered it while requests were under way */
};

static char any_memory; /* what all registrations of the host's memory are */

static bool takes_device_memory(const struct wring_nccl_comm *comm)
{
    return comm->link != NULL && comm->link->device->cuda;
}

static int refuse_memory(const struct wring_nccl_comm *comm, const char *what)
{
    if (comm->link == NULL)
        return comm->failed;
    wring_nccl_say(WRING_NCCL_LOG_WARN,
                   "wring: %s cannot be registered with device %s, %s: ptrSupport says so", what,
                   comm->link->device->name, comm->link->device->about);
    return WRING_NCCL_INVALID_USAGE;
}

/** @return NCCL's code */
static int register_with_path(struct wring_nccl_comm *comm, const struct wring_memory *what,
                              const char *kind, void **mhandle)
{
    struct wring_nccl_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_NCCL_SYSTEM_ERROR;
    enum wring_status status = wring_nccl_path_register(&comm->link->path, what, &region->block);
    if (status != WRING_OK) {
        char why[256];
        wring_nccl_path_why(&comm->link->path, why, sizeof(why));
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: %s of %zu bytes cannot be registered with device %s: %s%s%s", kind,
                       what->bytes, comm->link->device->name, wring_status_text(status),
                       why[0] != '\0' ? ": " : "", why);
        free(region);
        return wring_nccl_code_of(status);
    }
    pthread_mutex_lock(&wring_nccl_own.mutex);
    region->link = comm->link;
    region->comm = comm;
    region->next = comm->link->regions;
    comm->link->regions = region;
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    *mhandle = region;
    return WRING_NCCL_SUCCESS;
}

int wring_nccl_reg_mr(void *comm_, void *data, size_t bytes, int memory, void **mhandle)
{
    struct wring_nccl_comm *comm = comm_;
    const struct wring_memory what = {.base = data,
                                      .bytes = bytes,
                                      .kind = WRING_MEMORY_DEVICE,
                                      .fd = -1,
                                      .by_address = true,
                                      .common = true};

    *mhandle = NULL;
    if (memory == WRING_NCCL_HOST) {
        *mhandle = &any_memory;
        return WRING_NCCL_SUCCESS;
    }
    if (memory != WRING_NCCL_CUDA)
        return refuse_memory(comm, "memory of an unknown kind");
    if (comm->link == NULL || !comm->link->device->addresses)
        return refuse_memory(comm, "device memory without a dma-buf");
    return register_with_path(comm, &what, "device memory", mhandle);
}

int wring_nccl_reg_mr_dmabuf(void *comm_, void *data, size_t bytes, int memory, uint64_t offset,
                             int fd, void **mhandle)
{
    struct wring_nccl_comm *comm = comm_;
    const struct wring_memory what = {.base = data,
                                      .bytes = bytes,
                                      .kind = WRING_MEMORY_DEVICE,
                                      .fd = fd,
                                      .fd_offset = offset,
                                      .common = true};

    *mhandle = NULL;
    if (memory != WRING_NCCL_CUDA || comm->link == NULL || !comm->link->device->dmabuf)
        return refuse_memory(comm, "a dma-buf");
    return register_with_path(comm, &what, "a dma-buf", mhandle);
}

/** No request uses it. The mutex is held, so that its link cannot go. */
static void give_region_back(struct wring_nccl_region *region)
{
    if (region->link != NULL) {
        struct wring_nccl_region **at = &region->link->regions;
        while (*at != region)
            at = &(*at)->next;
        *at = region->next;
        wring_nccl_path_forget(&region->link->path, region->block);
    }
    free(region);
}

int wring_nccl_dereg_mr(void *comm, void *mhandle)
{
    struct wring_nccl_region *region = mhandle;

    (void)comm; /* NCCL may have closed it */
    if (mhandle == NULL || mhandle == &any_memory)
        return WRING_NCCL_SUCCESS;
    pthread_mutex_lock(&wring_nccl_own.mutex);
    if (region->link != NULL && region->comm != NULL && region->comm->n_busy > 0)
        region->left = true; /* its comm gives them up as it is closed */
    else
        give_region_back(region);
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    return WRING_NCCL_SUCCESS;
}

void wring_nccl_regions_leave(struct wring_nccl_comm *comm)
{
    for (struct wring_nccl_region *at = comm->link->regions, *next; at != NULL; at = next) {
        next = at->next;
        if (at->comm != comm)
            continue;
        at->comm = NULL;
        if (at->left)
            give_region_back(at);
    }
}

void wring_nccl_regions_part(struct wring_nccl_link *link)
{
    for (struct wring_nccl_region *at = link->regions, *next; at != NULL; at = next) {
        next = at->next;
        at->link = NULL;
        if (at->left)
            free(at);
    }
    link->regions = NULL;
}

bool wring_nccl_region_holds(const struct wring_nccl_comm *comm, const void *mhandle,
                             const void *data, size_t bytes)
{
    const struct wring_nccl_region *region = mhandle;

    if (mhandle == NULL || mhandle == &any_memory)
        return true;
    const struct wring_memory *memory = &region->block->block.memory;
    size_t at = (size_t)((uintptr_t)data - (uintptr_t)memory->base);
    if (at <= memory->bytes && bytes <= memory->bytes - at)
        return true;
    wring_nccl_say(WRING_NCCL_LOG_WARN,
                   "wring: %s %s: %zu bytes at %p are not in the memory that was registered for "
                   "them, %zu bytes at %p",
                   comm->sends ? "sending to" : "receiving from", comm->link->name, bytes, data,
                   memory->bytes, memory->base);
    return false;
}

bool wring_nccl_is_on_device(const struct wring_nccl_comm *comm, const void *data, uint64_t bytes)
{
    return takes_device_memory(comm) && bytes > 0 &&
           wring_nccl_path_is_on_device(&comm->link->path, data, (size_t)bytes);
}

/* ---- flushes ---- */

/** One that NCCL has deregistered meanwhile is not there any more. */
static bool is_still_registered(const struct wring_nccl_link *link,
                                const struct wring_nccl_region *region)
{
    pthread_mutex_lock(&wring_nccl_own.mutex);
    const struct wring_nccl_region *at = link->regions;
    while (at != NULL && at != region)
        at = at->next;
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    return at != NULL;
}

enum wring_status wring_nccl_flush_look(struct wring_nccl_request *request)
{
    struct wring_nccl_link *link = request->comm->link;

    if (!is_still_registered(link, request->flushed))
        return WRING_OK; /* nobody will look at it */
    return wring_nccl_path_flush(&link->path, request->flushed->block, request->flushed_at,
                                 &request->flush);
}

/** The last buffer into which an adapter wrote; it wrote into the others before. -1: none */
static int find_last_written(int n, const int *bytes, void **mhandles)
{
    while (--n >= 0)
        if (bytes[n] > 0 && mhandles[n] != NULL && mhandles[n] != &any_memory)
            break;
    return n;
}

bool wring_nccl_flush_aim(const struct wring_nccl_comm *comm, int n, void **data, const int *bytes,
                          void **mhandles, const struct wring_nccl_region **region, const void **at)
{
    int last = takes_device_memory(comm) ? find_last_written(n, bytes, mhandles) : -1;

    if (last < 0)
        return false;
    *region = mhandles[last];
    *at = (const char *)data[last] + bytes[last] - 1;
    return true;
}
