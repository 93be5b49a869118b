/* SPDX-License-Identifier: Apache-2.0 */
/** Signs of life, aborts and good-byes between ranks. Part of the fabric. */
#ifndef WRING_TRANSPORT_LIVENESS_H
#define WRING_TRANSPORT_LIVENESS_H

#include "transport/control.h"
#include "transport/fabric.h"

/* The job's failure, and how this rank tells it to others. Part of the fabric. */

/** Tell all of the fabric's failure. */
void wring_failure_tell(struct wring_fabric *fabric);

/** A control message other than a credit came. */
void wring_liveness_heard(struct wring_fabric *fabric, struct wring_peer *peer,
                          const struct wring_control *control);

/** Over the control tree: a rank speaks, or a neighbour there is lost. @param arg  the fabric */
void wring_liveness_told(void *arg, uint32_t from, const struct wring_control *control);
void wring_liveness_lost(void *arg, uint32_t rank, enum wring_status status, const char *text);

/** Look at the control tree, which enters the kernel. @return true if anything came */
bool wring_liveness_look(struct wring_fabric *fabric);

/** Look at the tree now and then, send what is due, give up on silent ranks, end the telling of
 *  a failure. @return true if anything came by the tree */
bool wring_liveness_tick(struct wring_fabric *fabric);

/** When wring_liveness_tick() has something to do next. */
uint64_t wring_liveness_deadline(const struct wring_fabric *fabric);

/** After wring_fabric_turn_deaf(): has everybody heard our good-bye, or gone? Else those hear it
 * that there was no room for. */
bool wring_liveness_has_parted(struct wring_fabric *fabric);

#endif
