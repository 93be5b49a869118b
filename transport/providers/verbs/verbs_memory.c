/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_memory.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/providers/verbs/verbs_ability.h"
#include "transport/providers/verbs/verbs_cache.h"
#include "transport/providers/verbs/verbs_register.h"

#define WRING_MODULE "verbs"
#define CACHE_BYTES (UINT64_C(1) << 30) /* where there is no config */

struct verbs_memory {
    struct verbs_registrar registrar;
    bool dmabuf;
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
static void undo(struct verbs_memory *memory, struct pin *pin)
{
    wring_verbs_deregister(&memory->registrar, &pin->base);
    free(pin);
}

static void drop_source(void *arg, struct verbs_entry *entry)
{
    undo(arg, pin_of(entry));
}

enum wring_status wring_verbs_memory_create(const struct verbs_memory_params *params,
                                            struct verbs_memory **out)
{
    struct verbs_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_verbs_registrar_init(&memory->registrar, params);
    memory->page = (size_t)sysconf(_SC_PAGESIZE);
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
    return memory->registrar.made;
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
    int error = wring_verbs_register(&memory->registrar, &pin->base, what, use, &rail);
    if (error == ENOMEM && wring_verbs_cache_shrink(&memory->sources, 0))
        error = wring_verbs_register(&memory->registrar, &pin->base, what, use, &rail);
    if (error != 0) {
        enum wring_status status =
            wring_verbs_register_refused(&memory->registrar, &pin->base, rail, what->kind, error);
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
    if (what->kind == WRING_MEMORY_DEVICE && !memory->dmabuf) {
        wring_info(memory->registrar.params.log,
                   "a dma-buf was not registered: not every device in use, or "
                   "not its driver, takes them; memory of the host is needed");
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
    undo(memory, pin);
}

void wring_verbs_memory_gone(struct verbs_memory *memory, const void *base, size_t bytes)
{
    wring_verbs_cache_gone(&memory->sources, (uintptr_t)base, bytes);
}
