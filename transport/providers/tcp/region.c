/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "transport/providers/tcp/tcp.h"

/** A free slot; the table grows where there is none. */
static enum wring_status find_slot(struct tcp_provider *provider, size_t *out)
{
    for (size_t i = 0; i < provider->slot_count; i++)
        if (provider->slots[i].region == NULL && !provider->slots[i].revoked) {
            *out = i;
            return WRING_OK;
        }

    size_t count = provider->slot_count == 0 ? 16 : provider->slot_count * 2;
    struct tcp_slot *slots = reallocarray(provider->slots, count, sizeof(*slots));
    if (slots == NULL || count > UINT32_MAX)
        return WRING_ERR_NO_MEMORY;
    provider->slots = slots;

    /* generations begin anywhere, so that a key of an earlier run names nothing in this one */
    for (size_t i = provider->slot_count; i < count; i++) {
        slots[i].region = NULL;
        slots[i].revoked = false;
        if (getrandom(&slots[i].generation, sizeof(slots[i].generation), 0) !=
            sizeof(slots[i].generation)) {
            wring_error(provider->log, "no random numbers: %s", WRING_REFUSED("getrandom"));
            return WRING_ERR_SYSTEM;
        }
    }
    *out = provider->slot_count;
    provider->slot_count = count;
    return WRING_OK;
}

enum wring_status wring_tcp_region_create(struct wring_provider *base,
                                          const struct wring_memory *memory,
                                          struct wring_region **out)
{
    struct tcp_provider *provider = (struct tcp_provider *)base;
    if (memory->kind == WRING_MEMORY_DEVICE)
        return WRING_ERR_UNSUPPORTED;
    struct tcp_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_ERR_NO_MEMORY;

    size_t index;
    enum wring_status status = find_slot(provider, &index);
    if (status != WRING_OK)
        goto free_region;

    struct tcp_slot *slot = &provider->slots[index];
    slot->region = region;
    slot->generation++;
    *region = (struct tcp_region){
        .base = {.provider = base, .base = memory->base, .bytes = memory->bytes},
        .index = (uint32_t)index,
        .generation = slot->generation,
    };
    *out = &region->base;
    return WRING_OK;

free_region:
    free(region);
    return status;
}

void wring_tcp_region_destroy(struct wring_region *base)
{
    if (base == NULL)
        return;
    struct tcp_region *region = (struct tcp_region *)base;
    struct tcp_provider *provider = (struct tcp_provider *)base->provider;

    /* a peer in the middle of a put would go on writing */
    for (struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (conn->state == TCP_OPEN && conn->receiver.in_frame && conn->receiver.region == region)
            wring_tcp_fail(conn, WRING_ERR_FRAME, "was putting into a region that is gone");

    provider->slots[region->index].region = NULL;
    free(region);
}

/** Its place names nothing else from now on: any peer may name it once more. */
enum wring_status wring_tcp_region_revoke(struct wring_region *base)
{
    struct tcp_region *region = (struct tcp_region *)base;
    struct tcp_provider *provider = (struct tcp_provider *)base->provider;

    for (struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (conn->receiver.region == region) {
            conn->receiver.region = NULL;
            if (conn->receiver.in_frame)
                conn->receiver.target = NULL;
        }
    provider->slots[region->index].region = NULL;
    provider->slots[region->index].revoked = true;
    free(region);
    return WRING_OK;
}

bool wring_tcp_region_is_revoked(const struct tcp_provider *provider, const struct tcp_frame *frame)
{
    if (frame->region >= provider->slot_count)
        return false;
    const struct tcp_slot *slot = &provider->slots[frame->region];
    return slot->revoked && slot->generation == frame->generation;
}

void wring_tcp_regions_drop(struct tcp_provider *provider)
{
    for (size_t i = 0; i < provider->slot_count; i++)
        free(provider->slots[i].region);
    free(provider->slots);
    provider->slots = NULL;
    provider->slot_count = 0;
}

struct tcp_region *wring_tcp_region_find(const struct tcp_provider *provider,
                                         const struct tcp_frame *frame)
{
    if (frame->region >= provider->slot_count)
        return NULL;
    const struct tcp_slot *slot = &provider->slots[frame->region];
    if (slot->region == NULL || slot->generation != frame->generation)
        return NULL;
    size_t bytes = slot->region->base.bytes;
    if (frame->offset > bytes || frame->bytes > bytes - frame->offset)
        return NULL;
    return slot->region;
}

static void put_le(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_le(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

size_t wring_tcp_region_export(struct wring_region *base, void *key)
{
    const struct tcp_region *region = (const struct tcp_region *)base;
    uint8_t *out = key;
    put_le(out, region->index, 4);
    put_le(out + 4, region->generation, 4);
    put_le(out + 8, base->bytes, 8);
    return TCP_REGION_KEY_BYTES;
}

enum wring_status wring_tcp_remote_import(struct wring_conn *conn, const void *key,
                                          size_t key_bytes, struct wring_remote **out)
{
    const uint8_t *in = key;
    if (key_bytes != TCP_REGION_KEY_BYTES)
        return WRING_ERR_FRAME;
    if (((const struct tcp_conn *)conn)->state < TCP_OPEN)
        return WRING_ERR_AGAIN;
    struct tcp_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    remote->base.conn = conn;
    remote->base.bytes = get_le(in + 8, 8);
    remote->index = (uint32_t)get_le(in, 4);
    remote->generation = (uint32_t)get_le(in + 4, 4);
    *out = &remote->base;
    return WRING_OK;
}

void wring_tcp_remote_release(struct wring_remote *remote)
{
    free(remote);
}
