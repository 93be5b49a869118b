/* SPDX-License-Identifier: Apache-2.0 */
/** From the settings and what there is to the rails to open. */
#ifndef WRING_VERBS_PICK_H
#define WRING_VERBS_PICK_H

#include <wring/status.h>

#include "transport/providers/verbs/verbs_library.h"
#include "transport/providers/verbs/verbs_select.h"

struct wring_config;
struct wring_log;

/**
 * Read, choose, and log each choice with its reason.
 *
 * @param bound  what this process listens on; may be NULL
 * @param out    [VERBS_RAILS_MAX]
 * Errors, logged: WRING_ERR_DEVICE with every port and why it was refused; WRING_ERR_INVALID for a
 * malformed list; WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_verbs_select(const struct verbs_library *library,
                                     const struct wring_config *config,
                                     const struct sockaddr *bound, const struct wring_log *log,
                                     struct verbs_choice *out, size_t *n);

/**
 * As wring_provider_ops.suits: is there a port that would be a rail, a device that outdoes tcp, and
 * memory that may be registered? Soft-RoCE does not outdo tcp: it has to be named.
 */
enum wring_status wring_verbs_suits(const struct wring_config *config, char *reason, size_t bytes);

/** As wring_provider_ops.probe: is there a port that could be a rail? */
enum wring_status wring_verbs_probe(char *reason, size_t bytes);

#endif
