/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/providers.h"

#include <string.h>

/* Best first, as the fabric tries them; which of them "auto" stands for, it says itself. */
static const struct wring_provider_ops *const providers[] = {
    &wring_provider_shm,
    &wring_provider_verbs,
    &wring_provider_tcp,
    NULL,
};

const struct wring_provider_ops *const *wring_provider_list(void)
{
    return providers;
}

const struct wring_provider_ops *wring_provider_find(const char *name)
{
    for (size_t i = 0; providers[i] != NULL; i++)
        if (strcmp(providers[i]->name, name) == 0)
            return providers[i];
    return NULL;
}
