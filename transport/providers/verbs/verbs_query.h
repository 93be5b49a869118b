/* SPDX-License-Identifier: Apache-2.0 */
/** What RDMA devices there are, as tables (verbs_port.h), read from libibverbs. */
#ifndef WRING_VERBS_QUERY_H
#define WRING_VERBS_QUERY_H

#include "transport/providers/verbs/verbs_library.h"
#include "transport/providers/verbs/verbs_port.h"

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

#endif
