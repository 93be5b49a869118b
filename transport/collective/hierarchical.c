/* SPDX-License-Identifier: Apache-2.0 */
/* Legs are posted to the engine, which runs them like any other collective. */
#include "transport/collective/hierarchical.h"

void wring_leg_finished(struct wring_collective *leg, enum wring_status status)
{
    (void)status;
    leg->whole->runnable = true;
}

static bool is_leg_under_way(const struct wring_collective *leg)
{
    return atomic_load_explicit(&leg->status, memory_order_relaxed) == WRING_ERR_AGAIN;
}

/** How many legs of a slice have ended in this step. */
static uint32_t count_ended_legs(const struct wring_slice *slice)
{
    return slice->begun - (slice->begun > 0 && is_leg_under_way(slice->legs[slice->begun - 1]));
}

static void begin_leg(struct wring_collective *collective, struct wring_slice *slice)
{
    struct wring_collective *leg = slice->legs[slice->begun++];

    leg->step = collective->step; /* random numbers go by the bucket's, which a state may set */
    wring_engine_post(collective->engine, leg);
}

/** A slice's first leg waits for that of the slice before; each other one for the leg before it. */
static void begin_next_legs(struct wring_collective *collective)
{
    struct wring_levels *levels = collective->levels;

    for (uint32_t i = 0; i < levels->n; i++) {
        struct wring_slice *slice = &levels->slices[i];
        if (slice->begun == 0 && i > 0 && count_ended_legs(slice - 1) == 0)
            break;
        if (slice->begun < WRING_LEGS && count_ended_legs(slice) == slice->begun)
            begin_leg(collective, slice);
    }
}

static void hierarchical_start(struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->levels->n; i++)
        collective->levels->slices[i].begun = 0;
}

static void hierarchical_advance(struct wring_collective *collective)
{
    const struct wring_levels *levels = collective->levels;

    begin_next_legs(collective);
    for (uint32_t i = 0; i < levels->n; i++)
        if (count_ended_legs(&levels->slices[i]) < WRING_LEGS)
            return;
    wring_engine_finish(collective->engine, collective, WRING_OK);
}

static void hierarchical_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective;
    (void)task; /* jobs are the legs' */
}

/** Its legs are asked themselves. */
static bool hierarchical_owes(const struct wring_collective *collective, uint32_t member)
{
    (void)collective;
    (void)member;
    return false;
}

static bool leg_awaits(const struct wring_collective *leg, uint32_t rank)
{
    uint32_t member = wring_members_find(&leg->members, rank);
    return is_leg_under_way(leg) && member != leg->members.n && leg->work.ops->awaits(leg, member);
}

static bool hierarchical_awaits(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_levels *levels = collective->levels;
    uint32_t rank = collective->members.ranks[member];
    bool any = false;

    for (uint32_t i = 0; i < levels->n; i++) {
        const struct wring_slice *slice = &levels->slices[i];
        any |= slice->begun > 0 && leg_awaits(slice->legs[slice->begun - 1], rank);
    }
    return any;
}

const struct wring_collective_ops wring_hierarchical = {
    .name = "hierarchical",
    .start = hierarchical_start,
    .advance = hierarchical_advance,
    .job_done = hierarchical_job_done,
    .owes = hierarchical_owes,
    .awaits = hierarchical_awaits,
};
