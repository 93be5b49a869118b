/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/rendezvous_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptor.h"

static enum wring_status rendezvous_exchange(struct wring_bootstrap *bootstrap, const void *blob,
                                             size_t bytes, uint64_t deadline_ns,
                                             const struct wring_cancel *cancel,
                                             struct wring_blobs *out)
{
    struct wring_rendezvous *rendezvous = (struct wring_rendezvous *)bootstrap;
    struct wring_patience patience = {deadline_ns, cancel};

    if (bytes > WRING_BLOB_MAX)
        return WRING_ERR_INVALID;
    rendezvous->sequence++;
    if (bootstrap->rank == 0)
        return wring_rendezvous_gather(rendezvous, blob, bytes, &patience, out);

    /* the root knows who is late: give it the time to say so */
    static const uint64_t grace_ns = 5 * WRING_NS_PER_S;
    patience.deadline_ns =
        deadline_ns > WRING_NEVER - grace_ns ? WRING_NEVER : deadline_ns + grace_ns;
    return wring_rendezvous_contribute(rendezvous, blob, bytes, &patience, out);
}

static enum wring_status rendezvous_check(struct wring_bootstrap *bootstrap)
{
    struct wring_rendezvous *rendezvous = (struct wring_rendezvous *)bootstrap;
    return bootstrap->rank == 0 ? wring_rendezvous_find_lost(rendezvous)
                                : wring_rendezvous_hear(rendezvous);
}

static const char *rendezvous_local_address(struct wring_bootstrap *bootstrap)
{
    return ((struct wring_rendezvous *)bootstrap)->local_address;
}

static void rendezvous_close(struct wring_bootstrap *bootstrap)
{
    if (bootstrap == NULL)
        return;
    struct wring_rendezvous *rendezvous = (struct wring_rendezvous *)bootstrap;
    uint32_t n = bootstrap->rank == 0 ? bootstrap->size : 1;
    for (uint32_t i = 0; i < n; i++)
        wring_descriptor_close(rendezvous->fds[i]);
    free(rendezvous->fds);
    free(rendezvous);
}

static const struct wring_bootstrap_ops rendezvous_ops = {
    .name = "rendezvous",
    .exchange = rendezvous_exchange,
    .check = rendezvous_check,
    .local_address = rendezvous_local_address,
    .close = rendezvous_close,
};

/**
 * Our end of the streams that leave this host; where several interfaces serve them, the one that
 * most use. Where none leaves it rank 0 says its end of any, and the others leave it to rank 0:
 * what reaches the root from its own host need not reach it from elsewhere.
 */
static void find_local_address(struct wring_rendezvous *rendezvous)
{
    char here[WRING_RENDEZVOUS_ADDRESS], (*all)[WRING_RENDEZVOUS_ADDRESS];
    uint32_t n = rendezvous->base.rank == 0 ? rendezvous->base.size : 1, found = 0, most = 0;

    all = calloc(n, sizeof(*all));
    for (uint32_t i = 0; i < n && all != NULL; i++) {
        if (rendezvous->fds[i] < 0)
            continue;
        if (wring_rendezvous_local(rendezvous->fds[i], here))
            memcpy(all[found++], here, sizeof(here));
        else if (found == 0 && rendezvous->base.rank == 0)
            memcpy(rendezvous->local_address, here, sizeof(here));
    }
    for (uint32_t i = 0; i < found; i++) {
        uint32_t alike = 0;
        for (uint32_t k = 0; k < found; k++)
            alike += strcmp(all[i], all[k]) == 0;
        if (alike > most)
            memcpy(rendezvous->local_address, all[i], sizeof(here));
        most = alike > most ? alike : most;
    }
    free(all);
}

enum wring_status wring_rendezvous_create(const struct wring_rendezvous_params *params,
                                          struct wring_bootstrap **out)
{
    struct wring_rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));
    uint32_t n = params->rank == 0 ? params->size : 1;
    int *fds = malloc(n * sizeof(*fds));
    uint8_t secret[WRING_SECRET_BYTES];

    if (rendezvous == NULL || fds == NULL) {
        free(rendezvous);
        free(fds);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++)
        fds[i] = -1;
    *rendezvous = (struct wring_rendezvous){
        .base = {&rendezvous_ops, params->rank, params->size, -1}, .log = params->log, .fds = fds};

    const char *key = params->key != NULL ? params->key : "";
    const char *job = params->job != NULL ? params->job : "";
    enum wring_status status =
        wring_secret_derive(key, strlen(key), "wring rendezvous", job, strlen(job), secret);
    if (status == WRING_OK)
        status = params->rank == 0 ? wring_rendezvous_host(rendezvous, params, secret)
                                   : wring_rendezvous_join(rendezvous, params, secret);
    if (status != WRING_OK) {
        rendezvous_close(&rendezvous->base);
        return status;
    }
    find_local_address(rendezvous);
    *out = &rendezvous->base;
    return WRING_OK;
}
