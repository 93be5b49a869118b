/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_remote.h"

#include <stdlib.h>

#include "transport/providers/verbs/verbs.h"

enum wring_status wring_verbs_remote_import(struct wring_conn *base, const void *from, size_t bytes,
                                            struct wring_remote **out)
{
    const struct verbs_conn *conn = (const struct verbs_conn *)base;
    struct verbs_key key;
    if (!wring_verbs_stands(conn))
        return WRING_ERR_AGAIN;
    if (!wring_verbs_key_read(from, bytes, conn->offer.n_rails, &key))
        return WRING_ERR_FRAME;
    struct verbs_remote *remote = malloc(sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    *remote = (struct verbs_remote){.base = {base, key.bytes}, .key = key};
    *out = &remote->base;
    return WRING_OK;
}

void wring_verbs_remote_release(struct wring_remote *remote)
{
    free(remote);
}
