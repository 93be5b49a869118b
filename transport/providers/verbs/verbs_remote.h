/* SPDX-License-Identifier: Apache-2.0 */
/** What a connection knows of a peer's regions. */
#ifndef WRING_VERBS_REMOTE_H
#define WRING_VERBS_REMOTE_H

#include <wring/provider.h>

#include "transport/providers/verbs/verbs_memory.h"

struct verbs_remote {
    struct wring_remote base;
    struct verbs_key key;
};

/* as wring_provider_ops has them */
enum wring_status wring_verbs_remote_import(struct wring_conn *conn, const void *key, size_t bytes,
                                            struct wring_remote **out);
void wring_verbs_remote_release(struct wring_remote *remote);

#endif
