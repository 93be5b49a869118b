/* SPDX-License-Identifier: Apache-2.0 */
/**
 * In place of the verbs provider, in builds that had no headers of libibverbs. It never opens, so
 * what takes an open provider, or what belongs to one, is there for the table's sake only.
 */
#include <stdio.h>

#include "transport/providers/providers.h"
#include "transport/providers/verbs/devices.h"
#include "transport/providers/verbs/select.h"

#define REASON "built without the headers of libibverbs (package libibverbs-dev)"

static enum wring_status probe(char *reason, size_t bytes)
{
    snprintf(reason, bytes, "%s", REASON);
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status provider_open(const struct wring_provider_params *params,
                                       struct wring_provider **out)
{
    (void)params, (void)out;
    return WRING_ERR_UNSUPPORTED;
}

static void provider_close(struct wring_provider *provider)
{
    (void)provider;
}

static void capabilities(struct wring_provider *provider, struct wring_provider_caps *out)
{
    (void)provider;
    *out = (struct wring_provider_caps){0};
}

static enum wring_status provider_listen(struct wring_provider *provider, void *address,
                                         size_t *bytes)
{
    (void)provider, (void)address, (void)bytes;
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status provider_connect(struct wring_provider *provider, const void *address,
                                          size_t address_bytes, const void *hello,
                                          size_t hello_bytes, struct wring_conn **out)
{
    (void)provider, (void)address, (void)address_bytes, (void)hello, (void)hello_bytes, (void)out;
    return WRING_ERR_UNSUPPORTED;
}

static void disconnect(struct wring_conn *conn)
{
    (void)conn;
}

static enum wring_status region_create(struct wring_provider *provider,
                                       const struct wring_memory *memory, struct wring_region **out)
{
    (void)provider, (void)memory, (void)out;
    return WRING_ERR_UNSUPPORTED;
}

static void region_destroy(struct wring_region *region)
{
    (void)region;
}

static size_t region_export(struct wring_region *region, void *key)
{
    (void)region, (void)key;
    return 0;
}

static enum wring_status remote_import(struct wring_conn *conn, const void *key, size_t key_bytes,
                                       struct wring_remote **out)
{
    (void)conn, (void)key, (void)key_bytes, (void)out;
    return WRING_ERR_UNSUPPORTED;
}

static void remote_release(struct wring_remote *remote)
{
    (void)remote;
}

static enum wring_status put(struct wring_conn *conn, struct wring_region *region,
                             const void *local, struct wring_remote *remote, uint64_t remote_offset,
                             size_t bytes, uint32_t imm, uint64_t cookie)
{
    (void)conn, (void)region, (void)local, (void)remote, (void)remote_offset;
    (void)bytes, (void)imm, (void)cookie;
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status send_message(struct wring_conn *conn, const void *data, size_t bytes)
{
    (void)conn, (void)data, (void)bytes;
    return WRING_ERR_UNSUPPORTED;
}

static size_t provider_poll(struct wring_provider *provider, struct wring_event *events, size_t max)
{
    (void)provider, (void)events, (void)max;
    return 0;
}

static void arm(struct wring_provider *provider, struct wring_wait_set *set)
{
    (void)provider, (void)set;
}

void wring_verbs_survey(const struct wring_config *config, struct verbs_survey *out)
{
    (void)config;
    *out = (struct verbs_survey){.reason = REASON};
}

bool wring_verbs_counters_of(const struct wring_provider *provider,
                             struct wring_verbs_counters *out)
{
    (void)provider, (void)out;
    return false;
}

const struct wring_provider_ops wring_provider_verbs = {
    .name = "verbs",
    .doc = "RDMA over InfiniBand or RoCE through libibverbs",
    .probe = probe,
    .suits = wring_suits_always,
    .open = provider_open,
    .close = provider_close,
    .capabilities = capabilities,
    .listen = provider_listen,
    .reaches = wring_reaches_always,
    .reach_kind = wring_reach_kind_none,
    .connect = provider_connect,
    .disconnect = disconnect,
    .region_create = region_create,
    .region_destroy = region_destroy,
    .region_revoke = wring_unsupported_region_revoke,
    .region_flush = wring_unsupported_region_flush,
    .memory_gone = wring_nothing_kept,
    .region_export = region_export,
    .remote_import = remote_import,
    .remote_release = remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = put,
    .copy_sources = wring_unsupported_copy_sources,
    .send = send_message,
    .spoil = wring_unsupported_spoil,
    .poll = provider_poll,
    .arm = arm,
};
