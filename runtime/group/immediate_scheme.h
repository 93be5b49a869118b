/* SPDX-License-Identifier: Apache-2.0 */
/** Which state machine an immediate call runs on, by size and codec. */
#ifndef WRING_RUNTIME_IMMEDIATE_SCHEME_H
#define WRING_RUNTIME_IMMEDIATE_SCHEME_H

#include "runtime/group/group.h"

/** Of an allreduce, whose geometry and codec are there. The first one that WRING_SCHEME would have
 *  go hierarchically, if calls did, is logged. */
const struct wring_collective_ops *wring_immediate_choose(struct wring_group *group,
                                                          const struct wring_work *work);

/** Of what is small, and of a barrier. */
const struct wring_collective_ops *wring_immediate_flat(const struct wring_group *group);

#endif
