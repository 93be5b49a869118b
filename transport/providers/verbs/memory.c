/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/memory.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/log.h"
#include "transport/providers/verbs/adapter.h"
#include "transport/providers/verbs/library.h"
#include "transport/providers/verbs/verbs.h"

#define WRING_MODULE "verbs"

static void unlink_entry(struct verbs_cache *cache, struct verbs_entry *entry)
{
    *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void link_newest(struct verbs_cache *cache, struct verbs_entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void drop_entry(struct verbs_cache *cache, struct verbs_entry *entry)
{
    unlink_entry(cache, entry);
    cache->drop(cache->arg, entry);
}

struct verbs_entry *wring_verbs_cache_take(struct verbs_cache *cache, uintptr_t begin, size_t bytes)
{
    for (struct verbs_entry *at = cache->newest; at != NULL; at = at->older) {
        if (at->gone || begin < at->begin || begin > at->end || bytes > at->end - begin)
            continue;
        if (at->users++ == 0)
            cache->idle_bytes -= at->end - at->begin;
        unlink_entry(cache, at);
        link_newest(cache, at);
        return at;
    }
    return NULL;
}

void wring_verbs_cache_add(struct verbs_cache *cache, struct verbs_entry *entry)
{
    entry->users = 1;
    entry->gone = false;
    link_newest(cache, entry);
}

void wring_verbs_cache_release(struct verbs_cache *cache, struct verbs_entry *entry)
{
    assert(entry->users > 0);
    if (--entry->users > 0)
        return;
    if (entry->gone) {
        drop_entry(cache, entry);
        return;
    }
    unlink_entry(cache, entry); /* letting go of it was a use */
    link_newest(cache, entry);
    cache->idle_bytes += entry->end - entry->begin;
    wring_verbs_cache_shrink(cache, cache->budget);
}

/** Drop one that has no user. */
static void drop_idle_entry(struct verbs_cache *cache, struct verbs_entry *entry)
{
    cache->idle_bytes -= entry->end - entry->begin;
    drop_entry(cache, entry);
}

void wring_verbs_cache_gone(struct verbs_cache *cache, uintptr_t begin, size_t bytes)
{
    struct verbs_entry *older;
    for (struct verbs_entry *at = cache->newest; at != NULL; at = older) {
        older = at->older;
        bool apart = begin >= at->end || (begin < at->begin && bytes <= at->begin - begin);
        if (apart)
            continue;
        at->gone = true;
        if (at->users == 0)
            drop_idle_entry(cache, at);
    }
}

bool wring_verbs_cache_shrink(struct verbs_cache *cache, uint64_t bytes)
{
    struct verbs_entry *newer;
    bool any = false;
    for (struct verbs_entry *at = cache->oldest; at != NULL && cache->idle_bytes > bytes;
         at = newer) {
        newer = at->newer;
        if (at->users > 0)
            continue;
        drop_idle_entry(cache, at);
        any = true;
    }
    return any;
}

/* ---- registration ---- */

static bool wants_relaxed(const struct verbs_memory_params *params)
{
    const char *wish = params->config != NULL ? params->config->verbs_relaxed_ordering : "auto";
    bool can = params->library->reg_mr_iova2 != NULL;
    if (strcmp(wish, "on") == 0 && !can)
        wring_warn(params->log, "WRING_VERBS_RELAXED_ORDERING=on: this libibverbs does not know it "
                                "(rdma-core before 28); writes stay in order");
    return can && strcmp(wish, "off") != 0;
}

static void registrar_init(struct verbs_registrar *registrar,
                           const struct verbs_memory_params *params)
{
    *registrar = (struct verbs_registrar){.params = *params, .relaxed = wants_relaxed(params)};
}

/** Explain how a limit on locked memory may be the cause. @param text out, [bytes] */
static void explain_limit(const struct verbs_registrar *registrar, uint64_t need, char *text,
                          size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        snprintf(text, bytes,
                 "locked memory is not limited (ulimit -l): the system or the device "
                 "is out of memory");
        return;
    }
    snprintf(text, bytes,
             "this process may lock %" PRIu64 " bytes (ulimit -l %" PRIu64 "); wring has %" PRIu64
             " registered and needs %" PRIu64 " more, counted once per device. Raise the limit: "
             "ulimit -l unlimited, memlock in limits.conf, LimitMEMLOCK= of a service, --ulimit "
             "memlock of a container",
             (uint64_t)limit.rlim_cur, (uint64_t)limit.rlim_cur / 1024, registrar->bytes, need);
}

/** Log why a rail's device did not take it. @return the status that stands for it */
static enum wring_status log_register_refusal(const struct verbs_registrar *registrar,
                                              const struct verbs_pin *pin, unsigned rail,
                                              const struct wring_memory *what, int error)
{
    const struct wring_log *log = registrar->params.log;
    const char *device = registrar->params.rails[rail].device;
    size_t bytes = pin->bytes;
    char limit[384];
    if (error == ENOMEM || error == EAGAIN) {
        explain_limit(registrar, (uint64_t)bytes * (registrar->params.n_rails - rail), limit,
                      sizeof(limit));
        wring_error(log, "cannot register %zu bytes with %s: %s; %s", bytes, device,
                    strerrordesc_np(error), limit);
        return WRING_ERR_NO_MEMORY;
    }
    bool dmabuf = what->kind == WRING_MEMORY_DEVICE && what->fd >= 0;
    bool by_address = what->kind == WRING_MEMORY_DEVICE && what->fd < 0;
    wring_error(log, "cannot register %zu bytes%s with %s: %s%s", bytes,
                dmabuf       ? " of a dma-buf"
                : by_address ? " of a GPU"
                             : "",
                device, strerrordesc_np(error),
                by_address && error == EFAULT ? ": the kernel does not know the address: load "
                                                "nvidia_peermem, or set WRING_VERBS_PEERMEM=off"
                                              : "");
    if (by_address && error == EFAULT)
        return WRING_ERR_UNSUPPORTED;
    if (error == EFAULT || (dmabuf && error == EBADF))
        return WRING_ERR_INVALID; /* nothing is mapped there, or the descriptor is none */
    return dmabuf && (error == EOPNOTSUPP || error == EPROTONOSUPPORT) ? WRING_ERR_UNSUPPORTED
                                                                       : WRING_ERR_DEVICE;
}

static int access_of(const struct verbs_registrar *registrar, enum verbs_pin_use use)
{
    int access = use == VERBS_PIN_SOURCE ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    return use == VERBS_PIN_TARGET && registrar->relaxed ? access | IBV_ACCESS_RELAXED_ORDERING
                                                         : access;
}

/** A registration to be made. */
struct making {
    struct verbs_registrar *registrar;
    unsigned rail;
    const struct verbs_pin *pin;
    const struct wring_memory *what;
    int access;
};

static struct ibv_mr *call_device(const struct making *making)
{
    const struct verbs_library *library = making->registrar->params.library;
    struct ibv_pd *pd = making->registrar->params.rails[making->rail].pd;
    const struct wring_memory *what = making->what;
    const struct verbs_pin *pin = making->pin;
    int access = making->access;

    if (what->kind == WRING_MEMORY_DEVICE && what->fd >= 0)
        return library->reg_dmabuf_mr(pd, what->fd_offset, pin->bytes, (uintptr_t)pin->base,
                                      what->fd, access);
    if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0)
        return library->reg_mr_iova2(pd, pin->base, pin->bytes, (uintptr_t)pin->base,
                                     (unsigned)access);
    return library->reg_mr(pd, pin->base, pin->bytes, access);
}

/** As an adapter wants it. */
static struct ibv_mr *make_mr(void *arg)
{
    const struct making *making = arg;
    struct ibv_mr *mr = call_device(making);
    making->registrar->made += mr != NULL;
    return mr;
}

/** Sources, whose owners say when they go; and what its owner calls common. */
static bool is_common(const struct wring_memory *what, enum verbs_pin_use use)
{
    return what->common || (use == VERBS_PIN_SOURCE && what->kind != WRING_MEMORY_DEVICE);
}

static struct ibv_mr *register_one(struct verbs_registrar *registrar, unsigned rail,
                                   struct verbs_pin *pin, const struct wring_memory *what,
                                   enum verbs_pin_use use)
{
    struct verbs_adapter *adapter = registrar->params.rails[rail].adapter;
    struct making making = {registrar, rail, pin, what, access_of(registrar, use)};
    if (adapter == NULL || !is_common(what, use))
        return make_mr(&making);
    bool dmabuf = what->kind == WRING_MEMORY_DEVICE && what->fd >= 0;
    const struct verbs_share_key key = {(uintptr_t)pin->base, pin->bytes, (unsigned)making.access,
                                        dmabuf};
    pin->shares[rail] = wring_verbs_share_take(adapter, &key, make_mr, &making);
    return pin->shares[rail] != NULL ? pin->shares[rail]->mr : NULL;
}

/** A device, or the kernel, that refuses the flag gets its registrations without it from then on.
 */
static bool give_up_relaxed(struct verbs_registrar *registrar, unsigned rail,
                            enum verbs_pin_use use, int error)
{
    if (use != VERBS_PIN_TARGET || !registrar->relaxed || (error != EINVAL && error != EOPNOTSUPP))
        return false;
    registrar->relaxed = false;
    wring_info(registrar->params.log,
               "%s refuses relaxed ordering, or the memory: writes stay in order",
               registrar->params.rails[rail].device);
    return true;
}

/**
 * Register [pin->base, pin->base + pin->bytes) with each rail where it is not yet.
 * @param rail  out, where it failed
 * @return 0 or an errno
 */
static int register_pin(struct verbs_registrar *registrar, struct verbs_pin *pin,
                        const struct wring_memory *what, enum verbs_pin_use use, unsigned *rail)
{
    for (unsigned i = 0; i < registrar->params.n_rails; i++) {
        if (pin->mrs[i] != NULL)
            continue; /* of a first try */
        errno = 0;
        pin->mrs[i] = register_one(registrar, i, pin, what, use);
        if (pin->mrs[i] == NULL && give_up_relaxed(registrar, i, use, errno))
            pin->mrs[i] = register_one(registrar, i, pin, what, use);
        if (pin->mrs[i] == NULL) {
            *rail = i;
            return errno != 0 ? errno : EIO;
        }
        registrar->bytes += pin->bytes;
    }
    return 0;
}

/** Take back what rails of it are registered. */
static void deregister_pin(struct verbs_registrar *registrar, struct verbs_pin *pin)
{
    for (unsigned i = 0; i < registrar->params.n_rails; i++)
        if (pin->mrs[i] != NULL) {
            if (pin->shares[i] != NULL)
                wring_verbs_share_drop(registrar->params.rails[i].adapter, pin->shares[i]);
            else
                registrar->params.library->dereg_mr(pin->mrs[i]);
            pin->shares[i] = NULL;
            pin->mrs[i] = NULL;
            registrar->bytes -= pin->bytes;
        }
}

/* ---- memory ---- */

#define CACHE_BYTES (UINT64_C(1) << 30) /* where there is no config */

struct verbs_memory {
    struct verbs_registrar registrar;
    bool dmabuf, addresses; /* of devices */
    size_t page;
    struct verbs_cache sources;
    struct pin *pins; /* that no cache has */
    struct verbs_region *regions;
};

struct pin {
    struct verbs_pin base;
    struct verbs_entry entry; /* of a source */
    bool shared;              /* it is in the cache */
    struct pin *next, **link; /* if not */
};

static struct pin *pin_of(struct verbs_entry *entry)
{
    return (struct pin *)((char *)entry - offsetof(struct pin, entry));
}

/** Take back what is registered of it, and free it. */
static void destroy_pin(struct verbs_memory *memory, struct pin *pin)
{
    deregister_pin(&memory->registrar, &pin->base);
    free(pin);
}

static void drop_source(void *arg, struct verbs_entry *entry)
{
    destroy_pin(arg, pin_of(entry));
}

enum wring_status wring_verbs_memory_create(const struct verbs_memory_params *params,
                                            struct verbs_memory **out)
{
    struct verbs_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    registrar_init(&memory->registrar, params);
    memory->page = (size_t)sysconf(_SC_PAGESIZE);
    memory->sources = (struct verbs_cache){
        .budget = params->config != NULL ? params->config->verbs_cache_bytes : CACHE_BYTES,
        .drop = drop_source,
        .arg = memory,
    };
    memory->addresses =
        params->config != NULL && wring_verbs_takes_addresses(params->config->verbs_peermem);
    memory->dmabuf = true;
    for (unsigned i = 0; i < params->n_rails; i++)
        memory->dmabuf &= wring_verbs_takes_dmabuf(params->library, params->rails[i].pd);
    *out = memory;
    return WRING_OK;
}

void wring_verbs_memory_destroy(struct verbs_memory *memory)
{
    if (memory == NULL)
        return;
    while (memory->regions != NULL)
        wring_verbs_region_destroy(&memory->regions->base);
    while (memory->pins != NULL)
        wring_verbs_unpin(memory, &memory->pins->base);
    while (memory->sources.newest != NULL) {
        memory->sources.newest->users = 1; /* the last one lets go, for good */
        memory->sources.newest->gone = true;
        wring_verbs_cache_release(&memory->sources, memory->sources.newest);
    }
    free(memory);
}

bool wring_verbs_memory_takes_dmabuf(const struct verbs_memory *memory)
{
    return memory->dmabuf;
}

bool wring_verbs_memory_takes_addresses(const struct verbs_memory *memory)
{
    return memory->addresses;
}

/** Where the list of all regions begins. */
static struct verbs_region **memory_regions(struct verbs_memory *memory)
{
    return &memory->regions;
}

uint64_t wring_verbs_memory_registrations(const struct verbs_memory *memory)
{
    return memory->registrar.made;
}

/** A new registration; what the cache keeps goes where there is no room beside it. */
static enum wring_status create_pin(struct verbs_memory *memory, const struct wring_memory *what,
                                    enum verbs_pin_use use, struct pin **out)
{
    unsigned rail = 0;
    struct pin *pin = calloc(1, sizeof(*pin));
    if (pin == NULL)
        return WRING_ERR_NO_MEMORY;
    pin->base.base = what->base;
    pin->base.bytes = what->bytes;
    int error = register_pin(&memory->registrar, &pin->base, what, use, &rail);
    if (error == ENOMEM && wring_verbs_cache_shrink(&memory->sources, 0))
        error = register_pin(&memory->registrar, &pin->base, what, use, &rail);
    if (error != 0) {
        enum wring_status status =
            log_register_refusal(&memory->registrar, &pin->base, rail, what, error);
        destroy_pin(memory, pin);
        return status;
    }
    *out = pin;
    return WRING_OK;
}

/** Whole pages, so that whatever lies on them shares them: pages are what is locked anyway. */
static struct wring_memory pages_of(const struct verbs_memory *memory,
                                    const struct wring_memory *what)
{
    struct wring_memory pages = *what;
    uintptr_t begin = (uintptr_t)what->base, end = begin + what->bytes;
    size_t before = begin % memory->page,
           after = (memory->page - end % memory->page) % memory->page;
    pages.base = (char *)what->base - before;
    pages.bytes = before + what->bytes + after;
    return pages;
}

static enum wring_status pin_source(struct verbs_memory *memory, const struct wring_memory *what,
                                    struct pin **out)
{
    struct verbs_entry *entry =
        wring_verbs_cache_take(&memory->sources, (uintptr_t)what->base, what->bytes);
    if (entry != NULL) {
        *out = pin_of(entry);
        return WRING_OK;
    }
    const struct wring_memory pages = pages_of(memory, what);
    enum wring_status status = create_pin(memory, &pages, VERBS_PIN_SOURCE, out);
    if (status != WRING_OK)
        return status;
    (*out)->shared = true;
    (*out)->entry.begin = (uintptr_t)pages.base;
    (*out)->entry.end = (uintptr_t)pages.base + pages.bytes;
    wring_verbs_cache_add(&memory->sources, &(*out)->entry);
    return WRING_OK;
}

static enum wring_status pin_alone(struct verbs_memory *memory, const struct wring_memory *what,
                                   enum verbs_pin_use use, struct pin **out)
{
    enum wring_status status = create_pin(memory, what, use, out);
    if (status != WRING_OK)
        return status;
    struct pin *pin = *out;
    pin->next = memory->pins;
    pin->link = &memory->pins;
    if (pin->next != NULL)
        pin->next->link = &pin->next;
    memory->pins = pin;
    return WRING_OK;
}

enum wring_status wring_verbs_pin(struct verbs_memory *memory, const struct wring_memory *what,
                                  enum verbs_pin_use use, struct verbs_pin **out)
{
    struct pin *pin;
    if (what->bytes == 0 || (uintptr_t)what->base + what->bytes < (uintptr_t)what->base)
        return WRING_ERR_INVALID;
    if (what->kind == WRING_MEMORY_DEVICE &&
        !(what->fd >= 0 ? memory->dmabuf : what->by_address && memory->addresses)) {
        wring_info(memory->registrar.params.log,
                   "memory of a GPU was not registered: not every device in use, or not its "
                   "driver, takes it as a dma-buf or by its address; memory of the host is needed");
        return WRING_ERR_UNSUPPORTED;
    }
    /* addresses of other devices are no addresses here: they say nothing about being the same */
    enum wring_status status = use == VERBS_PIN_SOURCE && what->kind != WRING_MEMORY_DEVICE
                                   ? pin_source(memory, what, &pin)
                                   : pin_alone(memory, what, use, &pin);
    if (status == WRING_OK)
        *out = &pin->base;
    return status;
}

void wring_verbs_unpin(struct verbs_memory *memory, struct verbs_pin *base)
{
    struct pin *pin = (struct pin *)base;
    if (pin == NULL)
        return;
    if (pin->shared) {
        wring_verbs_cache_release(&memory->sources, &pin->entry);
        return;
    }
    *pin->link = pin->next;
    if (pin->next != NULL)
        pin->next->link = pin->link;
    destroy_pin(memory, pin);
}

void wring_verbs_memory_gone(struct verbs_memory *memory, const void *base, size_t bytes)
{
    const struct verbs_memory_params *params = &memory->registrar.params;
    for (unsigned i = 0; i < params->n_rails; i++)
        if (params->rails[i].adapter != NULL)
            wring_verbs_shares_gone(params->rails[i].adapter, (uintptr_t)base, bytes);
    wring_verbs_cache_gone(&memory->sources, (uintptr_t)base, bytes);
}

/* ---- region ---- */

/* Regions: what the layer above has of registered memory, and the keys that peers get of them. */

#define KEY_HEAD 16 /* bytes, address; then a key per rail */

enum wring_status wring_verbs_region_create(struct verbs_memory *memory,
                                            struct wring_provider *provider,
                                            const struct wring_memory *what,
                                            struct wring_region **out)
{
    struct verbs_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_ERR_NO_MEMORY;
    *region = (struct verbs_region){
        .base = {.provider = provider, .base = what->base, .bytes = what->bytes}, .memory = memory};
    region->on_device = what->kind == WRING_MEMORY_DEVICE;
    region->use = what->source_only ? VERBS_PIN_SOURCE : VERBS_PIN_TARGET;
    enum wring_status status = wring_verbs_pin(memory, what, region->use, &region->pin);
    if (status != WRING_OK) {
        free(region);
        return status;
    }
    region->link = memory_regions(memory);
    region->next = *region->link;
    if (region->next != NULL)
        region->next->link = &region->next;
    *region->link = region;
    *out = &region->base;
    return WRING_OK;
}

void wring_verbs_region_destroy(struct wring_region *base)
{
    struct verbs_region *region = (struct verbs_region *)base;
    if (region == NULL)
        return;
    *region->link = region->next;
    if (region->next != NULL)
        region->next->link = region->link;
    wring_verbs_unpin(region->memory, region->pin);
    free(region);
}

size_t wring_verbs_region_export(const struct wring_region *base, void *key)
{
    const struct verbs_region *region = (const struct verbs_region *)base;
    size_t bytes = KEY_HEAD;
    if (region->use == VERBS_PIN_SOURCE)
        return 0; /* no peer may write there */
    wring_put_u64(key, base->bytes);
    wring_put_u64((uint8_t *)key + 8, (uintptr_t)base->base);
    for (unsigned i = 0; i < VERBS_RAILS_MAX && region->pin->mrs[i] != NULL; i++, bytes += 4)
        wring_put_u32((uint8_t *)key + bytes, region->pin->mrs[i]->rkey);
    return bytes;
}

bool wring_verbs_key_read(const void *key, size_t key_bytes, unsigned rails, struct verbs_key *out)
{
    struct verbs_key read = {0};
    if (rails < 1 || rails > VERBS_RAILS_MAX || key_bytes != KEY_HEAD + 4 * (size_t)rails)
        return false;
    read.bytes = wring_get_u64(key);
    read.address = wring_get_u64((const uint8_t *)key + 8);
    if (read.bytes == 0 || read.address + read.bytes < read.address)
        return false;
    for (unsigned i = 0; i < rails; i++)
        read.rkeys[i] = wring_get_u32((const uint8_t *)key + KEY_HEAD + 4 * i);
    *out = read;
    return true;
}

/* ---- remote ---- */

enum wring_status wring_verbs_remote_import(struct wring_conn *base, const void *from, size_t bytes,
                                            struct wring_remote **out)
{
    const struct verbs_conn *conn = (const struct verbs_conn *)base;
    struct verbs_key key;
    if (!wring_verbs_stands(conn))
        return WRING_ERR_AGAIN;
    if (!wring_verbs_key_read(from, bytes, conn->offer.n_rails, &key))
        return WRING_ERR_FRAME;
    struct verbs_remote *remote = malloc(sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    *remote = (struct verbs_remote){.base = {base, key.bytes}, .key = key};
    *out = &remote->base;
    return WRING_OK;
}

void wring_verbs_remote_release(struct wring_remote *remote)
{
    free(remote);
}
