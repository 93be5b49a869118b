/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/config.h"
#include "base/descriptor.h"
#include "base/refusal.h"
#include "transport/providers/providers.h"
#include "transport/providers/tcp/tcp.h"
#include "transport/providers/verbs/verbs_address.h"
#include "transport/providers/verbs/verbs_listen.h"
#include "transport/providers/verbs/verbs_pick.h"
#include "transport/providers/verbs/verbs_post.h"
#include "transport/providers/verbs/verbs_progress.h"
#include "transport/providers/verbs/verbs_remote.h"

#undef WRING_MODULE /* of the tcp provider, whose notation of addresses is used */
#define WRING_MODULE "verbs"
#define PUT_MAX ((size_t)1 << 31)

static enum wring_status open_memory(struct verbs_provider *verbs,
                                     const struct wring_config *config)
{
    struct verbs_memory_params params = {.library = &verbs->library,
                                         .log = &verbs->log,
                                         .config = config,
                                         .n_rails = verbs->n_rails};
    for (unsigned i = 0; i < verbs->n_rails; i++)
        params.rails[i] =
            (struct verbs_memory_rail){verbs->rails[i].pd, verbs->rails[i].choice.device};
    return wring_verbs_memory_create(&params, &verbs->memory);
}

/** All rails that are chosen have to open. */
static enum wring_status open_rails(struct verbs_provider *verbs, const struct wring_config *config)
{
    struct verbs_choice choices[VERBS_RAILS_MAX];
    size_t n;
    enum wring_status status = wring_verbs_select(
        &verbs->library, config, (const struct sockaddr *)&verbs->bind, &verbs->log, choices, &n);
    verbs->put_max_bytes = PUT_MAX;
    for (unsigned i = 0; status == WRING_OK && i < n; i++) {
        struct verbs_rail *rail = &verbs->rails[verbs->n_rails++];
        *rail = (struct verbs_rail){.provider = verbs, .index = i, .choice = choices[i]};
        status = wring_verbs_rail_open(rail);
        if (rail->max_message < verbs->put_max_bytes)
            verbs->put_max_bytes = rail->max_message;
    }
    return status == WRING_OK ? open_memory(verbs, config) : status;
}

static void provider_close(struct wring_provider *base)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (verbs == NULL)
        return;
    while (verbs->n_conns > 0)
        wring_verbs_remove_conn(verbs, verbs->conns[0]);
    wring_verbs_memory_destroy(verbs->memory);
    while (verbs->n_rails > 0)
        wring_verbs_rail_close(&verbs->rails[--verbs->n_rails]);
    wring_verbs_library_unload(&verbs->library);
    wring_descriptor_close(verbs->listener);
    wring_descriptor_close(verbs->epoll);
    free(verbs->conns);
    explicit_bzero(verbs->secret, sizeof(verbs->secret));
    free(verbs);
}

static enum wring_status fill_provider(struct verbs_provider *verbs, const char *bind,
                                       const struct wring_config *config)
{
    char reason[VERBS_TEXT];
    enum wring_status status =
        wring_tcp_address_parse(&verbs->log, bind, &verbs->bind, &verbs->bind_bytes);
    if (status == WRING_OK)
        status = wring_ports_read(&verbs->log, config->ports, &verbs->ports);
    if (status != WRING_OK)
        return status;
    if (!wring_verbs_library_load(&verbs->library, reason, sizeof(reason))) {
        wring_error(&verbs->log, "%s", reason);
        return WRING_ERR_DEVICE;
    }
    verbs->epoll = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (verbs->epoll < 0) {
        wring_error(&verbs->log, "no epoll descriptor: %s", WRING_REFUSED("epoll_create1"));
        return WRING_ERR_SYSTEM;
    }
    wring_verbs_settings_read(config, &verbs->settings);
    return open_rails(verbs, config);
}

static enum wring_status provider_open(const struct wring_provider_params *params,
                                       struct wring_provider **out)
{
    struct wring_config defaults;
    const struct wring_config *config = params->config;
    if (config == NULL) {
        enum wring_status wrong = wring_config_defaults(&defaults, params->log);
        if (wrong != WRING_OK)
            return wrong;
        config = &defaults;
    }
    struct verbs_provider *verbs = calloc(1, sizeof(*verbs));
    if (verbs == NULL)
        return WRING_ERR_NO_MEMORY;
    verbs->base.ops = &wring_provider_verbs;
    verbs->listener = verbs->epoll = -1;
    verbs->door.module = WRING_MODULE;
    verbs->job_size = params->size;
    if (params->log != NULL)
        verbs->log = *params->log;
    memcpy(verbs->secret, params->secret, sizeof(verbs->secret));
    enum wring_status status =
        fill_provider(verbs, params->bind != NULL ? params->bind : "127.0.0.1", config);
    if (status != WRING_OK) {
        provider_close(&verbs->base);
        return status;
    }
    *out = &verbs->base;
    return WRING_OK;
}

static void provider_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    const struct verbs_provider *verbs = (struct verbs_provider *)base;
    *out = (struct wring_provider_caps){
        .put_max_bytes = verbs->put_max_bytes,
        .put_depth = VERBS_PUTS,
        .put_acked = true,
        .host_regions = true,
        .dmabuf_regions = wring_verbs_memory_takes_dmabuf(verbs->memory),
    };
}

static enum wring_status region_create(struct wring_provider *base,
                                       const struct wring_memory *memory, struct wring_region **out)
{
    return wring_verbs_region_create(((struct verbs_provider *)base)->memory, base, memory, out);
}

static size_t region_export(struct wring_region *region, void *key)
{
    return wring_verbs_region_export(region, key);
}

static void memory_gone(struct wring_provider *base, const void *memory, size_t bytes)
{
    wring_verbs_memory_gone(((struct verbs_provider *)base)->memory, memory, bytes);
}

bool wring_verbs_counters_of(const struct wring_provider *provider,
                             struct wring_verbs_counters *out)
{
    if (provider->ops != &wring_provider_verbs)
        return false;
    const struct verbs_provider *verbs = (const struct verbs_provider *)provider;
    *out = verbs->counters;
    out->registrations = wring_verbs_memory_registrations(verbs->memory);
    return true;
}

const struct wring_provider_ops wring_provider_verbs = {
    .name = "verbs",
    .doc = "RDMA over InfiniBand or RoCE through libibverbs",
    .probe = wring_verbs_probe,
    .suits = wring_verbs_suits,
    .open = provider_open,
    .close = provider_close,
    .capabilities = provider_capabilities,
    .listen = wring_verbs_listen,
    .reaches = wring_verbs_reaches,
    .connect = wring_verbs_connect,
    .disconnect = wring_verbs_disconnect,
    .region_create = region_create,
    .region_destroy = wring_verbs_region_destroy,
    .region_revoke = wring_unsupported_region_revoke,
    .memory_gone = memory_gone,
    .region_export = region_export,
    .remote_import = wring_verbs_remote_import,
    .remote_release = wring_verbs_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = wring_verbs_put,
    .copy_sources = wring_unsupported_copy_sources,
    .send = wring_verbs_send,
    .spoil = wring_unsupported_spoil,
    .poll = wring_verbs_poll,
    .arm = wring_verbs_arm,
};
