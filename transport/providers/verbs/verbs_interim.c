/* SPDX-License-Identifier: Apache-2.0 */
/** Memory that is registered with every rail, without a cache. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "transport/providers/verbs/verbs_memory.h"

#define WRING_MODULE "verbs"
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define KEY_HEAD 16

struct verbs_memory {
    struct verbs_memory_params params;
    struct verbs_region *regions;
    uint64_t registrations;
};

enum wring_status wring_verbs_memory_create(const struct verbs_memory_params *params,
                                            struct verbs_memory **out)
{
    struct verbs_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    memory->params = *params;
    *out = memory;
    return WRING_OK;
}

void wring_verbs_memory_destroy(struct verbs_memory *memory)
{
    while (memory != NULL && memory->regions != NULL)
        wring_verbs_region_destroy(&memory->regions->base);
    free(memory);
}

bool wring_verbs_memory_takes_dmabuf(const struct verbs_memory *memory)
{
    (void)memory;
    return false;
}

uint64_t wring_verbs_memory_registrations(const struct verbs_memory *memory)
{
    return memory->registrations;
}

enum wring_status wring_verbs_pin(struct verbs_memory *memory, const struct wring_memory *what,
                                  enum verbs_pin_use use, struct verbs_pin **out)
{
    (void)use;
    if (what->kind == WRING_MEMORY_DMABUF)
        return WRING_ERR_UNSUPPORTED;
    struct verbs_pin *pin = calloc(1, sizeof(*pin));
    if (pin == NULL)
        return WRING_ERR_NO_MEMORY;
    pin->base = what->base;
    pin->bytes = what->bytes;
    for (unsigned i = 0; i < memory->params.n_rails; i++) {
        pin->mrs[i] = memory->params.library->reg_mr(memory->params.rails[i].pd, what->base,
                                                     what->bytes, ACCESS);
        if (pin->mrs[i] != NULL) {
            memory->registrations++;
            continue;
        }
        bool limit = errno == ENOMEM;
        wring_error(memory->params.log, "cannot register %zu bytes with %s: %s%s", what->bytes,
                    memory->params.rails[i].device, strerror(errno),
                    limit ? " (locked memory is limited: see ulimit -l)" : "");
        wring_verbs_unpin(memory, pin);
        return limit ? WRING_ERR_NO_MEMORY : WRING_ERR_DEVICE;
    }
    *out = pin;
    return WRING_OK;
}

void wring_verbs_unpin(struct verbs_memory *memory, struct verbs_pin *pin)
{
    for (unsigned i = 0; pin != NULL && i < memory->params.n_rails; i++)
        if (pin->mrs[i] != NULL)
            memory->params.library->dereg_mr(pin->mrs[i]);
    free(pin);
}

void wring_verbs_memory_gone(struct verbs_memory *memory, const void *base, size_t bytes)
{
    (void)memory, (void)base, (void)bytes;
}

enum wring_status wring_verbs_region_create(struct verbs_memory *memory,
                                            struct wring_provider *provider,
                                            const struct wring_memory *what,
                                            struct wring_region **out)
{
    struct verbs_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_verbs_pin(memory, what, VERBS_PIN_TARGET, &region->pin);
    if (status != WRING_OK) {
        free(region);
        return status;
    }
    region->base = (struct wring_region){provider, what->base, what->bytes};
    region->memory = memory;
    region->next = memory->regions;
    memory->regions = region;
    *out = &region->base;
    return WRING_OK;
}

void wring_verbs_region_destroy(struct wring_region *base)
{
    struct verbs_region *region = (struct verbs_region *)base;
    if (region == NULL)
        return;
    for (struct verbs_region **link = &region->memory->regions; *link != NULL;
         link = &(*link)->next)
        if (*link == region) {
            *link = region->next;
            break;
        }
    wring_verbs_unpin(region->memory, region->pin);
    free(region);
}

size_t wring_verbs_region_export(const struct wring_region *base, void *key)
{
    const struct verbs_region *region = (const struct verbs_region *)base;
    uint8_t *to = key;
    unsigned n = region->memory->params.n_rails;
    wring_put_u64(to, base->bytes);
    wring_put_u64(to + 8, (uintptr_t)base->base);
    for (unsigned i = 0; i < n; i++)
        wring_put_u32(to + KEY_HEAD + 4 * i, region->pin->mrs[i]->rkey);
    return KEY_HEAD + 4 * (size_t)n;
}

bool wring_verbs_key_read(const void *key, size_t key_bytes, unsigned rails, struct verbs_key *out)
{
    const uint8_t *from = key;
    if (key_bytes != KEY_HEAD + 4 * (size_t)rails)
        return false;
    struct verbs_key read = {.bytes = wring_get_u64(from), .address = wring_get_u64(from + 8)};
    if (read.bytes == 0 || read.address + read.bytes < read.address)
        return false;
    for (unsigned i = 0; i < rails; i++)
        read.rkeys[i] = wring_get_u32(from + KEY_HEAD + 4 * i);
    *out = read;
    return true;
}
