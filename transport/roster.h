/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What all ranks say of themselves before they connect, and what follows from it: which of them
 * share a host, and which device leads to which. It is worked out once, in O(ranks); after that
 * each question is answered in O(1), by any thread.
 *
 * Ranks with the same devices that reach alike are of one *kind*: there are few kinds, however many
 * ranks there are. A device is chosen between kinds, and all ranks choose alike.
 */
#ifndef WRING_TRANSPORT_ROSTER_H
#define WRING_TRANSPORT_ROSTER_H

#include <sched.h>

#include "transport/control_tree.h"
#include "transport/fabric.h"

/** As read by wring_description_read(); addresses point into the blobs. */
struct wring_description {
    char host[WRING_CONFIG_TEXT];
    char site[WRING_CONFIG_TEXT]; /* WRING_SITE; "": its host */
    char machine[WRING_CONFIG_TEXT];
    cpu_set_t cores;
    uint32_t n_devices;
    struct {
        char name[WRING_NAME_BYTES];
        const void *address;
        size_t address_bytes;
    } devices[WRING_DEVICES_MAX];
    char lacks[WRING_TEXT_MAX];              /* what it goes without, and why */
    struct wring_control_tree_endpoint tree; /* where control connections come to it */
};

/** Read what wring_fabric_describe() wrote. @return false where it is malformed */
bool wring_description_read(const struct wring_blobs *blobs, uint32_t rank,
                            struct wring_description *out);

/** @return which of its devices has that name, or -1 */
int wring_description_find(const struct wring_description *description, const char *name);

/**
 * Work out fabric->roster from fabric->blobs, and whether ranks are more than cores; close optional
 * devices that lead nowhere. Errors, logged: WRING_ERR_FRAME, WRING_ERR_UNSUPPORTED (two ranks have
 * no device in common), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_roster_make(struct wring_fabric *fabric);

/** Zeroed memory is fine. */
void wring_roster_finish(struct wring_roster *roster);

/** The next device for a peer that the one it has does not reach: the first of the lower rank,
 *  behind that one, which the higher has and which leads to other hosts. @return -1: there is none
 */
int wring_roster_next_device(const struct wring_fabric *fabric, uint32_t rank, uint32_t device);

#endif
