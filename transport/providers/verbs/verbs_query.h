/* SPDX-License-Identifier: Apache-2.0 */
/** What RDMA devices there are: the tables that verbs_select.h chooses from, read from libibverbs.
 */
#ifndef WRING_VERBS_QUERY_H
#define WRING_VERBS_QUERY_H

#include "transport/providers/verbs/verbs_library.h"
#include "transport/providers/verbs/verbs_select.h"

/**
 * Look at every port of every device; nothing stays open.
 *
 * @param with_abilities  try out what the devices can do, too: makes queue pairs and takes a while
 * @param table   out, to be freed with wring_verbs_table_free(); untouched on failure
 * @param reason  out, [bytes], why it cannot be read; written on failure only. No device at all is
 *                such a failure
 */
bool wring_verbs_table_read(const struct verbs_library *library, bool with_abilities,
                            struct verbs_table *table, char *reason, size_t bytes);
void wring_verbs_table_free(struct verbs_table *table);

/** Open the device of that name. @return NULL where it is not there or does not open; errno */
struct ibv_context *wring_verbs_open_named(const struct verbs_library *library, const char *name);

/* verbs_pick.c */

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

/** As wring_provider_ops.probe: is there a port that could be a rail? */
enum wring_status wring_verbs_probe(char *reason, size_t bytes);

/* verbs_place.c */

/**
 * Where devices hang in the machine, seen from this process: fills in place and numa of all ports.
 * Where hwloc cannot tell they stay unknown.
 */
void wring_verbs_place(struct verbs_table *table);

#endif
