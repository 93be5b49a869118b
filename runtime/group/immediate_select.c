/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/group/immediate_select.h"

#include <stdlib.h>

#include "compress/codec.h"
#include "runtime/session/session.h"

#define WRING_MODULE "group"

/** What is kept is never changed or replaced, so that readers need no lock. */
static size_t kept_index(uint64_t elems, enum wring_dtype dtype, enum wring_op op)
{
    uint64_t key = elems << 10 ^ (uint64_t)dtype << 5 ^ (uint64_t)op;
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % WRING_GROUP_KEPT;
}

const struct wring_work *wring_immediate_find_kept(const struct wring_group *group, uint64_t elems,
                                                   enum wring_dtype dtype, enum wring_op op)
{
    const struct wring_work *work =
        atomic_load_explicit(&group->kept[kept_index(elems, dtype, op)], memory_order_acquire);
    if (work == NULL || work->call.elems != elems || work->dtype != dtype || work->op != op)
        return NULL;
    return work;
}

void wring_immediate_keep(struct wring_group *group, const struct wring_work *work)
{
    _Atomic(struct wring_work *) *slot =
        &group->kept[kept_index(work->call.elems, work->dtype, work->op)];
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

/* ---- immediate select ---- */

/** Calls leave the scheme open: WRING_SCHEME is for buckets. */
static struct wring_operation call_operation(const struct wring_group *group,
                                             const struct wring_work *work)
{
    return (struct wring_operation){
        .kind = work->call.kind,
        .dtype = work->dtype,
        .op = work->op,
        .elems = work->partition.elems,
        .elem_bytes = work->partition.elem_bytes,
        .members = group->members.n,
        .scheme = WRING_SCHEME_AUTO,
        .code = work->codec != NULL ? wring_codec_info(work->codec) : NULL,
    };
}

/** Where a call's data lies only its own member knows, so nobody else puts into it or reads it. */
static struct wring_reach call_reach(const struct wring_group *group, const struct wring_work *work)
{
    const struct wring_session *session = group->session;
    const struct wring_fabric *fabric = session->fabric;
    const struct wring_members *members = &group->members;
    bool board = group->pairs.boards;
    uint32_t other = members->ranks[members->n > 1 && members->me == 0];

    return (struct wring_reach){
        .eager_bytes = session->config.flat_bytes,
        .chunk_bytes = session->config.chunk_bytes,
        .piece_elems = work->partition.chunk_elems,
        .mappable = board,
        .boards = board,
        .scratch = true,
        .code_bytes = work->codec != NULL && work->partition.elems <= work->partition.chunk_elems
                          ? wring_codec_bound(work->codec, work->partition.elems)
                          : 0,
        .copies = members->n > 1 && wring_fabric_device(fabric, other)->caps.local_any,
    };
}

/**
 * Calls have no legs: a leg is a collective that all ranks have agreed on, with slots of its own,
 * and which members call otherwise shows in the channels of their whole group only. Who wants legs
 * registers a bucket, or makes the three calls in groups of its own. That is told once.
 */
static void say_calls_go_flat(struct wring_group *group)
{
    struct wring_session *session = group->session;

    group->flat_untold = false;
    if (!atomic_exchange(&session->told_flat, true))
        wring_warn(&session->log,
                   "WRING_SCHEME=%s is for buckets, and immediate calls go flat: register a bucket "
                   "for what is to be summed within nodes first",
                   session->config.scheme);
}

void wring_immediate_select(struct wring_group *group, struct wring_work *work)
{
    struct wring_operation operation = call_operation(group, work);
    struct wring_reach reach = call_reach(group, work);

    if (group->flat_untold && operation.kind == WRING_CALL_ALLREDUCE &&
        operation.elems * operation.elem_bytes > wring_algorithm_eager_limit(&operation, &reach))
        say_calls_go_flat(group);
    wring_work_set_algorithm(work, wring_algorithm_select(&operation, &reach));
}
