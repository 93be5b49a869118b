/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/group/immediate_kept.h"

#include <stdlib.h>

/** What is kept is never changed or replaced, so that readers need no lock. */
static size_t slot_of(uint64_t elems, enum wring_dtype dtype, enum wring_op op)
{
    uint64_t key = elems << 10 ^ (uint64_t)dtype << 5 ^ (uint64_t)op;
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % WRING_GROUP_KEPT;
}

const struct wring_work *wring_immediate_find_kept(const struct wring_group *group, uint64_t elems,
                                                   enum wring_dtype dtype, enum wring_op op)
{
    const struct wring_work *work =
        atomic_load_explicit(&group->kept[slot_of(elems, dtype, op)], memory_order_acquire);
    if (work == NULL || work->call.elems != elems || work->dtype != dtype || work->op != op)
        return NULL;
    return work;
}

void wring_immediate_keep(struct wring_group *group, const struct wring_work *work)
{
    _Atomic(struct wring_work *) *slot =
        &group->kept[slot_of(work->call.elems, work->dtype, work->op)];
    struct wring_work *none = NULL, *kept;

    if (atomic_load_explicit(slot, memory_order_relaxed) != NULL)
        return;
    kept = malloc(sizeof(*kept));
    if (kept == NULL)
        return; /* then it is worked out each time */
    *kept = *work;
    if (!atomic_compare_exchange_strong(slot, &none, kept))
        free(kept);
}

void wring_immediate_free_kept(struct wring_group *group)
{
    for (size_t i = 0; i < WRING_GROUP_KEPT; i++)
        free(atomic_load(&group->kept[i]));
}
