/* SPDX-License-Identifier: Apache-2.0 */
/** Regions: what the layer above has of registered memory, and the keys that peers get of them. */
#include <stdlib.h>

#include "base/bytes.h"
#include "transport/providers/verbs/verbs_memory.h"

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
    region->link = wring_verbs_memory_regions(memory);
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
