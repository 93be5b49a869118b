/* SPDX-License-Identifier: Apache-2.0 */
/** What immediate calls tell the selection of algorithms. */
#ifndef WRING_RUNTIME_GROUP_IMMEDIATE_SELECT_H
#define WRING_RUNTIME_GROUP_IMMEDIATE_SELECT_H

#include "runtime/group/group.h"

/* What a group's allreduces came to: the next one of the same size looks nothing up anew. */

/** @return an earlier raw allreduce of as many elements, all of it but its memory; NULL: none is
 *  kept. It lives as long as the group. Threads: safe. */
const struct wring_work *wring_immediate_find_kept(const struct wring_group *group, uint64_t elems,
                                                   enum wring_dtype dtype, enum wring_op op);

/** Keep a raw allreduce, if there is room. Threads: safe. */
void wring_immediate_keep(struct wring_group *group, const struct wring_work *work);

/** As the group goes. */
void wring_immediate_free_kept(struct wring_group *group);

/** Settle what runs a call, whose description, partition and codec are there. The first allreduce
 *  that WRING_SCHEME would have go hierarchically, if calls did, is logged. */
void wring_immediate_select(struct wring_group *group, struct wring_work *work);

#endif
