/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/pool_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 8

static struct pool_rig *rig_of(const struct wring_conn *conn)
{
    return (struct pool_rig *)(void *)((char *)(uintptr_t)conn - offsetof(struct pool_rig, conn));
}

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct pool_rig *rig = arg;
    (void)module;
    if (level == WRING_LOG_ERROR)
        snprintf(rig->line, sizeof(rig->line), "%s", text);
}

static enum wring_status region_create(struct wring_provider *provider,
                                       const struct wring_memory *memory, struct wring_region **out)
{
    *out = malloc(sizeof(**out));
    if (*out == NULL)
        return WRING_ERR_NO_MEMORY;
    **out =
        (struct wring_region){.provider = provider, .base = memory->base, .bytes = memory->bytes};
    return WRING_OK;
}

static void region_destroy(struct wring_region *region)
{
    free(region);
}

static void memory_gone(struct wring_provider *provider, const void *base, size_t bytes)
{
    (void)provider, (void)base, (void)bytes;
}

static size_t region_export(struct wring_region *region, void *key)
{
    wring_put_u64(key, region->bytes);
    return KEY_BYTES;
}

/** A key says how large the memory is. */
static enum wring_status remote_import(struct wring_conn *conn, const void *key, size_t key_bytes,
                                       struct wring_remote **out)
{
    if (key_bytes != KEY_BYTES)
        return WRING_ERR_FRAME;
    *out = malloc(sizeof(**out));
    if (*out == NULL)
        return WRING_ERR_NO_MEMORY;
    **out = (struct wring_remote){conn, wring_get_u64(key)};
    return WRING_OK;
}

static void remote_release(struct wring_remote *remote)
{
    free(remote);
}

static enum wring_status take_put(struct wring_conn *conn, struct wring_region *region,
                                  const void *local, struct wring_remote *remote, uint64_t offset,
                                  size_t bytes, uint32_t imm, uint64_t cookie)
{
    struct pool_rig *rig = rig_of(conn);
    (void)region, (void)local, (void)cookie;
    if (rig->busy)
        return WRING_ERR_AGAIN;
    if (offset > remote->bytes || bytes > remote->bytes - offset)
        abort(); /* no provider would take it */
    rig->puts++;
    rig->imm = imm;
    rig->offset = offset;
    rig->bytes = bytes;
    return WRING_OK;
}

static enum wring_status take_send(struct wring_conn *conn, const void *data, size_t bytes)
{
    struct pool_rig *rig = rig_of(conn);
    if (rig->busy)
        return WRING_ERR_AGAIN;
    if (!wring_control_parse(data, bytes, &rig->said[rig->n_said % POOL_RIG_SAID]))
        abort(); /* no peer would take it */
    rig->n_said++;
    return WRING_OK;
}

static const struct wring_provider_ops ops = {.name = "none",
                                              .region_create = region_create,
                                              .region_destroy = region_destroy,
                                              .memory_gone = memory_gone,
                                              .region_export = region_export,
                                              .remote_import = remote_import,
                                              .remote_release = remote_release,
                                              .put = take_put,
                                              .send = take_send};
static struct wring_provider provider = {&ops};

static void fill(struct pool_rig *rig)
{
    rig->log = (struct wring_log){keep_line, rig, WRING_LOG_ERROR};
    rig->config.pool_slots = POOL_RIG_SLOTS;
    rig->config.chunk_bytes = POOL_RIG_CHUNK;
    rig->conn.provider = &provider;
    rig->fabric = (struct wring_fabric){.config = &rig->config,
                                        .log = &rig->log,
                                        .size = 2,
                                        .n_devices = 1,
                                        .peers = rig->peers,
                                        .state = WRING_FABRIC_WORKING};
    rig->fabric.devices[0] = (struct wring_device){
        .provider = &provider, .name = "none", .caps = {.local_any = true, .host_regions = true}};
    rig->peers[1] = (struct wring_peer){.rank = 1,
                                        .fabric = &rig->fabric,
                                        .state = WRING_PEER_READY,
                                        .conn = &rig->conn,
                                        .put_copies = true,
                                        .window = {.limit = 1 << 20, .most = 1 << 20}};
    rig->engine =
        (struct wring_engine){.fabric = &rig->fabric, .log = &rig->log, .config = &rig->config};
}

bool pool_rig_make_channel(struct pool_rig *rig)
{
    static const uint32_t ranks[] = {0, 1};
    const struct wring_members members = {.n = 2, .me = 0, .ranks = ranks};

    rig->owner = (struct wring_collective){.engine = &rig->engine, .running = true};
    rig->owner.calls = &rig->calls;
    rig->owner.cease = &rig->cease;
    atomic_store(&rig->cease.status, WRING_OK);
    if (wring_channel_init(&rig->channel, &rig->fabric, members, POOL_RIG_WINDOW, POOL_RIG_CHUNK,
                           NULL) != WRING_OK)
        return false;
    rig->channel.owner = &rig->owner;
    wring_channel_out(&rig->channel, 1)->name.id = WRING_NO_CHANNEL;
    return wring_pool_add(rig->engine.pool, &rig->channel) == WRING_OK;
}

void pool_rig_drop_channel(struct pool_rig *rig)
{
    wring_pool_remove(rig->engine.pool, &rig->channel);
    wring_channel_finish(&rig->channel);
}

void pool_rig_abort(struct pool_rig *rig)
{
    atomic_store(&rig->cease.status, WRING_ERR_CANCELLED);
    wring_pool_cease(rig->engine.pool, &rig->cease);
}

bool pool_rig_is_aborted(const struct pool_rig *rig)
{
    return wring_collective_ceased(&rig->owner) != WRING_OK;
}

struct pool_rig *pool_rig_open(void)
{
    struct pool_rig *rig = calloc(1, sizeof(*rig));
    struct wring_pool_link *link;
    if (rig == NULL)
        return NULL;
    fill(rig);
    if (wring_pool_create(&rig->engine, (size_t)rig->engine.config->chunk_bytes,
                          &rig->engine.pool) == WRING_OK &&
        wring_pool_reach(rig->engine.pool, &rig->peers[1], &link) == WRING_OK &&
        wring_pool_tell(link) == WRING_OK && pool_rig_make_channel(rig))
        return rig;
    pool_rig_close(rig);
    return NULL;
}

void pool_rig_close(struct pool_rig *rig)
{
    if (rig == NULL)
        return;
    if (rig->channel.pool != NULL)
        pool_rig_drop_channel(rig);
    wring_pool_destroy(rig->engine.pool);
    free(rig);
}

struct wring_control pool_rig_link(void)
{
    struct wring_control control = {
        .kind = WRING_CONTROL_LINK, .a = POOL_RIG_SLOTS, .b = POOL_RIG_CHUNK};
    wring_put_u64(control.body, 0);
    wring_put_u32(control.body + 8, KEY_BYTES);
    wring_put_u64(control.body + 12, WRING_POOL_RING * WRING_POOL_SMALL);
    wring_put_u32(control.body + 20, KEY_BYTES);
    wring_put_u64(control.body + 24, POOL_RIG_SLOTS * POOL_RIG_CHUNK);
    control.bytes = 32;
    return control;
}

void pool_rig_connect(struct pool_rig *rig)
{
    struct wring_channel_out *out = wring_channel_out(&rig->channel, 1);
    const struct wring_control control = pool_rig_link();

    if (!rig->engine.pool->links[1]->heard)
        pool_rig_hear(rig, &control);
    out->link = rig->engine.pool->links[1];
    out->name = (struct wring_channel_name){WRING_POOL_ID + 7, 0};
}

void pool_rig_hear(struct pool_rig *rig, const struct wring_control *control)
{
    wring_pool_heard(rig->engine.pool, &rig->peers[1], control);
}

void pool_rig_say(struct pool_rig *rig, enum wring_control_kind kind, uint32_t a, uint32_t b,
                  uint32_t c)
{
    const struct wring_control control = {.kind = kind, .a = a, .b = b, .c = c};
    pool_rig_hear(rig, &control);
}

bool pool_rig_put(struct pool_rig *rig, uint32_t imm, size_t bytes)
{
    uint32_t member;
    return wring_pool_arrived(rig->engine.pool, &rig->peers[1], imm, bytes, &member) != NULL;
}

uint32_t pool_rig_imm(const struct pool_rig *rig, uint32_t sequence)
{
    const struct wring_channel_out out = {.name = rig->channel.name};
    return wring_channel_imm(&rig->channel, &out, sequence);
}

enum wring_status pool_rig_send(struct pool_rig *rig, uint32_t sequence, size_t bytes)
{
    static const uint8_t data[POOL_RIG_CHUNK];
    return wring_pool_put(&rig->channel, 1, sequence, NULL, data, bytes, 0);
}

bool pool_rig_take(struct pool_rig *rig)
{
    size_t bytes;
    if (wring_channel_peek(&rig->channel, 1, &bytes) == NULL)
        return false;
    wring_channel_release(&rig->channel, 1, wring_channel_take(&rig->channel, 1));
    return true;
}
