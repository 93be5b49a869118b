/* SPDX-License-Identifier: Apache-2.0 */
/** What a group's allreduces came to: the next one of the same size looks nothing up anew. */
#ifndef WRING_RUNTIME_IMMEDIATE_KEPT_H
#define WRING_RUNTIME_IMMEDIATE_KEPT_H

#include "runtime/group/group.h"

/** @return an earlier raw allreduce of as many elements, all of it but its memory; NULL: none is
 *  kept. It lives as long as the group. Threads: safe. */
const struct wring_work *wring_immediate_find_kept(const struct wring_group *group, uint64_t elems,
                                                   enum wring_dtype dtype, enum wring_op op);

/** Keep a raw allreduce, if there is room. Threads: safe. */
void wring_immediate_keep(struct wring_group *group, const struct wring_work *work);

/** As the group goes. */
void wring_immediate_free_kept(struct wring_group *group);

#endif
