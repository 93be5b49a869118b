/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/providers.h"

#include <string.h>

#include "transport/providers/sim/sim.h"
#include <wring/provider.h>

enum wring_status wring_unsupported_region_revoke(struct wring_region *region)
{
    (void)region;
    return WRING_ERR_UNSUPPORTED;
}

enum wring_status wring_unsupported_region_flush(struct wring_region *region, const void *at,
                                                 uint64_t *ticket)
{
    (void)region, (void)at, (void)ticket;
    return WRING_ERR_UNSUPPORTED;
}

enum wring_status wring_unsupported_copy_sources(struct wring_conn *conn)
{
    (void)conn;
    return WRING_ERR_UNSUPPORTED;
}

enum wring_status wring_unsupported_remote_map(struct wring_remote *remote, void **out)
{
    (void)remote, (void)out;
    return WRING_ERR_UNSUPPORTED;
}

enum wring_status wring_unsupported_spoil(struct wring_conn *conn, uint64_t at, uint8_t mask)
{
    (void)conn, (void)at, (void)mask;
    return WRING_ERR_UNSUPPORTED;
}

enum wring_status wring_suits_always(const struct wring_config *config, char *reason, size_t bytes)
{
    (void)config, (void)reason, (void)bytes;
    return WRING_OK;
}

enum wring_status wring_reaches_always(struct wring_provider *provider, const void *one,
                                       size_t one_bytes, const void *other, size_t other_bytes,
                                       char *reason, size_t bytes)
{
    (void)provider, (void)one, (void)one_bytes, (void)other, (void)other_bytes;
    (void)reason, (void)bytes;
    return WRING_OK;
}

size_t wring_reach_kind_none(struct wring_provider *provider, const void *address, size_t bytes,
                             const void **kind)
{
    (void)provider, (void)bytes;
    *kind = address;
    return 0;
}

void wring_nothing_kept(struct wring_provider *provider, const void *base, size_t bytes)
{
    (void)provider, (void)base, (void)bytes;
}

/* ---- providers ---- */

/* Best first, as the fabric tries them; which of them "auto" stands for, it says itself. */
static const struct wring_provider_ops *const providers[] = {
    &wring_provider_shm,
    &wring_provider_verbs,
    &wring_provider_tcp,
    NULL,
};

/* Simulated ranks have no other, and nobody else has it. */
static const struct wring_provider_ops *const simulated[] = {&wring_provider_sim, NULL};

const struct wring_provider_ops *const *wring_provider_list(void)
{
    return wring_sim_here() != NULL ? simulated : providers;
}

const struct wring_provider_ops *wring_provider_for_control(void)
{
    return wring_sim_here() != NULL ? &wring_provider_sim : &wring_provider_tcp;
}

const struct wring_provider_ops *wring_provider_find(const char *name)
{
    const struct wring_provider_ops *const *all = wring_provider_list();
    for (size_t i = 0; all[i] != NULL; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
