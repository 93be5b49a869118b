/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/group/immediate_scheme.h"
#include "runtime/session/session.h"

#define WRING_MODULE "group"

/** Two members send as much either way, and round once less without. */
static bool has_way_back(const struct wring_codec *codec, uint32_t members)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    return info->flags & WRING_CODEC_TWO_WAYS || (members > 2 && info->unit != 0);
}

const struct wring_collective_ops *wring_immediate_flat(const struct wring_group *group)
{
    return group->collective.mapped != NULL ? &wring_flat_mapped : &wring_flat;
}

static bool is_small(const struct wring_group *group, const struct wring_work *work)
{
    const struct wring_geometry *geometry = &work->geometry;
    return geometry->elems * geometry->elem_bytes <= group->session->config.flat_bytes;
}

static const struct wring_collective_ops *choose(const struct wring_group *group,
                                                 const struct wring_work *work)
{
    if (work->codec != NULL)
        return has_way_back(work->codec, group->members.n) ? &wring_sharded : &wring_gathered;
    if (!is_small(group, work))
        return &wring_sharded;
    if (!wring_flat_takes(&work->geometry, group->members.n))
        return &wring_gathered;
    return wring_immediate_flat(group);
}

/**
 * Calls have no legs: a leg is a collective that all ranks have agreed on, with slots of its own,
 * and which members call otherwise shows in the channels of their whole group only. Who wants legs
 * registers a bucket, or makes the three calls in groups of its own. That is told once.
 */
static void tell_flat(struct wring_group *group)
{
    struct wring_session *session = group->session;

    group->flat_untold = false;
    if (!atomic_exchange(&session->told_flat, true))
        wring_warn(&session->log,
                   "WRING_SCHEME=%s is for buckets, and immediate calls go flat: register a bucket "
                   "for what is to be summed within nodes first",
                   session->config.scheme);
}

const struct wring_collective_ops *wring_immediate_choose(struct wring_group *group,
                                                          const struct wring_work *work)
{
    if (group->flat_untold && !is_small(group, work))
        tell_flat(group);
    return choose(group, work);
}
