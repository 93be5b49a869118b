/* SPDX-License-Identifier: Apache-2.0 */
/** What immediate calls tell the selection of algorithms. */
#ifndef WRING_RUNTIME_IMMEDIATE_SELECT_H
#define WRING_RUNTIME_IMMEDIATE_SELECT_H

#include "runtime/group/group.h"

/** Settle what runs a call, whose description, geometry and codec are there. The first allreduce
 *  that WRING_SCHEME would have go hierarchically, if calls did, is logged. */
void wring_immediate_select(struct wring_group *group, struct wring_work *work);

#endif
