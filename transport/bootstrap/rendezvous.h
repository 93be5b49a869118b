/* SPDX-License-Identifier: Apache-2.0 */
/**
 * wring's own bootstrap: rank 0 listens, the others join it over TCP, and every exchange is
 * gathered and handed out by rank 0. WIRE.md "Rendezvous" has the bytes.
 */
#ifndef WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_H
#define WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_H

#include "base/log.h"
#include <wring/bootstrap.h>
#include <wring/provider.h>

struct wring_rendezvous_params {
    const struct wring_log *log;       /* borrowed for the bootstrap's life */
    uint32_t rank, size;               /* size ≥ 2 */
    const char *root;                  /* "host:port", "[v6]:port" */
    const char *job;                   /* tells jobs with one key apart; NULL or "": nothing does */
    int root_fd;                       /* rank 0, ≥ 0: a listening socket, borrowed; else -1 */
    const char *key;                   /* "" or NULL: no key, loopback only */
    uint64_t deadline_ns;              /* for all to join */
    const struct wring_cancel *cancel; /* may be NULL */
};

/**
 * Join; rank 0 returns when all have joined, the others when they have been let in.
 * Errors: WRING_ERR_INVALID (root), WRING_ERR_ADDRESS, WRING_ERR_AUTH, WRING_ERR_VERSION,
 * WRING_ERR_PEER (who never joined is named), WRING_ERR_CLOSED (called off).
 */
enum wring_status wring_rendezvous_create(const struct wring_rendezvous_params *params,
                                          struct wring_bootstrap **out);

#endif
