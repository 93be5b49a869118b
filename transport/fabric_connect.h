/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How one connection comes about, at any time of a session's life. Part of the fabric.
 *
 * Either side dials. The accepting side says WELCOME over the connection that it takes; the
 * dialling one answers with a sign of life. Each side uses the connection once it has heard that,
 * so nothing is ever put into one that the other side drops. Where both dial, the one that the
 * higher rank dialled stays: the lower one takes it and closes its own, and the higher one keeps
 * the lower one's unanswered meanwhile, and takes that if its own comes to nothing.
 *
 * A dial that finds nobody is repeated for a moment, since the control tree tells soon of one that
 * has left or died; one that is answered late is repeated for WRING_PEER_TIMEOUT. After that the
 * next device is dialled, once. A rank on which the job fails lets no new connection stand.
 */
#ifndef WRING_TRANSPORT_FABRIC_CONNECT_H
#define WRING_TRANSPORT_FABRIC_CONNECT_H

#include "transport/control.h"
#include "transport/control_tree.h"
#include "transport/fabric.h"

/** A connection that does not stand yet. */
struct wring_dial {
    struct wring_conn *spare; /* that the lower rank dialled, while we, the higher one, dial it */
    uint32_t spare_device;
    bool taken;                 /* peer->conn is one that the peer dialled: it is to answer */
    uint64_t began_ns;          /* to dial by this device */
    uint64_t there_ns;          /* when it last answered late, or closed; 0: it never has */
    uint64_t redial_ns;         /* when to dial again; 0: a dial is under way */
    bool second;                /* ours goes by another device than the first one, which ... */
    char first[WRING_TEXT_MAX]; /* ... came to nothing: "shm: why" */
};

/**
 * There is something to be sent to a peer that no connection stands to: dial, unless somebody has.
 * Errors: WRING_ERR_AGAIN, until it stands; WRING_ERR_CLOSED: it never will.
 */
enum wring_status wring_connect_dial(struct wring_fabric *fabric, struct wring_peer *peer);

/**
 * An event that is about none of the connections that stand.
 * @return true if its connection stands with it, and the event is to be handled as any other
 */
bool wring_connect_event(struct wring_fabric *fabric, uint32_t device, struct wring_event *event);

/** Tell those that were taken and could not be told yet. */
void wring_connect_welcome(struct wring_fabric *fabric);

/** Dial again, where it is time to. */
void wring_connect_redial(struct wring_fabric *fabric);

/** Nothing is to be sent to it any more: a dial of ours that has not come to anything ends. */
void wring_connect_cancel(struct wring_peer *peer);

/** A peer cannot be reached: the job's failure, or, while the session opens, its mishap. */
__attribute__((format(printf, 4, 5))) void wring_connect_failed(struct wring_fabric *fabric,
                                                                enum wring_status status,
                                                                const struct wring_peer *peer,
                                                                const char *format, ...);

/** Close what leads to it. It is gone. */
void wring_peer_drop(struct wring_peer *peer);

#endif
