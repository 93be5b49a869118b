/* SPDX-License-Identifier: Apache-2.0 */
/** What puts are made of: regions, peers' regions, and the put itself, as far as the link. */
#include "transport/providers/fault/fault_private.h"

#include <stdlib.h>

/* Regions are the inner provider's own: nothing is to be delayed there. */

enum wring_status wring_fault_region_create(struct wring_provider *base,
                                            const struct wring_memory *memory,
                                            struct wring_region **out)
{
    return fault_of(base)->inner->ops->region_create(fault_of(base)->inner, memory, out);
}

void wring_fault_region_destroy(struct wring_region *region)
{
    if (region != NULL)
        region->provider->ops->region_destroy(region);
}

enum wring_status wring_fault_region_revoke(struct wring_region *region)
{
    return region->provider->ops->region_revoke(region);
}

size_t wring_fault_region_export(struct wring_region *region, void *key)
{
    return region->provider->ops->region_export(region, key);
}

enum wring_status wring_fault_remote_import(struct wring_conn *base, const void *key,
                                            size_t key_bytes, struct wring_remote **out)
{
    struct wring_provider *inner = fault_of(base->provider)->inner;
    if (fault_conn_of(base)->inner == NULL)
        return WRING_ERR_CLOSED;
    struct fault_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status =
        inner->ops->remote_import(fault_conn_of(base)->inner, key, key_bytes, &remote->inner);
    if (status != WRING_OK) {
        free(remote);
        return status;
    }
    remote->base = (struct wring_remote){base, remote->inner->bytes};
    remote->provider = inner;
    *out = &remote->base;
    return WRING_OK;
}

static void free_if_unused(struct fault_remote *remote)
{
    if (!remote->released || remote->waiting > 0)
        return;
    remote->provider->ops->remote_release(remote->inner);
    free(remote);
}

void wring_fault_remote_drop(struct fault_remote *remote)
{
    remote->waiting--;
    free_if_unused(remote);
}

/** The layer above forgets it; puts that were accepted before go there still. */
void wring_fault_remote_release(struct wring_remote *base)
{
    struct fault_remote *remote = (struct fault_remote *)base;
    if (remote == NULL)
        return;
    remote->released = true;
    free_if_unused(remote);
}

static bool lies_in(const struct wring_region *region, const void *local, size_t bytes)
{
    uintptr_t begin = (uintptr_t)local, base = (uintptr_t)region->base;
    return begin >= base && begin - base <= region->bytes &&
           bytes <= region->bytes - (begin - base);
}

/** What the inner provider would refuse, it refuses too late: the put was accepted by then. */
static bool put_is_sound(const struct wring_provider_caps *caps, const struct wring_region *region,
                         const void *local, const struct wring_remote *remote, uint64_t offset,
                         size_t bytes)
{
    if (bytes > caps->put_max_bytes || (bytes > 0 && local == NULL))
        return false;
    if (offset > remote->bytes || bytes > remote->bytes - offset)
        return false;
    if (bytes == 0)
        return true;
    return region != NULL ? lies_in(region, local, bytes) : caps->local_any;
}

enum wring_status wring_fault_put(struct wring_conn *base, struct wring_region *region,
                                  const void *local, struct wring_remote *remote,
                                  uint64_t remote_offset, size_t bytes, uint32_t imm,
                                  uint64_t cookie)
{
    struct fault_provider *provider = fault_of(base->provider);
    struct wring_remote *inner_remote = ((struct fault_remote *)remote)->inner;
    if (remote->conn != base ||
        !put_is_sound(&provider->caps, region, local, inner_remote, remote_offset, bytes))
        return WRING_ERR_INVALID;
    if (fault_conn_of(base)->closed)
        return WRING_ERR_CLOSED;
    const struct fault_put put = {
        .region = region,
        .local = local,
        .remote = (struct fault_remote *)remote,
        .remote_offset = remote_offset,
        .cookie = cookie,
        .bytes = bytes,
        .imm = imm,
    };
    return wring_fault_queue_put(provider, fault_conn_of(base), &put);
}
