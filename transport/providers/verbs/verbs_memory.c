/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/providers/verbs/verbs_ability.h"
#include "transport/providers/verbs/verbs_cache.h"

#define WRING_MODULE "verbs"
#define CACHE_BYTES (UINT64_C(1) << 30) /* where there is no config */

struct verbs_memory {
    struct verbs_memory_params params;
    bool relaxed; /* ordering of peers' writes into targets */
    bool dmabuf;
    size_t page;
    uint64_t registrations; /* made so far */
    uint64_t locked;        /* bytes, of all rails together */
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

/** Take back what rails of it are registered, and free it. */
static void undo(struct verbs_memory *memory, struct pin *pin)
{
    for (unsigned i = 0; i < memory->params.n_rails; i++)
        if (pin->base.mrs[i] != NULL) {
            memory->params.library->dereg_mr(pin->base.mrs[i]);
            memory->locked -= pin->base.bytes;
        }
    free(pin);
}

static void drop_source(void *arg, struct verbs_entry *entry)
{
    undo(arg, pin_of(entry));
}

static bool wants_relaxed(const struct verbs_memory_params *params)
{
    const char *wish = params->config != NULL ? params->config->verbs_relaxed_ordering : "auto";
    bool can = params->library->reg_mr_iova2 != NULL;
    if (strcmp(wish, "on") == 0 && !can)
        wring_warn(params->log, "WRING_VERBS_RELAXED_ORDERING=on: this libibverbs does not know it "
                                "(rdma-core before 28); writes stay in order");
    return can && strcmp(wish, "off") != 0;
}

enum wring_status wring_verbs_memory_create(const struct verbs_memory_params *params,
                                            struct verbs_memory **out)
{
    struct verbs_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    memory->params = *params;
    memory->page = (size_t)sysconf(_SC_PAGESIZE);
    memory->relaxed = wants_relaxed(params);
    memory->sources = (struct verbs_cache){
        .budget = params->config != NULL ? params->config->verbs_cache_bytes : CACHE_BYTES,
        .drop = drop_source,
        .arg = memory,
    };
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

struct verbs_region **wring_verbs_memory_regions(struct verbs_memory *memory)
{
    return &memory->regions;
}

uint64_t wring_verbs_memory_registrations(const struct verbs_memory *memory)
{
    return memory->registrations;
}

/** What a limit on locked memory has to do with it. @param text out, [bytes] */
static void explain_limit(const struct verbs_memory *memory, uint64_t need, char *text,
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
             (uint64_t)limit.rlim_cur, (uint64_t)limit.rlim_cur / 1024, memory->locked, need);
}

/** Say why a rail's device did not take it. */
static enum wring_status refuse(const struct verbs_memory *memory, const struct pin *pin,
                                unsigned rail, enum wring_memory_kind kind, int error)
{
    const struct wring_log *log = memory->params.log;
    const char *device = memory->params.rails[rail].device;
    size_t bytes = pin->base.bytes;
    char limit[384];
    if (error == ENOMEM || error == EAGAIN) {
        explain_limit(memory, (uint64_t)bytes * (memory->params.n_rails - rail), limit,
                      sizeof(limit));
        wring_error(log, "cannot register %zu bytes with %s: %s; %s", bytes, device,
                    strerrordesc_np(error), limit);
        return WRING_ERR_NO_MEMORY;
    }
    bool dmabuf = kind == WRING_MEMORY_DMABUF;
    wring_error(log, "cannot register %zu bytes%s with %s: %s", bytes,
                dmabuf ? " of a dma-buf" : "", device, strerrordesc_np(error));
    if (error == EFAULT || (dmabuf && error == EBADF))
        return WRING_ERR_INVALID; /* nothing is mapped there, or the descriptor is none */
    return dmabuf && (error == EOPNOTSUPP || error == EPROTONOSUPPORT) ? WRING_ERR_UNSUPPORTED
                                                                       : WRING_ERR_DEVICE;
}

static struct ibv_mr *register_one(const struct verbs_memory *memory, unsigned rail,
                                   const struct verbs_pin *pin, const struct wring_memory *what,
                                   enum verbs_pin_use use)
{
    const struct verbs_library *library = memory->params.library;
    struct ibv_pd *pd = memory->params.rails[rail].pd;
    int access = use == VERBS_PIN_SOURCE ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if (use == VERBS_PIN_TARGET && memory->relaxed)
        access |= IBV_ACCESS_RELAXED_ORDERING;

    if (what->kind == WRING_MEMORY_DMABUF)
        return library->reg_dmabuf_mr(pd, what->fd_offset, pin->bytes, (uintptr_t)pin->base,
                                      what->fd, access);
    if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0)
        return library->reg_mr_iova2(pd, pin->base, pin->bytes, (uintptr_t)pin->base,
                                     (unsigned)access);
    return library->reg_mr(pd, pin->base, pin->bytes, access);
}

/** A device, or the kernel, that refuses the flag gets its registrations without it from then on.
 */
static bool give_up_relaxed(struct verbs_memory *memory, unsigned rail, enum verbs_pin_use use,
                            int error)
{
    if (use != VERBS_PIN_TARGET || !memory->relaxed || (error != EINVAL && error != EOPNOTSUPP))
        return false;
    memory->relaxed = false;
    wring_info(memory->params.log,
               "%s refuses relaxed ordering, or the memory: writes stay in order",
               memory->params.rails[rail].device);
    return true;
}

/** Register with each rail. @param rail out, where it failed. @return 0 or an errno */
static int register_all(struct verbs_memory *memory, struct pin *pin,
                        const struct wring_memory *what, enum verbs_pin_use use, unsigned *rail)
{
    for (unsigned i = 0; i < memory->params.n_rails; i++) {
        if (pin->base.mrs[i] != NULL)
            continue; /* of a first try */
        errno = 0;
        pin->base.mrs[i] = register_one(memory, i, &pin->base, what, use);
        if (pin->base.mrs[i] == NULL && give_up_relaxed(memory, i, use, errno))
            pin->base.mrs[i] = register_one(memory, i, &pin->base, what, use);
        if (pin->base.mrs[i] == NULL) {
            *rail = i;
            return errno != 0 ? errno : EIO;
        }
        memory->registrations++;
        memory->locked += pin->base.bytes;
    }
    return 0;
}

/** A new registration; what the cache keeps goes where there is no room beside it. */
static enum wring_status make(struct verbs_memory *memory, const struct wring_memory *what,
                              enum verbs_pin_use use, struct pin **out)
{
    unsigned rail = 0;
    struct pin *pin = calloc(1, sizeof(*pin));
    if (pin == NULL)
        return WRING_ERR_NO_MEMORY;
    pin->base.base = what->base;
    pin->base.bytes = what->bytes;
    int error = register_all(memory, pin, what, use, &rail);
    if (error == ENOMEM && wring_verbs_cache_shrink(&memory->sources, 0))
        error = register_all(memory, pin, what, use, &rail);
    if (error != 0) {
        enum wring_status status = refuse(memory, pin, rail, what->kind, error);
        undo(memory, pin);
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
    enum wring_status status = make(memory, &pages, VERBS_PIN_SOURCE, out);
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
    enum wring_status status = make(memory, what, use, out);
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
    if (what->kind == WRING_MEMORY_DMABUF && !memory->dmabuf) {
        wring_info(memory->params.log, "a dma-buf was not registered: not every device in use, or "
                                       "not its driver, takes them; memory of the host is needed");
        return WRING_ERR_UNSUPPORTED;
    }
    /* addresses of other devices are no addresses here: they say nothing about being the same */
    enum wring_status status = use == VERBS_PIN_SOURCE && what->kind != WRING_MEMORY_DMABUF
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
    undo(memory, pin);
}

void wring_verbs_memory_gone(struct verbs_memory *memory, const void *base, size_t bytes)
{
    wring_verbs_cache_gone(&memory->sources, (uintptr_t)base, bytes);
}
