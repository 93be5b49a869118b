/* SPDX-License-Identifier: Apache-2.0 */
/** Signs of life, aborts and good-byes between ranks. Part of the fabric. */
#ifndef WRING_TRANSPORT_LIVENESS_H
#define WRING_TRANSPORT_LIVENESS_H

#include "transport/control.h"

/** A control message other than a credit came. */
void wring_liveness_heard(struct wring_fabric *fabric, struct wring_peer *peer,
                          const struct wring_control *control);

/** Send what is due, give up on who is silent, end the telling of a failure. */
void wring_liveness_tick(struct wring_fabric *fabric);

/** When wring_liveness_tick() has something to do next. */
uint64_t wring_liveness_deadline(const struct wring_fabric *fabric);

#endif
