/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pieces of groups at their sender: large ones are asked for, and put once they are granted a slot
 * (slot_pool.h).
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_POOL_SEND_H
#define WRING_TRANSPORT_POOL_SEND_H

#include "transport/pool_link.h"

/** A peer granted one of its slots. It may fail the job. */
void wring_pool_send_heard_grant(struct wring_pool *pool, struct wring_peer *peer,
                                 const struct wring_control *control);

/** No pieces of that channel follow: slots that it was granted go back. */
void wring_pool_send_cease(struct wring_channel *channel);

/** Give back what could not be given back. @return whether something is left */
bool wring_pool_send_owed(struct wring_pool_link *link);

#endif
