/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/fabric.h"

#define WRING_MODULE "memory"
#define WASTE 4 /* of a pool at most one part in so many is left unused */

static enum wring_status status_of_errno(void)
{
    return errno == ENOMEM || errno == EFBIG || errno == ENOSPC ? WRING_ERR_NO_MEMORY
                                                                : WRING_ERR_SYSTEM;
}

/** The size of a file's pages; 0 where it cannot be had. */
static size_t file_page_bytes(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && stat.st_blksize > 0 ? (size_t)stat.st_blksize : 0;
}

static bool is_too_much(size_t bytes)
{
    return bytes > (SIZE_MAX >> 1) - WRING_MEMORY_LARGE;
}

static size_t round_up(size_t bytes, size_t page)
{
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

/** @return what it lies on now, if large pages are wished for and the kernel agrees to join them */
static enum wring_memory_pages ask_for_large_pages(const struct wring_memory *memory, size_t bytes,
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
    size_t page = file_page_bytes(fd);
    void *base = MAP_FAILED;
    if (page == 0)
        goto close_fd;
    size_t whole_pages = round_up(bytes, page);
    errno = ENOMEM;
    if ((flags & MFD_HUGETLB) != 0 && (whole_pages - bytes) * WASTE > bytes)
        goto close_fd;
    /* sealed: a process that maps it must not be killed by our cutting it short */
    if (wring_memory_resize(fd, whole_pages) && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        base = mmap(NULL, whole_pages, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        goto close_fd;
    if (!wring_forked_keep_shared(base, whole_pages, fd, 0)) {
        munmap(base, whole_pages);
        errno = ENOMEM;
        goto close_fd;
    }
    *out = (struct wring_memory){
        .base = base, .bytes = whole_pages, .kind = WRING_MEMORY_SHARED, .fd = fd};
    return true;

close_fd:;
    wring_descriptor_close(fd);
    return false;
}

/**
 * Out of the pool of reserved pages. Touched at once: where a limit that is looked at late (a
 * control group's) takes a page back, that shall be an error here and not a signal later.
 */
static bool map_reserved_pages(size_t bytes, struct wring_memory *out)
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
    if (is_too_much(bytes))
        return WRING_ERR_NO_MEMORY;
    if (wish == WRING_PAGES_POOL && bytes >= WRING_MEMORY_LARGE && map_reserved_pages(bytes, out)) {
        *got = WRING_PAGES_POOL;
        return WRING_OK;
    }
    if (!map_file(bytes, 0, out))
        return status_of_errno();
    *got = ask_for_large_pages(out, bytes, wish);
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
    if (is_too_much(bytes))
        return WRING_ERR_NO_MEMORY;
    size_t whole_pages = round_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
    void *base = map_aligned(whole_pages);
    if (base == NULL)
        return status_of_errno();
    *out = (struct wring_memory){
        .base = base, .bytes = whole_pages, .kind = WRING_MEMORY_HOST, .fd = -1};
    *got = ask_for_large_pages(out, bytes, wish);
    return WRING_OK;
}

enum wring_status wring_memory_alloc(size_t bytes, struct wring_memory *out)
{
    enum wring_memory_pages got;
    return wring_memory_alloc_on(bytes, WRING_PAGES_SMALL, out, &got);
}

/** No child is to have it: it is no memory of the application's. */
static void memory_hide(const struct wring_memory *memory)
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

/** The file is no longer needed: the mapping stays, and devices have descriptors of their own. */
static void memory_close_file(struct wring_memory *memory)
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

/* ---- block ---- */

/** Refuse memory that only a device can reach: the device would have to export it, and the
 *  provider to take it so. */
static enum wring_status refuse_device_memory(const struct wring_block *block, uint32_t i)
{
    const struct wring_device *device = &block->fabric->devices[i];

    wring_error(block->fabric->log,
                "%zu bytes at %p are memory of device %" PRId32
                ", and provider %s %s: register host memory, and copy to it",
                block->memory.bytes, block->memory.base, block->memory.ordinal, device->name,
                device->caps.dmabuf_regions
                    ? "takes that as a dma-buf alone, which this version of wring does not export"
                    : "registers memory of the host alone");
    return WRING_ERR_UNSUPPORTED;
}

static bool takes_device_memory(const struct wring_provider_caps *caps,
                                const struct wring_memory *memory)
{
    return memory->fd >= 0 ? caps->dmabuf_regions : caps->device_regions && memory->by_address;
}

static enum wring_status register_with_devices(struct wring_block *block)
{
    struct wring_fabric *fabric = block->fabric;
    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        struct wring_provider *provider = fabric->devices[i].provider;
        if (block->memory.kind == WRING_MEMORY_HOST && !fabric->devices[i].caps.host_regions)
            continue;
        if (block->memory.kind == WRING_MEMORY_DEVICE &&
            !takes_device_memory(&fabric->devices[i].caps, &block->memory))
            return refuse_device_memory(block, i);
        enum wring_status status =
            provider->ops->region_create(provider, &block->memory, &block->regions[i]);
        if (status != WRING_OK)
            return status;
        block->regions[i]->place =
            (struct wring_memory_place){block->memory.kind, block->memory.ordinal};
    }
    return WRING_OK;
}

static enum wring_memory_pages wish_for_pages(const struct wring_config *config)
{
    if (strcmp(config->hugepages, "pool") == 0)
        return WRING_PAGES_POOL;
    return strcmp(config->hugepages, "thp") == 0 ? WRING_PAGES_TRANSPARENT : WRING_PAGES_SMALL;
}

/** Say once what buffers that are large enough lie on; a wish not met is worth a warning. */
static void tell_pages(struct wring_fabric *fabric, enum wring_memory_pages wish,
                       enum wring_memory_pages got, size_t bytes)
{
    static const char *const names[] = {"small pages", "large pages where the kernel makes them",
                                        "large pages out of the pool"};
    if (fabric->told_pages || bytes < WRING_MEMORY_LARGE)
        return;
    fabric->told_pages = true;
    if (got == WRING_PAGES_POOL || wish != WRING_PAGES_POOL)
        wring_debug(fabric->log, "buffers lie on %s", names[got]);
    else
        wring_warn(fabric->log,
                   "WRING_HUGEPAGES=pool: too few pages are free in it (vm.nr_hugepages) for %zu "
                   "bytes, or "
                   "rounding would waste too much; buffers lie on %s",
                   bytes, names[got]);
}

/** Does the kernel copy it for all devices? Then it need not be shared. Memory that others read
 *  needs a file's pages; so do devices, which fetch from where it lay before a fork. */
static bool is_sent_by_copy(const struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        if (!fabric->devices[i].caps.host_regions || !fabric->devices[i].caps.local_any)
            return false;
    return true;
}

static enum wring_status alloc_memory(const struct wring_fabric *fabric, size_t bytes,
                                      enum wring_memory_pages wish, struct wring_memory *out,
                                      enum wring_memory_pages *got)
{
    if (wish != WRING_PAGES_POOL && is_sent_by_copy(fabric))
        return wring_memory_alloc_own(bytes, wish, out, got);
    return wring_memory_alloc_on(bytes, wish, out, got);
}

static enum wring_status alloc_block(struct wring_fabric *fabric, size_t bytes, bool source_only,
                                     enum wring_memory_pages wish, struct wring_block *out)
{
    struct wring_block block = {.fabric = fabric, .owned = true};
    enum wring_memory_pages got;
    enum wring_status status = alloc_memory(fabric, bytes, wish, &block.memory, &got);
    if (status != WRING_OK) {
        wring_error(fabric->log, "no memory of %zu bytes: %s", bytes,
                    WRING_REFUSED("memfd_create, ftruncate or mmap"));
        return status;
    }
    tell_pages(fabric, wish, got, bytes);
    block.memory.source_only = source_only;
    status = register_with_devices(&block);
    if (status != WRING_OK) {
        wring_block_finish(&block);
        return status;
    }
    *out = block;
    return WRING_OK;
}

enum wring_status wring_block_alloc_data(struct wring_fabric *fabric, size_t bytes,
                                         struct wring_block *out)
{
    return alloc_block(fabric, bytes, false, wish_for_pages(fabric->config), out);
}

static enum wring_status alloc_hidden(struct wring_fabric *fabric, size_t bytes, bool source_only,
                                      enum wring_memory_pages wish, struct wring_block *out)
{
    enum wring_status status = alloc_block(fabric, bytes, source_only, wish, out);
    if (status != WRING_OK)
        return status;
    memory_hide(&out->memory);
    memory_close_file(&out->memory); /* a device's own descriptor is enough */
    return WRING_OK;
}

enum wring_status wring_block_alloc(struct wring_fabric *fabric, size_t bytes,
                                    struct wring_block *out)
{
    return alloc_hidden(fabric, bytes, false, wish_for_pages(fabric->config), out);
}

enum wring_status wring_block_alloc_sparse(struct wring_fabric *fabric, size_t bytes,
                                           struct wring_block *out)
{
    enum wring_memory_pages wish = wish_for_pages(fabric->config);
    if (wish == WRING_PAGES_TRANSPARENT && fabric->size > WRING_BLOCK_FEW_RANKS)
        wish = WRING_PAGES_SMALL;
    return alloc_hidden(fabric, bytes, false, wish, out);
}

enum wring_status wring_block_alloc_source(struct wring_fabric *fabric, size_t bytes,
                                           struct wring_block *out)
{
    return alloc_hidden(fabric, bytes, true, wish_for_pages(fabric->config), out);
}

enum wring_status wring_block_populate(const struct wring_block *block)
{
    enum wring_status status = wring_memory_populate(&block->memory);

    if (status == WRING_OK || status == WRING_ERR_UNSUPPORTED)
        return WRING_OK;
    wring_error(block->fabric->log, "no pages for %zu bytes: %s", block->memory.bytes,
                WRING_REFUSED("madvise(MADV_POPULATE_WRITE)"));
    return status;
}

enum wring_status wring_block_borrow(struct wring_fabric *fabric, void *base, size_t bytes,
                                     struct wring_memory_place place, struct wring_block *out)
{
    const struct wring_memory memory = {
        .base = base, .bytes = bytes, .kind = place.kind, .ordinal = place.ordinal, .fd = -1};
    return wring_block_borrow_memory(fabric, &memory, out);
}

enum wring_status wring_block_borrow_memory(struct wring_fabric *fabric,
                                            const struct wring_memory *memory,
                                            struct wring_block *out)
{
    struct wring_block block = {.fabric = fabric, .memory = *memory};
    enum wring_status status = register_with_devices(&block);
    block.memory.fd = -1;
    if (status != WRING_OK) {
        wring_block_finish(&block);
        return status;
    }
    *out = block;
    return WRING_OK;
}

bool wring_block_complete(const struct wring_block *block)
{
    for (uint32_t i = 0; i < block->fabric->n_devices; i++)
        if (block->regions[i] == NULL)
            return false;
    return true;
}

bool wring_block_sendable(const struct wring_fabric *fabric, const struct wring_block *block)
{
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        if (!fabric->devices[i].caps.local_any && (block == NULL || block->regions[i] == NULL))
            return false;
    return true;
}

void wring_block_finish(struct wring_block *block)
{
    for (uint32_t i = 0; i < WRING_DEVICES_MAX; i++) {
        if (block->regions[i] == NULL)
            continue;
        struct wring_provider *provider = block->regions[i]->provider;
        provider->ops->region_destroy(block->regions[i]);
        if (block->memory.source_only)
            provider->ops->memory_gone(provider, block->memory.base, block->memory.bytes);
    }
    if (block->owned)
        wring_memory_free(&block->memory);
    *block = (struct wring_block){0};
}

enum wring_status wring_block_flush(const struct wring_fabric *fabric,
                                    const struct wring_block *block, const void *at,
                                    struct wring_block_flush *flush)
{
    enum wring_status all = WRING_OK;

    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        struct wring_region *region = block->regions[i];
        if (region == NULL || flush->ended[i])
            continue;
        enum wring_status status =
            region->provider->ops->region_flush(region, at, &flush->tickets[i]);
        flush->ended[i] = status != WRING_ERR_AGAIN;
        if (status != WRING_OK && (all == WRING_OK || all == WRING_ERR_AGAIN))
            all = status;
    }
    return all;
}

enum wring_status wring_block_add_keys(const struct wring_block *block, struct wring_block *out)
{
    struct wring_block keys = {.fabric = block->fabric, .memory = block->memory};
    struct wring_fabric *fabric = block->fabric;

    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        struct wring_provider *provider = fabric->devices[i].provider;
        if (block->regions[i] == NULL || !wring_device_registers_freely(&fabric->devices[i]))
            continue;
        enum wring_status status =
            provider->ops->region_create(provider, &block->memory, &keys.regions[i]);
        if (status != WRING_OK) {
            wring_block_finish(&keys);
            return status;
        }
        keys.regions[i]->place = block->regions[i]->place;
    }
    *out = keys;
    return WRING_OK;
}

uint32_t wring_block_revoke(struct wring_block *keys)
{
    uint32_t revoked = 0;

    for (uint32_t i = 0; i < WRING_DEVICES_MAX; i++) {
        struct wring_region *region = keys->regions[i];
        if (region == NULL || region->provider->ops->region_revoke(region) != WRING_OK)
            continue;
        keys->regions[i] = NULL;
        revoked |= 1u << i;
    }
    return revoked;
}

void wring_block_export(const struct wring_block *block, const struct wring_block *keys,
                        struct wring_writer *out)
{
    uint8_t key[WRING_REGION_KEY_MAX];

    wring_write_u32(out, block->fabric->n_devices);
    for (uint32_t i = 0; i < block->fabric->n_devices; i++) {
        struct wring_region *region =
            keys != NULL && keys->regions[i] != NULL ? keys->regions[i] : block->regions[i];
        size_t bytes = region != NULL ? region->provider->ops->region_export(region, key) : 0;
        wring_write_sized(out, block->fabric->devices[i].name,
                          strlen(block->fabric->devices[i].name));
        wring_write_sized(out, key, bytes);
    }
}

/** Read what the peer exported, import it. Errors: WRING_ERR_FRAME, those of the provider. */
static enum wring_status block_import(struct wring_fabric *fabric, struct wring_peer *peer,
                                      struct wring_reader *in, struct wring_remote **out)
{
    const char *device = fabric->devices[peer->device].name;
    const void *key = NULL;
    size_t key_bytes = 0;

    uint32_t n_devices = wring_read_u32(in);
    for (uint32_t i = 0; i < n_devices && !in->failed; i++) {
        char name[WRING_NAME_BYTES];
        size_t bytes;
        wring_read_text(in, name, sizeof(name));
        const void *data = wring_read_sized(in, &bytes);
        if (strcmp(name, device) == 0) {
            key = data;
            key_bytes = bytes;
        }
    }
    if (in->failed || key_bytes == 0)
        return WRING_ERR_FRAME;
    return peer->conn->provider->ops->remote_import(peer->conn, key, key_bytes, out);
}

/** Room for one more. */
static bool grow_imports(struct wring_imports *imports)
{
    struct wring_import *grown = realloc(imports->all, (imports->n + 1) * sizeof(*grown));
    if (grown != NULL)
        imports->all = grown;
    return grown != NULL;
}

enum wring_status wring_imports_add(struct wring_imports *imports, struct wring_fabric *fabric,
                                    struct wring_peer *peer, struct wring_reader *in,
                                    struct wring_remote **out)
{
    if (!grow_imports(imports))
        return WRING_ERR_NO_MEMORY;
    if (peer->conn == NULL)
        return WRING_ERR_PEER;
    struct wring_provider *provider = peer->conn->provider;
    enum wring_status status = block_import(fabric, peer, in, out);
    if (status == WRING_OK)
        imports->all[imports->n++] = (struct wring_import){provider, *out};
    return status;
}

enum wring_status wring_imports_add_key(struct wring_imports *imports, struct wring_peer *peer,
                                        const void *key, size_t bytes, struct wring_remote **out)
{
    if (!grow_imports(imports))
        return WRING_ERR_NO_MEMORY;
    struct wring_provider *provider = peer->conn->provider;
    enum wring_status status = provider->ops->remote_import(peer->conn, key, bytes, out);
    if (status == WRING_OK)
        imports->all[imports->n++] = (struct wring_import){provider, *out};
    return status;
}

void wring_imports_finish(struct wring_imports *imports)
{
    for (uint32_t i = 0; i < imports->n; i++)
        imports->all[i].provider->ops->remote_release(imports->all[i].remote);
    free(imports->all);
    *imports = (struct wring_imports){0};
}
