/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transport/providers/verbs/verbs_query.h"

#define WRING_MODULE "verbs"

enum wring_status wring_verbs_device_open(struct verbs_provider *verbs,
                                          const struct wring_config *config)
{
    const struct verbs_library *library = &verbs->library;
    struct verbs_choice rails[VERBS_RAILS_MAX];
    struct verbs_device *device = &verbs->device;
    size_t n;
    enum wring_status status = wring_verbs_select(
        library, config, (const struct sockaddr *)&verbs->bind, &verbs->log, rails, &n);
    if (status != WRING_OK)
        return status;

    device->context = wring_verbs_open_named(library, rails[0].device);
    if (device->context == NULL ||
        library->query_port(device->context, rails[0].port,
                            (struct _compat_ibv_port_attr *)&device->attr) != 0) {
        wring_error(&verbs->log, "device %s: %s", rails[0].device, strerror(errno));
        return WRING_ERR_DEVICE;
    }
    snprintf(device->name, sizeof(device->name), "%s", rails[0].device);
    device->port = rails[0].port;
    device->gid_index = rails[0].gid.index;
    memcpy(device->gid.raw, rails[0].gid.bytes, sizeof(device->gid.raw));
    return WRING_OK;
}
