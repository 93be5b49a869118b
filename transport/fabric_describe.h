/* SPDX-License-Identifier: Apache-2.0 */
/** What a rank says of itself before ranks connect: for the fabric's own files. */
#ifndef WRING_TRANSPORT_FABRIC_DESCRIBE_H
#define WRING_TRANSPORT_FABRIC_DESCRIBE_H

#include <sched.h>

#include "transport/control_tree.h"
#include "transport/fabric.h"

/** As read by wring_description_read(); addresses point into the blobs. */
struct wring_description {
    char host[WRING_CONFIG_TEXT];
    char machine[WRING_CONFIG_TEXT];
    cpu_set_t cores;
    uint32_t n_devices;
    struct {
        char name[WRING_NAME_BYTES];
        const void *address;
        size_t address_bytes;
    } devices[WRING_DEVICES_MAX];
    char lacks[WRING_TEXT_MAX];           /* what it goes without, and why */
    struct wring_control_tree_place tree; /* where control connections come to it */
};

/** Read what wring_fabric_describe() wrote. @return false where it is malformed */
bool wring_description_read(const struct wring_blobs *blobs, uint32_t rank,
                            struct wring_description *out);

/** @return which of its devices has that name, or -1 */
int wring_description_find(const struct wring_description *description, const char *name);

#endif
