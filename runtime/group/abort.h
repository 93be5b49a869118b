/* SPDX-License-Identifier: Apache-2.0 */
/** The early end of a group's calls and steps. */
#ifndef WRING_RUNTIME_GROUP_ABORT_H
#define WRING_RUNTIME_GROUP_ABORT_H

#include "runtime/group/group.h"

/** A member has aborted it: what is under way here ends, and nothing begins any more. The engine is
 *  locked. */
void wring_group_cease(struct wring_group *group, uint32_t rank);

#endif
